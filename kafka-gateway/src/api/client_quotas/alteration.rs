//! What a request makes of the quotas of one entity (Kafka's `ClientQuotaControlManager`). Pure.

use std::collections::BTreeSet;

use kafka_protocol::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use kafka_protocol::protocol::StrBytes;
use strandline_storage::access::{AccessChange, EntityName, QuotaEntity};

use super::super::access_change::Draft;
use super::{CLIENT_ID, IP, USER};
use crate::context::Refusal;
use crate::error_code::ErrorCode;
use crate::quota::{CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE};

/// How far a whole number may be from one, as Kafka has it.
const FRACTION_MAX: f64 = 1e-6;

/// All changes of one entity.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Alteration {
    entity: QuotaEntity,
    /// `None` takes the quota away.
    values: Vec<(&'static str, Option<f64>)>,
}

fn invalid<T>(reason: impl Into<String>) -> Result<T, Refusal> {
    Err((ErrorCode::InvalidRequest, reason.into()))
}

/// One for each entry of the request. All mentions of an entity that comes twice are refused.
pub(super) fn parse_all(entries: &[EntryData]) -> Vec<Result<Alteration, Refusal>> {
    let mut parsed: Vec<_> = entries.iter().map(parse).collect();
    let (mut seen, mut twice) = (BTreeSet::new(), BTreeSet::new());
    for alteration in parsed.iter().flatten() {
        if !seen.insert(alteration.entity.clone()) {
            twice.insert(alteration.entity.clone());
        }
    }
    for one in &mut parsed {
        if one.as_ref().is_ok_and(|alteration| twice.contains(&alteration.entity)) {
            *one = invalid("entity is named more than once");
        }
    }
    parsed
}

