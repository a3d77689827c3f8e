//! What is known of a topic, and which shard holds each of its partitions. Pure.

use std::ops::Range;

use crate::ids::{ShardId, TopicId, TopicPartition};
use crate::log::topic_config::TopicConfig;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    pub id: TopicId,
    pub name: String,
    /// Partitions are numbered from 0.
    pub partition_count: i32,
    pub config: TopicConfig,
    pub created_at_ms: i64,
    /// Where the partitions are.
    pub shards: Placement,
}

impl Topic {
    pub fn partitions(&self) -> impl Iterator<Item = TopicPartition> + use<> {
        let id = self.id;
        (0..self.partition_count).map(move |partition| TopicPartition::new(id, partition))
    }

    pub fn has_partition(&self, partition: i32) -> bool {
        (0..self.partition_count).contains(&partition)
    }
}

/// The shard of each partition of a topic.
///
/// Invariant: a partition stays in the shard that it was created in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// By partition; beyond its end partitions are in shard 0.
    shards: Vec<ShardId>,
}

impl Placement {
    pub fn shard_of(&self, partition: i32) -> ShardId {
        usize::try_from(partition).ok().and_then(|index| self.shards.get(index)).copied().unwrap_or_default()
    }

    /// The last of the shards that partitions are in; `None` if all are in shard 0.
    pub(in crate::log) fn last(&self) -> Option<ShardId> {
        self.shards.iter().copied().max()
    }

    /// Places new partitions, as the event that adds them says: an empty list puts them in shard 0.
    ///
    /// # Errors
    /// A list that does not name one shard for each new partition.
    pub(in crate::log) fn extend(&mut self, new: Range<i32>, shards: &[ShardId]) -> Result<(), String> {
        if shards.is_empty() {
            return Ok(());
        }
        if shards.len() != new.len() {
            return Err(format!("{} shards are named for {} new partitions", shards.len(), new.len()));
        }
        // Those before it that are not listed are in shard 0.
        self.shards.resize(new.start.max(0) as usize, ShardId::default());
        self.shards.extend_from_slice(shards);
        Ok(())
    }

    /// The shard of each of so many partitions, as an event or a page says it.
    pub(in crate::log) fn of_all(&self, partitions: i32) -> Vec<ShardId> {
        if self.shards.is_empty() {
            return Vec::new();
        }
        (0..partitions).map(|partition| self.shard_of(partition)).collect()
    }
}
