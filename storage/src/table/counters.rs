//! What scans did, counted twice: for one statement (EXPLAIN ANALYZE) and for the whole process.
//!
//! Invariant: a count is added when the work is done, so that a test can hold a statement against
//! the work that it was allowed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, Time};

/// Something that a scan counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum ScanCounter {
    /// Slices that their bounds ruled out, so that their index was not needed.
    SlicesPruned,
    /// Indexes of slices that were asked for, from the cache or from the store: one is asked for by
    /// each output partition that reads a part of its slice.
    SliceIndexesLoaded,
    /// Blocks of the topic that the statement was planned over.
    BlocksTotal,
    /// Blocks that the index ruled out, when planning or while running.
    BlocksPruned,
    /// Blocks whose rows were counted from what is known of them or their slice.
    BlocksCounted,
    /// Blocks that were read.
    BlocksRead,
    /// Bytes of the blocks that were read.
    BytesScanned,
    /// Record batches that their headers ruled out, in blocks that were read.
    BatchesPruned,
    /// Record batches whose records were decoded.
    BatchesDecoded,
    /// Of those, the ones that had to be decompressed.
    BatchesDecompressed,
    /// Bytes of records after decompression.
    BytesDecoded,
    RecordsDecoded,
    /// Rows that the scan gave out.
    RowsEmitted,
}

impl ScanCounter {
    pub const ALL: [Self; 13] = [
        Self::SlicesPruned,
        Self::SliceIndexesLoaded,
        Self::BlocksTotal,
        Self::BlocksPruned,
        Self::BlocksCounted,
        Self::BlocksRead,
        Self::BytesScanned,
        Self::BatchesPruned,
        Self::BatchesDecoded,
        Self::BatchesDecompressed,
        Self::BytesDecoded,
        Self::RecordsDecoded,
        Self::RowsEmitted,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::SlicesPruned => "slices_pruned",
            Self::SliceIndexesLoaded => "slice_indexes_loaded",
            Self::BlocksTotal => "blocks_total",
            Self::BlocksPruned => "blocks_pruned",
            Self::BlocksCounted => "blocks_counted",
            Self::BlocksRead => "blocks_read",
            Self::BytesScanned => "bytes_scanned",
            Self::BatchesPruned => "batches_pruned",
            Self::BatchesDecoded => "batches_decoded",
            Self::BatchesDecompressed => "batches_decompressed",
            Self::BytesDecoded => "bytes_decoded",
            Self::RecordsDecoded => "records_decoded",
            Self::RowsEmitted => "rows_emitted",
        }
    }
}

/// Counts of all scans of a process. Put into the session configuration as an extension, they count
/// the statements of that session; scans of other sessions are counted nowhere.
#[derive(Debug, Default)]
pub struct ScanCounters([AtomicU64; ScanCounter::ALL.len()]);

impl ScanCounters {
    pub fn get(&self, counter: ScanCounter) -> u64 {
        self.0[counter as usize].load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, counter: ScanCounter, count: u64) {
        self.0[counter as usize].fetch_add(count, Ordering::Relaxed);
    }
}

/// The counts of one output partition of one scan.
#[derive(Clone, Debug)]
pub(super) struct ScanMetrics {
    own: [Count; ScanCounter::ALL.len()],
    elapsed_compute: Time,
    shared: Arc<ScanCounters>,
}

impl ScanMetrics {
    pub(super) fn new(
        metrics: &ExecutionPlanMetricsSet,
        partition: usize,
        shared: Arc<ScanCounters>,
    ) -> Self {
        let own = ScanCounter::ALL.map(|counter| match counter {
            // The query engine has a name of its own for it, which tools know.
            ScanCounter::RowsEmitted => MetricBuilder::new(metrics).output_rows(partition),
            counter => MetricBuilder::new(metrics).counter(counter.name(), partition),
        });
        Self { own, elapsed_compute: MetricBuilder::new(metrics).elapsed_compute(partition), shared }
    }

    /// The time that decoding and filtering take, without waiting for reads.
    pub(super) fn elapsed_compute(&self) -> &Time {
        &self.elapsed_compute
    }

    /// Counts for the statement alone what has been counted for the process.
    pub(super) fn add_own(&self, counter: ScanCounter, count: usize) {
        self.own[counter as usize].add(count);
    }

    pub(super) fn add(&self, counter: ScanCounter, count: usize) {
        self.own[counter as usize].add(count);
        self.shared.add(counter, count as u64);
    }
}
