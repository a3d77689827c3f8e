//! CreatePartitions (key 37): gives topics more partitions.
//!
//! # Behavior
//! - `count` is how many partitions a topic then has. One that is not more than it has is
//!   INVALID_PARTITIONS; a topic that is named twice is INVALID_REQUEST, and is echoed once.
//! - Each topic succeeds or fails alone, and every one is echoed. The partitions are durable when
//!   the topic is answered; consumers see them with their next Metadata.
//! - A manual assignment must give each new partition to this broker alone.
//! - `validate_only` runs the same checks and adds nothing.
//!
//! # Version notes
//! - 2 is flexible; 0 to 3 are otherwise alike.

use std::collections::BTreeSet;

use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::{CreatePartitionsRequest, CreatePartitionsResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use strandline_storage::log::{AddPartitionsError, Topic};

use super::config_resource::find_topic;
use crate::authorize::{Operation, Resource};
use crate::context::{Context, Refusal};
use crate::error_code::ErrorCode;

pub(super) async fn answer(context: Context, request: CreatePartitionsRequest) -> CreatePartitionsResponse {
    let duplicates = duplicate_names(&request.topics);
    let mut refused = BTreeSet::new();
    let mut results = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let created = if duplicates.contains(&topic.name) {
            if !refused.insert(topic.name.clone()) {
                continue;
            }
            Err((ErrorCode::InvalidRequest, "topic is named more than once".to_owned()))
        } else if request.validate_only {
            check(&context, &topic)
        } else {
            create(&context, &topic, request.timeout_ms).await
        };
        let result = CreatePartitionsTopicResult::default().with_name(topic.name).with_error_message(None);
        results.push(match created {
            Ok(()) => result,
            Err((error, reason)) => result
                .with_error_code(context.code(error))
                .with_error_message(Some(StrBytes::from_string(reason))),
        });
    }
    CreatePartitionsResponse::default().with_results(results)
}

fn duplicate_names(topics: &[CreatePartitionsTopic]) -> BTreeSet<TopicName> {
    let mut seen = BTreeSet::new();
    topics.iter().filter(|topic| !seen.insert(&topic.name)).map(|topic| topic.name.clone()).collect()
}

fn check(context: &Context, requested: &CreatePartitionsTopic) -> Result<(), Refusal> {
    context.check_authorized(Operation::Alter, Resource::Topic(&requested.name))?;
    let snapshot = context.log().snapshot();
    let topic = find_topic(snapshot.topic(&requested.name).map(AsRef::as_ref), &requested.name)?;
    context.log().check_add_partitions(topic.id, requested.count).map_err(|error| refusal(&error))?;
    check_assignments(context.settings().node_id, topic, requested)
}

/// Comes after the check of the count.
fn check_assignments(node_id: i32, topic: &Topic, requested: &CreatePartitionsTopic) -> Result<(), Refusal> {
    let Some(assignments) = &requested.assignments else { return Ok(()) };
    let added = requested.count - topic.partition_count;
    if i32::try_from(assignments.len()) != Ok(added) {
        let reason = format!("{added} partitions are added, {} are assigned", assignments.len());
        return Err((ErrorCode::InvalidReplicaAssignment, reason));
    }
    if assignments.iter().any(|one| one.broker_ids.len() != 1 || one.broker_ids[0] != node_id) {
        let reason = format!("each partition must be on broker {node_id} alone");
        return Err((ErrorCode::InvalidReplicaAssignment, reason));
    }
    Ok(())
}

async fn create(
    context: &Context,
    requested: &CreatePartitionsTopic,
    timeout_ms: i32,
) -> Result<(), Refusal> {
    check(context, requested)?;
    let topic = context.log().snapshot().topic(&requested.name).cloned();
    let topic = find_topic(topic.as_deref(), &requested.name)?;
    match context.within(timeout_ms, context.log().add_partitions(topic.id, requested.count)).await {
        Some(result) => result.map_err(|error| refusal(&error)),
        None => Err((ErrorCode::RequestTimedOut, "not added yet, and may be later".to_owned())),
    }
}

fn refusal(error: &AddPartitionsError) -> Refusal {
    (ErrorCode::from(error), error.to_string())
}
