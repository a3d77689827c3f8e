//! One partition: its bounds, what its records are in, its producers and transactions. Pure.
//!
//! Records that were compacted are in slices of segments, whose block indexes are in the segments;
//! what came after is in blocks of the WAL, the tail.
//!
//! Invariant: slices cover a range of offsets without a gap between them, and the tail begins at or
//! after their end. Blocks are in ascending order and do not overlap; offsets between and inside
//! them may be missing.
//! Invariant: `running_max_timestamp` never falls from slice to slice and from block to block, so
//! that a time lookup is a binary search although timestamps are not in order.

use imbl::{OrdMap, Vector};

use super::producer::ProducerState;
use crate::format::event::{PartitionInstall, TransactionEnded, TransactionResult};
use crate::format::{BlockEntry, BlockFlags, Slice};
use crate::ids::{BlockObject, TopicPartition};

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
    pub object: BlockObject,
    /// In bytes from the start of the object.
    pub position: u64,
    pub length: u32,
    /// CRC-32C of the block's bytes.
    pub crc: u32,
}

impl Block {
    /// A block of an object, after others whose greatest timestamp is `running_max_timestamp`.
    pub(in crate::log) fn new(entry: &BlockEntry, object: BlockObject, running_max_timestamp: i64) -> Self {
        Self {
            base_offset: entry.base_offset,
            next_offset: entry.next_offset,
            data_count: entry.data_count,
            control_count: entry.control_count,
            null_timestamp_count: entry.null_timestamp_count,
            min_timestamp: entry.min_timestamp,
            max_timestamp: entry.max_timestamp,
            offset_of_max_timestamp: entry.offset_of_max_timestamp,
            running_max_timestamp: running_max_timestamp.max(entry.max_timestamp),
            append_time_ms: entry.append_time_ms,
            leader_epoch: entry.leader_epoch,
            flags: entry.flags,
            object,
            position: entry.position,
            length: entry.length,
            crc: entry.crc,
        }
    }

    /// The entry of the block as it stands in the index of its object.
    pub(in crate::log) fn entry(&self, topic_partition: TopicPartition) -> BlockEntry {
        BlockEntry {
            topic_partition,
            base_offset: self.base_offset,
            next_offset: self.next_offset,
            position: self.position,
            length: self.length,
            data_count: self.data_count,
            control_count: self.control_count,
            null_timestamp_count: self.null_timestamp_count,
            min_timestamp: self.min_timestamp,
            max_timestamp: self.max_timestamp,
            offset_of_max_timestamp: self.offset_of_max_timestamp,
            append_time_ms: self.append_time_ms,
            leader_epoch: self.leader_epoch,
            flags: self.flags,
            crc: self.crc,
        }
    }
}

/// The greatest timestamp of a partition and the first record that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxTimestamp {
    pub timestamp: i64,
    pub offset: i64,
}

/// A slice in its partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledSlice {
    pub slice: Slice,
    /// The greatest timestamp of this slice and all retained ones before it.
    pub running_max_timestamp: i64,
}

/// A transaction that was aborted. Both offsets are inclusive: of its first record, and of its marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedRange {
    pub producer_id: i64,
    pub first_offset: i64,
    pub last_offset: i64,
}

#[derive(Clone, Debug, Default)]
pub struct PartitionState {
    pub(in crate::log) slices: Vector<InstalledSlice>,
    /// The tail.
    pub(in crate::log) blocks: Vector<Block>,
    pub(in crate::log) next_offset: i64,
    pub(in crate::log) log_start_offset: i64,
    pub(in crate::log) leader_epoch: i32,
    /// Of all slices and blocks that are there.
    pub(in crate::log) max_timestamp: Option<MaxTimestamp>,
    /// By producer id.
    pub(in crate::log) producers: OrdMap<i64, ProducerState>,
    /// Bytes of all slices and blocks.
    pub(in crate::log) size_bytes: u64,
    /// The first offset of each open transaction, by producer id.
    pub(in crate::log) open_transactions: OrdMap<i64, i64>,
    /// In the order of their markers.
    pub(in crate::log) aborted: Vector<AbortedRange>,
    /// Log cleaning went through all offsets below it.
    pub(in crate::log) cleaned_offset: i64,
}

