//! The entries of pages, as protobuf messages. Field numbers are those of docs/formats.md and never
//! change. Ids are 16 bytes; who decodes an entry checks that.

use prost::Message;

use crate::format::BlockEntry;
use crate::format::event::{
    ClassicGroup, ClassicGroupPut, ClassicGroupPutMessage, ConsumerGroupChanged, ConsumerGroupChangedMessage,
    classic_group_message, classic_group_of, consumer_group_message, consumer_group_of,
};
use crate::format::slice::{Slice, SliceMessage};
use crate::format::transactional_id::{TransactionalId, TransactionalIdMessage};
use crate::format::wal_object::{BLOCK_ENTRY_LENGTH, WalObjectError, decode_index};

#[derive(Clone, PartialEq, Message)]
pub struct TopicEntry {
    #[prost(bytes = "vec", tag = "1")]
    pub topic_id: Vec<u8>,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(int32, tag = "3")]
    pub partition_count: i32,
    #[prost(message, repeated, tag = "4")]
    pub configs: Vec<ConfigEntry>,
    #[prost(int64, tag = "6")]
    pub created_at_ms: i64,
    /// Of each partition; empty if all are in shard 0.
    #[prost(uint32, repeated, tag = "7")]
    pub shards: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ConfigEntry {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A partition without its slices and producers.
#[derive(Clone, PartialEq, Message)]
pub struct PartitionEntry {
    #[prost(bytes = "vec", tag = "1")]
    pub topic_id: Vec<u8>,
    #[prost(int32, tag = "2")]
    pub partition: i32,
    #[prost(int64, tag = "3")]
    pub next_offset: i64,
    #[prost(int64, tag = "4")]
    pub log_start_offset: i64,
    #[prost(int32, tag = "5")]
    pub leader_epoch: i32,
    #[prost(int64, tag = "6")]
    pub cleaned_offset: i64,
    #[prost(message, repeated, tag = "7")]
    pub open_transactions: Vec<OpenTransactionEntry>,
    #[prost(message, repeated, tag = "8")]
    pub aborted: Vec<AbortedEntry>,
    /// The blocks of the WAL that are not compacted, in the order of offsets.
    #[prost(message, repeated, tag = "9")]
    pub tail: Vec<TailBlockEntry>,
}

#[derive(Clone, PartialEq, Message)]
pub struct OpenTransactionEntry {
    #[prost(int64, tag = "1")]
    pub producer_id: i64,
    #[prost(int64, tag = "2")]
    pub first_offset: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct AbortedEntry {
    #[prost(int64, tag = "1")]
    pub producer_id: i64,
    #[prost(int64, tag = "2")]
    pub first_offset: i64,
    #[prost(int64, tag = "3")]
    pub last_offset: i64,
}

/// A block in a WAL object.
#[derive(Clone, PartialEq, Message)]
pub struct TailBlockEntry {
    #[prost(uint64, tag = "1")]
    pub writer_epoch: u64,
    #[prost(uint64, tag = "2")]
    pub seq: u64,
    /// The entry of the block as it stands in the index of the object.
    #[prost(bytes = "vec", tag = "3")]
    pub block: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SliceEntry {
    #[prost(message, optional, tag = "1")]
    slice: Option<SliceMessage>,
}

impl SliceEntry {
    pub fn new(slice: &Slice) -> Self {
        Self { slice: Some(slice.to_message()) }
    }

    /// # Errors
    /// A message that is no slice.
    pub fn into_slice(self) -> Result<Slice, String> {
        Slice::from_message(self.slice.ok_or("the slice is missing")?)
    }
}

/// A producer in one partition.
#[derive(Clone, PartialEq, Message)]
pub struct ProducerEntry {
    #[prost(bytes = "vec", tag = "1")]
    pub topic_id: Vec<u8>,
    #[prost(int32, tag = "2")]
    pub partition: i32,
    #[prost(int64, tag = "3")]
    pub producer_id: i64,
    #[prost(sint32, tag = "4")]
    pub producer_epoch: i32,
    /// The newest batches, the oldest first.
    #[prost(message, repeated, tag = "5")]
    pub batches: Vec<BatchEntry>,
    /// Of the newest transaction marker.
    #[prost(sint32, optional, tag = "6")]
    pub coordinator_epoch: Option<i32>,
    /// When the newest batch or marker was appended.
    #[prost(sint64, tag = "7")]
    pub updated_at_ms: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct BatchEntry {
    #[prost(sint32, tag = "1")]
    pub base_sequence: i32,
    #[prost(sint32, tag = "2")]
    pub last_sequence: i32,
    #[prost(int64, tag = "3")]
    pub base_offset: i64,
    #[prost(int64, tag = "4")]
    pub last_offset: i64,
    #[prost(sint64, tag = "5")]
    pub append_time_ms: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct GroupOffsetEntry {
    #[prost(string, tag = "1")]
    pub group: String,
    #[prost(bytes = "vec", tag = "2")]
    pub topic_id: Vec<u8>,
    #[prost(int32, tag = "3")]
    pub partition: i32,
    #[prost(int64, tag = "4")]
    pub offset: i64,
    #[prost(sint32, tag = "5")]
    pub leader_epoch: i32,
    #[prost(string, optional, tag = "6")]
    pub metadata: Option<String>,
    #[prost(int64, tag = "7")]
    pub commit_time_ms: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct SchemaEntry {
    #[prost(bytes = "vec", tag = "1")]
    pub topic_id: Vec<u8>,
    #[prost(string, tag = "2")]
    pub kind: String,
    #[prost(uint32, tag = "3")]
    pub version: u32,
    #[prost(bytes = "vec", tag = "4")]
    pub bytes: Vec<u8>,
}

/// A segment, referred to or not.
#[derive(Clone, PartialEq, Message)]
pub struct SegmentEntry {
    #[prost(bytes = "vec", tag = "1")]
    pub object: Vec<u8>,
    #[prost(uint64, tag = "2")]
    pub length: u64,
    #[prost(sint64, optional, tag = "3")]
    pub dead_since_ms: Option<i64>,
    /// Set when nothing refers to it any more.
    #[prost(sint64, optional, tag = "4")]
    pub unreferenced_at_ms: Option<i64>,
    #[prost(uint64, tag = "5")]
    pub unreferenced_by: u64,
}

/// A group without its offsets: one of the two bodies, as the event that puts it whole.
#[derive(Clone, PartialEq, Message)]
pub struct GroupEntry {
    #[prost(int32, tag = "1")]
    pub generations_reserved: i32,
    #[prost(message, optional, tag = "2")]
    classic: Option<ClassicGroupPutMessage>,
    #[prost(message, optional, tag = "3")]
    consumer: Option<ConsumerGroupChangedMessage>,
}

/// What a [`GroupEntry`] says of its group.
pub enum GroupEntryBody {
    Classic(ClassicGroupPut),
    Consumer(ConsumerGroupChanged),
}

impl GroupEntry {
    pub fn classic(group: &str, revision: u64, generations_reserved: i32, state: &ClassicGroup) -> Self {
        let put = ClassicGroupPut { group: group.to_owned(), revision, state: state.clone() };
        Self { generations_reserved, classic: Some(classic_group_message(&put)), consumer: None }
    }

    /// `whole` has all topics and members of the group.
    pub fn consumer(generations_reserved: i32, whole: &ConsumerGroupChanged) -> Self {
        Self { generations_reserved, classic: None, consumer: Some(consumer_group_message(whole)) }
    }

    /// # Errors
    /// Not exactly one body, or one that is none.
    pub fn into_body(self) -> Result<GroupEntryBody, String> {
        match (self.classic, self.consumer) {
            (Some(classic), None) => classic_group_of(classic).map(GroupEntryBody::Classic),
            (None, Some(consumer)) => consumer_group_of(consumer).map(GroupEntryBody::Consumer),
            (Some(_), Some(_)) | (None, None) => Err("a group is of one protocol".to_owned()),
        }
    }
}

/// A transactional id.
#[derive(Clone, PartialEq, Message)]
pub struct TransactionalIdEntry {
    #[prost(message, optional, tag = "1")]
    transactional_id: Option<TransactionalIdMessage>,
}

impl TransactionalIdEntry {
    pub fn new(transactional_id: &TransactionalId) -> Self {
        Self { transactional_id: Some(transactional_id.to_message()) }
    }

    /// # Errors
    /// A message that is no transactional id.
    pub fn into_transactional_id(self) -> Result<TransactionalId, String> {
        TransactionalId::from_message(self.transactional_id.ok_or("the transactional id is missing")?)
    }
}

/// The bytes of a block's index entry.
pub fn block_entry_bytes(block: &BlockEntry) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BLOCK_ENTRY_LENGTH);
    block.encode(&mut bytes);
    bytes
}

/// # Errors
/// Bytes that are no index entry.
pub fn block_entry_of(bytes: &[u8]) -> Result<BlockEntry, WalObjectError> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX).max(1);
    let entries = decode_index(bytes, length)?;
    entries.into_iter().next().ok_or(WalObjectError::IndexLength { index_length: 0, entry_length: length })
}
