//! Faults that clients met in other gateways, and that no other test would find. docs/pitfalls.md lists all
//! of them, with the test of each and what the short names of the reports stand for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, StrBytes};
use strandline_storage::format::{BatchOptions, ProducerIdentity};
use strandline_storage::object::{LogStore, ObjectStoreBackend};
use uuid::Uuid;

use crate::support::*;

const UNSUPPORTED_VERSION: i16 = 35;
const UNKNOWN_TOPIC_ID: i16 = 100;
/// The newest version of Fetch that names topics by name.
const FETCH_BY_NAME: i16 = 12;

/// Lowest and highest version per API, as clients are told.
async fn advertised(client: &mut Client) -> BTreeMap<i16, (i16, i16)> {
    let answered = client.call(0, &ApiVersionsRequest::default()).await;
    let range = |api: &api_versions_response::ApiVersion| (api.api_key, (api.min_version, api.max_version));
    answered.api_keys.iter().map(range).collect()
}

/// Reported as ockam#4407, kafka-protocol-rs#113 (KIP-511): a header with tagged fields shifts the answer by
/// a byte, for the one API that is asked before the client knows anything.
#[tokio::test]
async fn the_answer_to_api_versions_has_a_plain_header_in_flexible_versions_too() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    let api_count = advertised(&mut client).await.len();
    for version in 3..=4 {
        let mut frame = bare_head(key(ApiKey::ApiVersions), version);
        frame.put_slice(b"\0\x05test\x041.0\0");
        client.send_frame(&frame).await;
        let answer = client.receive_frame().await.unwrap();
        let (head, keys) = answer.split_at(6);
        assert_eq!(head, [0, 0, 0, 77, 0, 0], "correlation id and error, nothing between them");
        assert_eq!(usize::from(keys[0]), api_count + 1, "a compact array begins behind the error");
    }
}

/// Reported as librdkafka#3090: a client that is newer than the gateway has to learn what it may send,
/// although nobody here can read what it sent.
#[tokio::test]
async fn an_unknown_version_of_api_versions_is_answered_whatever_follows_its_head() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    for rest in [&b""[..], &[0xff; 40], b"\0\x05test\x041.0\0"] {
        // Without the client id, which a future header may not have.
        let mut frame = bare_head(key(ApiKey::ApiVersions), i16::MAX);
        frame.truncate(8);
        frame.put_slice(rest);
        client.send_frame(&frame).await;
        let mut answer = client.receive_frame().await.unwrap().split_off(4);
        let answered = ApiVersionsResponse::decode(&mut answer, 0).unwrap();
        assert_eq!((answered.error_code, answered.api_keys.len()), (UNSUPPORTED_VERSION, 1));
    }
}

/// Reported as KAFKA-18646 (kafka#18726), kafka#19131, ydb#52234: librdkafka takes null for "invalid
/// MessageSetSize -1" and fetches again for ever.
#[tokio::test]
async fn records_of_an_answer_are_empty_and_never_null() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    client.produce("t", 0, batch(&[(1, b"a")])).await;
    let known = gateway.log.snapshot().topic("t").unwrap().id.as_uuid();
    for version in 4..=18 {
        for (name, id) in [("t", known), ("none", Uuid::from_u128(7))] {
            for (partition, offset) in [(0, 1), (0, 99), (0, -1), (5, 0)] {
                let mut request = fetch_request(name, partition, Fetch::from(offset));
                name_topics(&mut request, version, id);
                let answered = fetched(client.call::<FetchRequest>(version, &request).await);
                let place = format!("{name} {partition} {offset} in version {version}");
                assert_eq!(answered.records.as_deref(), Some(&b""[..]), "{place}");
            }
        }
    }
}

/// Reported as redpanda#25636, sarama#992, kroxylicious#507: clients match answers to requests by their
/// order.
#[tokio::test]
async fn a_request_that_waits_holds_back_the_answers_behind_it() {
    let gateway = TestGateway::start().await;
    let (mut client, mut producer) = (gateway.connect().await, gateway.connect().await);
    client.create_topic("t", 1).await;
    let long_poll = Fetch { max_wait_ms: 25_000, ..Fetch::from(0) };
    let fetch = client.send(11, &fetch_request("t", 0, long_poll)).await;
    let metadata = client.send(4, &MetadataRequest::default()).await;
    let versions = client.send(0, &ApiVersionsRequest::default()).await;
    producer.produce("t", 0, batch(&[(1, b"a")])).await;
    let answered = fetched(client.receive::<FetchRequest>(11, fetch).await);
    assert_eq!((answered.error_code, answered.high_watermark), (0, 1));
    client.receive::<MetadataRequest>(4, metadata).await;
    client.receive::<ApiVersionsRequest>(0, versions).await;
}

