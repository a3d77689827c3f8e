//! Users, rules (ACLs) and quotas: who may come in, how that is proven, and what each may do. Pure.
//!
//! The log keeps one [`Access`] for all protocols; a change of it is an event. Nothing here knows of
//! requests, wire codes or statements: whoever serves a protocol says which operation on which
//! resource a request is, and asks.
//!
//! Invariants: no password is kept, only what proves it; what a client sent decides nothing by how
//! long a comparison takes; an [`Access`] that was checked keeps within the bounds below.

mod acl;
mod acls;
mod authorizer;
mod change;
mod credential;
mod quota;
pub mod scram;
mod user;

#[cfg(test)]
mod tests;

pub use acl::{AclBinding, Operation, PatternKind, Permission, ResourceKind};
pub use acls::{AclDecision, Acls};
pub use authorizer::{AccessRequest, Authorizer, WithoutRules};
pub use change::{AccessChange, AccessError};
pub use credential::{
    CredentialError, SCRAM_ITERATIONS_DEFAULT, SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN, ScramCredential,
    ScramMechanism,
};
pub use quota::{AppliedQuota, EntityName, QuotaEntity, QuotaScope, Quotas};
pub use user::{User, Users};

pub const USERS_MAX: usize = 100_000;
pub const ACL_BINDINGS_MAX: usize = 100_000;
/// Values, not entities: an entity has one for each key.
pub const QUOTAS_MAX: usize = 100_000;
/// Of a user, a principal, a resource, a host, a client id, or the key of a quota.
pub const NAME_BYTES_MAX: usize = 1024;

/// Of all changes that are made at once: they become durable together, in one object.
pub const CHANGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// All that the log knows of who may do what. A copy costs next to nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Access {
    pub users: Users,
    pub acls: Acls,
    pub quotas: Quotas,
}
