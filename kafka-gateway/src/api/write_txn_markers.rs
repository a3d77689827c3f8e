//! WriteTxnMarkers (key 27): markers of transactions, written without their coordinator.
//!
//! # Behavior
//! - It takes Alter or ClusterAction on the cluster.
//! - For operators, who end a transaction that hangs in a partition (`kafka-transactions abort`).
//! - An epoch below the partition's is INVALID_PRODUCER_EPOCH, a coordinator epoch below it
//!   TRANSACTION_COORDINATOR_FENCED.
//!
//! # Version notes
//! - 1 is the only one that is served.

use kafka_protocol::messages::write_txn_markers_request::WritableTxnMarker;
use kafka_protocol::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use kafka_protocol::messages::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};
use strandline_storage::format::event::TransactionResult;
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::EndTransaction;

use crate::authorize::{Operation, Resource};
use crate::context::{Context, find_partition};
use crate::error_code::{ErrorCode, NONE};

type Codes = std::vec::IntoIter<Result<(), ErrorCode>>;

pub(super) async fn answer(context: Context, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse {
    let allowed = match context.may(Operation::Alter, Resource::Cluster) {
        true => Ok(()),
        false => context.authorize(Operation::ClusterAction, Resource::Cluster),
    };
    let mut markers = Vec::with_capacity(request.markers.len());
    for marker in &request.markers {
        let codes = match allowed {
            Ok(()) => write(&context, marker).await,
            Err(error) => Err(error),
        };
        markers.push(respond(&context, marker, codes));
    }
    WriteTxnMarkersResponse::default().with_markers(markers)
}

/// What became of each partition, or one error for all of them.
async fn write(context: &Context, marker: &WritableTxnMarker) -> Result<Codes, ErrorCode> {
    let snapshot = context.log().snapshot();
    let mut found = Vec::new();
    for topic in &marker.topics {
        let find = |index: &i32| find_partition(&snapshot, &topic.name, *index);
        found.extend(topic.partition_indexes.iter().map(find));
    }
    let partitions: Vec<TopicPartition> = found.iter().flatten().copied().collect();
    let ended = context.log().end_transaction(EndTransaction {
        producer_id: marker.producer_id.0,
        producer_epoch: marker.producer_epoch,
        coordinator_epoch: marker.coordinator_epoch,
        result: match marker.transaction_result {
            true => TransactionResult::Commit,
            false => TransactionResult::Abort,
        },
        partitions,
        offsets: Vec::new(),
    });
    let ended = ended.await.map_err(|error| ErrorCode::from(&error))?;
    let mut marked = ended.partitions.into_iter();
    let codes = found.into_iter().map(|found| {
        found?;
        let marked = marked.next().expect("the log answers every marker");
        marked.map(drop).map_err(|error| ErrorCode::from(&error))
    });
    Ok(codes.collect::<Vec<_>>().into_iter())
}

fn respond(
    context: &Context,
    marker: &WritableTxnMarker,
    mut codes: Result<Codes, ErrorCode>,
) -> WritableTxnMarkerResult {
    let mut next = || match &mut codes {
        Ok(codes) => codes.next().expect("every partition has a code"),
        Err(error) => Err(*error),
    };
    let topics = marker.topics.iter().map(|topic| {
        let partitions = topic.partition_indexes.iter().map(|index| {
            let code = next().map_or_else(|error| context.code(error), |()| NONE);
            WritableTxnMarkerPartitionResult::default().with_partition_index(*index).with_error_code(code)
        });
        let partitions = partitions.collect();
        WritableTxnMarkerTopicResult::default().with_name(topic.name.clone()).with_partitions(partitions)
    });
    let topics = topics.collect();
    WritableTxnMarkerResult::default().with_producer_id(marker.producer_id).with_topics(topics)
}
