//! What the index knows of a unit of records, a slice or a block, before the records are read. Pure.
//!
//! Invariant: every record of a unit is inside its bounds; the bounds need not be those of a record.

use std::ops::Range;

use crate::format::{BlockFlags, Slice};
use crate::log::Block;

/// "No timestamp" in the index and in headers of batches.
pub(super) const NO_TIMESTAMP: i64 = -1;

/// The bounds and numbers of the records of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// Offsets inside of the range may be missing, also the first and the last one.
    pub(super) offsets: Range<i64>,
    /// Records of users.
    pub(super) data_count: u64,
    /// Transaction markers; they count in the bounds of time.
    pub(super) control_count: u64,
    /// Records of users without a timestamp, or more.
    pub(super) null_timestamps: u64,
    /// Inclusive; `None` when no record has a timestamp.
    pub(super) timestamps: Option<(i64, i64)>,
    /// Inclusive.
    pub(super) append_times: (i64, i64),
    pub(super) bytes: u64,
    /// Records may have been taken out. Then what is known of times still covers those.
    pub(super) has_gaps: bool,
}

impl Unit {
    pub(super) fn of_block(block: &Block) -> Self {
        Self {
            offsets: block.base_offset..block.next_offset,
            data_count: block.data_count.into(),
            control_count: block.control_count.into(),
            null_timestamps: block.null_timestamp_count.into(),
            timestamps: times(block.min_timestamp, block.max_timestamp),
            append_times: append_times(
                (block.append_time_ms, block.append_time_ms),
                block.min_timestamp,
                block.flags,
            ),
            bytes: block.length.into(),
            has_gaps: block.flags.contains(BlockFlags::GAPS),
        }
    }

    pub(super) fn of_slice(slice: &Slice) -> Self {
        Self {
            offsets: slice.base_offset..slice.next_offset,
            data_count: slice.data_count,
            control_count: slice.control_count,
            null_timestamps: slice.null_timestamp_count,
            timestamps: times(slice.min_timestamp, slice.max_timestamp),
            append_times: append_times(
                (slice.min_append_time_ms, slice.max_append_time_ms),
                slice.min_timestamp,
                slice.flags,
            ),
            bytes: slice.data_length(),
            has_gaps: slice.flags.contains(BlockFlags::GAPS),
        }
    }

    /// Both units taken as one.
    pub(super) fn and(&self, other: &Self) -> Self {
        Self {
            offsets: self.offsets.start.min(other.offsets.start)..self.offsets.end.max(other.offsets.end),
            data_count: self.data_count + other.data_count,
            control_count: self.control_count + other.control_count,
            null_timestamps: self.null_timestamps + other.null_timestamps,
            timestamps: widest(self.timestamps, other.timestamps),
            append_times: (
                self.append_times.0.min(other.append_times.0),
                self.append_times.1.max(other.append_times.1),
            ),
            bytes: self.bytes + other.bytes,
            has_gaps: self.has_gaps || other.has_gaps,
        }
    }

    /// There is a record of a user at every offset, so that the bounds are offsets of records.
    pub(super) fn is_dense(&self) -> bool {
        self.offsets.end.abs_diff(self.offsets.start) == self.data_count
    }

    /// The bounds of time are those of records of users, and the number of those without is right.
    pub(super) fn has_exact_times(&self) -> bool {
        self.control_count == 0
            && !self.has_gaps
            && (self.timestamps.is_some() || self.null_timestamps == self.data_count)
    }
}

/// Batches with the time of their append as the time of their records keep it when blocks are put
/// together, the others get that of the newest.
fn append_times(of_blocks: (i64, i64), min_timestamp: i64, flags: BlockFlags) -> (i64, i64) {
    let is_kept = flags.contains(BlockFlags::LOG_APPEND_TIME) && min_timestamp != NO_TIMESTAMP;
    (if is_kept { of_blocks.0.min(min_timestamp) } else { of_blocks.0 }, of_blocks.1)
}

fn times(min: i64, max: i64) -> Option<(i64, i64)> {
    (max != NO_TIMESTAMP).then_some((min, max))
}

/// The bounds of both.
pub(super) fn widest<T: Ord + Copy>(a: Option<(T, T)>, b: Option<(T, T)>) -> Option<(T, T)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}
