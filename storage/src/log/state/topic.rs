//! What is known of a topic. Pure.

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
    /// The shard that holds the topic's partitions.
    pub shard: ShardId,
}

impl Topic {
    pub fn partitions(&self) -> impl Iterator<Item = TopicPartition> + use<> {
        let id = self.id;
        (0..self.partition_count).map(move |partition| TopicPartition::new(id, partition))
    }
}
