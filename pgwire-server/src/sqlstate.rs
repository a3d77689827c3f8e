//! The one place that knows SQLSTATE codes (PostgreSQL, appendix A): every kind of fault of the engine
//! and of the protocol has its code here.

use strandline_engine::ErrorKind;

use crate::encode::EncodeError;
use crate::parameter::ParameterError;
use crate::wire::cursor::MessageError;

/// Five characters that drivers act on; the first two are the class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SqlState(&'static str);

impl SqlState {
    pub(crate) const SUCCESS: Self = Self("00000");
    pub(crate) const WARNING: Self = Self("01000");
    pub(crate) const PROTOCOL_VIOLATION: Self = Self("08P01");
    pub(crate) const FEATURE_NOT_SUPPORTED: Self = Self("0A000");
    pub(crate) const INVALID_PARAMETER_VALUE: Self = Self("22023");
    pub(crate) const FAILED_TRANSACTION: Self = Self("25P02");
    pub(crate) const UNDEFINED_STATEMENT: Self = Self("26000");
    pub(crate) const INVALID_AUTHORIZATION: Self = Self("28000");
    pub(crate) const INVALID_PASSWORD: Self = Self("28P01");
    pub(crate) const UNDEFINED_CURSOR: Self = Self("34000");
    pub(crate) const SYNTAX_ERROR: Self = Self("42601");
    pub(crate) const UNDEFINED_OBJECT: Self = Self("42704");
    pub(crate) const UNDEFINED_PARAMETER: Self = Self("42P02");
    pub(crate) const DUPLICATE_CURSOR: Self = Self("42P03");
    pub(crate) const DUPLICATE_STATEMENT: Self = Self("42P05");
    pub(crate) const TOO_MANY_CONNECTIONS: Self = Self("53300");
    pub(crate) const TOO_MANY_COLUMNS: Self = Self("54011");
    pub(crate) const LIMIT_EXCEEDED: Self = Self("53400");
    pub(crate) const PORTAL_STATE: Self = Self("55000");
    pub(crate) const QUERY_CANCELED: Self = Self("57014");
    pub(crate) const SHUTTING_DOWN: Self = Self("57P01");

    pub(crate) fn code(self) -> &'static str {
        self.0
    }

    /// The class, which counts errors without a counter per code.
    pub(crate) fn class(self) -> &'static str {
        &self.0[..2]
    }
}

impl From<ErrorKind> for SqlState {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Syntax => Self::SYNTAX_ERROR,
            ErrorKind::UndefinedTable => Self("42P01"),
            ErrorKind::PermissionDenied => Self("42501"),
            ErrorKind::UndefinedColumn => Self("42703"),
            ErrorKind::UndefinedFunction => Self("42883"),
            ErrorKind::UndefinedObject => Self::UNDEFINED_OBJECT,
            ErrorKind::UndefinedParameter => Self::UNDEFINED_PARAMETER,
            ErrorKind::AmbiguousColumn => Self("42702"),
            ErrorKind::AmbiguousTable => Self("42P09"),
            ErrorKind::DuplicateAlias => Self("42712"),
            ErrorKind::Grouping => Self("42803"),
            ErrorKind::Windowing => Self("42P20"),
            ErrorKind::DatatypeMismatch => Self("42804"),
            ErrorKind::InvalidReference => Self("42P10"),
            ErrorKind::FeatureNotSupported | ErrorKind::PlanChanged => Self::FEATURE_NOT_SUPPORTED,
            ErrorKind::InvalidDatetime => Self("22007"),
            ErrorKind::InvalidText => Self("22P02"),
            ErrorKind::InvalidParameterValue => Self::INVALID_PARAMETER_VALUE,
            ErrorKind::ReadOnlySetting => Self("55P02"),
            ErrorKind::NumericOutOfRange => Self("22003"),
            ErrorKind::DivisionByZero => Self("22012"),
            ErrorKind::Cardinality => Self("21000"),
            ErrorKind::NegativeLimit => Self("2201W"),
            ErrorKind::NegativeSkip => Self("2201X"),
            ErrorKind::DataException => Self("22000"),
            ErrorKind::TooComplex => Self("54001"),
            ErrorKind::OutOfMemory => Self("53200"),
            ErrorKind::DiskFull => Self("53100"),
            ErrorKind::Canceled | ErrorKind::StatementTimeout => Self::QUERY_CANCELED,
            ErrorKind::FailedTransaction => Self::FAILED_TRANSACTION,
            ErrorKind::ActiveTransaction => Self("25001"),
            ErrorKind::NoTransaction => Self("25P01"),
            ErrorKind::UndefinedSavepoint => Self("3B001"),
            ErrorKind::ProtocolViolation => Self::PROTOCOL_VIOLATION,
            ErrorKind::UndefinedDatabase => Self("3D000"),
            ErrorKind::DataCorrupted => Self("XX001"),
            // A retry takes a new snapshot and may succeed.
            ErrorKind::SnapshotGone => Self("40001"),
            ErrorKind::Unavailable => Self("58030"),
            ErrorKind::ShuttingDown => Self::SHUTTING_DOWN,
            ErrorKind::Internal => Self("XX000"),
        }
    }
}

impl From<&MessageError> for SqlState {
    fn from(error: &MessageError) -> Self {
        match error {
            MessageError::InvalidUtf8 { .. } => Self("22021"),
            MessageError::FormatCode { .. } => Self::INVALID_PARAMETER_VALUE,
            _ => Self::PROTOCOL_VIOLATION,
        }
    }
}

impl From<&ParameterError> for SqlState {
    fn from(error: &ParameterError) -> Self {
        match error {
            ParameterError::InvalidText { .. } => Self("22P02"),
            ParameterError::InvalidDatetime { .. } => Self("22007"),
            ParameterError::OutOfRange { .. } => Self("22003"),
            ParameterError::DatetimeOutOfRange { .. } => Self("22008"),
            ParameterError::InvalidBinary { .. } => Self("22P03"),
            ParameterError::Nul | ParameterError::InvalidUtf8 { .. } => Self("22021"),
            ParameterError::Unsupported { .. } => Self::FEATURE_NOT_SUPPORTED,
        }
    }
}

impl From<&EncodeError> for SqlState {
    fn from(error: &EncodeError) -> Self {
        match error {
            EncodeError::OutOfRange { .. } => Self("22003"),
            EncodeError::Unsupported { .. } => Self::FEATURE_NOT_SUPPORTED,
            EncodeError::RowTooLarge { .. } => Self("54000"),
        }
    }
}
