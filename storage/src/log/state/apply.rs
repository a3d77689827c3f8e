//! What an object does to the state of its shard.
//!
//! Events come before blocks; the order inside the object is part of the format. Nothing here reads
//! a clock. An object that contradicts the state is an error, never a guess.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;

use super::objects::AppliedAt;
use super::partition::Dropped;
use super::{
    CommittedOffset, PartitionState, Placement, ProducerBatch, ProducerState, Schema, ShardState, Topic,
};
use crate::format::event::{
    GroupOffsetsDeleted, InstalledObject, LogStart, LossAccepted, OffsetsCommitted, Opened, PartitionInstall,
    PartitionsAdded, ProducerBatches, ProducersExpired, SchemaPut, SegmentsInstalled, TopicConfigSet,
    TopicCreated, TopicDeleted, TransactionEnded,
};
use crate::format::segment::length_of;
use crate::format::slice::{LossAcceptance, SliceData, SliceLocation};
use crate::format::{BlockEntry, Event, Slice, WalHeader};
use crate::ids::{BlockObject, ShardId, TopicId, TopicPartition};
use crate::log::topic_config::TopicConfig;

/// A commit as the state sees it, just built or read back.
pub(in crate::log) struct Commit<'a> {
    pub(in crate::log) header: &'a WalHeader,
    pub(in crate::log) header_crc: u32,
    pub(in crate::log) object_length: u64,
    pub(in crate::log) events: &'a [Event],
    pub(in crate::log) blocks: &'a [BlockEntry],
}

impl ShardState {
    /// Applies a commit.
    ///
    /// # Errors
    /// What in the commit contradicts the state. The state is then of no more use.
    pub(in crate::log) fn apply(&mut self, commit: &Commit<'_>) -> Result<(), String> {
        self.apply_events(commit.events, commit.header.append_time_ms)?;
        for entry in commit.blocks {
            self.apply_block(entry, commit)?;
        }
        self.append_time_ms = self.append_time_ms.max(commit.header.append_time_ms);
        self.position = Some(commit.header.position);
        self.header_crc = commit.header_crc;
        self.wal_objects += 1;
        self.wal_bytes += commit.object_length;
        Ok(())
    }

    /// Applies the events of the next object alone.
    pub(in crate::log) fn apply_events(
        &mut self,
        events: &[Event],
        append_time_ms: i64,
    ) -> Result<(), String> {
        let at = AppliedAt { append_time_ms, wal_object: self.wal_objects + 1 };
        events.iter().try_for_each(|event| self.apply_event(event, at))
    }

    fn apply_block(&mut self, entry: &BlockEntry, commit: &Commit<'_>) -> Result<(), String> {
        let partition = self.partition_mut(entry.topic_partition)?;
        if entry.base_offset < partition.next_offset || entry.next_offset <= entry.base_offset {
            return Err(format!(
                "block {}..{} does not follow offset {} of partition {} of topic {}",
                entry.base_offset,
                entry.next_offset,
                partition.next_offset,
                entry.topic_partition.partition,
                entry.topic_partition.topic_id
            ));
        }
        partition.push_block(entry, BlockObject::Wal(commit.header.position));
        self.tail_bytes += u64::from(entry.length);
        Ok(())
    }

