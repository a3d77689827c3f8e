//! OffsetFetch (key 9): the committed offsets of groups.
//!
//! # Behavior
//! - A group or a partition without a committed offset is answered with offset -1, epoch -1 and empty
//!   metadata, and is no error. Null topics ask for all offsets of the group.
//! - Who asks for stable offsets is told UNSTABLE_OFFSET_COMMIT while a transaction may still commit one
//!   of the partition (KIP-447).
//!
//! # Version notes
//! - 2: an error code for the group; null topics. 5: leader epochs. 7: `require_stable`.
//! - 8: several groups at once. 9: member id and epoch of the consumer protocol (KIP-848): a member that
//!   the group does not have is UNKNOWN_MEMBER_ID, another epoch than its current one STALE_MEMBER_EPOCH.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{OffsetFetchRequest, OffsetFetchResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use strandline_storage::log::{CommittedOffset, Snapshot};

use crate::authorize::{Operation, Resource};
use crate::context::{Context, find_partition};
use crate::error_code::{ErrorCode, NONE};
use crate::group::Reply;
use crate::group::coordinator::Request;

const MANY_GROUPS_SINCE: i16 = 8;
const LEADER_EPOCH_SINCE: i16 = 5;
/// Once an answer is larger than this, no more groups are added to it.
const ANSWERED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// What an offset takes in an answer, about, beside its metadata.
const OFFSET_BYTES: usize = 64;
const NO_OFFSET: i64 = -1;
const NO_EPOCH: i32 = -1;

pub(super) async fn answer(context: Context, mut request: OffsetFetchRequest) -> OffsetFetchResponse {
    let snapshot = context.log().snapshot();
    let require_stable = request.require_stable;
    if context.version >= MANY_GROUPS_SINCE {
        name_once(&mut request.groups);
        let mut groups = answer_groups(&context, &snapshot, &request.groups).await;
        if require_stable {
            groups.iter_mut().for_each(|group| mark_unstable(&context, &snapshot, group));
        }
        return OffsetFetchResponse::default().with_groups(groups);
    }
    let mut group = [as_group(request)];
    name_once(&mut group);
    let mut answered = answer_group(&context, &snapshot, &group[0]).await;
    if require_stable {
        mark_unstable(&context, &snapshot, &mut answered);
    }
    let topics = answered.topics.into_iter().map(|topic| as_single(&context, topic));
    OffsetFetchResponse::default().with_error_code(answered.error_code).with_topics(topics.collect())
}

/// Leaves the first mention of each partition of a group: one that is named often would otherwise be answered,
/// with the metadata of its offset, as often.
fn name_once(groups: &mut [OffsetFetchRequestGroup]) {
    let mut seen = BTreeSet::new();
    for group in groups {
        for topic in group.topics.iter_mut().flatten() {
            let (group, name) = (&group.group_id, &topic.name);
            topic.partition_indexes.retain(|index| seen.insert((group.clone(), name.clone(), *index)));
        }
    }
}

/// Withholds the offsets that an open transaction may still replace.
fn mark_unstable(context: &Context, snapshot: &Snapshot, group: &mut OffsetFetchResponseGroup) {
    for topic in &mut group.topics {
        for answered in &mut topic.partitions {
            let partition = find_partition(snapshot, &topic.name, answered.partition_index);
            let is_pending = |partition| snapshot.has_pending_offset(&group.group_id, partition);
            if answered.error_code == NONE && partition.is_ok_and(is_pending) {
                let code = context.code(ErrorCode::UnstableOffsetCommit);
                *answered = answer_partition(answered.partition_index, None).with_error_code(code);
            }
        }
    }
}

/// The one group of an older request, in the form of the newer ones.
fn as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup {
    let topics = request.topics.map(|topics| {
        let topics = topics.into_iter().map(|topic| {
            OffsetFetchRequestTopics::default()
                .with_name(topic.name)
                .with_partition_indexes(topic.partition_indexes)
        });
        topics.collect()
    });
    OffsetFetchRequestGroup::default()
        .with_group_id(request.group_id)
        .with_member_id(None)
        .with_member_epoch(NO_EPOCH)
        .with_topics(topics)
}

