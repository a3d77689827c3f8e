//! ConsumerGroupDescribe (key 69): groups of the consumer protocol, with what each member has and what
//! it is to have.
//!
//! # Behavior
//! - A group that does not exist, and one of the classic protocol, is GROUP_ID_NOT_FOUND.
//! - Topics that were deleted meanwhile are left out. A group in which a member has, or is to have, a topic
//!   that the client may not describe is TOPIC_AUTHORIZATION_FAILED.
//!
//! # Version notes
//! - 1: the type of a member, which is always 1: it speaks the consumer protocol.

use kafka_protocol::messages::consumer_group_describe_response::{
    Assignment, DescribedGroup, Member, TopicPartitions,
};
use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, GroupId, TopicName,
};
use strandline_storage::log::Snapshot;

use super::group_requests::{AskedOperations, authorized_operations, text};
use super::once_each;
use crate::authorize::{Operation, Resource};
use crate::context::Context;
use crate::error_code::ErrorCode;
use crate::group::consumer::{ConsumerDescription, DescribedConsumer, Partitions};
use crate::group::coordinator::Description;

const MEMBER_TYPE_SINCE: i16 = 1;
const CONSUMER_MEMBER: i8 = 1;

pub(super) async fn answer(
    context: Context,
    request: ConsumerGroupDescribeRequest,
) -> ConsumerGroupDescribeResponse {
    let asked = AskedOperations::from(request.include_authorized_operations);
    let snapshot = context.log().snapshot();
    let groups = once_each(request.group_ids).map(|id| describe(&context, &snapshot, id, asked));
    ConsumerGroupDescribeResponse::default().with_groups(groups.collect())
}

fn describe(context: &Context, snapshot: &Snapshot, id: GroupId, asked: AskedOperations) -> DescribedGroup {
    let allowed = context.authorize(Operation::Describe, Resource::Group(&id));
    let found = allowed.map(|()| context.gateway.groups.describe(&id));
    let response = DescribedGroup::default().with_group_id(id.clone());
    match found {
        Err(error) => response.with_error_code(context.code(error)),
        Ok(Some(Description::Consumer(group))) if shows_hidden_topic(context, snapshot, &group) => response
            .with_error_code(context.code(ErrorCode::TopicAuthorizationFailed))
            .with_error_message(Some(text("the group has topics that the client may not describe"))),
        Ok(Some(Description::Consumer(group))) => with_group(context, snapshot, response, group)
            .with_authorized_operations(authorized_operations(context, &id, asked)),
        Ok(found) => {
            let reason = if found.is_some() { "is not a consumer group" } else { "not found" };
            response
                .with_error_code(context.code(ErrorCode::GroupIdNotFound))
                .with_error_message(Some(text(format!("group {} {reason}", &*id))))
        }
    }
}

fn shows_hidden_topic(context: &Context, snapshot: &Snapshot, group: &ConsumerDescription) -> bool {
    let partitions = group.members.iter().flat_map(|member| [&member.assigned, &member.target]);
    let mut topics = partitions.flat_map(|partitions| partitions.by_topic().map(|(id, _)| id));
    topics.any(|id| {
        let topic = snapshot.topic_by_id(id);
        topic.is_some_and(|topic| !context.may(Operation::Describe, Resource::Topic(&topic.name)))
    })
}

fn with_group(
    context: &Context,
    snapshot: &Snapshot,
    response: DescribedGroup,
    group: ConsumerDescription,
) -> DescribedGroup {
    let members = group.members.into_iter().map(|member| described(context, snapshot, member));
    response
        .with_group_state(text(group.state))
        .with_group_epoch(group.epoch)
        .with_assignment_epoch(group.assignment_epoch)
        .with_assignor_name(text(group.assignor))
        .with_members(members.collect())
}

fn described(context: &Context, snapshot: &Snapshot, member: DescribedConsumer) -> Member {
    let topics = member.subscribed_topics.into_iter().map(|name| TopicName(text(name)));
    let response = Member::default()
        .with_member_id(text(member.member_id))
        .with_instance_id(member.instance_id.map(text))
        .with_rack_id(member.rack_id.map(text))
        .with_member_epoch(member.epoch)
        .with_client_id(text(member.client_id))
        .with_client_host(text(member.client_host))
        .with_subscribed_topic_names(topics.collect())
        .with_subscribed_topic_regex(Some(text(member.subscribed_regex.unwrap_or_default())))
        .with_assignment(assignment(snapshot, &member.assigned))
        .with_target_assignment(assignment(snapshot, &member.target));
    if context.version < MEMBER_TYPE_SINCE { response } else { response.with_member_type(CONSUMER_MEMBER) }
}

fn assignment(snapshot: &Snapshot, partitions: &Partitions) -> Assignment {
    let topics = partitions.by_topic().filter_map(|(id, partitions)| {
        let topic = snapshot.topic_by_id(id)?;
        let response = TopicPartitions::default()
            .with_topic_id(id.as_uuid())
            .with_topic_name(TopicName(text(topic.name.clone())))
            .with_partitions(partitions.iter().copied().collect());
        Some(response)
    });
    Assignment::default().with_topic_partitions(topics.collect())
}