    fn apply_event(&mut self, event: &Event, at: AppliedAt) -> Result<(), String> {
        match event {
            Event::Opened(event) => {
                self.note_closed_epochs(event);
                Ok(())
            }
            Event::TopicCreated(event) => self.create_topic(event),
            Event::TopicDeleted(event) => self.delete_topic(event, at),
            Event::PartitionsAdded(event) => self.add_partitions(event),
            Event::TopicConfigSet(event) => self.set_topic_config(event),
            Event::ProducerIdsAllocated(event) => {
                self.next_producer_id = self.next_producer_id.max(event.next_producer_id);
                Ok(())
            }
            Event::ProducerBatches(event) => self.add_producer_batches(event),
            Event::OffsetsCommitted(event) => self.commit_offsets(event),
            Event::GroupOffsetsDeleted(event) => self.delete_group_offsets(event),
            Event::SchemaPut(event) => self.put_schema(event),
            Event::ClassicGroupPut(event) => self.put_classic_group(event),
            Event::ConsumerGroupChanged(event) => self.change_consumer_group(event),
            Event::GenerationsReserved(event) => self.reserve_generations(event),
            Event::GroupDeleted(event) => {
                self.delete_group(event);
                Ok(())
            }
            Event::TransactionEnded(event) => self.end_transaction(event, at),
            Event::ProducersExpired(event) => self.expire_producers(event),
            Event::TransactionalIdPut(event) => {
                self.transactional_ids.put(&event.transactional_id);
                Ok(())
            }
            Event::TransactionalIdRemoved(event) => self.transactional_ids.remove(&event.name),
            Event::SegmentsInstalled(event) => self.install_segments(event, at),
            Event::LogStartsMoved(event) => {
                event.partitions.iter().try_for_each(|start| self.move_log_start(start, at))
            }
            Event::ObjectsDeleted(event) => {
                event.objects.iter().for_each(|object| self.segments.forget(*object));
                Ok(())
            }
            Event::AccessChanged(change) => {
                Arc::make_mut(&mut self.access).apply(change);
                Ok(())
            }
            Event::LossAccepted(event) => self.accept_loss(event),
        }
    }

    fn note_closed_epochs(&mut self, event: &Opened) {
        for closed in &event.closed_epochs {
            self.epoch_ends.insert(closed.writer_epoch, closed.end_seq);
        }
    }

    fn create_topic(&mut self, event: &TopicCreated) -> Result<(), String> {
        if self.topic_ids.contains_key(&event.name) || self.topics.contains_key(&event.topic_id) {
            return Err(format!("topic \"{}\" is created twice", event.name));
        }
        let topic = Topic {
            id: event.topic_id,
            name: event.name.clone(),
            partition_count: 0,
            config: TopicConfig::from_log(event.configs.clone()),
            created_at_ms: event.created_at_ms,
            shards: Placement::default(),
        };
        self.topic_ids.insert(topic.name.clone(), topic.id);
        self.topics.insert(topic.id, Arc::new(topic));
        self.place_partitions(event.topic_id, event.partition_count, &event.shards)
    }

    fn add_partitions(&mut self, event: &PartitionsAdded) -> Result<(), String> {
        self.place_partitions(event.topic_id, event.partition_count, &event.shards)
    }

    fn place_partitions(
        &mut self,
        id: TopicId,
        partition_count: i32,
        shards: &[ShardId],
    ) -> Result<(), String> {
        let shard = self.shard;
        let topic = self.topic_mut(id)?;
        let first_new = topic.partition_count;
        if partition_count <= first_new {
            return Err(format!(
                "topic \"{}\" goes from {first_new} to {partition_count} partitions",
                topic.name
            ));
        }
        topic.shards.extend(first_new..partition_count, shards)?;
        topic.partition_count = partition_count;
        let placement = topic.shards.clone();
        for partition in (first_new..partition_count).filter(|new| placement.shard_of(*new) == shard) {
            self.partitions.insert(TopicPartition::new(id, partition), Arc::default());
        }
        Ok(())
    }

    fn delete_topic(&mut self, event: &TopicDeleted, at: AppliedAt) -> Result<(), String> {
        let id = event.topic_id;
        let topic = self.topics.remove(&id).ok_or_else(|| unknown_topic(id))?;
        self.topic_ids.remove(&topic.name);
        for partition in topic.partitions() {
            if let Some(removed) = self.partitions.remove(&partition) {
                self.producer_count -= removed.producers.len() as u64;
                self.release(&Dropped::new(removed.slices.clone(), &removed.blocks), at);
            }
        }
        self.schemas = self.schemas.iter().filter(|(key, _)| key.0 != id).map(cloned).collect();
        self.groups =
            self.groups.iter().filter_map(|(group, offsets)| without_topic(group, offsets, id)).collect();
        Ok(())
    }

    fn set_topic_config(&mut self, event: &TopicConfigSet) -> Result<(), String> {
        let topic = self.topic_mut(event.topic_id)?;
        let mut set: BTreeMap<_, _> = topic.config.explicit().clone();
        for (key, value) in &event.configs {
            match value {
                Some(value) => set.insert(key.clone(), value.clone()),
                None => set.remove(key),
            };
        }
        topic.config = TopicConfig::from_log(set);
        Ok(())
    }

