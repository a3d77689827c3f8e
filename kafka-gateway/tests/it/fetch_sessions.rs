//! Fetch sessions and topic ids, through a gateway.

use bytes::Bytes;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, FetchRequest, FetchResponse, ProduceRequest,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use crate::support::*;

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const INVALID_TIMESTAMP: i16 = 32;
const FETCH_SESSION_ID_NOT_FOUND: i16 = 70;
const INVALID_FETCH_SESSION_EPOCH: i16 = 71;
const UNSUPPORTED_COMPRESSION_TYPE: i16 = 76;
const INVALID_RECORD: i16 = 87;
const UNKNOWN_TOPIC_ID: i16 = 100;
const INCONSISTENT_TOPIC_ID: i16 = 103;
const FETCH_SESSION_TOPIC_ID_ERROR: i16 = 106;
/// The newest version that names topics by name.
const BY_NAME: i16 = 12;
const BY_ID: i16 = 18;

fn positions(positions: &[(i32, i64)]) -> Vec<FetchPartition> {
    let one = |(partition, offset): &(i32, i64)| {
        FetchPartition::default()
            .with_partition(*partition)
            .with_fetch_offset(*offset)
            .with_partition_max_bytes(1_000_000)
    };
    positions.iter().map(one).collect()
}

/// A request of a session that names a topic or none, and does not wait.
fn request((id, epoch): (i32, i32), topic: Option<FetchTopic>) -> FetchRequest {
    FetchRequest::default()
        .with_max_bytes(1_000_000)
        .with_session_id(id)
        .with_session_epoch(epoch)
        .with_topics(topic.into_iter().collect())
}

fn by_name(name: &str, partitions: &[(i32, i64)]) -> Option<FetchTopic> {
    Some(FetchTopic::default().with_topic(topic_name(name)).with_partitions(positions(partitions)))
}

fn by_id(id: Uuid, partitions: &[(i32, i64)]) -> Option<FetchTopic> {
    Some(FetchTopic::default().with_topic_id(id).with_partitions(positions(partitions)))
}

/// The partitions of an answer: number, error, and whether there are records.
fn answered(response: &FetchResponse) -> Vec<(i32, i16, bool)> {
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    let one = |one: &kafka_protocol::messages::fetch_response::PartitionData| {
        let has_records = one.records.as_ref().is_some_and(|records| !records.is_empty());
        (one.partition_index, one.error_code, has_records)
    };
    partitions.map(one).collect()
}

fn topic_id(gateway: &TestGateway, name: &str) -> Uuid {
    gateway.log.snapshot().topic(name).unwrap().id.as_uuid()
}

async fn delete(client: &mut Client, name: &str) {
    let request =
        DeleteTopicsRequest::default().with_topic_names(vec![topic_name(name)]).with_timeout_ms(10_000);
    assert_eq!(client.call(5, &request).await.responses[0].error_code, 0);
}

#[tokio::test]
async fn a_session_answers_with_what_is_new() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 3).await;
    let id = topic_id(&gateway, "t");
    for (version, topic) in [(7, by_name("t", &[(0, 0), (1, 0)])), (BY_ID, by_id(id, &[(0, 0), (1, 0)]))] {
        let created = client.call(version, &request((0, 0), topic.clone())).await;
        assert_eq!(created.error_code, 0);
        assert!(created.session_id > 0);
        let session = created.session_id;
        let nothing_new = client.call(version, &request((session, 1), None)).await;
        assert_eq!((nothing_new.session_id, answered(&nothing_new)), (session, vec![]));
        client.produce("t", 2, batch(&[(1, b"a")])).await;
        let mut more = topic.unwrap();
        more.partitions = positions(&[(2, 0)]);
        let added = client.call(version, &request((session, 2), Some(more.clone()))).await;
        assert_eq!(answered(&added), [(2, 0, true)]);
        let again = client.call(version, &request((session, 3), None)).await;
        assert_eq!(answered(&again), [(2, 0, true)], "the position is still before the record");
        let forgotten = ForgottenTopic::default()
            .with_topic(more.topic)
            .with_topic_id(more.topic_id)
            .with_partitions(vec![2]);
        let without = request((session, 4), None).with_forgotten_topics_data(vec![forgotten]);
        assert_eq!(answered(&client.call(version, &without).await), []);
        let final_request = request((session, -1), None);
        assert_eq!(client.call(version, &final_request).await.session_id, 0);
        let closed = client.call(version, &request((session, 5), None)).await;
        assert_eq!(closed.error_code, FETCH_SESSION_ID_NOT_FOUND);
    }
}

#[tokio::test]
async fn a_request_that_does_not_fit_its_session_says_how() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let session = client.call(BY_NAME, &request((0, 0), by_name("t", &[(0, 0)]))).await.session_id;
    let mut error = async |version, id, epoch| {
        let response = client.call(version, &request((id, epoch), None)).await;
        assert_eq!((response.session_id, response.responses.len()), (0, 0));
        response.error_code
    };
    assert_eq!(error(BY_NAME, session, 9).await, INVALID_FETCH_SESSION_EPOCH);
    assert_eq!(error(BY_NAME, session ^ 1, 1).await, FETCH_SESSION_ID_NOT_FOUND);
    assert_eq!(error(BY_NAME, 0, 1).await, FETCH_SESSION_ID_NOT_FOUND);
    assert_eq!(error(BY_ID, session, 1).await, FETCH_SESSION_TOPIC_ID_ERROR);
    let goes_on = client.call(BY_NAME, &request((session, 1), None)).await;
    assert_eq!((goes_on.error_code, goes_on.session_id), (0, session));
}