impl PartitionState {
    /// Adds the index entry of a block of the WAL at the end.
    ///
    /// # Panics
    /// If the block begins before the end of the partition: an offset would be given out twice.
    pub(in crate::log) fn push_block(&mut self, entry: &BlockEntry, object: BlockObject) {
        assert!(
            entry.base_offset >= self.next_offset && entry.next_offset > entry.base_offset,
            "block {}..{} does not follow offset {}",
            entry.base_offset,
            entry.next_offset,
            self.next_offset
        );
        self.note_max_timestamp(entry.max_timestamp, entry.offset_of_max_timestamp);
        // After a trim the block before may know a greater maximum than what is left has.
        let before = self.blocks.last().map_or(-1, |block| block.running_max_timestamp);
        let running_max_timestamp = self.max_timestamp.map_or(before, |max| max.timestamp.max(before));
        self.blocks.push_back(Block::new(entry, object, running_max_timestamp));
        self.next_offset = entry.next_offset;
        self.size_bytes += u64::from(entry.length);
    }

    fn note_max_timestamp(&mut self, timestamp: i64, offset: i64) {
        if timestamp >= 0 && self.max_timestamp.is_none_or(|max| timestamp > max.timestamp) {
            self.max_timestamp = Some(MaxTimestamp { timestamp, offset });
        }
    }

    /// The first block of the tail that satisfies a condition which, once true, stays true.
    pub(in crate::log) fn first_block_where(&self, condition: impl Fn(&Block) -> bool) -> usize {
        first_where(&self.blocks, condition)
    }

    /// The same of slices.
    pub(in crate::log) fn first_slice_where(&self, condition: impl Fn(&InstalledSlice) -> bool) -> usize {
        first_where(&self.slices, condition)
    }

    /// Where the tail begins: all offsets below are in slices, or were deleted.
    pub(in crate::log) fn tail_offset(&self) -> i64 {
        let compacted = self.slices.last().map_or(0, |last| last.slice.next_offset);
        let first = self.blocks.front().map_or(self.next_offset, |block| block.base_offset);
        compacted.max(self.log_start_offset.min(first))
    }

    /// The first offset of the first open transaction, else the end of the partition.
    pub(in crate::log) fn last_stable_offset(&self) -> i64 {
        let first = self.open_transactions.values().min();
        first.map_or(self.next_offset, |first| (*first).max(self.log_start_offset))
    }

    /// Notes the end of a transaction, whose marker was appended at a time.
    pub(in crate::log) fn end_transaction(&mut self, event: &TransactionEnded, append_time_ms: i64) {
        self.producers
            .entry(event.producer_id)
            .or_insert_with(|| ProducerState::new(event.producer_epoch))
            .mark(event.producer_epoch, event.coordinator_epoch, append_time_ms);
        let first_offset = self.open_transactions.remove(&event.producer_id);
        if let (TransactionResult::Abort, Some(first_offset)) = (event.result, first_offset) {
            let last_offset = event.marker_offset;
            let producer_id = event.producer_id;
            self.aborted.push_back(AbortedRange { producer_id, first_offset, last_offset });
        }
    }

    /// The aborted transactions whose markers are at or after an offset.
    pub(in crate::log) fn aborted_from(&self, offset: i64) -> impl Iterator<Item = &AbortedRange> {
        let first = first_where(&self.aborted, |aborted| aborted.last_offset >= offset);
        self.aborted.focus().narrow(first..).into_iter()
    }

