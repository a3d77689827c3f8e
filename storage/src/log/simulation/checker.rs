//! What clients were promised, held against what is there.

use std::collections::{BTreeMap, BTreeSet};

use super::ledger::Transactions;
use super::records::{is_marker, key_of};
use crate::ids::{TopicId, TopicPartition};

/// What was promised about the bounds of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Promise {
    pub(super) log_start_offset: i64,
    pub(super) high_watermark: i64,
}

/// What whoever opens the log, or looks at it, may rely on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Promises {
    partitions: BTreeMap<TopicPartition, Promise>,
    deleted: BTreeSet<TopicId>,
    /// The number of the last transaction that was committed.
    transfers: u64,
    /// What the group has committed by itself.
    group_offset: i64,
}

impl Promises {
    pub(super) fn raise_transfers(&mut self, number: u64) {
        self.transfers = self.transfers.max(number);
    }

    pub(super) fn raise_group_offset(&mut self, offset: i64) {
        self.group_offset = self.group_offset.max(offset);
    }

    pub(super) fn raise(&mut self, partition: TopicPartition, promise: Promise) {
        let known = self.partitions.entry(partition).or_default();
        known.log_start_offset = known.log_start_offset.max(promise.log_start_offset);
        known.high_watermark = known.high_watermark.max(promise.high_watermark);
    }

    pub(super) fn delete(&mut self, topic: TopicId) {
        self.deleted.insert(topic);
    }
}

/// What a reader found in one snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) topics: BTreeSet<TopicId>,
    pub(super) partitions: BTreeMap<TopicPartition, SeenPartition>,
    /// The offset that the last transaction has committed.
    pub(super) transfers: Option<i64>,
    /// The offset that the group has committed by itself.
    pub(super) group_offset: Option<i64>,
}

