//! The decision about one request, for every protocol the same: super users, rules, and what holds
//! where there is no rule.

use super::Access;
use super::acl::{Operation, ResourceKind};
use super::acls::AclDecision;

/// The answer where no rule is on a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WithoutRules {
    #[default]
    Refuse,
    Allow,
}

impl WithoutRules {
    /// Whether what the rules say of a request lets it pass.
    pub fn lets_pass(self, decision: AclDecision) -> bool {
        match decision {
            AclDecision::Allowed => true,
            AclDecision::Denied => false,
            AclDecision::NoRule => self == Self::Allow,
        }
    }
}

/// What holds besides the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authorizer {
    /// Names of users that may do everything.
    pub super_users: Vec<String>,
    pub without_rules: WithoutRules,
}

/// Who asks, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessRequest<'a> {
    /// Such as `User:alice`.
    pub principal: &'a str,
    /// The address that it comes from.
    pub host: &'a str,
    pub operation: Operation,
    pub resource_kind: ResourceKind,
    pub resource_name: &'a str,
}

impl Authorizer {
    pub fn is_super_user(&self, principal: &str) -> bool {
        let name = principal.strip_prefix("User:");
        name.is_some_and(|name| self.super_users.iter().any(|user| user == name))
    }

    pub fn allows(&self, access: &Access, request: &AccessRequest<'_>) -> bool {
        if self.is_super_user(request.principal) {
            return true;
        }
        let AccessRequest { principal, host, operation, resource_kind, resource_name } = *request;
        let decision = access.acls.decide(principal, host, operation, resource_kind, resource_name);
        self.without_rules.lets_pass(decision)
    }
}