/// Reported as librdkafka#4898, franz-go#1364, franz-go#1426.
#[tokio::test]
async fn no_old_session_reads_a_topic_that_was_created_again() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    client.produce("t", 0, batch(&[(1, b"old")])).await;
    let old = topic_id(&gateway, "t");
    let named = client.call(BY_NAME, &request((0, 0), by_name("t", &[(0, 1)]))).await.session_id;
    let identified = client.call(BY_ID, &request((0, 0), by_id(old, &[(0, 1)]))).await.session_id;
    delete(&mut client, "t").await;
    client.create_topic("t", 1).await;
    client.produce("t", 0, batch(&[(1, b"new")])).await;
    client.produce("t", 0, batch(&[(1, b"newer")])).await;
    for epoch in 1..=2 {
        let by_id = client.call(BY_ID, &request((identified, epoch), None)).await;
        assert_eq!(answered(&by_id), [(0, INCONSISTENT_TOPIC_ID, false)]);
    }
    let by_name = client.call(BY_NAME, &request((named, 1), None)).await;
    assert_eq!(answered(&by_name), [(0, UNKNOWN_TOPIC_OR_PARTITION, false)]);
    let looked_again = client.call(BY_NAME, &request((named, 2), None)).await;
    assert_eq!(answered(&looked_again), [(0, 0, true)]);
    let unknown = client.call(13, &request((0, -1), by_id(Uuid::nil(), &[(0, 0)]))).await;
    assert_eq!(answered(&unknown), [(0, UNKNOWN_TOPIC_ID, false)]);
}

#[tokio::test]
async fn a_session_waits_for_records_of_partitions_that_its_request_does_not_name() {
    let gateway = TestGateway::start().await;
    let (mut client, mut producer) = (gateway.connect().await, gateway.connect().await);
    client.create_topic("t", 2).await;
    let id = topic_id(&gateway, "t");
    let session = client.call(BY_ID, &request((0, 0), by_id(id, &[(0, 0), (1, 0)]))).await.session_id;
    let waiting = request((session, 1), None).with_min_bytes(1).with_max_wait_ms(25_000);
    let sent = client.send(BY_ID, &waiting).await;
    producer.produce("t", 1, batch(&[(1, b"a")])).await;
    let response = client.receive::<FetchRequest>(BY_ID, sent).await;
    assert_eq!(answered(&response), [(1, 0, true)]);
}

#[tokio::test]
async fn a_topic_that_is_kept_with_zstd_is_not_for_clients_that_cannot_read_it() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    create_with(&mut client, "t", ("compression.type", "zstd")).await;
    client.produce("t", 0, batch(&[(1, b"a")])).await;
    for version in 4..=12 {
        let response = client.call(version, &request((0, -1), by_name("t", &[(0, 0)]))).await;
        let expected = if version < 10 { (UNSUPPORTED_COMPRESSION_TYPE, false) } else { (0, true) };
        assert_eq!(answered(&response), [(0, expected.0, expected.1)], "version {version}");
    }
}

async fn create_with(client: &mut Client, name: &str, (config, value): (&'static str, &'static str)) {
    let config = CreatableTopicConfig::default()
        .with_name(StrBytes::from_static_str(config))
        .with_value(Some(StrBytes::from_static_str(value)));
    let topic = CreatableTopic::default()
        .with_name(topic_name(name))
        .with_num_partitions(1)
        .with_replication_factor(1)
        .with_configs(vec![config]);
    let create = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(10_000);
    assert_eq!(client.call(7, &create).await.topics[0].error_code, 0);
}

fn produce_by_id(id: Uuid, batch: Bytes) -> ProduceRequest {
    let data = PartitionProduceData::default().with_index(0).with_records(Some(batch));
    let topic = TopicProduceData::default().with_topic_id(id).with_partition_data(vec![data]);
    ProduceRequest::default().with_acks(-1).with_timeout_ms(20_000).with_topic_data(vec![topic])
}

#[tokio::test]
async fn records_are_produced_to_a_topic_by_its_id() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let id = topic_id(&gateway, "t");
    let response = client.call(13, &produce_by_id(id, batch(&[(1, b"a")]))).await;
    assert_eq!(response.responses[0].topic_id, id);
    assert_eq!(single(response).error_code, 0);
    delete(&mut client, "t").await;
    client.create_topic("t", 1).await;
    let refused = single(client.call(13, &produce_by_id(id, batch(&[(1, b"a")]))).await);
    assert_eq!((refused.error_code, refused.base_offset), (UNKNOWN_TOPIC_ID, -1));
}

#[tokio::test]
async fn the_records_that_a_batch_is_refused_for_are_named() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    create_with(&mut client, "compacted", ("cleanup.policy", "compact")).await;
    create_with(&mut client, "recent", ("message.timestamp.before.max.ms", "1000")).await;
    for (topic, error) in [("compacted", INVALID_RECORD), ("recent", INVALID_TIMESTAMP)] {
        let refused = client.produce(topic, 0, batch(&[(1, b"a"), (2, b"b")])).await;
        assert_eq!(refused.error_code, error);
        let named: Vec<_> = refused.record_errors.iter().map(|one| one.batch_index).collect();
        assert_eq!(named, [0, 1]);
        assert!(refused.record_errors.iter().all(|one| one.batch_index_error_message.is_some()));
        assert!(refused.error_message.is_some());
    }
}
