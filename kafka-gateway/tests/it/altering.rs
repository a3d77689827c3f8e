//! Configs and partition counts of topics that are there already.

use kafka_protocol::messages::alter_configs_request;
use kafka_protocol::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    AlterConfigsRequest, CreatePartitionsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest,
    MetadataRequest,
};
use kafka_protocol::protocol::StrBytes;

use crate::support::*;

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const INVALID_PARTITIONS: i16 = 37;
const INVALID_REPLICA_ASSIGNMENT: i16 = 39;
const INVALID_CONFIG: i16 = 40;
const INVALID_REQUEST: i16 = 42;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const GROUP: i8 = 32;
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn operation(name: &str, operation: i8, value: Option<&str>) -> AlterableConfig {
    AlterableConfig::default()
        .with_name(text(name))
        .with_config_operation(operation)
        .with_value(value.map(text))
}

fn resource(kind: i8, name: &str, configs: Vec<AlterableConfig>) -> AlterConfigsResource {
    AlterConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configs(configs)
}

async fn alter(client: &mut Client, resources: Vec<AlterConfigsResource>, validate_only: bool) -> Vec<i16> {
    let request =
        IncrementalAlterConfigsRequest::default().with_resources(resources).with_validate_only(validate_only);
    let mut codes = Vec::new();
    // Both versions are alike, so the second call finds what the first one did.
    let versions = if validate_only { 0..=1 } else { 1..=1 };
    for version in versions {
        let response = client.call(version, &request).await;
        codes = response.responses.iter().map(|one| one.error_code).collect();
        for one in &response.responses {
            assert_eq!(one.error_code == 0, one.error_message.is_none(), "{one:?}");
        }
    }
    codes
}

/// What a config of topic "t" is set to; `None` when it is not set.
fn set(gateway: &TestGateway, config: &str) -> Option<String> {
    gateway.log.snapshot().topic("t").unwrap().config.explicit().get(config).cloned()
}

#[tokio::test]
async fn single_configs_are_set_reset_and_extended() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let policy = || set(&gateway, "cleanup.policy");
    let steps = [
        (operation("cleanup.policy", APPEND, Some("compact")), Some("delete,compact")),
        (operation("cleanup.policy", SUBTRACT, Some("delete")), Some("compact")),
        (operation("cleanup.policy", SET, Some("delete")), Some("delete")),
        (operation("cleanup.policy", DELETE, None), None),
    ];
    for (step, expected) in steps {
        let retention = operation("retention.ms", SET, Some("5000"));
        let both = resource(TOPIC, "t", vec![step, retention]);
        assert_eq!(alter(&mut client, vec![both.clone()], true).await, [0]);
        assert_ne!(policy().as_deref(), expected, "validating changes nothing");
        assert_eq!(alter(&mut client, vec![both], false).await, [0]);
        assert_eq!(policy().as_deref(), expected);
    }
    assert_eq!(set(&gateway, "retention.ms").as_deref(), Some("5000"));
}

