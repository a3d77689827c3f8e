//! Who may do what: the one place that every API asks.
//!
//! Invariant: one request is judged by the rules of one moment, from its first check to its last.

use std::net::IpAddr;
use std::sync::Arc;

use strandline_storage::access::{Access, AclDecision, Authorizer, ResourceKind, WithoutRules};

pub(crate) use strandline_storage::access::Operation;

/// The one resource of the kind cluster.
pub(crate) const CLUSTER_NAME: &str = "kafka-cluster";

/// Who is at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Principal {
    pub(crate) name: String,
}

impl Principal {
    pub(crate) fn anonymous() -> Self {
        Self { name: "ANONYMOUS".to_owned() }
    }

    /// Somebody who has proven to be the user of that name.
    pub(crate) fn user(name: String) -> Self {
        Self { name }
    }
}

/// What it is done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource<'a> {
    Cluster,
    Topic(&'a str),
    Group(&'a str),
    TransactionalId(&'a str),
}

impl<'a> Resource<'a> {
    fn kind(self) -> ResourceKind {
        match self {
            Self::Cluster => ResourceKind::Cluster,
            Self::Topic(_) => ResourceKind::Topic,
            Self::Group(_) => ResourceKind::Group,
            Self::TransactionalId(_) => ResourceKind::TransactionalId,
        }
    }

    fn name(self) -> &'a str {
        match self {
            Self::Cluster => CLUSTER_NAME,
            Self::Topic(name) | Self::Group(name) | Self::TransactionalId(name) => name,
        }
    }
}

/// What can be done to resources of a kind (Kafka's `AclEntry.supportedOperations`).
pub(crate) fn operations(kind: ResourceKind) -> &'static [Operation] {
    use Operation::*;
    match kind {
        ResourceKind::Topic => &[Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs],
        ResourceKind::Cluster => {
            &[Create, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite]
        }
        ResourceKind::Group => &[Read, Delete, Describe, DescribeConfigs, AlterConfigs],
        ResourceKind::TransactionalId => &[Write, Describe],
    }
}

/// `AclOperation.code` of the Java client.
pub(crate) fn operation_code(operation: Operation) -> i8 {
    match operation {
        Operation::All => 2,
        Operation::Read => 3,
        Operation::Write => 4,
        Operation::Create => 5,
        Operation::Delete => 6,
        Operation::Alter => 7,
        Operation::Describe => 8,
        Operation::ClusterAction => 9,
        Operation::DescribeConfigs => 10,
        Operation::AlterConfigs => 11,
        Operation::IdempotentWrite => 12,
    }
}

/// Who asks, in the words of rules. A connection has one for all of its requests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    principal: String,
    host: String,
}

impl Subject {
    /// A principal whose requests come from an address.
    pub(crate) fn new(principal: &Principal, address: IpAddr) -> Self {
        let host = address.to_canonical().to_string();
        Self { principal: format!("User:{}", principal.name), host }
    }
}

/// What one client may do, by the rules of one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rights {
    /// `None`: everything.
    judge: Option<Judge>,
}

#[derive(Clone, Debug)]
struct Judge {
    access: Arc<Access>,
    without_rules: WithoutRules,
    subject: Arc<Subject>,
}

impl PartialEq for Rights {
    /// True only if both allow the same for certain.
    fn eq(&self, other: &Self) -> bool {
        match (&self.judge, &other.judge) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                Arc::ptr_eq(&one.access, &other.access) && one.subject == other.subject
            }
            _ => false,
        }
    }
}

impl Eq for Rights {}

impl Rights {
    pub(crate) fn new(authorizer: &Authorizer, access: Arc<Access>, subject: Arc<Subject>) -> Self {
        if authorizer.is_super_user(&subject.principal) {
            return Self::default();
        }
        let without_rules = authorizer.without_rules;
        Self { judge: Some(Judge { access, without_rules, subject }) }
    }

    pub(crate) fn allow(&self, operation: Operation, resource: Resource<'_>) -> bool {
        self.judge.as_ref().is_none_or(|judge| {
            judge.without_rules.lets_pass(judge.decide(operation, resource.kind(), resource.name()))
        })
    }

    /// Whether there is any resource of the kind that the operation is allowed on (Kafka's
    /// `Authorizer.authorizeByResourceType`).
    pub(crate) fn allow_any(&self, operation: Operation, kind: ResourceKind) -> bool {
        self.judge.as_ref().is_none_or(|judge| {
            let Judge { access, subject, .. } = judge;
            let is_free = judge.without_rules == WithoutRules::Allow
                && judge.decide(operation, kind, "") == AclDecision::NoRule;
            is_free || access.acls.allows_any(&subject.principal, &subject.host, operation, kind)
        })
    }

