//! Which quotas a description is asked for (Kafka's `ClientQuotasImage`). Pure.

use kafka_protocol::messages::DescribeClientQuotasRequest;
use kafka_protocol::messages::describe_client_quotas_request::ComponentData;
use strandline_storage::access::{EntityName, QuotaEntity};

use super::{CLIENT_ID, IP, USER};
use crate::context::Refusal;
use crate::error_code::ErrorCode;

/// `DescribeClientQuotasRequest.MATCH_TYPE_*` of the Java client.
const EXACT: i8 = 0;
const DEFAULT: i8 = 1;
const SPECIFIED: i8 = 2;

/// What an entity has of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    Name(EntityName),
    /// Whatever its name.
    Any,
}

impl Wanted {
    fn takes(&self, found: Option<&EntityName>) -> bool {
        match self {
            Self::Name(name) => found == Some(name),
            Self::Any => found.is_some(),
        }
    }
}

/// `None` does not ask for a type; `strict` takes only entities that have none then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    user: Option<Wanted>,
    client_id: Option<Wanted>,
    /// No entity has it.
    ip: Option<Wanted>,
    is_strict: bool,
}

fn invalid<T>(reason: impl Into<String>) -> Result<T, Refusal> {
    Err((ErrorCode::InvalidRequest, reason.into()))
}

impl Filter {
    pub(super) fn new(request: &DescribeClientQuotasRequest) -> Result<Self, Refusal> {
        let mut filter = Self { is_strict: request.strict, ..Self::default() };
        for component in &request.components {
            let place = match &*component.entity_type {
                USER => &mut filter.user,
                CLIENT_ID => &mut filter.client_id,
                IP => &mut filter.ip,
                "" => return invalid("entity type is empty"),
                other => {
                    return Err((
                        ErrorCode::UnsupportedVersion,
                        format!("entity type \"{other}\" is unknown"),
                    ));
                }
            };
            if place.replace(wanted(component)?).is_some() {
                return invalid(format!("entity type \"{}\" is given twice", &*component.entity_type));
            }
        }
        if filter.ip.is_some() && (filter.user.is_some() || filter.client_id.is_some()) {
            return invalid("an address does not go with a user or a client id");
        }
        Ok(filter)
    }

    pub(super) fn matches(&self, entity: &QuotaEntity) -> bool {
        let takes = |wanted: &Option<Wanted>, found: Option<&EntityName>| match wanted {
            Some(wanted) => wanted.takes(found),
            None => !self.is_strict || found.is_none(),
        };
        self.ip.is_none()
            && takes(&self.user, entity.user.as_ref())
            && takes(&self.client_id, entity.client_id.as_ref())
    }
}

fn wanted(component: &ComponentData) -> Result<Wanted, Refusal> {
    match (component.match_type, &component._match) {
        (EXACT, Some(name)) => Ok(Wanted::Name(EntityName::Named(name.to_string()))),
        (EXACT, None) => invalid("an exact match has no name"),
        (DEFAULT, None) => Ok(Wanted::Name(EntityName::Default)),
        (SPECIFIED, None) => Ok(Wanted::Any),
        (DEFAULT | SPECIFIED, Some(name)) => {
            invalid(format!("match type {} has the name \"{}\"", component.match_type, &**name))
        }
        (other, _) => invalid(format!("match type {other} is unknown")),
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::protocol::StrBytes;

    use super::*;

    fn component(entity_type: &'static str, match_type: i8, name: Option<&'static str>) -> ComponentData {
        ComponentData::default()
            .with_entity_type(StrBytes::from_static_str(entity_type))
            .with_match_type(match_type)
            .with_match(name.map(StrBytes::from_static_str))
    }

    fn request(components: &[ComponentData], strict: bool) -> DescribeClientQuotasRequest {
        DescribeClientQuotasRequest::default().with_components(components.to_vec()).with_strict(strict)
    }

    /// The numbers of the entities that match: alice; the default user; alice with client c; client c.
    fn found(components: &[ComponentData], strict: bool) -> Vec<usize> {
        let alice = || Some(EntityName::Named("alice".to_owned()));
        let client = || Some(EntityName::Named("c".to_owned()));
        let entities = [
            QuotaEntity { user: alice(), client_id: None },
            QuotaEntity { user: Some(EntityName::Default), client_id: None },
            QuotaEntity { user: alice(), client_id: client() },
            QuotaEntity { user: None, client_id: client() },
        ];
        let filter = Filter::new(&request(components, strict)).unwrap();
        let found = entities.iter().enumerate().filter(|(_, entity)| filter.matches(entity));
        found.map(|(number, _)| number).collect()
    }

    #[test]
    fn entities_are_found_by_name_by_default_and_by_type() {
        assert_eq!(found(&[], false), [0, 1, 2, 3]);
        assert_eq!(found(&[component(USER, EXACT, Some("alice"))], false), [0, 2]);
        assert_eq!(found(&[component(USER, DEFAULT, None)], false), [1]);
        assert_eq!(found(&[component(USER, SPECIFIED, None)], false), [0, 1, 2]);
        let both = [component(USER, SPECIFIED, None), component(CLIENT_ID, EXACT, Some("c"))];
        assert_eq!(found(&both, false), [2]);
    }

    #[test]
    fn a_strict_filter_leaves_out_entities_with_more_types() {
        assert!(found(&[], true).is_empty());
        assert_eq!(found(&[component(USER, EXACT, Some("alice"))], true), [0]);
        assert_eq!(found(&[component(CLIENT_ID, SPECIFIED, None)], true), [3]);
    }

    #[test]
    fn addresses_have_no_quotas() {
        assert!(found(&[component(IP, SPECIFIED, None)], false).is_empty());
    }

    #[test]
    fn filters_that_make_no_sense_are_refused() {
        let refused = |components: &[ComponentData]| Filter::new(&request(components, false)).unwrap_err().0;
        let user = || component(USER, SPECIFIED, None);
        assert_eq!(refused(&[component("", EXACT, None)]), ErrorCode::InvalidRequest);
        assert_eq!(refused(&[component("group", DEFAULT, None)]), ErrorCode::UnsupportedVersion);
        assert_eq!(refused(&[user(), user()]), ErrorCode::InvalidRequest);
        assert_eq!(refused(&[component(IP, SPECIFIED, None), user()]), ErrorCode::InvalidRequest);
        assert_eq!(refused(&[component(USER, EXACT, None)]), ErrorCode::InvalidRequest);
        assert_eq!(refused(&[component(USER, DEFAULT, Some("x"))]), ErrorCode::InvalidRequest);
        assert_eq!(refused(&[component(USER, 3, None)]), ErrorCode::InvalidRequest);
    }
}
