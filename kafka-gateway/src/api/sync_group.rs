//! SyncGroup (key 14): the second half of a rebalance, which brings each member its assignment.
//!
//! # Behavior
//! - Waits until the leader has sent the assignment, and until that is durable. While members are still
//!   joining, it is REBALANCE_IN_PROGRESS; in a settled group it repeats the assignment.
//!
//! # Version notes
//! - 3: instance ids. 5: the protocol's type and name, which must be those of the group, else
//!   INCONSISTENT_GROUP_PROTOCOL.

use bytes::Bytes;
use kafka_protocol::messages::{SyncGroupRequest, SyncGroupResponse};

use super::group_requests::{caller, text};
use crate::authorize::{Operation, Resource};
use crate::context::Context;
use crate::error_code::ErrorCode;
use crate::group::Reply;
use crate::group::classic::{Input, Sync, Synced};
use crate::group::coordinator::Request;

const PROTOCOL_SINCE: i16 = 5;

pub(super) async fn answer(context: Context, request: SyncGroupRequest) -> SyncGroupResponse {
    match sync(&context, &request).await {
        Ok(synced) => {
            let response = SyncGroupResponse::default().with_assignment(synced.assignment);
            if context.version < PROTOCOL_SINCE {
                return response;
            }
            response
                .with_protocol_type(Some(text(synced.protocol_type)))
                .with_protocol_name(Some(text(synced.protocol)))
        }
        Err(error) => SyncGroupResponse::default().with_error_code(context.code(error)),
    }
}

async fn sync(context: &Context, request: &SyncGroupRequest) -> Result<Synced, ErrorCode> {
    context.authorize(Operation::Read, Resource::Group(&request.group_id))?;
    // Copied, because the group would otherwise hold the whole frame.
    let assignments = request
        .assignments
        .iter()
        .map(|one| (one.member_id.to_string(), Bytes::copy_from_slice(&one.assignment)));
    let sync = Sync {
        caller: caller(&request.member_id, request.group_instance_id.as_ref()),
        generation: request.generation_id,
        protocol_type: request.protocol_type.as_ref().map(ToString::to_string),
        protocol: request.protocol_name.as_ref().map(ToString::to_string),
        assignments: assignments.collect(),
    };
    match context.step_group(&request.group_id, Request::Classic(Input::Sync(sync))).await {
        Reply::Synced(synced) => Ok(synced),
        Reply::Failed(error) => Err(ErrorCode::from(error)),
        _ => Err(ErrorCode::UnknownMemberId),
    }
}