    fn add_producer_batches(&mut self, event: &ProducerBatches) -> Result<(), String> {
        let partition = self.partition_mut(TopicPartition::new(event.topic_id, event.partition))?;
        let known = partition.producers.len();
        for batch in &event.batches {
            let mut producer = partition
                .producers
                .get(&batch.producer_id)
                .cloned()
                .unwrap_or_else(|| ProducerState::new(batch.producer_epoch));
            producer.push(
                batch.producer_epoch,
                ProducerBatch {
                    base_sequence: batch.base_sequence,
                    last_sequence: batch.last_sequence,
                    base_offset: batch.base_offset,
                    last_offset: batch.last_offset,
                    append_time_ms: batch.append_time_ms,
                },
            );
            partition.producers.insert(batch.producer_id, producer);
            if batch.transactional && !partition.open_transactions.contains_key(&batch.producer_id) {
                partition.open_transactions.insert(batch.producer_id, batch.base_offset);
            }
        }
        let added = partition.producers.len() - known;
        self.producer_count += added as u64;
        Ok(())
    }

    fn commit_offsets(&mut self, event: &OffsetsCommitted) -> Result<(), String> {
        let mut offsets = self.groups.get(&event.group).cloned().unwrap_or_default();
        for committed in &event.offsets {
            let offset = CommittedOffset {
                offset: committed.offset,
                leader_epoch: committed.leader_epoch,
                metadata: committed.metadata.clone(),
                commit_time_ms: committed.commit_time_ms,
            };
            offsets.insert(TopicPartition::new(committed.topic_id, committed.partition), offset);
        }
        self.groups.insert(event.group.clone(), offsets);
        Ok(())
    }

    /// No partitions named: all of them.
    fn delete_group_offsets(&mut self, event: &GroupOffsetsDeleted) -> Result<(), String> {
        let mut offsets = self.groups.remove(&event.group).unwrap_or_default();
        if event.partitions.is_empty() {
            return Ok(());
        }
        for partition in &event.partitions {
            offsets.remove(&TopicPartition::new(partition.topic_id, partition.partition));
        }
        if !offsets.is_empty() {
            self.groups.insert(event.group.clone(), offsets);
        }
        Ok(())
    }

    fn put_schema(&mut self, event: &SchemaPut) -> Result<(), String> {
        self.topic_mut(event.topic_id)?;
        let schema = Schema { version: event.version, bytes: event.bytes.clone().into() };
        self.schemas.insert((event.topic_id, event.kind.clone()), schema);
        Ok(())
    }

    fn end_transaction(&mut self, event: &TransactionEnded, at: AppliedAt) -> Result<(), String> {
        let partition = self.partition_mut(TopicPartition::new(event.topic_id, event.partition))?;
        let known = partition.producers.len();
        partition.end_transaction(event, at.append_time_ms);
        let added = partition.producers.len() - known;
        self.producer_count += added as u64;
        Ok(())
    }

    fn expire_producers(&mut self, event: &ProducersExpired) -> Result<(), String> {
        for expired in &event.partitions {
            let partition = self.partition_mut(TopicPartition::new(expired.topic_id, expired.partition))?;
            let known = partition.producers.len();
            for producer_id in &expired.producer_ids {
                partition.producers.remove(producer_id);
            }
            let removed = known - partition.producers.len();
            self.producer_count -= removed as u64;
        }
        Ok(())
    }

    fn install_segments(&mut self, event: &SegmentsInstalled, at: AppliedAt) -> Result<(), String> {
        for object in &event.objects {
            self.segments.add(object.object, object.length)?;
        }
        for install in &event.partitions {
            self.install(install, at)?;
        }
        for object in &event.objects {
            // What it holds may have been deleted while it was written.
            self.note_dead_parts(object, event, at);
            self.segments.bury_if_dead(object.object, at);
        }
        self.compacted_wal_objects = self.compacted_wal_objects.max(event.wal_objects);
        Ok(())
    }

