//! ApiVersions, Metadata, topics, configs and the cluster.

use bytes::Buf;
use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, ApiVersionsResponse, CreateTopicsRequest, DeleteRecordsRequest,
    DeleteTopicsRequest, DescribeClusterRequest, DescribeConfigsRequest, FindCoordinatorRequest,
    MetadataRequest,
};
use kafka_protocol::protocol::{Decodable, StrBytes};
use strandline_kafka_gateway::{AutoCreate, GatewaySettings, ListenerSettings};
use strandline_storage::ids::TopicPartition;
use uuid::Uuid;

use crate::support::*;

const OFFSET_OUT_OF_RANGE: i16 = 1;
const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const INVALID_TOPIC_EXCEPTION: i16 = 17;
const UNSUPPORTED_VERSION: i16 = 35;
const TOPIC_ALREADY_EXISTS: i16 = 36;
const INVALID_PARTITIONS: i16 = 37;
const INVALID_REPLICATION_FACTOR: i16 = 38;
const INVALID_REPLICA_ASSIGNMENT: i16 = 39;
const INVALID_CONFIG: i16 = 40;
const INVALID_REQUEST: i16 = 42;
const UNKNOWN_TOPIC_ID: i16 = 100;

fn named(names: &[&str]) -> MetadataRequest {
    let topics = names.iter().map(|name| MetadataRequestTopic::default().with_name(Some(topic_name(name))));
    MetadataRequest::default().with_topics(Some(topics.collect())).with_allow_auto_topic_creation(true)
}

#[tokio::test]
async fn every_version_of_api_versions_names_the_same_apis() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    let request = ApiVersionsRequest::default()
        .with_client_software_name(StrBytes::from_static_str("test"))
        .with_client_software_version(StrBytes::from_static_str("1.0"));
    let mut named = None;
    for version in 0..=4 {
        let request = if version >= 3 { request.clone() } else { ApiVersionsRequest::default() };
        let response = client.call(version, &request).await;
        let produce = response.api_keys.iter().find(|api| api.api_key == key(ApiKey::Produce)).unwrap();
        assert_eq!((response.error_code, produce.min_version), (0, 0));
        assert!(response.api_keys.len() > 30);
        let keys: Vec<_> = response.api_keys.iter().map(|api| api.api_key).collect();
        assert_eq!(named.get_or_insert(keys.clone()), &keys);
        assert_eq!(response.throttle_time_ms, 0);
    }
    let unnamed = client.call(3, &ApiVersionsRequest::default()).await;
    assert_eq!(unnamed.error_code, INVALID_REQUEST);
}

#[tokio::test]
async fn an_unknown_version_of_api_versions_is_answered_in_version_0() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.send_frame(&bare_head(key(ApiKey::ApiVersions), 99)).await;
    let mut frame = client.receive_frame().await.unwrap();
    assert_eq!(frame.get_i32(), 77);
    let response = ApiVersionsResponse::decode(&mut frame, 0).unwrap();
    assert_eq!(response.error_code, UNSUPPORTED_VERSION);
    let [own] = &response.api_keys[..] else { panic!("only its own key: {response:?}") };
    assert_eq!((own.api_key, own.min_version, own.max_version), (key(ApiKey::ApiVersions), 0, 4));
    client.create_topic("still-open", 1).await;
}

#[tokio::test]
async fn metadata_creates_the_topics_that_are_named_and_answers_them_at_once() {
    let settings = GatewaySettings { num_partitions_default: 4, ..settings() };
    let gateway = TestGateway::start_with(settings).await;
    let mut client = gateway.connect().await;
    let response = client.call(12, &named(&["new", "also-new", "bad name"])).await;
    let broker = &response.brokers[0];
    assert_eq!((broker.host.as_str(), broker.port), ("127.0.0.1", i32::from(gateway.address.port())));
    assert_eq!((response.controller_id, response.cluster_id.is_some()), (broker.node_id, true));
    let found: Vec<_> = response
        .topics
        .iter()
        .map(|topic| (topic.error_code, topic.partitions.len(), topic.topic_id.is_nil()))
        .collect();
    assert_eq!(found, [(0, 4, false), (0, 4, false), (INVALID_TOPIC_EXCEPTION, 0, true)]);
    let partition = &response.topics[0].partitions[3];
    assert_eq!(
        (partition.partition_index, partition.leader_id, partition.leader_epoch),
        (3, broker.node_id, 0)
    );
}

