//! Which rules a request means (`AclBindingFilter` of the Java client). Pure.

use kafka_protocol::messages::DescribeAclsRequest;
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::protocol::StrBytes;
use strandline_storage::access::{AclBinding, PatternKind, Permission, ResourceKind};

use super::Outcome;
use super::wire::{ANY_NAME, host, operation, pattern_kind, permission, resource_kind};
use crate::authorize::Operation;
use crate::error_code::ErrorCode;

/// In every enumeration of a filter: all values.
const ANY: i8 = 1;
/// In that of pattern types: every pattern that a resource name matches.
const MATCH: i8 = 2;
/// Kinds that Kafka has and no rule here is on: delegation tokens and users, and the operations on them.
const OTHER_RESOURCE_KINDS: [i8; 2] = [6, 7];
const OTHER_OPERATIONS: [i8; 2] = [13, 14];

/// What one field of a rule has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted<T> {
    Any,
    One(T),
    /// Something that no rule has.
    None,
}

impl<T: PartialEq> Wanted<T> {
    fn takes(&self, found: &T) -> bool {
        match self {
            Self::Any => true,
            Self::One(one) => one == found,
            Self::None => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WantedPattern {
    Any,
    Match,
    One(PatternKind),
}

/// What a rule has to be. `None` takes any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    resource_kind: Wanted<ResourceKind>,
    pattern: WantedPattern,
    resource_name: Option<String>,
    principal: Option<String>,
    host: Option<String>,
    operation: Wanted<Operation>,
    permission: Wanted<Permission>,
}

impl Filter {
    pub(super) fn of_request(request: &DescribeAclsRequest) -> Outcome<Self> {
        Ok(Self {
            resource_kind: wanted_kind(request.resource_type_filter)?,
            pattern: wanted_pattern(request.pattern_type_filter)?,
            resource_name: text(request.resource_name_filter.as_ref()),
            principal: text(request.principal_filter.as_ref()),
            host: host_text(request.host_filter.as_ref()),
            operation: wanted_operation(request.operation)?,
            permission: wanted_permission(request.permission_type)?,
        })
    }

    pub(super) fn of_deletion(filter: &DeleteAclsFilter) -> Outcome<Self> {
        Ok(Self {
            resource_kind: wanted_kind(filter.resource_type_filter)?,
            pattern: wanted_pattern(filter.pattern_type_filter)?,
            resource_name: text(filter.resource_name_filter.as_ref()),
            principal: text(filter.principal_filter.as_ref()),
            host: host_text(filter.host_filter.as_ref()),
            operation: wanted_operation(filter.operation)?,
            permission: wanted_permission(filter.permission_type)?,
        })
    }

    pub(super) fn matches(&self, rule: &AclBinding) -> bool {
        let takes = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|one| one == found);
        self.resource_kind.takes(&rule.resource_kind)
            && self.matches_resource(rule)
            && takes(&self.principal, &rule.principal)
            && takes(&self.host, &rule.host)
            && self.operation.takes(&rule.operation)
            && self.permission.takes(&rule.permission)
    }

    fn matches_resource(&self, rule: &AclBinding) -> bool {
        let is_same = |name: &String| *name == rule.resource_name;
        let name = self.resource_name.as_ref();
        match self.pattern {
            WantedPattern::Any => name.is_none_or(is_same),
            WantedPattern::One(kind) => kind == rule.pattern_kind && name.is_none_or(is_same),
            WantedPattern::Match => name.is_none_or(|name| match rule.pattern_kind {
                PatternKind::Literal => is_same(name) || rule.resource_name == ANY_NAME,
                PatternKind::Prefixed => name.starts_with(&rule.resource_name),
            }),
        }
    }
}

fn text(text: Option<&StrBytes>) -> Option<String> {
    text.map(ToString::to_string)
}

/// One that is no address is left as it is, and matches nothing.
fn host_text(text: Option<&StrBytes>) -> Option<String> {
    text.map(|text| host(text).unwrap_or_else(|| text.to_string()))
}

fn wanted<T>(what: &str, code: i8, known: Option<T>, others: &[i8]) -> Outcome<Wanted<T>> {
    match known {
        Some(one) => Ok(Wanted::One(one)),
        None if code == ANY => Ok(Wanted::Any),
        None if others.contains(&code) => Ok(Wanted::None),
        None => Err((ErrorCode::InvalidRequest, format!("{what} {code} is unknown"))),
    }
}

fn wanted_kind(code: i8) -> Outcome<Wanted<ResourceKind>> {
    wanted("resource type", code, resource_kind(code), &OTHER_RESOURCE_KINDS)
}

fn wanted_operation(code: i8) -> Outcome<Wanted<Operation>> {
    wanted("operation", code, operation(code), &OTHER_OPERATIONS)
}

fn wanted_permission(code: i8) -> Outcome<Wanted<Permission>> {
    wanted("permission type", code, permission(code), &[])
}

fn wanted_pattern(code: i8) -> Outcome<WantedPattern> {
    match (code, pattern_kind(code)) {
        (_, Some(kind)) => Ok(WantedPattern::One(kind)),
        (ANY, _) => Ok(WantedPattern::Any),
        (MATCH, _) => Ok(WantedPattern::Match),
        _ => Err((ErrorCode::InvalidRequest, format!("pattern type {code} is unknown"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(pattern_kind: PatternKind, name: &str) -> AclBinding {
        AclBinding {
            resource_kind: ResourceKind::Topic,
            pattern_kind,
            resource_name: name.to_owned(),
            principal: "User:alice".to_owned(),
            host: "*".to_owned(),
            operation: Operation::Read,
            permission: Permission::Allow,
        }
    }

    /// All rules on topics with a pattern of this type and this name.
    fn request(pattern_type: i8, name: Option<&'static str>) -> DescribeAclsRequest {
        DescribeAclsRequest::default()
            .with_resource_type_filter(2)
            .with_pattern_type_filter(pattern_type)
            .with_resource_name_filter(name.map(StrBytes::from_static_str))
            .with_principal_filter(None)
            .with_host_filter(None)
            .with_operation(ANY)
            .with_permission_type(ANY)
    }

    fn found(pattern_type: i8, name: Option<&'static str>) -> Vec<String> {
        let rules = [
            rule(PatternKind::Literal, "orders"),
            rule(PatternKind::Literal, "*"),
            rule(PatternKind::Prefixed, "ord"),
            rule(PatternKind::Prefixed, "orders"),
            rule(PatternKind::Literal, "other"),
        ];
        let filter = Filter::of_request(&request(pattern_type, name)).unwrap();
        let found = rules.iter().filter(|rule| filter.matches(rule));
        found.map(|rule| format!("{:?} {}", rule.pattern_kind, rule.resource_name)).collect()
    }

    #[test]
    fn a_pattern_type_says_how_the_name_is_compared() {
        assert_eq!(found(3, Some("orders")), ["Literal orders"]);
        assert_eq!(found(4, Some("orders")), ["Prefixed orders"]);
        assert_eq!(found(ANY, Some("orders")), ["Literal orders", "Prefixed orders"]);
        assert_eq!(
            found(MATCH, Some("orders")),
            ["Literal orders", "Literal *", "Prefixed ord", "Prefixed orders"]
        );
        assert_eq!(found(3, None).len(), 3);
        assert_eq!(found(ANY, None).len(), 5);
        assert_eq!(found(MATCH, None).len(), 5);
    }

    #[test]
    fn each_other_field_is_compared_too() {
        let rule = rule(PatternKind::Literal, "orders");
        let all = request(ANY, None);
        let matches = |request: DescribeAclsRequest| Filter::of_request(&request).unwrap().matches(&rule);
        assert!(matches(all.clone()));
        assert!(!matches(all.clone().with_resource_type_filter(3)));
        assert!(!matches(all.clone().with_resource_type_filter(7)), "rules on users are not kept");
        assert!(!matches(all.clone().with_principal_filter(Some(StrBytes::from_static_str("User:bob")))));
        assert!(!matches(all.clone().with_host_filter(Some(StrBytes::from_static_str("10.0.0.1")))));
        assert!(!matches(all.clone().with_operation(4)));
        assert!(!matches(all.clone().with_operation(13)));
        assert!(!matches(all.with_permission_type(2)));
    }

    #[test]
    fn unknown_numbers_are_refused() {
        let all = request(ANY, None);
        let refused = |request: DescribeAclsRequest| {
            assert_eq!(Filter::of_request(&request).unwrap_err().0, ErrorCode::InvalidRequest);
        };
        refused(all.clone().with_resource_type_filter(0));
        refused(all.clone().with_resource_type_filter(8));
        refused(all.clone().with_pattern_type_filter(0));
        refused(all.clone().with_operation(0));
        refused(all.with_permission_type(4));
    }
}
