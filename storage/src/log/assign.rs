//! Turns what is pending into one commit: checks sequences against the assigned state, gives out
//! offsets, and builds the object. Pure, apart from the append time that is handed in.
//!
//! Invariant: the assigned state after a commit is the state that a replay of the object gives,
//! because both come from `ShardState::apply`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::append::{Appended, PreparedBatch};
use super::error::{AppendError, EndTransactionError};
use super::pending::PendingPartition;
use super::shared::OpenShards;
use super::state::{BatchPlace, PartitionState, ShardState};
use super::transactions::Marker;
use crate::format::{EncodedWalObject, Event, Producer, WalHeader, WalObjectBuilder};
use crate::ids::TopicPartition;

/// A commit in the making.
pub(super) struct Assignment {
    /// When it is committed, in milliseconds; never below that of an earlier commit.
    pub(super) append_time_ms: i64,
    /// The assigned state with the events of this commit, which the next change is checked against.
    working: ShardState,
    events: Vec<Event>,
    partitions: BTreeMap<TopicPartition, PendingPartition>,
    bytes: usize,
    shards: Arc<OpenShards>,
}

impl Assignment {
    pub(super) fn new(state: &ShardState, shards: Arc<OpenShards>, now_ms: i64) -> Self {
        Self {
            append_time_ms: now_ms.max(state.append_time_ms),
            working: state.clone(),
            events: Vec::new(),
            partitions: BTreeMap::new(),
            bytes: 0,
            shards,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty() && !self.has_batches()
    }

    pub(super) fn has_batches(&self) -> bool {
        self.bytes > 0
    }

    /// Bytes of batches so far.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The state that a change is checked against.
    pub(super) fn state(&self) -> &ShardState {
        &self.working
    }

    /// Adds events, which were checked against [`Self::state`].
    pub(super) fn push_events(&mut self, events: Vec<Event>) {
        self.working
            .apply_events(&events, self.append_time_ms)
            .expect("an event that was checked against the state applies to it");
        self.events.extend(events);
    }

    /// Gives a batch its offsets, or says why it gets none.
    pub(super) fn append(&mut self, batch: &PreparedBatch) -> Result<Appended, AppendError> {
        let topic_partition = batch.topic_partition;
        let unknown = AppendError::UnknownTopicPartition(topic_partition);
        self.check_transaction(batch)?;
        let (current, pending) = self.partition(topic_partition).ok_or(unknown)?;
        let appended = pending.append(&current, batch)?;
        if !appended.is_duplicate {
            self.bytes += batch.size_bytes();
        }
        Ok(appended)
    }

    /// Refuses what a producer of a transactional id sends from an older epoch, and what it sends to
    /// partitions that are not in its open transaction (KIP-890): a batch that comes late would open a
    /// transaction that nobody ends. Where another shard coordinates the transactional id, its durable
    /// state decides: a marker comes here only when it says that the transaction ends.
    fn check_transaction(&self, batch: &PreparedBatch) -> Result<(), AppendError> {
        let header = batch.header();
        let producer_id = header.producer_id;
        let own = self.working.transactional_ids.of_producer(producer_id).cloned();
        let of_others = || header.is_transactional().then(|| self.shards.transactional_id_of(producer_id))?;
        let Some(transactional_id) = own.or_else(of_others) else { return Ok(()) };
        let producer = Producer { producer_id, producer_epoch: header.producer_epoch };
        match transactional_id.place_of(producer, batch.topic_partition) {
            BatchPlace::InTransaction => Ok(()),
            BatchPlace::StaleProducer => {
                let (current, found) = (transactional_id.producer.producer_epoch, header.producer_epoch);
                Err(AppendError::StaleProducerEpoch { producer_id, current, found })
            }
            BatchPlace::NotAdded if header.is_transactional() => {
                Err(AppendError::PartitionNotInTransaction { producer_id })
            }
            // The partition knows whether a transaction is open in it.
            BatchPlace::NotAdded => Ok(()),
        }
    }

    /// Appends the marker of a transaction; gives its offset.
    pub(super) fn append_marker(
        &mut self,
        topic_partition: TopicPartition,
        marker: &Marker,
    ) -> Result<i64, EndTransactionError> {
        let unknown = EndTransactionError::UnknownTopicPartition(topic_partition);
        let (current, pending) = self.partition(topic_partition).ok_or(unknown)?;
        pending.check_marker(&current, marker)?;
        let (marker_offset, bytes) = pending.push_marker(&current, marker);
        self.bytes += bytes;
        Ok(marker_offset)
    }

    /// A partition before this commit, and what this commit adds to it.
    fn partition(&mut self, id: TopicPartition) -> Option<(Arc<PartitionState>, &mut PendingPartition)> {
        let current = self.working.partitions.get(&id)?.clone();
        let new = || PendingPartition::new(id, &current, self.append_time_ms);
        let pending = self.partitions.entry(id).or_insert_with(new);
        Some((current, pending))
    }

    /// Builds the object.
    pub(super) fn seal(self, header: WalHeader) -> Sealed {
        let mut events = self.events;
        let mut blocks = Vec::new();
        for pending in self.partitions.into_values() {
            let (producer_events, pending_blocks) = pending.into_parts();
            events.extend(producer_events);
            blocks.extend(pending_blocks);
        }
        let mut builder = WalObjectBuilder::new(header);
        events.iter().for_each(|event| builder.push_event(event));
        blocks.into_iter().for_each(|block| builder.push_block(block.entry, block.pieces));
        Sealed { object: builder.finish(), events }
    }
}

/// A commit that is ready to be put.
pub(super) struct Sealed {
    pub(super) object: EncodedWalObject,
    pub(super) events: Vec<Event>,
}
