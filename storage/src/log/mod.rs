//! The shard: one writer that commits batches and events to the WAL, recovery, reads, and the time
//! lookup.
//!
//! The way of an append: `append` checks the batch in the caller's task, `committer` queues it,
//! `assign` gives it offsets and builds the object, `put` puts it, and when all before it are
//! durable, `committer` publishes the state after it and answers. `open` and `walk` rebuild the
//! same state from the objects.
//!
//! Invariant: assigned state, which checks the next commit, and durable state, which all readers
//! see, are apart.

mod access;
mod align;
mod all_shards;
mod append;
mod assign;
pub mod backup;
mod change;
mod changes;
mod checkpoint;
mod claim_watch;
mod committer;
mod config_change;
mod error;
mod fetch;
mod group_change;
mod handle;
mod health;
mod keys;
mod loss;
mod maintenance;
mod open;
mod pending;
mod pinned;
mod placement;
mod put;
mod reader;
mod relocate;
mod repair;
mod retry;
mod settings;
mod shard;
mod shared;
mod snapshot;
mod state;
mod submit;
mod time_lookup;
pub mod topic_config;
pub mod topic_name;
mod transactional_ids;
mod transactions;
mod trouble;
pub mod verify;
mod walk;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

pub use append::{Appended, PartitionAppend};
pub use changes::Changes;
pub use config_change::{ConfigChanges, ConfigOperation};
pub use error::{
    AddPartitionsError, AppendError, ChangeGroupError, CommitOffsetError, CreateTopicError,
    DeleteRecordsError, EndTransactionError, FetchError, MaintenanceError, OpenError, PutSchemaError,
    TopicError, WriteError,
};
pub use fetch::{AbortedTransaction, FetchOptions, Fetched, FirstBatch};
pub use group_change::GroupChange;
pub use handle::{CreateTopic, Log, LogStats, OffsetCommit, SHARDS_MAX};
pub use health::Health;
pub use maintenance::maintenance_runtime;
pub use repair::RepairReport;
pub use settings::{LogSettings, MaintenanceSettings};
pub use snapshot::{ActiveProducer, Bounds, Isolation, PartitionView, ShardStats, Snapshot};
pub use state::{
    AbortedRange, BatchPlace, Block, CommittedOffset, ConsumerGroup, GroupBody, GroupState, InstalledSlice,
    MaxTimestamp, Placement, Schema, Topic,
};
pub use submit::PendingAppend;
pub use time_lookup::TimestampedOffset;
pub use topic_config::{ConfigEntry, ConfigError, ConfigKind, RetentionReference, TopicConfig};
pub use transactional_ids::{Decision, TransactionalIdChange, TransactionalIdView};
pub use transactions::{EndTransaction, EndedTransaction, GroupOffsets};
