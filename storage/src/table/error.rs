//! What can go wrong while a topic is scanned.

use datafusion::common::DataFusionError;

use crate::log::FetchError;

/// Why rows of a topic cannot be given. Queries get it as the source of a `DataFusionError`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    #[error("topic \"{topic}\", partition {partition}: {source}")]
    Fetch { topic: String, partition: i32, source: FetchError },
    #[error("the session carries no snapshot to read topic \"{topic}\" at")]
    NoSnapshot { topic: String },
}

/// Wraps an error for the query engine, which passes it on as it is.
pub(super) fn external(error: impl std::error::Error + Send + Sync + 'static) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
