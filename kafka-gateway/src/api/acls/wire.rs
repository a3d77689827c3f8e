//! Rules as the protocol has them. Pure.

use std::net::IpAddr;

use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::delete_acls_response::DeleteAclsMatchingAcl;
use kafka_protocol::messages::describe_acls_response::{AclDescription, DescribeAclsResource};
use kafka_protocol::protocol::StrBytes;
use strandline_storage::access::{AclBinding, PatternKind, Permission, ResourceKind};

use super::Outcome;
use crate::authorize::{CLUSTER_NAME, Operation, operation_code, operations};
use crate::error_code::ErrorCode;

/// In a rule: every resource, or every host.
pub(super) const ANY_NAME: &str = "*";

/// `ResourceType.code` of the Java client.
const RESOURCE_KINDS: [(ResourceKind, i8, &str); 4] = [
    (ResourceKind::Topic, 2, "topic"),
    (ResourceKind::Group, 3, "group"),
    (ResourceKind::Cluster, 4, "cluster"),
    (ResourceKind::TransactionalId, 5, "transactional id"),
];
/// `PatternType.code` of the Java client.
const PATTERN_KINDS: [(PatternKind, i8); 2] = [(PatternKind::Literal, 3), (PatternKind::Prefixed, 4)];
/// `AclPermissionType.code` of the Java client.
const PERMISSIONS: [(Permission, i8); 2] = [(Permission::Deny, 2), (Permission::Allow, 3)];
/// With the words of Kafka's tools.
const OPERATIONS: [(Operation, &str); 11] = [
    (Operation::All, "All"),
    (Operation::Read, "Read"),
    (Operation::Write, "Write"),
    (Operation::Create, "Create"),
    (Operation::Delete, "Delete"),
    (Operation::Alter, "Alter"),
    (Operation::Describe, "Describe"),
    (Operation::ClusterAction, "ClusterAction"),
    (Operation::DescribeConfigs, "DescribeConfigs"),
    (Operation::AlterConfigs, "AlterConfigs"),
    (Operation::IdempotentWrite, "IdempotentWrite"),
];

pub(super) fn resource_kind(code: i8) -> Option<ResourceKind> {
    RESOURCE_KINDS.iter().find(|(_, one, _)| *one == code).map(|(kind, ..)| *kind)
}

pub(super) fn pattern_kind(code: i8) -> Option<PatternKind> {
    PATTERN_KINDS.iter().find(|(_, one)| *one == code).map(|(kind, _)| *kind)
}

pub(super) fn permission(code: i8) -> Option<Permission> {
    PERMISSIONS.iter().find(|(_, one)| *one == code).map(|(permission, _)| *permission)
}

pub(super) fn operation(code: i8) -> Option<Operation> {
    OPERATIONS.iter().map(|(operation, _)| *operation).find(|one| operation_code(*one) == code)
}

fn resource_code(kind: ResourceKind) -> i8 {
    let (_, code, _) = RESOURCE_KINDS.iter().find(|(one, ..)| *one == kind).expect("every kind has a code");
    *code
}

fn pattern_code(kind: PatternKind) -> i8 {
    PATTERN_KINDS.iter().find(|(one, _)| *one == kind).expect("every kind has a code").1
}

fn permission_code(permission: Permission) -> i8 {
    PERMISSIONS.iter().find(|(one, _)| *one == permission).expect("every permission has a code").1
}

fn invalid<T>(reason: impl Into<String>) -> Outcome<T> {
    Err((ErrorCode::InvalidRequest, reason.into()))
}

