//! OffsetForLeaderEpoch (key 23): where a leader epoch ends, for clients that check their position.
//!
//! # Behavior
//! - Answers with the newest epoch that is not above the one asked for, and the offset at which it
//!   ends; -1, -1 for an epoch that this log does not know (KIP-101, KIP-320).
//!
//! # Version notes
//! - 3: replica id (ignored: there are no replicas that fetch).

use kafka_protocol::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use kafka_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use kafka_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
use strandline_storage::log::Snapshot;

use crate::authorize::{Operation, Resource};
use crate::context::{Context, check_leader_epoch, find_partition};
use crate::error_code::ErrorCode;

const UNKNOWN_EPOCH_END: (i32, i64) = (-1, -1);

pub(super) async fn answer(
    context: Context,
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let snapshot = context.log().snapshot();
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            let found = look_up(&context, &snapshot, &topic.topic, partition);
            answer_partition(&context, partition.partition, found)
        });
        let partitions = partitions.collect();
        OffsetForLeaderTopicResult::default().with_topic(topic.topic).with_partitions(partitions)
    });
    OffsetForLeaderEpochResponse::default().with_topics(topics.collect())
}

fn answer_partition(
    context: &Context,
    partition: i32,
    found: Result<(i32, i64), ErrorCode>,
) -> EpochEndOffset {
    let response = EpochEndOffset::default().with_partition(partition);
    let (response, (epoch, end_offset)) = match found {
        Ok(found) => (response, found),
        Err(error) => (response.with_error_code(context.code(error)), UNKNOWN_EPOCH_END),
    };
    response.with_leader_epoch(epoch).with_end_offset(end_offset)
}

fn look_up(
    context: &Context,
    snapshot: &Snapshot,
    topic: &str,
    requested: &OffsetForLeaderPartition,
) -> Result<(i32, i64), ErrorCode> {
    if !context.may(Operation::ClusterAction, Resource::Cluster) {
        context.authorize(Operation::Describe, Resource::Topic(topic))?;
    }
    let partition = find_partition(snapshot, topic, requested.partition)?;
    let view = snapshot.partition(partition).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let current = view.bounds().leader_epoch;
    check_leader_epoch(requested.current_leader_epoch, current)?;
    if requested.leader_epoch > current {
        return Ok(UNKNOWN_EPOCH_END);
    }
    Ok(view.epoch_end_offset(requested.leader_epoch).unwrap_or(UNKNOWN_EPOCH_END))
}
