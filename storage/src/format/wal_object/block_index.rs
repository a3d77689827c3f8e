//! The block index: one entry for each block of about 64 KiB of one partition.
//!
//! Invariants: entries have one length in an object, which the header names; a reader takes the
//! front that it knows and refuses flags that it must understand and does not.

use std::ops::BitOr;

use super::{WalObjectError, array};
use crate::ids::{TopicId, TopicPartition};

/// Stands for the times of records that have none.
pub(in crate::format) const NO_TIMESTAMP: i64 = -1;

/// Bytes of an entry as this version writes it.
pub const BLOCK_ENTRY_LENGTH: usize = 104;

/// What a reader must know about a block before it looks inside. The lower 16 bits must be
/// understood, the upper 16 may be ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockFlags(pub u32);

impl BlockFlags {
    /// At least one batch holds transaction markers.
    pub const CONTROL: Self = Self(1);
    /// At least one batch belongs to a transaction.
    pub const TRANSACTIONAL: Self = Self(1 << 1);
    /// At least one batch is compressed.
    pub const COMPRESSED: Self = Self(1 << 2);
    /// At least one batch has the time of its append as the time of its records.
    pub const LOG_APPEND_TIME: Self = Self(1 << 3);
    /// Offsets between base and next offset may be missing.
    pub const GAPS: Self = Self(1 << 4);

    const KNOWN: u32 = 0x1f;
    const MUST_UNDERSTAND: u32 = 0xffff;

    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(in crate::format) fn not_understood(self) -> u32 {
        self.0 & Self::MUST_UNDERSTAND & !Self::KNOWN
    }
}

impl BitOr for BlockFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// One block of batches of one partition. Timestamps are milliseconds since the Unix epoch, -1 when
/// no record of the block has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEntry {
    pub topic_partition: TopicPartition,
    pub base_offset: i64,
    /// The offset after the last record (exclusive).
    pub next_offset: i64,
    /// Where the block begins, from the object's first byte.
    pub position: u64,
    /// Bytes of the block.
    pub length: u32,
    /// Records of users.
    pub data_count: u32,
    /// Transaction markers.
    pub control_count: u32,
    /// Records of users without a timestamp.
    pub null_timestamp_count: u32,
    pub min_timestamp: i64,
    pub max_timestamp: i64,
    /// The first record that has the greatest timestamp; -1 when none has one.
    pub offset_of_max_timestamp: i64,
    pub append_time_ms: i64,
    pub leader_epoch: i32,
    pub flags: BlockFlags,
    /// CRC-32C of the block's bytes.
    pub crc: u32,
}

impl BlockEntry {
    /// The entry of a block without records, which begins at an offset.
    pub fn empty(topic_partition: TopicPartition, base_offset: i64) -> Self {
        Self {
            topic_partition,
            base_offset,
            next_offset: base_offset,
            position: 0,
            length: 0,
            data_count: 0,
            control_count: 0,
            null_timestamp_count: 0,
            min_timestamp: NO_TIMESTAMP,
            max_timestamp: NO_TIMESTAMP,
            offset_of_max_timestamp: -1,
            append_time_ms: 0,
            leader_epoch: 0,
            flags: BlockFlags::default(),
            crc: 0,
        }
    }

    /// Extends what is known of a block by the batches that follow it. Position, length and CRC are
    /// the caller's.
    pub fn extend(&mut self, next: &Self) {
        // A record may have a time before 1970.
        if next.max_timestamp != NO_TIMESTAMP {
            let had_times = self.max_timestamp != NO_TIMESTAMP;
            if !had_times || next.max_timestamp > self.max_timestamp {
                self.max_timestamp = next.max_timestamp;
                self.offset_of_max_timestamp = next.offset_of_max_timestamp;
            }
            self.min_timestamp =
                if had_times { self.min_timestamp.min(next.min_timestamp) } else { next.min_timestamp };
        }
        if next.base_offset > self.next_offset {
            self.flags = self.flags | BlockFlags::GAPS;
        }
        self.next_offset = next.next_offset;
        self.data_count += next.data_count;
        self.control_count += next.control_count;
        self.null_timestamp_count += next.null_timestamp_count;
        self.append_time_ms = self.append_time_ms.max(next.append_time_ms);
        self.leader_epoch = next.leader_epoch;
        self.flags = self.flags | next.flags;
    }

