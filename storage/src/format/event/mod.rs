//! Events: what a commit says about state, apart from the records themselves. State is the replay
//! of them.
//!
//! Invariants: a kind number is never used again for something else; an event that a reader does
//! not know, or that says it needs a newer one, is refused, naming what it needs. A field that may
//! be ignored by old readers can be added at any time; one that must be understood raises the
//! event's min reader version.

mod access_wire;
mod group;
mod group_wire;
mod messages;
mod segment_wire;
mod transaction_wire;
mod wire;

#[cfg(test)]
mod access_tests;
#[cfg(test)]
mod group_tests;
#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::FORMAT_VERSION;
use super::slice::Slice;
use super::transactional_id::TransactionalId;
use crate::access::AccessChange;
use crate::ids::{ObjectId, ShardId, TopicId};

pub use group::{
    ClassicGroup, ClassicGroupPut, ClassicMember, ConsumerGroupChanged, ConsumerMember, ConsumerMemberPhase,
    GenerationsReserved, GroupDeleted, MemberPartitions, MemberProtocol, SubscribedTopic,
};
pub(in crate::format) use group_wire::{
    ClassicGroupPutMessage, ConsumerGroupChangedMessage, classic_group_message, classic_group_of,
    consumer_group_message, consumer_group_of,
};

/// The kind numbers. 15 is free for groups, 20-31 for transactions, 35-47 for
/// segments, compaction and retention, 53-63 for users and ACLs, 65-79 for repairs.
mod kind {
    pub(super) const OPENED: u16 = 1;
    pub(super) const TOPIC_CREATED: u16 = 2;
    pub(super) const TOPIC_DELETED: u16 = 3;
    pub(super) const PARTITIONS_ADDED: u16 = 4;
    pub(super) const TOPIC_CONFIG_SET: u16 = 5;
    pub(super) const PRODUCER_IDS_ALLOCATED: u16 = 6;
    pub(super) const PRODUCER_BATCHES: u16 = 7;
    pub(super) const OFFSETS_COMMITTED: u16 = 8;
    pub(super) const GROUP_OFFSETS_DELETED: u16 = 9;
    pub(super) const SCHEMA_PUT: u16 = 10;
    pub(super) const CLASSIC_GROUP_PUT: u16 = 11;
    pub(super) const CONSUMER_GROUP_CHANGED: u16 = 12;
    pub(super) const GROUP_DELETED: u16 = 13;
    pub(super) const GENERATIONS_RESERVED: u16 = 14;
    pub(super) const TRANSACTION_ENDED: u16 = 16;
    pub(super) const PRODUCERS_EXPIRED: u16 = 17;
    pub(super) const TRANSACTIONAL_ID_PUT: u16 = 18;
    pub(super) const TRANSACTIONAL_ID_REMOVED: u16 = 19;
    pub(super) const SEGMENTS_INSTALLED: u16 = 32;
    pub(super) const LOG_STARTS_MOVED: u16 = 33;
    pub(super) const OBJECTS_DELETED: u16 = 34;
    pub(super) const USER_PUT: u16 = 48;
    pub(super) const USER_REMOVED: u16 = 49;
    pub(super) const ACLS_ADDED: u16 = 50;
    pub(super) const ACLS_REMOVED: u16 = 51;
    pub(super) const QUOTA_SET: u16 = 52;
    pub(super) const LOSS_ACCEPTED: u16 = 64;
}

/// Bytes of a frame before the event: kind, min reader version, length.
const FRAME_LENGTH: usize = 8;

/// The first event of an epoch: its writer is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Where each older epoch that the writer walked ended.
    pub closed_epochs: Vec<ClosedEpoch>,
    pub node: String,
    pub address: String,
}

