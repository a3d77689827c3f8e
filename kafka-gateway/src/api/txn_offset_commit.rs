//! TxnOffsetCommit (key 28): offsets of a group that are committed with a transaction.
//!
//! # Behavior
//! - Durable when it is answered, and visible when the transaction is committed, unless the group has
//!   committed another one since. The group must have been added by AddOffsetsToTxn: INVALID_TXN_STATE
//!   otherwise.
//! - Members commit in their generation, as in OffsetCommit; who names neither member nor generation
//!   is not asked. A rebalance refuses nothing: the transaction decides. In a group that has no members
//!   everybody is UNKNOWN_MEMBER_ID, which aborts the transaction and not the producer.
//! - A partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION, metadata that is too long
//!   OFFSET_METADATA_TOO_LARGE, each for its partition; all others are kept.
//!
//! # Version notes
//! - 2: leader epochs. 3: member, generation and instance id of the consumer.
//! - PRODUCER_FENCED is not used here: an old epoch is INVALID_PRODUCER_EPOCH in all versions.
//! - 5 would add the group to the transaction by itself, which comes with transaction.version 2.

use std::collections::VecDeque;

use kafka_protocol::messages::txn_offset_commit_request::TxnOffsetCommitRequestPartition;
use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::messages::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};
use strandline_storage::format::{PendingOffset, PendingOffsets, Producer, ReplacedOffset};
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::Snapshot;

use super::group_requests::caller;
use crate::authorize::{Operation, Resource};
use crate::context::{Context, find_partition};
use crate::error_code::ErrorCode;
use crate::group::consumer::CommitVersion;
use crate::group::coordinator::Request;
use crate::group::{GroupError, Reply};
use crate::transaction::CommitOffsets;

const MEMBER_SINCE: i16 = 3;

pub(super) async fn answer(context: Context, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse {
    if let Err(error) = check(&context, &request) {
        return respond(&context, &request, || error);
    }
    let snapshot = context.log().snapshot();
    let found = find_all(&context, &snapshot, &request);
    // As in Kafka, who commits is looked at only when there is something to commit.
    let member = match found.iter().any(Result::is_ok) {
        true => check_member(&context, &request).await,
        false => Ok(()),
    };
    let mut offsets = PendingOffsets::new();
    let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
    let checked = found.into_iter().zip(partitions).map(|(found, partition)| {
        let topic_partition = found?;
        member?;
        check_metadata(&context, partition)?;
        let replaces = snapshot
            .committed_offset(&request.group_id, topic_partition)
            .map(|found| ReplacedOffset { offset: found.offset, commit_time_ms: found.commit_time_ms });
        offsets.insert(topic_partition, pending_offset(partition, replaces));
        Ok(())
    });
    let mut codes: VecDeque<Result<(), ErrorCode>> = checked.collect();
    let kept = keep(&context, &request, offsets).await;
    respond(&context, &request, || {
        let checked = codes.pop_front().expect("every partition was checked");
        checked.and(kept).map_or_else(|error| error, |()| ErrorCode::None)
    })
}

fn check(context: &Context, request: &TxnOffsetCommitRequest) -> Result<(), ErrorCode> {
    let name = &request.transactional_id;
    context.authorize(Operation::Write, Resource::TransactionalId(name))?;
    context.authorize(Operation::Read, Resource::Group(&request.group_id))?;
    if name.is_empty() { Err(ErrorCode::InvalidRequest) } else { Ok(()) }
}

/// The partitions of the request, in its order.
fn find_all(
    context: &Context,
    snapshot: &Snapshot,
    request: &TxnOffsetCommitRequest,
) -> Vec<Result<TopicPartition, ErrorCode>> {
    let mut found = Vec::new();
    for topic in &request.topics {
        let allowed = context.authorize(Operation::Read, Resource::Topic(&topic.name));
        let find = |partition: &TxnOffsetCommitRequestPartition| {
            allowed?;
            find_partition(snapshot, &topic.name, partition.partition_index)
        };
        found.extend(topic.partitions.iter().map(find));
    }
    found
}

async fn check_member(context: &Context, request: &TxnOffsetCommitRequest) -> Result<(), ErrorCode> {
    let (caller, generation) =
        (caller(&request.member_id, request.group_instance_id.as_ref()), request.generation_id);
    let names_nobody = generation < 0 && caller.member_id.is_empty() && caller.instance_id.is_none();
    if context.version < MEMBER_SINCE || names_nobody {
        return Ok(());
    }
    let commit = Request::Commit { caller, generation, version: CommitVersion::Epochs };
    match context.step_group(&request.group_id, commit).await {
        // The member is one of this generation, which is all that is asked here.
        Reply::Failed(GroupError::RebalanceInProgress) => Ok(()),
        // For Kafka there is a group once offsets of it are pending, and the member is what is not known.
        Reply::Failed(GroupError::GroupNotFound) => Err(ErrorCode::UnknownMemberId),
        Reply::Failed(error) => Err(ErrorCode::from(error)),
        _ => Ok(()),
    }
}

fn check_metadata(context: &Context, partition: &TxnOffsetCommitRequestPartition) -> Result<(), ErrorCode> {
    let length = partition.committed_metadata.as_ref().map_or(0, |metadata| metadata.len());
    let is_short = length <= context.settings().offset_metadata_bytes_max;
    if is_short { Ok(()) } else { Err(ErrorCode::OffsetMetadataTooLarge) }
}

fn pending_offset(
    partition: &TxnOffsetCommitRequestPartition,
    replaces: Option<ReplacedOffset>,
) -> PendingOffset {
    PendingOffset {
        offset: partition.committed_offset,
        leader_epoch: partition.committed_leader_epoch,
        metadata: Some(partition.committed_metadata.as_deref().unwrap_or_default().to_owned()),
        replaces,
    }
}

async fn keep(
    context: &Context,
    request: &TxnOffsetCommitRequest,
    offsets: PendingOffsets,
) -> Result<(), ErrorCode> {
    if offsets.is_empty() {
        return Ok(());
    }
    let producer = Producer { producer_id: request.producer_id.0, producer_epoch: request.producer_epoch };
    let commit = CommitOffsets { producer, group: request.group_id.to_string(), offsets };
    let kept = context.gateway.transactions.commit_offsets(&request.transactional_id, commit).await;
    kept.map_err(|error| ErrorCode::from(&error).without_producer_fenced())
}

fn respond(
    context: &Context,
    request: &TxnOffsetCommitRequest,
    mut code: impl FnMut() -> ErrorCode,
) -> TxnOffsetCommitResponse {
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            TxnOffsetCommitResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(context.code(code()))
        });
        let partitions = partitions.collect();
        TxnOffsetCommitResponseTopic::default().with_name(topic.name.clone()).with_partitions(partitions)
    });
    TxnOffsetCommitResponse::default().with_topics(topics.collect())
}
