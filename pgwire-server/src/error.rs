//! What a client is told when something fails, and what ends a connection.

use pgwire::messages::response::ErrorResponse;
use strandline_engine::EngineError;

use crate::encode::EncodeError;
use crate::parameter::ParameterError;
use crate::sqlstate::SqlState;
use crate::wire::cursor::MessageError;
use crate::wire::frame::FrameError;

/// An error as the protocol reports it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct PgError {
    pub(crate) state: SqlState,
    pub(crate) message: String,
    pub(crate) detail: Option<String>,
    pub(crate) hint: Option<String>,
    /// Where in the text, in characters, counted from 1.
    pub(crate) position: Option<usize>,
}

/// Whether the connection lives on after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Error,
    Fatal,
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Fatal => "FATAL",
        }
    }
}

impl PgError {
    pub(crate) fn new(state: SqlState, message: impl Into<String>) -> Self {
        Self { state, message: message.into(), detail: None, hint: None, position: None }
    }

    pub(crate) fn canceled() -> Self {
        Self::new(SqlState::QUERY_CANCELED, "canceling statement due to user request")
    }

    pub(crate) fn shutting_down() -> Self {
        Self::new(SqlState::SHUTTING_DOWN, "terminating connection due to administrator command")
    }

    pub(crate) fn failed_transaction() -> Self {
        let message = "current transaction is aborted, commands ignored until end of transaction block";
        Self::new(SqlState::FAILED_TRANSACTION, message)
    }

    /// The fields of an ErrorResponse, in PostgreSQL's order.
    pub(crate) fn response(&self, severity: Severity) -> ErrorResponse {
        let mut fields = vec![
            (b'S', severity.name().to_owned()),
            (b'V', severity.name().to_owned()),
            (b'C', self.state.code().to_owned()),
            (b'M', self.message.clone()),
        ];
        let optional = [
            (b'D', self.detail.clone()),
            (b'H', self.hint.clone()),
            (b'P', self.position.map(|position| position.to_string())),
        ];
        fields.extend(optional.into_iter().filter_map(|(code, value)| Some((code, value?))));
        ErrorResponse::new(fields)
    }
}

impl From<EngineError> for PgError {
    fn from(error: EngineError) -> Self {
        Self {
            state: SqlState::from(error.kind),
            message: error.message,
            detail: error.detail,
            hint: error.hint,
            position: error.position,
        }
    }
}

impl From<&MessageError> for PgError {
    fn from(error: &MessageError) -> Self {
        Self::new(SqlState::from(error), error.to_string())
    }
}

impl From<ParameterError> for PgError {
    fn from(error: ParameterError) -> Self {
        Self::new(SqlState::from(&error), error.to_string())
    }
}

impl From<EncodeError> for PgError {
    fn from(error: EncodeError) -> Self {
        Self::new(SqlState::from(&error), error.to_string())
    }
}

/// Why a connection is over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    /// The client said goodbye, or only left.
    #[error("the client is gone")]
    ClientGone,
    #[error("connection failed: {0}")]
    Io(#[from] std::io::Error),
    /// The client is told why before the connection closes.
    #[error("{0}")]
    Fatal(PgError),
}

impl From<FrameError> for Ended {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Io(error) => Self::Io(error),
            FrameError::Truncated => Self::ClientGone,
            FrameError::UnknownType { .. } | FrameError::Length { .. } => {
                Self::Fatal(PgError::new(SqlState::PROTOCOL_VIOLATION, error.to_string()))
            }
        }
    }
}

/// What can go wrong while a message is handled.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The statement failed; the session goes on.
    Statement(PgError),
    Ended(Ended),
}

impl<E: Into<PgError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Statement(error.into())
    }
}

impl From<Ended> for Failure {
    fn from(ended: Ended) -> Self {
        Self::Ended(ended)
    }
}
