//! A slice: a contiguous range of offsets of one partition in one segment, and what is known of its
//! records without reading them. The same message stands in the segment's footer, in the event that
//! installs it and in the pages of checkpoints.
//!
//! Invariant: the range is contiguous with those beside it; offsets inside of it may be missing.

use prost::Message;

use super::wal_object::{BLOCK_ENTRY_LENGTH, BlockEntry, BlockFlags, NO_TIMESTAMP};
use crate::ids::{ObjectId, TopicId, TopicPartition};

/// One partition's part of one segment. Timestamps are milliseconds since the Unix epoch, -1 when no
/// record of the slice has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    pub topic_partition: TopicPartition,
    pub base_offset: i64,
    /// Exclusive.
    pub next_offset: i64,
    pub data: SliceData,
    pub data_count: u64,
    pub control_count: u64,
    pub null_timestamp_count: u64,
    pub min_timestamp: i64,
    pub max_timestamp: i64,
    /// Of the first record that has the greatest timestamp; -1 when none has one.
    pub offset_of_max_timestamp: i64,
    pub min_append_time_ms: i64,
    pub max_append_time_ms: i64,
    pub leader_epoch: i32,
    pub flags: BlockFlags,
    /// Log cleaning removes the tombstones of the slice when this time has passed.
    pub delete_horizon_ms: Option<i64>,
}

/// Where the batches of a slice are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SliceData {
    Stored(SliceLocation),
    /// In no object any more.
    Lost {
        /// The key of the object that held them.
        object: String,
        acceptance: LossAcceptance,
    },
}

/// Whether readers are told of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossAcceptance {
    /// Reads over the range fail.
    Open,
    /// An operator accepted the loss: readers skip the range.
    Accepted,
}

/// Positions count from the first byte of the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceLocation {
    pub object: ObjectId,
    pub data_position: u64,
    pub data_length: u64,
    /// Where the index entries of the slice's blocks are in the footer.
    pub index_position: u64,
    pub index_length: u32,
    /// CRC-32C of these entries.
    pub index_crc: u32,
    /// Of one entry.
    pub entry_length: u32,
}

impl SliceLocation {
    pub fn block_count(&self) -> u32 {
        self.index_length / self.entry_length
    }
}

impl Slice {
    /// A slice over no blocks yet, which begins at an offset.
    pub fn empty(topic_partition: TopicPartition, base_offset: i64, data: SliceData) -> Self {
        Self {
            topic_partition,
            base_offset,
            next_offset: base_offset,
            data,
            data_count: 0,
            control_count: 0,
            null_timestamp_count: 0,
            min_timestamp: -1,
            max_timestamp: -1,
            offset_of_max_timestamp: -1,
            min_append_time_ms: -1,
            max_append_time_ms: -1,
            leader_epoch: 0,
            flags: BlockFlags::default(),
            delete_horizon_ms: None,
        }
    }

    /// Extends what is known by the block that follows.
    pub fn add(&mut self, block: &BlockEntry) {
        let had_times = self.data_count + self.control_count > 0 && self.max_timestamp != NO_TIMESTAMP;
        if block.max_timestamp != NO_TIMESTAMP {
            if !had_times || block.max_timestamp > self.max_timestamp {
                self.max_timestamp = block.max_timestamp;
                self.offset_of_max_timestamp = block.offset_of_max_timestamp;
            }
            self.min_timestamp =
                if had_times { self.min_timestamp.min(block.min_timestamp) } else { block.min_timestamp };
        }
        if self.min_append_time_ms < 0 {
            self.min_append_time_ms = block.append_time_ms;
        }
        self.min_append_time_ms = self.min_append_time_ms.min(block.append_time_ms);
        self.max_append_time_ms = self.max_append_time_ms.max(block.append_time_ms);
        self.next_offset = block.next_offset;
        self.data_count += u64::from(block.data_count);
        self.control_count += u64::from(block.control_count);
        self.null_timestamp_count += u64::from(block.null_timestamp_count);
        self.leader_epoch = block.leader_epoch;
        self.flags = self.flags | block.flags;
    }

    pub fn location(&self) -> Option<&SliceLocation> {
        match &self.data {
            SliceData::Stored(location) => Some(location),
            SliceData::Lost { .. } => None,
        }
    }

    /// Bytes of its batches.
    pub fn data_length(&self) -> u64 {
        self.location().map_or(0, |location| location.data_length)
    }

    pub(super) fn to_message(&self) -> SliceMessage {
        let (stored, lost) = match &self.data {
            SliceData::Stored(location) => (Some(location.to_message()), None),
            SliceData::Lost { object, acceptance } => {
                let accepted = *acceptance == LossAcceptance::Accepted;
                (None, Some(LostMessage { object: object.clone(), accepted }))
            }
        };
        SliceMessage {
            topic_id: self.topic_partition.topic_id.as_bytes().to_vec(),
            partition: self.topic_partition.partition,
            base_offset: self.base_offset,
            next_offset: self.next_offset,
            stored,
            lost,
            data_count: self.data_count,
            control_count: self.control_count,
            null_timestamp_count: self.null_timestamp_count,
            min_timestamp: self.min_timestamp,
            max_timestamp: self.max_timestamp,
            offset_of_max_timestamp: self.offset_of_max_timestamp,
            min_append_time_ms: self.min_append_time_ms,
            max_append_time_ms: self.max_append_time_ms,
            leader_epoch: self.leader_epoch,
            flags: self.flags.0,
            delete_horizon_ms: self.delete_horizon_ms,
        }
    }

