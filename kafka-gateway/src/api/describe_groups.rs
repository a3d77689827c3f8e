//! DescribeGroups (key 15): the members of classic groups, and what they are assigned.
//!
//! # Behavior
//! - Metadata and assignments are shown while the group is stable.
//! - A group that does not exist, and one of the consumer protocol, is "Dead".
//! - A group is described once, however often it is named.
//!
//! # Version notes
//! - 3: the operations that the client may do. 4: instance ids.
//! - 6: such a group is GROUP_ID_NOT_FOUND with a message (KIP-1043).

use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::{DescribeGroupsRequest, DescribeGroupsResponse, GroupId};

use super::group_requests::{AskedOperations, authorized_operations, text};
use super::once_each;
use crate::authorize::{Operation, Resource};
use crate::context::Context;
use crate::error_code::{ErrorCode, NONE};
use crate::group::classic::{ClassicDescription, DescribedMember};
use crate::group::coordinator::Description;

const OPERATIONS_SINCE: i16 = 3;
const INSTANCE_ID_SINCE: i16 = 4;
const NOT_FOUND_SINCE: i16 = 6;
const DEAD: &str = "Dead";

pub(super) async fn answer(context: Context, request: DescribeGroupsRequest) -> DescribeGroupsResponse {
    let asked = AskedOperations::from(request.include_authorized_operations);
    let groups = once_each(request.groups).map(|group_id| describe(&context, group_id, asked));
    DescribeGroupsResponse::default().with_groups(groups.collect())
}

fn describe(context: &Context, group_id: GroupId, asked: AskedOperations) -> DescribedGroup {
    let allowed = context.authorize(Operation::Describe, Resource::Group(&group_id));
    let found = allowed.map(|()| context.gateway.groups.describe(&group_id));
    let response = DescribedGroup::default().with_group_id(group_id.clone());
    let response = match found {
        Err(error) => response.with_error_code(context.code(error)),
        Ok(Some(Description::Classic(group))) => with_group(context, response, group),
        Ok(None) => not_found(context, response, format!("group {} not found", &*group_id)),
        Ok(Some(Description::Consumer(_))) => {
            not_found(context, response, format!("group {} is not a classic group", &*group_id))
        }
    };
    if context.version < OPERATIONS_SINCE || response.error_code != NONE {
        return response;
    }
    response.with_authorized_operations(authorized_operations(context, &group_id, asked))
}

fn not_found(context: &Context, response: DescribedGroup, message: String) -> DescribedGroup {
    let response = response.with_group_state(text(DEAD));
    match context.version {
        NOT_FOUND_SINCE.. => response
            .with_error_code(context.code(ErrorCode::GroupIdNotFound))
            .with_error_message(Some(text(message))),
        _ => response,
    }
}

fn with_group(context: &Context, response: DescribedGroup, group: ClassicDescription) -> DescribedGroup {
    let members = group.members.into_iter().map(|member| with_member(context, member));
    response
        .with_group_state(text(group.state))
        .with_protocol_type(text(group.protocol_type))
        .with_protocol_data(text(group.protocol))
        .with_members(members.collect())
}

fn with_member(context: &Context, member: DescribedMember) -> DescribedGroupMember {
    let response = DescribedGroupMember::default()
        .with_member_id(text(member.member_id))
        .with_client_id(text(member.client_id))
        .with_client_host(text(member.client_host))
        .with_member_metadata(member.metadata)
        .with_member_assignment(member.assignment);
    match context.version {
        INSTANCE_ID_SINCE.. => response.with_group_instance_id(member.instance_id.map(text)),
        _ => response,
    }
}