/// An epoch whose writer can commit no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedEpoch {
    pub writer_epoch: u64,
    /// The seq of its fence: commits below it are in the log (exclusive).
    pub end_seq: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicCreated {
    pub topic_id: TopicId,
    pub name: String,
    pub partition_count: i32,
    pub configs: BTreeMap<String, String>,
    /// The shard of each partition; empty if all are in shard 0.
    pub shards: Vec<ShardId>,
    pub created_at_ms: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicDeleted {
    pub topic_id: TopicId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionsAdded {
    pub topic_id: TopicId,
    /// How many partitions there are from now on.
    pub partition_count: i32,
    /// The shard of each new partition; empty if all are in shard 0.
    pub shards: Vec<ShardId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicConfigSet {
    pub topic_id: TopicId,
    /// The keys that change; `None` goes back to the default.
    pub configs: BTreeMap<String, Option<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerIdsAllocated {
    /// Ids below it have been given out (exclusive).
    pub next_producer_id: i64,
}

/// What idempotence needs of the batches of one partition in this commit, in offset order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerBatches {
    pub topic_id: TopicId,
    pub partition: i32,
    pub batches: Vec<ProducerBatch>,
}

/// One batch of an idempotent producer. Sequences and offsets are inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerBatch {
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub last_sequence: i32,
    pub base_offset: i64,
    pub last_offset: i64,
    pub append_time_ms: i64,
    /// Of its records; -1 when none has a timestamp.
    pub max_timestamp: i64,
    /// It is part of a transaction, which is open until a [`TransactionEnded`].
    pub transactional: bool,
}

/// A transaction of a producer ended in a partition: its marker is a control batch of this commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionEnded {
    pub topic_id: TopicId,
    pub partition: i32,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub coordinator_epoch: i32,
    pub result: TransactionResult,
    /// The offset of the marker.
    pub marker_offset: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionResult {
    Abort,
    Commit,
}

/// A transactional id is in this state from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionalIdPut {
    pub transactional_id: Arc<TransactionalId>,
}

/// A transactional id is forgotten: it was not used for too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionalIdRemoved {
    pub name: String,
}

/// What is known of some producers is forgotten: they were silent for too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducersExpired {
    pub partitions: Vec<ExpiredProducers>,
}

/// Producers of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredProducers {
    pub topic_id: TopicId,
    pub partition: i32,
    pub producer_ids: Vec<i64>,
}

/// Slices of segments take the place of what was there: of blocks of the WAL, or of older slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentsInstalled {
    pub objects: Vec<InstalledObject>,
    pub partitions: Vec<PartitionInstall>,
    /// How many objects the shard's WAL had when the compaction of its blocks was planned; 0 when
    /// only older slices were replaced.
    pub wal_objects: u64,
}

/// A new segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstalledObject {
    pub object: ObjectId,
    pub length: u64,
}

/// What replaces the offsets `base_offset..next_offset` of one partition. The slices cover them
/// without a gap between their ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionInstall {
    pub topic_id: TopicId,
    pub partition: i32,
    pub base_offset: i64,
    pub next_offset: i64,
    pub slices: Vec<Slice>,
    /// Log cleaning went through all offsets below it; `None` when this was no cleaning.
    pub cleaned_offset: Option<i64>,
}

/// Records before an offset are gone for readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogStartsMoved {
    pub partitions: Vec<LogStart>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogStart {
    pub topic_id: TopicId,
    pub partition: i32,
    pub log_start_offset: i64,
}

/// Segments that nothing referred to any more were deleted from the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectsDeleted {
    pub objects: Vec<ObjectId>,
}

/// An operator gave up an object that is damaged or missing: readers skip what it held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossAccepted {
    /// The key of the object.
    pub object: String,
    pub partitions: Vec<LostRange>,
}

/// Offsets of a partition that are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostRange {
    pub topic_id: TopicId,
    pub partition: i32,
    pub base_offset: i64,
    pub next_offset: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetsCommitted {
    pub group: String,
    pub offsets: Vec<CommittedOffset>,
}

/// Where a group is in one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    pub topic_id: TopicId,
    pub partition: i32,
    /// The offset to read next.
    pub offset: i64,
    /// -1 when the client sent none.
    pub leader_epoch: i32,
    /// Null is not the same as empty.
    pub metadata: Option<String>,
    pub commit_time_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupOffsetsDeleted {
    pub group: String,
    /// Empty means all of the group.
    pub partitions: Vec<GroupPartition>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupPartition {
    pub topic_id: TopicId,
    pub partition: i32,
}

/// A schema of a topic: opaque bytes, replaced as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaPut {
    pub topic_id: TopicId,
    pub kind: String,
    pub version: u32,
    pub bytes: Vec<u8>,
}

/// One change of state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Opened(Opened),
    TopicCreated(TopicCreated),
    TopicDeleted(TopicDeleted),
    PartitionsAdded(PartitionsAdded),
    TopicConfigSet(TopicConfigSet),
    ProducerIdsAllocated(ProducerIdsAllocated),
    ProducerBatches(ProducerBatches),
    OffsetsCommitted(OffsetsCommitted),
    GroupOffsetsDeleted(GroupOffsetsDeleted),
    SchemaPut(SchemaPut),
    ClassicGroupPut(ClassicGroupPut),
    ConsumerGroupChanged(ConsumerGroupChanged),
    GroupDeleted(GroupDeleted),
    GenerationsReserved(GenerationsReserved),
    TransactionEnded(TransactionEnded),
    ProducersExpired(ProducersExpired),
    TransactionalIdPut(TransactionalIdPut),
    TransactionalIdRemoved(TransactionalIdRemoved),
    SegmentsInstalled(SegmentsInstalled),
    LogStartsMoved(LogStartsMoved),
    ObjectsDeleted(ObjectsDeleted),
    AccessChanged(AccessChange),
    LossAccepted(LossAccepted),
}

