//! Fetch: whole batches from an offset on, within a budget of bytes (KIP-74).

use bytes::Bytes;

use super::error::FetchError;
use super::reader::READ_BYTES_MAX;
use super::snapshot::{BlockList, Isolation, PartitionView};
use super::state::Block;
use crate::format::split_batches;

/// Blocks are read in groups of about this many bytes, so that a fetch holds little more than it
/// returns.
const READ_BYTES: usize = READ_BYTES_MAX as usize;

/// What to do with a first batch that is larger than the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstBatch {
    /// Return it whole, so that the reader gets on.
    Whole,
    /// Return nothing.
    WithinLimit,
}

#[derive(Clone, Copy, Debug)]
pub struct FetchOptions {
    /// The first offset wanted. The first batch may begin before it: batches are never cut.
    pub from: i64,
    pub bytes_max: usize,
    pub isolation: Isolation,
    pub first_batch: FirstBatch,
}

/// A transaction whose records in the fetched range must be skipped under read committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    pub producer_id: i64,
    pub first_offset: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Whole batches in ascending order of offsets; offsets between them may be missing.
    pub batches: Vec<Bytes>,
    /// Of all batches.
    pub bytes: usize,
    pub aborted: Vec<AbortedTransaction>,
    /// Where the next fetch goes on.
    pub next_offset: i64,
}

impl PartitionView {
    /// Reads batches from an offset on.
    ///
    /// # Errors
    /// An offset outside of the bounds, or an object that cannot be read or is damaged.
    pub async fn fetch(&self, options: FetchOptions) -> Result<Fetched, FetchError> {
        let bounds = self.bounds();
        let end = bounds.end(options.isolation);
        if options.from < bounds.log_start_offset || options.from > bounds.high_watermark {
            return Err(FetchError::OutOfRange {
                offset: options.from,
                log_start_offset: bounds.log_start_offset,
                high_watermark: bounds.high_watermark,
                partition: self.topic_partition.partition,
            });
        }
        let mut fetched = Fetched { next_offset: options.from, ..Fetched::default() };
        match self.fetch_into(&mut fetched, end, &options).await {
            // What was read before the failure is given; the next fetch meets it first.
            Err(error) if fetched.batches.is_empty() => return Err(error),
            Ok(()) | Err(_) => {}
        }
        if options.isolation == Isolation::ReadCommitted {
            fetched.aborted = self.aborted_between(options.from, fetched.next_offset);
        }
        Ok(fetched)
    }

    /// Reads slices from the offset on, and then the tail.
    async fn fetch_into(
        &self,
        fetched: &mut Fetched,
        end: i64,
        options: &FetchOptions,
    ) -> Result<(), FetchError> {
        let mut index = self.slice_index_at(options.from);
        while let Some(slice) = self.slice(index).filter(|slice| slice.slice.base_offset < end) {
            let blocks = self.slice_blocks(slice).await?;
            let first = blocks.partition_point(|block| block.next_offset <= options.from);
            if !self.fetch_blocks(&BlockList::Slice(blocks), first, fetched, end, options).await? {
                return Ok(());
            }
            index += 1;
        }
        let first = self.tail_index_at(options.from);
        self.fetch_blocks(&BlockList::Tail, first, fetched, end, options).await?;
        Ok(())
    }

    /// Reads blocks of a list in groups, from one on; false when the fetch is complete.
    async fn fetch_blocks(
        &self,
        list: &BlockList,
        first: usize,
        fetched: &mut Fetched,
        end: i64,
        options: &FetchOptions,
    ) -> Result<bool, FetchError> {
        let mut index = first;
        while self.block_of(list, index).is_some_and(|block| block.base_offset < end) {
            let group = self.next_group(list, index, end, options, fetched.bytes);
            if group.is_empty() {
                return Ok(false);
            }
            index += group.len();
            let count = group.len();
            let group = self.with_blocks_ahead(list, index, group);
            let bytes = self.find_blocks(&group, count).await?;
            for (block, bytes) in group.iter().zip(bytes) {
                if !self.add_block(block, bytes, end, options, fetched)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The group with the blocks after it that one request may read as well: the next fetch will ask
    /// for them.
    fn with_blocks_ahead(&self, list: &BlockList, index: usize, mut group: Vec<Block>) -> Vec<Block> {
        if !self.reader.reads_ahead() {
            return group;
        }
        let mut bytes: u64 = group.iter().map(|block| u64::from(block.length)).sum();
        for block in (index..).map_while(|index| self.block_of(list, index)) {
            bytes += u64::from(block.length);
            if bytes > READ_BYTES_MAX {
                break;
            }
            group.push(block);
        }
        group
    }

    /// The next blocks to read together, as many as the rest of the budget asks for.
    fn next_group(
        &self,
        list: &BlockList,
        index: usize,
        end: i64,
        options: &FetchOptions,
        fetched: usize,
    ) -> Vec<Block> {
        let left = options.bytes_max.saturating_sub(fetched).min(READ_BYTES);
        let wants_first = fetched == 0 && options.first_batch == FirstBatch::Whole;
        let mut group = Vec::new();
        if left == 0 && !wants_first {
            return group;
        }
        let mut bytes = 0;
        let blocks = (index..).map_while(|index| self.block_of(list, index));
        for block in blocks.take_while(|block| block.base_offset < end) {
            bytes += block.length as usize;
            group.push(block);
            if bytes >= left {
                break;
            }
        }
        group
    }

    /// The aborted transactions that have a record in these offsets, in the order of their first one.
    pub fn aborted_between(&self, from: i64, end: i64) -> Vec<AbortedTransaction> {
        let mut aborted: Vec<_> = self
            .aborted_ranges(from, end)
            .into_iter()
            .map(|range| AbortedTransaction {
                producer_id: range.producer_id,
                first_offset: range.first_offset,
            })
            .collect();
        aborted.sort_by_key(|aborted| aborted.first_offset);
        aborted
    }

    /// Adds the batches of a block that are wanted; false when the fetch is complete.
    fn add_block(
        &self,
        block: &Block,
        bytes: Bytes,
        end: i64,
        options: &FetchOptions,
        fetched: &mut Fetched,
    ) -> Result<bool, FetchError> {
        for batch in split_batches(bytes) {
            let (header, batch) = batch.map_err(|error| self.damaged(block, error))?;
            if header.last_offset() < options.from {
                continue;
            }
            let is_first = fetched.batches.is_empty() && options.first_batch == FirstBatch::Whole;
            let fits = fetched.bytes + batch.len() <= options.bytes_max;
            if header.base_offset >= end || !(fits || is_first) {
                return Ok(false);
            }
            fetched.bytes += batch.len();
            fetched.next_offset = header.next_offset();
            fetched.batches.push(batch);
        }
        Ok(true)
    }
}