/// Reported as redpanda docs#1695: Java and librdkafka have five requests in flight, so a gateway that takes
/// one at a time makes each of them wait for a commit of its own.
#[tokio::test]
async fn requests_in_flight_on_one_connection_share_a_commit() {
    const IN_FLIGHT: u64 = 5;
    let gateway = TestGateway::start_lingering(Duration::from_millis(500)).await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let commits = || gateway.log.snapshot().shard_stats()[0].wal_objects;
    let before = commits();
    let mut sent = Vec::new();
    for _ in 0..IN_FLIGHT {
        sent.push(client.send(8, &produce_request("t", 0, batch(&[(1, b"a")]))).await);
    }
    for (offset, correlation_id) in (0..).zip(sent) {
        let answered = single(client.receive::<ProduceRequest>(8, correlation_id).await);
        assert_eq!((answered.error_code, answered.base_offset), (0, offset));
    }
    assert!(commits() - before < IN_FLIGHT, "{} commits", commits() - before);
}

/// Reported as kop#242: a controller of -1 makes admin clients ask for ever. librdkafka warns of a cluster id
/// that changes, and begins anew when it is told to (librdkafka#5605).
#[tokio::test]
async fn the_controller_is_a_broker_that_is_listed_and_the_cluster_is_always_the_same() {
    let store: Arc<dyn LogStore> = Arc::new(ObjectStoreBackend::memory());
    let mut first = None;
    for _ in 0..2 {
        let gateway = TestGateway::start_on(store.clone(), settings()).await;
        let mut client = gateway.connect().await;
        let known = first.get_or_insert(gateway.log.cluster_id().to_owned()).clone();
        for version in 1..=13 {
            let request = MetadataRequest::default().with_topics(Some(Vec::new()));
            let answered = client.call(version, &request).await;
            let nodes: Vec<_> = answered.brokers.iter().map(|broker| broker.node_id).collect();
            assert!(nodes.contains(&answered.controller_id), "version {version}");
            let cluster = (version >= 2).then_some(known.as_str());
            assert_eq!(answered.cluster_id.as_deref(), cluster, "version {version}");
            assert_eq!(answered.error_code, 0, "version {version}: no request to bootstrap again");
        }
        for version in 0..=2 {
            let answered = client.call(version, &DescribeClusterRequest::default()).await;
            assert_eq!(answered.cluster_id.as_str(), known);
            assert!(answered.brokers.iter().any(|broker| broker.broker_id == answered.controller_id));
        }
        drop(client);
        gateway.log.close().await;
        gateway.stop().await;
    }
}

fn by_name(topic: &str) -> MetadataRequest {
    let topic = MetadataRequestTopic::default().with_name(Some(topic_name(topic)));
    MetadataRequest::default().with_topics(Some(vec![topic]))
}

fn readers() -> GroupId {
    GroupId(StrBytes::from_static_str("readers"))
}

/// Commits offset 1 of partition 0 with a leader epoch.
async fn commit(client: &mut Client, topic: &str, leader_epoch: i32) {
    let partition = OffsetCommitRequestPartition::default()
        .with_committed_offset(1)
        .with_committed_leader_epoch(leader_epoch);
    let topic =
        OffsetCommitRequestTopic::default().with_name(topic_name(topic)).with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default()
        .with_group_id(readers())
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic]);
    let answered = client.call(8, &request).await;
    assert_eq!(answered.topics[0].partitions[0].error_code, 0);
}

/// Offset and leader epoch that are committed for partition 0.
async fn committed(client: &mut Client, topic: &str) -> (i64, i32) {
    let topic =
        OffsetFetchRequestTopic::default().with_name(topic_name(topic)).with_partition_indexes(vec![0]);
    let request = OffsetFetchRequest::default().with_group_id(readers()).with_topics(Some(vec![topic]));
    let answered = client.call(7, &request).await;
    let partition = &answered.topics[0].partitions[0];
    assert_eq!(partition.error_code, 0);
    (partition.committed_offset, partition.committed_leader_epoch)
}

/// Offset and leader epoch that ListOffsets answers for partition 0.
async fn listed(client: &mut Client, topic: &str, timestamp: i64) -> (i64, i32) {
    let partition = ListOffsetsPartition::default().with_current_leader_epoch(-1).with_timestamp(timestamp);
    let topic = ListOffsetsTopic::default().with_name(topic_name(topic)).with_partitions(vec![partition]);
    let answered = client.call(10, &ListOffsetsRequest::default().with_topics(vec![topic])).await;
    let partition = &answered.topics[0].partitions[0];
    assert_eq!(partition.error_code, 0);
    (partition.offset, partition.leader_epoch)
}

