//! LeaveGroup (key 13): a member goes, and the others are rebalanced at once.
//!
//! # Behavior
//! - A member that the group does not have is UNKNOWN_MEMBER_ID.
//!
//! # Version notes
//! - 3 would let several members leave at once, by instance id too.

use kafka_protocol::messages::{LeaveGroupRequest, LeaveGroupResponse};

use crate::authorize::{Operation, Resource};
use crate::context::Context;
use crate::error_code::{ErrorCode, NONE};
use crate::group::{Input, Reply};

pub(super) async fn answer(context: Context, request: LeaveGroupRequest) -> LeaveGroupResponse {
    let code = leave(&context, &request).await.map_or_else(|error| context.code(error), |()| NONE);
    LeaveGroupResponse::default().with_error_code(code)
}

async fn leave(context: &Context, request: &LeaveGroupRequest) -> Result<(), ErrorCode> {
    context.authorize(Operation::Read, Resource::Group(&request.group_id))?;
    let input = Input::Leave { member_id: request.member_id.to_string() };
    match context.step_group(&request.group_id, input).await {
        Reply::Failed(error) => Err(ErrorCode::from(error)),
        _ => Ok(()),
    }
}
