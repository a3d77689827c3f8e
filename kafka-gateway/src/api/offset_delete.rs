//! OffsetDelete (key 47): forgets committed offsets of a group.
//!
//! # Behavior
//! - A topic that members of the group subscribe to is GROUP_SUBSCRIBED_TO_TOPIC, a partition that does
//!   not exist UNKNOWN_TOPIC_OR_PARTITION. A partition without a committed offset is no error.
//! - A group that has members and is not one of consumers is NON_EMPTY_GROUP, one that does not exist
//!   GROUP_ID_NOT_FOUND; both are the error of the whole answer.

use std::collections::BTreeSet;

use kafka_protocol::messages::offset_delete_request::OffsetDeleteRequestTopic;
use kafka_protocol::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use kafka_protocol::messages::{OffsetDeleteRequest, OffsetDeleteResponse};
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::Snapshot;

use crate::authorize::{Operation, Resource};
use crate::context::{Context, find_partition};
use crate::error_code::{ErrorCode, NONE};

pub(super) async fn answer(context: Context, request: OffsetDeleteRequest) -> OffsetDeleteResponse {
    match delete(&context, &request).await {
        Ok(topics) => OffsetDeleteResponse::default().with_topics(topics),
        Err(error) => OffsetDeleteResponse::default().with_error_code(context.code(error)),
    }
}

async fn delete(
    context: &Context,
    request: &OffsetDeleteRequest,
) -> Result<Vec<OffsetDeleteResponseTopic>, ErrorCode> {
    context.authorize(Operation::Delete, Resource::Group(&request.group_id))?;
    let snapshot = context.log().snapshot();
    // Only topics that are there, each once: looking for one goes through all members.
    let names = request.topics.iter().map(|topic| topic.name.as_str());
    let names: BTreeSet<&str> = names.filter(|name| snapshot.topic(name).is_some()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let uses = context.gateway.groups.uses(&request.group_id, &names)?;
    let used = names.into_iter().zip(uses).filter(|(_, is_used)| *is_used).map(|(name, _)| name);
    let used: BTreeSet<&str> = used.collect();
    let mut deleted = Vec::new();
    let topics = request.topics.iter().map(|topic| {
        let is_used = used.contains(topic.name.as_str());
        let check = if is_used { Err(ErrorCode::GroupSubscribedToTopic) } else { Ok(()) };
        delete_topic(context, &snapshot, topic, check, &mut deleted)
    });
    let topics = topics.collect();
    let stored = context.log().delete_group_offsets(&request.group_id, Some(deleted)).await;
    stored.map_err(|_| ErrorCode::CoordinatorNotAvailable)?;
    Ok(topics)
}

fn delete_topic(
    context: &Context,
    snapshot: &Snapshot,
    topic: &OffsetDeleteRequestTopic,
    check: Result<(), ErrorCode>,
    deleted: &mut Vec<TopicPartition>,
) -> OffsetDeleteResponseTopic {
    let allowed = context.authorize(Operation::Read, Resource::Topic(&topic.name));
    let partitions = topic.partitions.iter().map(|partition| {
        let index = partition.partition_index;
        let found = allowed.and_then(|()| find_partition(snapshot, &topic.name, index));
        let found = found.and_then(|partition| check.map(|()| deleted.push(partition)));
        let code = found.map_or_else(|error| context.code(error), |()| NONE);
        OffsetDeleteResponsePartition::default().with_partition_index(index).with_error_code(code)
    });
    let partitions = partitions.collect();
    OffsetDeleteResponseTopic::default().with_name(topic.name.clone()).with_partitions(partitions)
}
