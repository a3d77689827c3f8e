//! Users, rules and quotas as protobuf messages: those of the events about them, and what pages of a
//! checkpoint hold of them.
//!
//! Invariant: what is decoded keeps within the bounds of `access`, or is refused.

use prost::Message;

use crate::access::{
    AccessChange, AclBinding, EntityName, Operation, PatternKind, Permission, QuotaEntity, ResourceKind,
    ScramCredential, ScramMechanism, User,
};

// The numbers in messages and keys are the places in these lists, from 1 on, and never change.
const MECHANISMS: [ScramMechanism; 2] = [ScramMechanism::Sha256, ScramMechanism::Sha512];
const RESOURCE_KINDS: [ResourceKind; 4] =
    [ResourceKind::Topic, ResourceKind::Group, ResourceKind::Cluster, ResourceKind::TransactionalId];
const PATTERN_KINDS: [PatternKind; 2] = [PatternKind::Literal, PatternKind::Prefixed];
const PERMISSIONS: [Permission; 2] = [Permission::Allow, Permission::Deny];
const OPERATIONS: [Operation; 11] = [
    Operation::All,
    Operation::Read,
    Operation::Write,
    Operation::Create,
    Operation::Delete,
    Operation::Alter,
    Operation::Describe,
    Operation::ClusterAction,
    Operation::DescribeConfigs,
    Operation::AlterConfigs,
    Operation::IdempotentWrite,
];

fn number_of<T: PartialEq>(all: &[T], one: &T) -> u8 {
    let place = all.iter().position(|other| other == one).expect("the list has all of them");
    place as u8 + 1
}

fn of_number<T: Copy>(what: &str, all: &[T], number: u32) -> Result<T, String> {
    let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    place.and_then(|place| all.get(place)).copied().ok_or_else(|| format!("{what} {number} is not known"))
}

/// A user, whole.
#[derive(Clone, PartialEq, Message)]
pub struct UserMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    credentials: Vec<CredentialMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct CredentialMessage {
    #[prost(uint32, tag = "1")]
    mechanism: u32,
    #[prost(bytes = "vec", tag = "2")]
    salt: Vec<u8>,
    #[prost(uint32, tag = "3")]
    iterations: u32,
    #[prost(bytes = "vec", tag = "4")]
    stored_key: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    server_key: Vec<u8>,
}

/// One rule.
#[derive(Clone, PartialEq, Message)]
pub struct AclMessage {
    #[prost(uint32, tag = "1")]
    resource_kind: u32,
    #[prost(uint32, tag = "2")]
    pattern_kind: u32,
    #[prost(string, tag = "3")]
    resource_name: String,
    #[prost(string, tag = "4")]
    principal: String,
    #[prost(string, tag = "5")]
    host: String,
    #[prost(uint32, tag = "6")]
    operation: u32,
    #[prost(uint32, tag = "7")]
    permission: u32,
}

/// One value of one entity.
#[derive(Clone, PartialEq, Message)]
pub struct QuotaMessage {
    #[prost(message, optional, tag = "1")]
    user: Option<EntityNameMessage>,
    #[prost(message, optional, tag = "2")]
    client_id: Option<EntityNameMessage>,
    #[prost(string, tag = "3")]
    key: String,
    /// Missing: there is none any more.
    #[prost(double, optional, tag = "4")]
    value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct EntityNameMessage {
    /// Missing: the default.
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
}

impl UserMessage {
    pub fn new(user: &User) -> Self {
        let credential = |credential: &ScramCredential| CredentialMessage {
            mechanism: number_of(&MECHANISMS, &credential.mechanism).into(),
            salt: credential.salt.clone(),
            iterations: credential.iterations,
            stored_key: credential.stored_key.clone(),
            server_key: credential.server_key.clone(),
        };
        Self { name: user.name.clone(), credentials: user.credentials.iter().map(credential).collect() }
    }

