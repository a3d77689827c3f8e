//! Between the events about users, rules and quotas and their messages.

use prost::Message;

use super::kind;
use crate::access::AccessChange;
use crate::format::access::{AclMessage, QuotaMessage, UserMessage, changed_acls, checked};

#[derive(Clone, PartialEq, Message)]
struct UserRemovedMessage {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct AclsMessage {
    #[prost(message, repeated, tag = "1")]
    acls: Vec<AclMessage>,
}

pub(super) fn kind_of(change: &AccessChange) -> u16 {
    match change {
        AccessChange::PutUser(_) => kind::USER_PUT,
        AccessChange::RemoveUser(_) => kind::USER_REMOVED,
        AccessChange::AddAcls(_) => kind::ACLS_ADDED,
        AccessChange::RemoveAcls(_) => kind::ACLS_REMOVED,
        AccessChange::SetQuota { .. } => kind::QUOTA_SET,
    }
}

/// Appends the message of an event.
pub(super) fn encode(change: &AccessChange, out: &mut Vec<u8>) {
    let encoded = match change {
        AccessChange::PutUser(user) => UserMessage::new(user).encode(out),
        AccessChange::RemoveUser(name) => UserRemovedMessage { name: name.clone() }.encode(out),
        AccessChange::AddAcls(bindings) | AccessChange::RemoveAcls(bindings) => {
            AclsMessage { acls: bindings.iter().map(AclMessage::new).collect() }.encode(out)
        }
        AccessChange::SetQuota { entity, key, value } => QuotaMessage::new(entity, key, *value).encode(out),
    };
    encoded.expect("a vector grows as needed");
}

pub(super) fn user_put(bytes: &[u8]) -> Result<AccessChange, String> {
    message::<UserMessage>(bytes)?.into_change()
}

pub(super) fn user_removed(bytes: &[u8]) -> Result<AccessChange, String> {
    checked(AccessChange::RemoveUser(message::<UserRemovedMessage>(bytes)?.name))
}

pub(super) fn acls_added(bytes: &[u8]) -> Result<AccessChange, String> {
    changed_acls(message::<AclsMessage>(bytes)?.acls, AccessChange::AddAcls)
}

pub(super) fn acls_removed(bytes: &[u8]) -> Result<AccessChange, String> {
    changed_acls(message::<AclsMessage>(bytes)?.acls, AccessChange::RemoveAcls)
}

pub(super) fn quota_set(bytes: &[u8]) -> Result<AccessChange, String> {
    message::<QuotaMessage>(bytes)?.into_change()
}

fn message<M: Message + Default>(bytes: &[u8]) -> Result<M, String> {
    M::decode(bytes).map_err(|error| error.to_string())
}