/// Where a leader epoch ends, and the epoch that is answered with it.
async fn epoch_end(client: &mut Client, topic: &str, leader_epoch: i32) -> (i64, i32) {
    let partition = OffsetForLeaderPartition::default()
        .with_current_leader_epoch(leader_epoch)
        .with_leader_epoch(leader_epoch);
    let topic =
        OffsetForLeaderTopic::default().with_topic(topic_name(topic)).with_partitions(vec![partition]);
    let answered = client.call(4, &OffsetForLeaderEpochRequest::default().with_topics(vec![topic])).await;
    let partition = &answered.topics[0].partitions[0];
    assert_eq!(partition.error_code, 0);
    (partition.end_offset, partition.leader_epoch)
}

/// Reported as redpanda#2043, redpanda#5435, redpanda#9850, redpanda#11864: a client that finds two epochs
/// takes its position for one of a log that was cut off.
#[tokio::test]
async fn one_leader_epoch_is_told_everywhere_also_after_a_restart() {
    let store: Arc<dyn LogStore> = Arc::new(ObjectStoreBackend::memory());
    for round in 0..2 {
        let gateway = TestGateway::start_on(store.clone(), settings()).await;
        let mut client = gateway.connect().await;
        if round == 0 {
            client.create_topic("t", 1).await;
            client.produce("t", 0, batch(&[(1, b"a")])).await;
        }
        let metadata = client.call(FETCH_BY_NAME, &by_name("t")).await;
        let epoch = metadata.topics[0].partitions[0].leader_epoch;
        let mut request = fetch_request("t", 0, Fetch::from(0));
        request.topics[0].partitions[0].current_leader_epoch = epoch;
        let answered = fetched(client.call::<FetchRequest>(11, &request).await);
        assert_eq!(answered.error_code, 0);
        assert_eq!(&answered.records.unwrap()[12..16], epoch.to_be_bytes(), "of the batch");
        assert_eq!(listed(&mut client, "t", -1).await, (1, epoch));
        assert_eq!(listed(&mut client, "t", 0).await, (0, epoch));
        assert_eq!(epoch_end(&mut client, "t", epoch).await, (1, epoch));
        if round == 0 {
            commit(&mut client, "t", epoch).await;
        }
        assert_eq!(committed(&mut client, "t").await, (1, epoch));
        drop(client);
        gateway.log.close().await;
        gateway.stop().await;
    }
}

fn sequenced(producer_id: i64, base_sequence: i32) -> Bytes {
    let producer = Some(ProducerIdentity { producer_id, producer_epoch: 0, base_sequence });
    batch_with(BatchOptions { producer, ..BatchOptions::default() }, &[(1, b"a")])
}

/// Reported as librdkafka#4898, librdkafka#4806, franz-go#1364, franz-go#1426, inkless#265: an old offset,
/// sequence or id that still counts in a topic of the same name loses records or reads others.
#[tokio::test]
async fn nothing_of_a_deleted_topic_is_left_in_a_new_one_of_its_name() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    for base_sequence in 0..3 {
        assert_eq!(client.produce("t", 0, sequenced(7, base_sequence)).await.error_code, 0);
    }
    commit(&mut client, "t", 0).await;
    let old = client.call(FETCH_BY_NAME, &by_name("t")).await.topics[0].topic_id;
    let deleted = DeleteTopicState::default().with_name(None).with_topic_id(old);
    let delete = DeleteTopicsRequest::default().with_topics(vec![deleted]).with_timeout_ms(10_000);
    assert_eq!(client.call(6, &delete).await.responses[0].error_code, 0);
    client.create_topic("t", 1).await;

    let new = client.call(FETCH_BY_NAME, &by_name("t")).await.topics[0].topic_id;
    assert!(new != old && !new.is_nil());
    assert_eq!(committed(&mut client, "t").await, (-1, -1));
    assert_eq!(listed(&mut client, "t", -1).await.0, 0);
    let mut request = fetch_request("t", 0, Fetch::from(0));
    name_topics(&mut request, 13, old);
    let answered = fetched(client.call::<FetchRequest>(13, &request).await);
    assert_eq!(answered.error_code, UNKNOWN_TOPIC_ID);
    // Neither a duplicate of what the old topic had, nor out of its order.
    let appended = client.produce("t", 0, sequenced(7, 1)).await;
    assert_eq!((appended.error_code, appended.base_offset), (0, 0));
}

