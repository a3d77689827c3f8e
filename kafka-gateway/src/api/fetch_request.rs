//! What a Fetch request asks for, in whatever version it came. Pure.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use kafka_protocol::messages::fetch_request::FetchPartition;
use kafka_protocol::messages::{FetchRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use crate::context::TopicKey;
use crate::fetch_session::{FINAL_EPOCH, Item, NO_SESSION, Naming, PartitionKey, Position, SessionRequest};

const SESSIONS_SINCE: i16 = 7;
const TOPIC_IDS_SINCE: i16 = 13;
/// Every epoch below 0 says in Fetch that none is known.
const NO_EPOCH: i32 = -1;

/// How requests of a version name topics.
pub(super) fn naming(version: i16) -> Naming {
    if version >= TOPIC_IDS_SINCE { Naming::Ids } else { Naming::Names }
}

/// Takes the partitions out of a request.
pub(super) fn take_session_request(request: FetchRequest, version: i16) -> SessionRequest {
    let naming = naming(version);
    let has_sessions = version >= SESSIONS_SINCE;
    let items = request.topics.into_iter().flat_map(|topic| {
        let key = topic_key(naming, topic.topic, topic.topic_id);
        topic.partitions.into_iter().map(move |partition| item(key.clone(), &partition))
    });
    let forgotten = request.forgotten_topics_data.into_iter().flat_map(|topic| {
        let key = topic_key(naming, topic.topic, topic.topic_id);
        let partition = move |partition| PartitionKey { topic: key.clone(), partition };
        topic.partitions.into_iter().map(partition)
    });
    SessionRequest {
        id: if has_sessions { request.session_id } else { NO_SESSION },
        epoch: if has_sessions { request.session_epoch } else { FINAL_EPOCH },
        naming,
        items: once_each(items),
        forgotten: forgotten.collect(),
    }
}

/// Each partition once, where it is named first, with what is said of it last (Kafka's `FetchRequest.fetchData`).
fn once_each(items: impl Iterator<Item = Item>) -> Vec<Item> {
    let mut places = BTreeMap::new();
    let mut once: Vec<Item> = Vec::new();
    for item in items {
        match places.entry(item.key.clone()) {
            Entry::Vacant(place) => {
                place.insert(once.len());
                once.push(item);
            }
            Entry::Occupied(place) => once[*place.get()] = item,
        }
    }
    once
}

fn topic_key(naming: Naming, name: TopicName, id: Uuid) -> TopicKey {
    match naming {
        // A session keeps the name for longer than the bytes of its request.
        Naming::Names => TopicKey::Name(TopicName(StrBytes::from_string(name.to_string()))),
        Naming::Ids => TopicKey::Id(id),
    }
}

fn item(topic: TopicKey, requested: &FetchPartition) -> Item {
    let position = Position {
        fetch_offset: requested.fetch_offset,
        bytes_max: requested.partition_max_bytes,
        current_leader_epoch: requested.current_leader_epoch.max(NO_EPOCH),
        last_fetched_epoch: requested.last_fetched_epoch.max(NO_EPOCH),
    };
    Item { key: PartitionKey { topic, partition: requested.partition }, position, topic_id: None }
}