    pub(super) fn from_message(message: SliceMessage) -> Result<Self, String> {
        let bytes = message.topic_id.as_slice();
        let id = bytes.try_into().map_err(|_| format!("a topic id has {} bytes, not 16", bytes.len()))?;
        let data = match (message.stored, message.lost) {
            (Some(stored), None) => SliceData::Stored(SliceLocation::from_message(&stored)?),
            (None, Some(LostMessage { object, accepted })) => {
                let acceptance = if accepted { LossAcceptance::Accepted } else { LossAcceptance::Open };
                SliceData::Lost { object, acceptance }
            }
            _ => return Err("a slice is either stored or lost".to_owned()),
        };
        let flags = BlockFlags(message.flags);
        if flags.not_understood() != 0 {
            return Err(format!("a slice has flags {:#x} that are not understood", flags.not_understood()));
        }
        if message.base_offset < 0 || message.next_offset <= message.base_offset {
            return Err(format!("slice {}..{} does not ascend", message.base_offset, message.next_offset));
        }
        Ok(Self {
            topic_partition: TopicPartition::new(TopicId::from_bytes(id), message.partition),
            base_offset: message.base_offset,
            next_offset: message.next_offset,
            data,
            data_count: message.data_count,
            control_count: message.control_count,
            null_timestamp_count: message.null_timestamp_count,
            min_timestamp: message.min_timestamp,
            max_timestamp: message.max_timestamp,
            offset_of_max_timestamp: message.offset_of_max_timestamp,
            min_append_time_ms: message.min_append_time_ms,
            max_append_time_ms: message.max_append_time_ms,
            leader_epoch: message.leader_epoch,
            flags,
            delete_horizon_ms: message.delete_horizon_ms,
        })
    }
}

impl SliceLocation {
    fn to_message(self) -> SliceLocationMessage {
        SliceLocationMessage {
            object: self.object.to_bytes().to_vec(),
            data_position: self.data_position,
            data_length: self.data_length,
            index_position: self.index_position,
            index_length: self.index_length,
            index_crc: self.index_crc,
            entry_length: self.entry_length,
        }
    }

    fn from_message(message: &SliceLocationMessage) -> Result<Self, String> {
        let entry_length = message.entry_length;
        let data_end = message.data_position.checked_add(message.data_length);
        let index_end = message.index_position.checked_add(u64::from(message.index_length));
        if data_end.is_none() || index_end.is_none() {
            return Err("a slice ends beyond every object".to_owned());
        }
        if (entry_length as usize) < BLOCK_ENTRY_LENGTH || !message.index_length.is_multiple_of(entry_length)
        {
            return Err(format!(
                "a slice has {} bytes of index with entries of {entry_length}",
                message.index_length
            ));
        }
        Ok(Self {
            object: object_id_of(&message.object)?,
            data_position: message.data_position,
            data_length: message.data_length,
            index_position: message.index_position,
            index_length: message.index_length,
            index_crc: message.index_crc,
            entry_length,
        })
    }
}

pub(super) fn object_id_of(bytes: &[u8]) -> Result<ObjectId, String> {
    let bytes = bytes.try_into().map_err(|_| format!("an object id has {} bytes, not 16", bytes.len()))?;
    Ok(ObjectId::from_bytes(bytes))
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SliceMessage {
    #[prost(bytes = "vec", tag = "1")]
    topic_id: Vec<u8>,
    #[prost(int32, tag = "2")]
    partition: i32,
    #[prost(int64, tag = "3")]
    base_offset: i64,
    #[prost(int64, tag = "4")]
    next_offset: i64,
    #[prost(message, optional, tag = "5")]
    stored: Option<SliceLocationMessage>,
    #[prost(message, optional, tag = "6")]
    lost: Option<LostMessage>,
    #[prost(uint64, tag = "7")]
    data_count: u64,
    #[prost(uint64, tag = "8")]
    control_count: u64,
    #[prost(uint64, tag = "9")]
    null_timestamp_count: u64,
    #[prost(sint64, tag = "10")]
    min_timestamp: i64,
    #[prost(sint64, tag = "11")]
    max_timestamp: i64,
    #[prost(sint64, tag = "12")]
    offset_of_max_timestamp: i64,
    #[prost(sint64, tag = "13")]
    min_append_time_ms: i64,
    #[prost(sint64, tag = "14")]
    max_append_time_ms: i64,
    #[prost(sint32, tag = "15")]
    leader_epoch: i32,
    #[prost(uint32, tag = "16")]
    flags: u32,
    #[prost(sint64, optional, tag = "17")]
    delete_horizon_ms: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct SliceLocationMessage {
    #[prost(bytes = "vec", tag = "1")]
    object: Vec<u8>,
    #[prost(uint64, tag = "2")]
    data_position: u64,
    #[prost(uint64, tag = "3")]
    data_length: u64,
    #[prost(uint64, tag = "4")]
    index_position: u64,
    #[prost(uint32, tag = "5")]
    index_length: u32,
    #[prost(fixed32, tag = "6")]
    index_crc: u32,
    #[prost(uint32, tag = "7")]
    entry_length: u32,
}

#[derive(Clone, PartialEq, Message)]
struct LostMessage {
    #[prost(string, tag = "1")]
    object: String,
    #[prost(bool, tag = "2")]
    accepted: bool,
}
