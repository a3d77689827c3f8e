//! The one error type of this crate: a kind that a caller can act on, and what to tell a person.
//!
//! Invariant: no SQLSTATE is known here; the wire front end maps each kind to one.

mod datafusion_error;
mod rephrase;
mod text;

use strandline_sql::{SqlError, SqlErrorKind};

/// What kind of fault a statement met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    Syntax,
    UndefinedTable,
    /// Something that the session may not do with what it names.
    PermissionDenied,
    UndefinedColumn,
    UndefinedFunction,
    /// A setting, type or other object that does not exist.
    UndefinedObject,
    UndefinedParameter,
    AmbiguousColumn,
    AmbiguousTable,
    DuplicateAlias,
    /// A column outside of GROUP BY and of an aggregate.
    Grouping,
    /// A window function where none can stand.
    Windowing,
    DatatypeMismatch,
    InvalidReference,
    FeatureNotSupported,
    /// The columns of a prepared statement are no longer those that were described.
    PlanChanged,
    InvalidDatetime,
    /// Text that is no value of the type it is used as.
    InvalidText,
    InvalidParameterValue,
    /// A setting that cannot be changed.
    ReadOnlySetting,
    NumericOutOfRange,
    DivisionByZero,
    /// Several rows where one is needed.
    Cardinality,
    /// A LIMIT below zero.
    NegativeLimit,
    /// An OFFSET below zero.
    NegativeSkip,
    /// Other faults in the data of a running statement.
    DataException,
    TooComplex,
    OutOfMemory,
    DiskFull,
    /// The user or the client asked to stop.
    Canceled,
    StatementTimeout,
    /// The transaction block has failed; only its end is accepted.
    FailedTransaction,
    /// The statement needs to be outside of a transaction block.
    ActiveTransaction,
    /// The statement needs a transaction block.
    NoTransaction,
    UndefinedSavepoint,
    /// Parameters that do not match the statement's.
    ProtocolViolation,
    UndefinedDatabase,
    DataCorrupted,
    /// Records that the statement's snapshot has were removed by another process.
    SnapshotGone,
    /// The store cannot be reached.
    Unavailable,
    ShuttingDown,
    Internal,
}

/// Why a statement failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EngineError {
    pub kind: ErrorKind,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// Where in the text, in characters, counted from 1.
    pub position: Option<usize>,
}

impl EngineError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), detail: None, hint: None, position: None }
    }

    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn canceled() -> Self {
        Self::new(ErrorKind::Canceled, "canceling statement due to user request")
    }

    pub(crate) fn timed_out() -> Self {
        Self::new(ErrorKind::StatementTimeout, "canceling statement due to statement timeout")
    }

    pub(crate) fn shutting_down() -> Self {
        Self::new(ErrorKind::ShuttingDown, "the query engine is shutting down")
    }

    pub(crate) fn failed_transaction() -> Self {
        let message = "current transaction is aborted, commands ignored until end of transaction block";
        Self::new(ErrorKind::FailedTransaction, message)
    }
}

impl From<SqlError> for EngineError {
    fn from(error: SqlError) -> Self {
        let kind = match error.kind {
            SqlErrorKind::Syntax => ErrorKind::Syntax,
            SqlErrorKind::UndefinedTable => ErrorKind::UndefinedTable,
            SqlErrorKind::UndefinedColumn => ErrorKind::UndefinedColumn,
            SqlErrorKind::UndefinedFunction => ErrorKind::UndefinedFunction,
            SqlErrorKind::UndefinedObject => ErrorKind::UndefinedObject,
            SqlErrorKind::AmbiguousColumn => ErrorKind::AmbiguousColumn,
            SqlErrorKind::AmbiguousTable => ErrorKind::AmbiguousTable,
            SqlErrorKind::DuplicateAlias => ErrorKind::DuplicateAlias,
            SqlErrorKind::FeatureNotSupported => ErrorKind::FeatureNotSupported,
            SqlErrorKind::InvalidDatetime => ErrorKind::InvalidDatetime,
            SqlErrorKind::InvalidText => ErrorKind::InvalidText,
            SqlErrorKind::InvalidParameter => ErrorKind::InvalidParameterValue,
            SqlErrorKind::InvalidReference => ErrorKind::InvalidReference,
            SqlErrorKind::TooComplex => ErrorKind::TooComplex,
        };
        Self { kind, message: error.message, detail: None, hint: error.hint, position: error.position }
    }
}