#[tokio::test]
async fn metadata_creates_nothing_when_it_may_not() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    let forbidding = named(&["t"]).with_allow_auto_topic_creation(false);
    assert_eq!(client.call(4, &forbidding).await.topics[0].error_code, UNKNOWN_TOPIC_OR_PARTITION);
    let settings = GatewaySettings { auto_create_topics: AutoCreate::Disabled, ..settings() };
    let gateway = TestGateway::start_with(settings).await;
    let mut client = gateway.connect().await;
    assert_eq!(client.call(4, &named(&["t"])).await.topics[0].error_code, UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(gateway.log.snapshot().topics().count(), 0);
}

#[tokio::test]
async fn all_and_no_topics_are_told_apart_in_each_version() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("a", 1).await;
    client.create_topic("b", 2).await;
    let count = async |client: &mut Client, version, topics: Option<Vec<MetadataRequestTopic>>| {
        client.call(version, &MetadataRequest::default().with_topics(topics)).await.topics.len()
    };
    assert_eq!(count(&mut client, 0, Some(Vec::new())).await, 2);
    for version in 1..=12 {
        assert_eq!(count(&mut client, version, None).await, 2);
        assert_eq!(count(&mut client, version, Some(Vec::new())).await, 0);
    }
}

#[tokio::test]
async fn topics_are_found_by_id_from_version_12_on() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let id = gateway.log.snapshot().topic("t").unwrap().id.as_uuid();
    let by_id = |id| {
        let topic = MetadataRequestTopic::default().with_name(None).with_topic_id(id);
        MetadataRequest::default().with_topics(Some(vec![topic]))
    };
    let found = client.call(12, &by_id(id)).await.topics.remove(0);
    assert_eq!((found.error_code, found.name), (0, Some(topic_name("t"))));
    // As the Java client asks.
    let mut empty_name = by_id(id);
    empty_name.topics.as_mut().unwrap()[0].name = Some(topic_name(""));
    let found = client.call(12, &empty_name).await.topics.remove(0);
    assert_eq!((found.error_code, found.name), (0, Some(topic_name("t"))));
    let unknown = client.call(12, &by_id(Uuid::from_u128(7))).await.topics.remove(0);
    assert_eq!((unknown.error_code, unknown.topic_id), (UNKNOWN_TOPIC_ID, Uuid::from_u128(7)));
    assert_eq!(client.call(10, &by_id(id)).await.topics[0].error_code, INVALID_REQUEST);
}

#[tokio::test]
async fn the_advertised_address_is_told_everywhere() {
    let advertised = Some(("broker.example".to_owned(), 19092));
    let port = ListenerSettings { advertised, ..ListenerSettings::default() };
    let gateway = TestGateway::start_listening(vec![port], settings()).await;
    let mut client = gateway.connect().await;
    let broker = client.call(1, &MetadataRequest::default().with_topics(None)).await.brokers.remove(0);
    assert_eq!((broker.host.as_str(), broker.port), ("broker.example", 19092));
    for version in 0..=5 {
        let request = if version >= 4 {
            FindCoordinatorRequest::default().with_coordinator_keys(vec![StrBytes::from_static_str("g")])
        } else {
            FindCoordinatorRequest::default().with_key(StrBytes::from_static_str("g"))
        };
        let response = client.call(version, &request).await;
        let (host, port) = match response.coordinators.first() {
            Some(coordinator) => (coordinator.host.clone(), coordinator.port),
            None => (response.host, response.port),
        };
        assert_eq!((host.as_str(), port), ("broker.example", 19092), "version {version}");
    }
    for version in 0..=2 {
        let response = client.call(version, &DescribeClusterRequest::default()).await;
        assert_eq!(response.cluster_id.as_str(), gateway.log.cluster_id());
        assert_eq!((response.brokers[0].host.as_str(), response.controller_id.0), ("broker.example", 0));
    }
    let share = FindCoordinatorRequest::default().with_key_type(2);
    assert_eq!(client.call(3, &share).await.error_code, INVALID_REQUEST);
}

