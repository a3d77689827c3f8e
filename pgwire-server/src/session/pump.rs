//! Running statements, and moving rows from the engine to the socket.
//!
//! Invariant: at most one batch and one flush of encoded rows are held at a time; a slow client slows
//! the query down.

use strandline_engine::{Execution, RowsTag};
use tokio::io::{AsyncRead, AsyncWrite};

use datafusion::scalar::ScalarValue;

use super::Connection;
use super::portal::RowSource;
use super::statement::{Effect, Plan, spread_formats, wire_columns};
use crate::encode::Format;
use crate::error::{Failure, PgError};
use crate::sqlstate::SqlState;
use crate::telemetry;

/// A statement that has begun.
pub(crate) enum Started {
    Rows(RowSource),
    Command { tag: String },
}

/// Where the pump stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pumped {
    /// The limit is reached; whether rows are left was not looked at.
    Suspended,
    Finished {
        rows: u64,
    },
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    /// Begins a statement; commands are done when this returns.
    pub(super) async fn start(
        &mut self,
        plan: &Plan,
        parameters: Vec<ScalarValue>,
        formats: &[Format],
    ) -> Result<Started, Failure> {
        self.check_effect(&plan.effect)?;
        let running = self.session.execute(&plan.prepared, parameters);
        match self.interrupts.watch(&mut self.reader, running).await?? {
            Execution::Rows { columns, stream, tag, notices } => {
                self.send_notices(&notices);
                let formats = spread_formats(formats, columns.len()).ok_or_else(|| {
                    PgError::new(SqlState::FEATURE_NOT_SUPPORTED, "cached plan must not change result type")
                })?;
                let layout = wire_columns(&columns, &formats);
                Ok(Started::Rows(RowSource::new(stream, tag, layout, self.text_style())))
            }
            // Changed settings are reported together, before the next ReadyForQuery.
            Execution::Command { tag, notices, .. } => {
                self.send_notices(&notices);
                self.apply(&plan.effect);
                Ok(Started::Command { tag })
            }
        }
    }

    fn check_effect(&self, effect: &Effect) -> Result<(), PgError> {
        match effect {
            Effect::Deallocate(Some(name)) if !self.statements.contains_key(name) => {
                let message = format!("prepared statement \"{name}\" does not exist");
                Err(PgError::new(SqlState::UNDEFINED_STATEMENT, message))
            }
            Effect::ClosePortal(Some(name)) if !self.portals.contains_key(name) => {
                let message = format!("cursor \"{name}\" does not exist");
                Err(PgError::new(SqlState::UNDEFINED_CURSOR, message))
            }
            _ => Ok(()),
        }
    }

    fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::None | Effect::RollsBackToSavepoint => {}
            Effect::EndsTransaction | Effect::ClosePortal(None) => self.portals.clear(),
            Effect::DiscardAll => {
                self.portals.clear();
                self.statements.clear();
            }
            Effect::Deallocate(None) => self.statements.clear(),
            Effect::Deallocate(Some(name)) => drop(self.statements.remove(name)),
            Effect::ClosePortal(Some(name)) => drop(self.portals.remove(name)),
        }
    }

    /// Sends up to `limit` rows.
    pub(super) async fn pump(
        &mut self,
        source: &mut RowSource,
        limit: Option<u32>,
    ) -> Result<Pumped, Failure> {
        let mut rows = 0;
        let pumped = loop {
            if limit.is_some_and(|limit| rows >= u64::from(limit)) {
                break Pumped::Suspended;
            }
            if !self.interrupts.watch(&mut self.reader, source.fill()).await?? {
                break Pumped::Finished { rows };
            }
            while source.has_row()
                && !self.output.is_due()
                && limit.is_none_or(|limit| rows < u64::from(limit))
            {
                source.write_row(self.output.buffer())?;
                rows += 1;
            }
            if self.output.is_due() {
                self.interrupts.watch(&mut self.reader, self.output.flush()).await?.map_err(ended)?;
            }
        };
        telemetry::rows_sent(rows);
        Ok(pumped)
    }
}

fn ended(error: std::io::Error) -> Failure {
    Failure::Ended(error.into())
}

/// What CommandComplete says.
pub(crate) fn complete_tag(tag: RowsTag, rows: u64) -> String {
    match tag {
        RowsTag::Select => format!("SELECT {rows}"),
        RowsTag::Show => "SHOW".to_owned(),
        RowsTag::Explain => "EXPLAIN".to_owned(),
    }
}
