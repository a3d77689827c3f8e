//! The resources that have configs, and how those of a topic are altered: what AlterConfigs and
//! IncrementalAlterConfigs have in common.
//!
//! Invariant: a resource that is refused keeps all its configs as they are.

use std::collections::BTreeSet;

use kafka_protocol::protocol::StrBytes;
use strandline_storage::log::{ConfigChanges, Topic, TopicError};

use crate::authorize::{Operation, Resource};
use crate::context::{Context, Refusal};
use crate::error_code::ErrorCode;

/// `ConfigResource.Type` of the Java client.
pub(super) const TOPIC: i8 = 2;
pub(super) const BROKER: i8 = 4;
pub(super) const GROUP: i8 = 32;
/// Kinds that Kafka has and this broker does not: the loggers of a broker, and subscriptions to metrics of
/// clients. They are the cluster's, so that who may not see its configs is told no more.
const BROKER_LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;

/// The requests have no timeout of their own.
const TIMEOUT_MS: i32 = 30_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Alter,
    Validate,
}

impl Mode {
    pub(super) fn new(validate_only: bool) -> Self {
        if validate_only { Self::Validate } else { Self::Alter }
    }
}

/// What one resource of a request is to become.
pub(super) struct Alteration {
    pub(super) kind: i8,
    pub(super) name: StrBytes,
    /// Or why the request makes no sense.
    pub(super) changes: Result<ConfigChanges, Refusal>,
}

/// What became of each resource, in the order of the request.
pub(super) async fn alter_all(
    context: &Context,
    alterations: Vec<Alteration>,
    mode: Mode,
) -> Vec<Result<(), Refusal>> {
    let duplicates = duplicates(&alterations);
    let mut results = Vec::with_capacity(alterations.len());
    for alteration in alterations {
        let result = if duplicates.contains(&(alteration.kind, alteration.name.clone())) {
            Err((ErrorCode::InvalidRequest, "each resource must appear at most once".to_owned()))
        } else {
            alter(context, alteration, mode).await
        };
        results.push(result);
    }
    results
}

fn duplicates(alterations: &[Alteration]) -> BTreeSet<(i8, StrBytes)> {
    let mut seen = BTreeSet::new();
    let keys = alterations.iter().map(|one| (one.kind, one.name.clone()));
    keys.filter(|key| !seen.insert(key.clone())).collect()
}

async fn alter(context: &Context, alteration: Alteration, mode: Mode) -> Result<(), Refusal> {
    let changes = alteration.changes?;
    let name = alteration.name.as_str();
    match alteration.kind {
        TOPIC => alter_topic(context, name, changes, mode).await,
        BROKER => Err(refuse_broker(context, name)),
        GROUP => Err(refuse_group(context, name)),
        other => Err(refuse_unsupported(context, Operation::AlterConfigs, other)),
    }
}

/// The refusal of a kind of resource that has no configs here.
pub(super) fn refuse_unsupported(context: &Context, operation: Operation, kind: i8) -> Refusal {
    let allowed = match kind {
        BROKER_LOGGER | CLIENT_METRICS => context.check_authorized(operation, Resource::Cluster),
        _ => Ok(()),
    };
    let unsupported = || (ErrorCode::InvalidRequest, format!("resource type {kind} is not supported"));
    allowed.err().unwrap_or_else(unsupported)
}

async fn alter_topic(
    context: &Context,
    name: &str,
    changes: ConfigChanges,
    mode: Mode,
) -> Result<(), Refusal> {
    context.check_authorized(Operation::AlterConfigs, Resource::Topic(name))?;
    if name.is_empty() {
        return Err((ErrorCode::InvalidRequest, "there are no configs for all topics together".to_owned()));
    }
    let snapshot = context.log().snapshot();
    let topic = find_topic(snapshot.topic(name).map(AsRef::as_ref), name)?;
    let refused = |error: TopicError| (ErrorCode::from(&error), error.to_string());
    match mode {
        Mode::Validate => changes.resolve(&topic.config).map(drop).map_err(|error| refused(error.into())),
        Mode::Alter => {
            let altered = context.log().alter_topic_config(topic.id, changes);
            match context.within(TIMEOUT_MS, altered).await {
                Some(result) => result.map_err(refused),
                None => Err((ErrorCode::RequestTimedOut, "not altered yet, and may be later".to_owned())),
            }
        }
    }
}

/// A topic that was looked up, or the refusal that says that it is not there.
pub(super) fn find_topic<'a>(topic: Option<&'a Topic>, name: &str) -> Result<&'a Topic, Refusal> {
    let missing = || (ErrorCode::UnknownTopicOrPartition, format!("topic \"{name}\" does not exist"));
    topic.ok_or_else(missing)
}

fn refuse_broker(context: &Context, name: &str) -> Refusal {
    if let Err(refusal) = context.check_authorized(Operation::AlterConfigs, Resource::Cluster) {
        return refusal;
    }
    let reason = match check_broker(context.settings().node_id, name) {
        Ok(()) => "configs of a broker are set where it is started, and cannot be altered".to_owned(),
        Err(reason) => reason,
    };
    (ErrorCode::InvalidRequest, reason)
}

fn refuse_group(context: &Context, name: &str) -> Refusal {
    match context.check_authorized(Operation::AlterConfigs, Resource::Group(name)) {
        Ok(()) => (
            ErrorCode::InvalidRequest,
            "configs of a group are those of all, and cannot be altered".to_owned(),
        ),
        Err(refusal) => refusal,
    }
}

/// The broker is named by its id; the empty text stands for all brokers, of which there is one.
pub(super) fn check_broker(node_id: i32, name: &str) -> Result<(), String> {
    match name {
        "" => Ok(()),
        name if name == node_id.to_string() => Ok(()),
        name => Err(format!("broker \"{name}\" is not this one, which is {node_id}")),
    }
}
