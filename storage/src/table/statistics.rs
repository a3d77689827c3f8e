//! What the index says of the rows of a scan: their number, and the bounds of time and offset.
//!
//! Invariant: a figure is exact only if it is right for the very rows that the scan gives out,
//! because `count(*)`, `min` and `max` are answered from it. Numbers of distinct values are never
//! given.

use std::ops::Range;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};

use super::blocks::{BlockRef, Coverage, TopicBlocks};
use super::columns::SystemColumn;
use crate::log::Block;

/// What is known of the rows of some blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowSummary {
    rows: u64,
    bytes: u64,
    null_timestamps: u64,
    timestamps: Option<(i64, i64)>,
    /// The greatest offset is exclusive.
    offsets: Option<Range<i64>>,
    partitions: Option<(i32, i32)>,
    /// The number of rows is exact.
    counted: bool,
    /// The bounds, and the number of rows without a timestamp, are exact too.
    bounded: bool,
}

impl RowSummary {
    pub(super) fn of(blocks: &TopicBlocks, places: &[BlockRef]) -> Self {
        let mut summary = Self::empty();
        for place in places {
            summary.add(blocks.partition(place.slot).partition, blocks.block(*place), place.coverage);
        }
        summary
    }

    fn empty() -> Self {
        Self {
            rows: 0,
            bytes: 0,
            null_timestamps: 0,
            timestamps: None,
            offsets: None,
            partitions: None,
            counted: true,
            bounded: true,
        }
    }

    fn add(&mut self, partition: i32, block: &Block, coverage: Coverage) {
        self.rows += u64::from(block.data_count);
        self.bytes += u64::from(block.length);
        self.null_timestamps += u64::from(block.null_timestamp_count);
        self.counted &= coverage == Coverage::Full;
        // Control records count in the bounds, and offsets at the bounds may be missing.
        let offsets = block.next_offset.abs_diff(block.base_offset);
        self.bounded &= self.counted && offsets == u64::from(block.data_count);
        if block.max_timestamp != -1 {
            let (min, max) = self.timestamps.unwrap_or((i64::MAX, i64::MIN));
            self.timestamps = Some((min.min(block.min_timestamp), max.max(block.max_timestamp)));
        } else {
            self.bounded &= block.null_timestamp_count == block.data_count;
        }
        self.offsets = Some(match &self.offsets {
            Some(all) => all.start.min(block.base_offset)..all.end.max(block.next_offset),
            None => block.base_offset..block.next_offset,
        });
        let (min, max) = self.partitions.unwrap_or((partition, partition));
        self.partitions = Some((min.min(partition), max.max(partition)));
    }

    pub(super) fn merge<'a>(summaries: impl IntoIterator<Item = &'a Self>) -> Self {
        summaries.into_iter().fold(Self::empty(), |all, other| Self {
            rows: all.rows + other.rows,
            bytes: all.bytes + other.bytes,
            null_timestamps: all.null_timestamps + other.null_timestamps,
            timestamps: widest(all.timestamps, other.timestamps),
            offsets: widest(
                all.offsets.map(|range| (range.start, range.end)),
                other.offsets.as_ref().map(|range| (range.start, range.end)),
            )
            .map(|(start, end)| start..end),
            partitions: widest(all.partitions, other.partitions),
            counted: all.counted && other.counted,
            bounded: all.bounded && other.bounded,
        })
    }

    /// The statistics of these rows over `schema`, the whole table's, if the scan gives out all of
    /// them (`Certainty::Exact`) or some.
    pub(super) fn statistics(&self, schema: &SchemaRef, certainty: Certainty) -> Statistics {
        let counted = self.counted && certainty == Certainty::Exact;
        let bounded = self.bounded && certainty == Certainty::Exact;
        let mut statistics = Statistics::new_unknown(schema);
        // An estimate of no row could be taken for a promise.
        let rows = if counted { self.rows } else { self.rows.max(1) };
        statistics.num_rows = precision(counted, saturate(rows));
        statistics.total_byte_size = Precision::Inexact(saturate(self.bytes));
        for column in [SystemColumn::Timestamp, SystemColumn::Partition, SystemColumn::Offset] {
            statistics.column_statistics[column.index()] = self.column(column, bounded);
        }
        statistics
    }

    fn column(&self, column: SystemColumn, bounded: bool) -> ColumnStatistics {
        let nulls = if column == SystemColumn::Timestamp { self.null_timestamps } else { 0 };
        let timestamp = |value| ScalarValue::TimestampMillisecond(Some(value), Some("UTC".into()));
        let bounds = match column {
            SystemColumn::Timestamp => self.timestamps.map(|(min, max)| (timestamp(min), timestamp(max))),
            SystemColumn::Partition => self.partitions.map(|(min, max)| (min.into(), max.into())),
            SystemColumn::Offset => {
                self.offsets.as_ref().map(|range| (range.start.into(), (range.end - 1).into()))
            }
            _ => None,
        };
        let mut statistics = ColumnStatistics::new_unknown();
        statistics.null_count = precision(bounded, saturate(nulls));
        if let Some((min, max)) = bounds {
            statistics.min_value = precision(bounded, min);
            statistics.max_value = precision(bounded, max);
        }
        statistics
    }

    /// At most `fetch` rows of these.
    pub(super) fn limited(mut self, fetch: Option<usize>) -> Self {
        if let Some(fetch) = fetch.map(|fetch| fetch as u64).filter(|fetch| *fetch < self.rows) {
            self.rows = fetch;
            self.bounded = false;
        }
        self
    }
}

/// Whether a scan gives out all rows that its blocks were summed up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Certainty {
    Exact,
    Estimate,
}

fn precision<T: Clone + std::fmt::Debug + PartialEq + Eq + PartialOrd>(
    exact: bool,
    value: T,
) -> Precision<T> {
    if exact { Precision::Exact(value) } else { Precision::Inexact(value) }
}

fn saturate(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn widest<T: Ord + Copy>(a: Option<(T, T)>, b: Option<(T, T)>) -> Option<(T, T)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}