    /// # Errors
    /// A user that the bounds do not allow.
    pub fn into_change(self) -> Result<AccessChange, String> {
        let credential = |message: CredentialMessage| {
            Ok(ScramCredential {
                mechanism: of_number("mechanism", &MECHANISMS, message.mechanism)?,
                salt: message.salt,
                iterations: message.iterations,
                stored_key: message.stored_key,
                server_key: message.server_key,
            })
        };
        let credentials = self.credentials.into_iter().map(credential).collect::<Result<_, String>>()?;
        checked(AccessChange::PutUser(User { name: self.name, credentials }))
    }
}

impl AclMessage {
    pub fn new(binding: &AclBinding) -> Self {
        Self {
            resource_kind: number_of(&RESOURCE_KINDS, &binding.resource_kind).into(),
            pattern_kind: number_of(&PATTERN_KINDS, &binding.pattern_kind).into(),
            resource_name: binding.resource_name.clone(),
            principal: binding.principal.clone(),
            host: binding.host.clone(),
            operation: number_of(&OPERATIONS, &binding.operation).into(),
            permission: number_of(&PERMISSIONS, &binding.permission).into(),
        }
    }

    fn into_binding(self) -> Result<AclBinding, String> {
        Ok(AclBinding {
            resource_kind: of_number("resource kind", &RESOURCE_KINDS, self.resource_kind)?,
            pattern_kind: of_number("pattern kind", &PATTERN_KINDS, self.pattern_kind)?,
            resource_name: self.resource_name,
            principal: self.principal,
            host: self.host,
            operation: of_number("operation", &OPERATIONS, self.operation)?,
            permission: of_number("permission", &PERMISSIONS, self.permission)?,
        })
    }

    /// # Errors
    /// A rule that is not known, or that the bounds do not allow.
    pub fn into_change(self) -> Result<AccessChange, String> {
        changed_acls(vec![self], AccessChange::AddAcls)
    }
}

/// The change of some rules.
///
/// # Errors
/// A rule that is not known, or that the bounds do not allow.
pub(super) fn changed_acls(
    messages: Vec<AclMessage>,
    change: impl FnOnce(Vec<AclBinding>) -> AccessChange,
) -> Result<AccessChange, String> {
    let bindings = messages.into_iter().map(AclMessage::into_binding).collect::<Result<_, _>>()?;
    checked(change(bindings))
}

impl QuotaMessage {
    pub fn new(entity: &QuotaEntity, key: &str, value: Option<f64>) -> Self {
        let name = |name: &EntityName| EntityNameMessage {
            name: match name {
                EntityName::Default => None,
                EntityName::Named(name) => Some(name.clone()),
            },
        };
        Self {
            user: entity.user.as_ref().map(name),
            client_id: entity.client_id.as_ref().map(name),
            key: key.to_owned(),
            value,
        }
    }

    /// # Errors
    /// A quota that the bounds do not allow.
    pub fn into_change(self) -> Result<AccessChange, String> {
        let name = |message: EntityNameMessage| message.name.map_or(EntityName::Default, EntityName::Named);
        let entity = QuotaEntity { user: self.user.map(name), client_id: self.client_id.map(name) };
        checked(AccessChange::SetQuota { entity, key: self.key, value: self.value })
    }
}

pub(super) fn checked(change: AccessChange) -> Result<AccessChange, String> {
    change.check().map_err(|error| error.to_string())?;
    Ok(change)
}

/// The key of a rule in its page, in the order of rules.
pub fn acl_key(binding: &AclBinding) -> Vec<u8> {
    let mut key = vec![
        number_of(&RESOURCE_KINDS, &binding.resource_kind),
        number_of(&PATTERN_KINDS, &binding.pattern_kind),
    ];
    for name in [&binding.resource_name, &binding.principal, &binding.host] {
        key.extend_from_slice(name.as_bytes());
        key.push(0);
    }
    key.push(number_of(&OPERATIONS, &binding.operation));
    key.push(number_of(&PERMISSIONS, &binding.permission));
    key
}

/// The key of a quota in its page, in the order of quotas.
pub fn quota_key(entity: &QuotaEntity, quota: &str) -> Vec<u8> {
    let mut key = Vec::new();
    for name in [&entity.user, &entity.client_id] {
        match name {
            None => key.push(0),
            Some(EntityName::Default) => key.push(1),
            Some(EntityName::Named(name)) => {
                key.push(2);
                key.extend_from_slice(name.as_bytes());
                key.push(0);
            }
        }
    }
    key.extend_from_slice(quota.as_bytes());
    key
}
