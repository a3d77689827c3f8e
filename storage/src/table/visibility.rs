//! Which records of a partition a statement may see under read committed. Pure.
//!
//! Invariant: a record outside of the log's bounds, of a transaction that is open or of one that was
//! aborted is never a row.

use std::ops::Range;

use crate::format::BatchHeader;
use crate::log::{AbortedRange, Bounds};

/// What of one partition is a row.
#[derive(Clone, Debug)]
pub(super) struct Visibility {
    /// From the log start to the last stable offset, exclusive.
    offsets: Range<i64>,
    /// By producer and offset: those of one producer do not overlap.
    aborted: Vec<AbortedRange>,
    /// The offsets of aborted transactions, ascending and apart; both bounds inclusive.
    suspect: Vec<(i64, i64)>,
}

impl Visibility {
    pub(super) fn new(bounds: &Bounds, mut aborted: Vec<AbortedRange>) -> Self {
        aborted.sort_unstable_by_key(|range| range.first_offset);
        let mut suspect: Vec<(i64, i64)> = Vec::new();
        for range in &aborted {
            match suspect.last_mut() {
                Some((_, last)) if range.first_offset <= *last => *last = range.last_offset.max(*last),
                _ => suspect.push((range.first_offset, range.last_offset)),
            }
        }
        aborted.sort_by_key(|range| range.producer_id);
        Self { offsets: bounds.log_start_offset..bounds.last_stable_offset, aborted, suspect }
    }

    /// Some of the offsets may be visible.
    pub(super) fn reaches(&self, offsets: &Range<i64>) -> bool {
        offsets.start < self.offsets.end && offsets.end > self.offsets.start
    }

    /// Every record of a user at these offsets is visible.
    pub(super) fn is_whole(&self, offsets: &Range<i64>) -> bool {
        self.is_inside(offsets) && !self.is_suspect(offsets)
    }

    /// All of the offsets are inside of the bounds.
    pub(super) fn is_inside(&self, offsets: &Range<i64>) -> bool {
        offsets.start >= self.offsets.start && offsets.end <= self.offsets.end
    }

    pub(super) fn contains(&self, offset: i64) -> bool {
        self.offsets.contains(&offset)
    }

    /// A transaction that was aborted reaches over some of the offsets.
    fn is_suspect(&self, offsets: &Range<i64>) -> bool {
        let first = self.suspect.partition_point(|(_, last)| *last < offsets.start);
        self.suspect.get(first).is_some_and(|(first, _)| *first < offsets.end)
    }

    /// Some records of the batch may be rows.
    pub(super) fn shows(&self, header: &BatchHeader) -> bool {
        !header.is_control()
            && self.reaches(&(header.base_offset..header.next_offset()))
            && !(header.is_transactional() && self.is_aborted(header.producer_id, header.base_offset))
    }

    fn is_aborted(&self, producer_id: i64, offset: i64) -> bool {
        let key = |range: &AbortedRange| (range.producer_id, range.last_offset);
        let first = self.aborted.partition_point(|range| key(range) < (producer_id, offset));
        let range = self.aborted.get(first).filter(|range| range.producer_id == producer_id);
        range.is_some_and(|range| range.first_offset <= offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visibility() -> Visibility {
        let bounds = Bounds {
            log_start_offset: 10,
            last_stable_offset: 100,
            high_watermark: 120,
            log_end_offset: 120,
            leader_epoch: 0,
        };
        let range =
            |producer_id, first_offset, last_offset| AbortedRange { producer_id, first_offset, last_offset };
        Visibility::new(&bounds, vec![range(7, 20, 29), range(9, 25, 40), range(7, 60, 69)])
    }

    #[test]
    fn the_bounds_of_the_log_cut() {
        let visibility = visibility();
        assert!(visibility.reaches(&(0..11)) && !visibility.reaches(&(0..10)));
        assert!(visibility.reaches(&(99..110)) && !visibility.reaches(&(100..110)));
        assert!(visibility.is_whole(&(10..20)) && !visibility.is_whole(&(9..20)));
        assert!(visibility.is_whole(&(70..100)) && !visibility.is_whole(&(70..101)));
    }

    #[test]
    fn offsets_of_an_aborted_transaction_are_never_taken_as_a_whole() {
        let visibility = visibility();
        assert!(!visibility.is_whole(&(15..21)) && !visibility.is_whole(&(40..45)));
        assert!(visibility.is_whole(&(41..60)) && !visibility.is_whole(&(41..61)));
        assert!(!visibility.is_whole(&(10..100)));
    }

    #[test]
    fn an_abort_is_of_one_producer_and_ends_with_its_marker() {
        let visibility = visibility();
        assert!(visibility.is_aborted(7, 20) && visibility.is_aborted(7, 29));
        assert!(!visibility.is_aborted(7, 19) && !visibility.is_aborted(7, 30));
        assert!(visibility.is_aborted(9, 30) && !visibility.is_aborted(9, 41));
        assert!(visibility.is_aborted(7, 65) && !visibility.is_aborted(8, 25));
    }
}
