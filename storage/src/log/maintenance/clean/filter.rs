//! Which batches and records of a partition stay when it is cleaned. Pure.
//!
//! As in Kafka's `Cleaner`: the newest record of each key, tombstones and transaction markers until
//! their time has come, nothing of aborted transactions, and no record without a key.
//!
//! Invariant: a marker goes only when no record of its transaction was there to read, so that what it
//! ended was gone for `delete.retention.ms` before it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::key_map::KeyMap;
use super::plan::CleanPlan;
use crate::format::{BatchError, BatchHeader, DecompressionBudget, Record, Retained, Slice, retain_records};
use crate::log::state::AbortedRange;

/// What decides about the records of one partition.
pub(super) struct Filter<'a> {
    keys: &'a KeyMap,
    log_start_offset: i64,
    /// Tombstones and markers below were there when it was cleaned before.
    cleaned_offset: i64,
    decompressed_bytes_max: usize,
    aborted: Aborted,
    /// Producers of whose transaction something was read since their last marker.
    read: BTreeSet<i64>,
    /// The same of what stays.
    kept: BTreeSet<i64>,
}

/// What becomes of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Keep,
    Replace(Bytes),
    Drop,
}

/// What is known of tombstones and markers of one slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Horizon {
    /// Their time has come.
    is_due: bool,
    before: Option<i64>,
    /// When those of now may go.
    new: i64,
    keeps_old: bool,
    keeps_new: bool,
}

impl Horizon {
    pub(super) fn new(slice: &Slice, now_ms: i64, delete_retention_ms: i64) -> Self {
        let before = slice.delete_horizon_ms;
        let is_due = before.is_some_and(|at| at <= now_ms);
        let new = rounded_up(now_ms.saturating_add(delete_retention_ms), delete_retention_ms / 16);
        Self { is_due, before, new, keeps_old: false, keeps_new: false }
    }

    /// When the slice is to be cleaned again for their sake.
    pub(super) fn after(&self) -> Option<i64> {
        match (self.keeps_new, self.keeps_old) {
            (true, _) => Some(self.new),
            (false, true) => Some(self.before.filter(|_| !self.is_due).unwrap_or(self.new)),
            (false, false) => None,
        }
    }

    /// The same for a part of the slice of which nothing is known.
    pub(super) fn emptied(&self) -> Self {
        Self { keeps_old: false, keeps_new: false, ..*self }
    }

    fn keep(&mut self, is_new: bool) {
        self.keeps_new |= is_new;
        self.keeps_old |= !is_new;
    }
}

/// Times are rounded, so that slices whose time comes at about the same moment can be one.
fn rounded_up(at_ms: i64, step_ms: i64) -> i64 {
    let step_ms = step_ms.max(1);
    match at_ms.rem_euclid(step_ms) {
        0 => at_ms,
        rest => at_ms.saturating_add(step_ms - rest),
    }
}

impl<'a> Filter<'a> {
    pub(super) fn new(keys: &'a KeyMap, plan: &CleanPlan, decompressed_bytes_max: usize) -> Self {
        Self {
            keys,
            log_start_offset: plan.run.log_start_offset,
            cleaned_offset: plan.cleaned_offset,
            decompressed_bytes_max,
            aborted: Aborted::new(&plan.aborted),
            read: BTreeSet::new(),
            kept: BTreeSet::new(),
        }
    }

    /// Judges the next batch.
    ///
    /// # Errors
    /// A batch that does not decode.
    pub(super) fn judge(
        &mut self,
        header: &BatchHeader,
        batch: &Bytes,
        horizon: &mut Horizon,
    ) -> Result<Verdict, BatchError> {
        if header.last_offset() < self.log_start_offset {
            return Ok(Verdict::Drop);
        }
        if header.is_control() {
            return Ok(self.judge_marker(header, horizon));
        }
        if header.is_transactional() {
            self.read.insert(header.producer_id);
            if self.aborted.contains(header.producer_id, header.base_offset) {
                return Ok(Verdict::Drop);
            }
        }
        let mut budget = DecompressionBudget::new(self.decompressed_bytes_max);
        let retained = retain_records(batch, &mut budget, |record| self.keeps(record, horizon));
        if header.is_transactional() && retained != Ok(Retained::None) {
            self.kept.insert(header.producer_id);
        }
        Ok(match retained? {
            Retained::All => Verdict::Keep,
            Retained::Some(batch) => Verdict::Replace(batch),
            Retained::None => Verdict::Drop,
        })
    }

    fn judge_marker(&mut self, header: &BatchHeader, horizon: &mut Horizon) -> Verdict {
        let was_read = self.read.remove(&header.producer_id);
        let was_kept = self.kept.remove(&header.producer_id);
        let is_new = header.base_offset >= self.cleaned_offset;
        if horizon.is_due && !was_read && !is_new {
            return Verdict::Drop;
        }
        if !was_kept {
            horizon.keep(is_new || was_read);
        }
        Verdict::Keep
    }

    fn keeps(&self, record: &Record<'_>, horizon: &mut Horizon) -> bool {
        let is_newest = record.key.is_some_and(|key| self.keys.is_newest(key, record.offset));
        if !is_newest || record.offset < self.log_start_offset {
            return false;
        }
        if record.value.is_some() {
            return true;
        }
        let is_new = record.offset >= self.cleaned_offset;
        if horizon.is_due && !is_new {
            return false;
        }
        horizon.keep(is_new);
        true
    }
}

/// Aborted transactions, by producer and marker: those of one producer do not overlap.
pub(super) struct Aborted(BTreeMap<(i64, i64), i64>);

impl Aborted {
    pub(super) fn new(ranges: &[AbortedRange]) -> Self {
        let by_marker = |range: &AbortedRange| ((range.producer_id, range.last_offset), range.first_offset);
        Self(ranges.iter().map(by_marker).collect())
    }

    pub(super) fn contains(&self, producer_id: i64, offset: i64) -> bool {
        let next = self.0.range((producer_id, offset)..=(producer_id, i64::MAX)).next();
        next.is_some_and(|(_, first_offset)| *first_offset <= offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abort_is_of_one_producer_and_ends_with_its_marker() {
        let range =
            |producer_id, first_offset, last_offset| AbortedRange { producer_id, first_offset, last_offset };
        let aborted = Aborted::new(&[range(7, 20, 29), range(9, 25, 40), range(7, 60, 69)]);
        assert!(aborted.contains(7, 20) && aborted.contains(7, 65) && aborted.contains(9, 40));
        assert!(!aborted.contains(7, 30) && !aborted.contains(8, 25) && !aborted.contains(7, 70));
    }

    #[test]
    fn times_are_rounded_up_to_a_step() {
        assert_eq!([rounded_up(100, 16), rounded_up(96, 16), rounded_up(5, 0)], [112, 96, 5]);
        assert_eq!(rounded_up(i64::MAX, 1000), i64::MAX);
    }
}
