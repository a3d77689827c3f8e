//! What the index says of the rows of a scan: their number, and the bounds of time and offset.
//!
//! Invariant: a figure is exact only if it is right for the very rows that the scan gives out,
//! because `count(*)`, `min` and `max` are answered from it. Numbers of distinct values are never
//! given.

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};

use super::blocks::TopicBlocks;
use super::columns::SystemColumn;
use super::run::{BlockRun, Coverage};
use super::unit::{Unit, widest};

/// What is known of the rows of some blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowSummary {
    rows: u64,
    bytes: u64,
    null_timestamps: u64,
    timestamps: Option<(i64, i64)>,
    offsets: Option<(i64, i64)>,
    partitions: Option<(i32, i32)>,
    /// The number of rows is exact.
    is_counted: bool,
    /// Each partition has a row.
    has_exact_partitions: bool,
    /// The bounds of time, and the number of rows without a timestamp, are exact too.
    has_exact_times: bool,
    /// The bounds are offsets of rows.
    has_exact_offsets: bool,
}

impl RowSummary {
    pub(super) fn of(blocks: &TopicBlocks, runs: &[BlockRun]) -> Self {
        let mut summary = Self::empty();
        for run in runs {
            let partition = blocks.partition(run.slot).partition;
            if blocks.unloaded(run).is_none() {
                blocks
                    .blocks(run)
                    .for_each(|block| summary.add(partition, &Unit::of_block(block), run.coverage));
            } else if blocks.is_whole_slice(run) {
                summary.add(partition, &blocks.unit(run), run.coverage);
            } else {
                summary.add(partition, &part_of_slice(blocks, run), Coverage::Unknown);
            }
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
            is_counted: true,
            has_exact_partitions: true,
            has_exact_times: true,
            has_exact_offsets: true,
        }
    }

    fn add(&mut self, partition: i32, unit: &Unit, coverage: Coverage) {
        self.rows += unit.data_count;
        self.bytes += unit.bytes;
        self.null_timestamps += unit.null_timestamps;
        self.is_counted &= coverage == Coverage::Full;
        self.has_exact_partitions &= self.is_counted && unit.data_count > 0;
        self.has_exact_times &= self.is_counted && unit.has_exact_times();
        self.has_exact_offsets &= self.is_counted && unit.is_dense();
        self.timestamps = widest(self.timestamps, unit.timestamps);
        self.offsets = widest(self.offsets, Some((unit.offsets.start, unit.offsets.end - 1)));
        self.partitions = widest(self.partitions, Some((partition, partition)));
    }

    pub(super) fn merge<'a>(summaries: impl IntoIterator<Item = &'a Self>) -> Self {
        summaries.into_iter().fold(Self::empty(), |all, other| Self {
            rows: all.rows + other.rows,
            bytes: all.bytes + other.bytes,
            null_timestamps: all.null_timestamps + other.null_timestamps,
            timestamps: widest(all.timestamps, other.timestamps),
            offsets: widest(all.offsets, other.offsets),
            partitions: widest(all.partitions, other.partitions),
            is_counted: all.is_counted && other.is_counted,
            has_exact_partitions: all.has_exact_partitions && other.has_exact_partitions,
            has_exact_times: all.has_exact_times && other.has_exact_times,
            has_exact_offsets: all.has_exact_offsets && other.has_exact_offsets,
        })
    }

    /// The statistics of these rows over `schema`, the whole table's, if the scan gives out all of
    /// them (`Certainty::Exact`) or some.
    pub(super) fn statistics(&self, schema: &SchemaRef, certainty: Certainty) -> Statistics {
        let is_counted = self.is_counted && certainty == Certainty::Exact;
        let mut statistics = Statistics::new_unknown(schema);
        // An estimate of no row could be taken for a promise.
        let rows = if is_counted { self.rows } else { self.rows.max(1) };
        statistics.num_rows = precision(is_counted, saturate(rows));
        statistics.total_byte_size = Precision::Inexact(saturate(self.bytes));
        for column in [SystemColumn::Timestamp, SystemColumn::Partition, SystemColumn::Offset] {
            statistics.column_statistics[column.index()] = self.column(column, certainty);
        }
        statistics
    }

    fn column(&self, column: SystemColumn, certainty: Certainty) -> ColumnStatistics {
        let timestamp = |value| ScalarValue::TimestampMillisecond(Some(value), Some("UTC".into()));
        let (is_exact, nulls, bounds) = match column {
            SystemColumn::Timestamp => {
                let bounds = self.timestamps.map(|(min, max)| (timestamp(min), timestamp(max)));
                (self.has_exact_times, self.null_timestamps, bounds)
            }
            SystemColumn::Partition => {
                (self.has_exact_partitions, 0, self.partitions.map(|(min, max)| (min.into(), max.into())))
            }
            SystemColumn::Offset => {
                (self.has_exact_offsets, 0, self.offsets.map(|(min, max)| (min.into(), max.into())))
            }
            _ => (false, 0, None),
        };
        let is_exact = is_exact && certainty == Certainty::Exact;
        let mut statistics = ColumnStatistics::new_unknown();
        statistics.null_count = precision(is_exact, saturate(nulls));
        if let Some((min, max)) = bounds {
            statistics.min_value = precision(is_exact, min);
            statistics.max_value = precision(is_exact, max);
        }
        statistics
    }

    /// At most `fetch` rows of these.
    pub(super) fn limited(mut self, fetch: Option<usize>) -> Self {
        if let Some(fetch) = fetch.map(|fetch| fetch as u64).filter(|fetch| *fetch < self.rows) {
            self.rows = fetch;
            self.has_exact_partitions = false;
            self.has_exact_times = false;
            self.has_exact_offsets = false;
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

/// What can be expected of a part of a slice whose index is not loaded.
fn part_of_slice(blocks: &TopicBlocks, run: &BlockRun) -> Unit {
    let slice = blocks.unit(run);
    let share = |figure| blocks.share(run, figure);
    Unit {
        data_count: share(slice.data_count),
        control_count: share(slice.control_count),
        null_timestamps: share(slice.null_timestamps),
        bytes: share(slice.bytes),
        ..slice
    }
}
