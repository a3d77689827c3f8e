//! AlterConfigs (key 33): replaces the configuration of topics. Clients prefer
//! IncrementalAlterConfigs, which does not need to know what is set already.
//!
//! # Behavior
//! - What a resource does not name goes back to its default.
//! - A config without a value, or that comes twice, is INVALID_REQUEST. All else is as in
//!   IncrementalAlterConfigs.
//!
//! # Version notes
//! - 2 is flexible; 0 to 2 are otherwise alike.

use std::collections::BTreeMap;

use kafka_protocol::messages::alter_configs_request::AlterConfigsResource;
use kafka_protocol::messages::alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{AlterConfigsRequest, AlterConfigsResponse};
use kafka_protocol::protocol::StrBytes;
use strandline_storage::log::ConfigChanges;

use super::config_resource::{Alteration, Mode, alter_all};
use crate::context::{Context, Refusal};
use crate::error_code::ErrorCode;

pub(super) async fn answer(context: Context, request: AlterConfigsRequest) -> AlterConfigsResponse {
    let alterations = request.resources.iter().map(|resource| Alteration {
        kind: resource.resource_type,
        name: resource.resource_name.clone(),
        changes: values(resource).map(ConfigChanges::ReplaceAll),
    });
    let results = alter_all(&context, alterations.collect(), Mode::new(request.validate_only)).await;
    let responses = request.resources.into_iter().zip(results).map(|(resource, result)| {
        let response = AlterConfigsResourceResponse::default()
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name)
            .with_error_message(None);
        match result {
            Ok(()) => response,
            Err((error, reason)) => response
                .with_error_code(context.code(error))
                .with_error_message(Some(StrBytes::from_string(reason))),
        }
    });
    AlterConfigsResponse::default().with_responses(responses.collect())
}

fn values(resource: &AlterConfigsResource) -> Result<BTreeMap<String, String>, Refusal> {
    let mut values = BTreeMap::new();
    for config in &resource.configs {
        let Some(value) = &config.value else {
            return Err((ErrorCode::InvalidRequest, format!("config {} has no value", &*config.name)));
        };
        if values.insert(config.name.to_string(), value.to_string()).is_some() {
            return Err((ErrorCode::InvalidRequest, format!("config {} is given twice", &*config.name)));
        }
    }
    Ok(values)
}
