//! Identifiers of the log. A number that could be swapped with another one in silence has a type.

use std::fmt;

use ulid::Ulid;
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

/// Identifies a segment or a page. Ids of one process sort by the time when they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(Ulid);

impl ObjectId {
    /// Makes an id of a time in milliseconds since the Unix epoch and random bytes.
    pub fn new(now_ms: i64, random: [u8; 16]) -> Self {
        Self(Ulid::from_parts(u64::try_from(now_ms).unwrap_or(0), u128::from_le_bytes(random)))
    }

    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Ulid::from_bytes(bytes))
    }

    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_bytes()
    }

    /// The id that its text stands for; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let id = Self(Ulid::from_string(text).ok()?);
        // Small letters decode as well, but no key has them.
        (id.to_string() == text).then_some(id)
    }

    /// When the id was made, in milliseconds since the Unix epoch.
    pub fn created_at_ms(self) -> i64 {
        i64::try_from(self.0.timestamp_ms()).expect("the time in an id has 48 bits")
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The object that holds a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockObject {
    Wal(WalPosition),
    Segment(ObjectId),
}
