//! Metadata (key 3): the broker, the cluster and its topics, which it may create.
//!
//! # Behavior
//! - There is one broker, which leads all partitions in leader epoch as the log says. Its address is
//!   the advertised one, or the one that the client connected to.
//! - A topic that is named, does not exist and may be created is created with the default partition
//!   count and answered at once. A name that is not allowed is INVALID_TOPIC_EXCEPTION.
//! - Topics that the client may not describe are left out where all are asked for, and are
//!   TOPIC_AUTHORIZATION_FAILED where they are named. To create one takes Create on the cluster or on the
//!   topic, whether or not its name is allowed.
//! - Authorized operations are "not given" (the smallest 32-bit integer) unless they are asked for.
//!
//! # Version notes
//! - 0: an empty list means all topics. 1 and later: null means all, empty means none.
//! - Before 4 there is no field that forbids the creation, so it is allowed.
//! - 8: authorized operations; those of the cluster only up to 10.
//! - 10 and 11 answer with topic ids; from 12 on one may ask by id, and the name is then not looked at.
//! - 13: an error for the whole request, which this gateway never has.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{MetadataRequest, MetadataResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use strandline_storage::ids::{TopicId, TopicPartition};
use strandline_storage::log::{CreateTopic, CreateTopicError, Snapshot, Topic, topic_name};
use uuid::Uuid;

use crate::authorize::{Operation, Resource};
use crate::context::Context;
use crate::error_code::ErrorCode;
use crate::settings::AutoCreate;

const BY_ID_SINCE: i16 = 12;
const OPERATIONS_NOT_GIVEN: i32 = i32::MIN;
/// Topics of one request that are created at the same time: they share commits.
const CREATED_AT_ONCE: usize = 16;
/// The topics that clients leave out of pattern subscriptions.
const INTERNAL_TOPICS: [&str; 2] = ["__consumer_offsets", "__transaction_state"];

/// Whether clients leave a topic out of pattern subscriptions.
pub(super) fn is_internal(topic: &str) -> bool {
    INTERNAL_TOPICS.contains(&topic)
}

pub(super) async fn answer(context: Context, request: MetadataRequest) -> MetadataResponse {
    let mut topics = match named_topics(&context, &request) {
        Some(named) => answer_named(&context, named, may_create(&context, &request)).await,
        None => answer_all(&context),
    };
    if request.include_topic_authorized_operations {
        topics.iter_mut().for_each(|topic| add_operations(&context, topic));
    }
    let cluster_operations = match request.include_cluster_authorized_operations {
        true => cluster_operations(&context),
        false => OPERATIONS_NOT_GIVEN,
    };
    let (host, port) = context.advertised();
    let node_id = context.settings().node_id;
    let broker = MetadataResponseBroker::default()
        .with_node_id(node_id.into())
        .with_host(StrBytes::from_string(host))
        .with_port(port);
    MetadataResponse::default()
        .with_brokers(vec![broker])
        .with_cluster_id(Some(StrBytes::from_string(context.log().cluster_id().to_owned())))
        .with_controller_id(node_id.into())
        .with_topics(topics)
        .with_cluster_authorized_operations(cluster_operations)
}

/// All that the client may do to the cluster, which only those are told who may describe it.
pub(super) fn cluster_operations(context: &Context) -> i32 {
    match context.may(Operation::Describe, Resource::Cluster) {
        true => context.authorized_operations(Resource::Cluster),
        false => 0,
    }
}

/// Also of a topic that is not there: who may describe it may learn what else it may do.
fn add_operations(context: &Context, topic: &mut MetadataResponseTopic) {
    let is_hidden = topic.error_code == ErrorCode::TopicAuthorizationFailed.wire();
    if let Some(name) = topic.name.as_ref().filter(|_| !is_hidden) {
        topic.topic_authorized_operations = context.authorized_operations(Resource::Topic(name));
    }
}

/// The topics that the request names; `None` when it asks for all.
fn named_topics(context: &Context, request: &MetadataRequest) -> Option<Vec<MetadataRequestTopic>> {
    let mut named = request.topics.clone()?;
    let all = context.version == 0 && named.is_empty();
    // A topic is described once, however often it is named, and whatever stands beside what is looked at.
    let mut seen = BTreeSet::new();
    named.retain(|topic| match is_by_id(context, topic) {
        true => seen.insert((topic.topic_id, None)),
        false => seen.insert((Uuid::nil(), topic.name.clone())),
    });
    (!all).then_some(named)
}

fn may_create(context: &Context, request: &MetadataRequest) -> AutoCreate {
    if request.allow_auto_topic_creation {
        context.settings().auto_create_topics
    } else {
        AutoCreate::Disabled
    }
}