    /// All that is allowed on a resource, one bit per operation.
    pub(crate) fn allowed_operations(&self, resource: Resource<'_>) -> i32 {
        let allowed = operations(resource.kind()).iter().filter(|one| self.allow(**one, resource));
        allowed.fold(0, |bits, operation| bits | 1 << operation_code(*operation))
    }
}

impl Judge {
    fn decide(&self, operation: Operation, kind: ResourceKind, name: &str) -> AclDecision {
        let Subject { principal, host } = &*self.subject;
        self.access.acls.decide(principal, host, operation, kind, name)
    }
}

#[cfg(test)]
mod tests {
    use strandline_storage::access::{AclBinding, PatternKind, Permission};

    use super::*;

    const EVERYBODY: &str = "User:*";

    fn rule(kind: ResourceKind, name: &str, operation: Operation, permission: Permission) -> AclBinding {
        AclBinding {
            resource_kind: kind,
            pattern_kind: PatternKind::Literal,
            resource_name: name.to_owned(),
            principal: EVERYBODY.to_owned(),
            host: "*".to_owned(),
            operation,
            permission,
        }
    }

    fn rights(without_rules: WithoutRules, rules: &[AclBinding]) -> Rights {
        let mut access = Access::default();
        for rule in rules {
            access.acls.insert(rule);
        }
        let authorizer = Authorizer { super_users: vec!["root".to_owned()], without_rules };
        Rights::new(&authorizer, Arc::new(access), subject("alice"))
    }

    fn subject(name: &str) -> Arc<Subject> {
        Arc::new(Subject::new(&Principal::user(name.to_owned()), IpAddr::from([127, 0, 0, 1])))
    }

    #[test]
    fn without_an_authorizer_all_operations_of_a_kind_are_allowed() {
        let bits = |resource| Rights::default().allowed_operations(resource);
        // What Apache Kafka 4.1 answers without an authorizer.
        assert_eq!(bits(Resource::Topic("t")), 3576);
        assert_eq!(bits(Resource::Cluster), 8096);
        assert_eq!(bits(Resource::Group("g")), 3400);
    }

    #[test]
    fn without_rules_nothing_is_allowed_unless_the_setting_says_so() {
        let refused = rights(WithoutRules::Refuse, &[]);
        assert!(!refused.allow(Operation::Read, Resource::Topic("t")));
        assert!(!refused.allow_any(Operation::Write, ResourceKind::Topic));
        let allowed = rights(WithoutRules::Allow, &[]);
        assert!(allowed.allow(Operation::Read, Resource::Topic("t")));
        assert!(allowed.allow_any(Operation::Write, ResourceKind::Topic));
    }

    #[test]
    fn a_rule_on_one_topic_closes_it_and_leaves_others_open() {
        let read = rule(ResourceKind::Topic, "t", Operation::Read, Permission::Allow);
        let rights = rights(WithoutRules::Allow, &[read]);
        assert!(rights.allow(Operation::Read, Resource::Topic("t")));
        assert!(!rights.allow(Operation::Write, Resource::Topic("t")));
        assert!(rights.allow(Operation::Write, Resource::Topic("u")));
        let deny = rule(ResourceKind::Topic, "*", Operation::Write, Permission::Deny);
        assert!(!self::rights(WithoutRules::Allow, &[deny]).allow_any(Operation::Write, ResourceKind::Topic));
    }

    #[test]
    fn super_users_may_do_what_is_denied_to_everybody() {
        let mut access = Access::default();
        access.acls.insert(&rule(ResourceKind::Topic, "*", Operation::All, Permission::Deny));
        let authorizer =
            Authorizer { super_users: vec!["root".to_owned()], without_rules: WithoutRules::Refuse };
        let access = Arc::new(access);
        let allow = |name: &str| {
            let rights = Rights::new(&authorizer, access.clone(), subject(name));
            rights.allow(Operation::Read, Resource::Topic("t"))
        };
        assert!(allow("root") && !allow("alice"));
    }

    #[test]
    fn operations_have_a_bit_each_for_what_is_allowed() {
        let read = rule(ResourceKind::Group, "g", Operation::Read, Permission::Allow);
        let rights = rights(WithoutRules::Refuse, &[read]);
        // Read, and Describe because of it.
        assert_eq!(rights.allowed_operations(Resource::Group("g")), 1 << 3 | 1 << 8);
        assert_eq!(rights.allowed_operations(Resource::Group("h")), 0);
    }
}