    /// Notes that a new segment holds slices that nothing refers to: of a topic that is deleted, or
    /// below a log start.
    fn note_dead_parts(&mut self, object: &InstalledObject, event: &SegmentsInstalled, at: AppliedAt) {
        let slices = event.partitions.iter().flat_map(|install| &install.slices);
        let is_inside = |location: &SliceLocation| location.object == object.object;
        let held = slices.filter(|slice| slice.location().is_some_and(is_inside));
        let is_dead = |slice: &Slice| {
            let partition = self.partitions.get(&slice.topic_partition);
            partition.is_none_or(|partition| slice.next_offset <= partition.log_start_offset)
        };
        if held.clone().any(is_dead) || length_of(held) < object.length {
            self.segments.note_dead_part(object.object, at);
        }
    }

    fn install(&mut self, install: &PartitionInstall, at: AppliedAt) -> Result<(), String> {
        let id = TopicPartition::new(install.topic_id, install.partition);
        let partition = self.partition_mut(id)?;
        let dropped = partition.install(install)?;
        let log_start_offset = partition.log_start_offset;
        // New references come first, so that a segment that is in both is not taken for dead.
        for slice in install.slices.iter().filter(|slice| slice.next_offset > log_start_offset) {
            self.segments.refer(slice)?;
        }
        self.release(&dropped, at);
        Ok(())
    }

    fn release(&mut self, dropped: &Dropped, at: AppliedAt) {
        self.tail_bytes -= dropped.tail_bytes;
        for slice in &dropped.slices {
            self.segments.release(&slice.slice, at);
        }
    }

    fn move_log_start(&mut self, start: &LogStart, at: AppliedAt) -> Result<(), String> {
        let partition = self.partition_mut(TopicPartition::new(start.topic_id, start.partition))?;
        if start.log_start_offset < partition.log_start_offset
            || start.log_start_offset > partition.next_offset
        {
            return Err(format!(
                "log start {} is outside of {} to {} of partition {} of topic {}",
                start.log_start_offset,
                partition.log_start_offset,
                partition.next_offset,
                start.partition,
                start.topic_id
            ));
        }
        let dropped = partition.trim(start.log_start_offset);
        let cut = partition.slices.front().filter(|first| first.slice.base_offset < start.log_start_offset);
        if let Some(cut) = cut.cloned() {
            self.segments.note_partly_dead(&cut.slice, at);
        }
        self.release(&dropped, at);
        Ok(())
    }

    /// Lost slices in the ranges are skipped from now on, and no offset of the ranges is given out
    /// again.
    fn accept_loss(&mut self, event: &LossAccepted) -> Result<(), String> {
        for range in &event.partitions {
            let partition = self.partition_mut(TopicPartition::new(range.topic_id, range.partition))?;
            partition.next_offset = partition.next_offset.max(range.next_offset);
            for slice in &mut partition.slices {
                let is_inside = slice.slice.base_offset >= range.base_offset
                    && slice.slice.next_offset <= range.next_offset;
                if let SliceData::Lost { acceptance, .. } = &mut slice.slice.data
                    && is_inside
                {
                    *acceptance = LossAcceptance::Accepted;
                }
            }
        }
        Ok(())
    }

    fn topic_mut(&mut self, id: TopicId) -> Result<&mut Topic, String> {
        self.topics.get_mut(&id).map(Arc::make_mut).ok_or_else(|| unknown_topic(id))
    }

    fn partition_mut(&mut self, partition: TopicPartition) -> Result<&mut PartitionState, String> {
        let unknown =
            || format!("partition {} of topic {} does not exist", partition.partition, partition.topic_id);
        self.partitions.get_mut(&partition).map(Arc::make_mut).ok_or_else(unknown)
    }
}

fn unknown_topic(id: TopicId) -> String {
    format!("topic {id} does not exist")
}

fn cloned<K: Clone, V: Clone>((key, value): (&K, &V)) -> (K, V) {
    (key.clone(), value.clone())
}

/// A group's offsets without those of one topic; nothing if none are left.
fn without_topic(
    group: &str,
    offsets: &OrdMap<TopicPartition, CommittedOffset>,
    id: TopicId,
) -> Option<(String, OrdMap<TopicPartition, CommittedOffset>)> {
    let left: OrdMap<_, _> =
        offsets.iter().filter(|(partition, _)| partition.topic_id != id).map(cloned).collect();
    (!left.is_empty()).then(|| (group.to_owned(), left))
}