/// The rule that is to be created.
pub(super) fn binding(creation: &AclCreation) -> Outcome<AclBinding> {
    let Some(resource_kind) = resource_kind(creation.resource_type) else {
        return invalid(format!("rules on resource kind {} are not supported", creation.resource_type));
    };
    let Some(pattern_kind) = pattern_kind(creation.resource_pattern_type) else {
        return invalid(format!(
            "pattern type {} is neither literal nor prefixed",
            creation.resource_pattern_type
        ));
    };
    let Some(permission) = permission(creation.permission_type) else {
        return invalid(format!("permission type {} is neither allow nor deny", creation.permission_type));
    };
    let Some(operation) = operation(creation.operation) else {
        return invalid(format!("operation {} is not supported", creation.operation));
    };
    check_operation(resource_kind, operation)?;
    check_resource(resource_kind, &creation.resource_name)?;
    check_principal(&creation.principal)?;
    let Some(host) = host(&creation.host) else {
        return invalid(format!("host \"{}\" is neither * nor an address", &*creation.host));
    };
    Ok(AclBinding {
        resource_kind,
        pattern_kind,
        resource_name: creation.resource_name.to_string(),
        principal: creation.principal.to_string(),
        host,
        operation,
        permission,
    })
}

fn check_operation(kind: ResourceKind, operation: Operation) -> Outcome<()> {
    if operation == Operation::All || operations(kind).contains(&operation) {
        return Ok(());
    }
    let named = OPERATIONS.iter().find(|(one, _)| *one == operation).map_or("", |(_, name)| name);
    let kind = RESOURCE_KINDS.iter().find(|(one, ..)| *one == kind).map_or("", |(.., name)| name);
    invalid(format!("operation {named} does not exist on a {kind}"))
}

fn check_resource(kind: ResourceKind, name: &str) -> Outcome<()> {
    if name.is_empty() {
        return invalid("resource name is empty");
    }
    match kind {
        ResourceKind::Cluster if name != CLUSTER_NAME => {
            invalid(format!("the only name of the cluster is {CLUSTER_NAME}, not \"{name}\""))
        }
        _ => Ok(()),
    }
}

/// `kind:name`, of which only the kind `User` has principals here.
fn check_principal(principal: &str) -> Outcome<()> {
    match principal.split_once(':') {
        Some(("User", name)) if !name.is_empty() => Ok(()),
        _ => invalid(format!("principal \"{principal}\" is not of the form User:name")),
    }
}

/// A host in the form in which those of clients are compared with it, however it is written.
pub(super) fn host(text: &str) -> Option<String> {
    match text {
        ANY_NAME => Some(text.to_owned()),
        _ => text.parse::<IpAddr>().ok().map(|address| address.to_canonical().to_string()),
    }
}

/// Rules by their resource, in the order in which they come.
pub(super) fn resources(rules: impl Iterator<Item = AclBinding>) -> Vec<DescribeAclsResource> {
    let mut resources: Vec<DescribeAclsResource> = Vec::new();
    for rule in rules {
        let (kind, pattern) = (resource_code(rule.resource_kind), pattern_code(rule.pattern_kind));
        let is_same = |last: &DescribeAclsResource| {
            (last.resource_type, last.pattern_type, &*last.resource_name)
                == (kind, pattern, rule.resource_name.as_str())
        };
        if !resources.last().is_some_and(is_same) {
            let resource = DescribeAclsResource::default()
                .with_resource_type(kind)
                .with_pattern_type(pattern)
                .with_resource_name(StrBytes::from_string(rule.resource_name.clone()));
            resources.push(resource);
        }
        let last = resources.last_mut().expect("one was just added if there was none");
        last.acls.push(description(rule));
    }
    resources
}

fn description(rule: AclBinding) -> AclDescription {
    AclDescription::default()
        .with_principal(StrBytes::from_string(rule.principal))
        .with_host(StrBytes::from_string(rule.host))
        .with_operation(operation_code(rule.operation))
        .with_permission_type(permission_code(rule.permission))
}

/// A rule that was deleted.
pub(super) fn matching(rule: AclBinding) -> DeleteAclsMatchingAcl {
    DeleteAclsMatchingAcl::default()
        .with_error_message(None)
        .with_resource_type(resource_code(rule.resource_kind))
        .with_pattern_type(pattern_code(rule.pattern_kind))
        .with_resource_name(StrBytes::from_string(rule.resource_name))
        .with_principal(StrBytes::from_string(rule.principal))
        .with_host(StrBytes::from_string(rule.host))
        .with_operation(operation_code(rule.operation))
        .with_permission_type(permission_code(rule.permission))
}
