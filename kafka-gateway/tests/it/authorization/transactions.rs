//! Cases of the APIs of transactions.

use kafka_protocol::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use kafka_protocol::messages::*;
use strandline_storage::access::Operation;

use super::world::{World, add_offsets_request, add_request, init_request};
use super::{
    CLUSTER_AUTHORIZATION_FAILED, Case, Codes, LEFT_OUT, TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ask, cluster, group, text, topic, transactional_id,
};
use crate::support::*;

const ID: &[i16] = &[TRANSACTIONAL_ID_AUTHORIZATION_FAILED];
const CLUSTER: &[i16] = &[CLUSTER_AUTHORIZATION_FAILED];

fn name(name: &str) -> TransactionalId {
    TransactionalId(text(name))
}

pub(super) const CASES: &[Case] = &[
    Case::one(ApiKey::InitProducerId, &[transactional_id("y", Operation::Write)], ID, |client, _| {
        ask(client, 4, init_request(Some("y")), |answer| vec![answer.error_code])
    }),
    Case::one(
        ApiKey::AddPartitionsToTxn,
        &[transactional_id("x", Operation::Write), topic("t", Operation::Write)],
        ID,
        |client, world| {
            ask(client, 3, add_request(world.producer), |answer| {
                let topic = &answer.results_by_topic_v3_and_below[0];
                vec![topic.results_by_partition[0].partition_error_code]
            })
        },
    ),
    Case::one(ApiKey::AddPartitionsToTxn, &[cluster(Operation::ClusterAction)], CLUSTER, |client, world| {
        let topic = AddPartitionsToTxnTopic::default().with_name(topic_name("t")).with_partitions(vec![1]);
        let transaction = AddPartitionsToTxnTransaction::default()
            .with_transactional_id(name("x"))
            .with_producer_id(world.producer.producer_id.into())
            .with_producer_epoch(world.producer.producer_epoch)
            .with_topics(vec![topic]);
        let request = AddPartitionsToTxnRequest::default().with_transactions(vec![transaction]);
        ask(client, 4, request, |answer| match &answer.results_by_transaction[..] {
            [result] => vec![result.topic_results[0].results_by_partition[0].partition_error_code],
            _ => vec![answer.error_code],
        })
    }),
    Case::one(
        ApiKey::AddOffsetsToTxn,
        &[transactional_id("x", Operation::Write), group("g", Operation::Read)],
        ID,
        |client, world| ask(client, 3, add_offsets_request(world.producer), |answer| vec![answer.error_code]),
    ),
    Case::one(
        ApiKey::TxnOffsetCommit,
        &[transactional_id("x", Operation::Write), group("g", Operation::Read), topic("t", Operation::Read)],
        ID,
        |client, world| {
            let partition = TxnOffsetCommitRequestPartition::default().with_committed_offset(3);
            let topic = TxnOffsetCommitRequestTopic::default()
                .with_name(topic_name("t"))
                .with_partitions(vec![partition]);
            let request = TxnOffsetCommitRequest::default()
                .with_transactional_id(name("x"))
                .with_group_id(GroupId(text("g")))
                .with_producer_id(world.producer.producer_id.into())
                .with_producer_epoch(world.producer.producer_epoch)
                .with_generation_id(-1)
                .with_topics(vec![topic]);
            ask(client, 3, request, |answer| vec![answer.topics[0].partitions[0].error_code])
        },
    ),
    Case::one(ApiKey::EndTxn, &[transactional_id("x", Operation::Write)], ID, |client, world| {
        let request = EndTxnRequest::default()
            .with_transactional_id(name("x"))
            .with_producer_id(world.producer.producer_id.into())
            .with_producer_epoch(world.producer.producer_epoch)
            .with_committed(true);
        ask(client, 3, request, |answer| vec![answer.error_code])
    }),
    Case::one(ApiKey::WriteTxnMarkers, &[cluster(Operation::ClusterAction)], CLUSTER, write_markers),
    Case::one(ApiKey::WriteTxnMarkers, &[cluster(Operation::Alter)], CLUSTER, write_markers),
    Case::one(
        ApiKey::DescribeProducers,
        &[topic("t", Operation::Read)],
        &[TOPIC_AUTHORIZATION_FAILED],
        |client, _| {
            let topic = TopicRequest::default().with_name(topic_name("t")).with_partition_indexes(vec![0]);
            let request = DescribeProducersRequest::default().with_topics(vec![topic]);
            ask(client, 0, request, |answer| vec![answer.topics[0].partitions[0].error_code])
        },
    ),
    Case::one(
        ApiKey::DescribeTransactions,
        &[transactional_id("x", Operation::Describe)],
        ID,
        |client, _| {
            let request = DescribeTransactionsRequest::default().with_transactional_ids(vec![name("x")]);
            ask(client, 0, request, |answer| {
                let state = &answer.transaction_states[0];
                assert!(state.topics.is_empty(), "a topic that is hidden is left out: {state:?}");
                vec![state.error_code]
            })
        },
    ),
    Case::one(
        ApiKey::ListTransactions,
        &[transactional_id("x", Operation::Describe)],
        &[LEFT_OUT],
        |client, _| {
            let request = ListTransactionsRequest::default().with_duration_filter(-1);
            ask(client, 1, request, |answer| match answer.transaction_states.len() {
                1 => vec![answer.error_code],
                _ => vec![LEFT_OUT],
            })
        },
    ),
];

fn write_markers<'a>(client: &'a mut Client, world: &'a World) -> Codes<'a> {
    let topic = WritableTxnMarkerTopic::default().with_name(topic_name("t")).with_partition_indexes(vec![0]);
    let marker = WritableTxnMarker::default()
        .with_producer_id(world.producer.producer_id.into())
        .with_producer_epoch(world.producer.producer_epoch)
        .with_topics(vec![topic]);
    let request = WriteTxnMarkersRequest::default().with_markers(vec![marker]);
    ask(client, 1, request, |answer| vec![answer.markers[0].topics[0].partitions[0].error_code])
}
