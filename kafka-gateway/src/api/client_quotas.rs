//! DescribeClientQuotas (key 48) and AlterClientQuotas (key 49).
//!
//! # Behavior
//! - There are no quotas: the description is empty, and altering one is INVALID_REQUEST with a
//!   sentence that says so.

use kafka_protocol::messages::alter_client_quotas_request;
use kafka_protocol::messages::alter_client_quotas_response::{EntityData, EntryData};
use kafka_protocol::messages::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
};
use kafka_protocol::protocol::StrBytes;

use crate::authorize::{Operation, Resource};
use crate::context::{Context, Refusal};
use crate::error_code::ErrorCode;

pub(super) async fn describe(
    context: Context,
    _request: DescribeClientQuotasRequest,
) -> DescribeClientQuotasResponse {
    let response = DescribeClientQuotasResponse::default().with_error_message(None);
    match context.check_authorized(Operation::DescribeConfigs, Resource::Cluster) {
        Ok(()) => response.with_entries(Some(Vec::new())),
        Err((error, reason)) => response
            .with_entries(None)
            .with_error_code(context.code(error))
            .with_error_message(Some(StrBytes::from_string(reason))),
    }
}

pub(super) async fn alter(context: Context, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse {
    let refusal = match context.check_authorized(Operation::AlterConfigs, Resource::Cluster) {
        Ok(()) => (ErrorCode::InvalidRequest, "client quotas are not supported".to_owned()),
        Err(refusal) => refusal,
    };
    let entries = request.entries.into_iter().map(|entry| refused(&context, entry, &refusal));
    AlterClientQuotasResponse::default().with_entries(entries.collect())
}

fn refused(
    context: &Context,
    entry: alter_client_quotas_request::EntryData,
    (error, reason): &Refusal,
) -> EntryData {
    let entity = entry.entity.into_iter().map(|entity| {
        EntityData::default().with_entity_type(entity.entity_type).with_entity_name(entity.entity_name)
    });
    EntryData::default()
        .with_error_code(context.code(*error))
        .with_error_message(Some(StrBytes::from_string(reason.clone())))
        .with_entity(entity.collect())
}
