//! LeaveGroup (key 13): members go, and the others are rebalanced at once.
//!
//! # Behavior
//! - A member that the group does not have is UNKNOWN_MEMBER_ID. A static member leaves by its instance
//!   id without a member id, or with the member id that it has now: another one is FENCED_INSTANCE_ID.
//!
//! # Version notes
//! - 0 to 2: one member, whose error is that of the answer. 3: many members, each with its own error.
//! - 5: a reason, which is ignored.

use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::{LeaveGroupRequest, LeaveGroupResponse};

use super::group_requests::caller;
use crate::authorize::{Operation, Resource};
use crate::context::Context;
use crate::error_code::{ErrorCode, NONE};
use crate::group::Reply;
use crate::group::classic::Input;
use crate::group::coordinator::Request;

const MANY_MEMBERS_SINCE: i16 = 3;

pub(super) async fn answer(context: Context, request: LeaveGroupRequest) -> LeaveGroupResponse {
    let mut members = request.members;
    if context.version < MANY_MEMBERS_SINCE {
        members = vec![MemberIdentity::default().with_member_id(request.member_id)];
    }
    let left = match leave(&context, &request.group_id, &members).await {
        Ok(left) => left,
        Err(error) => return LeaveGroupResponse::default().with_error_code(context.code(error)),
    };
    let mut codes = left.into_iter().map(|left| left.map_or_else(|error| context.code(error), |()| NONE));
    if context.version < MANY_MEMBERS_SINCE {
        return LeaveGroupResponse::default().with_error_code(codes.next().unwrap_or(NONE));
    }
    let members = members.into_iter().zip(codes).map(|(member, code)| {
        MemberResponse::default()
            .with_member_id(member.member_id)
            .with_group_instance_id(member.group_instance_id)
            .with_error_code(code)
    });
    LeaveGroupResponse::default().with_members(members.collect())
}

async fn leave(
    context: &Context,
    group_id: &str,
    members: &[MemberIdentity],
) -> Result<Vec<Result<(), ErrorCode>>, ErrorCode> {
    context.authorize(Operation::Read, Resource::Group(group_id))?;
    let callers = members.iter().map(|member| caller(&member.member_id, member.group_instance_id.as_ref()));
    let input = Input::Leave { members: callers.collect() };
    match context.step_group(group_id, Request::Classic(input)).await {
        Reply::Left(left) => Ok(left.into_iter().map(|left| left.map_err(ErrorCode::from)).collect()),
        Reply::Failed(error) => Err(ErrorCode::from(error)),
        _ => Err(ErrorCode::UnknownMemberId),
    }
}
