//! The topics that groups of the consumer protocol can subscribe to, as they are at one moment. Pure.

use std::collections::BTreeMap;

use strandline_storage::ids::TopicId;
use strandline_storage::log::Snapshot;

/// All topics, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Topics {
    /// Another one for every change.
    pub(crate) version: u64,
    by_name: BTreeMap<String, NamedTopic>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedTopic {
    pub(crate) id: TopicId,
    pub(crate) partition_count: i32,
}

impl Topics {
    pub(crate) fn of(snapshot: &Snapshot, version: u64) -> Self {
        let topics = snapshot.topics().map(|topic| {
            let named = NamedTopic { id: topic.id, partition_count: topic.partition_count };
            (topic.name.clone(), named)
        });
        Self { version, by_name: topics.collect() }
    }

    #[cfg(test)]
    pub(crate) fn new(version: u64, topics: &[(&str, u8, i32)]) -> Self {
        let topics = topics.iter().map(|(name, id, partition_count)| {
            let id = TopicId::from_bytes([*id; 16]);
            ((*name).to_owned(), NamedTopic { id, partition_count: *partition_count })
        });
        Self { version, by_name: topics.collect() }
    }

    pub(crate) fn find(&self, name: &str) -> Option<NamedTopic> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, NamedTopic)> {
        self.by_name.iter().map(|(name, topic)| (name.as_str(), *topic))
    }
}