    pub(in crate::format) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.topic_partition.topic_id.as_bytes());
        out.extend_from_slice(&self.topic_partition.partition.to_le_bytes());
        out.extend_from_slice(&self.base_offset.to_le_bytes());
        out.extend_from_slice(&self.next_offset.to_le_bytes());
        out.extend_from_slice(&self.position.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&self.data_count.to_le_bytes());
        out.extend_from_slice(&self.control_count.to_le_bytes());
        out.extend_from_slice(&self.null_timestamp_count.to_le_bytes());
        out.extend_from_slice(&self.min_timestamp.to_le_bytes());
        out.extend_from_slice(&self.max_timestamp.to_le_bytes());
        out.extend_from_slice(&self.offset_of_max_timestamp.to_le_bytes());
        out.extend_from_slice(&self.append_time_ms.to_le_bytes());
        out.extend_from_slice(&self.leader_epoch.to_le_bytes());
        out.extend_from_slice(&self.flags.0.to_le_bytes());
        out.extend_from_slice(&self.crc.to_le_bytes());
    }

    fn decode(bytes: &[u8; BLOCK_ENTRY_LENGTH]) -> Self {
        let topic_id = TopicId::from_bytes(array(bytes, 0));
        Self {
            topic_partition: TopicPartition::new(topic_id, i32::from_le_bytes(array(bytes, 16))),
            base_offset: i64::from_le_bytes(array(bytes, 20)),
            next_offset: i64::from_le_bytes(array(bytes, 28)),
            position: u64::from_le_bytes(array(bytes, 36)),
            length: u32::from_le_bytes(array(bytes, 44)),
            data_count: u32::from_le_bytes(array(bytes, 48)),
            control_count: u32::from_le_bytes(array(bytes, 52)),
            null_timestamp_count: u32::from_le_bytes(array(bytes, 56)),
            min_timestamp: i64::from_le_bytes(array(bytes, 60)),
            max_timestamp: i64::from_le_bytes(array(bytes, 68)),
            offset_of_max_timestamp: i64::from_le_bytes(array(bytes, 76)),
            append_time_ms: i64::from_le_bytes(array(bytes, 84)),
            leader_epoch: i32::from_le_bytes(array(bytes, 92)),
            flags: BlockFlags(u32::from_le_bytes(array(bytes, 96))),
            crc: u32::from_le_bytes(array(bytes, 100)),
        }
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.topic_partition.partition < 0 {
            return Err("its partition is negative");
        }
        if self.base_offset < 0 || self.next_offset <= self.base_offset {
            return Err("its offsets do not ascend");
        }
        if self.length == 0 {
            return Err("its block is empty");
        }
        Ok(())
    }
}

/// Decodes an index whose entries have `entry_length` bytes each.
pub(in crate::format) fn decode_index(
    index: &[u8],
    entry_length: u32,
) -> Result<Vec<BlockEntry>, WalObjectError> {
    let min = BLOCK_ENTRY_LENGTH as u32;
    if entry_length < min {
        return Err(WalObjectError::EntryLength { found: entry_length, min });
    }
    let entries = index.chunks_exact(entry_length as usize);
    if !entries.remainder().is_empty() {
        let index_length = index.len() as u32;
        return Err(WalObjectError::IndexLength { index_length, entry_length });
    }
    entries.enumerate().map(|(index, bytes)| decode_entry(index, bytes)).collect()
}

fn decode_entry(index: usize, bytes: &[u8]) -> Result<BlockEntry, WalObjectError> {
    let entry = BlockEntry::decode(&array(bytes, 0));
    let flags = entry.flags.not_understood();
    if flags != 0 {
        return Err(WalObjectError::UnknownFlags { index, flags });
    }
    entry.check().map_err(|what| WalObjectError::BadEntry { index, what })?;
    Ok(entry)
}