    /// Whether a producer has not been heard of since a time, and has no open transaction.
    pub(in crate::log) fn is_silent_since(&self, producer_id: i64, since_ms: i64) -> bool {
        let is_silent = |producer: &ProducerState| producer.updated_at_ms < since_ms;
        self.producers.get(&producer_id).is_some_and(is_silent)
            && !self.open_transactions.contains_key(&producer_id)
    }

    /// Moves the log start and drops what is wholly below it; gives the dropped slices and the bytes
    /// of the dropped blocks.
    pub(in crate::log) fn trim(&mut self, log_start_offset: i64) -> Dropped {
        self.log_start_offset = log_start_offset;
        let dead_slices = self.first_slice_where(|slice| slice.slice.next_offset > log_start_offset);
        let slices = drop_front(&mut self.slices, dead_slices);
        let dead_blocks = self.first_block_where(|block| block.next_offset > log_start_offset);
        let blocks = drop_front(&mut self.blocks, dead_blocks);
        self.aborted.retain(|aborted| aborted.last_offset >= log_start_offset);
        let dropped = Dropped::new(slices, &blocks);
        self.size_bytes -= dropped.bytes();
        if dropped.bytes() > 0 || dead_slices > 0 {
            self.recompute_bounds();
        }
        dropped
    }

    /// Adds a slice that was read back, before the tail.
    ///
    /// # Errors
    /// A slice that does not follow the one before it.
    pub(in crate::log) fn restore_slice(&mut self, slice: Slice) -> Result<(), String> {
        let follows = self.slices.last().is_none_or(|last| last.slice.next_offset == slice.base_offset);
        let tail = self.blocks.front().map_or(self.next_offset, |block| block.base_offset);
        if !follows || slice.next_offset > tail {
            return Err(format!("slice {}..{} is out of place", slice.base_offset, slice.next_offset));
        }
        self.size_bytes += slice.data_length();
        self.slices.push_back(InstalledSlice { slice, running_max_timestamp: -1 });
        Ok(())
    }

    /// Derives what follows from the slices, after all were added.
    pub(in crate::log) fn finish_restore(&mut self) {
        self.recompute_bounds();
    }

    /// Puts slices in the place of what covers the same offsets.
    ///
    /// # Errors
    /// What in the install contradicts the partition.
    pub(in crate::log) fn install(&mut self, install: &PartitionInstall) -> Result<Dropped, String> {
        let (base_offset, next_offset) = (install.base_offset, install.next_offset);
        check_coverage(install)?;
        let first = self.first_slice_where(|slice| slice.slice.next_offset > base_offset);
        let end = self.first_slice_where(|slice| slice.slice.base_offset >= next_offset).max(first);
        let end_blocks = self.first_block_where(|block| block.base_offset >= next_offset);
        self.check_fits(install, first, end, end_blocks)?;
        let mut kept = self.slices.clone();
        let after = kept.split_off(end);
        let removed = kept.split_off(first);
        let live = install.slices.iter().filter(|slice| slice.next_offset > self.log_start_offset);
        let live = live.map(|slice| InstalledSlice { slice: slice.clone(), running_max_timestamp: -1 });
        kept.extend(live);
        let added: u64 = kept.iter().skip(first).map(|slice| slice.slice.data_length()).sum();
        kept.append(after);
        self.slices = kept;
        let blocks = drop_front(&mut self.blocks, end_blocks);
        let dropped = Dropped::new(removed, &blocks);
        self.size_bytes = self.size_bytes + added - dropped.bytes();
        if let Some(cleaned_offset) = install.cleaned_offset {
            self.cleaned_offset = cleaned_offset;
            // Nothing of these transactions is left to hide.
            self.aborted.retain(|aborted| aborted.last_offset >= cleaned_offset);
        }
        self.recompute_bounds();
        Ok(dropped)
    }

