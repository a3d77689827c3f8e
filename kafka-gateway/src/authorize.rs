//! Who may do what: the one place that every API asks.
//!
//! Everything is allowed so far; the callers already answer a refusal as Kafka does.

/// Who is at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Principal {
    pub(crate) name: String,
}

impl Principal {
    pub(crate) fn anonymous() -> Self {
        Self { name: "ANONYMOUS".to_owned() }
    }
}

/// What a request does, by the words of Kafka's `AclOperation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write,
    Create,
    Delete,
    Describe,
    ClusterAction,
    DescribeConfigs,
    IdempotentWrite,
}

/// What it is done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource<'a> {
    Cluster,
    Topic(&'a str),
    Group(&'a str),
    TransactionalId(&'a str),
}

/// Whether the principal may do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Allowed,
    #[expect(dead_code, reason = "rules come with users and ACLs; every API answers a refusal already")]
    Denied,
}

/// Decides one operation on one resource.
pub(crate) fn authorize(_principal: &Principal, _operation: Operation, _resource: Resource<'_>) -> Decision {
    Decision::Allowed
}
