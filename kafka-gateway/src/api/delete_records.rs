//! DeleteRecords (key 21).
//!
//! # Behavior
//! - Each partition succeeds or fails alone. -1 stands for the high watermark. The answer names the
//!   log start offset, which never goes back: an offset below it changes nothing.
//! - A topic whose cleanup policy does not contain "delete" is POLICY_VIOLATION, as in Apache Kafka.
//! - The deletion is durable when it is answered. Records below the log start are at once invisible
//!   to all; their bytes go when segments are written anew, within a day by default.

use std::collections::BTreeMap;

use kafka_protocol::messages::delete_records_request::DeleteRecordsPartition;
use kafka_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use kafka_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse, TopicName};
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::{DeleteRecordsError, Snapshot};

use crate::authorize::{Operation, Resource};
use crate::context::{Context, find_partition};
use crate::error_code::{ErrorCode, NONE};

/// In the answer of a partition that failed.
const NO_LOW_WATERMARK: i64 = -1;

pub(super) async fn answer(context: Context, request: DeleteRecordsRequest) -> DeleteRecordsResponse {
    let snapshot = context.log().snapshot();
    let mut found = Vec::new();
    let mut refused = BTreeMap::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            match check(&context, &snapshot, &topic.name, partition) {
                Ok(id) => found.push((id, partition.offset)),
                Err(error) => drop(refused.insert((topic.name.clone(), partition.partition_index), error)),
            }
        }
    }
    drop(snapshot);
    let mut deleted = delete(&context, found, request.timeout_ms).await.into_iter();
    let topics = request.topics.iter().map(|topic| {
        let results = topic.partitions.iter().map(|partition| {
            let index = partition.partition_index;
            let deleted = match refused.get(&(topic.name.clone(), index)) {
                Some(error) => Err(*error),
                None => deleted.next().expect("every partition that was not refused has an answer"),
            };
            let result = DeleteRecordsPartitionResult::default().with_partition_index(index);
            match deleted {
                Ok(low_watermark) => result.with_low_watermark(low_watermark).with_error_code(NONE),
                Err(error) => {
                    result.with_low_watermark(NO_LOW_WATERMARK).with_error_code(context.code(error))
                }
            }
        });
        DeleteRecordsTopicResult::default().with_name(topic.name.clone()).with_partitions(results.collect())
    });
    DeleteRecordsResponse::default().with_topics(topics.collect())
}

fn check(
    context: &Context,
    snapshot: &Snapshot,
    name: &TopicName,
    partition: &DeleteRecordsPartition,
) -> Result<TopicPartition, ErrorCode> {
    context.authorize(Operation::Delete, Resource::Topic(name))?;
    let id = find_partition(snapshot, name, partition.partition_index)?;
    let topic = snapshot.topic(name).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    if !topic.config.deletes_by_retention() {
        return Err(ErrorCode::PolicyViolation);
    }
    Ok(id)
}

/// The log start of each partition, in the order of the input.
async fn delete(
    context: &Context,
    before: Vec<(TopicPartition, i64)>,
    timeout_ms: i32,
) -> Vec<Result<i64, ErrorCode>> {
    let count = before.len();
    if count == 0 {
        return Vec::new();
    }
    match context.within(timeout_ms, context.log().delete_records(before)).await {
        None => vec![Err(ErrorCode::RequestTimedOut); count],
        Some(Err(error)) => vec![Err(ErrorCode::from(&error)); count],
        Some(Ok(results)) => results.into_iter().map(|result| result.map_err(|error| code(&error))).collect(),
    }
}

fn code(error: &DeleteRecordsError) -> ErrorCode {
    match error {
        DeleteRecordsError::UnknownTopicPartition(_) => ErrorCode::UnknownTopicOrPartition,
        DeleteRecordsError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
    }
}
