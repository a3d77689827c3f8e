//! Users, rules and quotas: across restarts and checkpoints, in the order in which they were changed.

use thiserror::Error;

use super::*;
use crate::access::{
    Access, AccessChange, AccessError, AclBinding, AclDecision, EntityName, Operation, PatternKind,
    Permission, QuotaEntity, ResourceKind, ScramCredential, ScramMechanism, User,
};
use crate::ids::ShardId;
use crate::log::WriteError;

#[derive(Debug, PartialEq, Error)]
enum Refusal {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error("there are {0} users already")]
    Decided(usize),
}

fn user(name: &str) -> AccessChange {
    let credential = ScramCredential::mock(ScramMechanism::Sha512, b"secret", name);
    AccessChange::PutUser(User { name: name.to_owned(), credentials: vec![credential] })
}

fn rule(name: &str, operation: Operation) -> AclBinding {
    AclBinding {
        resource_kind: ResourceKind::Topic,
        pattern_kind: PatternKind::Prefixed,
        resource_name: name.to_owned(),
        principal: "User:alice".to_owned(),
        host: "*".to_owned(),
        operation,
        permission: Permission::Allow,
    }
}

fn quota(value: Option<f64>) -> AccessChange {
    let entity = QuotaEntity { user: Some(EntityName::Default), client_id: None };
    AccessChange::SetQuota { entity, key: "producer_byte_rate".to_owned(), value }
}

async fn change(log: &Log, changes: Vec<AccessChange>) -> Result<(), Refusal> {
    log.change_access(move |_| Ok((changes, ()))).await
}

/// One of everything, and something that is gone again.
async fn fill(log: &Log) {
    let rules = vec![rule("orders", Operation::Read), rule("o", Operation::Describe)];
    let changes = vec![user("alice"), user("bob"), AccessChange::AddAcls(rules.clone()), quota(Some(1.5))];
    change(log, changes).await.unwrap();
    change(log, vec![AccessChange::RemoveUser("bob".to_owned())]).await.unwrap();
    change(log, vec![AccessChange::RemoveAcls(rules[1..].to_vec()), user("carol")]).await.unwrap();
}

fn check(access: &Access) {
    let names: Vec<_> = access.users.iter().map(|user| user.name.as_str()).collect();
    assert_eq!(names, ["alice", "carol"]);
    assert_eq!(access.users.get("alice").map(|alice| alice.credentials.len()), Some(1));
    let decide = |name| access.acls.decide("User:alice", "h", Operation::Read, ResourceKind::Topic, name);
    assert_eq!((decide("orders.eu"), decide("other")), (AclDecision::Allowed, AclDecision::NoRule));
    let quota = access.quotas.applied("producer_byte_rate", "anybody", "client").unwrap();
    assert_eq!(quota.limit, 1.5);
}

#[tokio::test]
async fn they_are_the_same_after_a_crash_and_from_a_checkpoint() {
    let store = memory();
    let log = open_with(&store, LogSettings { shards: 3, ..LogSettings::default() }).await;
    assert_eq!(*log.access(), Access::default());
    fill(&log).await;
    check(&log.access());
    for copy in 1..3 {
        let shard = log.shard(ShardId(copy)).unwrap();
        assert_eq!(*shard.shared.durable().access, Access::default(), "they are in shard 0");
    }
    let before = log.access();
    drop(log);
    let log = open(&store).await;
    assert_eq!(log.access(), before, "from the WAL");
    log.checkpoint_now().await.unwrap();
    change(&log, vec![quota(Some(2.5)), AccessChange::RemoveUser("carol".to_owned())]).await.unwrap();
    let before = log.access();
    drop(log);
    let log = open(&store).await;
    assert_eq!(log.access(), before, "from a checkpoint and the WAL behind it");
    let log = reopen(&store, log).await;
    assert_eq!(log.access(), before, "from a checkpoint alone");
    let shared: Arc<dyn LogStore> = store.clone();
    log.close().await;
    drop(log);
    let read_only = Log::open_read_only(shared, LogSettings::default(), Seams::system()).await.unwrap();
    assert_eq!(read_only.access(), before);
}

#[tokio::test]
async fn a_change_is_decided_on_what_those_before_it_lead_to() {
    let log = open(&memory()).await;
    let first_only = |access: &Access| match access.users.len() {
        0 => Ok((vec![user("admin")], "created")),
        count => Err(Refusal::Decided(count)),
    };
    let both = futures::join!(log.change_access(first_only), log.change_access(first_only));
    assert_eq!(both, (Ok("created"), Err(Refusal::Decided(1))));
}

#[tokio::test]
async fn what_changes_nothing_is_not_written_and_what_is_refused_changes_nothing() {
    let log = open(&memory()).await;
    fill(&log).await;
    let objects = log.snapshot().wal_size().0;
    let nothing = vec![
        user("alice"),
        AccessChange::RemoveUser("bob".to_owned()),
        quota(Some(1.5)),
        AccessChange::AddAcls(vec![rule("orders", Operation::Read)]),
        AccessChange::RemoveAcls(Vec::new()),
    ];
    change(&log, nothing).await.unwrap();
    assert_eq!(log.snapshot().wal_size().0, objects);
    let before = log.access();
    let refused = change(&log, vec![user("dave"), user("")]).await.unwrap_err();
    assert_eq!(refused.to_string(), "the name of a user has 0 bytes, it may have 1 to 1024");
    assert_eq!(log.access(), before);
}
