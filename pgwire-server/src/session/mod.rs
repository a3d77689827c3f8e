//! One connection after startup: reads messages in order, answers each, and keeps the named things of the
//! session (prepared statements, portals).
//!
//! Invariants: ReadyForQuery follows a simple query and a Sync, and nothing else; after an error in the
//! extended protocol everything up to the next Sync is skipped; a portal does not outlive its transaction;
//! whatever ends the connection stops its statement, because nothing here runs in a task of its own.

pub(crate) mod authentication;
mod extended;
mod interrupt;
mod portal;
mod pump;
mod simple;
pub(crate) mod startup;
mod statement;

use std::collections::HashMap;
use std::sync::Arc;

use pgwire::messages::response::TransactionStatus as WireStatus;
use strandline_engine::{Notice, NoticeSeverity, Session, TransactionStatus};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::cancel::CancelSlot;
use crate::encode::{TextStyle, TimeZone};
use crate::error::{Ended, Failure, PgError, Severity};
use crate::settings::PgSettings;
use crate::sqlstate::SqlState;
use crate::wire::frame::{Frame, FrameReader};
use crate::wire::frontend::Frontend;
use crate::wire::output::Output;
use interrupt::Interrupts;
use portal::Portal;
use statement::PreparedStatement;

/// Everything that a connection has once it is a session.
pub(crate) struct Connection<R, W> {
    reader: FrameReader<R>,
    output: Output<W>,
    session: Session,
    settings: Arc<PgSettings>,
    cancel: CancelSlot,
    interrupts: Interrupts,
    statements: HashMap<String, Arc<PreparedStatement>>,
    portals: HashMap<String, Portal>,
    /// The settings that the client was told of, with the values it knows.
    reported: Vec<(String, String)>,
    mode: Mode,
}

/// What becomes of the next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Answering,
    /// A message of the extended protocol failed.
    SkippingToSync,
}

/// The parts that startup puts together.
pub(crate) struct ConnectionParts<R, W> {
    pub(crate) reader: FrameReader<R>,
    pub(crate) output: Output<W>,
    pub(crate) session: Session,
    pub(crate) settings: Arc<PgSettings>,
    pub(crate) cancel: CancelSlot,
    pub(crate) shutdown: CancellationToken,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    pub(crate) fn new(parts: ConnectionParts<R, W>) -> Self {
        Self {
            reader: parts.reader,
            output: parts.output,
            session: parts.session,
            settings: parts.settings,
            cancel: parts.cancel,
            interrupts: Interrupts::new(parts.shutdown),
            statements: HashMap::new(),
            portals: HashMap::new(),
            reported: Vec::new(),
            mode: Mode::Answering,
        }
    }

    /// Serves the client until it leaves, breaks the protocol, or the server stops. Both halves of the
    /// connection come back, with what is left to be sent.
    pub(crate) async fn run(mut self) -> (Ended, FrameReader<R>, Output<W>) {
        let ended = match self.ready_for_query().await {
            Ok(()) => self.serve_messages().await,
            Err(ended) => ended,
        };
        if let Ended::Fatal(error) = &ended {
            self.output.error(error, Severity::Fatal);
        }
        (ended, self.reader, self.output)
    }

    async fn serve_messages(&mut self) -> Ended {
        loop {
            let frame = match self.next_frame().await {
                Ok(Some(frame)) => frame,
                Ok(None) => return Ended::ClientGone,
                Err(ended) => return ended,
            };
            if self.mode == Mode::SkippingToSync && !matches!(frame.tag, b'S' | b'X') {
                continue;
            }
            if let Err(ended) = self.answer(frame).await {
                return ended;
            }
        }
    }

    async fn next_frame(&mut self) -> Result<Option<Frame>, Ended> {
        tokio::select! {
            biased;
            () = self.interrupts.server_stops() => Err(Ended::Fatal(PgError::shutting_down())),
            frame = self.reader.next() => Ok(frame?),
        }
    }

