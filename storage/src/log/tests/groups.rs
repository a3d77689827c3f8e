//! Groups: their events, across restarts and checkpoints, and when they are forgotten.

use bytes::Bytes;

use super::*;
use crate::format::event::{
    ClassicGroup, ClassicMember, ConsumerGroupChanged, ConsumerMember, MemberPartitions, MemberProtocol,
    SubscribedTopic,
};
use crate::ids::TopicId;
use crate::log::{ChangeGroupError, GroupBody, GroupChange, OffsetCommit};

fn classic(generation: i32, members: &[&str]) -> GroupChange {
    let member = |id: &&str| ClassicMember {
        member_id: (*id).to_owned(),
        instance_id: Some(format!("instance of {id}")),
        session_timeout_ms: 10_000,
        protocols: vec![MemberProtocol { name: "range".to_owned(), metadata: Bytes::from_static(b"m") }],
        assignment: Bytes::from_static(b"a"),
        ..ClassicMember::default()
    };
    GroupChange::Classic(ClassicGroup {
        protocol_type: "consumer".to_owned(),
        generation,
        members: members.iter().map(member).collect(),
        ..ClassicGroup::default()
    })
}

fn consumer(epoch: i32, member: &str, removed: &[&str]) -> GroupChange {
    let place = MemberPartitions { topic_id: TopicId::from_bytes([3; 16]), partitions: vec![0, 2] };
    let member = ConsumerMember {
        member_id: member.to_owned(),
        epoch,
        assigned: vec![place.clone()],
        target: vec![place],
        ..ConsumerMember::default()
    };
    GroupChange::Consumer(ConsumerGroupChanged {
        epoch,
        assignment_epoch: epoch,
        topics: (epoch == 1)
            .then(|| vec![SubscribedTopic { topic_id: TopicId::from_bytes([3; 16]), partition_count: 3 }]),
        members: vec![member],
        removed_members: removed.iter().map(|id| (*id).to_owned()).collect(),
        ..ConsumerGroupChanged::default()
    })
}

#[tokio::test]
async fn groups_are_the_same_after_a_restart_and_from_a_checkpoint() {
    let store = memory();
    let log = open(&store).await;
    assert_eq!(log.change_group("c", 0, classic(1, &["a"])).await, Ok(1));
    assert_eq!(log.change_group("c", 1, GroupChange::ReserveGenerations { last: 12 }).await, Ok(2));
    assert_eq!(log.change_group("n", 0, consumer(1, "a", &[])).await, Ok(1));
    assert_eq!(log.change_group("n", 1, consumer(2, "b", &["a"])).await, Ok(2));
    let groups = |log: &Log| {
        let snapshot = log.snapshot();
        snapshot.group_states().map(|(name, state)| (name.to_owned(), state.clone())).collect::<Vec<_>>()
    };
    let before = groups(&log);
    assert_eq!((before.len(), before[0].1.generations_reserved), (2, 12));
    let GroupBody::Consumer(group) = &before[1].1.body else { panic!("it speaks the consumer protocol") };
    assert_eq!((group.members.len(), group.topics.len(), group.epoch), (1, 1, 2));
    drop(log);
    let log = open(&store).await;
    assert_eq!(groups(&log), before, "from the WAL");
    let log = reopen(&store, log).await;
    assert_eq!(groups(&log), before, "from a checkpoint");
}

#[tokio::test]
async fn only_the_coordinator_that_knows_the_newest_revision_writes() {
    let log = open(&memory()).await;
    log.change_group("g", 0, classic(1, &["a"])).await.unwrap();
    let stale = log.change_group("g", 0, classic(1, &["b"])).await;
    let mismatch = ChangeGroupError::RevisionMismatch { group: "g".to_owned(), expected: 0, current: 1 };
    assert_eq!(stale, Err(mismatch));
    assert_eq!(log.change_group("g", 1, GroupChange::Delete).await, Ok(0));
    assert!(log.snapshot().group("g").is_none());
}

#[tokio::test]
async fn what_a_group_without_members_does_not_need_expires() {
    let log = open(&memory()).await;
    let topic_partition = create(&log, "t", 1, &[]).await;
    let commit = OffsetCommit { topic_partition, offset: 5, leader_epoch: -1, metadata: None };
    log.commit_offsets("g", vec![commit]).await.unwrap();
    log.change_group("g", 0, classic(1, &["a"])).await.unwrap();
    let now_ms = log.seams().clock.now_ms();
    assert!(!log.snapshot().has_expired("g", now_ms + 1000), "it has a member");
    log.change_group("g", 1, classic(2, &[])).await.unwrap();
    let empty_since_ms = log.snapshot().group("g").unwrap().empty_since_ms().unwrap();
    assert!(!log.snapshot().has_expired("g", empty_since_ms - 1));
    assert_eq!(log.change_group("g", 2, GroupChange::Expire { since_ms: empty_since_ms - 1 }).await, Ok(2));
    assert_eq!(log.snapshot().group_offsets("g").count(), 1);
    let late = log.snapshot().group_offsets("g").map(|(_, one)| one.commit_time_ms).max().unwrap();
    let since_ms = late.max(empty_since_ms);
    assert!(log.snapshot().has_expired("g", since_ms));
    log.change_group("g", 2, GroupChange::Expire { since_ms }).await.unwrap();
    assert_eq!(log.snapshot().group_offsets("g").count(), 0);
    assert!(log.snapshot().group("g").is_none(), "with its last offset the group is gone");
}
