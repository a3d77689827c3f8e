//! The transactional ids that the shard coordinates, and what follows from them: whose a producer id
//! is, and for which groups offsets are pending. Pure.
//!
//! Invariant: what is derived is that of the states as they are; nothing is left of a state that was
//! replaced or removed.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use crate::format::{PendingOffset, Producer, TransactionState, TransactionalId};
use crate::ids::TopicPartition;

/// What a batch of a transactional producer has to do with its open transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchPlace {
    InTransaction,
    /// The producer id belongs to the transactional id in another epoch, or not at all any more.
    StaleProducer,
    /// No transaction is open, or the partition was not added to it.
    NotAdded,
}

impl TransactionalId {
    /// Where a transactional batch of a producer of this transactional id belongs.
    pub fn place_of(&self, producer: Producer, partition: TopicPartition) -> BatchPlace {
        if producer != self.producer {
            return BatchPlace::StaleProducer;
        }
        match self.state == TransactionState::Ongoing && self.partitions.contains(&partition) {
            true => BatchPlace::InTransaction,
            false => BatchPlace::NotAdded,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct TransactionalIds {
    by_name: OrdMap<String, Arc<TransactionalId>>,
    /// The present producer id of each, and the one before.
    names_by_producer: OrdMap<i64, String>,
    /// Group and name of each that has offsets of the group.
    pending_groups: OrdSet<(String, String)>,
}

impl TransactionalIds {
    pub(in crate::log) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// In the order of their names.
    pub(in crate::log) fn iter(&self) -> impl Iterator<Item = &Arc<TransactionalId>> {
        self.by_name.values()
    }

    pub(in crate::log) fn get(&self, name: &str) -> Option<&Arc<TransactionalId>> {
        self.by_name.get(name)
    }

    /// The transactional id that a producer id was given to.
    pub(in crate::log) fn of_producer(&self, producer_id: i64) -> Option<&Arc<TransactionalId>> {
        self.names_by_producer.get(&producer_id).and_then(|name| self.by_name.get(name))
    }

    /// The offset that an open transaction will commit for a group, if it is committed.
    pub(in crate::log) fn pending_offset(
        &self,
        group: &str,
        partition: TopicPartition,
    ) -> Option<&PendingOffset> {
        let first = (group.to_owned(), String::new());
        let of_group = self.pending_groups.range(first..).take_while(|(of, _)| of == group);
        let mut pending =
            of_group.filter_map(|(_, name)| self.by_name.get(name)?.groups.get(group)?.get(&partition));
        pending.next()
    }

    pub(in crate::log) fn put(&mut self, transactional_id: &Arc<TransactionalId>) {
        // A name that is not there has nothing that could be left.
        let _ = self.remove(&transactional_id.name);
        for producer_id in producer_ids(transactional_id) {
            self.names_by_producer.insert(producer_id, transactional_id.name.clone());
        }
        for group in transactional_id.groups.keys() {
            self.pending_groups.insert((group.clone(), transactional_id.name.clone()));
        }
        self.by_name.insert(transactional_id.name.clone(), transactional_id.clone());
    }

    /// # Errors
    /// A name that is not there.
    pub(in crate::log) fn remove(&mut self, name: &str) -> Result<(), String> {
        let unknown = || format!("transactional id \"{name}\" does not exist");
        let removed = self.by_name.remove(name).ok_or_else(unknown)?;
        for producer_id in producer_ids(&removed) {
            self.names_by_producer.remove(&producer_id);
        }
        for group in removed.groups.keys() {
            self.pending_groups.remove(&(group.clone(), removed.name.clone()));
        }
        Ok(())
    }
}

fn producer_ids(transactional_id: &TransactionalId) -> impl Iterator<Item = i64> + use<> {
    let previous = transactional_id.previous.map(|previous| previous.producer_id);
    previous.into_iter().chain([transactional_id.producer.producer_id])
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::ids::TopicId;

    fn partition(number: i32) -> TopicPartition {
        TopicPartition::new(TopicId::from_bytes([1; 16]), number)
    }

    fn producer(producer_id: i64, producer_epoch: i16) -> Producer {
        Producer { producer_id, producer_epoch }
    }

    fn ongoing(name: &str, producer_id: i64) -> Arc<TransactionalId> {
        let pending = PendingOffset { offset: producer_id, leader_epoch: -1, metadata: None, replaces: None };
        Arc::new(TransactionalId {
            name: name.to_owned(),
            producer: producer(producer_id, 3),
            previous: Some(producer(producer_id - 1, 9)),
            timeout_ms: 50,
            state: TransactionState::Ongoing,
            partitions: BTreeSet::from([partition(0)]),
            groups: BTreeMap::from([("g".to_owned(), BTreeMap::from([(partition(5), pending)]))]),
            started_at_ms: Some(7),
            updated_at_ms: 8,
        })
    }

    #[test]
    fn a_batch_is_of_the_transaction_only_in_its_epoch_and_in_its_partitions() {
        let open = ongoing("t", 10);
        assert_eq!(open.place_of(producer(10, 3), partition(0)), BatchPlace::InTransaction);
        assert_eq!(open.place_of(producer(10, 3), partition(1)), BatchPlace::NotAdded);
        for stale in [producer(10, 2), producer(10, 4), producer(9, 9)] {
            assert_eq!(open.place_of(stale, partition(0)), BatchPlace::StaleProducer);
        }
        let complete = TransactionalId { state: TransactionState::CompleteAbort, ..(*open).clone() };
        assert_eq!(complete.place_of(producer(10, 3), partition(0)), BatchPlace::NotAdded);
    }

    #[test]
    fn nothing_is_left_of_a_state_that_was_replaced() {
        let mut ids = TransactionalIds::default();
        ids.put(&ongoing("t", 10));
        ids.put(&ongoing("u", 20));
        assert_eq!(ids.of_producer(9).map(|found| &*found.name), Some("t"));
        assert_eq!(ids.pending_offset("g", partition(5)).map(|pending| pending.offset), Some(10));
        assert_eq!(ids.pending_offset("g", partition(0)), None);
        assert_eq!(ids.pending_offset("f", partition(5)), None);
        let done = TransactionalId {
            previous: None,
            groups: BTreeMap::new(),
            state: TransactionState::CompleteCommit,
            ..(*ongoing("t", 10)).clone()
        };
        ids.put(&Arc::new(done));
        assert_eq!(ids.of_producer(9), None);
        assert_eq!(ids.pending_offset("g", partition(5)).map(|pending| pending.offset), Some(20));
        ids.remove("u").unwrap();
        assert_eq!(ids.pending_offset("g", partition(5)), None);
        assert_eq!(ids.of_producer(20), None);
        assert_eq!(ids.len(), 1);
        assert!(ids.remove("u").is_err());
    }
}
