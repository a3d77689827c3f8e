//! What is kept of an idempotent producer in one partition, and what that says of its next batch
//! (Kafka's `ProducerStateEntry` and `ProducerAppendInfo`). Pure.

use std::collections::VecDeque;

/// A duplicate is recognised among this many newest batches, as many as a client may have in flight.
const PRODUCER_BATCHES_KEPT: usize = 5;

/// One appended batch of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerBatch {
    pub base_sequence: i32,
    /// Inclusive.
    pub last_sequence: i32,
    pub base_offset: i64,
    pub last_offset: i64,
    pub append_time_ms: i64,
}

/// The newest batches of one producer in one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerState {
    pub producer_epoch: i16,
    pub batches: VecDeque<ProducerBatch>,
    /// Of the newest transaction marker; -1 before the first.
    pub coordinator_epoch: i32,
    /// When the newest batch or marker was appended.
    pub updated_at_ms: i64,
}

/// What a batch is, held against the state of its producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceCheck {
    Next,
    Duplicate(ProducerBatch),
    OutOfOrder { expected: i32 },
    StaleEpoch { current: i16 },
}

impl ProducerState {
    /// Judges a batch of `producer_epoch` with these sequences.
    pub fn check(&self, producer_epoch: i16, base_sequence: i32, last_sequence: i32) -> SequenceCheck {
        if producer_epoch < self.producer_epoch {
            return SequenceCheck::StaleEpoch { current: self.producer_epoch };
        }
        if producer_epoch > self.producer_epoch {
            return expect_sequence(0, base_sequence);
        }
        let same = |batch: &&ProducerBatch| {
            batch.base_sequence == base_sequence && batch.last_sequence == last_sequence
        };
        if let Some(batch) = self.batches.iter().find(same) {
            return SequenceCheck::Duplicate(*batch);
        }
        match self.batches.back() {
            Some(batch) => expect_sequence(next_sequence(batch.last_sequence), base_sequence),
            // Only a marker was seen of this epoch.
            None => expect_sequence(0, base_sequence),
        }
    }

    /// Adds an appended batch.
    pub fn push(&mut self, producer_epoch: i16, batch: ProducerBatch) {
        self.set_epoch(producer_epoch);
        self.updated_at_ms = self.updated_at_ms.max(batch.append_time_ms);
        if self.batches.len() == PRODUCER_BATCHES_KEPT {
            self.batches.pop_front();
        }
        self.batches.push_back(batch);
    }

    /// Notes an appended transaction marker. A higher producer epoch fences the producer: its older
    /// batches are stale from then on (KIP-890).
    pub fn mark(&mut self, producer_epoch: i16, coordinator_epoch: i32, append_time_ms: i64) {
        self.set_epoch(producer_epoch);
        self.coordinator_epoch = coordinator_epoch;
        self.updated_at_ms = self.updated_at_ms.max(append_time_ms);
    }

    fn set_epoch(&mut self, producer_epoch: i16) {
        if producer_epoch != self.producer_epoch {
            self.producer_epoch = producer_epoch;
            self.batches.clear();
        }
    }

    pub fn new(producer_epoch: i16) -> Self {
        let batches = VecDeque::with_capacity(PRODUCER_BATCHES_KEPT);
        Self { producer_epoch, batches, coordinator_epoch: -1, updated_at_ms: -1 }
    }
}

fn expect_sequence(expected: i32, found: i32) -> SequenceCheck {
    if expected == found { SequenceCheck::Next } else { SequenceCheck::OutOfOrder { expected } }
}

/// Sequences go from the greatest one to 0.
fn next_sequence(sequence: i32) -> i32 {
    sequence.checked_add(1).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(base_sequence: i32, last_sequence: i32) -> ProducerBatch {
        ProducerBatch { base_sequence, last_sequence, base_offset: 100, last_offset: 101, append_time_ms: 0 }
    }

    fn state(batches: &[(i32, i32)]) -> ProducerState {
        let mut state = ProducerState::new(3);
        for (base, last) in batches {
            state.push(3, batch(*base, *last));
        }
        state
    }

    #[test]
    fn sequences_follow_each_other_and_wrap() {
        assert_eq!(state(&[(0, 4)]).check(3, 5, 6), SequenceCheck::Next);
        assert_eq!(state(&[(0, 4)]).check(3, 6, 6), SequenceCheck::OutOfOrder { expected: 5 });
        assert_eq!(state(&[(i32::MAX - 1, i32::MAX)]).check(3, 0, 0), SequenceCheck::Next);
    }

    #[test]
    fn a_new_epoch_starts_at_zero_and_an_old_one_is_stale() {
        assert_eq!(state(&[(0, 4)]).check(4, 0, 0), SequenceCheck::Next);
        assert_eq!(state(&[(0, 4)]).check(4, 5, 5), SequenceCheck::OutOfOrder { expected: 0 });
        assert_eq!(state(&[(0, 4)]).check(2, 5, 5), SequenceCheck::StaleEpoch { current: 3 });
    }

    #[test]
    fn a_marker_of_a_higher_epoch_fences_and_its_epoch_starts_at_zero() {
        let mut state = state(&[(0, 4)]);
        state.mark(3, 1, 50);
        assert_eq!(state.check(3, 5, 5), SequenceCheck::Next);
        state.mark(4, 1, 60);
        assert_eq!(state.check(3, 5, 5), SequenceCheck::StaleEpoch { current: 4 });
        assert_eq!(state.check(4, 5, 5), SequenceCheck::OutOfOrder { expected: 0 });
        assert_eq!(state.check(4, 0, 0), SequenceCheck::Next);
        assert_eq!((state.coordinator_epoch, state.updated_at_ms), (1, 60));
    }

    #[test]
    fn a_duplicate_is_recognised_among_the_newest_five_batches() {
        let six: Vec<_> = (0..6).map(|i| (i, i)).collect();
        let state = state(&six);
        for i in 1..6 {
            assert_eq!(state.check(3, i, i), SequenceCheck::Duplicate(batch(i, i)));
        }
        assert_eq!(state.check(3, 0, 0), SequenceCheck::OutOfOrder { expected: 6 });
    }
}