/// Why an event was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    #[error("{available} bytes are left, its frame needs {needed}")]
    Truncated { needed: u64, available: usize },
    #[error(
        "kind {kind} is not known to format version {FORMAT_VERSION}; it needs version {min_reader_version}"
    )]
    UnknownKind { kind: u16, min_reader_version: u16 },
    #[error(
        "kind {kind} needs a reader of format version {min_reader_version}, this one reads versions up to {supported}"
    )]
    UnsupportedVersion { kind: u16, min_reader_version: u16, supported: u16 },
    #[error("kind {kind} does not decode: {reason}")]
    Malformed { kind: u16, reason: String },
}

impl Event {
    fn kind(&self) -> u16 {
        match self {
            Self::Opened(_) => kind::OPENED,
            Self::TopicCreated(_) => kind::TOPIC_CREATED,
            Self::TopicDeleted(_) => kind::TOPIC_DELETED,
            Self::PartitionsAdded(_) => kind::PARTITIONS_ADDED,
            Self::TopicConfigSet(_) => kind::TOPIC_CONFIG_SET,
            Self::ProducerIdsAllocated(_) => kind::PRODUCER_IDS_ALLOCATED,
            Self::ProducerBatches(_) => kind::PRODUCER_BATCHES,
            Self::OffsetsCommitted(_) => kind::OFFSETS_COMMITTED,
            Self::GroupOffsetsDeleted(_) => kind::GROUP_OFFSETS_DELETED,
            Self::SchemaPut(_) => kind::SCHEMA_PUT,
            Self::ClassicGroupPut(_) => kind::CLASSIC_GROUP_PUT,
            Self::ConsumerGroupChanged(_) => kind::CONSUMER_GROUP_CHANGED,
            Self::GroupDeleted(_) => kind::GROUP_DELETED,
            Self::GenerationsReserved(_) => kind::GENERATIONS_RESERVED,
            Self::TransactionEnded(_) => kind::TRANSACTION_ENDED,
            Self::ProducersExpired(_) => kind::PRODUCERS_EXPIRED,
            Self::TransactionalIdPut(_) => kind::TRANSACTIONAL_ID_PUT,
            Self::TransactionalIdRemoved(_) => kind::TRANSACTIONAL_ID_REMOVED,
            Self::SegmentsInstalled(_) => kind::SEGMENTS_INSTALLED,
            Self::LogStartsMoved(_) => kind::LOG_STARTS_MOVED,
            Self::ObjectsDeleted(_) => kind::OBJECTS_DELETED,
            Self::AccessChanged(change) => access_wire::kind_of(change),
            Self::LossAccepted(_) => kind::LOSS_ACCEPTED,
        }
    }

    /// The oldest format version whose readers understand the event as it is.
    fn min_reader_version(&self) -> u16 {
        match self {
            Self::ProducerBatches(event) if event.batches.iter().any(|batch| batch.transactional) => 2,
            // An older reader would look for all partitions in shard 0.
            Self::TopicCreated(TopicCreated { shards, .. })
            | Self::PartitionsAdded(PartitionsAdded { shards, .. })
                if !shards.is_empty() =>
            {
                3
            }
            Self::TransactionEnded(_)
            | Self::ProducersExpired(_)
            | Self::SegmentsInstalled(_)
            | Self::LogStartsMoved(_)
            | Self::ObjectsDeleted(_)
            | Self::LossAccepted(_) => 2,
            Self::ClassicGroupPut(_)
            | Self::ConsumerGroupChanged(_)
            | Self::GroupDeleted(_)
            | Self::GenerationsReserved(_)
            | Self::TransactionalIdPut(_)
            | Self::TransactionalIdRemoved(_) => 3,
            Self::AccessChanged(_) => 4,
            Self::Opened(_)
            | Self::TopicCreated(_)
            | Self::TopicDeleted(_)
            | Self::PartitionsAdded(_)
            | Self::TopicConfigSet(_)
            | Self::ProducerIdsAllocated(_)
            | Self::ProducerBatches(_)
            | Self::OffsetsCommitted(_)
            | Self::GroupOffsetsDeleted(_)
            | Self::SchemaPut(_) => 1,
        }
    }

    /// Appends the frame of the event.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.kind().to_le_bytes());
        out.extend_from_slice(&self.min_reader_version().to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        wire::encode(self, out);
        let length = u32::try_from(out.len() - start - FRAME_LENGTH).expect("an event is far below 4 GiB");
        out[start + 4..start + FRAME_LENGTH].copy_from_slice(&length.to_le_bytes());
    }

