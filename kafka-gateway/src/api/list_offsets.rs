//! ListOffsets (key 2): offsets by time, and the bounds of partitions.
//!
//! # Behavior
//! | timestamp | answer |
//! |---|---|
//! | -1 latest | the high watermark, or the last stable offset under read_committed; timestamp -1 |
//! | -2 earliest | the log start offset; timestamp -1 |
//! | -3 greatest timestamp | the first record that has it |
//! | -4 earliest local | as -2: there is no second tier |
//! | -5 last tiered | offset -1: there is no second tier |
//! | 0 and up | the first record, by offset, whose timestamp is at or after it; -1, -1 without error when there is none |
//!
//! A partition that is named twice is INVALID_REQUEST, and is answered once. A failed read is the error of
//! its own partition; the others are answered.
//!
//! # Version notes
//! - 2: isolation level. 4: leader epochs. 7: -3. 8: -4. 9: -5. A special timestamp that the
//!   version does not have is UNSUPPORTED_VERSION, before the topic is looked up.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::list_offsets_request::ListOffsetsPartition;
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};
use strandline_storage::log::{FetchError, Isolation, PartitionView, Snapshot, TimestampedOffset};

use super::fetch::isolation;
use crate::authorize::{Operation, Resource};
use crate::context::{Context, check_leader_epoch, find_partition};
use crate::error_code::ErrorCode;
use crate::telemetry;

const LEADER_EPOCH_SINCE: i16 = 4;
const NO_OFFSET: i64 = -1;
const NO_TIMESTAMP: i64 = -1;
const NO_EPOCH: i32 = -1;

/// What a request asks for by its timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Latest,
    Earliest,
    GreatestTimestamp,
    LastTiered,
    Time(i64),
}

impl Target {
    fn new(timestamp: i64, version: i16) -> Result<Self, ErrorCode> {
        match timestamp {
            -1 => Ok(Self::Latest),
            -2 => Ok(Self::Earliest),
            -3 if version >= 7 => Ok(Self::GreatestTimestamp),
            -4 if version >= 8 => Ok(Self::Earliest),
            -5 if version >= 9 => Ok(Self::LastTiered),
            time if time >= 0 => Ok(Self::Time(time)),
            _ => Err(ErrorCode::UnsupportedVersion),
        }
    }
}

pub(super) async fn answer(context: Context, request: ListOffsetsRequest) -> ListOffsetsResponse {
    let snapshot = context.log().snapshot();
    let isolation = isolation(request.isolation_level);
    let counts = count_partitions(&request);
    let mut refused = BTreeSet::new();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let allowed = context.authorize(Operation::Describe, Resource::Topic(&topic.name));
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for requested in &topic.partitions {
            let place = (topic.name.as_str(), requested.partition_index);
            let found = if let Err(error) = allowed {
                Err(error)
            } else if counts.get(&place) == Some(&1) {
                look_up(&context, &snapshot, &topic.name, requested, isolation).await
            } else if refused.insert(place) {
                Err(ErrorCode::InvalidRequest)
            } else {
                continue;
            };
            partitions.push(answer_partition(&context, requested.partition_index, found));
        }
        let answered =
            ListOffsetsTopicResponse::default().with_name(topic.name.clone()).with_partitions(partitions);
        topics.push(answered);
    }
    ListOffsetsResponse::default().with_topics(topics)
}

fn count_partitions(request: &ListOffsetsRequest) -> BTreeMap<(&str, i32), usize> {
    let mut counts = BTreeMap::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            *counts.entry((topic.name.as_str(), partition.partition_index)).or_default() += 1;
        }
    }
    counts
}

fn answer_partition(
    context: &Context,
    partition: i32,
    found: Result<TimestampedOffset, ErrorCode>,
) -> ListOffsetsPartitionResponse {
    let response = ListOffsetsPartitionResponse::default().with_partition_index(partition);
    match found {
        Ok(found) => {
            let epoch = if context.version >= LEADER_EPOCH_SINCE { found.leader_epoch } else { NO_EPOCH };
            response.with_offset(found.offset).with_timestamp(found.timestamp).with_leader_epoch(epoch)
        }
        Err(error) => response
            .with_error_code(context.code(error))
            .with_offset(NO_OFFSET)
            .with_timestamp(NO_TIMESTAMP)
            .with_leader_epoch(NO_EPOCH),
    }
}

async fn look_up(
    context: &Context,
    snapshot: &Snapshot,
    topic: &str,
    requested: &ListOffsetsPartition,
    isolation: Isolation,
) -> Result<TimestampedOffset, ErrorCode> {
    let target = Target::new(requested.timestamp, context.version)?;
    let partition = find_partition(snapshot, topic, requested.partition_index)?;
    let view = snapshot.partition(partition).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    check_leader_epoch(requested.current_leader_epoch, view.bounds().leader_epoch)?;
    let found = find(&view, target, isolation).await.map_err(|error| {
        tracing::warn!(topic, partition = requested.partition_index, %error, "offset lookup failed");
        ErrorCode::from(&error)
    })?;
    let none = TimestampedOffset { offset: NO_OFFSET, timestamp: NO_TIMESTAMP, leader_epoch: NO_EPOCH };
    Ok(found.unwrap_or(none))
}

async fn find(
    view: &PartitionView,
    target: Target,
    isolation: Isolation,
) -> Result<Option<TimestampedOffset>, FetchError> {
    let bounds = view.bounds();
    let at = |offset| {
        Some(TimestampedOffset { offset, timestamp: NO_TIMESTAMP, leader_epoch: bounds.leader_epoch })
    };
    match target {
        Target::Earliest => Ok(at(bounds.log_start_offset)),
        Target::Latest if isolation == Isolation::ReadCommitted => Ok(at(bounds.last_stable_offset)),
        Target::Latest => Ok(at(bounds.high_watermark)),
        Target::LastTiered => Ok(None),
        Target::GreatestTimestamp => view.max_timestamp(isolation).await,
        Target::Time(time) => {
            telemetry::looked_up_time();
            view.lookup_time(time, isolation).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_timestamps_need_their_version() {
        assert_eq!(Target::new(-3, 6), Err(ErrorCode::UnsupportedVersion));
        assert_eq!(Target::new(-3, 7), Ok(Target::GreatestTimestamp));
        assert_eq!(Target::new(-4, 7), Err(ErrorCode::UnsupportedVersion));
        assert_eq!(Target::new(-4, 8), Ok(Target::Earliest));
        assert_eq!(Target::new(-5, 8), Err(ErrorCode::UnsupportedVersion));
        assert_eq!(Target::new(-5, 9), Ok(Target::LastTiered));
        assert_eq!(Target::new(-6, 10), Err(ErrorCode::UnsupportedVersion));
        assert_eq!(Target::new(i64::MIN, 10), Err(ErrorCode::UnsupportedVersion));
        assert_eq!(Target::new(0, 1), Ok(Target::Time(0)));
    }
}
