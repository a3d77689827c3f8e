//! DescribeProducers (key 61): the idempotent producers that a partition remembers (KIP-664).
//!
//! # Behavior
//! - A producer is remembered until it was silent for the time after which it expires.
//! - The start of its transaction is -1 when it has none open.
//! - A partition is described once, however often it is named.

use std::collections::BTreeSet;

use kafka_protocol::messages::describe_producers_response::{
    PartitionResponse, ProducerState, TopicResponse,
};
use kafka_protocol::messages::{DescribeProducersRequest, DescribeProducersResponse, ProducerId};
use kafka_protocol::protocol::StrBytes;
use strandline_storage::log::{ActiveProducer, Snapshot, topic_name};

use crate::authorize::{Operation, Resource};
use crate::context::{Context, Refusal, find_partition};
use crate::error_code::ErrorCode;

const NO_TRANSACTION: i64 = -1;

pub(super) async fn answer(context: Context, request: DescribeProducersRequest) -> DescribeProducersResponse {
    let snapshot = context.log().snapshot();
    let mut seen = BTreeSet::new();
    let topics = request.topics.into_iter().map(|topic| {
        let indexes = topic.partition_indexes.iter();
        let once = indexes.filter(|index| seen.insert((topic.name.clone(), **index)));
        let partitions = once.map(|index| {
            let response = PartitionResponse::default().with_partition_index(*index).with_error_message(None);
            match describe(&context, &snapshot, &topic.name, *index) {
                Ok(producers) => response.with_active_producers(producers),
                Err((error, reason)) => response
                    .with_error_code(context.code(error))
                    .with_error_message(Some(StrBytes::from_string(reason))),
            }
        });
        let partitions = partitions.collect();
        TopicResponse::default().with_name(topic.name).with_partitions(partitions)
    });
    DescribeProducersResponse::default().with_topics(topics.collect())
}

fn describe(
    context: &Context,
    snapshot: &Snapshot,
    topic: &str,
    index: i32,
) -> Result<Vec<ProducerState>, Refusal> {
    topic_name::validate(topic).map_err(|error| (ErrorCode::InvalidTopicException, error.to_string()))?;
    context.check_authorized(Operation::Read, Resource::Topic(topic))?;
    let view = find_partition(snapshot, topic, index).ok().and_then(|id| snapshot.partition(id));
    let unknown = || (ErrorCode::UnknownTopicOrPartition, format!("\"{topic}\" has no partition {index}"));
    Ok(view.ok_or_else(unknown)?.producers().map(on_wire).collect())
}

fn on_wire(producer: ActiveProducer) -> ProducerState {
    ProducerState::default()
        .with_producer_id(ProducerId(producer.producer_id))
        .with_producer_epoch(i32::from(producer.producer_epoch))
        .with_last_sequence(producer.last_sequence)
        .with_last_timestamp(producer.updated_at_ms)
        .with_coordinator_epoch(producer.coordinator_epoch)
        .with_current_txn_start_offset(producer.transaction_start.unwrap_or(NO_TRANSACTION))
}
