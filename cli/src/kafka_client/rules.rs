//! Rules (ACLs): CreateAcls, DescribeAcls and DeleteAcls, with the codes of Kafka's `AclOperation`,
//! `ResourceType`, `PatternType` and `AclPermissionType`.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::{CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest};
use strandline_storage::access::{AclBinding, Operation, PatternKind, Permission, ResourceKind};

use super::admin::{Admin, text};
use super::error::{ClientError, ErrorCode};

const ACLS_VERSION: i16 = 3;
const ANY: i8 = 1;
const RESOURCES: [(ResourceKind, i8); 4] = [
    (ResourceKind::Topic, 2),
    (ResourceKind::Group, 3),
    (ResourceKind::Cluster, 4),
    (ResourceKind::TransactionalId, 5),
];
const PATTERNS: [(PatternKind, i8); 2] = [(PatternKind::Literal, 3), (PatternKind::Prefixed, 4)];
const PERMISSIONS: [(Permission, i8); 2] = [(Permission::Deny, 2), (Permission::Allow, 3)];
const OPERATIONS: [(Operation, i8); 11] = [
    (Operation::All, 2),
    (Operation::Read, 3),
    (Operation::Write, 4),
    (Operation::Create, 5),
    (Operation::Delete, 6),
    (Operation::Alter, 7),
    (Operation::Describe, 8),
    (Operation::ClusterAction, 9),
    (Operation::DescribeConfigs, 10),
    (Operation::AlterConfigs, 11),
    (Operation::IdempotentWrite, 12),
];

/// Which rules are meant; `None` is any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleFilter {
    pub resource_kind: Option<ResourceKind>,
    pub resource_name: Option<String>,
    pub pattern_kind: Option<PatternKind>,
    pub principal: Option<String>,
}

impl Admin {
    pub async fn add_rules(&mut self, rules: &[AclBinding]) -> Result<(), ClientError> {
        let creation = |rule: &AclBinding| {
            AclCreation::default()
                .with_resource_type(code_of(&RESOURCES, rule.resource_kind))
                .with_resource_name(text(&rule.resource_name))
                .with_resource_pattern_type(code_of(&PATTERNS, rule.pattern_kind))
                .with_principal(text(&rule.principal))
                .with_host(text(&rule.host))
                .with_operation(code_of(&OPERATIONS, rule.operation))
                .with_permission_type(code_of(&PERMISSIONS, rule.permission))
        };
        let request = CreateAclsRequest::default().with_creations(rules.iter().map(creation).collect());
        let response = self.connection.call(ACLS_VERSION, &request).await?;
        for result in &response.results {
            check("a rule was not added", result.error_code, result.error_message.as_deref())?;
        }
        Ok(())
    }

    /// Rules in their order.
    pub async fn rules(&mut self, filter: &RuleFilter) -> Result<Vec<AclBinding>, ClientError> {
        let request = DescribeAclsRequest::default()
            .with_resource_type_filter(filter.resource_kind.map_or(ANY, |kind| code_of(&RESOURCES, kind)))
            .with_resource_name_filter(filter.resource_name.as_deref().map(text))
            .with_pattern_type_filter(filter.pattern_kind.map_or(ANY, |kind| code_of(&PATTERNS, kind)))
            .with_principal_filter(filter.principal.as_deref().map(text))
            .with_host_filter(None)
            .with_operation(ANY)
            .with_permission_type(ANY);
        let response = self.connection.call(ACLS_VERSION, &request).await?;
        check("rules were not listed", response.error_code, response.error_message.as_deref())?;
        let mut rules = Vec::new();
        for resource in &response.resources {
            for acl in &resource.acls {
                // What a later server may know is not shown as something else.
                let rule = (|| {
                    Some(AclBinding {
                        resource_kind: of_code(&RESOURCES, resource.resource_type)?,
                        pattern_kind: of_code(&PATTERNS, resource.pattern_type)?,
                        resource_name: resource.resource_name.to_string(),
                        principal: acl.principal.to_string(),
                        host: acl.host.to_string(),
                        operation: of_code(&OPERATIONS, acl.operation)?,
                        permission: of_code(&PERMISSIONS, acl.permission_type)?,
                    })
                })();
                rules.extend(rule);
            }
        }
        rules.sort();
        Ok(rules)
    }

    /// Removes these rules; gives how many there were.
    pub async fn remove_rules(&mut self, rules: &[AclBinding]) -> Result<usize, ClientError> {
        let filter = |rule: &AclBinding| {
            DeleteAclsFilter::default()
                .with_resource_type_filter(code_of(&RESOURCES, rule.resource_kind))
                .with_resource_name_filter(Some(text(&rule.resource_name)))
                .with_pattern_type_filter(code_of(&PATTERNS, rule.pattern_kind))
                .with_principal_filter(Some(text(&rule.principal)))
                .with_host_filter(Some(text(&rule.host)))
                .with_operation(code_of(&OPERATIONS, rule.operation))
                .with_permission_type(code_of(&PERMISSIONS, rule.permission))
        };
        let request = DeleteAclsRequest::default().with_filters(rules.iter().map(filter).collect());
        let response = self.connection.call(ACLS_VERSION, &request).await?;
        let what = "a rule was not removed";
        let mut removed = 0;
        for result in &response.filter_results {
            check(what, result.error_code, result.error_message.as_deref())?;
            for rule in &result.matching_acls {
                check(what, rule.error_code, rule.error_message.as_deref())?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

fn check(what: &str, code: i16, message: Option<&str>) -> Result<(), ClientError> {
    match ErrorCode::of(code) {
        None => Ok(()),
        Some(code) if code.is(ResponseError::SecurityDisabled) => Err(ClientError::NoRules),
        Some(code) => Err(ClientError::refused(what, code, message)),
    }
}

fn code_of<T: Copy + PartialEq, const N: usize>(codes: &[(T, i8); N], value: T) -> i8 {
    let code = codes.iter().find(|(known, _)| *known == value).map(|(_, code)| *code);
    code.expect("the table has every value")
}

fn of_code<T: Copy, const N: usize>(codes: &[(T, i8); N], code: i8) -> Option<T> {
    codes.iter().find(|(_, known)| *known == code).map(|(value, _)| *value)
}
