//! Objects of the WAL whose loss an operator accepts: the walk goes on behind them, and notes which
//! offsets are missing then. Pure.
//!
//! Invariant: only what is damaged or missing is passed over, and only under the keys that were named.
//! Invariant: no offset that a lost object may have held is given out again: where no later block says
//! how far a partition went, its offsets go on far behind what one commit can hold.

use std::collections::{BTreeMap, BTreeSet};

use super::error::OpenError;
use super::state::ShardState;
use crate::format::BlockEntry;
use crate::format::event::{LossAccepted, LostRange};
use crate::ids::TopicPartition;

/// More records than one commit holds: so far the offsets of a partition go on when it is not known
/// how many were in a lost object.
pub(super) const UNKNOWN_OFFSETS: i64 = 1 << 26;

/// What a walk passes over.
#[derive(Debug, Default)]
pub(super) struct Losses {
    accepted: BTreeSet<String>,
    /// In the order of the walk.
    passed: Vec<Passed>,
    suspends_chain: bool,
}

/// An object that was passed over.
#[derive(Debug)]
struct Passed {
    object: String,
    ranges: Vec<LostRange>,
    /// Partitions with a block behind it: what is missing of them is known.
    seen: BTreeSet<TopicPartition>,
}

impl Losses {
    pub(super) fn accepting(keys: &[String]) -> Self {
        Self { accepted: keys.iter().cloned().collect(), ..Self::default() }
    }

    pub(super) fn accepts_any(&self) -> bool {
        !self.accepted.is_empty()
    }

    pub(super) fn accepts(&self, key: &str) -> bool {
        self.accepted.contains(key)
    }

    /// Whether an object that gave this error is passed over; a store that cannot be read is no loss.
    pub(super) fn excuses(&self, key: &str, error: &OpenError) -> bool {
        self.accepts(key) && !matches!(error, OpenError::Store { .. })
    }

    pub(super) fn pass(&mut self, key: &str) {
        self.suspends_chain = true;
        if self.passed.iter().all(|passed| passed.object != key) {
            let (object, ranges, seen) = (key.to_owned(), Vec::new(), BTreeSet::new());
            self.passed.push(Passed { object, ranges, seen });
        }
    }

    /// Whether the next object need not name the one before it.
    pub(super) fn suspends_chain(&self) -> bool {
        self.suspends_chain
    }

    /// Notes an object behind, which was replayed on this state.
    pub(super) fn note(&mut self, state: &ShardState, blocks: &[BlockEntry]) {
        self.suspends_chain = false;
        if self.passed.is_empty() {
            return;
        }
        for block in blocks {
            let id = block.topic_partition;
            let next_offset = state.partitions.get(&id).map_or(0, |partition| partition.next_offset);
            // One of several objects in a row held them: all are named.
            for passed in self.passed.iter_mut().filter(|passed| !passed.seen.contains(&id)) {
                passed.seen.insert(id);
                if next_offset < block.base_offset {
                    passed.ranges.push(range(id, next_offset..block.base_offset));
                }
            }
        }
    }

    pub(super) fn has_passed(&self) -> bool {
        !self.passed.is_empty()
    }

    /// Begins again: the walk does.
    pub(super) fn forget(&mut self) {
        self.passed.clear();
        self.suspends_chain = false;
    }

    /// What has to be written of the objects that were passed over, at the end of the walk.
    pub(super) fn events(&self, state: &ShardState) -> Vec<LossAccepted> {
        let mut ends: BTreeMap<TopicPartition, i64> = BTreeMap::new();
        let unknown = |passed: &Passed| {
            let left = state.partitions.iter().filter(|(id, _)| !passed.seen.contains(*id));
            left.map(|(id, partition)| {
                range(*id, partition.next_offset..partition.next_offset + UNKNOWN_OFFSETS)
            })
            .collect::<Vec<_>>()
        };
        let event = |passed: &Passed| {
            let mut partitions = passed.ranges.clone();
            for range in unknown(passed) {
                let id = TopicPartition::new(range.topic_id, range.partition);
                if ends.insert(id, range.next_offset).is_none() {
                    partitions.push(range);
                }
            }
            LossAccepted { object: passed.object.clone(), partitions }
        };
        self.passed.iter().map(event).collect()
    }
}

fn range(id: TopicPartition, offsets: std::ops::Range<i64>) -> LostRange {
    let (base_offset, next_offset) = (offsets.start, offsets.end);
    LostRange { topic_id: id.topic_id, partition: id.partition, base_offset, next_offset }
}