impl Seen {
    pub(super) fn partitions_of<'a>(
        &'a self,
        topic: &'a str,
    ) -> impl Iterator<Item = (&'a TopicPartition, &'a SeenPartition)> {
        self.partitions.iter().filter(move |(_, partition)| partition.topic == topic)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SeenPartition {
    pub(super) topic: String,
    /// Whether it keeps the newest record of each key only.
    pub(super) is_cleaned: bool,
    pub(super) bounds: Promise,
    /// Ids by offset.
    pub(super) records: BTreeMap<i64, u64>,
    /// Ids that a committed reader sees, where there are transactions.
    pub(super) committed: BTreeSet<u64>,
}

/// Everything that was promised so far, to anybody.
#[derive(Debug)]
pub(super) struct History {
    promises: Promises,
    pub(super) transactions: Transactions,
    /// Records that were acked or seen.
    records: BTreeMap<TopicPartition, BTreeMap<i64, u64>>,
    /// Where somebody asked the log start to be.
    requested_starts: BTreeMap<TopicPartition, BTreeSet<i64>>,
    /// Topics whose log start moves by itself.
    retained: BTreeSet<TopicId>,
    /// Topics whose deletion was asked for.
    maybe_deleted: BTreeSet<TopicId>,
    producer_ids: BTreeSet<i64>,
    generations: BTreeSet<i32>,
    /// The first promise that was broken.
    violation: Option<String>,
}

impl History {
    pub(super) fn new(transactions: Transactions) -> Self {
        Self {
            promises: Promises::default(),
            transactions,
            records: BTreeMap::new(),
            requested_starts: BTreeMap::new(),
            retained: BTreeSet::new(),
            maybe_deleted: BTreeSet::new(),
            producer_ids: BTreeSet::new(),
            generations: BTreeSet::new(),
            violation: None,
        }
    }

    pub(super) fn raise_transfers(&mut self, number: u64) {
        self.promises.raise_transfers(number);
    }

    pub(super) fn raise_group_offset(&mut self, offset: i64) {
        self.promises.raise_group_offset(offset);
    }

    pub(super) fn reserved_generation(&mut self, generation: i32) {
        if !self.generations.insert(generation) {
            self.violate(format!("generation {generation} was given out twice"));
        }
    }
    pub(super) fn promises(&self) -> &Promises {
        &self.promises
    }

    pub(super) fn violation(&self) -> Option<String> {
        self.violation.clone()
    }

    pub(super) fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    pub(super) fn created(&mut self, partition: TopicPartition) {
        self.promises.raise(partition, Promise::default());
    }

    pub(super) fn is_retained(&mut self, topic: TopicId) {
        self.retained.insert(topic);
    }

    pub(super) fn may_be_deleted(&mut self, topic: TopicId) {
        self.maybe_deleted.insert(topic);
    }

    pub(super) fn deleted(&mut self, topic: TopicId) {
        self.promises.delete(topic);
    }

    pub(super) fn log_start_requested(&mut self, partition: TopicPartition, offset: i64) {
        self.requested_starts.entry(partition).or_default().insert(offset);
    }

    pub(super) fn raise(&mut self, partition: TopicPartition, promise: Promise) {
        self.promises.raise(partition, promise);
    }

    /// A batch was acked: its records have consecutive offsets.
    pub(super) fn ack(&mut self, partition: TopicPartition, base_offset: i64, ids: &[u64]) {
        for (offset, id) in (base_offset..).zip(ids) {
            self.promise_record(partition, offset, *id);
        }
    }

    fn promise_record(&mut self, partition: TopicPartition, offset: i64, id: u64) {
        match self.records.entry(partition).or_default().insert(offset, id) {
            Some(other) if other != id => {
                self.violate(format!(
                    "offset {offset} of partition {} is given to {other} and {id}",
                    partition.partition
                ));
            }
            _ => {}
        }
    }

    pub(super) fn allocated(&mut self, producer_ids: std::ops::Range<i64>) {
        for id in producer_ids {
            if !self.producer_ids.insert(id) {
                self.violate(format!("producer id {id} was given out twice"));
            }
        }
    }

    /// Holds a snapshot against what its reader may rely on, and notes what was seen.
    pub(super) fn check(&mut self, expected: &Promises, seen: &Seen) {
        self.check_topics(expected, seen);
        for (id, partition) in &seen.partitions {
            let promise = expected.partitions.get(id).copied().unwrap_or_default();
            self.check_bounds(*id, promise, partition.bounds);
            self.check_records(*id, partition);
            self.promises.raise(*id, partition.bounds);
        }
        if let Err(what) = self.transactions.check(expected.transfers, seen) {
            self.violate(what);
        }
        if seen.group_offset.unwrap_or(0) < expected.group_offset {
            let (found, promised) = (seen.group_offset, expected.group_offset);
            self.violate(format!("the group has committed {promised}, and is at {found:?}"));
        }
    }

    fn check_topics(&mut self, expected: &Promises, seen: &Seen) {
        for id in expected.partitions.keys().map(|partition| partition.topic_id) {
            if !seen.topics.contains(&id) && !self.maybe_deleted.contains(&id) {
                self.violate(format!("topic {id} has vanished"));
            }
        }
        if let Some(id) = expected.deleted.iter().find(|id| seen.topics.contains(id)) {
            self.violate(format!("topic {id} was deleted and is back"));
        }
    }

    fn check_bounds(&mut self, id: TopicPartition, promise: Promise, found: Promise) {
        let number = id.partition;
        if found.high_watermark < promise.high_watermark {
            self.violate(format!(
                "the high watermark of partition {number} is {}, it was {}",
                found.high_watermark, promise.high_watermark
            ));
        }
        let start = found.log_start_offset;
        if start < promise.log_start_offset {
            self.violate(format!(
                "the log start of partition {number} is {start}, it was {}",
                promise.log_start_offset
            ));
        }
        let requested = self.requested_starts.get(&id).is_some_and(|starts| starts.contains(&start));
        if start != 0 && !requested && !self.retained.contains(&id.topic_id) {
            self.violate(format!("nobody moved the log start of partition {number} to {start}"));
        }
    }

    fn check_records(&mut self, id: TopicPartition, found: &SeenPartition) {
        let Promise { log_start_offset, high_watermark } = found.bounds;
        let number = id.partition;
        if found.is_cleaned {
            self.check_newest(id, found);
        } else if !found.records.keys().copied().eq(log_start_offset..high_watermark) {
            let gap = (log_start_offset..high_watermark).find(|offset| !found.records.contains_key(offset));
            self.violate(format!(
                "partition {number} has a gap at {gap:?} of {log_start_offset}..{high_watermark}"
            ));
        }
        let records = || found.records.values().filter(|id| !is_marker(**id));
        let unique: BTreeSet<_> = records().collect();
        if unique.len() != records().count() {
            self.violate(format!("partition {number} holds a record twice"));
        }
        for (offset, record) in &found.records {
            self.promise_record(id, *offset, *record);
        }
    }

    /// The newest record of each key that is known is there, or a newer one of the key.
    fn check_newest(&mut self, id: TopicPartition, found: &SeenPartition) {
        let newest_of = |records: &mut dyn Iterator<Item = (&i64, &u64)>| {
            let by_key: BTreeMap<u64, i64> = records.map(|(offset, id)| (key_of(*id), *offset)).collect();
            by_key
        };
        let Some(known) = self.records.get(&id) else { return };
        let known = newest_of(&mut known.range(..found.bounds.high_watermark));
        let kept = newest_of(&mut found.records.iter());
        let lost = known.iter().find(|(key, offset)| kept.get(key).is_none_or(|kept| kept < *offset));
        if let Some((key, offset)) = lost {
            self.violate(format!("the newest record of key {key}, at {offset}, was cleaned away"));
        }
    }
}
