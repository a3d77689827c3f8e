//! CreateTopics (key 19).
//!
//! # Behavior
//! - Each topic succeeds or fails alone; a name that comes twice is INVALID_REQUEST, and is answered once.
//! - Of a config that comes twice the last one counts.
//! - Any replication factor of 1 or more, or -1, is accepted and echoed: the object store
//!   replicates, whatever the number (Apache Kafka refuses more than it has brokers).
//! - A manual assignment must give every partition to this broker, from partition 0 on.
//! - It takes Create on the cluster or on the topic. Who may not describe the configs of the topic is told
//!   neither them nor the counts.
//! - `validate_only` runs the same checks and creates nothing.
//!
//! # Version notes
//! - 4 and later: -1 partitions takes the default; earlier versions are served alike.
//! - 5 and later answer with the configs, the partition count and the replication factor; 7 with
//!   the topic id.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use futures::stream;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use kafka_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use strandline_storage::log::{ConfigEntry, CreateTopic, CreateTopicError, TopicConfig};
use uuid::Uuid;

use super::describe_configs::config_source;
use super::metadata::check_may_create;
use crate::authorize::{Operation, Resource};
use crate::context::{Context, Refusal};
use crate::error_code::ErrorCode;

/// Topics of one request that are created at the same time: they share commits.
const CREATED_AT_ONCE: usize = 16;
const DEFAULT: i32 = -1;
const CONFIGS_SINCE: i16 = 5;

/// What was created, or would have been.
struct Created {
    topic_id: Uuid,
    partitions: i32,
    replication_factor: i16,
    configs: Vec<ConfigEntry>,
}

#[derive(Clone, Copy)]
enum Mode {
    Create,
    Validate,
}

pub(super) async fn answer(context: Context, request: CreateTopicsRequest) -> CreateTopicsResponse {
    let mode = if request.validate_only { Mode::Validate } else { Mode::Create };
    let (duplicates, timeout_ms) = (duplicate_names(&request.topics), request.timeout_ms);
    let (context, duplicates) = (&context, &duplicates);
    let results = once_each(request.topics).into_iter().map(async |topic| {
        let created = match duplicates.contains(&topic.name) {
            true => Err((ErrorCode::InvalidRequest, "topic is named more than once".to_owned())),
            false => create_in_time(context, &topic, mode, timeout_ms).await,
        };
        match created {
            Ok(created) => accepted(context, &topic, created),
            Err(refusal) => refused(context, &topic, refusal),
        }
    });
    let topics = stream::iter(results).buffered(CREATED_AT_ONCE).collect().await;
    CreateTopicsResponse::default().with_topics(topics)
}

async fn create_in_time(
    context: &Context,
    topic: &CreatableTopic,
    mode: Mode,
    timeout_ms: i32,
) -> Result<Created, Refusal> {
    match context.within(timeout_ms, create_one(context, topic, mode)).await {
        Some(created) => created,
        None => Err((ErrorCode::RequestTimedOut, "topic is not created yet, and may be later".to_owned())),
    }
}

/// The first mention of each name.
fn once_each(mut topics: Vec<CreatableTopic>) -> Vec<CreatableTopic> {
    let mut seen = BTreeSet::new();
    topics.retain(|topic| seen.insert(topic.name.clone()));
    topics
}

fn duplicate_names(topics: &[CreatableTopic]) -> BTreeSet<TopicName> {
    let mut seen = BTreeSet::new();
    topics.iter().filter(|topic| !seen.insert(&topic.name)).map(|topic| topic.name.clone()).collect()
}

fn accepted(context: &Context, topic: &CreatableTopic, created: Created) -> CreatableTopicResult {
    let result = CreatableTopicResult::default()
        .with_name(topic.name.clone())
        .with_topic_id(created.topic_id)
        .with_error_message(None);
    if !context.may(Operation::DescribeConfigs, Resource::Topic(&topic.name)) {
        let code = ErrorCode::TopicAuthorizationFailed.wire();
        let result =
            if context.version < CONFIGS_SINCE { result } else { result.with_topic_config_error_code(code) };
        return result.with_configs(Some(Vec::new()));
    }
    result
        .with_num_partitions(created.partitions)
        .with_replication_factor(created.replication_factor)
        .with_configs(Some(created.configs.into_iter().map(describe).collect()))
}

