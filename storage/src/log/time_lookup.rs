//! The first record at or after a time, exact to the record, also inside compressed batches.
//!
//! The running maximum of the blocks' greatest timestamps never falls, so the first block that can
//! hold the answer is found by binary search, and only that block is read. A block that yields
//! nothing sends the search on to the next.

use bytes::Bytes;

use super::error::FetchError;
use super::snapshot::{BlockList, Isolation, PartitionView};
use super::state::{Block, MaxTimestamp};
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
        let found = self.first_at_or_after(target_ms, isolation).await?;
        Ok(found.filter(|found| found.offset < self.bounds().end(isolation)))
    }

    async fn first_at_or_after(
        &self,
        target_ms: i64,
        isolation: Isolation,
    ) -> Result<Option<TimestampedOffset>, FetchError> {
        let end = self.bounds().end(isolation);
        let mut index = self.state.first_slice_where(|slice| slice.running_max_timestamp >= target_ms);
        while let Some(slice) = self.slice(index) {
            if slice.slice.base_offset >= end {
                return Ok(None);
            }
            if slice.slice.max_timestamp >= target_ms {
                let blocks = self.slice_blocks(slice).await?;
                let first = blocks.partition_point(|block| block.running_max_timestamp < target_ms);
                let list = BlockList::Slice(blocks);
                if let Some(found) = self.first_in_list(&list, first, target_ms, end).await? {
                    return Ok(Some(found));
                }
            }
            index += 1;
        }
        let first = self.state.first_block_where(|block| block.running_max_timestamp >= target_ms);
        self.first_in_list(&BlockList::Tail, first, target_ms, end).await
    }

    async fn first_in_list(
        &self,
        list: &BlockList,
        first: usize,
        target_ms: i64,
        end: i64,
    ) -> Result<Option<TimestampedOffset>, FetchError> {
        let mut index = first;
        while let Some(block) = self.block_of(list, index).filter(|block| block.base_offset < end) {
            if block.max_timestamp >= target_ms && block.next_offset > self.state.log_start_offset {
                let bytes = self.read_blocks(&[block]).await?.remove(0);
                if let Some(found) = self.first_in_block(&block, bytes, target_ms)? {
                    return Ok(Some(found));
                }
            }
            index += 1;
        }
        Ok(None)
    }

    /// The first record that has the greatest timestamp of all.
    ///
    /// # Errors
    /// An object that cannot be read or is damaged: it is read only when the log start cuts it.
    pub async fn max_timestamp(&self, isolation: Isolation) -> Result<Option<TimestampedOffset>, FetchError> {
        let Some(max) = self.state.max_timestamp else { return Ok(None) };
        let bounds = self.bounds();
        let found = if max.offset >= bounds.log_start_offset {
            Some(max)
        } else {
            self.max_timestamp_after_start().await?
        };
        let found = found.filter(|max| max.offset < bounds.end(isolation));
        Ok(found.map(|max| TimestampedOffset {
            offset: max.offset,
            timestamp: max.timestamp,
            leader_epoch: self.state.leader_epoch,
        }))
    }

    /// The same when the log start cuts off what the index knows.
    async fn max_timestamp_after_start(&self) -> Result<Option<MaxTimestamp>, FetchError> {
        let start = self.state.log_start_offset;
        let mut greatest = None;
        let mut index = 0;
        while let Some(slice) = self.slice(index) {
            index += 1;
            if slice.slice.base_offset >= start {
                raise(&mut greatest, slice.slice.max_timestamp, slice.slice.offset_of_max_timestamp);
                continue;
            }
            let list = BlockList::Slice(self.slice_blocks(slice).await?);
            self.raise_by_list(&mut greatest, &list).await?;
        }
        self.raise_by_list(&mut greatest, &BlockList::Tail).await?;
        Ok(greatest)
    }

    async fn raise_by_list(
        &self,
        greatest: &mut Option<MaxTimestamp>,
        list: &BlockList,
    ) -> Result<(), FetchError> {
        let mut index = 0;
        while let Some(block) = self.block_of(list, index) {
            self.raise_by_block(greatest, &block).await?;
            index += 1;
        }
        Ok(())
    }

    async fn raise_by_block(
        &self,
        greatest: &mut Option<MaxTimestamp>,
        block: &Block,
    ) -> Result<(), FetchError> {
        let start = self.state.log_start_offset;
        if block.base_offset >= start {
            raise(greatest, block.max_timestamp, block.offset_of_max_timestamp);
            return Ok(());
        }
        if block.next_offset <= start {
            return Ok(());
        }
        let bytes = self.read_blocks(&[*block]).await?.remove(0);
        for batch in split_batches(bytes) {
            let (_, batch) = batch.map_err(|error| self.damaged(block, error))?;
            let mut budget = DecompressionBudget::new(self.decompressed_bytes_max);
            let records = Records::decode(&batch, &mut budget).map_err(|error| self.damaged(block, error))?;
            for record in &records {
                let record = record.map_err(|error| self.damaged(block, error))?;
                if let Some(timestamp) = record.timestamp.filter(|_| record.offset >= start) {
                    raise(greatest, timestamp, record.offset);
                }
            }
        }
        Ok(())
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

fn raise(greatest: &mut Option<MaxTimestamp>, timestamp: i64, offset: i64) {
    if timestamp >= 0 && greatest.is_none_or(|greatest| timestamp > greatest.timestamp) {
        *greatest = Some(MaxTimestamp { timestamp, offset });
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
