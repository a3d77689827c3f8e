//! The simple protocol: a text of any number of statements, all results as text.
//!
//! Results of the statements before the one that fails have been sent when it fails.

use strandline_engine::OutputColumn;
use strandline_sql::Parsed;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Connection;
use super::pump::{Pumped, Started, complete_tag};
use super::statement::headers;
use crate::encode::Format;
use crate::error::{Failure, PgError};
use crate::sqlstate::SqlState;
use crate::telemetry::{self, Protocol};

/// The name of the statement and the portal that need none.
pub(super) const UNNAMED: &str = "";

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    pub(super) async fn simple_query(&mut self, text: &str) -> Result<(), Failure> {
        self.statements.remove(UNNAMED);
        self.portals.remove(UNNAMED);
        let parsing = self.session.parse(text);
        let statements = self.interrupts.watch(&mut self.reader, parsing).await??;
        if statements.is_empty() {
            self.output.empty_query();
        }
        for parsed in statements {
            self.simple_statement(parsed).await?;
        }
        Ok(self.ready_for_query().await?)
    }

    async fn simple_statement(&mut self, parsed: Parsed) -> Result<(), Failure> {
        telemetry::statement_started(Protocol::Simple);
        let plan = self.plan(parsed, Vec::new()).await?;
        if !plan.prepared.parameter_types().is_empty() {
            return Err(PgError::new(SqlState::UNDEFINED_PARAMETER, "there is no parameter $1").into());
        }
        match self.start(&plan, Vec::new(), &[]).await? {
            Started::Command { tag } => self.output.command_complete(&tag),
            Started::Rows(mut source) => {
                self.describe_rows(plan.prepared.columns().unwrap_or_default());
                if let Pumped::Finished { rows } = self.pump(&mut source, None).await? {
                    self.output.command_complete(&complete_tag(source.tag, rows));
                }
            }
        }
        Ok(())
    }

    fn describe_rows(&mut self, columns: &[OutputColumn]) {
        let formats = vec![Format::Text; columns.len()];
        self.output.row_description(&headers(columns, &formats));
    }
}
