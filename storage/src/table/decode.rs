//! From the bytes of blocks to decoded records: which batches of a block are worth decoding, and the
//! rows of those that are.
//!
//! Invariant: control records and those of aborted transactions are never rows.

use std::mem::size_of;

use bytes::Bytes;
use datafusion::common::Result;

use super::assignment::Direction;
use super::blocks::{PartitionBlocks, TopicBlocks};
use super::counters::{ScanCounter, ScanMetrics};
use super::pruning::{Pruner, UnitBounds};
use super::rows::Row;
use crate::format::{
    BatchError, BatchHeader, Compression, DecompressionBudget, Record, Records, TimestampType, split_batches,
};
use crate::log::Block;

/// A batch that waits to be decoded.
#[derive(Debug)]
pub(super) struct PendingBatch {
    pub(super) header: BatchHeader,
    bytes: Bytes,
    block: Block,
}

/// A decoded batch.
#[derive(Debug)]
pub(super) struct DecodedBatch {
    records: Records,
    block: Block,
}

/// A block, its bytes, and what its batches are judged by.
pub(super) struct BlockBytes<'a> {
    pub(super) blocks: &'a TopicBlocks,
    pub(super) slot: u32,
    pub(super) block: Block,
    pub(super) bytes: Bytes,
    pub(super) bounds: UnitBounds,
    /// `None` when every row of the block passes.
    pub(super) pruner: Option<&'a Pruner>,
}

impl BlockBytes<'_> {
    /// The batches that may hold rows that pass, in the order of the scan.
    pub(super) fn batches(self, direction: Direction, metrics: &ScanMetrics) -> Result<Vec<PendingBatch>> {
        let partition = self.blocks.partition(self.slot);
        let mut batches = Vec::new();
        for batch in split_batches(self.bytes) {
            let (header, bytes) =
                batch.map_err(|error| self.blocks.undecodable(self.slot, &self.block, &error))?;
            if partition.visibility.shows(&header) {
                batches.push(PendingBatch { header, bytes, block: self.block });
            }
        }
        if let Some(pruner) = self.pruner.filter(|pruner| !pruner.rules_nothing_out()) {
            let units: Vec<_> = batches.iter().map(|batch| self.bounds.of_batch(&batch.header)).collect();
            let mut keep = pruner.keep(&units).into_iter();
            let before = batches.len();
            batches.retain(|_| keep.next().unwrap_or(true));
            metrics.add(ScanCounter::BatchesPruned, before - batches.len());
        }
        if direction == Direction::Descending {
            batches.reverse();
        }
        Ok(batches)
    }
}

impl PendingBatch {
    pub(super) fn decode(
        self,
        blocks: &TopicBlocks,
        slot: u32,
        metrics: &ScanMetrics,
    ) -> Result<DecodedBatch> {
        let mut budget = DecompressionBudget::new(blocks.partition(slot).decompressed_bytes_max());
        let records = Records::decode(&self.bytes, &mut budget)
            .map_err(|error| blocks.undecodable(slot, &self.block, &error))?;
        metrics.add(ScanCounter::BatchesDecoded, 1);
        metrics.add(ScanCounter::BytesDecoded, records.buffer().len());
        if self.header.compression().is_ok_and(|compression| compression != Compression::None) {
            metrics.add(ScanCounter::BatchesDecompressed, 1);
        }
        Ok(DecodedBatch { records, block: self.block })
    }
}

impl DecodedBatch {
    /// What the batch takes in memory while its rows are looked at.
    pub(super) fn memory_bytes(&self) -> usize {
        let records = usize::try_from(self.records.header().record_count).unwrap_or(0);
        self.records.buffer().len() + records * size_of::<Row<'_>>()
    }
}

/// The visible rows of batches that are in the order of the scan.
pub(super) fn rows_of<'a>(
    batches: &'a [DecodedBatch],
    blocks: &TopicBlocks,
    slot: u32,
    direction: Direction,
) -> Result<Vec<Row<'a>>> {
    let partition = blocks.partition(slot);
    let mut rows = Vec::new();
    for batch in batches {
        let start = rows.len();
        append_rows(&mut rows, batch, partition)
            .map_err(|error| blocks.undecodable(slot, &batch.block, &error))?;
        if direction == Direction::Descending {
            rows[start..].reverse();
        }
    }
    Ok(rows)
}

fn append_rows<'a>(
    rows: &mut Vec<Row<'a>>,
    batch: &'a DecodedBatch,
    partition: &PartitionBlocks,
) -> Result<(), BatchError> {
    let (records, header) = (&batch.records, batch.records.header());
    let append_time_ms = match header.timestamp_type() {
        TimestampType::LogAppendTime => header.max_timestamp,
        TimestampType::CreateTime => batch.block.append_time_ms,
    };
    let row = |record: Record<'a>| Row { record, records, append_time_ms };
    let visibility = &partition.visibility;
    let is_inside = visibility.is_inside(&(batch.block.base_offset..batch.block.next_offset));
    for record in records {
        let record = record?;
        if is_inside || visibility.contains(record.offset) {
            rows.push(row(record));
        }
    }
    Ok(())
}
