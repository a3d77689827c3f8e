//! Requests of transactional and idempotent producers.

use bytes::Bytes;
use kafka_protocol::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use kafka_protocol::messages::*;

use super::{Asked, group_id, text, topic_name, transactional_id};

/// The producer that the transactional id gets when it is the first one to ask.
pub(super) const PRODUCER_ID: i64 = 0;

pub(super) fn frame(api: ApiKey, asked: Asked) -> Option<Bytes> {
    Some(match api {
        ApiKey::InitProducerId => asked.frame(
            InitProducerIdRequest::default()
                .with_transactional_id(Some(transactional_id()))
                .with_transaction_timeout_ms(60_000)
                .with_producer_id((-1).into())
                .with_producer_epoch(-1),
        ),
        ApiKey::AddPartitionsToTxn => asked.frame(add_partitions(asked)),
        ApiKey::AddOffsetsToTxn => asked.frame(
            AddOffsetsToTxnRequest::default()
                .with_transactional_id(transactional_id())
                .with_producer_id(PRODUCER_ID.into())
                .with_group_id(group_id()),
        ),
        ApiKey::TxnOffsetCommit => {
            let partition = TxnOffsetCommitRequestPartition::default()
                .with_committed_offset(3)
                .with_committed_metadata(Some(text("why")));
            let topic = TxnOffsetCommitRequestTopic::default()
                .with_name(topic_name())
                .with_partitions(vec![partition]);
            let request = TxnOffsetCommitRequest::default()
                .with_transactional_id(transactional_id())
                .with_group_id(group_id())
                .with_producer_id(PRODUCER_ID.into())
                .with_generation_id(-1)
                .with_topics(vec![topic]);
            asked.frame(request)
        }
        ApiKey::EndTxn => asked.frame(
            EndTxnRequest::default()
                .with_transactional_id(transactional_id())
                .with_producer_id(PRODUCER_ID.into())
                .with_committed(true),
        ),
        ApiKey::WriteTxnMarkers => {
            let topic =
                WritableTxnMarkerTopic::default().with_name(topic_name()).with_partition_indexes(vec![0, 9]);
            let marker =
                WritableTxnMarker::default().with_producer_id(PRODUCER_ID.into()).with_topics(vec![topic]);
            asked.frame(WriteTxnMarkersRequest::default().with_markers(vec![marker]))
        }
        ApiKey::DescribeProducers => {
            let topic = TopicRequest::default().with_name(topic_name()).with_partition_indexes(vec![0, 9]);
            asked.frame(DescribeProducersRequest::default().with_topics(vec![topic]))
        }
        ApiKey::DescribeTransactions => asked
            .frame(DescribeTransactionsRequest::default().with_transactional_ids(vec![transactional_id()])),
        ApiKey::ListTransactions => asked.frame(
            ListTransactionsRequest::default()
                .with_state_filters(vec![text("Ongoing"), text("Empty")])
                .with_producer_id_filters(vec![PRODUCER_ID.into()])
                .with_duration_filter(if asked.version >= 1 { 1 } else { -1 })
                .with_transactional_id_pattern(asked.since(2, Some(text("x.*")))),
        ),
        _ => return None,
    })
}

fn add_partitions(asked: Asked) -> AddPartitionsToTxnRequest {
    let topic = AddPartitionsToTxnTopic::default().with_name(topic_name()).with_partitions(vec![0]);
    let request = AddPartitionsToTxnRequest::default();
    if asked.version < 4 {
        return request
            .with_v3_and_below_transactional_id(transactional_id())
            .with_v3_and_below_producer_id(PRODUCER_ID.into())
            .with_v3_and_below_topics(vec![topic]);
    }
    let transaction = AddPartitionsToTxnTransaction::default()
        .with_transactional_id(transactional_id())
        .with_producer_id(PRODUCER_ID.into())
        .with_topics(vec![topic]);
    let asking = transaction.clone().with_verify_only(true);
    request.with_transactions(vec![transaction, asking])
}
