//! DescribeClientQuotas (key 48) and AlterClientQuotas (key 49): how much users and clients may send and
//! fetch (KIP-546).
//!
//! # Behavior
//! - Quotas are for users, client ids, or both, each by name or as the default of all others. Quotas of
//!   addresses (`ip`) are not kept: to set one is INVALID_REQUEST, and none is described.
//! - The keys are `producer_byte_rate`, `consumer_byte_rate` and `request_percentage`; the last is kept and
//!   has no effect. Others are INVALID_REQUEST, as are values that are not above 0 and byte rates with a
//!   fraction.
//! - Each entity succeeds or fails as a whole and alone; one that comes twice is INVALID_REQUEST. What was
//!   altered is durable when it is answered, and holds for the next request. `validate_only` changes nothing.
//! - A filter of a description asks for entities with a type, by name, by default, or whatever its name;
//!   `strict` leaves out those that have other types, too.
//!
//! # Version notes
//! - 1 is flexible, and otherwise as 0.

mod alteration;
mod filter;

use kafka_protocol::messages::alter_client_quotas_request;
use kafka_protocol::messages::alter_client_quotas_response::{EntityData, EntryData};
use kafka_protocol::messages::describe_client_quotas_response;
use kafka_protocol::messages::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
};
use kafka_protocol::protocol::StrBytes;
use strandline_storage::access::{EntityName, QuotaEntity, Quotas};

use self::alteration::{Alteration, apply_all, parse_all};
use self::filter::Filter;
use super::access_change::{Draft, commit};
use crate::authorize::{Operation, Resource};
use crate::context::{Context, Refusal};

/// `ClientQuotaEntity` of the Java client.
const USER: &str = "user";
const CLIENT_ID: &str = "client-id";
const IP: &str = "ip";

pub(super) async fn describe(
    context: Context,
    request: DescribeClientQuotasRequest,
) -> DescribeClientQuotasResponse {
    let response = DescribeClientQuotasResponse::default().with_error_message(None);
    let allowed = context.check_authorized(Operation::DescribeConfigs, Resource::Cluster);
    match allowed.and_then(|()| Filter::new(&request)) {
        Ok(filter) => response.with_entries(Some(entries(&context.log().access().quotas, &filter))),
        Err((error, reason)) => response
            .with_entries(None)
            .with_error_code(context.code(error))
            .with_error_message(Some(StrBytes::from_string(reason))),
    }
}

/// The values of an entity follow each other.
fn entries(quotas: &Quotas, filter: &Filter) -> Vec<describe_client_quotas_response::EntryData> {
    use describe_client_quotas_response::{EntryData, ValueData};
    let mut described: Vec<(&QuotaEntity, EntryData)> = Vec::new();
    for (entity, key, value) in quotas.iter().filter(|(entity, ..)| filter.matches(entity)) {
        if described.last().is_none_or(|(last, _)| *last != entity) {
            described.push((entity, EntryData::default().with_entity(on_wire(entity))));
        }
        let (_, entry) = described.last_mut().expect("one was just added if there was none");
        let key = StrBytes::from_string(key.to_owned());
        entry.values.push(ValueData::default().with_key(key).with_value(value));
    }
    described.into_iter().map(|(_, entry)| entry).collect()
}

fn on_wire(entity: &QuotaEntity) -> Vec<describe_client_quotas_response::EntityData> {
    let parts = [(USER, &entity.user), (CLIENT_ID, &entity.client_id)];
    let parts = parts.into_iter().filter_map(|(entity_type, name)| {
        let name = match name.as_ref()? {
            EntityName::Default => None,
            EntityName::Named(name) => Some(StrBytes::from_string(name.clone())),
        };
        let part = describe_client_quotas_response::EntityData::default();
        Some(part.with_entity_type(StrBytes::from_static_str(entity_type)).with_entity_name(name))
    });
    parts.collect()
}

pub(super) async fn alter(context: Context, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse {
    let alterations = parse_all(&request.entries);
    let altered = match context.check_authorized(Operation::AlterConfigs, Resource::Cluster) {
        Ok(()) if request.validate_only => Ok(validate(&context, alterations)),
        Ok(()) => commit(&context, move |draft| apply_all(draft, alterations)).await,
        Err(refusal) => Err(refusal),
    };
    let entries = request.entries;
    let outcomes = altered.unwrap_or_else(|refusal| entries.iter().map(|_| Err(refusal.clone())).collect());
    let results = entries.into_iter().zip(outcomes).map(|(entry, outcome)| answer(&context, entry, outcome));
    AlterClientQuotasResponse::default().with_entries(results.collect())
}

fn validate(context: &Context, alterations: Vec<Result<Alteration, Refusal>>) -> Vec<Result<(), Refusal>> {
    apply_all(&mut Draft::new(&context.log().access()), alterations)
}

fn answer(
    context: &Context,
    entry: alter_client_quotas_request::EntryData,
    outcome: Result<(), Refusal>,
) -> EntryData {
    let entity = entry.entity.into_iter().map(|entity| {
        EntityData::default().with_entity_type(entity.entity_type).with_entity_name(entity.entity_name)
    });
    let result = EntryData::default().with_error_message(None).with_entity(entity.collect());
    match outcome {
        Ok(()) => result,
        Err((error, reason)) => result
            .with_error_code(context.code(error))
            .with_error_message(Some(StrBytes::from_string(reason))),
    }
}
