//! Cases of the APIs that write and read records.

use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::*;
use strandline_storage::access::Operation;
use strandline_storage::format::{BatchKind, BatchOptions, ProducerIdentity};

use super::world::World;
use super::{
    CLUSTER_AUTHORIZATION_FAILED, Case, Codes, TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ask, cluster, text, topic, transactional_id,
};
use crate::support::*;

const TOPIC: &[i16] = &[TOPIC_AUTHORIZATION_FAILED];

pub(super) const CASES: &[Case] = &[
    Case::one(ApiKey::Produce, &[topic("t", Operation::Write)], TOPIC, |client, _| {
        let request = produce_request("t", 0, batch(&[(4, b"d")]));
        ask(client, 9, request, produced)
    }),
    Case::one(ApiKey::Produce, &[topic("t", Operation::Write)], TOPIC, |client, world| {
        let mut request = produce_request("t", 0, batch(&[(4, b"d")]));
        request.topic_data[0].name = TopicName::default();
        request.topic_data[0].topic_id = world.topic_id;
        ask(client, 13, request, produced)
    }),
    Case::one(
        ApiKey::Produce,
        &[topic("t", Operation::Write), transactional_id("x", Operation::Write)],
        &[TRANSACTIONAL_ID_AUTHORIZATION_FAILED],
        transactional,
    ),
    Case::one(ApiKey::Fetch, &[topic("t", Operation::Read)], TOPIC, |client, _| {
        ask(client, 11, fetch_request("t", 0, Fetch::from(0)), read)
    }),
    Case::one(ApiKey::Fetch, &[topic("t", Operation::Read)], TOPIC, |client, world| {
        let mut request = fetch_request("t", 0, Fetch::from(0));
        name_topics(&mut request, 13, world.topic_id);
        ask(client, 13, request, read)
    }),
    Case::one(ApiKey::ListOffsets, &[topic("t", Operation::Describe)], TOPIC, |client, _| {
        let partition = ListOffsetsPartition::default().with_timestamp(-1);
        let topic = ListOffsetsTopic::default().with_name(topic_name("t")).with_partitions(vec![partition]);
        let request = ListOffsetsRequest::default().with_topics(vec![topic]);
        ask(client, 5, request, |answer| vec![answer.topics[0].partitions[0].error_code])
    }),
    Case::one(ApiKey::DeleteRecords, &[topic("t", Operation::Delete)], TOPIC, |client, _| {
        let partition = DeleteRecordsPartition::default().with_offset(1);
        let topic = DeleteRecordsTopic::default().with_name(topic_name("t")).with_partitions(vec![partition]);
        let request = DeleteRecordsRequest::default().with_timeout_ms(20_000).with_topics(vec![topic]);
        ask(client, 2, request, |answer| vec![answer.topics[0].partitions[0].error_code])
    }),
    Case::one(ApiKey::OffsetForLeaderEpoch, &[topic("t", Operation::Describe)], TOPIC, epochs),
    Case::one(ApiKey::OffsetForLeaderEpoch, &[cluster(Operation::ClusterAction)], TOPIC, epochs),
    Case::one(
        ApiKey::InitProducerId,
        &[cluster(Operation::IdempotentWrite)],
        &[CLUSTER_AUTHORIZATION_FAILED],
        init,
    ),
    Case::one(
        ApiKey::InitProducerId,
        &[topic("other", Operation::Write)],
        &[CLUSTER_AUTHORIZATION_FAILED],
        init,
    ),
];

fn produced(answer: ProduceResponse) -> Vec<i16> {
    let partition = single(answer);
    assert_eq!(partition.error_code == 0, partition.base_offset >= 0, "{partition:?}");
    vec![partition.error_code]
}

/// A transactional batch, and one that is none: both are refused without the right to the id.
fn transactional<'a>(client: &'a mut Client, world: &'a World) -> Codes<'a> {
    let producer = ProducerIdentity {
        producer_id: world.producer.producer_id,
        producer_epoch: world.producer.producer_epoch,
        base_sequence: 0,
    };
    let options =
        BatchOptions { producer: Some(producer), kind: BatchKind::Transactional, ..BatchOptions::default() };
    let mut request = produce_request("t", 0, batch_with(options, &[(4, b"d")]))
        .with_transactional_id(Some(TransactionalId(text("x"))));
    let mut other = produce_request("t", 1, batch(&[(4, b"d")]));
    request.topic_data[0].partition_data.append(&mut other.topic_data[0].partition_data);
    ask(client, 9, request, |answer| {
        let codes: Vec<_> =
            answer.responses[0].partition_responses.iter().map(|one| one.error_code).collect();
        assert_eq!((codes.len(), codes[0]), (2, codes[1]), "{answer:?}");
        vec![codes[0]]
    })
}

fn read(answer: FetchResponse) -> Vec<i16> {
    let partition = fetched(answer);
    let has_records = partition.records.as_ref().is_some_and(|records| !records.is_empty());
    assert_eq!(partition.error_code == 0, has_records, "{partition:?}");
    vec![partition.error_code]
}

fn epochs<'a>(client: &'a mut Client, _: &'a World) -> Codes<'a> {
    let partition = OffsetForLeaderPartition::default().with_current_leader_epoch(-1);
    let topic = OffsetForLeaderTopic::default().with_topic(topic_name("t")).with_partitions(vec![partition]);
    let request = OffsetForLeaderEpochRequest::default().with_topics(vec![topic]);
    ask(client, 3, request, |answer| vec![answer.topics[0].partitions[0].error_code])
}

fn init<'a>(client: &'a mut Client, _: &'a World) -> Codes<'a> {
    ask(client, 4, super::world::init_request(None), |answer| {
        assert_eq!(answer.error_code == 0, answer.producer_id.0 >= 0);
        vec![answer.error_code]
    })
}