fn creatable(name: &str) -> CreatableTopic {
    CreatableTopic::default().with_name(topic_name(name)).with_num_partitions(2).with_replication_factor(3)
}

fn config(name: &'static str, value: Option<&'static str>) -> CreatableTopicConfig {
    CreatableTopicConfig::default()
        .with_name(StrBytes::from_static_str(name))
        .with_value(value.map(StrBytes::from_static_str))
}

async fn create(client: &mut Client, topics: Vec<CreatableTopic>) -> Vec<i16> {
    let request = CreateTopicsRequest::default().with_topics(topics).with_timeout_ms(10_000);
    client.call(7, &request).await.topics.iter().map(|topic| topic.error_code).collect()
}

#[tokio::test]
async fn topics_are_created_with_any_replication_factor_and_their_configs() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    for version in 2..=7 {
        let topic =
            creatable(&format!("t{version}")).with_configs(vec![config("max.message.bytes", Some("2000"))]);
        let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(10_000);
        let created = client.call(version, &request).await.topics.remove(0);
        assert_eq!(created.error_code, 0);
        if version >= 5 {
            assert_eq!((created.num_partitions, created.replication_factor), (2, 3));
            let configs = created.configs.unwrap();
            assert!(configs.iter().any(|one| &*one.name == "cleanup.policy" && one.config_source == 5));
            let set = configs.iter().find(|one| &*one.name == "max.message.bytes").unwrap();
            assert_eq!((set.value.as_deref(), set.config_source), (Some("2000"), 1));
        }
        assert_eq!(created.topic_id.is_nil(), version < 7);
    }
}

#[tokio::test]
async fn topics_that_cannot_be_created_say_why() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("taken.name", 1).await;
    let cases = [
        (creatable("taken.name"), TOPIC_ALREADY_EXISTS),
        (creatable("taken_name"), INVALID_TOPIC_EXCEPTION),
        (creatable("bad name"), INVALID_TOPIC_EXCEPTION),
        (creatable("a").with_num_partitions(0), INVALID_PARTITIONS),
        (creatable("a").with_replication_factor(0), INVALID_REPLICATION_FACTOR),
        (creatable("a").with_configs(vec![config("no.such", Some("1"))]), INVALID_CONFIG),
        (creatable("a").with_configs(vec![config("cleanup.policy", Some("forget"))]), INVALID_CONFIG),
        (creatable("a").with_configs(vec![config("retention.ms", None)]), INVALID_CONFIG),
    ];
    for (topic, error) in cases {
        assert_eq!(create(&mut client, vec![topic.clone()]).await, [error], "{topic:?}");
    }
    let twice = vec![creatable("twice"), creatable("once"), creatable("twice")];
    let request = CreateTopicsRequest::default().with_topics(twice).with_timeout_ms(10_000);
    let answered = client.call(7, &request).await.topics;
    let codes: Vec<_> = answered.iter().map(|topic| (topic.name.as_str(), topic.error_code)).collect();
    assert_eq!(codes, [("twice", INVALID_REQUEST), ("once", 0)]);
    assert_eq!(answered[0].configs, Some(Vec::new()), "a list without configs, not none");
    assert!(gateway.log.snapshot().topic("a").is_none() && gateway.log.snapshot().topic("twice").is_none());
}

#[tokio::test]
async fn of_a_config_that_is_given_twice_the_last_one_counts() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    let twice = vec![config("retention.ms", Some("1000")), config("retention.ms", Some("2000"))];
    assert_eq!(create(&mut client, vec![creatable("t").with_configs(twice)]).await, [0]);
    let snapshot = gateway.log.snapshot();
    assert_eq!(snapshot.topic("t").unwrap().config.explicit()["retention.ms"], "2000");
}

