//! DescribeLogDirs (key 35): the bytes of partitions, which UIs show as the size of topics.
//!
//! # Behavior
//! - There is one directory, whose path is where the store is: a directory or a URL.
//! - Null topics mean all. Topics and partitions that do not exist are left out.
//! - The size of a partition is that of its batches from the log start on, wherever they are stored.
//!
//! # Version notes
//! - 3: an error for the whole request. 4: bytes of the volume, which are not known (-1).

use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kafka_protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use kafka_protocol::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::{Snapshot, Topic};

use crate::authorize::{Operation, Resource};
use crate::context::Context;

const UNKNOWN_BYTES: i64 = -1;

pub(super) async fn answer(context: Context, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse {
    let response = DescribeLogDirsResponse::default();
    if let Err(error) = context.authorize(Operation::Describe, Resource::Cluster) {
        return response.with_error_code(context.code(error));
    }
    let snapshot = context.log().snapshot();
    let topics = match &request.topics {
        None => {
            snapshot.topics().filter_map(|topic| describe(&snapshot, topic, topic.partitions())).collect()
        }
        Some(named) => named.iter().filter_map(|topic| describe_named(&snapshot, topic)).collect(),
    };
    let result = DescribeLogDirsResult::default()
        .with_log_dir(StrBytes::from_string(context.log().location().to_owned()))
        .with_topics(topics)
        .with_total_bytes(UNKNOWN_BYTES)
        .with_usable_bytes(UNKNOWN_BYTES);
    response.with_results(vec![result])
}

fn describe_named(snapshot: &Snapshot, named: &DescribableLogDirTopic) -> Option<DescribeLogDirsTopic> {
    let topic = snapshot.topic(&named.topic)?;
    let partitions = named.partitions.iter().map(|index| TopicPartition::new(topic.id, *index));
    describe(snapshot, topic, partitions)
}

/// `None` if none of the partitions exists.
fn describe(
    snapshot: &Snapshot,
    topic: &Topic,
    partitions: impl Iterator<Item = TopicPartition>,
) -> Option<DescribeLogDirsTopic> {
    let described = partitions.filter_map(|id| {
        let size = snapshot.partition(id)?.size_bytes();
        let partition = DescribeLogDirsPartition::default().with_partition_index(id.partition);
        Some(partition.with_partition_size(i64::try_from(size).unwrap_or(i64::MAX)))
    });
    let described: Vec<_> = described.collect();
    let name = TopicName(StrBytes::from_string(topic.name.clone()));
    (!described.is_empty())
        .then(|| DescribeLogDirsTopic::default().with_name(name).with_partitions(described))
}
