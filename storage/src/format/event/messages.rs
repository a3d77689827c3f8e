//! The protobuf messages of events. Field numbers are those of docs/formats.md and never change.
//!
//! Invariant: a field is never given another meaning, and its number is never used again.

use prost::Message;

use crate::format::slice::SliceMessage;

#[derive(Clone, PartialEq, Message)]
pub(super) struct OpenedMessage {
    #[prost(message, repeated, tag = "1")]
    pub(super) closed_epochs: Vec<ClosedEpochMessage>,
    #[prost(string, tag = "2")]
    pub(super) node: String,
    #[prost(string, tag = "3")]
    pub(super) address: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ClosedEpochMessage {
    #[prost(uint64, tag = "1")]
    pub(super) writer_epoch: u64,
    #[prost(uint64, tag = "2")]
    pub(super) end_seq: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TopicCreatedMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) topic_id: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(int32, tag = "3")]
    pub(super) partition_count: i32,
    #[prost(message, repeated, tag = "4")]
    pub(super) configs: Vec<ConfigMessage>,
    #[prost(int64, tag = "6")]
    pub(super) created_at_ms: i64,
    #[prost(uint32, repeated, tag = "7")]
    pub(super) shards: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ConfigMessage {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(string, optional, tag = "2")]
    pub(super) value: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TopicDeletedMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) topic_id: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PartitionsAddedMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) topic_id: Vec<u8>,
    #[prost(int32, tag = "2")]
    pub(super) partition_count: i32,
    #[prost(uint32, repeated, tag = "3")]
    pub(super) shards: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TopicConfigSetMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) topic_id: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    pub(super) configs: Vec<ConfigMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProducerIdsAllocatedMessage {
    #[prost(int64, tag = "1")]
    pub(super) next_producer_id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProducerBatchesMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) topic_id: Vec<u8>,
    #[prost(int32, tag = "2")]
    pub(super) partition: i32,
    #[prost(message, repeated, tag = "3")]
    pub(super) batches: Vec<ProducerBatchMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProducerBatchMessage {
    #[prost(int64, tag = "1")]
    pub(super) producer_id: i64,
    #[prost(sint32, tag = "2")]
    pub(super) producer_epoch: i32,
    #[prost(sint32, tag = "3")]
    pub(super) base_sequence: i32,
    #[prost(sint32, tag = "4")]
    pub(super) last_sequence: i32,
    #[prost(int64, tag = "5")]
    pub(super) base_offset: i64,
    #[prost(int64, tag = "6")]
    pub(super) last_offset: i64,
    #[prost(sint64, tag = "7")]
    pub(super) append_time_ms: i64,
    #[prost(sint64, tag = "8")]
    pub(super) max_timestamp: i64,
    #[prost(bool, tag = "9")]
    pub(super) transactional: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OffsetsCommittedMessage {
    #[prost(string, tag = "1")]
    pub(super) group: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) offsets: Vec<CommittedOffsetMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CommittedOffsetMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) topic_id: Vec<u8>,
    #[prost(int32, tag = "2")]
    pub(super) partition: i32,
    #[prost(sint64, tag = "3")]
    pub(super) offset: i64,
    #[prost(sint32, tag = "4")]
    pub(super) leader_epoch: i32,
    #[prost(string, optional, tag = "5")]
    pub(super) metadata: Option<String>,
    #[prost(sint64, tag = "6")]
    pub(super) commit_time_ms: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GroupOffsetsDeletedMessage {
    #[prost(string, tag = "1")]
    pub(super) group: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) partitions: Vec<GroupPartitionMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GroupPartitionMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) topic_id: Vec<u8>,
    #[prost(int32, tag = "2")]
    pub(super) partition: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SchemaPutMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) topic_id: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(super) kind: String,
    #[prost(uint32, tag = "3")]
    pub(super) version: u32,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) bytes: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TransactionEndedMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) topic_id: Vec<u8>,
    #[prost(int32, tag = "2")]
    pub(super) partition: i32,
    #[prost(int64, tag = "3")]
    pub(super) producer_id: i64,
    #[prost(sint32, tag = "4")]
    pub(super) producer_epoch: i32,
    #[prost(sint32, tag = "5")]
    pub(super) coordinator_epoch: i32,
    /// 0 is an abort, 1 a commit.
    #[prost(uint32, tag = "6")]
    pub(super) result: u32,
    #[prost(int64, tag = "7")]
    pub(super) marker_offset: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TransactionalIdRemovedMessage {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProducersExpiredMessage {
    #[prost(message, repeated, tag = "1")]
    pub(super) partitions: Vec<ExpiredProducersMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExpiredProducersMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) topic_id: Vec<u8>,
    #[prost(int32, tag = "2")]
    pub(super) partition: i32,
    #[prost(int64, repeated, tag = "3")]
    pub(super) producer_ids: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SegmentsInstalledMessage {
    #[prost(message, repeated, tag = "1")]
    pub(super) objects: Vec<InstalledObjectMessage>,
    #[prost(message, repeated, tag = "2")]
    pub(super) partitions: Vec<PartitionInstallMessage>,
    #[prost(uint64, tag = "3")]
    pub(super) wal_objects: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InstalledObjectMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) object: Vec<u8>,
    #[prost(uint64, tag = "2")]
    pub(super) length: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PartitionInstallMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) topic_id: Vec<u8>,
    #[prost(int32, tag = "2")]
    pub(super) partition: i32,
    #[prost(int64, tag = "3")]
    pub(super) base_offset: i64,
    #[prost(int64, tag = "4")]
    pub(super) next_offset: i64,
    #[prost(message, repeated, tag = "5")]
    pub(super) slices: Vec<SliceMessage>,
    #[prost(int64, optional, tag = "6")]
    pub(super) cleaned_offset: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LogStartsMovedMessage {
    #[prost(message, repeated, tag = "1")]
    pub(super) partitions: Vec<LogStartMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LogStartMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) topic_id: Vec<u8>,
    #[prost(int32, tag = "2")]
    pub(super) partition: i32,
    #[prost(int64, tag = "3")]
    pub(super) log_start_offset: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ObjectsDeletedMessage {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(super) objects: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LossAcceptedMessage {
    #[prost(string, tag = "1")]
    pub(super) object: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) partitions: Vec<LostRangeMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LostRangeMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) topic_id: Vec<u8>,
    #[prost(int32, tag = "2")]
    pub(super) partition: i32,
    #[prost(int64, tag = "3")]
    pub(super) base_offset: i64,
    #[prost(int64, tag = "4")]
    pub(super) next_offset: i64,
}
