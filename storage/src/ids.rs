//! Identifiers of the log. A number that could be swapped with another one in silence has a type.

use std::fmt;

use uuid::Uuid;

/// Identifies a topic for its whole life. A topic that is deleted and created again gets a new id,
/// so that nothing old can point into the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(Uuid);

impl TopicId {
    /// Makes an id of random bytes (a version 4 UUID, as Kafka's topic ids are).
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
    }

    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    pub fn as_uuid(&self) -> Uuid {
        self.0
    }
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One partition of one topic. Maps of partitions are sorted by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    pub topic_id: TopicId,
    pub partition: i32,
}

impl TopicPartition {
    pub fn new(topic_id: TopicId, partition: i32) -> Self {
        Self { topic_id, partition }
    }
}

/// A log of WAL objects with one writer: the unit of leadership, fencing and recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ShardId(pub u32);

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The place of a WAL object in its shard: the epoch of its writer, and its number within the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WalPosition {
    pub writer_epoch: u64,
    pub seq: u64,
}

impl fmt::Display for WalPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.writer_epoch, self.seq)
    }
}
