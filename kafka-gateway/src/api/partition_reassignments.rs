//! AlterPartitionReassignments (key 45) and ListPartitionReassignments (key 46).
//!
//! # Behavior
//! - Every partition is on this broker alone, and nothing is ever on its way to another: the list is
//!   empty, and there is nothing to cancel (NO_REASSIGNMENT_IN_PROGRESS).
//! - An assignment to this broker alone is what there is, and changes nothing; any other is
//!   INVALID_REPLICA_ASSIGNMENT.
//!
//! # Version notes
//! - Alter 1 asks whether the replication factor may change, which makes no difference here.

use kafka_protocol::messages::alter_partition_reassignments_request::ReassignablePartition;
use kafka_protocol::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use kafka_protocol::messages::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};
use kafka_protocol::protocol::StrBytes;
use strandline_storage::log::Snapshot;

use crate::authorize::{Operation, Resource};
use crate::context::{Context, Refusal, find_partition};
use crate::error_code::ErrorCode;

pub(super) async fn list(
    context: Context,
    _request: ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse {
    let response = ListPartitionReassignmentsResponse::default().with_error_message(None);
    match context.check_authorized(Operation::Describe, Resource::Cluster) {
        Ok(()) => response,
        Err((error, reason)) => response
            .with_error_code(context.code(error))
            .with_error_message(Some(StrBytes::from_string(reason))),
    }
}

pub(super) async fn alter(
    context: Context,
    request: AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignmentsResponse {
    let mut response = AlterPartitionReassignmentsResponse::default()
        .with_allow_replication_factor_change(request.allow_replication_factor_change)
        .with_error_message(None);
    // Who may not is told so as a whole and for each partition.
    let authorized = context.check_authorized(Operation::Alter, Resource::Cluster);
    if let Err((error, reason)) = &authorized {
        response.error_code = context.code(*error);
        response.error_message = Some(StrBytes::from_string(reason.clone()));
    }
    let snapshot = context.log().snapshot();
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            let result = ReassignablePartitionResponse::default()
                .with_partition_index(partition.partition_index)
                .with_error_message(None);
            let checked = authorized.clone();
            match checked.and_then(|()| check(&context, &snapshot, &topic.name, partition)) {
                Ok(()) => result,
                Err((error, reason)) => result
                    .with_error_code(context.code(error))
                    .with_error_message(Some(StrBytes::from_string(reason))),
            }
        });
        let partitions = partitions.collect();
        ReassignableTopicResponse::default().with_name(topic.name).with_partitions(partitions)
    });
    response.with_responses(topics.collect())
}

fn check(
    context: &Context,
    snapshot: &Snapshot,
    topic: &str,
    partition: &ReassignablePartition,
) -> Result<(), Refusal> {
    let index = partition.partition_index;
    find_partition(snapshot, topic, index)
        .map_err(|error| (error, format!("\"{topic}\" has no partition {index}")))?;
    let node_id = context.settings().node_id;
    match partition.replicas.as_deref() {
        None => {
            Err((ErrorCode::NoReassignmentInProgress, "partitions are never on their way here".to_owned()))
        }
        Some([replica]) if *replica == node_id => Ok(()),
        Some(_) => {
            let reason = format!("a partition is on broker {node_id} alone");
            Err((ErrorCode::InvalidReplicaAssignment, reason))
        }
    }
}
