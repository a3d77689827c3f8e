//! Why a backup or a restore did not come about. Each message is one sentence for the person who
//! asked for it.

use thiserror::Error;

use crate::log::error::OpenError;
use crate::object::StoreError;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BackupError {
    /// The source cannot be read as a log.
    #[error(transparent)]
    Source(#[from] OpenError),
    #[error("{location}: {source}")]
    Target { location: String, source: StoreError },
    #[error("{location}: object {key} is missing although the log refers to it; run `strandline verify`")]
    Missing { location: String, key: String },
    #[error("{location}: it holds another log (cluster {found}), or the backup of one; choose another place")]
    OtherLog { location: String, found: String },
    #[error(
        "{location}: a process has written to it as to a log of its own (object {key}); back up to another place"
    )]
    Diverged { location: String, key: String },
    #[error("{location}: object {key} has {found} bytes, the same object of the source has {expected}")]
    OtherLength { location: String, key: String, found: u64, expected: u64 },
    #[error("{location}: it holds objects that are no backup; choose an empty place")]
    NoPlaceForBackups { location: String },
    #[error("{location}: there is no complete backup here: object \"cluster\" is missing")]
    NoBackup { location: String },
    #[error("{location}: source and target are the same place")]
    SamePlace { location: String },
    #[error("{location}: it is not empty; a restore needs an empty place")]
    NotEmpty { location: String },
}
