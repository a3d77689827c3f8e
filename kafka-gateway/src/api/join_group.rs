//! JoinGroup (key 11): the first half of a rebalance of a classic group.
//!
//! # Behavior
//! - Waits until the group has a new generation: until all members have joined again, or the longest
//!   rebalance timeout is over. The leader gets the list of members with their metadata, which is
//!   opaque here.
//! - An empty group id is INVALID_GROUP_ID; a session timeout out of bounds INVALID_SESSION_TIMEOUT; a
//!   group with members of the consumer protocol INCONSISTENT_GROUP_PROTOCOL.
//! - A static member that comes back takes its place again under a new member id, without a rebalance if
//!   the group is settled and its protocol stays the same.
//!
//! # Version notes
//! - 1: rebalance timeout; before it, the session timeout stands for it.
//! - 4: a new member is sent MEMBER_ID_REQUIRED and joins again with the id that it got (KIP-394).
//! - 5: instance ids (KIP-345), whose members need not join twice. 7: the type of the protocol, and a
//!   null name in an error. 8: a reason, which is ignored.
//! - 9: a leader that came back is told to leave the assignment as it is (KIP-814); before it, it is told
//!   that another member is the leader.

use bytes::Bytes;
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::{JoinGroupRequest, JoinGroupResponse};
use kafka_protocol::protocol::StrBytes;

use super::group_requests::{caller, milliseconds, text};
use crate::authorize::{Operation, Resource};
use crate::context::Context;
use crate::error_code::ErrorCode;
use crate::group::Reply;
use crate::group::classic::{Input, Join, Joined, JoinedMember, KnownId, Skipping};
use crate::group::coordinator::Request;

const KNOWN_ID_SINCE: i16 = 4;
const INSTANCE_ID_SINCE: i16 = 5;
const PROTOCOL_TYPE_SINCE: i16 = 7;
const SKIPPING_SINCE: i16 = 9;
/// Protocols of one member; clients have a handful.
const PROTOCOLS_MAX: usize = 100;
const NO_GENERATION: i32 = -1;

pub(super) async fn answer(context: Context, request: JoinGroupRequest) -> JoinGroupResponse {
    if let Err(error) = check(&context, &request) {
        return refused(&context, error, request.member_id);
    }
    let input = Input::Join(join(&context, &request));
    match context.step_group(&request.group_id, Request::Classic(input)).await {
        Reply::Joined(joined) => accepted(&context, joined),
        Reply::NotJoined { error, member_id } => refused(&context, ErrorCode::from(error), text(member_id)),
        Reply::Failed(error) => refused(&context, ErrorCode::from(error), request.member_id),
        _ => refused(&context, ErrorCode::UnknownMemberId, request.member_id),
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
    let is_since = |version| context.version >= version;
    // The id of a static member tells which one it is.
    let id_front = request.group_instance_id.as_deref().or(context.client_id.as_deref());
    Join {
        caller: caller(&request.member_id, request.group_instance_id.as_ref()),
        new_member_id: context.gateway.groups.new_member_id(id_front),
        known_id: if is_since(KNOWN_ID_SINCE) { KnownId::Required } else { KnownId::NotRequired },
        skipping: if is_since(SKIPPING_SINCE) { Skipping::Understood } else { Skipping::NotUnderstood },
        client_id: context.client_id.clone().unwrap_or_default(),
        client_host: context.client_host(),
        session_timeout,
        rebalance_timeout,
        protocol_type: request.protocol_type.to_string(),
        protocols: protocols.collect(),
    }
}

fn accepted(context: &Context, joined: Joined) -> JoinGroupResponse {
    let response = JoinGroupResponse::default()
        .with_generation_id(joined.generation)
        .with_protocol_name(Some(text(joined.protocol)))
        .with_leader(text(joined.leader))
        .with_member_id(text(joined.member_id))
        .with_members(joined.members.into_iter().map(|member| described(context, member)).collect());
    match context.version {
        SKIPPING_SINCE.. => response
            .with_protocol_type(Some(text(joined.protocol_type)))
            .with_skip_assignment(joined.skip_assignment),
        PROTOCOL_TYPE_SINCE.. => response.with_protocol_type(Some(text(joined.protocol_type))),
        _ => response,
    }
}

fn described(context: &Context, member: JoinedMember) -> JoinGroupResponseMember {
    let response = JoinGroupResponseMember::default()
        .with_member_id(text(member.member_id))
        .with_metadata(member.metadata);
    match context.version {
        INSTANCE_ID_SINCE.. => response.with_group_instance_id(member.instance_id.map(text)),
        _ => response,
    }
}

fn refused(context: &Context, error: ErrorCode, member_id: StrBytes) -> JoinGroupResponse {
    let protocol = (context.version < PROTOCOL_TYPE_SINCE).then(StrBytes::new);
    JoinGroupResponse::default()
        .with_error_code(context.code(error))
        .with_generation_id(NO_GENERATION)
        .with_protocol_name(protocol)
        .with_member_id(member_id)
}
