//! What can go wrong between this process and the server.

use std::io;

use kafka_protocol::ResponseError;

use crate::units::HostPort;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("cannot reach a server at {address}: {reason}; is `strandline serve` running there?")]
    Unreachable { address: HostPort, reason: String },

    #[error("the connection to {address} was lost")]
    Lost { address: HostPort },

    #[error(
        "the server at {address} closed the connection without an answer; if its port speaks TLS, add --tls or \
         --tls-ca FILE"
    )]
    NothingAnswered { address: HostPort },

    #[error(
        "the server at {address} closed the connection at the first request: it asks who you are; add --user NAME"
    )]
    Unknown { address: HostPort },

    #[error("TLS with the server at {address} did not come about: {reason}")]
    Tls { address: HostPort, reason: String },

    #[error(
        "the server at {address} did not let \"{user}\" in: there is no such user, or the password is another"
    )]
    WrongPassword { address: HostPort, user: String },

    #[error("the server at {address} asks nobody who they are; leave out --user")]
    NoLogin { address: HostPort },

    #[error(
        "the server has no rules: it lets everybody do everything; it was not started with --auth required"
    )]
    NoRules,

    #[error("the server at {address} takes no SCRAM password, only {offered}")]
    NoMechanism { address: HostPort, offered: String },

    #[error("what answers at {address} does not speak Kafka as expected: {reason}")]
    Protocol { address: HostPort, reason: String },

    #[error("{what}: {code}{detail}")]
    Refused { what: String, code: ErrorCode, detail: String },

    #[error("topic \"{0}\" does not exist; `strandline topic list` shows those that do")]
    UnknownTopic(String),

    #[error("group \"{0}\" does not exist; `strandline group list` shows those that do")]
    UnknownGroup(String),

    #[error("topic \"{topic}\" has partitions 0 to {last}, not {partition}")]
    UnknownPartition { topic: String, partition: i32, last: i32 },

    #[error("a batch of partition {partition} at offset {offset} cannot be read: {reason}")]
    UnreadableBatch { partition: i32, offset: i64, reason: String },
}

/// An error code of the protocol, which prints as its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode(pub i16);

impl ErrorCode {
    /// None when the code says that all went well.
    pub fn of(code: i16) -> Option<Self> {
        (code != 0).then_some(Self(code))
    }

    pub fn is(self, error: ResponseError) -> bool {
        self.0 == error.code()
    }

    /// Whether the same request may succeed later.
    pub fn is_retriable(self) -> bool {
        ResponseError::try_from_code(self.0).is_some_and(|error| error.is_retriable())
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match ResponseError::try_from_code(self.0) {
            Some(error) => write!(formatter, "{error}"),
            None => write!(formatter, "error code {}", self.0),
        }
    }
}

impl ClientError {
    pub fn unreachable(address: &HostPort, error: &io::Error) -> Self {
        Self::Unreachable { address: address.clone(), reason: error.to_string() }
    }

    /// The server's refusal, with its own words if it gave some.
    pub fn refused(what: impl Into<String>, code: ErrorCode, message: Option<&str>) -> Self {
        let detail = message.map(|message| format!(": {message}")).unwrap_or_default();
        Self::Refused { what: what.into(), code, detail }
    }
}
