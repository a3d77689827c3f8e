//! The state of a transactional id, whole, as an event puts it and a checkpoint keeps it.
//!
//! Invariant: a message that decodes has typed ids and a known state, or is refused. Nothing here
//! knows which state may follow which.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;

use super::event::TransactionResult;
use crate::ids::{TopicId, TopicPartition};

/// A producer in one of its epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Producer {
    pub producer_id: i64,
    pub producer_epoch: i16,
}

/// Where the transaction of a transactional id stands, with the numbers and names of Kafka's
/// `TransactionState`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransactionState {
    /// There has been none since the producer was made known.
    Empty,
    Ongoing,
    /// It will be committed, whatever happens: its markers are being written.
    PrepareCommit,
    PrepareAbort,
    CompleteCommit,
    CompleteAbort,
}

impl TransactionState {
    pub const ALL: [Self; 6] = [
        Self::Empty,
        Self::Ongoing,
        Self::PrepareCommit,
        Self::PrepareAbort,
        Self::CompleteCommit,
        Self::CompleteAbort,
    ];

    /// How the transaction ended, or is to end.
    pub fn result(self) -> Option<TransactionResult> {
        match self {
            Self::Empty | Self::Ongoing => None,
            Self::PrepareCommit | Self::CompleteCommit => Some(TransactionResult::Commit),
            Self::PrepareAbort | Self::CompleteAbort => Some(TransactionResult::Abort),
        }
    }

    /// Whether the transaction is decided, and not all of it is written.
    pub fn is_prepared(self) -> bool {
        matches!(self, Self::PrepareCommit | Self::PrepareAbort)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
        }
    }

    fn number(self) -> u32 {
        match self {
            Self::Empty => 0,
            Self::Ongoing => 1,
            Self::PrepareCommit => 2,
            Self::PrepareAbort => 3,
            Self::CompleteCommit => 4,
            Self::CompleteAbort => 5,
        }
    }

    fn of(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.number() == number)
    }
}

/// An offset that a group commits with a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingOffset {
    pub offset: i64,
    /// -1 when the client sent none.
    pub leader_epoch: i32,
    /// Null is not the same as empty.
    pub metadata: Option<String>,
    /// What the group had committed when this one became pending. One that it commits later stays, and
    /// an end that comes twice commits once.
    pub replaces: Option<ReplacedOffset>,
}

/// A committed offset that a pending one takes the place of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplacedOffset {
    pub offset: i64,
    pub commit_time_ms: i64,
}

pub type PendingOffsets = BTreeMap<TopicPartition, PendingOffset>;

/// What is known of a transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionalId {
    pub name: String,
    pub producer: Producer,
    /// The producer that asked for this one to follow it: when it asks again, it gets the same
    /// answer (KIP-360).
    pub previous: Option<Producer>,
    pub timeout_ms: i32,
    pub state: TransactionState,
    pub partitions: BTreeSet<TopicPartition>,
    /// Offsets that are committed with the transaction, by group. A group may have none yet.
    pub groups: BTreeMap<String, PendingOffsets>,
    /// When the transaction began; `None` before the first, and once it is complete.
    pub started_at_ms: Option<i64>,
    pub updated_at_ms: i64,
}

impl TransactionalId {
    /// When the transaction has taken too long, if one is open.
    pub fn deadline_ms(&self) -> Option<i64> {
        let started_at_ms = self.started_at_ms.filter(|_| self.state == TransactionState::Ongoing)?;
        Some(started_at_ms.saturating_add(i64::from(self.timeout_ms)))
    }

    pub(crate) fn to_message(&self) -> TransactionalIdMessage {
        let partitions = self.partitions.iter();
        let groups = self.groups.iter();
        TransactionalIdMessage {
            name: self.name.clone(),
            producer: Some(producer_message(self.producer)),
            previous: self.previous.map(producer_message),
            timeout_ms: self.timeout_ms,
            state: self.state.number(),
            partitions: partitions
                .map(|id| PartitionMessage { topic_id: id_bytes(id), partition: id.partition })
                .collect(),
            groups: groups
                .map(|(group, offsets)| GroupMessage {
                    group: group.clone(),
                    offsets: offsets.iter().map(offset_message).collect(),
                })
                .collect(),
            started_at_ms: self.started_at_ms,
            updated_at_ms: self.updated_at_ms,
        }
    }