#[tokio::test]
async fn configs_that_cannot_be_altered_say_why_and_change_nothing() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let good = || operation("retention.bytes", SET, Some("7"));
    let cases = [
        (operation("no.such", SET, Some("1")), INVALID_CONFIG),
        (operation("no.such", DELETE, None), INVALID_CONFIG),
        (operation("retention.ms", SET, Some("soon")), INVALID_CONFIG),
        (operation("retention.ms", APPEND, Some("5")), INVALID_CONFIG),
        (operation("cleanup.policy", SUBTRACT, Some("delete")), INVALID_CONFIG),
        (operation("retention.ms", SET, None), INVALID_REQUEST),
        (operation("retention.ms", 9, Some("5")), INVALID_REQUEST),
        (operation("retention.bytes", SET, Some("8")), INVALID_REQUEST),
    ];
    for (bad, error) in cases {
        for validate_only in [true, false] {
            let both = resource(TOPIC, "t", vec![good(), bad.clone()]);
            assert_eq!(alter(&mut client, vec![both], validate_only).await, [error], "{bad:?}");
        }
    }
    let resources = vec![
        resource(TOPIC, "none", vec![good()]),
        resource(TOPIC, "", vec![good()]),
        resource(BROKER, "0", vec![good()]),
        resource(BROKER, "9", vec![good()]),
        resource(GROUP, "g", vec![good()]),
        resource(99, "t", vec![good()]),
        resource(TOPIC, "t", vec![good()]),
        resource(TOPIC, "t", vec![]),
    ];
    let expected = [
        UNKNOWN_TOPIC_OR_PARTITION,
        INVALID_REQUEST,
        INVALID_REQUEST,
        INVALID_REQUEST,
        INVALID_REQUEST,
        INVALID_REQUEST,
        INVALID_REQUEST,
        INVALID_REQUEST,
    ];
    assert_eq!(alter(&mut client, resources, false).await, expected);
    assert!(gateway.log.snapshot().topic("t").unwrap().config.explicit().is_empty());
}

#[tokio::test]
async fn a_whole_configuration_is_replaced() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let first = operation("retention.ms", SET, Some("5000"));
    assert_eq!(alter(&mut client, vec![resource(TOPIC, "t", vec![first])], false).await, [0]);
    let replacement = |name: &str, value: Option<&str>| {
        let config = alter_configs_request::AlterableConfig::default()
            .with_name(text(name))
            .with_value(value.map(text));
        let resource = alter_configs_request::AlterConfigsResource::default()
            .with_resource_type(TOPIC)
            .with_resource_name(text("t"))
            .with_configs(vec![config]);
        AlterConfigsRequest::default().with_resources(vec![resource])
    };
    for version in 0..=2 {
        let mut code =
            async |request: AlterConfigsRequest| client.call(version, &request).await.responses[0].error_code;
        assert_eq!(code(replacement("retention.ms", None)).await, INVALID_REQUEST);
        assert_eq!(code(replacement("no.such", Some("1"))).await, INVALID_CONFIG);
        assert_eq!(code(replacement("segment.ms", Some("1000")).with_validate_only(true)).await, 0);
    }
    assert_eq!(set(&gateway, "retention.ms").as_deref(), Some("5000"));
    let replaced = client.call(2, &replacement("retention.bytes", Some("6"))).await;
    assert_eq!(replaced.responses[0].error_code, 0);
    assert_eq!((set(&gateway, "retention.ms"), set(&gateway, "retention.bytes")), (None, Some("6".into())));
}

#[tokio::test]
async fn an_altered_config_is_described_with_its_source_and_its_default() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let compact = operation("cleanup.policy", SET, Some("compact"));
    assert_eq!(alter(&mut client, vec![resource(TOPIC, "t", vec![compact])], false).await, [0]);
    let resource = DescribeConfigsResource::default()
        .with_resource_type(TOPIC)
        .with_resource_name(text("t"))
        .with_configuration_keys(None);
    let request =
        DescribeConfigsRequest::default().with_resources(vec![resource]).with_include_synonyms(true);
    let configs = client.call(4, &request).await.results.remove(0).configs;
    let policy = configs.iter().find(|one| &*one.name == "cleanup.policy").unwrap();
    assert_eq!((policy.value.as_deref(), policy.config_source), (Some("compact"), 1));
    let synonyms: Vec<_> =
        policy.synonyms.iter().map(|one| (one.name.as_str(), one.value.as_deref(), one.source)).collect();
    let expected = [("cleanup.policy", Some("compact"), 1), ("log.cleanup.policy", Some("delete"), 5)];
    assert_eq!(synonyms, expected);
    let untouched = configs.iter().find(|one| &*one.name == "retention.ms").unwrap();
    assert_eq!((untouched.config_source, untouched.synonyms.len()), (5, 1));
}

