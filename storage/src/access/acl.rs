//! A rule: who may, or may not, do what with which resources, from where.

/// Kinds of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceKind {
    Topic,
    Group,
    Cluster,
    TransactionalId,
}

/// How the name of a rule is compared with that of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PatternKind {
    /// It is the same, or the rule has `*`.
    Literal,
    /// It begins with the name of the rule.
    Prefixed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    All,
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
    /// Whether a rule that allows this one allows `other` (Kafka's StandardAuthorizer). A rule that
    /// denies implies nothing.
    pub(super) fn implies(self, other: Self) -> bool {
        let implied = match other {
            Self::Describe => matches!(self, Self::Read | Self::Write | Self::Delete | Self::Alter),
            Self::DescribeConfigs => self == Self::AlterConfigs,
            _ => false,
        };
        implied || self == other || self == Self::All
    }

    /// Whether a rule that denies this one denies `other`.
    pub(super) fn covers(self, other: Self) -> bool {
        self == other || self == Self::All
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    Allow,
    Deny,
}

/// One rule. Rules sort by what they are about first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AclBinding {
    pub resource_kind: ResourceKind,
    pub pattern_kind: PatternKind,
    /// `*` in a literal pattern is every resource of the kind.
    pub resource_name: String,
    /// Such as `User:alice`; `User:*` is everybody.
    pub principal: String,
    /// An address, or `*` for all.
    pub host: String,
    pub operation: Operation,
    pub permission: Permission,
}
