//! One partition: its bounds, its index of blocks and its producers. Pure.
//!
//! Invariant: blocks are in ascending order of offsets and do not overlap; offsets between and
//! inside them may be missing.
//! Invariant: `running_max_timestamp` never falls from block to block, so that a time lookup is a
//! binary search although timestamps are not in order.

use imbl::{OrdMap, Vector};

use super::producer::ProducerState;
use crate::format::{BlockEntry, BlockFlags};
use crate::ids::WalPosition;

/// About 64 KiB of whole batches of one partition in one object: the unit of index and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    pub base_offset: i64,
    /// Exclusive.
    pub next_offset: i64,
    pub data_count: u32,
    pub control_count: u32,
    pub null_timestamp_count: u32,
    /// -1 when no record has a timestamp, like the next three.
    pub min_timestamp: i64,
    pub max_timestamp: i64,
    /// Of the first record that has the greatest timestamp.
    pub offset_of_max_timestamp: i64,
    /// The greatest timestamp of this block and all before it.
    pub running_max_timestamp: i64,
    pub append_time_ms: i64,
    pub leader_epoch: i32,
    pub flags: BlockFlags,
    pub object: WalPosition,
    /// In bytes from the start of the object.
    pub position: u64,
    pub length: u32,
    /// CRC-32C of the block's bytes.
    pub crc: u32,
}

/// The greatest timestamp of a partition and the first record that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxTimestamp {
    pub timestamp: i64,
    pub offset: i64,
}

#[derive(Clone, Debug, Default)]
pub struct PartitionState {
    pub(in crate::log) blocks: Vector<Block>,
    pub(in crate::log) next_offset: i64,
    pub(in crate::log) log_start_offset: i64,
    pub(in crate::log) leader_epoch: i32,
    pub(in crate::log) max_timestamp: Option<MaxTimestamp>,
    /// By producer id.
    pub(in crate::log) producers: OrdMap<i64, ProducerState>,
    /// Bytes of all blocks.
    pub(in crate::log) size_bytes: u64,
}

impl PartitionState {
    /// Adds the index entry of a block at the end.
    ///
    /// # Panics
    /// If the block begins before the end of the partition: an offset would be given out twice.
    pub(in crate::log) fn push_block(&mut self, entry: &BlockEntry, object: WalPosition) {
        assert!(
            entry.base_offset >= self.next_offset && entry.next_offset > entry.base_offset,
            "block {}..{} does not follow offset {}",
            entry.base_offset,
            entry.next_offset,
            self.next_offset
        );
        if self.max_timestamp.is_none_or(|max| entry.max_timestamp > max.timestamp)
            && entry.max_timestamp >= 0
        {
            self.max_timestamp =
                Some(MaxTimestamp { timestamp: entry.max_timestamp, offset: entry.offset_of_max_timestamp });
        }
        self.blocks.push_back(Block {
            base_offset: entry.base_offset,
            next_offset: entry.next_offset,
            data_count: entry.data_count,
            control_count: entry.control_count,
            null_timestamp_count: entry.null_timestamp_count,
            min_timestamp: entry.min_timestamp,
            max_timestamp: entry.max_timestamp,
            offset_of_max_timestamp: entry.offset_of_max_timestamp,
            running_max_timestamp: self.max_timestamp.map_or(-1, |max| max.timestamp),
            append_time_ms: entry.append_time_ms,
            leader_epoch: entry.leader_epoch,
            flags: entry.flags,
            object,
            position: entry.position,
            length: entry.length,
            crc: entry.crc,
        });
        self.next_offset = entry.next_offset;
        self.size_bytes += u64::from(entry.length);
    }

    /// The first block that satisfies a condition which, once true, stays true.
    pub(in crate::log) fn first_block_where(&self, condition: impl Fn(&Block) -> bool) -> usize {
        let (mut low, mut high) = (0, self.blocks.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if condition(&self.blocks[middle]) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}
