//! DescribeConfigs (key 32): the configs of topics, of this broker and of groups.
//!
//! # Behavior
//! - A topic is described with all configs that there are, set or default: tools look for some of
//!   them, `cleanup.policy` first of all. A config that has no effect says so in its
//!   documentation.
//! - The source of a config is the topic or the default. Its synonyms are what would hold in its
//!   place, down to the broker's default.
//! - The broker is named by its id. Its configs are read-only, and include the defaults of topics. The empty
//!   name asks for what was altered for all brokers at once, which is nothing: no config of a broker can
//!   be altered.
//! - A group, whether there is one of the name or not, has the configs of all groups, read-only.
//! - An empty list of keys means all, as null does.
//!
//! # Version notes
//! - 3: types and documentation.

use std::collections::BTreeSet;

use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use kafka_protocol::protocol::StrBytes;
use strandline_storage::log::{ConfigEntry, ConfigKind, TopicConfig, topic_name};

use super::config_resource::{BROKER, GROUP, TOPIC, check_broker, find_topic, refuse_unsupported};
use crate::authorize::{Operation, Resource};
use crate::context::{Context, Refusal};
use crate::error_code::ErrorCode;
use crate::settings::{AutoCreate, GatewaySettings};

/// `DescribeConfigsResponse.ConfigSource` of the Java client.
const SOURCE_TOPIC: i8 = 1;
const SOURCE_STATIC_BROKER: i8 = 4;
const SOURCE_DEFAULT: i8 = 5;

/// `DescribeConfigsResponse.ConfigType` of the Java client.
fn config_type(kind: ConfigKind) -> i8 {
    match kind {
        ConfigKind::Boolean => 1,
        ConfigKind::String => 2,
        ConfigKind::Int => 3,
        ConfigKind::Long => 5,
        ConfigKind::Double => 6,
        ConfigKind::List => 7,
    }
}

/// Where the value of a topic's config comes from.
pub(super) fn config_source(entry: &ConfigEntry) -> i8 {
    if entry.is_default { SOURCE_DEFAULT } else { SOURCE_TOPIC }
}

pub(super) async fn answer(context: Context, request: DescribeConfigsRequest) -> DescribeConfigsResponse {
    // A resource is described once, however often it is named.
    let mut seen = BTreeSet::new();
    let resources = request.resources.iter();
    let resources = resources.filter(|one| seen.insert((one.resource_type, one.resource_name.clone())));
    let results = resources.map(|resource| {
        let result = DescribeConfigsResult::default()
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name.clone())
            .with_error_message(None);
        match describe(&context, resource) {
            Ok(mut configs) => {
                configs.retain(|config| is_wanted(resource, config));
                let configs = configs.into_iter().map(|config| trim(config, &request));
                result.with_configs(configs.collect())
            }
            Err((error, reason)) => result
                .with_error_code(context.code(error))
                .with_error_message(Some(StrBytes::from_string(reason))),
        }
    });
    DescribeConfigsResponse::default().with_results(results.collect())
}

fn is_wanted(resource: &DescribeConfigsResource, config: &DescribeConfigsResourceResult) -> bool {
    match &resource.configuration_keys {
        Some(keys) if !keys.is_empty() => keys.contains(&config.name),
        _ => true,
    }
}

/// Leaves out what the request did not ask for.
fn trim(
    mut config: DescribeConfigsResourceResult,
    request: &DescribeConfigsRequest,
) -> DescribeConfigsResourceResult {
    if !request.include_synonyms {
        config.synonyms.clear();
    }
    if !request.include_documentation {
        config.documentation = None;
    }
    config
}

type Described = Result<Vec<DescribeConfigsResourceResult>, Refusal>;

fn describe(context: &Context, resource: &DescribeConfigsResource) -> Described {
    let name = resource.resource_name.as_str();
    match resource.resource_type {
        TOPIC => {
            context.check_authorized(Operation::DescribeConfigs, Resource::Topic(name))?;
            describe_topic(context, name)
        }
        BROKER => {
            context.check_authorized(Operation::DescribeConfigs, Resource::Cluster)?;
            describe_broker(context.settings(), name)
        }
        GROUP => {
            context.check_authorized(Operation::DescribeConfigs, Resource::Group(name))?;
            describe_group(context.settings(), name)
        }
        other => Err(refuse_unsupported(context, Operation::DescribeConfigs, other)),
    }
}

fn describe_topic(context: &Context, name: &str) -> Described {
    topic_name::validate(name).map_err(|error| (ErrorCode::InvalidTopicException, error.to_string()))?;
    let snapshot = context.log().snapshot();
    let topic = find_topic(snapshot.topic(name).map(AsRef::as_ref), name)?;
    Ok(topic.config.entries().into_iter().map(topic_config).collect())
}

fn topic_config(entry: ConfigEntry) -> DescribeConfigsResourceResult {
    let documentation = match entry.effective {
        true => entry.documentation.to_owned(),
        false => format!("{} (kept, without effect)", entry.documentation),
    };
    let source = config_source(&entry);
    // In the order in which they would take effect, the one that does first.
    let mut synonyms = vec![synonym(broker_name(entry.name), entry.default, SOURCE_DEFAULT)];
    if !entry.is_default {
        synonyms.insert(0, synonym(entry.name, &entry.value, source));
    }
    Config {
        name: entry.name,
        source,
        kind: entry.kind,
        value: entry.value,
        documentation,
        read_only: false,
        synonyms,
    }
    .into()
}

fn synonym(name: &'static str, value: &str, source: i8) -> DescribeConfigsSynonym {
    DescribeConfigsSynonym::default()
        .with_name(StrBytes::from_static_str(name))
        .with_value(Some(StrBytes::from_string(value.to_owned())))
        .with_source(source)
}

