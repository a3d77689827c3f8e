//! ConsumerGroupHeartbeat (key 68): the one request of members of the consumer protocol (KIP-848).
//!
//! # Behavior
//! - Epoch 0 joins, -1 leaves, -2 leaves as a static member that comes back. The answer has the
//!   assignment when it changed, or when the member said all of itself.
//! - A topic that is named and that the client may not describe is TOPIC_AUTHORIZATION_FAILED. A regular
//!   expression does not find it.
//! - A group with members of the classic protocol is GROUP_ID_NOT_FOUND.
//!
//! # Version notes
//! - 0: the coordinator makes up the id of a new member. 1: the client does; subscription by a regular
//!   expression.

use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions as OwnedPartitions;
use kafka_protocol::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use strandline_storage::ids::TopicId;

use super::group_requests::{caller, milliseconds, text};
use crate::authorize::{Operation, Resource};
use crate::context::Context;
use crate::error_code::ErrorCode;
use crate::group::Reply;
use crate::group::consumer::{Beat, Beaten, JOINING, Partitions};
use crate::group::coordinator::Request;

const MEMBER_ID_SINCE: i16 = 1;

pub(super) async fn answer(
    context: Context,
    request: ConsumerGroupHeartbeatRequest,
) -> ConsumerGroupHeartbeatResponse {
    if let Err(error) = check(&context, &request) {
        return ConsumerGroupHeartbeatResponse::default().with_error_code(context.code(error));
    }
    let beat = beat(&context, &request);
    match context.step_group(&request.group_id, Request::Consumer(beat)).await {
        Reply::Beaten(beaten) => accepted(beaten),
        Reply::Failed(error) => {
            let message = text(error.to_string());
            ConsumerGroupHeartbeatResponse::default()
                .with_error_code(context.code(ErrorCode::from(error)))
                .with_error_message(Some(message))
        }
        _ => {
            let code = context.code(ErrorCode::UnknownMemberId);
            ConsumerGroupHeartbeatResponse::default().with_error_code(code)
        }
    }
}

fn check(context: &Context, request: &ConsumerGroupHeartbeatRequest) -> Result<(), ErrorCode> {
    context.authorize(Operation::Read, Resource::Group(&request.group_id))?;
    for topic in request.subscribed_topic_names.iter().flatten() {
        context.authorize(Operation::Describe, Resource::Topic(topic))?;
    }
    Ok(())
}

fn beat(context: &Context, request: &ConsumerGroupHeartbeatRequest) -> Beat {
    let mut caller = caller(&request.member_id, request.instance_id.as_ref());
    if context.version < MEMBER_ID_SINCE && request.member_epoch == JOINING && caller.member_id.is_empty() {
        caller.member_id = context.gateway.groups.new_member_id(context.client_id.as_deref());
    }
    let names = request.subscribed_topic_names.as_ref();
    Beat {
        caller,
        epoch: request.member_epoch,
        rack_id: request.rack_id.as_ref().map(ToString::to_string),
        client_id: context.client_id.clone().unwrap_or_default(),
        client_host: context.client_host(),
        rebalance_timeout: (request.rebalance_timeout_ms >= 0)
            .then(|| milliseconds(request.rebalance_timeout_ms)),
        subscribed_topics: names.map(|names| names.iter().map(|name| name.to_string()).collect()),
        subscribed_regex: request.subscribed_topic_regex.as_ref().map(ToString::to_string),
        assignor: request.server_assignor.as_ref().map(ToString::to_string),
        owned: request.topic_partitions.as_deref().map(owned),
        rights: context.rights.clone(),
    }
}

fn owned(topics: &[OwnedPartitions]) -> Partitions {
    let places = topics.iter().flat_map(|topic| {
        let id = TopicId::from_bytes(topic.topic_id.into_bytes());
        topic.partitions.iter().map(move |partition| (id, *partition))
    });
    places.collect()
}

fn accepted(beaten: Beaten) -> ConsumerGroupHeartbeatResponse {
    let interval_ms = i32::try_from(beaten.heartbeat_interval.as_millis()).unwrap_or(i32::MAX);
    ConsumerGroupHeartbeatResponse::default()
        .with_member_id(Some(text(beaten.member_id)))
        .with_member_epoch(beaten.epoch)
        .with_heartbeat_interval_ms(interval_ms)
        .with_assignment(beaten.assignment.as_ref().map(assignment))
}

fn assignment(partitions: &Partitions) -> Assignment {
    let topics = partitions.by_topic().map(|(topic, partitions)| {
        TopicPartitions::default()
            .with_topic_id(topic.as_uuid())
            .with_partitions(partitions.iter().copied().collect())
    });
    Assignment::default().with_topic_partitions(topics.collect())
}