fn answer_all(context: &Context) -> Vec<MetadataResponseTopic> {
    let snapshot = context.log().snapshot();
    let visible = |topic: &&Arc<Topic>| context.may(Operation::Describe, Resource::Topic(&topic.name));
    snapshot.topics().filter(visible).map(|topic| describe(context, &snapshot, topic)).collect()
}

async fn answer_named(
    context: &Context,
    named: Vec<MetadataRequestTopic>,
    auto_create: AutoCreate,
) -> Vec<MetadataResponseTopic> {
    let answers = named.into_iter().map(|topic| answer_one(context, topic, auto_create));
    stream::iter(answers).buffered(CREATED_AT_ONCE).collect().await
}

async fn answer_one(
    context: &Context,
    requested: MetadataRequestTopic,
    auto_create: AutoCreate,
) -> MetadataResponseTopic {
    let name = requested.name.clone().filter(|_| !is_by_id(context, &requested));
    match find_or_create(context, &requested, auto_create).await {
        Ok((snapshot, topic)) => describe(context, &snapshot, &topic),
        Err(error) => MetadataResponseTopic::default()
            .with_error_code(context.code(error))
            .with_name(name)
            .with_topic_id(requested.topic_id),
    }
}

type Found = (Snapshot, Arc<Topic>);

async fn find_or_create(
    context: &Context,
    requested: &MetadataRequestTopic,
    auto_create: AutoCreate,
) -> Result<Found, ErrorCode> {
    let snapshot = context.log().snapshot();
    let Some(name) = requested.name.as_ref().filter(|_| !is_by_id(context, requested)) else {
        return find_by_id(context, snapshot, requested);
    };
    context.authorize(Operation::Describe, Resource::Topic(name))?;
    if let Some(topic) = snapshot.topic(name).cloned() {
        return Ok((snapshot, topic));
    }
    if auto_create == AutoCreate::Enabled {
        check_may_create(context, name)?;
    }
    topic_name::validate(name).map_err(|_| ErrorCode::InvalidTopicException)?;
    match auto_create {
        AutoCreate::Enabled => create(context, name).await,
        AutoCreate::Disabled => Err(ErrorCode::UnknownTopicOrPartition),
    }
}

/// Beside an id, some clients send an empty name and not a null one.
fn is_by_id(context: &Context, requested: &MetadataRequestTopic) -> bool {
    context.version >= BY_ID_SINCE && !requested.topic_id.is_nil()
}

/// Who may create any topic may create this one, too.
pub(super) fn check_may_create(context: &Context, name: &str) -> Result<(), ErrorCode> {
    match context.may(Operation::Create, Resource::Cluster) {
        true => Ok(()),
        false => context.authorize(Operation::Create, Resource::Topic(name)),
    }
}

fn find_by_id(
    context: &Context,
    snapshot: Snapshot,
    requested: &MetadataRequestTopic,
) -> Result<Found, ErrorCode> {
    if context.version < BY_ID_SINCE || requested.topic_id.is_nil() {
        return Err(ErrorCode::InvalidRequest);
    }
    let id = TopicId::from_bytes(requested.topic_id.into_bytes());
    let topic = snapshot.topic_by_id(id).cloned().ok_or(ErrorCode::UnknownTopicId)?;
    context.authorize(Operation::Describe, Resource::Topic(&topic.name))?;
    Ok((snapshot, topic))
}

async fn create(context: &Context, name: &str) -> Result<Found, ErrorCode> {
    let topic = CreateTopic {
        name: name.to_owned(),
        partitions: context.settings().num_partitions_default,
        configs: Default::default(),
    };
    match context.log().create_topic(topic).await {
        Ok(topic) => Ok((context.log().snapshot(), topic)),
        Err(CreateTopicError::AlreadyExists { .. }) => {
            // Another client was faster.
            let snapshot = context.log().snapshot();
            let topic = snapshot.topic(name).cloned().ok_or(ErrorCode::UnknownTopicOrPartition)?;
            Ok((snapshot, topic))
        }
        Err(error) => Err(ErrorCode::from(&error)),
    }
}

fn describe(context: &Context, snapshot: &Snapshot, topic: &Topic) -> MetadataResponseTopic {
    let partitions = (0..topic.partition_count).map(|index| {
        let view = snapshot.partition(TopicPartition::new(topic.id, index));
        let node_id = context.settings().node_id.into();
        MetadataResponsePartition::default()
            .with_partition_index(index)
            .with_leader_id(node_id)
            .with_leader_epoch(view.map_or(0, |view| view.bounds().leader_epoch))
            .with_replica_nodes(vec![node_id])
            .with_isr_nodes(vec![node_id])
    });
    MetadataResponseTopic::default()
        .with_name(Some(TopicName(StrBytes::from_string(topic.name.clone()))))
        .with_topic_id(topic.id.as_uuid())
        .with_is_internal(is_internal(&topic.name))
        .with_partitions(partitions.collect())
}