/// What a broker calls the default of a topic's config (Kafka's `TopicConfigSynonyms`).
fn broker_name(topic_config: &'static str) -> &'static str {
    match topic_config {
        "cleanup.policy" => "log.cleanup.policy",
        "delete.retention.ms" => "log.cleaner.delete.retention.ms",
        "file.delete.delay.ms" => "log.segment.delete.delay.ms",
        "flush.messages" => "log.flush.interval.messages",
        "flush.ms" => "log.flush.interval.ms",
        "index.interval.bytes" => "log.index.interval.bytes",
        "local.retention.bytes" => "log.local.retention.bytes",
        "local.retention.ms" => "log.local.retention.ms",
        "max.compaction.lag.ms" => "log.cleaner.max.compaction.lag.ms",
        "max.message.bytes" => "message.max.bytes",
        "message.timestamp.after.max.ms" => "log.message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms" => "log.message.timestamp.before.max.ms",
        "message.timestamp.type" => "log.message.timestamp.type",
        "min.cleanable.dirty.ratio" => "log.cleaner.min.cleanable.ratio",
        "min.compaction.lag.ms" => "log.cleaner.min.compaction.lag.ms",
        "preallocate" => "log.preallocate",
        "retention.bytes" => "log.retention.bytes",
        "retention.ms" => "log.retention.ms",
        "segment.bytes" => "log.segment.bytes",
        "segment.index.bytes" => "log.index.size.max.bytes",
        "segment.jitter.ms" => "log.roll.jitter.ms",
        "segment.ms" => "log.roll.ms",
        same => same,
    }
}

fn describe_broker(settings: &GatewaySettings, name: &str) -> Described {
    check_broker(settings.node_id, name).map_err(|reason| (ErrorCode::InvalidRequest, reason))?;
    if name.is_empty() {
        return Ok(Vec::new());
    }
    let auto_create = settings.auto_create_topics == AutoCreate::Enabled;
    let delay_ms = settings.group_initial_rebalance_delay.as_millis();
    let configs = [
        ("auto.create.topics.enable", ConfigKind::Boolean, auto_create.to_string()),
        ("broker.id", ConfigKind::Int, settings.node_id.to_string()),
        ("delete.topic.enable", ConfigKind::Boolean, true.to_string()),
        ("default.replication.factor", ConfigKind::Int, "1".to_owned()),
        ("fetch.max.bytes", ConfigKind::Int, settings.fetch_bytes_max.to_string()),
        ("group.initial.rebalance.delay.ms", ConfigKind::Int, delay_ms.to_string()),
        ("num.partitions", ConfigKind::Int, settings.num_partitions_default.to_string()),
        ("offset.metadata.max.bytes", ConfigKind::Int, settings.offset_metadata_bytes_max.to_string()),
        ("socket.request.max.bytes", ConfigKind::Int, settings.frame_bytes_max.to_string()),
    ];
    let configs = configs.into_iter().map(|(name, kind, value)| {
        Config {
            name,
            source: SOURCE_STATIC_BROKER,
            kind,
            synonyms: vec![synonym(name, &value, SOURCE_STATIC_BROKER)],
            value,
            documentation: String::new(),
            read_only: true,
        }
        .into()
    });
    let mut configs: Vec<DescribeConfigsResourceResult> = configs.chain(topic_defaults()).collect();
    configs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(configs)
}

/// The defaults of topic configs, by the names that a broker has for them.
fn topic_defaults() -> impl Iterator<Item = DescribeConfigsResourceResult> {
    TopicConfig::default().entries().into_iter().map(|entry| {
        let name = broker_name(entry.name);
        Config {
            name,
            source: SOURCE_DEFAULT,
            kind: entry.kind,
            synonyms: vec![synonym(name, entry.default, SOURCE_DEFAULT)],
            value: entry.value,
            documentation: entry.documentation.to_owned(),
            read_only: true,
        }
        .into()
    })
}

/// For members of the protocol of KIP-848.
fn describe_group(settings: &GatewaySettings, name: &str) -> Described {
    if name.is_empty() {
        return Err((ErrorCode::InvalidRequest, "group has no name".to_owned()));
    }
    // Beside the name that a broker has for the default.
    let configs = [
        (
            "consumer.heartbeat.interval.ms",
            "group.consumer.heartbeat.interval.ms",
            settings.group_consumer_heartbeat_interval,
        ),
        (
            "consumer.session.timeout.ms",
            "group.consumer.session.timeout.ms",
            settings.group_consumer_session_timeout,
        ),
    ];
    let configs = configs.into_iter().map(|(name, default_name, time)| {
        let value = time.as_millis().to_string();
        Config {
            name,
            source: SOURCE_DEFAULT,
            kind: ConfigKind::Int,
            synonyms: vec![synonym(default_name, &value, SOURCE_DEFAULT)],
            value,
            documentation: String::new(),
            read_only: true,
        }
        .into()
    });
    Ok(configs.collect())
}

/// One config as it is described.
struct Config {
    name: &'static str,
    source: i8,
    kind: ConfigKind,
    value: String,
    documentation: String,
    read_only: bool,
    synonyms: Vec<DescribeConfigsSynonym>,
}

impl From<Config> for DescribeConfigsResourceResult {
    fn from(config: Config) -> Self {
        let value = Some(StrBytes::from_string(config.value));
        let name = StrBytes::from_static_str(config.name);
        Self::default()
            .with_name(name)
            .with_value(value)
            .with_read_only(config.read_only)
            .with_config_source(config.source)
            .with_synonyms(config.synonyms)
            .with_config_type(config_type(config.kind))
            .with_documentation(Some(StrBytes::from_string(config.documentation)))
    }
}
