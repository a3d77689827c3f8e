//! From the entries of pages back to a state. Pure.
//!
//! Invariant: entries that contradict each other are refused, never guessed at.

use std::sync::Arc;

use imbl::OrdMap;

use crate::access::AccessChange;
use crate::format::access::{AclMessage, QuotaMessage, UserMessage};
use crate::format::page::{
    CheckpointRoot, GroupEntry, GroupEntryBody, GroupOffsetEntry, PageKind, PartitionEntry, ProducerEntry,
    SchemaEntry, SegmentEntry, SliceEntry, TopicEntry, TransactionalIdEntry, block_entry_of, decode_entry,
};
use crate::ids::{BlockObject, ObjectId, ShardId, TopicId, TopicPartition, WalPosition};
use crate::log::state::{
    AbortedRange, CommittedOffset, Garbage, GroupState, PartitionState, Placement, ProducerBatch,
    ProducerState, Schema, SegmentState, ShardState, Topic,
};
use crate::log::topic_config::TopicConfig;

/// A state in the making. Pages must come in the order of the root.
pub(super) struct StateBuilder {
    state: ShardState,
    /// Producers of the partition that the newest entry was about.
    producers: Option<(TopicPartition, OrdMap<i64, ProducerState>)>,
}

impl StateBuilder {
    pub(super) fn new(root: &CheckpointRoot) -> Self {
        let state = ShardState {
            next_producer_id: root.next_producer_id,
            append_time_ms: root.append_time_ms,
            position: Some(root.position),
            header_crc: root.header_crc,
            wal_objects: root.wal_objects,
            wal_bytes: root.wal_bytes,
            compacted_wal_objects: root.compacted_wal_objects,
            epoch_ends: root.epoch_ends.iter().copied().collect(),
            ..ShardState::new(root.shard)
        };
        Self { state, producers: None }
    }

    /// Adds the entries of one page.
    ///
    /// # Errors
    /// What in them does not decode, or contradicts what came before.
    pub(super) fn add(&mut self, kind: PageKind, entries: &[Vec<u8>]) -> Result<(), String> {
        entries.iter().try_for_each(|entry| match kind {
            PageKind::Topics => self.add_topic(decode_entry(entry)?),
            PageKind::Partitions => self.add_partition(decode_entry(entry)?),
            PageKind::Slices => self.add_slice(decode_entry(entry)?),
            PageKind::Producers => self.add_producer(decode_entry(entry)?),
            PageKind::GroupOffsets => self.add_group_offset(decode_entry(entry)?),
            PageKind::Schemas => self.add_schema(decode_entry(entry)?),
            PageKind::Segments => self.add_segment(decode_entry(entry)?),
            PageKind::Groups => self.add_group(decode_entry(entry)?),
            PageKind::TransactionalIds => self.add_transactional_id(decode_entry(entry)?),
            PageKind::Users => self.add_access(decode_entry::<UserMessage>(entry)?.into_change()?),
            PageKind::Acls => self.add_access(decode_entry::<AclMessage>(entry)?.into_change()?),
            PageKind::Quotas => self.add_access(decode_entry::<QuotaMessage>(entry)?.into_change()?),
        })
    }

    /// # Errors
    /// Slices that are in no segment of the checkpoint.
    pub(super) fn finish(mut self) -> Result<ShardState, String> {
        self.end_producers()?;
        let (mut tail_bytes, mut producer_count) = (0, 0);
        let ids: Vec<_> = self.state.partitions.keys().copied().collect();
        for id in ids {
            let partition = self.partition_mut(id)?;
            partition.finish_restore();
            let partition = partition.clone();
            tail_bytes += partition.blocks.iter().map(|block| u64::from(block.length)).sum::<u64>();
            producer_count += partition.producers.len() as u64;
            for slice in &partition.slices {
                self.state.segments.refer(&slice.slice)?;
            }
        }
        self.state.tail_bytes = tail_bytes;
        self.state.producer_count = producer_count;
        Ok(self.state)
    }

    fn add_topic(&mut self, entry: TopicEntry) -> Result<(), String> {
        let id = topic_id_of(&entry.topic_id)?;
        let configs = entry.configs.into_iter().map(|config| (config.key, config.value)).collect();
        let mut shards = Placement::default();
        let numbers: Vec<_> = entry.shards.into_iter().map(ShardId).collect();
        shards.extend(0..entry.partition_count, &numbers)?;
        let topic = Topic {
            id,
            name: entry.name,
            partition_count: entry.partition_count,
            config: TopicConfig::from_log(configs),
            created_at_ms: entry.created_at_ms,
            shards,
        };
        self.state.topic_ids.insert(topic.name.clone(), id);
        self.state.topics.insert(id, Arc::new(topic));
        Ok(())
    }

    fn add_partition(&mut self, entry: PartitionEntry) -> Result<(), String> {
        let id = TopicPartition::new(topic_id_of(&entry.topic_id)?, entry.partition);
        let open = entry.open_transactions.iter();
        let aborted = entry.aborted.iter().map(|aborted| AbortedRange {
            producer_id: aborted.producer_id,
            first_offset: aborted.first_offset,
            last_offset: aborted.last_offset,
        });
        let mut partition = PartitionState {
            log_start_offset: entry.log_start_offset,
            leader_epoch: entry.leader_epoch,
            cleaned_offset: entry.cleaned_offset,
            open_transactions: open.map(|open| (open.producer_id, open.first_offset)).collect(),
            aborted: aborted.collect(),
            ..PartitionState::default()
        };
        for block in &entry.tail {
            let position = WalPosition { writer_epoch: block.writer_epoch, seq: block.seq };
            let block = block_entry_of(&block.block).map_err(|error| error.to_string())?;
            if block.topic_partition != id || block.base_offset < partition.next_offset {
                return Err(format!("block {}..{} is out of place", block.base_offset, block.next_offset));
            }
            partition.push_block(&block, BlockObject::Wal(position));
        }
        if partition.next_offset > entry.next_offset {
            return Err(format!(
                "partition ends at {}, its blocks at {}",
                entry.next_offset, partition.next_offset
            ));
        }
        partition.next_offset = entry.next_offset;
        self.state.partitions.insert(id, Arc::new(partition));
        Ok(())
    }