    pub(crate) fn from_message(message: TransactionalIdMessage) -> Result<Self, String> {
        let state = TransactionState::of(message.state)
            .ok_or_else(|| format!("transaction state {} is not known", message.state))?;
        let partition_of = |message: PartitionMessage| partition(&message.topic_id, message.partition);
        let mut groups = BTreeMap::new();
        for group in message.groups {
            let offsets = group.offsets.into_iter().map(pending_offset_of).collect::<Result<_, _>>()?;
            groups.insert(group.group, offsets);
        }
        Ok(Self {
            name: message.name,
            producer: producer_of(message.producer.ok_or("the producer is missing")?)?,
            previous: message.previous.map(producer_of).transpose()?,
            timeout_ms: message.timeout_ms,
            state,
            partitions: message.partitions.into_iter().map(partition_of).collect::<Result<_, _>>()?,
            groups,
            started_at_ms: message.started_at_ms,
            updated_at_ms: message.updated_at_ms,
        })
    }
}

fn producer_message(producer: Producer) -> ProducerMessage {
    ProducerMessage { producer_id: producer.producer_id, producer_epoch: i32::from(producer.producer_epoch) }
}

fn producer_of(message: ProducerMessage) -> Result<Producer, String> {
    let producer_epoch = i16::try_from(message.producer_epoch)
        .map_err(|_| format!("producer epoch {} does not fit 16 bits", message.producer_epoch))?;
    Ok(Producer { producer_id: message.producer_id, producer_epoch })
}

fn offset_message((id, pending): (&TopicPartition, &PendingOffset)) -> OffsetMessage {
    OffsetMessage {
        topic_id: id_bytes(id),
        partition: id.partition,
        offset: pending.offset,
        leader_epoch: pending.leader_epoch,
        metadata: pending.metadata.clone(),
        replaces: pending.replaces.map(|replaced| ReplacedMessage {
            offset: replaced.offset,
            commit_time_ms: replaced.commit_time_ms,
        }),
    }
}

fn pending_offset_of(message: OffsetMessage) -> Result<(TopicPartition, PendingOffset), String> {
    let OffsetMessage { offset, leader_epoch, metadata, .. } = message;
    let replaces = message
        .replaces
        .map(|ReplacedMessage { offset, commit_time_ms }| ReplacedOffset { offset, commit_time_ms });
    let pending = PendingOffset { offset, leader_epoch, metadata, replaces };
    Ok((partition(&message.topic_id, message.partition)?, pending))
}

fn id_bytes(id: &TopicPartition) -> Vec<u8> {
    id.topic_id.as_bytes().to_vec()
}

fn partition(topic_id: &[u8], partition: i32) -> Result<TopicPartition, String> {
    let bytes =
        topic_id.try_into().map_err(|_| format!("a topic id has {} bytes, not 16", topic_id.len()))?;
    Ok(TopicPartition::new(TopicId::from_bytes(bytes), partition))
}

#[derive(Clone, PartialEq, Message)]
pub struct TransactionalIdMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    producer: Option<ProducerMessage>,
    #[prost(message, optional, tag = "3")]
    previous: Option<ProducerMessage>,
    #[prost(int32, tag = "4")]
    timeout_ms: i32,
    #[prost(uint32, tag = "5")]
    state: u32,
    #[prost(message, repeated, tag = "6")]
    partitions: Vec<PartitionMessage>,
    #[prost(message, repeated, tag = "7")]
    groups: Vec<GroupMessage>,
    #[prost(int64, optional, tag = "8")]
    started_at_ms: Option<i64>,
    #[prost(int64, tag = "9")]
    updated_at_ms: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ProducerMessage {
    #[prost(int64, tag = "1")]
    producer_id: i64,
    #[prost(sint32, tag = "2")]
    producer_epoch: i32,
}

#[derive(Clone, PartialEq, Message)]
struct PartitionMessage {
    #[prost(bytes = "vec", tag = "1")]
    topic_id: Vec<u8>,
    #[prost(int32, tag = "2")]
    partition: i32,
}

#[derive(Clone, PartialEq, Message)]
struct GroupMessage {
    #[prost(string, tag = "1")]
    group: String,
    #[prost(message, repeated, tag = "2")]
    offsets: Vec<OffsetMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct OffsetMessage {
    #[prost(bytes = "vec", tag = "1")]
    topic_id: Vec<u8>,
    #[prost(int32, tag = "2")]
    partition: i32,
    #[prost(sint64, tag = "3")]
    offset: i64,
    #[prost(sint32, tag = "4")]
    leader_epoch: i32,
    #[prost(string, optional, tag = "5")]
    metadata: Option<String>,
    #[prost(message, optional, tag = "6")]
    replaces: Option<ReplacedMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct ReplacedMessage {
    #[prost(sint64, tag = "1")]
    offset: i64,
    #[prost(sint64, tag = "2")]
    commit_time_ms: i64,
}
