//! The one error type of this crate: a kind that a caller can act on, a message, and where in the
//! text it is. SQLSTATE codes are not known here; the wire front end maps the kinds.

/// What kind of fault a statement has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlErrorKind {
    /// The text is not SQL.
    Syntax,
    /// A relation that is named does not exist.
    UndefinedTable,
    /// A column that is named does not exist.
    UndefinedColumn,
    /// A function that is named does not exist.
    UndefinedFunction,
    /// A type or other object that is named does not exist.
    UndefinedObject,
    /// A column name fits several columns.
    AmbiguousColumn,
    /// A table name fits several tables that differ in case only.
    AmbiguousTable,
    /// Two tables of one FROM clause have the same name.
    DuplicateAlias,
    /// SQL that is not supported.
    FeatureNotSupported,
    /// A time that cannot be read.
    InvalidDatetime,
    /// A number, boolean or other value that cannot be read.
    InvalidText,
    /// A parameter whose value is outside what is allowed.
    InvalidParameter,
    /// A name that cannot be used where it stands.
    InvalidReference,
    /// A statement that is larger than the limits.
    TooComplex,
}

/// Why a statement was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SqlError {
    /// What a caller can act on.
    pub kind: SqlErrorKind,
    /// What is wrong, for a person.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Where in the text of all statements, in characters, counted from 1.
    pub position: Option<usize>,
}

impl SqlError {
    /// An error without hint and position.
    pub fn new(kind: SqlErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, position: None }
    }

    /// SQL that is not supported; `what` names it ("INSERT").
    pub fn unsupported(what: impl std::fmt::Display) -> Self {
        Self::new(SqlErrorKind::FeatureNotSupported, format!("{what} is not supported"))
    }

    /// The same error with advice.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same error with a place in the text, unless it has one already.
    #[must_use]
    pub fn at(mut self, position: Option<usize>) -> Self {
        self.position = self.position.or(position);
        self
    }
}
