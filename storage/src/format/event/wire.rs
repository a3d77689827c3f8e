//! Between events and their protobuf messages.
//!
//! Invariant: a message that decodes becomes an event with typed ids, or is refused; nothing but
//! this file sees the messages.

use std::collections::BTreeMap;

use prost::Message;

use super::access_wire;
use super::messages::{
    ClosedEpochMessage, CommittedOffsetMessage, ConfigMessage, GroupOffsetsDeletedMessage,
    GroupPartitionMessage, OffsetsCommittedMessage, OpenedMessage, PartitionsAddedMessage,
    ProducerBatchMessage, ProducerBatchesMessage, ProducerIdsAllocatedMessage, SchemaPutMessage,
    TopicConfigSetMessage, TopicCreatedMessage, TopicDeletedMessage,
};
use super::{
    ClosedEpoch, CommittedOffset, Event, GroupOffsetsDeleted, GroupPartition, OffsetsCommitted, Opened,
    PartitionsAdded, ProducerBatch, ProducerBatches, ProducerIdsAllocated, SchemaPut, TopicConfigSet,
    TopicCreated, TopicDeleted,
};
use crate::ids::{ShardId, TopicId};

/// Ties an event to its message: the one way in and out of the bytes.
pub(super) trait Wire: Sized {
    type Message: Message + Default;

    fn to_message(&self) -> Self::Message;
    fn from_message(message: Self::Message) -> Result<Self, String>;
}

/// Appends the message of an event.
pub(super) fn encode(event: &Event, out: &mut Vec<u8>) {
    match event {
        Event::Opened(event) => put(event, out),
        Event::TopicCreated(event) => put(event, out),
        Event::TopicDeleted(event) => put(event, out),
        Event::PartitionsAdded(event) => put(event, out),
        Event::TopicConfigSet(event) => put(event, out),
        Event::ProducerIdsAllocated(event) => put(event, out),
        Event::ProducerBatches(event) => put(event, out),
        Event::OffsetsCommitted(event) => put(event, out),
        Event::GroupOffsetsDeleted(event) => put(event, out),
        Event::SchemaPut(event) => put(event, out),
        Event::ClassicGroupPut(event) => put(event, out),
        Event::ConsumerGroupChanged(event) => put(event, out),
        Event::GroupDeleted(event) => put(event, out),
        Event::GenerationsReserved(event) => put(event, out),
        Event::TransactionEnded(event) => put(event, out),
        Event::ProducersExpired(event) => put(event, out),
        Event::TransactionalIdPut(event) => put(event, out),
        Event::TransactionalIdRemoved(event) => put(event, out),
        Event::SegmentsInstalled(event) => put(event, out),
        Event::LogStartsMoved(event) => put(event, out),
        Event::ObjectsDeleted(event) => put(event, out),
        Event::AccessChanged(change) => access_wire::encode(change, out),
        Event::LossAccepted(event) => put(event, out),
    }
}

fn put(event: &impl Wire, out: &mut Vec<u8>) {
    event.to_message().encode(out).expect("a vector grows as needed");
}

/// Decodes the message of one kind of event.
pub(super) fn decode<W: Wire>(bytes: &[u8], wrap: impl FnOnce(W) -> Event) -> Result<Event, String> {
    let message = W::Message::decode(bytes).map_err(|error| error.to_string())?;
    W::from_message(message).map(wrap)
}

pub(super) fn id_bytes(topic_id: &TopicId) -> Vec<u8> {
    topic_id.as_bytes().to_vec()
}

pub(super) fn id_of(bytes: &[u8]) -> Result<TopicId, String> {
    let bytes = bytes.try_into().map_err(|_| format!("a topic id has {} bytes, not 16", bytes.len()))?;
    Ok(TopicId::from_bytes(bytes))
}

fn shard_numbers(shards: &[ShardId]) -> Vec<u32> {
    shards.iter().map(|shard| shard.0).collect()
}

fn shards_of(numbers: Vec<u32>) -> Vec<ShardId> {
    numbers.into_iter().map(ShardId).collect()
}

