//! The state of a shard: what the replay of its WAL gives. Pure.
//!
//! The maps are persistent, so that a copy costs next to nothing: the committer keeps one copy per
//! object in flight, and a reader keeps the copy it began with.
//!
//! Invariant: `apply` is the only way to change a state. The committer and the replay use the same
//! one, so an object means the same to both.

mod apply;
mod group;
mod objects;
mod partition;
mod producer;
mod topic;
mod transactional_id;

use std::sync::Arc;

use bytes::Bytes;
use imbl::OrdMap;

pub(super) use apply::Commit;
pub use group::{ConsumerGroup, GroupBody, GroupState};
pub(super) use objects::{Garbage, SegmentState, SegmentsState};
pub use partition::{AbortedRange, Block, InstalledSlice, MaxTimestamp, PartitionState};
pub use producer::{ProducerBatch, ProducerState, SequenceCheck};
pub use topic::{Placement, Topic};
pub use transactional_id::{BatchPlace, TransactionalIds};

use crate::access::Access;
use crate::ids::{ShardId, TopicId, TopicPartition, WalPosition};

/// A committed offset of a consumer group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    pub offset: i64,
    pub leader_epoch: i32,
    /// As the client sent it; `None` for null.
    pub metadata: Option<String>,
    pub commit_time_ms: i64,
}

/// Opaque bytes about a topic, kept by version for the query engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Counts up from 1.
    pub version: u32,
    pub bytes: Bytes,
}

#[derive(Clone, Debug, Default)]
pub struct ShardState {
    pub(super) shard: ShardId,
    /// All topics of the log: each shard knows them all, and shard 0 decides.
    pub(super) topics: OrdMap<TopicId, Arc<Topic>>,
    pub(super) topic_ids: OrdMap<String, TopicId>,
    /// Those of this shard.
    pub(super) partitions: OrdMap<TopicPartition, Arc<PartitionState>>,
    pub(super) groups: OrdMap<String, OrdMap<TopicPartition, CommittedOffset>>,
    /// Members and assignments of groups. A group that only has offsets is not in it.
    pub(super) group_states: OrdMap<String, Arc<GroupState>>,
    pub(super) schemas: OrdMap<(TopicId, String), Schema>,
    pub(super) transactional_ids: TransactionalIds,
    /// Users, rules and quotas: in shard 0, and empty in all others.
    pub(super) access: Arc<Access>,
    pub(super) next_producer_id: i64,
    /// Producers of all partitions.
    pub(super) producer_count: u64,
    /// The newest append time, which the next one does not go below.
    pub(super) append_time_ms: i64,
    /// The newest object applied.
    pub(super) position: Option<WalPosition>,
    pub(super) header_crc: u32,
    /// How many objects were applied since the shard began.
    pub(super) wal_objects: u64,
    pub(super) wal_bytes: u64,
    pub(super) segments: SegmentsState,
    /// Bytes of all blocks that are in WAL objects and not in segments.
    pub(super) tail_bytes: u64,
    /// How many WAL objects there were when the newest compaction was planned.
    pub(super) compacted_wal_objects: u64,
    /// Where each epoch that a later one walked ended: the seq of its fence.
    pub(super) epoch_ends: OrdMap<u64, u64>,
}

impl ShardState {
    pub(super) fn new(shard: ShardId) -> Self {
        Self { shard, ..Self::default() }
    }

    pub(super) fn topic(&self, name: &str) -> Option<&Arc<Topic>> {
        self.topic_ids.get(name).and_then(|id| self.topics.get(id))
    }

    /// Partitions of all topics, those of other shards too.
    pub(super) fn partition_count(&self) -> usize {
        self.topics.values().map(|topic| topic.partition_count as usize).sum()
    }

    /// The shard of a partition; shard 0 for one that the log does not have.
    pub(super) fn shard_of(&self, id: TopicPartition) -> ShardId {
        let topic = self.topics.get(&id.topic_id);
        topic.map_or(ShardId::default(), |topic| topic.shards.shard_of(id.partition))
    }

    /// Whether anything of a group is in this shard.
    pub(super) fn knows_group(&self, group: &str) -> bool {
        self.groups.contains_key(group) || self.group_states.contains_key(group)
    }

    /// Whether the log has a partition, here or in another shard.
    pub(super) fn knows(&self, id: TopicPartition) -> bool {
        self.topics.get(&id.topic_id).is_some_and(|topic| topic.has_partition(id.partition))
    }
}

#[cfg(test)]
mod tests;
