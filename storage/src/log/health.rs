//! Whether a log still serves, and if not, why.

use thiserror::Error;

use super::error::WriteError;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Health {
    #[error("serving")]
    Serving,
    #[error("serving reads only")]
    ReadOnly,
    /// The store is full, or denies access. Writes go on by themselves when that is mended.
    #[error("refusing writes: {reason}")]
    Refusing { reason: String },
    /// Another process has claimed the shard. It is never claimed back: the process should end.
    #[error("fenced: {by} has taken over")]
    Fenced { by: String },
    #[error("failed: {reason}")]
    Failed { reason: String },
    #[error("closed")]
    Closed,
}

impl Health {
    /// Whether nothing more can be written, for good.
    pub fn is_stopped(&self) -> bool {
        match self {
            Self::Serving | Self::ReadOnly | Self::Refusing { .. } => false,
            Self::Fenced { .. } | Self::Failed { .. } | Self::Closed => true,
        }
    }

    /// What a writer is told.
    pub(super) fn write_error(&self) -> WriteError {
        match self {
            // What was asked of a log that serves gets no answer only when all that waited was dropped.
            Self::Serving => WriteError::Reopening { reason: "a commit before this one failed".to_owned() },
            Self::Closed => WriteError::Closed,
            Self::ReadOnly => WriteError::ReadOnly,
            Self::Refusing { reason } => WriteError::Refused { reason: reason.clone() },
            Self::Fenced { by } => WriteError::Fenced { by: by.clone() },
            Self::Failed { reason } => WriteError::Failed { reason: reason.clone() },
        }
    }
}