/// Collects config entries, each key once.
fn configs_of<V>(
    entries: Vec<ConfigMessage>,
    value_of: impl Fn(&str, Option<String>) -> Result<V, String>,
) -> Result<BTreeMap<String, V>, String> {
    let mut configs = BTreeMap::new();
    for ConfigMessage { key, value } in entries {
        let value = value_of(&key, value)?;
        if configs.contains_key(&key) {
            return Err(format!("config \"{key}\" is there twice"));
        }
        configs.insert(key, value);
    }
    Ok(configs)
}

impl Wire for Opened {
    type Message = OpenedMessage;

    fn to_message(&self) -> Self::Message {
        let closed = self.closed_epochs.iter();
        OpenedMessage {
            closed_epochs: closed
                .map(|closed| ClosedEpochMessage {
                    writer_epoch: closed.writer_epoch,
                    end_seq: closed.end_seq,
                })
                .collect(),
            node: self.node.clone(),
            address: self.address.clone(),
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, String> {
        let closed = message.closed_epochs.into_iter();
        Ok(Self {
            closed_epochs: closed
                .map(|closed| ClosedEpoch { writer_epoch: closed.writer_epoch, end_seq: closed.end_seq })
                .collect(),
            node: message.node,
            address: message.address,
        })
    }
}

impl Wire for TopicCreated {
    type Message = TopicCreatedMessage;

    fn to_message(&self) -> Self::Message {
        let configs = self.configs.iter();
        TopicCreatedMessage {
            topic_id: id_bytes(&self.topic_id),
            name: self.name.clone(),
            partition_count: self.partition_count,
            configs: configs
                .map(|(key, value)| ConfigMessage { key: key.clone(), value: Some(value.clone()) })
                .collect(),
            shards: shard_numbers(&self.shards),
            created_at_ms: self.created_at_ms,
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, String> {
        let value_of =
            |key: &str, value: Option<String>| value.ok_or_else(|| format!("config \"{key}\" has no value"));
        Ok(Self {
            topic_id: id_of(&message.topic_id)?,
            name: message.name,
            partition_count: message.partition_count,
            configs: configs_of(message.configs, value_of)?,
            shards: shards_of(message.shards),
            created_at_ms: message.created_at_ms,
        })
    }
}

impl Wire for TopicDeleted {
    type Message = TopicDeletedMessage;

    fn to_message(&self) -> Self::Message {
        TopicDeletedMessage { topic_id: id_bytes(&self.topic_id) }
    }

    fn from_message(message: Self::Message) -> Result<Self, String> {
        Ok(Self { topic_id: id_of(&message.topic_id)? })
    }
}

impl Wire for PartitionsAdded {
    type Message = PartitionsAddedMessage;

    fn to_message(&self) -> Self::Message {
        PartitionsAddedMessage {
            topic_id: id_bytes(&self.topic_id),
            partition_count: self.partition_count,
            shards: shard_numbers(&self.shards),
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, String> {
        Ok(Self {
            topic_id: id_of(&message.topic_id)?,
            partition_count: message.partition_count,
            shards: shards_of(message.shards),
        })
    }
}

impl Wire for TopicConfigSet {
    type Message = TopicConfigSetMessage;

    fn to_message(&self) -> Self::Message {
        let configs = self.configs.iter();
        TopicConfigSetMessage {
            topic_id: id_bytes(&self.topic_id),
            configs: configs
                .map(|(key, value)| ConfigMessage { key: key.clone(), value: value.clone() })
                .collect(),
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, String> {
        Ok(Self {
            topic_id: id_of(&message.topic_id)?,
            configs: configs_of(message.configs, |_, value| Ok(value))?,
        })
    }
}

impl Wire for ProducerIdsAllocated {
    type Message = ProducerIdsAllocatedMessage;

    fn to_message(&self) -> Self::Message {
        ProducerIdsAllocatedMessage { next_producer_id: self.next_producer_id }
    }

    fn from_message(message: Self::Message) -> Result<Self, String> {
        Ok(Self { next_producer_id: message.next_producer_id })
    }
}

impl Wire for ProducerBatches {
    type Message = ProducerBatchesMessage;

    fn to_message(&self) -> Self::Message {
        ProducerBatchesMessage {
            topic_id: id_bytes(&self.topic_id),
            partition: self.partition,
            batches: self.batches.iter().map(producer_batch_message).collect(),
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, String> {
        Ok(Self {
            topic_id: id_of(&message.topic_id)?,
            partition: message.partition,
            batches: message.batches.into_iter().map(producer_batch_of).collect::<Result<_, _>>()?,
        })
    }
}

fn producer_batch_message(batch: &ProducerBatch) -> ProducerBatchMessage {
    ProducerBatchMessage {
        producer_id: batch.producer_id,
        producer_epoch: i32::from(batch.producer_epoch),
        base_sequence: batch.base_sequence,
        last_sequence: batch.last_sequence,
        base_offset: batch.base_offset,
        last_offset: batch.last_offset,
        append_time_ms: batch.append_time_ms,
        max_timestamp: batch.max_timestamp,
        transactional: batch.transactional,
    }
}

fn producer_batch_of(message: ProducerBatchMessage) -> Result<ProducerBatch, String> {
    let producer_epoch = i16::try_from(message.producer_epoch)
        .map_err(|_| format!("producer epoch {} does not fit 16 bits", message.producer_epoch))?;
    Ok(ProducerBatch {
        producer_id: message.producer_id,
        producer_epoch,
        base_sequence: message.base_sequence,
        last_sequence: message.last_sequence,
        base_offset: message.base_offset,
        last_offset: message.last_offset,
        append_time_ms: message.append_time_ms,
        max_timestamp: message.max_timestamp,
        transactional: message.transactional,
    })
}

impl Wire for OffsetsCommitted {
    type Message = OffsetsCommittedMessage;

    fn to_message(&self) -> Self::Message {
        let offsets = self.offsets.iter();
        OffsetsCommittedMessage {
            group: self.group.clone(),
            offsets: offsets
                .map(|committed| CommittedOffsetMessage {
                    topic_id: id_bytes(&committed.topic_id),
                    partition: committed.partition,
                    offset: committed.offset,
                    leader_epoch: committed.leader_epoch,
                    metadata: committed.metadata.clone(),
                    commit_time_ms: committed.commit_time_ms,
                })
                .collect(),
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, String> {
        let committed_offset_of = |message: CommittedOffsetMessage| {
            Ok::<_, String>(CommittedOffset {
                topic_id: id_of(&message.topic_id)?,
                partition: message.partition,
                offset: message.offset,
                leader_epoch: message.leader_epoch,
                metadata: message.metadata,
                commit_time_ms: message.commit_time_ms,
            })
        };
        Ok(Self {
            group: message.group,
            offsets: message.offsets.into_iter().map(committed_offset_of).collect::<Result<_, _>>()?,
        })
    }
}

impl Wire for GroupOffsetsDeleted {
    type Message = GroupOffsetsDeletedMessage;

    fn to_message(&self) -> Self::Message {
        let partitions = self.partitions.iter();
        GroupOffsetsDeletedMessage {
            group: self.group.clone(),
            partitions: partitions
                .map(|entry| GroupPartitionMessage {
                    topic_id: id_bytes(&entry.topic_id),
                    partition: entry.partition,
                })
                .collect(),
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, String> {
        let group_partition_of = |message: GroupPartitionMessage| {
            Ok::<_, String>(GroupPartition {
                topic_id: id_of(&message.topic_id)?,
                partition: message.partition,
            })
        };
        Ok(Self {
            group: message.group,
            partitions: message.partitions.into_iter().map(group_partition_of).collect::<Result<_, _>>()?,
        })
    }
}

impl Wire for SchemaPut {
    type Message = SchemaPutMessage;

    fn to_message(&self) -> Self::Message {
        SchemaPutMessage {
            topic_id: id_bytes(&self.topic_id),
            kind: self.kind.clone(),
            version: self.version,
            bytes: self.bytes.clone(),
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, String> {
        Ok(Self {
            topic_id: id_of(&message.topic_id)?,
            kind: message.kind,
            version: message.version,
            bytes: message.bytes,
        })
    }
}
