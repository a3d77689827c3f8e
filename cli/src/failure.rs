//! How a command ends when it does not succeed, and the exit code that says so.
//!
//! 0 success, 1 damage or failure, 2 usage, 3 cannot reach the server.

use std::fmt;
use std::io;
use std::process::ExitCode;

use crate::kafka_client::ClientError;

/// Why a command did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// The command ran and did not do all that was asked.
    Failed(anyhow::Error),
    /// What was asked makes no sense as it stands.
    Usage(String),
    /// The server cannot be reached.
    Unreachable(String),
    /// Whoever read the output has gone, as `head` does. That is how they say "enough".
    OutputClosed,
}

impl Failure {
    pub fn failed(message: impl fmt::Display) -> Self {
        Self::Failed(anyhow::anyhow!("{message}"))
    }

    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Failed(_) => ExitCode::from(1),
            Self::Usage(_) => ExitCode::from(2),
            Self::Unreachable(_) => ExitCode::from(3),
            Self::OutputClosed => ExitCode::SUCCESS,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => write!(formatter, "{error:#}"),
            Self::Usage(message) | Self::Unreachable(message) => formatter.write_str(message),
            Self::OutputClosed => formatter.write_str("the output was closed"),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

/// An error of writing output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::OutputClosed
        } else {
            Self::Failed(anyhow::anyhow!("cannot write the output: {error}"))
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Unreachable { .. } | ClientError::Lost { .. } => {
                Self::Unreachable(error.to_string())
            }
            _ => Self::Failed(error.into()),
        }
    }
}