    fn add_slice(&mut self, entry: SliceEntry) -> Result<(), String> {
        let slice = entry.into_slice()?;
        let partition = self.partition_mut(slice.topic_partition)?;
        partition.restore_slice(slice)
    }

    fn add_producer(&mut self, entry: ProducerEntry) -> Result<(), String> {
        let id = TopicPartition::new(topic_id_of(&entry.topic_id)?, entry.partition);
        let producer_epoch = i16::try_from(entry.producer_epoch)
            .map_err(|_| format!("producer epoch {} does not fit 16 bits", entry.producer_epoch))?;
        let mut producer = ProducerState::new(producer_epoch);
        for batch in &entry.batches {
            let batch = ProducerBatch {
                base_sequence: batch.base_sequence,
                last_sequence: batch.last_sequence,
                base_offset: batch.base_offset,
                last_offset: batch.last_offset,
                append_time_ms: batch.append_time_ms,
            };
            producer.push(producer_epoch, batch);
        }
        producer.coordinator_epoch = entry.coordinator_epoch.unwrap_or(-1);
        producer.updated_at_ms = producer.updated_at_ms.max(entry.updated_at_ms);
        if self.producers.as_ref().is_none_or(|(current, _)| *current != id) {
            self.end_producers()?;
            self.producers = Some((id, OrdMap::new()));
        }
        if let Some((_, producers)) = &mut self.producers {
            producers.insert(entry.producer_id, producer);
        }
        Ok(())
    }

    fn end_producers(&mut self) -> Result<(), String> {
        if let Some((id, producers)) = self.producers.take() {
            let partition = self.partition_mut(id)?;
            partition.producers = partition.producers.clone().union(producers);
        }
        Ok(())
    }

    fn add_group_offset(&mut self, entry: GroupOffsetEntry) -> Result<(), String> {
        let id = TopicPartition::new(topic_id_of(&entry.topic_id)?, entry.partition);
        let offset = CommittedOffset {
            offset: entry.offset,
            leader_epoch: entry.leader_epoch,
            metadata: entry.metadata,
            commit_time_ms: entry.commit_time_ms,
        };
        self.state.groups.entry(entry.group).or_default().insert(id, offset);
        Ok(())
    }

    fn add_group(&mut self, entry: GroupEntry) -> Result<(), String> {
        let generations_reserved = entry.generations_reserved;
        let (name, state) = match entry.into_body()? {
            GroupEntryBody::Classic(put) => {
                (put.group, GroupState::of_classic(put.revision, generations_reserved, put.state))
            }
            GroupEntryBody::Consumer(whole) => {
                let state = GroupState::of_consumer(generations_reserved, &whole);
                (whole.group, state)
            }
        };
        self.state.restore_group(name, state);
        Ok(())
    }

    fn add_schema(&mut self, entry: SchemaEntry) -> Result<(), String> {
        let schema = Schema { version: entry.version, bytes: entry.bytes.into() };
        self.state.schemas.insert((topic_id_of(&entry.topic_id)?, entry.kind), schema);
        Ok(())
    }

    fn add_segment(&mut self, entry: SegmentEntry) -> Result<(), String> {
        let object: [u8; 16] =
            entry.object.as_slice().try_into().map_err(|_| "an object id has 16 bytes".to_owned())?;
        let object = ObjectId::from_bytes(object);
        let (length, segments) = (entry.length, &mut self.state.segments);
        match entry.unreferenced_at_ms {
            Some(unreferenced_at_ms) => {
                let unreferenced_by = entry.unreferenced_by;
                segments.garbage.insert(object, Garbage { length, unreferenced_at_ms, unreferenced_by });
            }
            None => {
                let dead_since_ms = entry.dead_since_ms;
                let segment = SegmentState { length, live_slices: 0, live_bytes: 0, dead_since_ms };
                segments.live.insert(object, segment);
            }
        }
        Ok(())
    }

    fn add_transactional_id(&mut self, entry: TransactionalIdEntry) -> Result<(), String> {
        self.state.transactional_ids.put(&Arc::new(entry.into_transactional_id()?));
        Ok(())
    }

    fn add_access(&mut self, change: AccessChange) -> Result<(), String> {
        Arc::make_mut(&mut self.state.access).apply(&change);
        Ok(())
    }

    fn partition_mut(&mut self, id: TopicPartition) -> Result<&mut PartitionState, String> {
        let unknown = || format!("partition {} of topic {} is not there", id.partition, id.topic_id);
        self.state.partitions.get_mut(&id).map(Arc::make_mut).ok_or_else(unknown)
    }
}

fn topic_id_of(bytes: &[u8]) -> Result<TopicId, String> {
    let bytes = bytes.try_into().map_err(|_| format!("a topic id has {} bytes, not 16", bytes.len()))?;
    Ok(TopicId::from_bytes(bytes))
}
