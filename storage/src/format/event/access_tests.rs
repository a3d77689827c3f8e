//! Events about users, rules and quotas: any of them for the round trip, and what is refused.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::access::{
    AclBinding, EntityName, Operation, PatternKind, Permission, QuotaEntity, ResourceKind, ScramCredential,
    ScramMechanism, User,
};

fn name() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9 *:.ü]{1,12}"
}

fn user() -> impl Strategy<Value = User> {
    let mechanisms = prop::sample::subsequence(ScramMechanism::ALL.to_vec(), 0..=2);
    (name(), mechanisms, any::<[u8; 8]>()).prop_map(|(name, mechanisms, secret)| {
        let credentials = mechanisms
            .into_iter()
            .map(|mechanism| ScramCredential::mock(mechanism, &secret, &name))
            .collect();
        User { name, credentials }
    })
}

fn binding() -> impl Strategy<Value = AclBinding> {
    use ResourceKind::*;
    let operations = [
        Operation::All,
        Operation::Read,
        Operation::Create,
        Operation::ClusterAction,
        Operation::IdempotentWrite,
    ];
    let kinds = (
        prop::sample::select(vec![Topic, Group, Cluster, TransactionalId]),
        prop::sample::select(vec![PatternKind::Literal, PatternKind::Prefixed]),
        prop::sample::select(operations.to_vec()),
        prop::sample::select(vec![Permission::Allow, Permission::Deny]),
    );
    (kinds, name(), name(), name()).prop_map(|(kinds, resource_name, principal, host)| {
        let (resource_kind, pattern_kind, operation, permission) = kinds;
        AclBinding { resource_kind, pattern_kind, resource_name, principal, host, operation, permission }
    })
}

fn entity() -> impl Strategy<Value = QuotaEntity> {
    let entity_name = || prop_oneof![Just(EntityName::Default), name().prop_map(EntityName::Named)];
    prop_oneof![
        (entity_name(), option::of(entity_name()))
            .prop_map(|(user, client_id)| QuotaEntity { user: Some(user), client_id }),
        entity_name().prop_map(|client_id| QuotaEntity { user: None, client_id: Some(client_id) }),
    ]
}

/// Any event about users, rules and quotas.
pub(super) fn access_event() -> impl Strategy<Value = Event> {
    let quota = (entity(), name(), option::of(1e-3..1e12_f64));
    prop_oneof![
        user().prop_map(AccessChange::PutUser),
        name().prop_map(AccessChange::RemoveUser),
        vec(binding(), 0..4).prop_map(AccessChange::AddAcls),
        vec(binding(), 0..4).prop_map(AccessChange::RemoveAcls),
        quota.prop_map(|(entity, key, value)| AccessChange::SetQuota { entity, key, value }),
    ]
    .prop_map(Event::AccessChanged)
}

#[test]
fn what_is_not_known_or_out_of_bounds_is_refused() {
    let refused = |kind: u16, message: &[u8]| {
        let mut bytes = [kind.to_le_bytes(), 4_u16.to_le_bytes()].concat();
        bytes.extend_from_slice(&(message.len() as u32).to_le_bytes());
        bytes.extend_from_slice(message);
        Event::decode(&bytes).unwrap_err().to_string()
    };
    let no_name = "does not decode: the name of a user has 0 bytes, it may have 1 to 1024";
    assert_eq!(refused(48, b""), format!("kind 48 {no_name}"));
    assert_eq!(refused(49, b""), format!("kind 49 {no_name}"));
    let mechanism = [0x0a, 1, b'u', 0x12, 2, 0x08, 3];
    assert_eq!(refused(48, &mechanism), "kind 48 does not decode: mechanism 3 is not known");
    let operation = [0x0a, 6, 0x08, 1, 0x10, 1, 0x30, 12];
    assert_eq!(refused(50, &operation), "kind 50 does not decode: operation 12 is not known");
    assert_eq!(refused(51, &[0x0a, 0]), "kind 51 does not decode: resource kind 0 is not known");
    let no_entity = "kind 52 does not decode: a quota is for a user, a client id, or both";
    assert_eq!(refused(52, &[0x1a, 1, b'k']), no_entity);
    let mut infinite = vec![0x0a, 0, 0x1a, 1, b'k', 0x21];
    infinite.extend_from_slice(&f64::INFINITY.to_le_bytes());
    assert!(refused(52, &infinite).contains("quota k is inf"), "{}", refused(52, &infinite));
}
