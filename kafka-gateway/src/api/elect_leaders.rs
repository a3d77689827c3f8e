//! ElectLeaders (key 43): this broker leads every partition already.
//!
//! # Behavior
//! - ELECTION_NOT_NEEDED for each partition that is named. Null partitions mean all, and then only
//!   those whose leader changed are answered, which are none (as in Apache Kafka).
//!
//! # Version notes
//! - 0 has no error for the whole request: each partition has it, as in later versions, too.
//! - 1: a type of election; an unknown one is INVALID_REQUEST.

use kafka_protocol::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use kafka_protocol::messages::{ElectLeadersRequest, ElectLeadersResponse};
use kafka_protocol::protocol::StrBytes;

use crate::authorize::{Operation, Resource};
use crate::context::{Context, find_partition};
use crate::error_code::ErrorCode;

/// Preferred and unclean, by `ElectionType` of the Java client.
const ELECTION_TYPES: [i8; 2] = [0, 1];
const TYPE_SINCE: i16 = 1;

pub(super) async fn answer(context: Context, request: ElectLeadersRequest) -> ElectLeadersResponse {
    if let Err(error) = context.authorize(Operation::Alter, Resource::Cluster) {
        let refused = respond(&context, request, |_, _| (error, "not authorized"));
        return if context.version < TYPE_SINCE {
            refused
        } else {
            refused.with_error_code(context.code(error))
        };
    }
    if !ELECTION_TYPES.contains(&request.election_type) {
        return ElectLeadersResponse::default().with_error_code(context.code(ErrorCode::InvalidRequest));
    }
    let snapshot = context.log().snapshot();
    respond(&context, request, |topic, index| match find_partition(&snapshot, topic, index) {
        Ok(_) => (ErrorCode::ElectionNotNeeded, "the only broker leads it"),
        Err(error) => (error, "no such partition"),
    })
}

/// One code and reason for each partition that is named.
fn respond(
    context: &Context,
    request: ElectLeadersRequest,
    outcome: impl Fn(&str, i32) -> (ErrorCode, &'static str),
) -> ElectLeadersResponse {
    let topics = request.topic_partitions.into_iter().flatten().map(|topic| {
        let partitions = topic.partitions.iter().map(|index| {
            let (error, reason) = outcome(&topic.topic, *index);
            PartitionResult::default()
                .with_partition_id(*index)
                .with_error_code(context.code(error))
                .with_error_message(Some(StrBytes::from_static_str(reason)))
        });
        let partitions = partitions.collect();
        ReplicaElectionResult::default().with_topic(topic.topic).with_partition_result(partitions)
    });
    ElectLeadersResponse::default().with_replica_election_results(topics.collect())
}
