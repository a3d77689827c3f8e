//! IncrementalAlterConfigs (key 44): changes single configs of topics (KIP-339).
//!
//! # Behavior
//! - SET, DELETE (back to the default), and APPEND and SUBTRACT for lists, each from the value that
//!   the config has when the change is committed. What is not named stays.
//! - A resource succeeds or fails as a whole and alone. One that comes twice is INVALID_REQUEST, as
//!   are a config that comes twice, an operation without a value, and an unknown operation.
//! - An unknown config, a value out of its bounds, and APPEND to what is no list are INVALID_CONFIG.
//! - Configs of the broker are read-only: INVALID_REQUEST says so.
//! - `validate_only` runs the same checks and changes nothing.
//!
//! # Version notes
//! - 1 is flexible, and otherwise as 0.

use std::collections::BTreeSet;

use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};
use kafka_protocol::protocol::StrBytes;
use strandline_storage::log::{ConfigChanges, ConfigOperation};

use super::config_resource::{Alteration, Mode, alter_all};
use crate::context::{Context, Refusal};
use crate::error_code::ErrorCode;

/// `AlterConfigOp.OpType` of the Java client.
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

pub(super) async fn answer(
    context: Context,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse {
    let alterations = request.resources.iter().map(|resource| Alteration {
        kind: resource.resource_type,
        name: resource.resource_name.clone(),
        changes: changes(resource),
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
    IncrementalAlterConfigsResponse::default().with_responses(responses.collect())
}

fn changes(resource: &AlterConfigsResource) -> Result<ConfigChanges, Refusal> {
    let mut seen = BTreeSet::new();
    if let Some(twice) = resource.configs.iter().find(|config| !seen.insert(&config.name)) {
        return Err((ErrorCode::InvalidRequest, format!("config {} is given twice", &*twice.name)));
    }
    resource.configs.iter().map(operation).collect::<Result<_, _>>().map(ConfigChanges::Each)
}

fn operation(config: &AlterableConfig) -> Result<(String, ConfigOperation), Refusal> {
    let name = config.name.to_string();
    let value = || match &config.value {
        Some(value) => Ok(value.to_string()),
        None => Err((ErrorCode::InvalidRequest, format!("config {name} has no value"))),
    };
    let operation = match config.config_operation {
        SET => ConfigOperation::Set(value()?),
        DELETE => ConfigOperation::Reset,
        APPEND => ConfigOperation::Append(value()?),
        SUBTRACT => ConfigOperation::Subtract(value()?),
        other => {
            return Err((
                ErrorCode::InvalidRequest,
                format!("operation {other} on config {name} is unknown"),
            ));
        }
    };
    Ok((name, operation))
}