    /// Decodes the frame at the front of `bytes`, and what follows it.
    ///
    /// # Errors
    /// A frame that is cut off, a kind or version that this build does not read, or a message that
    /// does not decode.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), EventError> {
        let truncated = |needed| EventError::Truncated { needed, available: bytes.len() };
        let (frame, rest) =
            bytes.split_first_chunk::<FRAME_LENGTH>().ok_or(truncated(FRAME_LENGTH as u64))?;
        let kind = u16::from_le_bytes([frame[0], frame[1]]);
        let min_reader_version = u16::from_le_bytes([frame[2], frame[3]]);
        let length = u32::from_le_bytes([frame[4], frame[5], frame[6], frame[7]]);
        if min_reader_version > FORMAT_VERSION {
            let supported = FORMAT_VERSION;
            return Err(EventError::UnsupportedVersion { kind, min_reader_version, supported });
        }
        let needed = FRAME_LENGTH as u64 + u64::from(length);
        let (message, rest) = rest.split_at_checked(length as usize).ok_or(truncated(needed))?;
        let event = decode_message(kind, min_reader_version, message)?;
        Ok((event, rest))
    }
}

fn decode_message(kind: u16, min_reader_version: u16, message: &[u8]) -> Result<Event, EventError> {
    let decoded = match kind {
        kind::OPENED => wire::decode(message, Event::Opened),
        kind::TOPIC_CREATED => wire::decode(message, Event::TopicCreated),
        kind::TOPIC_DELETED => wire::decode(message, Event::TopicDeleted),
        kind::PARTITIONS_ADDED => wire::decode(message, Event::PartitionsAdded),
        kind::TOPIC_CONFIG_SET => wire::decode(message, Event::TopicConfigSet),
        kind::PRODUCER_IDS_ALLOCATED => wire::decode(message, Event::ProducerIdsAllocated),
        kind::PRODUCER_BATCHES => wire::decode(message, Event::ProducerBatches),
        kind::OFFSETS_COMMITTED => wire::decode(message, Event::OffsetsCommitted),
        kind::GROUP_OFFSETS_DELETED => wire::decode(message, Event::GroupOffsetsDeleted),
        kind::SCHEMA_PUT => wire::decode(message, Event::SchemaPut),
        kind::CLASSIC_GROUP_PUT => wire::decode(message, Event::ClassicGroupPut),
        kind::CONSUMER_GROUP_CHANGED => wire::decode(message, Event::ConsumerGroupChanged),
        kind::GROUP_DELETED => wire::decode(message, Event::GroupDeleted),
        kind::GENERATIONS_RESERVED => wire::decode(message, Event::GenerationsReserved),
        kind::TRANSACTION_ENDED => wire::decode(message, Event::TransactionEnded),
        kind::PRODUCERS_EXPIRED => wire::decode(message, Event::ProducersExpired),
        kind::TRANSACTIONAL_ID_PUT => wire::decode(message, Event::TransactionalIdPut),
        kind::TRANSACTIONAL_ID_REMOVED => wire::decode(message, Event::TransactionalIdRemoved),
        kind::SEGMENTS_INSTALLED => wire::decode(message, Event::SegmentsInstalled),
        kind::LOG_STARTS_MOVED => wire::decode(message, Event::LogStartsMoved),
        kind::OBJECTS_DELETED => wire::decode(message, Event::ObjectsDeleted),
        kind::USER_PUT => access_wire::user_put(message).map(Event::AccessChanged),
        kind::USER_REMOVED => access_wire::user_removed(message).map(Event::AccessChanged),
        kind::ACLS_ADDED => access_wire::acls_added(message).map(Event::AccessChanged),
        kind::ACLS_REMOVED => access_wire::acls_removed(message).map(Event::AccessChanged),
        kind::QUOTA_SET => access_wire::quota_set(message).map(Event::AccessChanged),
        kind::LOSS_ACCEPTED => wire::decode(message, Event::LossAccepted),
        _ => return Err(EventError::UnknownKind { kind, min_reader_version }),
    };
    decoded.map_err(|reason| EventError::Malformed { kind, reason })
}

/// Decodes frames to the end; an error comes with the number of the event.
pub(super) fn decode_events(mut bytes: &[u8]) -> Result<Vec<Event>, (usize, EventError)> {
    let mut events = Vec::new();
    while !bytes.is_empty() {
        let (event, rest) = Event::decode(bytes).map_err(|error| (events.len(), error))?;
        events.push(event);
        bytes = rest;
    }
    Ok(events)
}
