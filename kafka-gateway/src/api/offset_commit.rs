//! OffsetCommit (key 8): stores the offsets of a group in the log.
//!
//! # Behavior
//! - Members commit in their generation; anybody commits for a group without members, with
//!   generation -1.
//! - A partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION, metadata that is too long
//!   OFFSET_METADATA_TOO_LARGE, each for its partition. All others are stored in one commit.
//! - Null metadata is stored as an empty text.
//!
//! # Version notes
//! - 2 to 4: a retention time, which is ignored. 6: leader epochs. 7: instance ids.
//! - 9: member epochs of the consumer protocol (KIP-848): another one than the current is
//!   STALE_MEMBER_EPOCH. Its members may not use older versions (UNSUPPORTED_VERSION). A group that does
//!   not exist is GROUP_ID_NOT_FOUND; before, ILLEGAL_GENERATION.

use std::collections::VecDeque;

use kafka_protocol::messages::offset_commit_request::OffsetCommitRequestPartition;
use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::{OffsetCommitRequest, OffsetCommitResponse};
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::{CommitOffsetError, OffsetCommit};

use super::group_requests::caller;
use crate::authorize::{Operation, Resource};
use crate::context::{Context, find_partition};
use crate::error_code::{ErrorCode, NONE};
use crate::group::Reply;
use crate::group::consumer::CommitVersion;
use crate::group::coordinator::Request;

const EPOCHS_SINCE: i16 = 9;

type Stored = Result<VecDeque<Result<(), CommitOffsetError>>, ErrorCode>;

pub(super) async fn answer(context: Context, request: OffsetCommitRequest) -> OffsetCommitResponse {
    if let Err(error) = context.authorize(Operation::Read, Resource::Group(&request.group_id)) {
        return respond(&request, |_, _| context.code(error));
    }
    let found = find_all(&context, &request);
    // As in Kafka, who commits is looked at only when there is something to commit.
    let member = match found.iter().any(Result::is_ok) {
        true => check_member(&context, &request).await,
        false => Ok(()),
    };
    let mut commits = Vec::new();
    let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
    let checked = found.into_iter().zip(partitions).map(|(found, partition)| {
        let topic_partition = found?;
        member?;
        commits.push(offset_commit(&context, topic_partition, partition)?);
        Ok(())
    });
    let mut checked: VecDeque<Result<(), ErrorCode>> = checked.collect();
    let mut stored = store(&context, &request.group_id, commits).await;
    respond(&request, |_, _| {
        let checked = checked.pop_front().expect("every partition was checked");
        let result = checked.and_then(|()| next_stored(&mut stored));
        result.map_or_else(|error| context.code(error), |()| NONE)
    })
}

/// The partitions of the request, in its order.
fn find_all(context: &Context, request: &OffsetCommitRequest) -> Vec<Result<TopicPartition, ErrorCode>> {
    let snapshot = context.log().snapshot();
    let mut found = Vec::new();
    for topic in &request.topics {
        let allowed = context.authorize(Operation::Read, Resource::Topic(&topic.name));
        let find = |partition: &OffsetCommitRequestPartition| {
            allowed?;
            find_partition(&snapshot, &topic.name, partition.partition_index)
        };
        found.extend(topic.partitions.iter().map(find));
    }
    found
}

async fn check_member(context: &Context, request: &OffsetCommitRequest) -> Result<(), ErrorCode> {
    let version =
        if context.version >= EPOCHS_SINCE { CommitVersion::Epochs } else { CommitVersion::Generations };
    let caller = caller(&request.member_id, request.group_instance_id.as_ref());
    let generation = request.generation_id_or_member_epoch;
    let request_to_group = Request::Commit { caller, generation, version };
    match context.step_group(&request.group_id, request_to_group).await {
        Reply::Failed(error) => Err(ErrorCode::from(error)),
        _ => Ok(()),
    }
}

fn offset_commit(
    context: &Context,
    topic_partition: TopicPartition,
    partition: &OffsetCommitRequestPartition,
) -> Result<OffsetCommit, ErrorCode> {
    let metadata = partition.committed_metadata.as_deref().unwrap_or_default();
    if metadata.len() > context.settings().offset_metadata_bytes_max {
        return Err(ErrorCode::OffsetMetadataTooLarge);
    }
    Ok(OffsetCommit {
        topic_partition,
        offset: partition.committed_offset,
        leader_epoch: partition.committed_leader_epoch,
        metadata: Some(metadata.to_owned()),
    })
}

/// Results in the order of the commits; one error for all when nothing is known to be stored.
async fn store(context: &Context, group_id: &str, commits: Vec<OffsetCommit>) -> Stored {
    if commits.is_empty() {
        return Ok(VecDeque::new());
    }
    let timeout_ms = context.settings().offset_commit_timeout.as_millis();
    let timeout_ms = i32::try_from(timeout_ms).unwrap_or(i32::MAX);
    match context.within(timeout_ms, context.log().commit_offsets(group_id, commits)).await {
        Some(Ok(results)) => Ok(results.into()),
        // What a consumer retries; a storage error would end it.
        Some(Err(_)) => Err(ErrorCode::CoordinatorNotAvailable),
        None => Err(ErrorCode::RequestTimedOut),
    }
}

fn next_stored(stored: &mut Stored) -> Result<(), ErrorCode> {
    let results = stored.as_mut().map_err(|error| *error)?;
    let result = results.pop_front().expect("the log answers every commit");
    result.map_err(|error| ErrorCode::from(&error))
}

fn respond(
    request: &OffsetCommitRequest,
    mut code: impl FnMut(&str, &OffsetCommitRequestPartition) -> i16,
) -> OffsetCommitResponse {
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            OffsetCommitResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(code(&topic.name, partition))
        });
        let partitions = partitions.collect();
        OffsetCommitResponseTopic::default().with_name(topic.name.clone()).with_partitions(partitions)
    });
    OffsetCommitResponse::default().with_topics(topics.collect())
}
