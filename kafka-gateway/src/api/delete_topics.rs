//! DeleteTopics (key 20).
//!
//! # Behavior
//! - Each topic succeeds or fails alone. The deletion is durable when it is answered; its committed
//!   offsets and producer state go with it, and fetches that wait for it are woken.
//! - A topic that is named twice, be it once by name and once by id, is INVALID_REQUEST: it stays, and is
//!   answered once.
//! - It takes Delete on the cluster or on the topic. Without, the answer names the topic as the request does,
//!   and gives the name of one that was named by its id only to those who may describe it. Whether a name and an
//!   id are of one topic is not told either.
//!
//! # Version notes
//! - 6 names topics by name or by id, one of the two; an unknown id is UNKNOWN_TOPIC_ID.
//! - 5 and later answer with a message.

use std::collections::BTreeMap;

use futures::StreamExt;
use futures::stream;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use strandline_storage::ids::TopicId;
use strandline_storage::log::{Snapshot, Topic};

use crate::authorize::{Operation, Resource};
use crate::context::{Context, TopicKey};
use crate::error_code::{ErrorCode, NONE};

const BY_ID_SINCE: i16 = 6;
/// Topics of one request that are deleted at the same time: they share commits.
const DELETED_AT_ONCE: usize = 16;

pub(super) async fn answer(context: Context, request: DeleteTopicsRequest) -> DeleteTopicsResponse {
    let topics = if context.version >= BY_ID_SINCE {
        request.topics
    } else {
        request
            .topic_names
            .into_iter()
            .map(|name| DeleteTopicState::default().with_name(Some(name)))
            .collect()
    };
    let (context, snapshot) = (&context, &context.log().snapshot());
    let timeout_ms = request.timeout_ms;
    let results =
        once_each(context, snapshot, topics).into_iter().map(async |(topic, mention)| match mention {
            Mention::Only => delete_one(context, snapshot, topic, timeout_ms).await,
            Mention::OneOfMany => named(&topic).with_error_code(context.code(ErrorCode::InvalidRequest)),
        });
    let responses = stream::iter(results).buffered(DELETED_AT_ONCE).collect().await;
    DeleteTopicsResponse::default().with_responses(responses)
}

/// Whether a request names a topic elsewhere, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mention {
    Only,
    OneOfMany,
}

/// The first mention of each topic. One that names no topic is always the only one.
fn once_each(
    context: &Context,
    snapshot: &Snapshot,
    topics: Vec<DeleteTopicState>,
) -> Vec<(DeleteTopicState, Mention)> {
    let mut places = BTreeMap::new();
    let mut mentions: Vec<(DeleteTopicState, Mention)> = Vec::with_capacity(topics.len());
    for topic in topics {
        let place = mentions.len();
        let first = key(context, snapshot, &topic).map_or(place, |key| *places.entry(key).or_insert(place));
        match mentions.get_mut(first) {
            Some((_, mention)) => *mention = Mention::OneOfMany,
            None => mentions.push((topic, Mention::Only)),
        }
    }
    mentions
}

/// The same for all mentions of one topic, whether it exists or not.
fn key(context: &Context, snapshot: &Snapshot, topic: &DeleteTopicState) -> Option<TopicKey> {
    let as_named = || topic.name.clone().map_or(TopicKey::Id(topic.topic_id), TopicKey::Name);
    match find(snapshot, topic) {
        Ok(found) if may_delete(context, &found.name) => Some(TopicKey::Id(found.id.as_uuid())),
        Err(ErrorCode::InvalidRequest) => None,
        Ok(_) | Err(_) => Some(as_named()),
    }
}

fn may_delete(context: &Context, name: &str) -> bool {
    context.may(Operation::Delete, Resource::Cluster) || context.may(Operation::Delete, Resource::Topic(name))
}

/// The topic, if the client may delete it. The answer is completed with what it may know of it.
fn find_deletable<'a>(
    context: &Context,
    snapshot: &'a Snapshot,
    topic: &DeleteTopicState,
    result: &mut DeletableTopicResult,
) -> Result<&'a Topic, ErrorCode> {
    if let Some(name) = topic.name.as_ref().filter(|_| topic.topic_id.is_nil())
        && !may_delete(context, name)
    {
        context.authorize(Operation::Describe, Resource::Topic(name))?;
    }
    let found = find(snapshot, topic)?;
    let is_deletable = may_delete(context, &found.name);
    if is_deletable || context.may(Operation::Describe, Resource::Topic(&found.name)) {
        result.name = Some(TopicName(StrBytes::from_string(found.name.clone())));
    }
    if !is_deletable {
        context.authorize(Operation::Delete, Resource::Topic(&found.name))?;
    }
    result.topic_id = found.id.as_uuid();
    Ok(found)
}

/// The answer as the request names the topic.
fn named(topic: &DeleteTopicState) -> DeletableTopicResult {
    DeletableTopicResult::default().with_name(topic.name.clone()).with_topic_id(topic.topic_id)
}

async fn delete_one(
    context: &Context,
    snapshot: &Snapshot,
    topic: DeleteTopicState,
    timeout_ms: i32,
) -> DeletableTopicResult {
    let mut result = named(&topic);
    let deleted = match find_deletable(context, snapshot, &topic, &mut result) {
        Ok(found) => delete(context, found, timeout_ms).await,
        Err(error) => Err(error),
    };
    result.error_code = deleted.map_or_else(|error| context.code(error), |()| NONE);
    result
}

fn find<'a>(snapshot: &'a Snapshot, named: &DeleteTopicState) -> Result<&'a Topic, ErrorCode> {
    match &named.name {
        Some(name) if named.topic_id.is_nil() => {
            snapshot.topic(name).map(AsRef::as_ref).ok_or(ErrorCode::UnknownTopicOrPartition)
        }
        None if !named.topic_id.is_nil() => {
            let id = TopicId::from_bytes(named.topic_id.into_bytes());
            snapshot.topic_by_id(id).map(AsRef::as_ref).ok_or(ErrorCode::UnknownTopicId)
        }
        _ => Err(ErrorCode::InvalidRequest),
    }
}

async fn delete(context: &Context, topic: &Topic, timeout_ms: i32) -> Result<(), ErrorCode> {
    match context.within(timeout_ms, context.log().delete_topic(topic.id)).await {
        Some(result) => result.map_err(|error| ErrorCode::from(&error)),
        None => Err(ErrorCode::RequestTimedOut),
    }
}
