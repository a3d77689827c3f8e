//! Brings the topics of a shard in line with those of shard 0.
//!
//! Shard 0 decides which topics there are; the other shards have copies, because they need them to
//! check, retain and clean their partitions. A change of a topic is durable in shard 0 first and in
//! the others then. An open, and whoever finds that a copy could not be changed, brings all copies in
//! line.
//!
//! Invariant: what a copy is compared with is the durable state of shard 0 at the moment when the
//! committer of the copy's shard looks, so an older comparison never undoes a newer one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::change::Change;
use super::config_change::replace_all;
use super::error::WriteError;
use super::pinned::PinnedState;
use super::shared::Shared;
use super::state::{ShardState, Topic};
use crate::format::Event;
use crate::format::event::{PartitionsAdded, TopicConfigSet, TopicCreated, TopicDeleted};
use crate::ids::TopicId;

/// Brings the copies of some topics in line, or those of all.
pub(super) fn align(topics: Option<Vec<TopicId>>, first: Arc<Shared>) -> Change<(), WriteError> {
    Change::after_batches(move |state, _| {
        let decided = first.durable();
        let ids = topics.unwrap_or_else(|| {
            // A name may have gone to another topic: the old one goes first.
            let gone = state.topics.keys().filter(|id| !decided.topics.contains_key(*id));
            gone.chain(decided.topics.keys()).copied().collect()
        });
        let mut events: Vec<_> = ids.iter().flat_map(|id| topic_events(*id, &decided, state)).collect();
        let mut deleted = BTreeSet::new();
        events.retain(|event| match event {
            Event::TopicDeleted(event) => deleted.insert(event.topic_id),
            _ => true,
        });
        Ok((events, ()))
    })
}

/// Gives shard 0 back the topics, and the numbers of their partitions, that only copies know. For an open
/// that passes over a lost object of shard 0: what it said of topics must not be taken for deletions.
/// A topic whose deletion was lost comes back, which is the smaller harm.
pub(super) fn adopt(copies: Vec<Arc<PinnedState>>) -> Change<(), WriteError> {
    Change::after_batches(move |state, _| {
        let mut widest = BTreeMap::<TopicId, &Topic>::new();
        for copy in copies.iter().flat_map(|copy| copy.topics.values()) {
            let known = widest.entry(copy.id).or_insert(copy);
            if copy.partition_count > known.partition_count {
                *known = copy;
            }
        }
        let mut names = BTreeSet::new();
        let events = widest.into_values().filter_map(|copy| match state.topics.get(&copy.id) {
            Some(topic) => partitions_added(copy, topic),
            // A name that was given to another topic says that the copy is the old one.
            None if state.topic_ids.contains_key(&copy.name) || !names.insert(copy.name.as_str()) => None,
            None => {
                tracing::warn!(
                    topic = copy.name,
                    "a lost object said of a topic what only copies know: it stays"
                );
                Some(creation(copy))
            }
        });
        Ok((events.collect(), ()))
    })
}

/// What makes the copy of one topic what shard 0 says.
fn topic_events(id: TopicId, decided: &ShardState, copied: &ShardState) -> Vec<Event> {
    match (decided.topics.get(&id), copied.topics.get(&id)) {
        (Some(topic), Some(copy)) => difference(topic, copy),
        (Some(topic), None) => {
            // Shard 0 has given the name to another topic since.
            let replaced = copied.topic_ids.get(&topic.name);
            let deleted = replaced.filter(|replaced| !decided.topics.contains_key(*replaced));
            deleted.map(|id| deletion(*id)).into_iter().chain([creation(topic)]).collect()
        }
        (None, Some(_)) => vec![deletion(id)],
        (None, None) => Vec::new(),
    }
}

fn creation(topic: &Topic) -> Event {
    Event::TopicCreated(TopicCreated {
        topic_id: topic.id,
        name: topic.name.clone(),
        partition_count: topic.partition_count,
        configs: topic.config.explicit().clone(),
        shards: topic.shards.of_all(topic.partition_count),
        created_at_ms: topic.created_at_ms,
    })
}

fn deletion(topic_id: TopicId) -> Event {
    Event::TopicDeleted(TopicDeleted { topic_id })
}

fn difference(topic: &Topic, copy: &Topic) -> Vec<Event> {
    let mut events: Vec<_> = partitions_added(topic, copy).into_iter().collect();
    if topic.config.explicit() != copy.config.explicit() {
        let configs = replace_all(topic.config.explicit(), &copy.config).into_iter().collect();
        events.push(Event::TopicConfigSet(TopicConfigSet { topic_id: topic.id, configs }));
    }
    events
}

/// What gives the narrower of two states of a topic all partitions of the wider one.
fn partitions_added(wide: &Topic, narrow: &Topic) -> Option<Event> {
    if wide.partition_count <= narrow.partition_count {
        return None;
    }
    let mut shards = wide.shards.of_all(wide.partition_count);
    shards.drain(..shards.len().min(narrow.partition_count.max(0) as usize));
    let (topic_id, partition_count) = (wide.id, wide.partition_count);
    Some(Event::PartitionsAdded(PartitionsAdded { topic_id, partition_count, shards }))
}
