//! What can go wrong with the log, per operation, by what the caller can do about it.

use thiserror::Error;

use super::topic_config::ConfigError;
use super::topic_name::InvalidTopicName;
use crate::format::BatchError;
use crate::ids::{TopicPartition, WalPosition};
use crate::object::StoreError;

/// Why the log takes no write at all.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WriteError {
    #[error("the log was opened for reading only")]
    ReadOnly,
    #[error("the log is closed")]
    Closed,
    /// Passes when somebody makes room or mends the rights; the same request may then be sent again.
    #[error("the log takes no writes for now: {reason}")]
    Refused { reason: String },
    /// Passes by itself: the log opens itself again.
    #[error("the log is being opened again: {reason}")]
    Reopening { reason: String },
    #[error("the log failed: {reason}")]
    Failed { reason: String },
    #[error("another process has taken over: {by}")]
    Fenced { by: String },
}

/// Why an append to one partition was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AppendError {
    #[error("unknown partition {} of topic {}", .0.partition, .0.topic_id)]
    UnknownTopicPartition(TopicPartition),
    #[error(transparent)]
    InvalidBatch(#[from] BatchError),
    #[error("batch has base offset {found}, a producer's batch has 0")]
    NonZeroBaseOffset { found: i64 },
    #[error("batch has {size} bytes, max.message.bytes is {max}")]
    TooLarge { size: usize, max: usize },
    #[error("a producer may not send control batches")]
    ControlBatch,
    #[error("batch of producer {producer_id} has no sequence")]
    MissingSequence { producer_id: i64 },
    #[error("batch claims the timestamp type LogAppendTime, which only the log sets")]
    ForbiddenTimestampType,
    /// With the numbers of the first such records in the batch.
    #[error("record timestamp {timestamp} is outside of {min} to {max}")]
    InvalidTimestamp { timestamp: i64, min: i64, max: i64, records: Vec<i32> },
    #[error("transactional batch has no producer id or epoch")]
    TransactionWithoutProducer,
    #[error("the partition was not added to an open transaction of producer {producer_id}")]
    PartitionNotInTransaction { producer_id: i64 },
    #[error("producer {producer_id} has an open transaction, and the batch is not part of it")]
    NonTransactionalBatch { producer_id: i64 },
    /// With the numbers of the first such records in the batch.
    #[error("a record has no key, and the topic keeps the newest record of each key")]
    NullKey { records: Vec<i32> },
    #[error("sequence {found} of producer {producer_id} is out of order, expected {expected}")]
    OutOfOrderSequence { producer_id: i64, expected: i32, found: i32 },
    #[error("epoch {found} of producer {producer_id} is stale, the current one is {current}")]
    StaleProducerEpoch { producer_id: i64, current: i16, found: i16 },
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Why a topic was not created.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CreateTopicError {
    #[error("topic \"{name}\" already exists")]
    AlreadyExists { name: String },
    #[error(transparent)]
    InvalidName(#[from] InvalidTopicName),
    #[error("topic \"{name}\" collides with topic \"{existing}\": they differ in '.' and '_' only")]
    NameCollision { name: String, existing: String },
    #[error("topic \"{name}\" needs at least 1 partition, not {partitions}")]
    InvalidPartitions { name: String, partitions: i32 },
    #[error("limit of {max} {what} reached")]
    TooMany { what: &'static str, max: usize },
    #[error(transparent)]
    InvalidConfig(#[from] ConfigError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Why a change to a topic was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TopicError {
    #[error("unknown topic")]
    UnknownTopic,
    #[error(transparent)]
    InvalidConfig(#[from] ConfigError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Why a topic got no more partitions.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddPartitionsError {
    #[error("unknown topic")]
    UnknownTopic,
    #[error("topic has {current} partitions, {requested} is not more")]
    NotMore { current: i32, requested: i32 },
    #[error("limit of {max} partitions reached")]
    TooMany { max: usize },
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Why one offset of a commit was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommitOffsetError {
    #[error("unknown partition {} of topic {}", .0.partition, .0.topic_id)]
    UnknownTopicPartition(TopicPartition),
}

/// Why the transaction of a producer did not end in one partition.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EndTransactionError {
    #[error("unknown partition {} of topic {}", .0.partition, .0.topic_id)]
    UnknownTopicPartition(TopicPartition),
    #[error("epoch {found} of producer {producer_id} is stale, the current one is {current}")]
    StaleProducerEpoch { producer_id: i64, current: i16, found: i16 },
    #[error("coordinator epoch {found} of producer {producer_id} is stale, the current one is {current}")]
    StaleCoordinatorEpoch { producer_id: i64, current: i32, found: i32 },
}

/// Why records of a partition were not deleted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeleteRecordsError {
    #[error("unknown partition {} of topic {}", .0.partition, .0.topic_id)]
    UnknownTopicPartition(TopicPartition),
    #[error("offset {offset} is outside of 0 to the high watermark {high_watermark}")]
    OutOfRange { offset: i64, high_watermark: i64 },
}

/// Why a schema was not stored.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PutSchemaError {
    #[error("unknown topic")]
    UnknownTopic,
    #[error("schema has version {current}, expected {expected}")]
    VersionMismatch { expected: u32, current: u32 },
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Why a group was not changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChangeGroupError {
    /// Another coordinator has written, or the group was deleted.
    #[error("group \"{group}\" has revision {current}, expected {expected}")]
    RevisionMismatch { group: String, expected: u64, current: u64 },
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Why records could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FetchError {
    #[error("offset {offset} is outside of {log_start_offset} to {high_watermark} (partition {partition})")]
    OutOfRange { offset: i64, log_start_offset: i64, high_watermark: i64, partition: i32 },
    #[error("object {object} is damaged, offsets {base_offset} to {last_offset}: {reason}")]
    Damaged { object: String, base_offset: i64, last_offset: i64, reason: String },
    #[error("object {object} cannot be read: {reason}")]
    Unavailable { object: String, reason: String },
    /// Another process owns the log, and removed records that the snapshot has.
    #[error(
        "offsets {base_offset} to {last_offset} were deleted or cleaned since the state of the log was read; \
         run the statement again"
    )]
    Removed { base_offset: i64, last_offset: i64 },
}

/// Why something that goes on behind the appends did not come about. It is tried again by itself.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MaintenanceError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("segments were not installed: {reason}")]
    Refused { reason: String },
    #[error("nothing is deleted any more: another process has claimed epoch {writer_epoch}")]
    Superseded { writer_epoch: u64 },
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Why the log could not be opened. Each message is one sentence for the person who started it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    #[error("{location}: {source}")]
    Store { location: String, source: StoreError },
    #[error("{location}: object {key}: {reason}")]
    Unreadable { location: String, key: String, reason: String },
    #[error("{location}: there is no log here: object \"cluster\" is missing")]
    NoLog { location: String },
    #[error("{location}: a restore to it did not come to its end; run it again")]
    UnfinishedRestore { location: String },
    #[error("{location}: object {key} is missing although its contents were acknowledged")]
    MissingObject { location: String, key: String },
    #[error("{location}: epoch {writer_epoch} was claimed by another process at the same time: {by}")]
    Claimed { location: String, writer_epoch: u64, by: String },
    #[error("{location}: another process took the log over while it was opened: {by}")]
    Overtaken { location: String, by: String },
    #[error("{location}: a newer process owns the log (epoch {writer_epoch})")]
    Superseded { location: String, writer_epoch: u64 },
    #[error("{location}: object {key} does not follow the one before it ({before})")]
    BrokenChain { location: String, key: String, before: WalPosition },
    #[error("{location}: object {key} contradicts the ones before it: {reason}")]
    Contradiction { location: String, key: String, reason: String },
    #[error(
        "{location}: the store has objects of format version {found}, this build reads versions up to {supported}; use a newer strandline"
    )]
    NewerFormat { location: String, found: u64, supported: u16 },
}
