//! ListConfigResources (key 74): the names of what has configs (KIP-1142).
//!
//! # Behavior
//! - Topics and this broker have configs. There are no subscriptions to client metrics, and no group
//!   has configs of its own. No types named means all. An unknown type is UNSUPPORTED_VERSION, as in
//!   Apache Kafka.
//!
//! # Version notes
//! - 0 lists subscriptions to client metrics alone, so nothing.

use kafka_protocol::messages::list_config_resources_response::ConfigResource;
use kafka_protocol::messages::{ListConfigResourcesRequest, ListConfigResourcesResponse};
use kafka_protocol::protocol::StrBytes;

use super::config_resource::{BROKER, GROUP, TOPIC};
use crate::authorize::{Operation, Resource};
use crate::context::Context;
use crate::error_code::ErrorCode;

const TYPES_SINCE: i16 = 1;
/// Topics, brokers, their loggers, client metrics, groups (`ConfigResource.Type` of the Java client).
const TYPES: [i8; 5] = [TOPIC, BROKER, 8, 16, GROUP];

pub(super) async fn answer(
    context: Context,
    request: ListConfigResourcesRequest,
) -> ListConfigResourcesResponse {
    let response = ListConfigResourcesResponse::default();
    match list(&context, &request) {
        Ok(resources) => response.with_config_resources(resources),
        Err(error) => response.with_error_code(context.code(error)),
    }
}

fn list(context: &Context, request: &ListConfigResourcesRequest) -> Result<Vec<ConfigResource>, ErrorCode> {
    context.authorize(Operation::DescribeConfigs, Resource::Cluster)?;
    if context.version < TYPES_SINCE {
        return Ok(Vec::new());
    }
    let types = &request.resource_types;
    if types.iter().any(|kind| !TYPES.contains(kind)) {
        return Err(ErrorCode::UnsupportedVersion);
    }
    let is_wanted = |kind| types.is_empty() || types.contains(&kind);
    let resource = |kind, name: String| {
        ConfigResource::default().with_resource_type(kind).with_resource_name(StrBytes::from_string(name))
    };
    let mut resources = Vec::new();
    if is_wanted(TOPIC) {
        let snapshot = context.log().snapshot();
        resources.extend(snapshot.topics().map(|topic| resource(TOPIC, topic.name.clone())));
    }
    if is_wanted(BROKER) {
        resources.push(resource(BROKER, context.settings().node_id.to_string()));
    }
    Ok(resources)
}