    /// Handles one message and reports its failure.
    async fn answer(&mut self, frame: Frame) -> Result<(), Ended> {
        let tag = frame.tag;
        self.interrupts.statement_begins(self.cancel.begin());
        let handled = self.handle(frame).await;
        self.cancel.end();
        match handled {
            Ok(()) => Ok(()),
            Err(Failure::Ended(ended)) => Err(ended),
            Err(Failure::Statement(error)) => self.fail(&error, tag).await,
        }
    }

    async fn handle(&mut self, frame: Frame) -> Result<(), Failure> {
        let message = match Frontend::decode(frame) {
            Ok(message) => message,
            Err(error) if error.is_framing() => return Err(Ended::Fatal(PgError::from(&error)).into()),
            Err(error) => return Err(PgError::from(&error).into()),
        };
        match message {
            Frontend::Query(text) => self.simple_query(&text).await,
            Frontend::Parse(parse) => self.parse(parse).await,
            Frontend::Bind(bind) => self.bind(bind),
            Frontend::Describe(target) => self.describe(&target),
            Frontend::Close(target) => {
                self.close(&target);
                Ok(())
            }
            Frontend::Execute { portal, max_rows } => self.execute(&portal, max_rows).await,
            Frontend::Flush => Ok(self.flush().await?),
            Frontend::Sync => Ok(self.sync().await?),
            Frontend::Terminate => Err(Ended::ClientGone.into()),
            Frontend::Copy => Ok(()),
            Frontend::Unexpected { what } => {
                let message = format!("{what} is not expected here");
                Err(Ended::Fatal(PgError::new(SqlState::PROTOCOL_VIOLATION, message)).into())
            }
        }
    }

    async fn fail(&mut self, error: &PgError, tag: u8) -> Result<(), Ended> {
        tracing::debug!(code = error.state.code(), %error, "statement failed");
        self.output.error(error, Severity::Error);
        self.session.fail_transaction();
        self.portals.clear();
        if Frontend::is_extended(tag) {
            self.mode = Mode::SkippingToSync;
            Ok(())
        } else {
            self.ready_for_query().await
        }
    }

    async fn sync(&mut self) -> Result<(), Ended> {
        self.mode = Mode::Answering;
        self.ready_for_query().await
    }

    /// The end of a round: without a transaction block the transaction ends here, and its portals too.
    async fn ready_for_query(&mut self) -> Result<(), Ended> {
        let status = match self.session.transaction_status() {
            TransactionStatus::Idle => {
                self.portals.clear();
                WireStatus::Idle
            }
            TransactionStatus::InTransaction => WireStatus::Transaction,
            TransactionStatus::Failed => WireStatus::Error,
        };
        self.report_settings();
        self.output.ready_for_query(status);
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), Ended> {
        tokio::select! {
            biased;
            flushed = self.output.flush() => Ok(flushed?),
            () = self.interrupts.server_stops() => Err(Ended::Fatal(PgError::shutting_down())),
        }
    }

    fn send_notices(&mut self, notices: &[Notice]) {
        for notice in notices {
            match notice.severity {
                NoticeSeverity::Notice => self.output.notice("NOTICE", SqlState::SUCCESS, &notice.message),
                NoticeSeverity::Warning => self.output.notice("WARNING", SqlState::WARNING, &notice.message),
            }
        }
    }

    /// Tells the client of the settings that it wants to know and that have changed, by whatever way.
    fn report_settings(&mut self) {
        let settings = self.session.reported_settings();
        for (name, value) in &settings {
            if !self.reported.iter().any(|known| known.0 == *name && known.1 == *value) {
                self.output.parameter_status(name, value);
            }
        }
        self.reported = settings;
    }

    /// How values are printed from now on.
    fn text_style(&self) -> TextStyle {
        let zone = TimeZone::parse(&self.session.time_zone()).unwrap_or_else(TimeZone::utc);
        let float_digits =
            self.session.setting("extra_float_digits").and_then(|digits| digits.parse().ok()).unwrap_or(1);
        TextStyle { zone, float_digits }
    }
}