#[tokio::test]
async fn manual_assignments_give_every_partition_to_this_broker() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    let assigned = |partitions: &[(i32, i32)]| {
        let assignments = partitions.iter().map(|(partition, broker)| {
            CreatableReplicaAssignment::default()
                .with_partition_index(*partition)
                .with_broker_ids(vec![(*broker).into()])
        });
        creatable("t")
            .with_num_partitions(-1)
            .with_replication_factor(-1)
            .with_assignments(assignments.collect())
    };
    assert_eq!(create(&mut client, vec![assigned(&[(0, 9)])]).await, [INVALID_REPLICA_ASSIGNMENT]);
    assert_eq!(create(&mut client, vec![assigned(&[(1, 0)])]).await, [INVALID_REPLICA_ASSIGNMENT]);
    let with_count = assigned(&[(0, 0)]).with_num_partitions(1);
    assert_eq!(create(&mut client, vec![with_count]).await, [INVALID_REQUEST]);
    assert_eq!(create(&mut client, vec![assigned(&[(1, 0), (0, 0)])]).await, [0]);
    assert_eq!(gateway.log.snapshot().topic("t").unwrap().partition_count, 2);
}

#[tokio::test]
async fn validating_creates_nothing() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("taken", 1).await;
    let topics = vec![creatable("new"), creatable("taken"), creatable("bad name")];
    let request =
        CreateTopicsRequest::default().with_topics(topics).with_timeout_ms(10_000).with_validate_only(true);
    let response = client.call(7, &request).await;
    let codes: Vec<_> = response.topics.iter().map(|topic| topic.error_code).collect();
    assert_eq!(codes, [0, TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION]);
    assert!(gateway.log.snapshot().topic("new").is_none());
}

#[tokio::test]
async fn topics_are_deleted_by_name_and_by_id() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    for version in 1..=5 {
        client.create_topic("t", 1).await;
        let request = DeleteTopicsRequest::default()
            .with_topic_names(vec![topic_name("t"), topic_name("none")])
            .with_timeout_ms(10_000);
        let response = client.call(version, &request).await;
        let codes: Vec<_> = response.responses.iter().map(|one| one.error_code).collect();
        assert_eq!(codes, [0, UNKNOWN_TOPIC_OR_PARTITION], "version {version}");
    }
    client.create_topic("t", 1).await;
    let id = gateway.log.snapshot().topic("t").unwrap().id.as_uuid();
    let state = |name: Option<&str>, id| {
        DeleteTopicState::default().with_name(name.map(topic_name)).with_topic_id(id)
    };
    let topics = vec![
        state(None, id),
        state(None, Uuid::from_u128(7)),
        state(None, Uuid::nil()),
        state(Some("t"), id),
    ];
    let request = DeleteTopicsRequest::default().with_topics(topics).with_timeout_ms(10_000);
    let response = client.call(6, &request).await;
    let codes: Vec<_> = response.responses.iter().map(|one| one.error_code).collect();
    assert_eq!(codes, [0, UNKNOWN_TOPIC_ID, INVALID_REQUEST, INVALID_REQUEST]);
    assert_eq!(response.responses[0].name, Some(topic_name("t")));
    assert!(gateway.log.snapshot().topic("t").is_none());
}

#[tokio::test]
async fn a_topic_that_is_named_twice_is_not_deleted() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    client.create_topic("u", 1).await;
    let request = DeleteTopicsRequest::default()
        .with_topic_names(["t", "u", "t", "none", "none"].map(topic_name).to_vec())
        .with_timeout_ms(10_000);
    let response = client.call(5, &request).await;
    let codes: Vec<_> = response.responses.iter().map(|one| (one.name.clone(), one.error_code)).collect();
    let named = |name, code| (Some(topic_name(name)), code);
    assert_eq!(codes, [named("t", INVALID_REQUEST), named("u", 0), named("none", INVALID_REQUEST)]);
    let id = gateway.log.snapshot().topic("t").unwrap().id.as_uuid();
    let by_name = DeleteTopicState::default().with_name(Some(topic_name("t")));
    let by_id = DeleteTopicState::default().with_name(None).with_topic_id(id);
    let topics = vec![by_name, by_id];
    let request = DeleteTopicsRequest::default().with_topics(topics).with_timeout_ms(10_000);
    let response = client.call(6, &request).await;
    let [refused] = &response.responses[..] else { panic!("answered once: {response:?}") };
    assert_eq!(refused.error_code, INVALID_REQUEST);
    assert!(gateway.log.snapshot().topic("t").is_some());
}

