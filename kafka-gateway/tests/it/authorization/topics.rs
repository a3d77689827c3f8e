//! Cases of the APIs that describe, create, change and delete topics, and configs of all kinds.

use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_topic_partitions_request::TopicRequest;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::*;
use strandline_storage::access::Operation;

use super::world::World;
use super::{
    CLUSTER_AUTHORIZATION_FAILED, Case, Codes, GROUP_AUTHORIZATION_FAILED, LEFT_OUT,
    TOPIC_AUTHORIZATION_FAILED, ask, cluster, group, text, topic,
};
use crate::support::*;

/// Configs of brokers and groups cannot be altered.
const INVALID_REQUEST: i16 = 42;
const TOPIC: &[i16] = &[TOPIC_AUTHORIZATION_FAILED];
const CLUSTER: &[i16] = &[CLUSTER_AUTHORIZATION_FAILED];
const GROUP: &[i16] = &[GROUP_AUTHORIZATION_FAILED];

/// `ConfigResource.Type` of the Java client.
const TOPIC_CONFIGS: i8 = 2;
const BROKER_CONFIGS: i8 = 4;
const GROUP_CONFIGS: i8 = 32;

pub(super) const CASES: &[Case] = &[
    Case::one(ApiKey::Metadata, &[topic("t", Operation::Describe)], TOPIC, |client, _| metadata(client, "t")),
    Case::one(ApiKey::Metadata, &[topic("t", Operation::Describe)], TOPIC, |client, world| {
        let named = MetadataRequestTopic::default().with_topic_id(world.topic_id).with_name(None);
        ask(client, 12, MetadataRequest::default().with_topics(Some(vec![named])), |answer| {
            let topic = &answer.topics[0];
            assert_eq!(topic.error_code == 0, topic.name.is_some(), "a hidden topic has no name");
            vec![topic.error_code]
        })
    }),
    Case::one(ApiKey::Metadata, &[topic("t", Operation::Describe)], &[LEFT_OUT], |client, _| {
        ask(client, 9, MetadataRequest::default().with_topics(None), |answer| match answer.topics.len() {
            1 => vec![answer.topics[0].error_code],
            _ => vec![LEFT_OUT],
        })
    }),
    Case::one(
        ApiKey::Metadata,
        &[topic("new", Operation::Describe), topic("new", Operation::Create)],
        TOPIC,
        |client, _| metadata(client, "new"),
    ),
    Case::one(
        ApiKey::Metadata,
        &[topic("new", Operation::Describe), cluster(Operation::Create)],
        TOPIC,
        |client, _| metadata(client, "new"),
    ),
    Case::one(ApiKey::DescribeTopicPartitions, &[topic("t", Operation::Describe)], TOPIC, |client, _| {
        let request = DescribeTopicPartitionsRequest::default()
            .with_topics(vec![TopicRequest::default().with_name(topic_name("t"))])
            .with_response_partition_limit(10);
        ask(client, 0, request, |answer| {
            let topic = &answer.topics[0];
            assert_eq!(topic.error_code != 0, topic.topic_id.is_nil(), "{topic:?}");
            vec![topic.error_code]
        })
    }),
    Case {
        key: ApiKey::CreateTopics,
        rights: &[topic("new", Operation::Create), topic("new", Operation::DescribeConfigs)],
        call: create,
        allowed: &[0, 0],
        refused: &[TOPIC_AUTHORIZATION_FAILED, 0],
    },
    Case {
        key: ApiKey::CreateTopics,
        rights: &[cluster(Operation::Create)],
        call: create,
        allowed: &[0, TOPIC_AUTHORIZATION_FAILED],
        refused: &[TOPIC_AUTHORIZATION_FAILED, 0],
    },
    Case::one(ApiKey::DeleteTopics, &[topic("t", Operation::Delete)], TOPIC, |client, _| {
        delete(client, DeleteTopicState::default().with_name(Some(topic_name("t"))))
    }),
    Case::one(ApiKey::DeleteTopics, &[cluster(Operation::Delete)], TOPIC, |client, _| {
        delete(client, DeleteTopicState::default().with_name(Some(topic_name("t"))))
    }),
    Case::one(ApiKey::DeleteTopics, &[topic("t", Operation::Delete)], TOPIC, |client, world| {
        delete(client, DeleteTopicState::default().with_name(None).with_topic_id(world.topic_id))
    }),
    Case::one(ApiKey::CreatePartitions, &[topic("t", Operation::Alter)], TOPIC, |client, _| {
        let topic =
            CreatePartitionsTopic::default().with_name(topic_name("t")).with_count(3).with_assignments(None);
        let request = CreatePartitionsRequest::default().with_timeout_ms(20_000).with_topics(vec![topic]);
        ask(client, 3, request, |answer| vec![answer.results[0].error_code])
    }),
    Case::one(ApiKey::DescribeConfigs, &[topic("t", Operation::DescribeConfigs)], TOPIC, |client, _| {
        describe_configs(client, TOPIC_CONFIGS, "t")
    }),
    Case::one(ApiKey::DescribeConfigs, &[cluster(Operation::DescribeConfigs)], CLUSTER, |client, _| {
        describe_configs(client, BROKER_CONFIGS, "0")
    }),
    Case::one(ApiKey::DescribeConfigs, &[group("g", Operation::DescribeConfigs)], GROUP, |client, _| {
        describe_configs(client, GROUP_CONFIGS, "g")
    }),
    Case::one(ApiKey::AlterConfigs, &[topic("t", Operation::AlterConfigs)], TOPIC, |client, _| {
        alter_configs(client, TOPIC_CONFIGS, "t")
    }),
    Case {
        key: ApiKey::AlterConfigs,
        rights: &[cluster(Operation::AlterConfigs)],
        call: |client, _| alter_configs(client, BROKER_CONFIGS, "0"),
        allowed: &[INVALID_REQUEST],
        refused: CLUSTER,
    },
    Case::one(ApiKey::IncrementalAlterConfigs, &[topic("t", Operation::AlterConfigs)], TOPIC, |client, _| {
        incremental(client, TOPIC_CONFIGS, "t")
    }),
    Case {
        key: ApiKey::IncrementalAlterConfigs,
        rights: &[group("g", Operation::AlterConfigs)],
        call: |client, _| incremental(client, GROUP_CONFIGS, "g"),
        allowed: &[INVALID_REQUEST],
        refused: GROUP,
    },
];

