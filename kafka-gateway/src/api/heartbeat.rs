//! Heartbeat (key 12): a sign of life of a group member.
//!
//! # Behavior
//! - REBALANCE_IN_PROGRESS while members are joining: the member is to join again. The sign of life
//!   counts all the same.
//!
//! # Version notes
//! - 3 would bring static members.

use kafka_protocol::messages::{HeartbeatRequest, HeartbeatResponse};

use crate::authorize::{Operation, Resource};
use crate::context::Context;
use crate::error_code::{ErrorCode, NONE};
use crate::group::{Input, Reply};

pub(super) async fn answer(context: Context, request: HeartbeatRequest) -> HeartbeatResponse {
    let code = beat(&context, &request).await.map_or_else(|error| context.code(error), |()| NONE);
    HeartbeatResponse::default().with_error_code(code)
}

async fn beat(context: &Context, request: &HeartbeatRequest) -> Result<(), ErrorCode> {
    context.authorize(Operation::Read, Resource::Group(&request.group_id))?;
    let input =
        Input::Heartbeat { member_id: request.member_id.to_string(), generation: request.generation_id };
    match context.step_group(&request.group_id, input).await {
        Reply::Failed(error) => Err(ErrorCode::from(error)),
        _ => Ok(()),
    }
}