#[tokio::test]
async fn records_are_deleted_below_an_offset() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 2).await;
    let id = gateway.log.snapshot().topic("t").unwrap().id;
    let log_start = |partition| {
        let view = gateway.log.snapshot().partition(TopicPartition::new(id, partition)).unwrap();
        view.bounds().log_start_offset
    };
    for _ in 0..4 {
        let records: [(i64, &[u8]); 3] = [(1, b"a"), (2, b"b"), (3, b"c")];
        assert_eq!(client.produce("t", 0, batch(&records)).await.error_code, 0);
    }
    let partition =
        |index, offset| DeleteRecordsPartition::default().with_partition_index(index).with_offset(offset);
    let partitions =
        vec![partition(0, 5), partition(1, 0), partition(7, 0), partition(0, 99), partition(1, -2)];
    for version in 0..=2 {
        let topics = ["t", "none"].map(|name| {
            DeleteRecordsTopic::default().with_name(topic_name(name)).with_partitions(partitions.clone())
        });
        let request = DeleteRecordsRequest::default().with_topics(topics.to_vec()).with_timeout_ms(10_000);
        let response = client.call(version, &request).await;
        let answers: Vec<_> = response.topics[0]
            .partitions
            .iter()
            .map(|one| (one.partition_index, one.low_watermark, one.error_code))
            .collect();
        let failed = |index, code| (index, -1, code);
        let expected = [
            (0, 5, 0),
            (1, 0, 0),
            failed(7, UNKNOWN_TOPIC_OR_PARTITION),
            failed(0, OFFSET_OUT_OF_RANGE),
            failed(1, OFFSET_OUT_OF_RANGE),
        ];
        assert_eq!(answers, expected, "version {version}");
        let unknown = response.topics[1].partitions.iter().map(|one| one.error_code);
        assert!(unknown.eq([UNKNOWN_TOPIC_OR_PARTITION; 5]));
    }
    assert_eq!((log_start(0), log_start(1)), (5, 0));
    let all = DeleteRecordsTopic::default()
        .with_name(topic_name("t"))
        .with_partitions(vec![partition(0, -1), partition(1, -1)]);
    let request = DeleteRecordsRequest::default().with_topics(vec![all]).with_timeout_ms(10_000);
    let response = client.call(2, &request).await;
    let lows: Vec<_> = response.topics[0].partitions.iter().map(|one| one.low_watermark).collect();
    assert_eq!(lows, [12, 0]);
    assert_eq!(log_start(0), 12);
}

fn resource(kind: i8, name: &'static str, keys: Option<Vec<StrBytes>>) -> DescribeConfigsResource {
    DescribeConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(StrBytes::from_static_str(name))
        .with_configuration_keys(keys)
}

#[tokio::test]
async fn configs_are_described_whole_or_by_key() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    client.create_topic("u", 1).await;
    let one = Some(vec![StrBytes::from_static_str("cleanup.policy")]);
    let resources = vec![
        resource(2, "t", None),
        resource(2, "u", one),
        resource(2, "none", None),
        resource(4, "0", None),
        resource(4, "7", None),
        resource(99, "t", None),
        resource(2, "t", None),
        resource(4, "", None),
    ];
    for version in 1..=4 {
        let request = DescribeConfigsRequest::default()
            .with_resources(resources.clone())
            .with_include_synonyms(true)
            .with_include_documentation(version >= 3);
        let results = client.call(version, &request).await.results;
        let codes: Vec<_> = results.iter().map(|result| result.error_code).collect();
        assert_eq!(codes, [0, 0, UNKNOWN_TOPIC_OR_PARTITION, 0, INVALID_REQUEST, INVALID_REQUEST, 0]);
        assert!(results[0].configs.len() > 20);
        let [policy] = &results[1].configs[..] else { panic!("one config") };
        assert_eq!((policy.value.as_deref(), policy.config_source), (Some("delete"), 5));
        // Where the version has no such field, the codec gives an empty text.
        let has_documentation = policy.documentation.as_deref().is_some_and(|text| !text.is_empty());
        assert_eq!((&*policy.synonyms[0].name, has_documentation), ("log.cleanup.policy", version >= 3));
        assert!(results[3].configs.iter().any(|one| &*one.name == "num.partitions" && one.read_only));
        assert_eq!(results[6].configs, [], "nothing was altered for all brokers");
    }
}
