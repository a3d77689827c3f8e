//! DescribeTopicPartitions (key 75): topics with their partitions, page by page (KIP-966).
//!
//! # Behavior
//! - Topics come in the order of their names, however they are named; none named means all.
//! - An answer holds at most so many partitions as the request wants, at least 1 and at most 2,000.
//!   The cursor that it ends with names the first partition that is missing; the next request
//!   begins there. A topic list must hold the topic of its cursor.
//! - A topic that does not exist has an error and counts as no partition.

use std::collections::BTreeSet;

use kafka_protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use kafka_protocol::messages::{DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::{Snapshot, Topic, topic_name};

use super::metadata::is_internal;
use crate::authorize::{Operation, Resource};
use crate::context::Context;
use crate::error_code::ErrorCode;

/// Kafka's `max.request.partition.size.limit`.
const PARTITIONS_MAX: usize = 2000;

type Described = DescribeTopicPartitionsResponseTopic;

/// The topics of one page, and where it begins in the first of them.
struct Page {
    names: BTreeSet<String>,
    first_partition: i32,
    partitions_max: usize,
}

pub(super) async fn answer(
    context: Context,
    request: DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse {
    let snapshot = context.log().snapshot();
    match page(&context, &snapshot, &request) {
        Ok(page) => describe_page(&context, &snapshot, page),
        Err(error) => refused(&context, &request, error),
    }
}

/// There is no error for the whole request, so each topic has it.
fn refused(
    context: &Context,
    request: &DescribeTopicPartitionsRequest,
    error: ErrorCode,
) -> DescribeTopicPartitionsResponse {
    let named = request.topics.iter().map(|topic| failed(context, &topic.name, error));
    DescribeTopicPartitionsResponse::default().with_topics(named.collect()).with_next_cursor(None)
}

fn page(
    context: &Context,
    snapshot: &Snapshot,
    request: &DescribeTopicPartitionsRequest,
) -> Result<Page, ErrorCode> {
    let mut names: BTreeSet<String> = if request.topics.is_empty() {
        let visible = |name: &&str| context.may(Operation::Describe, Resource::Topic(name));
        snapshot.topics().map(|topic| topic.name.as_str()).filter(visible).map(str::to_owned).collect()
    } else {
        request.topics.iter().map(|topic| topic.name.to_string()).collect()
    };
    let mut first_partition = 0;
    if let Some(cursor) = &request.cursor {
        if cursor.partition_index < 0 {
            return Err(ErrorCode::InvalidRequest);
        }
        names = names.split_off(cursor.topic_name.as_str());
        let at_cursor = names.first().is_some_and(|name| name == cursor.topic_name.as_str());
        if at_cursor {
            first_partition = cursor.partition_index;
        } else if !request.topics.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
    }
    let wanted = usize::try_from(request.response_partition_limit).unwrap_or(0);
    Ok(Page { names, first_partition, partitions_max: wanted.clamp(1, PARTITIONS_MAX) })
}

fn describe_page(context: &Context, snapshot: &Snapshot, page: Page) -> DescribeTopicPartitionsResponse {
    let mut left = page.partitions_max;
    let mut first_partition = page.first_partition;
    let mut topics = Vec::new();
    let mut next = None;
    for name in page.names {
        if left == 0 {
            next = Some((name, 0));
            break;
        }
        let described = match find(context, snapshot, &name) {
            Ok(topic) => {
                let end = end_of_page(topic, first_partition, left);
                if end < topic.partition_count {
                    next = Some((name, end));
                }
                describe(context, snapshot, topic, first_partition..end)
            }
            Err(error @ ErrorCode::TopicAuthorizationFailed) => failed(context, &name, error),
            // Who may describe a topic that is not there may learn what else it may do to it.
            Err(error) => failed(context, &name, error)
                .with_topic_authorized_operations(context.authorized_operations(Resource::Topic(&name))),
        };
        left -= described.partitions.len();
        topics.push(described);
        first_partition = 0;
        if next.is_some() {
            break;
        }
    }
    let next = next.map(|(name, partition)| {
        Cursor::default().with_topic_name(wire_name(&name)).with_partition_index(partition)
    });
    DescribeTopicPartitionsResponse::default().with_topics(topics).with_next_cursor(next)
}

fn end_of_page(topic: &Topic, first_partition: i32, left: usize) -> i32 {
    let left = i32::try_from(left).expect("a page is bounded far below that");
    first_partition.saturating_add(left).min(topic.partition_count)
}

fn find<'a>(context: &Context, snapshot: &'a Snapshot, name: &str) -> Result<&'a Topic, ErrorCode> {
    context.authorize(Operation::Describe, Resource::Topic(name))?;
    topic_name::validate(name).map_err(|_| ErrorCode::InvalidTopicException)?;
    snapshot.topic(name).map(AsRef::as_ref).ok_or(ErrorCode::UnknownTopicOrPartition)
}

fn wire_name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}

fn failed(context: &Context, name: &str, error: ErrorCode) -> Described {
    Described::default().with_error_code(context.code(error)).with_name(Some(wire_name(name)))
}

fn describe(
    context: &Context,
    snapshot: &Snapshot,
    topic: &Topic,
    partitions: std::ops::Range<i32>,
) -> Described {
    let node_id = context.settings().node_id.into();
    let partitions = partitions.map(|index| {
        let view = snapshot.partition(TopicPartition::new(topic.id, index));
        DescribeTopicPartitionsResponsePartition::default()
            .with_partition_index(index)
            .with_leader_id(node_id)
            .with_leader_epoch(view.map_or(0, |view| view.bounds().leader_epoch))
            .with_replica_nodes(vec![node_id])
            .with_isr_nodes(vec![node_id])
            .with_eligible_leader_replicas(Some(Vec::new()))
            .with_last_known_elr(Some(Vec::new()))
    });
    Described::default()
        .with_name(Some(wire_name(&topic.name)))
        .with_topic_id(topic.id.as_uuid())
        .with_is_internal(is_internal(&topic.name))
        .with_partitions(partitions.collect())
        .with_topic_authorized_operations(context.authorized_operations(Resource::Topic(&topic.name)))
}