fn describe(entry: ConfigEntry) -> CreatableTopicConfigs {
    CreatableTopicConfigs::default()
        .with_name(StrBytes::from_static_str(entry.name))
        .with_config_source(config_source(&entry))
        .with_value(Some(StrBytes::from_string(entry.value)))
}

fn refused(context: &Context, topic: &CreatableTopic, (error, reason): Refusal) -> CreatableTopicResult {
    CreatableTopicResult::default()
        .with_name(topic.name.clone())
        .with_error_code(context.code(error))
        .with_error_message(Some(StrBytes::from_string(reason)))
        .with_num_partitions(-1)
        .with_replication_factor(-1)
        .with_configs(Some(Vec::new()))
}

async fn create_one(context: &Context, topic: &CreatableTopic, mode: Mode) -> Result<Created, Refusal> {
    check_may_create(context, &topic.name).map_err(|error| (error, "not authorized".to_owned()))?;
    let partitions = partition_count(context, topic)?;
    let create = CreateTopic { name: topic.name.to_string(), partitions, configs: configs(topic)? };
    let (topic_id, config) = match mode {
        Mode::Create => {
            let created = context.log().create_topic(create).await.map_err(refusal)?;
            (created.id.as_uuid(), created.config.clone())
        }
        Mode::Validate => {
            context.log().check_create_topic(&create).map_err(refusal)?;
            let config = TopicConfig::parse(&create.configs).map_err(|error| refusal(error.into()))?;
            (Uuid::nil(), config)
        }
    };
    let replication_factor = topic.replication_factor.max(1);
    Ok(Created { topic_id, partitions, replication_factor, configs: config.entries() })
}

fn refusal(error: CreateTopicError) -> Refusal {
    (ErrorCode::from(&error), error.to_string())
}

fn partition_count(context: &Context, topic: &CreatableTopic) -> Result<i32, Refusal> {
    if !topic.assignments.is_empty() {
        return assigned_partition_count(context, topic);
    }
    if topic.replication_factor < -1 || topic.replication_factor == 0 {
        let reason = format!("replication factor {} is below 1", topic.replication_factor);
        return Err((ErrorCode::InvalidReplicationFactor, reason));
    }
    match topic.num_partitions {
        DEFAULT => Ok(context.settings().num_partitions_default),
        count if count < 1 => {
            Err((ErrorCode::InvalidPartitions, format!("partition count {count} is below 1")))
        }
        count => Ok(count),
    }
}

fn assigned_partition_count(context: &Context, topic: &CreatableTopic) -> Result<i32, Refusal> {
    if topic.num_partitions != DEFAULT || i32::from(topic.replication_factor) != DEFAULT {
        let reason = "partition count and replication factor must be -1 beside an assignment".to_owned();
        return Err((ErrorCode::InvalidRequest, reason));
    }
    let node_id = context.settings().node_id;
    let mut partitions: Vec<_> = topic.assignments.iter().map(|one| one.partition_index).collect();
    partitions.sort_unstable();
    let consecutive = partitions.iter().zip(0..).all(|(found, expected)| *found == expected);
    let here = |brokers: &[_]| brokers.len() == 1 && brokers[0] == node_id;
    let all_here = topic.assignments.iter().all(|one| {
        let brokers: Vec<i32> = one.broker_ids.iter().map(|broker| broker.0).collect();
        here(&brokers)
    });
    if !consecutive || !all_here {
        let reason = format!("partitions must be 0, 1, ... and each on broker {node_id} alone");
        return Err((ErrorCode::InvalidReplicaAssignment, reason));
    }
    i32::try_from(partitions.len())
        .map_err(|_| (ErrorCode::InvalidPartitions, "too many partitions".to_owned()))
}

fn configs(topic: &CreatableTopic) -> Result<BTreeMap<String, String>, Refusal> {
    let mut configs = BTreeMap::new();
    for config in &topic.configs {
        let Some(value) = &config.value else {
            return Err((ErrorCode::InvalidConfig, format!("config {} has no value", &*config.name)));
        };
        configs.insert(config.name.to_string(), value.to_string());
    }
    Ok(configs)
}
