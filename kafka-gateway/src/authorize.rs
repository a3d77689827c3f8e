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

    /// Somebody who has proven to be the user of that name.
    pub(crate) fn user(name: String) -> Self {
        Self { name }
    }
}

/// What a request does, by the words of Kafka's `AclOperation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write,
    Create,
    Delete,
    Alter,
    Describe,
    ClusterAction,
    DescribeConfigs,
    AlterConfigs,
    IdempotentWrite,
}

impl Operation {
    /// `AclOperation.code` of the Java client.
    fn code(self) -> u32 {
        match self {
            Self::Read => 3,
            Self::Write => 4,
            Self::Create => 5,
            Self::Delete => 6,
            Self::Alter => 7,
            Self::Describe => 8,
            Self::ClusterAction => 9,
            Self::DescribeConfigs => 10,
            Self::AlterConfigs => 11,
            Self::IdempotentWrite => 12,
        }
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

impl Resource<'_> {
    /// What can be done to a resource of the kind (Kafka's `AclEntry.supportedOperations`).
    fn operations(&self) -> &'static [Operation] {
        use Operation::*;
        match self {
            Self::Topic(_) => &[Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs],
            Self::Cluster => {
                &[Create, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite]
            }
            Self::Group(_) => &[Read, Delete, Describe, DescribeConfigs, AlterConfigs],
            Self::TransactionalId(_) => &[Write, Describe],
        }
    }
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

/// All that the principal may do to a resource, one bit per operation.
pub(crate) fn authorized_operations(principal: &Principal, resource: Resource<'_>) -> i32 {
    let allowed = resource
        .operations()
        .iter()
        .filter(|operation| authorize(principal, **operation, resource) == Decision::Allowed);
    allowed.fold(0, |bits, operation| bits | 1 << operation.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_rules_all_operations_of_a_kind_are_allowed() {
        let bits = |resource| authorized_operations(&Principal::anonymous(), resource);
        // What Apache Kafka 4.1 answers without an authorizer.
        assert_eq!(bits(Resource::Topic("t")), 3576);
        assert_eq!(bits(Resource::Cluster), 8096);
        assert_eq!(bits(Resource::Group("g")), 3400);
    }
}
