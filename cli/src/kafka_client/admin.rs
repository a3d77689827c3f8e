//! Topics: create, list, describe, delete, and the offsets that a time or an end stands for.

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_topics_request::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::{
    BrokerId, DeleteTopicsRequest, DescribeConfigsRequest, ListOffsetsRequest, MetadataRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use super::connection::Connection;
use super::endpoint::Endpoint;
use super::error::{ClientError, ErrorCode};

const METADATA_VERSION: i16 = 9;
const CREATE_TOPICS_VERSION: i16 = 5;
const DELETE_TOPICS_VERSION: i16 = 5;
const DESCRIBE_CONFIGS_VERSION: i16 = 4;
const LIST_OFFSETS_VERSION: i16 = 6;
const REQUEST_TIMEOUT_MS: i32 = 30_000;
const RESOURCE_TYPE_TOPIC: i8 = 2;
const CONFIG_SOURCE_DEFAULT: i8 = 5;
const EARLIEST: i64 = -2;
const LATEST: i64 = -1;

/// A client of the operations on topics.
#[derive(Debug)]
pub struct Admin {
    pub(super) connection: Connection,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSummary {
    pub name: String,
    /// Ascending.
    pub partitions: Vec<i32>,
}

/// What a partition holds: `earliest` inclusive, `latest` exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionRange {
    pub partition: i32,
    pub earliest: i64,
    pub latest: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSetting {
    pub name: String,
    pub value: String,
    pub is_default: bool,
}

/// Whether asking for a topic may bring it into being.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Creation {
    Allowed,
    Forbidden,
}

impl Admin {
    pub async fn connect(endpoint: &Endpoint) -> Result<Self, ClientError> {
        Ok(Self { connection: Connection::open(endpoint).await? })
    }

    pub async fn create_topic(
        &mut self,
        name: &str,
        partitions: i32,
        configs: &[(String, String)],
    ) -> Result<(), ClientError> {
        let configs = configs.iter().map(|(key, value)| {
            CreatableTopicConfig::default().with_name(text(key)).with_value(Some(text(value)))
        });
        let topic = CreatableTopic::default()
            .with_name(topic_name(name))
            .with_num_partitions(partitions)
            .with_replication_factor(-1)
            .with_configs(configs.collect());
        let request =
            CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(REQUEST_TIMEOUT_MS);
        let response = self.connection.call(CREATE_TOPICS_VERSION, &request).await?;
        for topic in &response.topics {
            if let Some(code) = ErrorCode::of(topic.error_code) {
                let what = format!("topic \"{name}\" was not created");
                return Err(ClientError::refused(what, code, topic.error_message.as_deref()));
            }
        }
        Ok(())
    }

    pub async fn delete_topic(&mut self, name: &str) -> Result<(), ClientError> {
        let request = DeleteTopicsRequest::default()
            .with_topic_names(vec![topic_name(name)])
            .with_timeout_ms(REQUEST_TIMEOUT_MS);
        let response = self.connection.call(DELETE_TOPICS_VERSION, &request).await?;
        for topic in &response.responses {
            match ErrorCode::of(topic.error_code) {
                Some(code) if code.is(ResponseError::UnknownTopicOrPartition) => {
                    return Err(ClientError::UnknownTopic(name.to_owned()));
                }
                Some(code) => {
                    let what = format!("topic \"{name}\" was not deleted");
                    return Err(ClientError::refused(what, code, topic.error_message.as_deref()));
                }
                None => {}
            }
        }
        Ok(())
    }

    /// All topics, by name.
    pub async fn topics(&mut self) -> Result<Vec<TopicSummary>, ClientError> {
        let request = MetadataRequest::default().with_topics(None);
        let response = self.connection.call(METADATA_VERSION, &request).await?;
        let mut topics: Vec<TopicSummary> = response.topics.iter().filter_map(summary).collect();
        topics.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(topics)
    }

    /// One topic, which has to exist.
    pub async fn topic(&mut self, name: &str) -> Result<TopicSummary, ClientError> {
        self.named_topic(name, Creation::Forbidden).await
    }

    /// One topic, which the server creates if its settings allow that.
    pub async fn topic_or_create(&mut self, name: &str) -> Result<TopicSummary, ClientError> {
        self.named_topic(name, Creation::Allowed).await
    }

    async fn named_topic(&mut self, name: &str, creation: Creation) -> Result<TopicSummary, ClientError> {
        let topic = MetadataRequestTopic::default().with_name(Some(topic_name(name)));
        let request = MetadataRequest::default()
            .with_topics(Some(vec![topic]))
            .with_allow_auto_topic_creation(creation == Creation::Allowed);
        let response = self.connection.call(METADATA_VERSION, &request).await?;
        let Some(topic) = response.topics.first() else {
            return Err(ClientError::UnknownTopic(name.to_owned()));
        };
        match ErrorCode::of(topic.error_code) {
            None => summary(topic).ok_or_else(|| ClientError::UnknownTopic(name.to_owned())),
            Some(code) if code.is(ResponseError::UnknownTopicOrPartition) => {
                Err(ClientError::UnknownTopic(name.to_owned()))
            }
            Some(code) => Err(ClientError::refused(format!("topic \"{name}\""), code, None)),
        }
    }

    /// What each partition of a topic holds.
    pub async fn ranges(&mut self, topic: &TopicSummary) -> Result<Vec<PartitionRange>, ClientError> {
        let earliest = self.list_offsets(topic, EARLIEST).await?;
        let latest = self.list_offsets(topic, LATEST).await?;
        let pairs = earliest.into_iter().zip(latest);
        Ok(pairs
            .map(|((partition, earliest), (_, latest))| PartitionRange { partition, earliest, latest })
            .collect())
    }

    /// The first offset of each partition whose record is not older than `timestamp_ms`; the end of a
    /// partition that has none.
    pub async fn offsets_at(
        &mut self,
        topic: &TopicSummary,
        timestamp_ms: i64,
    ) -> Result<Vec<(i32, i64)>, ClientError> {
        // The ends come first: what is appended between the two questions is then not skipped.
        let ends = self.list_offsets(topic, LATEST).await?;
        let found = self.list_offsets(topic, timestamp_ms).await?;
        let pairs = found.into_iter().zip(ends);
        Ok(pairs
            .map(|((partition, offset), (_, end))| (partition, if offset < 0 { end } else { offset }))
            .collect())
    }

    /// Offsets by partition, ascending.
    async fn list_offsets(
        &mut self,
        topic: &TopicSummary,
        timestamp: i64,
    ) -> Result<Vec<(i32, i64)>, ClientError> {
        let partitions = topic.partitions.iter().map(|partition| {
            ListOffsetsPartition::default()
                .with_partition_index(*partition)
                .with_current_leader_epoch(-1)
                .with_timestamp(timestamp)
        });
        let asked = ListOffsetsTopic::default()
            .with_name(topic_name(&topic.name))
            .with_partitions(partitions.collect());
        let request = ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![asked]);
        let response = self.connection.call(LIST_OFFSETS_VERSION, &request).await?;
        let mut offsets = Vec::new();
        for partition in response.topics.iter().flat_map(|topic| &topic.partitions) {
            if let Some(code) = ErrorCode::of(partition.error_code) {
                let what =
                    format!("offsets of topic \"{}\", partition {}", topic.name, partition.partition_index);
                return Err(ClientError::refused(what, code, None));
            }
            offsets.push((partition.partition_index, partition.offset));
        }
        offsets.sort_unstable();
        Ok(offsets)
    }

    /// The settings of a topic, by name; `None` if they are not for this user to see, who may produce
    /// all the same.
    pub async fn settings(&mut self, topic: &str) -> Result<Option<Vec<TopicSetting>>, ClientError> {
        let resource = DescribeConfigsResource::default()
            .with_resource_type(RESOURCE_TYPE_TOPIC)
            .with_resource_name(text(topic))
            .with_configuration_keys(None);
        let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
        let response = self.connection.call(DESCRIBE_CONFIGS_VERSION, &request).await?;
        let mut settings = Vec::new();
        for result in &response.results {
            if let Some(code) = ErrorCode::of(result.error_code) {
                if code.is(ResponseError::TopicAuthorizationFailed) {
                    return Ok(None);
                }
                let what = format!("settings of topic \"{topic}\"");
                return Err(ClientError::refused(what, code, result.error_message.as_deref()));
            }
            settings.extend(result.configs.iter().map(|config| TopicSetting {
                name: config.name.to_string(),
                value: config.value.as_deref().unwrap_or_default().to_owned(),
                is_default: config.config_source == CONFIG_SOURCE_DEFAULT,
            }));
        }
        settings.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(Some(settings))
    }
}

fn summary(topic: &MetadataResponseTopic) -> Option<TopicSummary> {
    let mut partitions: Vec<i32> =
        topic.partitions.iter().map(|partition| partition.partition_index).collect();
    partitions.sort_unstable();
    let name = topic.name.as_ref()?.to_string();
    (!partitions.is_empty()).then_some(TopicSummary { name, partitions })
}

pub(super) fn topic_name(name: &str) -> TopicName {
    TopicName(text(name))
}

pub(super) fn text(text: &str) -> StrBytes {
    StrBytes::try_from(Bytes::copy_from_slice(text.as_bytes())).expect("a str is UTF-8")
}
