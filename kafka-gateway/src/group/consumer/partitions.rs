//! A set of partitions of many topics. Pure.

use std::collections::{BTreeMap, BTreeSet};

use strandline_storage::format::event::MemberPartitions;
use strandline_storage::ids::TopicId;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Partitions {
    /// No topic has an empty set.
    topics: BTreeMap<TopicId, BTreeSet<i32>>,
    count: usize,
}

impl Partitions {
    pub(crate) fn insert(&mut self, topic: TopicId, partition: i32) {
        let is_new = self.topics.entry(topic).or_default().insert(partition);
        self.count += usize::from(is_new);
    }

    pub(crate) fn remove(&mut self, topic: TopicId, partition: i32) {
        let Some(partitions) = self.topics.get_mut(&topic) else { return };
        self.count -= usize::from(partitions.remove(&partition));
        if partitions.is_empty() {
            self.topics.remove(&topic);
        }
    }

    pub(crate) fn contains(&self, topic: TopicId, partition: i32) -> bool {
        self.topics.get(&topic).is_some_and(|partitions| partitions.contains(&partition))
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (TopicId, i32)> {
        self.topics.iter().flat_map(|(topic, partitions)| partitions.iter().map(|one| (*topic, *one)))
    }

    #[cfg(test)]
    pub(crate) fn of(&self, topic: TopicId) -> impl Iterator<Item = i32> {
        self.topics.get(&topic).into_iter().flatten().copied()
    }

    pub(crate) fn by_topic(&self) -> impl Iterator<Item = (TopicId, &BTreeSet<i32>)> {
        self.topics.iter().map(|(topic, partitions)| (*topic, partitions))
    }

    /// Those that are in both, and those that are here alone.
    pub(crate) fn split_by(&self, other: &Self) -> (Self, Self) {
        let (mut both, mut here) = (Self::default(), Self::default());
        for (topic, partition) in self.iter() {
            let side = if other.contains(topic, partition) { &mut both } else { &mut here };
            side.insert(topic, partition);
        }
        (both, here)
    }

    pub(crate) fn is_subset_of(&self, other: &Self) -> bool {
        self.iter().all(|(topic, partition)| other.contains(topic, partition))
    }

    pub(crate) fn is_disjoint_from(&self, other: &Self) -> bool {
        !self.iter().any(|(topic, partition)| other.contains(topic, partition))
    }

    pub(crate) fn durable(&self) -> Vec<MemberPartitions> {
        let topics = self.topics.iter();
        topics
            .map(|(topic_id, partitions)| MemberPartitions {
                topic_id: *topic_id,
                partitions: partitions.iter().copied().collect(),
            })
            .collect()
    }

    pub(crate) fn restore(durable: &[MemberPartitions]) -> Self {
        let places = durable.iter().flat_map(|one| one.partitions.iter().map(|it| (one.topic_id, *it)));
        places.collect()
    }
}

impl FromIterator<(TopicId, i32)> for Partitions {
    fn from_iter<I: IntoIterator<Item = (TopicId, i32)>>(places: I) -> Self {
        let mut partitions = Self::default();
        places.into_iter().for_each(|(topic, partition)| partitions.insert(topic, partition));
        partitions
    }
}