fn as_single(context: &Context, topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic {
    let partitions = topic.partitions.into_iter().map(|partition| {
        let response = OffsetFetchResponsePartition::default()
            .with_partition_index(partition.partition_index)
            .with_committed_offset(partition.committed_offset)
            .with_metadata(partition.metadata)
            .with_error_code(partition.error_code);
        match context.version {
            LEADER_EPOCH_SINCE.. => response.with_committed_leader_epoch(partition.committed_leader_epoch),
            _ => response,
        }
    });
    OffsetFetchResponseTopic::default().with_name(topic.name).with_partitions(partitions.collect())
}

/// Groups beyond the bound of one answer are refused: a group that is named often would otherwise
/// be answered without bound.
async fn answer_groups(
    context: &Context,
    snapshot: &Snapshot,
    groups: &[OffsetFetchRequestGroup],
) -> Vec<OffsetFetchResponseGroup> {
    let mut bytes = 0;
    let mut answers = Vec::new();
    for group in groups {
        if bytes > ANSWERED_BYTES_MAX {
            let response = OffsetFetchResponseGroup::default().with_group_id(group.group_id.clone());
            answers.push(response.with_error_code(context.code(ErrorCode::InvalidRequest)));
            continue;
        }
        let answer = answer_group(context, snapshot, group).await;
        let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
        bytes += partitions
            .map(|one| OFFSET_BYTES + one.metadata.as_ref().map_or(0, |text| text.len()))
            .sum::<usize>();
        answers.push(answer);
    }
    answers
}

async fn answer_group(
    context: &Context,
    snapshot: &Snapshot,
    group: &OffsetFetchRequestGroup,
) -> OffsetFetchResponseGroup {
    let response = OffsetFetchResponseGroup::default().with_group_id(group.group_id.clone());
    if let Err(error) = check_member(context, group).await {
        return response.with_error_code(context.code(error));
    }
    response.with_topics(match &group.topics {
        Some(topics) => topics.iter().map(|topic| answer_topic(context, snapshot, group, topic)).collect(),
        None => answer_all(context, snapshot, &group.group_id),
    })
}

async fn check_member(context: &Context, group: &OffsetFetchRequestGroup) -> Result<(), ErrorCode> {
    context.authorize(Operation::Describe, Resource::Group(&group.group_id))?;
    let member_id = group.member_id.as_ref().map(ToString::to_string);
    // Nobody claims to be a member, so that there is nothing to check.
    if member_id.is_none() && group.member_epoch < 0 {
        return Ok(());
    }
    let request = Request::Fetch { member_id, epoch: group.member_epoch };
    match context.step_group(&group.group_id, request).await {
        Reply::Failed(error) => Err(ErrorCode::from(error)),
        _ => Ok(()),
    }
}

fn answer_topic(
    context: &Context,
    snapshot: &Snapshot,
    group: &OffsetFetchRequestGroup,
    topic: &OffsetFetchRequestTopics,
) -> OffsetFetchResponseTopics {
    let allowed = context.authorize(Operation::Describe, Resource::Topic(&topic.name));
    let partitions = topic.partition_indexes.iter().map(|index| match allowed {
        Ok(()) => {
            let partition = find_partition(snapshot, &topic.name, *index).ok();
            let committed = partition.and_then(|one| snapshot.committed_offset(&group.group_id, one));
            answer_partition(*index, committed)
        }
        Err(error) => answer_partition(*index, None).with_error_code(context.code(error)),
    });
    OffsetFetchResponseTopics::default().with_name(topic.name.clone()).with_partitions(partitions.collect())
}

fn answer_all(context: &Context, snapshot: &Snapshot, group_id: &str) -> Vec<OffsetFetchResponseTopics> {
    let mut topics: BTreeMap<&str, Vec<OffsetFetchResponsePartitions>> = BTreeMap::new();
    for (partition, committed) in snapshot.group_offsets(group_id) {
        let Some(topic) = snapshot.topic_by_id(partition.topic_id) else { continue };
        if context.may(Operation::Describe, Resource::Topic(&topic.name)) {
            let answered = answer_partition(partition.partition, Some(committed));
            topics.entry(&topic.name).or_default().push(answered);
        }
    }
    let topics = topics.into_iter().map(|(name, partitions)| {
        let name = TopicName(StrBytes::from_string(name.to_owned()));
        OffsetFetchResponseTopics::default().with_name(name).with_partitions(partitions)
    });
    topics.collect()
}

fn answer_partition(partition: i32, committed: Option<&CommittedOffset>) -> OffsetFetchResponsePartitions {
    let response = OffsetFetchResponsePartitions::default().with_partition_index(partition);
    match committed {
        Some(committed) => {
            let metadata = committed.metadata.clone().unwrap_or_default();
            response
                .with_committed_offset(committed.offset)
                .with_committed_leader_epoch(committed.leader_epoch)
                .with_metadata(Some(StrBytes::from_string(metadata)))
        }
        None => response
            .with_committed_offset(NO_OFFSET)
            .with_committed_leader_epoch(NO_EPOCH)
            .with_metadata(Some(StrBytes::new())),
    }
}