fn parse(entry: &EntryData) -> Result<Alteration, Refusal> {
    let entity = entity(&entry.entity)?;
    let mut values: Vec<(&'static str, Option<f64>)> = Vec::new();
    for op in &entry.ops {
        let (key, value) = operation(op)?;
        if values.iter().any(|(one, _)| *one == key) {
            return invalid(format!("quota {key} is given twice"));
        }
        values.push((key, value));
    }
    Ok(Alteration { entity, values })
}

fn entity(parts: &[EntityData]) -> Result<QuotaEntity, Refusal> {
    let mut entity = QuotaEntity { user: None, client_id: None };
    for part in parts {
        let place = match &*part.entity_type {
            USER => &mut entity.user,
            CLIENT_ID => &mut entity.client_id,
            IP => return invalid("quotas of addresses are not supported"),
            other => return invalid(format!("entity type \"{other}\" is unknown")),
        };
        if place.replace(name(part.entity_name.as_ref())?).is_some() {
            return invalid(format!("entity type \"{}\" is given twice", &*part.entity_type));
        }
    }
    match entity {
        QuotaEntity { user: None, client_id: None } => invalid("entity has no type"),
        entity => Ok(entity),
    }
}

/// No name is the default of all others.
fn name(name: Option<&StrBytes>) -> Result<EntityName, Refusal> {
    match name {
        None => Ok(EntityName::Default),
        Some(name) if name.is_empty() => invalid("entity has an empty name"),
        Some(name) => Ok(EntityName::Named(name.to_string())),
    }
}

fn operation(op: &OpData) -> Result<(&'static str, Option<f64>), Refusal> {
    let known = [PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE];
    let Some(key) = known.into_iter().find(|key| **key == *op.key) else {
        return invalid(format!("quota \"{}\" is not supported", &*op.key));
    };
    if op.remove {
        return Ok((key, None));
    }
    let value = op.value;
    if !value.is_finite() || value <= 0.0 {
        return invalid(format!("quota {key} must be above 0, not {value}"));
    }
    let is_rate = key != REQUEST_PERCENTAGE;
    if is_rate && value > i64::MAX as f64 {
        return invalid(format!("quota {key} is at most {}, not {value}", i64::MAX));
    }
    if is_rate && value.fract() > FRACTION_MAX {
        return invalid(format!("quota {key} must be a whole number, not {value}"));
    }
    Ok((key, Some(value)))
}

pub(super) fn apply_all(
    draft: &mut Draft,
    alterations: Vec<Result<Alteration, Refusal>>,
) -> Vec<Result<(), Refusal>> {
    alterations.into_iter().map(|alteration| apply(draft, alteration?)).collect()
}

/// Takes all changes of the entity, or none.
fn apply(draft: &mut Draft, alteration: Alteration) -> Result<(), Refusal> {
    let Alteration { entity, values } = alteration;
    let changes = values.into_iter().map(|(key, value)| AccessChange::SetQuota {
        entity: entity.clone(),
        key: key.to_owned(),
        value,
    });
    draft.change_all(changes.collect()).map_err(|error| (ErrorCode::from(&error), error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(entity_type: &'static str, name: Option<&'static str>) -> EntityData {
        EntityData::default()
            .with_entity_type(StrBytes::from_static_str(entity_type))
            .with_entity_name(name.map(StrBytes::from_static_str))
    }

    fn set(key: &'static str, value: f64) -> OpData {
        OpData::default().with_key(StrBytes::from_static_str(key)).with_value(value)
    }

    fn entry(parts: &[EntityData], ops: &[OpData]) -> EntryData {
        EntryData::default().with_entity(parts.to_vec()).with_ops(ops.to_vec())
    }

    #[test]
    fn entities_have_names_or_are_the_default() {
        let parsed = parse(&entry(
            &[part(USER, None), part(CLIENT_ID, Some("c"))],
            &[set(PRODUCER_BYTE_RATE, 10.0), set(REQUEST_PERCENTAGE, 0.5).with_remove(true)],
        ));
        let expected = QuotaEntity {
            user: Some(EntityName::Default),
            client_id: Some(EntityName::Named("c".to_owned())),
        };
        let parsed = parsed.unwrap();
        assert_eq!(parsed.entity, expected);
        assert_eq!(parsed.values, [(PRODUCER_BYTE_RATE, Some(10.0)), (REQUEST_PERCENTAGE, None)]);
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_words() {
        let alice = [part(USER, Some("alice"))];
        let refused = |parts: &[EntityData], ops: &[OpData], word: &str| {
            let (error, reason) = parse(&entry(parts, ops)).unwrap_err();
            assert_eq!(error, ErrorCode::InvalidRequest);
            assert!(reason.contains(word), "{reason}");
        };
        refused(&[], &[], "no type");
        refused(&[part(IP, Some("10.0.0.1"))], &[], "addresses");
        refused(&[part("group", None)], &[], "unknown");
        refused(&[part(USER, Some(""))], &[], "empty name");
        refused(&[part(USER, None), part(USER, Some("b"))], &[], "twice");
        refused(&alice, &[set("controller_mutation_rate", 1.0)], "not supported");
        refused(&alice, &[set(PRODUCER_BYTE_RATE, 0.0)], "above 0");
        refused(&alice, &[set(PRODUCER_BYTE_RATE, f64::NAN)], "above 0");
        refused(&alice, &[set(CONSUMER_BYTE_RATE, 1.5)], "whole");
        refused(&alice, &[set(CONSUMER_BYTE_RATE, 1e300)], "at most");
        refused(&alice, &[set(PRODUCER_BYTE_RATE, 1.0), set(PRODUCER_BYTE_RATE, 2.0)], "twice");
        assert!(parse(&entry(&alice, &[set(REQUEST_PERCENTAGE, 1.5)])).is_ok());
    }

    #[test]
    fn an_entity_that_comes_twice_is_refused_each_time() {
        let alice = entry(&[part(USER, Some("alice"))], &[set(PRODUCER_BYTE_RATE, 1.0)]);
        let bob = entry(&[part(USER, Some("bob"))], &[set(PRODUCER_BYTE_RATE, 1.0)]);
        let parsed = parse_all(&[alice.clone(), bob, alice]);
        assert_eq!(parsed.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, false]);
    }
}