#[tokio::test]
async fn a_group_has_the_configs_of_all_groups() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    let describe = |name| {
        let resource = DescribeConfigsResource::default()
            .with_resource_type(GROUP)
            .with_resource_name(text(name))
            .with_configuration_keys(None);
        DescribeConfigsRequest::default().with_resources(vec![resource])
    };
    let found = client.call(4, &describe("g")).await.results.remove(0);
    let configs: Vec<_> =
        found.configs.iter().map(|one| (one.name.as_str(), one.value.as_deref(), one.read_only)).collect();
    let expected = [
        ("consumer.heartbeat.interval.ms", Some("5000"), true),
        ("consumer.session.timeout.ms", Some("45000"), true),
    ];
    assert_eq!((found.error_code, &configs[..]), (0, &expected[..]));
    assert_eq!(client.call(4, &describe("")).await.results[0].error_code, INVALID_REQUEST);
}

fn grow(name: &str, count: i32) -> CreatePartitionsTopic {
    CreatePartitionsTopic::default().with_name(topic_name(name)).with_count(count).with_assignments(None)
}

#[tokio::test]
async fn topics_get_more_partitions_which_metadata_shows() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    for version in 0..=3 {
        let count = 2 + i32::from(version);
        let request = CreatePartitionsRequest::default()
            .with_topics(vec![grow("t", count), grow("none", 2)])
            .with_timeout_ms(10_000);
        let validated = client.call(version, &request.clone().with_validate_only(true)).await;
        let response = client.call(version, &request).await;
        for response in [validated, response] {
            let found: Vec<_> =
                response.results.iter().map(|one| (one.name.as_str(), one.error_code)).collect();
            assert_eq!(found, [("t", 0), ("none", UNKNOWN_TOPIC_OR_PARTITION)]);
        }
        let topic = MetadataRequestTopic::default().with_name(Some(topic_name("t")));
        let metadata = client.call(9, &MetadataRequest::default().with_topics(Some(vec![topic]))).await;
        assert_eq!(metadata.topics[0].partitions.len(), usize::try_from(count).unwrap());
        let produced = client.produce("t", count - 1, batch(&[(1, b"a")])).await;
        assert_eq!((produced.error_code, produced.base_offset), (0, 0));
    }
}

#[tokio::test]
async fn partitions_that_cannot_be_added_say_why() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 3).await;
    let assigned = |count, brokers: &[&[i32]]| {
        let one = |brokers: &&[i32]| {
            let ids = brokers.iter().map(|id| (*id).into()).collect();
            CreatePartitionsAssignment::default().with_broker_ids(ids)
        };
        grow("t", count).with_assignments(Some(brokers.iter().map(one).collect()))
    };
    let cases = [
        (grow("t", 3), INVALID_PARTITIONS),
        (grow("t", 1), INVALID_PARTITIONS),
        (grow("t", -1), INVALID_PARTITIONS),
        (assigned(5, &[&[0]]), INVALID_REPLICA_ASSIGNMENT),
        (assigned(4, &[&[9]]), INVALID_REPLICA_ASSIGNMENT),
        (assigned(4, &[&[0, 1]]), INVALID_REPLICA_ASSIGNMENT),
    ];
    for (topic, error) in cases {
        let request =
            CreatePartitionsRequest::default().with_topics(vec![topic.clone()]).with_timeout_ms(10_000);
        assert_eq!(client.call(3, &request).await.results[0].error_code, error, "{topic:?}");
    }
    let twice = CreatePartitionsRequest::default()
        .with_topics(vec![grow("t", 4), grow("t", 5)])
        .with_timeout_ms(10_000);
    let codes: Vec<_> = client.call(3, &twice).await.results.iter().map(|one| one.error_code).collect();
    assert_eq!(codes, [INVALID_REQUEST]);
    assert_eq!(gateway.log.snapshot().topic("t").unwrap().partition_count, 3);
    let request =
        CreatePartitionsRequest::default().with_topics(vec![assigned(4, &[&[0]])]).with_timeout_ms(10_000);
    assert_eq!(client.call(3, &request).await.results[0].error_code, 0);
}
