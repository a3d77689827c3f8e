//! The first record at or after a time, exact to the record, also inside compressed batches.
//!
//! The running maximum of the blocks' greatest timestamps never falls, so the first block that can
//! hold the answer is found by binary search, and only that block is read. A block that yields
//! nothing sends the search on to the next.

use bytes::Bytes;

use super::error::FetchError;
use super::snapshot::{Isolation, PartitionView};
use super::state::Block;
use crate::format::{BatchError, BatchHeader, DecompressionBudget, Records, split_batches};

/// A record's place and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampedOffset {
    pub offset: i64,
    /// The record's own timestamp in milliseconds.
    pub timestamp: i64,
    pub leader_epoch: i32,
}

impl PartitionView {
    /// The first record, in order of offsets, whose timestamp is at or after `target_ms`. `None` if
    /// there is none that a reader of this isolation may see.
    ///
    /// # Errors
    /// An object that cannot be read or is damaged.
    pub async fn lookup_time(
        &self,
        target_ms: i64,
        isolation: Isolation,
    ) -> Result<Option<TimestampedOffset>, FetchError> {
        let bounds = self.bounds();
        let mut index = self.state.first_block_where(|block| block.running_max_timestamp >= target_ms);
        while let Some(block) = self.state.blocks.get(index) {
            if block.base_offset >= bounds.end(isolation) {
                return Ok(None);
            }
            if block.max_timestamp >= target_ms && block.next_offset > bounds.log_start_offset {
                let bytes = self.read_blocks(&[*block]).await?.remove(0);
                if let Some(found) = self.first_in_block(block, bytes, target_ms)? {
                    return Ok(Some(found).filter(|found| found.offset < bounds.end(isolation)));
                }
            }
            index += 1;
        }
        Ok(None)
    }

    /// The first record that has the greatest timestamp of all.
    pub fn max_timestamp(&self, isolation: Isolation) -> Option<TimestampedOffset> {
        let bounds = self.bounds();
        let max = self.state.max_timestamp.filter(|max| max.offset < bounds.end(isolation))?;
        Some(TimestampedOffset {
            offset: max.offset,
            timestamp: max.timestamp,
            leader_epoch: self.state.leader_epoch,
        })
    }

    fn first_in_block(
        &self,
        block: &Block,
        bytes: Bytes,
        target_ms: i64,
    ) -> Result<Option<TimestampedOffset>, FetchError> {
        let log_start_offset = self.state.log_start_offset;
        for batch in split_batches(bytes) {
            let (header, batch) = batch.map_err(|error| self.damaged(block, error))?;
            if header.max_timestamp < target_ms || header.last_offset() < log_start_offset {
                continue;
            }
            let found =
                first_in_batch(&header, &batch, target_ms, log_start_offset, self.decompressed_bytes_max);
            if let Some(found) = found.map_err(|error| self.damaged(block, error))? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// The log wrote the greatest timestamp of its records into each batch, so a header that is below
/// the target rules the batch out.
fn first_in_batch(
    header: &BatchHeader,
    batch: &Bytes,
    target_ms: i64,
    log_start_offset: i64,
    decompressed_bytes_max: usize,
) -> Result<Option<TimestampedOffset>, BatchError> {
    let records = Records::decode(batch, &mut DecompressionBudget::new(decompressed_bytes_max))?;
    for record in &records {
        let record = record?;
        let Some(timestamp) = record.timestamp else { continue };
        if timestamp >= target_ms && record.offset >= log_start_offset {
            let leader_epoch = header.leader_epoch;
            return Ok(Some(TimestampedOffset { offset: record.offset, timestamp, leader_epoch }));
        }
    }
    Ok(None)
}