/// Reported as KAFKA-9216, kafka#8828, event-hubs#42: Connect and schema registries refuse to start on a
/// topic of theirs that is not "compact", whatever became of their wish.
#[tokio::test]
async fn a_topic_that_is_asked_to_be_compact_is_described_as_such() {
    const TOPIC: i8 = 2;
    let policy = StrBytes::from_static_str("cleanup.policy");
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    let compact = CreatableTopicConfig::default()
        .with_name(policy.clone())
        .with_value(Some(StrBytes::from_static_str("compact")));
    let topic = CreatableTopic::default()
        .with_name(topic_name("_schemas"))
        .with_num_partitions(1)
        .with_replication_factor(3)
        .with_configs(vec![compact]);
    let create = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(10_000);
    let created = client.call(7, &create).await.topics.remove(0);
    let told = created.configs.unwrap().into_iter().find(|config| config.name == policy);
    assert_eq!(told.unwrap().value.as_deref(), Some("compact"));
    for version in 1..=4 {
        for keys in [None, Some(vec![policy.clone()])] {
            let resource = DescribeConfigsResource::default()
                .with_resource_type(TOPIC)
                .with_resource_name(StrBytes::from_static_str("_schemas"))
                .with_configuration_keys(keys);
            let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
            let described = client.call(version, &request).await.results.remove(0);
            let found = described.configs.iter().find(|config| config.name == policy);
            assert_eq!(found.unwrap().value.as_deref(), Some("compact"), "version {version}");
        }
    }
}

/// Reported as kafka#20661 (KIP-714): a client that is offered telemetry sends it, and is confused by what
/// answers.
#[tokio::test]
async fn telemetry_is_not_offered() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    let offered = advertised(&mut client).await;
    for api in [ApiKey::GetTelemetrySubscriptions, ApiKey::PushTelemetry] {
        assert!(!offered.contains_key(&key(api)));
    }
}

/// kafka-python goes by these maxima, newest first, to find out how old a broker is, and by that which
/// requests it sends. What is told here is a Kafka 4.1, neither more nor less.
#[tokio::test]
async fn clients_that_guess_the_version_of_the_broker_find_kafka_4_1() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    let offered = advertised(&mut client).await;
    let has = |api, version| offered.get(&key(api)).is_some_and(|(_, highest)| *highest >= version);
    assert!(!has(ApiKey::DescribeLogDirs, 5), "Kafka 4.3");
    assert!(!has(ApiKey::ListOffsets, 11), "Kafka 4.2");
    assert!(has(ApiKey::Produce, 13), "Kafka 4.1");
    assert!(has(ApiKey::ListOffsets, 10), "Kafka 4.0");
}

/// kafkajs sends the lower one of its own highest version and the gateway's, without a look at the gateway's
/// lowest.
#[tokio::test]
async fn the_versions_that_kafkajs_chooses_are_served() {
    /// The highest versions of kafkajs 2.2.4 for the APIs that have a lowest version above 0 somewhere.
    const HIGHEST: [(ApiKey, i16); 12] = [
        (ApiKey::Produce, 7),
        (ApiKey::Fetch, 11),
        (ApiKey::ListOffsets, 3),
        (ApiKey::Metadata, 6),
        (ApiKey::OffsetCommit, 5),
        (ApiKey::OffsetFetch, 4),
        (ApiKey::CreateTopics, 3),
        (ApiKey::DeleteTopics, 1),
        (ApiKey::DescribeAcls, 1),
        (ApiKey::CreateAcls, 1),
        (ApiKey::DeleteAcls, 1),
        (ApiKey::DescribeConfigs, 2),
    ];
    /// What is served of Produce, which is advertised from 0 on.
    const PRODUCE_LOWEST: i16 = 3;
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    let offered = advertised(&mut client).await;
    for (api, own_highest) in HIGHEST {
        let (lowest, highest) = offered[&key(api)];
        let lowest = if api == ApiKey::Produce { PRODUCE_LOWEST } else { lowest };
        assert!(own_highest.min(highest) >= lowest, "{api:?}");
    }
    client.create_topic("t", 1).await;
    let request = produce_request("t", 0, batch(&[(1, b"a")]));
    assert_eq!(single(client.call(PRODUCE_LOWEST, &request).await).error_code, 0);
}

/// A page that names tests which were renamed or never written proves nothing.
#[test]
fn every_test_that_the_page_names_exists() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |path: &str| {
        std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let page = read("docs/pitfalls.md");
    let quoted = page.split('`').skip(1).step_by(2);
    let named: Vec<_> = quoted.filter_map(|text| text.split_once("::")).collect();
    assert!(named.len() > 50, "{} tests", named.len());
    for (path, function) in named {
        assert!(read(path).contains(&format!("fn {function}(")), "{path} has no {function}");
    }
    for (path, check) in scripts(&page) {
        assert!(read(path).contains(check), "{path} has no \"{check}\"");
    }
}

/// Files and checks that are written as `file`: "check".
fn scripts(page: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = page.split("`: \"").collect();
    let around = parts.windows(2).map(|around| {
        let path = around[0].rsplit('`').next().expect("a split has a first part");
        (path, around[1].split('"').next().expect("a split has a first part"))
    });
    around.collect()
}
