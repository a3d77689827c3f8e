//! What can go wrong with a store, by what the caller can do about it.

use std::io;
use std::path::Path;

use thiserror::Error;

/// Why an operation on an object failed. The kinds are told apart by what the caller can do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The key is taken. Whose the object is, only reading it tells.
    #[error("object {key} already exists")]
    AlreadyExists { key: String },
    #[error("object {key} not found")]
    NotFound { key: String },
    /// A passing failure: the same request may be sent again, with the same bytes.
    #[error("store is unavailable for object {key}: {reason}")]
    Unavailable { key: String, reason: String },
    /// Rights or credentials are missing: the same request will fail again until they change.
    #[error("access to object {key} is denied: {reason}")]
    Denied { key: String, reason: String },
    /// Nothing was stored, and nothing will be before space is made.
    #[error("no space left for object {key}: {reason}")]
    NoSpace { key: String, reason: String },
    /// The local disk broke a promise (a failed fsync or link). What is read back can no longer be
    /// trusted, so the process must end.
    #[error("local disk failed at {path}: {reason}")]
    LocalFailed { path: String, reason: String },
    /// The request itself makes no sense to the store.
    #[error("object key {key} is invalid: {reason}")]
    Invalid { key: String, reason: String },
}

/// The kinds of [`StoreError`] without their details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreErrorKind {
    AlreadyExists,
    NotFound,
    Unavailable,
    Denied,
    NoSpace,
    LocalFailed,
    Invalid,
}

impl StoreErrorKind {
    /// A word for metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AlreadyExists => "already_exists",
            Self::NotFound => "not_found",
            Self::Unavailable => "unavailable",
            Self::Denied => "denied",
            Self::NoSpace => "no_space",
            Self::LocalFailed => "local_failed",
            Self::Invalid => "invalid",
        }
    }
}

impl StoreError {
    pub fn kind(&self) -> StoreErrorKind {
        match self {
            Self::AlreadyExists { .. } => StoreErrorKind::AlreadyExists,
            Self::NotFound { .. } => StoreErrorKind::NotFound,
            Self::Unavailable { .. } => StoreErrorKind::Unavailable,
            Self::Denied { .. } => StoreErrorKind::Denied,
            Self::NoSpace { .. } => StoreErrorKind::NoSpace,
            Self::LocalFailed { .. } => StoreErrorKind::LocalFailed,
            Self::Invalid { .. } => StoreErrorKind::Invalid,
        }
    }

    /// True when sending the same request again may succeed without anybody's help.
    pub fn is_transient(&self) -> bool {
        self.kind() == StoreErrorKind::Unavailable
    }

    pub(super) fn unavailable(key: &str, reason: impl ToString) -> Self {
        Self::Unavailable { key: key.to_owned(), reason: reason.to_string() }
    }

    pub(super) fn invalid(key: &str, reason: impl ToString) -> Self {
        Self::Invalid { key: key.to_owned(), reason: reason.to_string() }
    }

    pub(super) fn local_failed(path: &Path, reason: impl ToString) -> Self {
        Self::LocalFailed { path: path.display().to_string(), reason: reason.to_string() }
    }
}

/// Why a store could not be opened. Each message is one sentence for the person who started it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    #[error(
        "data directory {path} is in use by another strandline process; stop it, or choose another --data"
    )]
    InUse { path: String },
    #[error("data directory {path} does not exist")]
    NotFound { path: String },
    #[error("data directory {path} is not a directory")]
    NotADirectory { path: String },
    #[error("data directory {path} is not accessible for this user: {reason}")]
    Denied { path: String, reason: String },
    #[error("data directory {path} is on a read-only file system: {reason}")]
    ReadOnly { path: String, reason: String },
    #[error("data directory {path} has no space left: {reason}")]
    NoSpace { path: String, reason: String },
    #[error("data directory {path} cannot be opened: {reason}")]
    Failed { path: String, reason: String },
    #[error("data location {location} cannot be used: {reason}")]
    Settings { location: String, reason: String },
    #[error("--data {location}: {reason}")]
    Unsupported { location: String, reason: String },
}

impl OpenError {
    /// Sorts a failure of the operating system by what the person at the terminal can do about it.
    pub(super) fn from_io(root: &Path, error: &io::Error) -> Self {
        let path = root.display().to_string();
        let reason = error.to_string();
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path },
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => Self::NotADirectory { path },
            io::ErrorKind::PermissionDenied => Self::Denied { path, reason },
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path, reason },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace { path, reason },
            _ => Self::Failed { path, reason },
        }
    }
}
