//! Heartbeat (key 12): a sign of life of a group member.
//!
//! # Behavior
//! - REBALANCE_IN_PROGRESS while members are joining: the member is to join again. The sign of life
//!   counts all the same.
//! - A static member whose place was taken over is FENCED_INSTANCE_ID.
//!
//! # Version notes
//! - 3: instance ids.

use kafka_protocol::messages::{HeartbeatRequest, HeartbeatResponse};

use super::group_requests::caller;
use crate::authorize::{Operation, Resource};
use crate::context::Context;
use crate::error_code::{ErrorCode, NONE};
use crate::group::Reply;
use crate::group::classic::Input;
use crate::group::coordinator::Request;

pub(super) async fn answer(context: Context, request: HeartbeatRequest) -> HeartbeatResponse {
    let code = beat(&context, &request).await.map_or_else(|error| context.code(error), |()| NONE);
    HeartbeatResponse::default().with_error_code(code)
}

async fn beat(context: &Context, request: &HeartbeatRequest) -> Result<(), ErrorCode> {
    context.authorize(Operation::Read, Resource::Group(&request.group_id))?;
    let caller = caller(&request.member_id, request.group_instance_id.as_ref());
    let input = Input::Heartbeat { caller, generation: request.generation_id };
    match context.step_group(&request.group_id, Request::Classic(input)).await {
        Reply::Failed(error) => Err(ErrorCode::from(error)),
        _ => Ok(()),
    }
}
