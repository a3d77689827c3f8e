//! JoinGroup (key 11): the first half of a rebalance of a classic group.
//!
//! # Behavior
//! - Waits until the group has a new generation: until all members have joined again, or the longest
//!   rebalance timeout is over. The leader gets the list of members with their metadata, which is
//!   opaque here.
//! - An empty group id is INVALID_GROUP_ID; a session timeout out of bounds INVALID_SESSION_TIMEOUT.
//!
//! # Version notes
//! - 1: rebalance timeout; before it, the session timeout stands for it.
//! - 4: a new member is sent MEMBER_ID_REQUIRED and joins again with the id that it got (KIP-394).
//! - 5 would bring static members.

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::{JoinGroupRequest, JoinGroupResponse};
use kafka_protocol::protocol::StrBytes;

use crate::authorize::{Operation, Resource};
use crate::context::Context;
use crate::error_code::ErrorCode;
use crate::group::{GroupError, Input, Join, Joined, KnownId, Reply};

const KNOWN_ID_SINCE: i16 = 4;
/// Protocols of one member; clients have a handful.
const PROTOCOLS_MAX: usize = 100;
const NO_GENERATION: i32 = -1;

pub(super) async fn answer(context: Context, request: JoinGroupRequest) -> JoinGroupResponse {
    if let Err(error) = check(&context, &request) {
        return refused(&context, error, request.member_id);
    }
    let input = Input::Join(join(&context, &request));
    match context.step_group(&request.group_id, input).await {
        Reply::Joined(joined) => accepted(joined),
        Reply::NotJoined { error, member_id } => {
            refused(&context, ErrorCode::from(error), StrBytes::from_string(member_id))
        }
        Reply::Failed(error) => refused(&context, ErrorCode::from(error), request.member_id),
        Reply::Synced { .. } | Reply::Done => {
            refused(&context, ErrorCode::from(GroupError::UnknownMember), request.member_id)
        }
    }
}

fn check(context: &Context, request: &JoinGroupRequest) -> Result<(), ErrorCode> {
    context.authorize(Operation::Read, Resource::Group(&request.group_id))?;
    let bytes: usize = request.protocols.iter().map(|one| one.name.len() + one.metadata.len()).sum();
    let is_small =
        bytes <= context.settings().group_metadata_bytes_max && request.protocols.len() <= PROTOCOLS_MAX;
    if is_small { Ok(()) } else { Err(ErrorCode::InvalidRequest) }
}

fn join(context: &Context, request: &JoinGroupRequest) -> Join {
    let known_id = if context.version >= KNOWN_ID_SINCE { KnownId::Required } else { KnownId::NotRequired };
    let session_timeout = milliseconds(request.session_timeout_ms);
    let rebalance_timeout = match request.rebalance_timeout_ms {
        ..0 => session_timeout,
        timeout_ms => milliseconds(timeout_ms),
    };
    // Copied, because the group would otherwise hold the whole frame.
    let protocols = request
        .protocols
        .iter()
        .map(|protocol| (protocol.name.to_string(), Bytes::copy_from_slice(&protocol.metadata)));
    Join {
        member_id: request.member_id.to_string(),
        new_member_id: context.gateway.groups.new_member_id(context.client_id.as_deref()),
        known_id,
        session_timeout,
        rebalance_timeout,
        protocol_type: request.protocol_type.to_string(),
        protocols: protocols.collect(),
    }
}

fn milliseconds(milliseconds: i32) -> Duration {
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}

fn accepted(joined: Joined) -> JoinGroupResponse {
    let members = joined.members.into_iter().map(|(id, metadata)| {
        JoinGroupResponseMember::default().with_member_id(StrBytes::from_string(id)).with_metadata(metadata)
    });
    JoinGroupResponse::default()
        .with_generation_id(joined.generation)
        .with_protocol_name(Some(StrBytes::from_string(joined.protocol)))
        .with_leader(StrBytes::from_string(joined.leader))
        .with_member_id(StrBytes::from_string(joined.member_id))
        .with_members(members.collect())
}

fn refused(context: &Context, error: ErrorCode, member_id: StrBytes) -> JoinGroupResponse {
    JoinGroupResponse::default()
        .with_error_code(context.code(error))
        .with_generation_id(NO_GENERATION)
        .with_protocol_name(Some(StrBytes::new()))
        .with_member_id(member_id)
}
