//! SyncGroup (key 14): the second half of a rebalance, which brings each member its assignment.
//!
//! # Behavior
//! - Waits until the leader has sent the assignment. While members are still joining, it is
//!   REBALANCE_IN_PROGRESS; in a settled group it repeats the assignment.
//!
//! # Version notes
//! - 3 would bring static members, 5 the protocol's type and name.

use bytes::Bytes;
use kafka_protocol::messages::{SyncGroupRequest, SyncGroupResponse};

use crate::authorize::{Operation, Resource};
use crate::context::Context;
use crate::error_code::ErrorCode;
use crate::group::{GroupError, Input, Reply};

pub(super) async fn answer(context: Context, request: SyncGroupRequest) -> SyncGroupResponse {
    match sync(&context, &request).await {
        Ok(assignment) => SyncGroupResponse::default().with_assignment(assignment),
        Err(error) => SyncGroupResponse::default().with_error_code(context.code(error)),
    }
}

async fn sync(context: &Context, request: &SyncGroupRequest) -> Result<Bytes, ErrorCode> {
    context.authorize(Operation::Read, Resource::Group(&request.group_id))?;
    let bytes: usize = request.assignments.iter().map(|one| one.assignment.len()).sum();
    if bytes > context.settings().group_metadata_bytes_max {
        return Err(ErrorCode::InvalidRequest);
    }
    // Copied, because the group would otherwise hold the whole frame.
    let assignments = request
        .assignments
        .iter()
        .map(|one| (one.member_id.to_string(), Bytes::copy_from_slice(&one.assignment)));
    let input = Input::Sync {
        member_id: request.member_id.to_string(),
        generation: request.generation_id,
        assignments: assignments.collect(),
    };
    match context.step_group(&request.group_id, input).await {
        Reply::Synced { assignment } => Ok(assignment),
        Reply::Failed(error) => Err(ErrorCode::from(error)),
        Reply::Joined(_) | Reply::NotJoined { .. } | Reply::Done => {
            Err(ErrorCode::from(GroupError::UnknownMember))
        }
    }
}