fn metadata<'a>(client: &'a mut Client, name: &str) -> Codes<'a> {
    let named = MetadataRequestTopic::default().with_name(Some(topic_name(name)));
    let request =
        MetadataRequest::default().with_topics(Some(vec![named])).with_allow_auto_topic_creation(true);
    ask(client, 10, request, |answer| {
        let topic = &answer.topics[0];
        assert_eq!(topic.error_code != 0, topic.topic_id.is_nil(), "a hidden topic has no id");
        vec![topic.error_code]
    })
}

fn create<'a>(client: &'a mut Client, _: &'a World) -> Codes<'a> {
    let topic = CreatableTopic::default()
        .with_name(topic_name("new"))
        .with_num_partitions(1)
        .with_replication_factor(1);
    let request = CreateTopicsRequest::default().with_timeout_ms(20_000).with_topics(vec![topic]);
    ask(client, 7, request, |answer| {
        let topic = &answer.topics[0];
        let shows_configs = topic.configs.as_ref().is_some_and(|configs| !configs.is_empty());
        assert_eq!(shows_configs, topic.num_partitions == 1, "{topic:?}");
        vec![topic.error_code, topic.topic_config_error_code]
    })
}

fn delete(client: &mut Client, topic: DeleteTopicState) -> Codes<'_> {
    let is_by_id = topic.name.is_none();
    let request = DeleteTopicsRequest::default().with_timeout_ms(20_000).with_topics(vec![topic]);
    ask(client, 6, request, move |answer| {
        let topic = &answer.responses[0];
        if topic.error_code != 0 {
            assert_eq!((topic.name.is_none(), topic.topic_id.is_nil()), (is_by_id, !is_by_id), "{topic:?}");
        }
        vec![topic.error_code]
    })
}

fn describe_configs<'a>(client: &'a mut Client, kind: i8, name: &str) -> Codes<'a> {
    let resource = DescribeConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configuration_keys(None);
    let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
    ask(client, 4, request, |answer| {
        let result = &answer.results[0];
        assert_eq!(result.error_code == 0, !result.configs.is_empty(), "{result:?}");
        vec![result.error_code]
    })
}

fn alter_configs<'a>(client: &'a mut Client, kind: i8, name: &str) -> Codes<'a> {
    let config = alter_configs_request::AlterableConfig::default()
        .with_name(text("retention.ms"))
        .with_value(Some(text("1000")));
    let resource = alter_configs_request::AlterConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configs(vec![config]);
    let request = AlterConfigsRequest::default().with_resources(vec![resource]);
    ask(client, 2, request, |answer| vec![answer.responses[0].error_code])
}

fn incremental<'a>(client: &'a mut Client, kind: i8, name: &str) -> Codes<'a> {
    let config = incremental_alter_configs_request::AlterableConfig::default()
        .with_name(text("retention.ms"))
        .with_value(Some(text("1000")));
    let resource = incremental_alter_configs_request::AlterConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configs(vec![config]);
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    ask(client, 1, request, |answer| vec![answer.responses[0].error_code])
}
