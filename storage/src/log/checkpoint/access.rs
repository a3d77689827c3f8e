//! The entries of pages about users, rules and quotas. Pure.

use super::encode::{Entries, Keyed};
use crate::format::access::{AclMessage, QuotaMessage, UserMessage, acl_key, quota_key};
use crate::log::state::ShardState;

pub(super) fn users(state: &ShardState) -> Entries<'_> {
    let users = state.access.users.iter();
    Box::new(users.map(|user| Keyed::new(user.name.clone().into_bytes(), &UserMessage::new(user))))
}

pub(super) fn acls(state: &ShardState) -> Entries<'_> {
    let acls = state.access.acls.iter();
    Box::new(acls.map(|binding| Keyed::new(acl_key(&binding), &AclMessage::new(&binding))))
}

pub(super) fn quotas(state: &ShardState) -> Entries<'_> {
    let quotas = state.access.quotas.iter();
    Box::new(quotas.map(|(entity, key, value)| {
        Keyed::new(quota_key(entity, key), &QuotaMessage::new(entity, key, Some(value)))
    }))
}