    /// Whether an install replaces whole slices and blocks, and leaves no gap.
    fn check_fits(
        &self,
        install: &PartitionInstall,
        first: usize,
        end: usize,
        end_blocks: usize,
    ) -> Result<(), String> {
        let (base_offset, next_offset) = (install.base_offset, install.next_offset);
        let before = first.checked_sub(1).and_then(|before| self.slices.get(before));
        let begins_well = match before {
            Some(before) => before.slice.next_offset == base_offset,
            None => base_offset <= self.log_start_offset.max(0),
        };
        let cuts_first = self.slices.get(first).is_some_and(|slice| slice.slice.base_offset < base_offset);
        let cuts_last = end > 0 && self.slices[end - 1].slice.next_offset > next_offset;
        let cuts_block = end_blocks > 0 && self.blocks[end_blocks - 1].next_offset > next_offset;
        let leaves_gap = self.slices.get(end).is_some_and(|slice| slice.slice.base_offset != next_offset);
        let skips_slices = end_blocks > 0 && end < self.slices.len();
        let beyond = next_offset > self.next_offset;
        if begins_well && !cuts_first && !cuts_last && !cuts_block && !leaves_gap && !skips_slices && !beyond
        {
            return Ok(());
        }
        Err(format!(
            "slices for {base_offset}..{next_offset} do not fit between the {} slices and {} blocks that are there",
            self.slices.len(),
            self.blocks.len()
        ))
    }

    /// Derives running maxima and the greatest timestamp from what is there.
    fn recompute_bounds(&mut self) {
        let mut running = -1;
        self.max_timestamp = None;
        for index in 0..self.slices.len() {
            let slice = &self.slices[index];
            running = running.max(slice.slice.max_timestamp);
            let (timestamp, offset) = (slice.slice.max_timestamp, slice.slice.offset_of_max_timestamp);
            if slice.running_max_timestamp != running {
                self.slices[index].running_max_timestamp = running;
            }
            self.note_max_timestamp(timestamp, offset);
        }
        // The running maxima of the tail may stay above: they then only rule out less.
        let (mut greatest, mut offset) = (self.max_timestamp.map_or(-1, |max| max.timestamp), -1);
        for block in &self.blocks {
            if block.max_timestamp > greatest {
                (greatest, offset) = (block.max_timestamp, block.offset_of_max_timestamp);
            }
        }
        if offset >= 0 {
            self.note_max_timestamp(greatest, offset);
        }
    }
}

/// What left a partition.
#[derive(Debug)]
pub(in crate::log) struct Dropped {
    pub(in crate::log) slices: Vector<InstalledSlice>,
    pub(in crate::log) tail_bytes: u64,
}

impl Dropped {
    pub(super) fn new(slices: Vector<InstalledSlice>, blocks: &Vector<Block>) -> Self {
        let tail_bytes = blocks.iter().map(|block| u64::from(block.length)).sum();
        Self { slices, tail_bytes }
    }

    fn bytes(&self) -> u64 {
        self.tail_bytes + self.slices.iter().map(|slice| slice.slice.data_length()).sum::<u64>()
    }
}

/// The slices of an install follow each other from its first offset to its last.
fn check_coverage(install: &PartitionInstall) -> Result<(), String> {
    let mut next_offset = install.base_offset;
    for slice in &install.slices {
        if slice.base_offset != next_offset || slice.next_offset <= slice.base_offset {
            return Err(format!(
                "slice {}..{} does not follow offset {next_offset}",
                slice.base_offset, slice.next_offset
            ));
        }
        next_offset = slice.next_offset;
    }
    if next_offset == install.next_offset {
        return Ok(());
    }
    Err(format!("slices end at offset {next_offset}, not at {}", install.next_offset))
}

/// Takes the first items away and gives them.
fn drop_front<T: Clone>(items: &mut Vector<T>, count: usize) -> Vector<T> {
    let rest = items.split_off(count);
    std::mem::replace(items, rest)
}

fn first_where<T: Clone>(items: &Vector<T>, condition: impl Fn(&T) -> bool) -> usize {
    let (mut low, mut high) = (0, items.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if condition(&items[middle]) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}
