//! Fetch: whole batches from an offset on, within a budget of bytes (KIP-74).

use bytes::Bytes;

use super::error::FetchError;
use super::snapshot::{Isolation, PartitionView};
use super::state::Block;
use crate::format::split_batches;

/// Blocks are read in groups of about this many bytes, so that a fetch holds little more than it
/// returns.
const READ_BYTES: usize = 4 * 1024 * 1024;

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
        let mut index = self.block_index_at(options.from);
        while let Some(group) = self.next_group(index, end, &options, fetched.bytes) {
            index += group.len();
            let bytes = self.read_blocks(&group).await?;
            for (block, bytes) in group.iter().zip(bytes) {
                if !self.add_block(block, bytes, end, &options, &mut fetched)? {
                    return Ok(fetched);
                }
            }
        }
        Ok(fetched)
    }

    /// The next blocks to read together, as many as the rest of the budget asks for.
    fn next_group(
        &self,
        index: usize,
        end: i64,
        options: &FetchOptions,
        fetched: usize,
    ) -> Option<Vec<Block>> {
        let left = options.bytes_max.saturating_sub(fetched).min(READ_BYTES);
        let wants_first = fetched == 0 && options.first_batch == FirstBatch::Whole;
        if left == 0 && !wants_first {
            return None;
        }
        let mut group = Vec::new();
        let mut bytes = 0;
        for block in self.state.blocks.focus().narrow(index..).into_iter() {
            if block.base_offset >= end || (!group.is_empty() && bytes >= left) {
                break;
            }
            bytes += block.length as usize;
            group.push(*block);
        }
        (!group.is_empty()).then_some(group)
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
