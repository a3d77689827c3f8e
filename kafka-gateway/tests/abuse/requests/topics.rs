//! Requests about topics and configs.

use bytes::Bytes;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kafka_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::*;

use super::{Asked, text, topic_name};
use crate::target;

/// `ConfigResource.Type` of the Java client.
const TOPIC: i8 = 2;
const BROKER: i8 = 4;

/// A topic that comes and goes.
fn other() -> TopicName {
    TopicName(text("other"))
}

pub(super) fn frame(api: ApiKey, asked: Asked) -> Option<Bytes> {
    Some(match api {
        ApiKey::Metadata => asked.frame(metadata(asked)),
        ApiKey::CreateTopics => {
            let config = CreatableTopicConfig::default()
                .with_name(text("retention.ms"))
                .with_value(Some(text("86400000")));
            let topic = CreatableTopic::default()
                .with_name(other())
                .with_num_partitions(2)
                .with_replication_factor(1)
                .with_configs(vec![config]);
            asked.frame(CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(5000))
        }
        ApiKey::DeleteTopics => {
            let request = DeleteTopicsRequest::default().with_timeout_ms(5000);
            asked.frame(match asked.version >= 6 {
                true => request.with_topics(vec![DeleteTopicState::default().with_name(Some(other()))]),
                false => request.with_topic_names(vec![other()]),
            })
        }
        ApiKey::CreatePartitions => {
            let topic =
                CreatePartitionsTopic::default().with_name(topic_name()).with_count(3).with_assignments(None);
            asked.frame(CreatePartitionsRequest::default().with_topics(vec![topic]).with_timeout_ms(5000))
        }
        ApiKey::DescribeTopicPartitions => {
            let cursor = Cursor::default().with_topic_name(topic_name()).with_partition_index(1);
            asked.frame(
                DescribeTopicPartitionsRequest::default()
                    .with_topics(vec![TopicRequest::default().with_name(topic_name())])
                    .with_response_partition_limit(10)
                    .with_cursor(Some(cursor)),
            )
        }
        ApiKey::DescribeConfigs => {
            let resource = |kind, name| {
                DescribeConfigsResource::default()
                    .with_resource_type(kind)
                    .with_resource_name(text(name))
                    .with_configuration_keys(None)
            };
            asked.frame(
                DescribeConfigsRequest::default()
                    .with_resources(vec![resource(TOPIC, target::TOPIC), resource(BROKER, "0")])
                    .with_include_synonyms(true)
                    .with_include_documentation(asked.since(3, true)),
            )
        }
        ApiKey::AlterConfigs => {
            let config = alter_configs_request::AlterableConfig::default()
                .with_name(text("retention.ms"))
                .with_value(Some(text("86400000")));
            let resource = alter_configs_request::AlterConfigsResource::default()
                .with_resource_type(TOPIC)
                .with_resource_name(topic_name().0)
                .with_configs(vec![config]);
            asked.frame(AlterConfigsRequest::default().with_resources(vec![resource]))
        }
        ApiKey::IncrementalAlterConfigs => {
            let config = |name, operation, value| {
                incremental_alter_configs_request::AlterableConfig::default()
                    .with_name(text(name))
                    .with_config_operation(operation)
                    .with_value(value)
            };
            let resource = incremental_alter_configs_request::AlterConfigsResource::default()
                .with_resource_type(TOPIC)
                .with_resource_name(topic_name().0)
                .with_configs(vec![
                    config("retention.ms", 0, Some(text("86400000"))),
                    config("cleanup.policy", 2, Some(text("compact"))),
                    config("retention.bytes", 1, None),
                ]);
            asked.frame(IncrementalAlterConfigsRequest::default().with_resources(vec![resource]))
        }
        ApiKey::ListConfigResources => asked
            .frame(ListConfigResourcesRequest::default().with_resource_types(asked.since(1, vec![TOPIC]))),
        ApiKey::DescribeLogDirs => {
            let topic =
                DescribableLogDirTopic::default().with_topic(topic_name()).with_partitions(vec![0, 1]);
            asked.frame(DescribeLogDirsRequest::default().with_topics(Some(vec![topic])))
        }
        _ => return None,
    })
}

fn metadata(asked: Asked) -> MetadataRequest {
    let by_name = MetadataRequestTopic::default().with_name(Some(topic_name()));
    let mut topics = vec![by_name];
    if asked.version >= 12 {
        let by_id = MetadataRequestTopic::default().with_name(None).with_topic_id(asked.topic_id);
        topics.push(by_id);
    }
    MetadataRequest::default()
        .with_topics(Some(topics))
        .with_allow_auto_topic_creation(true)
        .with_include_cluster_authorized_operations((8..=10).contains(&asked.version))
        .with_include_topic_authorized_operations(asked.since(8, true))
}
