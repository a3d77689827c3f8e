//! One session: the partitions of a client, and what it knows of them. Pure.
//!
//! Invariant: partitions that had records go to the end of the order, so that a client that gets few
//! bytes at a time gets to all of them.

use std::collections::BTreeMap;
use std::time::Duration;

use strandline_storage::ids::TopicId;

use super::{Content, INITIAL_EPOCH, Item, Naming, Observed, PartitionKey, Position};
use crate::context::TopicKey;

const UNKNOWN_OFFSET: i64 = -1;

#[derive(Debug)]
pub(super) struct Session {
    pub(super) naming: Naming,
    /// Of the next request.
    pub(super) epoch: i32,
    pub(super) created: Duration,
    pub(super) last_used: Duration,
    partitions: BTreeMap<PartitionKey, Partition>,
    /// In the order in which they are fetched.
    order: BTreeMap<u64, PartitionKey>,
    next_place: u64,
}

#[derive(Debug)]
struct Partition {
    place: u64,
    position: Position,
    topic_id: Option<TopicId>,
    /// What the client was told last; -1 if nothing, or an error.
    high_watermark: i64,
    log_start_offset: i64,
}

impl Session {
    pub(super) fn new(naming: Naming, now: Duration) -> Self {
        Self {
            naming,
            epoch: next_epoch(INITIAL_EPOCH),
            created: now,
            last_used: now,
            partitions: BTreeMap::new(),
            order: BTreeMap::new(),
            next_place: 0,
        }
    }

    /// How many partitions it has.
    pub(super) fn len(&self) -> usize {
        self.partitions.len()
    }

    pub(super) fn advance(&mut self) {
        self.epoch = next_epoch(self.epoch);
    }

    /// Adds a partition, or changes what the client wants of it.
    pub(super) fn put(&mut self, item: Item) {
        if let Some(known) = self.partitions.get_mut(&item.key) {
            known.position = item.position;
            return;
        }
        let place = self.take_place(item.key.clone());
        let partition = Partition {
            place,
            position: item.position,
            topic_id: item.topic_id,
            high_watermark: UNKNOWN_OFFSET,
            log_start_offset: UNKNOWN_OFFSET,
        };
        self.partitions.insert(item.key, partition);
    }

    fn take_place(&mut self, key: PartitionKey) -> u64 {
        let place = self.next_place;
        self.next_place += 1;
        self.order.insert(place, key);
        place
    }

    pub(super) fn forget(&mut self, key: &PartitionKey) {
        if let Some(forgotten) = self.partitions.remove(key) {
            self.order.remove(&forgotten.place);
        }
    }

    /// All partitions, in the order in which they are fetched.
    pub(super) fn items(&self) -> Vec<Item> {
        let item = |key: &PartitionKey| {
            let known = &self.partitions[key];
            Item { key: key.clone(), position: known.position, topic_id: known.topic_id }
        };
        self.order.values().map(item).collect()
    }

    /// Notes what a partition is, and says whether the client has to be told (Kafka's
    /// `CachedPartition.maybeUpdateResponseData`).
    pub(super) fn note(&mut self, key: &PartitionKey, observed: &Observed) -> bool {
        let Some(known) = self.partitions.get_mut(key) else { return false };
        known.topic_id = match &key.topic {
            TopicKey::Name(_) => observed.topic_id,
            // There is never another topic with the id: once it was found, it can only go.
            TopicKey::Id(_) => observed.topic_id.or(known.topic_id),
        };
        let is_told = observed.content != Content::Bounds
            || known.high_watermark != observed.high_watermark
            || known.log_start_offset != observed.log_start_offset;
        known.log_start_offset = observed.log_start_offset;
        // After a problem the partition is told again as soon as it is over.
        let is_problem = observed.content == Content::Problem;
        known.high_watermark = if is_problem { UNKNOWN_OFFSET } else { observed.high_watermark };
        if observed.content == Content::Records {
            let place = known.place;
            self.order.remove(&place);
            let place = self.take_place(key.clone());
            if let Some(known) = self.partitions.get_mut(key) {
                known.place = place;
            }
        }
        is_told
    }
}

/// After the greatest epoch comes 1: 0 is that of a new session.
pub(super) fn next_epoch(epoch: i32) -> i32 {
    epoch.checked_add(1).unwrap_or(1)
}
