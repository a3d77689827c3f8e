//! DeleteGroups (key 42): groups without members are deleted, with their committed offsets.
//!
//! # Behavior
//! - Each group succeeds or fails alone: one with members is NON_EMPTY_GROUP, one that does not exist
//!   GROUP_ID_NOT_FOUND. The deletion is durable when it is answered.

use futures::stream::{self, StreamExt};
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::{DeleteGroupsRequest, DeleteGroupsResponse, GroupId};

use crate::authorize::{Operation, Resource};
use crate::context::Context;
use crate::error_code::{ErrorCode, NONE};
use crate::group::Reply;
use crate::group::coordinator::Request;

/// Groups of one request that are deleted at the same time: they share commits.
const DELETED_AT_ONCE: usize = 16;

pub(super) async fn answer(context: Context, request: DeleteGroupsRequest) -> DeleteGroupsResponse {
    let context = &context;
    let results = request.groups_names.into_iter().map(async |group_id| delete_one(context, group_id).await);
    let results = stream::iter(results).buffered(DELETED_AT_ONCE).collect().await;
    DeleteGroupsResponse::default().with_results(results)
}

async fn delete_one(context: &Context, group_id: GroupId) -> DeletableGroupResult {
    let deleted = delete(context, &group_id).await;
    let code = deleted.map_or_else(|error| context.code(error), |()| NONE);
    DeletableGroupResult::default().with_group_id(group_id).with_error_code(code)
}

async fn delete(context: &Context, group_id: &str) -> Result<(), ErrorCode> {
    context.authorize(Operation::Delete, Resource::Group(group_id))?;
    match context.step_group(group_id, Request::Delete).await {
        Reply::Failed(error) => Err(ErrorCode::from(error)),
        _ => Ok(()),
    }
}
