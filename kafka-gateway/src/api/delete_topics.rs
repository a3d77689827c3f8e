//! DeleteTopics (key 20).
//!
//! # Behavior
//! - Each topic succeeds or fails alone. The deletion is durable when it is answered; its committed
//!   offsets and producer state go with it, and fetches that wait for it are woken.
//!
//! # Version notes
//! - 6 names topics by name or by id, one of the two; an unknown id is UNKNOWN_TOPIC_ID.
//! - 5 and later answer with a message.

use futures::StreamExt;
use futures::stream;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use strandline_storage::ids::TopicId;
use strandline_storage::log::{Snapshot, Topic};

use crate::authorize::{Operation, Resource};
use crate::context::Context;
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
    let context = &context;
    let timeout_ms = request.timeout_ms;
    let results = topics.into_iter().map(async |topic| delete_one(context, topic, timeout_ms).await);
    let responses = stream::iter(results).buffered(DELETED_AT_ONCE).collect().await;
    DeleteTopicsResponse::default().with_responses(responses)
}

async fn delete_one(context: &Context, named: DeleteTopicState, timeout_ms: i32) -> DeletableTopicResult {
    let snapshot = context.log().snapshot();
    let mut result =
        DeletableTopicResult::default().with_name(named.name.clone()).with_topic_id(named.topic_id);
    let deleted = match find(&snapshot, &named) {
        Ok(topic) => {
            result.name = Some(TopicName(StrBytes::from_string(topic.name.clone())));
            result.topic_id = topic.id.as_uuid();
            delete(context, topic, timeout_ms).await
        }
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
    context.authorize(Operation::Delete, Resource::Topic(&topic.name))?;
    match context.within(timeout_ms, context.log().delete_topic(topic.id)).await {
        Some(result) => result.map_err(|error| ErrorCode::from(&error)),
        None => Err(ErrorCode::RequestTimedOut),
    }
}
