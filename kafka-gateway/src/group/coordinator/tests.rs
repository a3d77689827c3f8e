//! The shell with a log in memory and simulated time.

use std::sync::Arc;

use bytes::Bytes;
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::{CreateTopic, GroupChange, LogSettings, OffsetCommit};
use strandline_storage::object::{LogStore, ObjectStoreBackend};

use super::super::classic::{Join, KnownId, Skipping, Sync};
use super::super::consumer::Partitions;
use super::*;

/// Turns of all tasks in which a write to a log in memory is surely done.
const TURNS: usize = 200;

/// Lets time pass, and what that leads to be written before more of it passes.
async fn pass(time: Duration) {
    tokio::time::advance(time).await;
    for _ in 0..TURNS {
        tokio::task::yield_now().await;
    }
}

struct World {
    store: Arc<dyn LogStore>,
    log: Log,
    coordinator: GroupCoordinator,
    /// Of this process: ids are then never the same.
    seed: u64,
}

fn settings() -> GatewaySettings {
    GatewaySettings { groups_max: 2, ..GatewaySettings::default() }
}

async fn open(store: &Arc<dyn LogStore>, seed: u64) -> Log {
    let opened = Log::open(store.clone(), LogSettings::default(), Seams::simulated(seed)).await;
    opened.expect("the log opens")
}

impl World {
    async fn new() -> Self {
        let store: Arc<dyn LogStore> = Arc::new(ObjectStoreBackend::memory());
        let log = open(&store, 1).await;
        Self { coordinator: GroupCoordinator::new(&settings(), log.clone()), store, log, seed: 1 }
    }

    /// Another process on the same store.
    async fn restart(self) -> Self {
        self.log.close().await;
        let seed = self.seed + 1;
        let log = open(&self.store, seed).await;
        Self { coordinator: GroupCoordinator::new(&settings(), log.clone()), store: self.store, log, seed }
    }

    /// Runs the coordinator while something is done with it.
    async fn with<T>(&self, scene: impl Future<Output = T>) -> T {
        tokio::select! {
            () = self.coordinator.run() => unreachable!("the coordinator never ends"),
            done = scene => done,
        }
    }

    async fn classic(&self, group: &str, input: Input) -> Reply {
        self.coordinator.submit(group, Request::Classic(input)).await
    }

    async fn consumer(&self, group: &str, beat: Beat) -> Reply {
        self.coordinator.submit(group, Request::Consumer(beat)).await
    }

    async fn commit(&self, group: &str, generation: i32) -> Reply {
        let version = CommitVersion::Generations;
        let request = Request::Commit { caller: Caller::default(), generation, version };
        self.coordinator.submit(group, request).await
    }

    async fn delete(&self, group: &str) -> Reply {
        self.coordinator.submit(group, Request::Delete).await
    }

    /// A stable group of one member.
    async fn settle(&self, group: &str, id: &str) -> i32 {
        let joined = self.classic(group, join("", id)).await;
        let Reply::Joined(joined) = joined else { panic!("expected a join, found {joined:?}") };
        let synced = self.classic(group, sync(id, joined.generation)).await;
        assert!(matches!(&synced, Reply::Synced(synced) if synced.assignment == Bytes::from_static(b"1")));
        joined.generation
    }

    async fn topic(&self, name: &str, partitions: i32) -> TopicPartition {
        let topic = CreateTopic { name: name.to_owned(), partitions, configs: Default::default() };
        TopicPartition::new(self.log.create_topic(topic).await.expect("a topic is created").id, 0)
    }
}

fn caller(id: &str) -> Caller {
    Caller { member_id: id.to_owned(), instance_id: None }
}

fn join(member_id: &str, new_member_id: &str) -> Input {
    Input::Join(Join {
        caller: caller(member_id),
        new_member_id: new_member_id.to_owned(),
        known_id: KnownId::NotRequired,
        skipping: Skipping::Understood,
        client_id: "client".to_owned(),
        client_host: "/127.0.0.1".to_owned(),
        session_timeout: Duration::from_secs(10),
        rebalance_timeout: Duration::from_secs(30),
        protocol_type: "consumer".to_owned(),
        protocols: vec![("range".to_owned(), Bytes::from_static(b"\0\0\0\0\0\x01\0\x01t"))],
    })
}

fn sync(id: &str, generation: i32) -> Input {
    Input::Sync(Sync {
        caller: caller(id),
        generation,
        protocol_type: None,
        protocol: None,
        assignments: vec![(id.to_owned(), Bytes::from_static(b"1"))],
    })
}

fn heartbeat(id: &str, generation: i32) -> Input {
    Input::Heartbeat { caller: caller(id), generation }
}

fn leave(id: &str) -> Input {
    Input::Leave { members: vec![caller(id)] }
}

fn beat(id: &str, epoch: i32) -> Beat {
    let joins = epoch == JOINING;
    Beat {
        caller: caller(id),
        epoch,
        rebalance_timeout: joins.then_some(Duration::from_secs(60)),
        subscribed_topics: joins.then(|| vec!["t".to_owned()]),
        owned: joins.then(Partitions::default),
        ..Beat::default()
    }
}

#[tokio::test(start_paused = true)]
async fn the_timer_ends_the_initial_delay_and_sessions() {
    let world = World::new().await;
    let lone_member = async {
        let begun = tokio::time::Instant::now();
        world.settle("g", "a").await;
        assert_eq!(begun.elapsed().as_secs(), 3);
        while !world.coordinator.lock().slots.is_empty() {
            pass(Duration::from_secs(1)).await;
        }
        let seconds = begun.elapsed().as_secs();
        assert!((13..=15).contains(&seconds), "the session lasts 10 s, not {seconds} s less 3");
    };
    world.with(lone_member).await;
    let group = world.log.snapshot().group("g").cloned().expect("the group is in the log");
    assert!(!group.has_members(), "that it has no members is written");
}

#[tokio::test(start_paused = true)]
async fn only_a_new_member_opens_a_group() {
    let world = World::new().await;
    let reply = world.classic("g", join("ghost", "")).await;
    assert!(matches!(reply, Reply::NotJoined { error: GroupError::UnknownMember, .. }));
    assert_eq!(world.commit("g", -1).await, Reply::Done);
    assert_eq!(world.commit("g", 3).await, Reply::Failed(GroupError::IllegalGeneration));
    assert_eq!(world.commit("", -1).await, Reply::Done);
    let reply = world.classic("", join("", "a")).await;
    assert!(matches!(reply, Reply::NotJoined { error: GroupError::InvalidGroupId, .. }));
    assert_eq!(world.consumer("g", beat("a", 3)).await, Reply::Failed(GroupError::GroupNotFound));
    assert_eq!(world.delete("g").await, Reply::Failed(GroupError::GroupNotFound));
    assert!(world.coordinator.lock().slots.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_number_of_groups_is_bounded() {
    let world = World::new().await;
    for group in ["g", "h"] {
        assert!(world.coordinator.begin(group, Request::Classic(join("", "a"))).is_ok());
    }
    let reply = world.classic("i", join("", "a")).await;
    assert!(matches!(reply, Reply::NotJoined { error: GroupError::TooManyGroups, .. }));
    assert_eq!(world.commit("i", -1).await, Reply::Failed(GroupError::TooManyGroups));
}

#[tokio::test(start_paused = true)]
async fn a_classic_group_goes_on_after_a_restart() {
    let world = World::new().await;
    let generation = world.with(world.settle("g", "a")).await;
    let world = world.restart().await;
    let scene = async {
        assert_eq!(world.classic("g", heartbeat("a", generation)).await, Reply::Done);
        let again = world.classic("g", sync("a", generation)).await;
        assert!(matches!(again, Reply::Synced(synced) if synced.assignment == Bytes::from_static(b"1")));
        let joined = world.classic("g", join("a", "")).await;
        assert!(matches!(joined, Reply::Joined(joined) if joined.generation > generation + 1));
    };
    world.with(scene).await;
}

#[tokio::test(start_paused = true)]
async fn members_that_do_not_come_back_after_a_restart_are_gone_after_their_session() {
    let world = World::new().await;
    world.with(world.settle("g", "a")).await;
    let world = world.restart().await;
    let emptied = async {
        while world.log.snapshot().group("g").is_some_and(|group| group.has_members()) {
            pass(Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), world.with(emptied)).await.expect("the session ends");
}

#[tokio::test(start_paused = true)]
async fn a_consumer_group_goes_on_after_a_restart() {
    let world = World::new().await;
    world.topic("t", 3).await;
    let epoch = world.with(world.consumer("g", beat("a", JOINING))).await;
    let Reply::Beaten(joined) = epoch else { panic!("expected a heartbeat, found {epoch:?}") };
    assert_eq!((joined.epoch, joined.assignment.map(|it| it.len())), (1, Some(3)));
    let world = world.restart().await;
    let again = world.with(world.consumer("g", beat("a", 1))).await;
    assert!(matches!(again, Reply::Beaten(beaten) if beaten.epoch == 1 && beaten.assignment.is_none()));
    world.topic("u", 1).await;
    world.log.delete_topic(world.log.snapshot().topic("t").expect("it is there").id).await.unwrap();
    let changed = world.with(world.consumer("g", beat("a", 1))).await;
    assert!(matches!(changed, Reply::Beaten(beaten) if beaten.epoch == 1 && beaten.assignment.is_some()));
}

#[tokio::test(start_paused = true)]
async fn a_group_without_members_may_change_its_protocol() {
    let world = World::new().await;
    world.topic("t", 1).await;
    let scene = async {
        let generation = world.settle("g", "a").await;
        let refused = world.consumer("g", beat("b", JOINING)).await;
        assert_eq!(refused, Reply::Failed(GroupError::GroupNotFound));
        world.classic("g", leave("a")).await;
        let Reply::Beaten(joined) = world.consumer("g", beat("b", JOINING)).await else {
            panic!("an empty group takes a member of the other protocol")
        };
        assert!(joined.epoch > generation);
        let refused = world.classic("g", join("", "c")).await;
        assert!(matches!(refused, Reply::NotJoined { error: GroupError::InconsistentProtocol, .. }));
        let beat = world.classic("g", heartbeat("a", generation)).await;
        assert_eq!(beat, Reply::Failed(GroupError::UnknownMember));
        world.consumer("g", beat_leaving("b")).await;
        assert!(world.settle("g", "c").await > joined.epoch);
    };
    world.with(scene).await;
}

fn beat_leaving(id: &str) -> Beat {
    beat(id, super::super::consumer::LEAVING)
}

#[tokio::test(start_paused = true)]
async fn a_generation_that_was_told_is_not_told_again_by_a_group_that_changed_its_protocol() {
    let world = World::new().await;
    world.topic("t", 1).await;
    let scene = async {
        world.consumer("g", beat("a", JOINING)).await;
        world.consumer("g", beat_leaving("a")).await;
        let joined = world.classic("g", join("", "b")).await;
        let Reply::Joined(joined) = joined else { panic!("expected a join, found {joined:?}") };
        joined.generation
    };
    let told = world.with(scene).await;
    let world = world.restart().await;
    let again = async {
        let Reply::Beaten(beaten) = world.consumer("g", beat("c", JOINING)).await else {
            panic!("the group has no members")
        };
        world.consumer("g", beat_leaving("c")).await;
        (beaten.epoch, world.settle("g", "d").await)
    };
    let (epoch, generation) = world.with(again).await;
    assert!(epoch > told && generation > epoch, "{told}, {epoch}, {generation}");
}

#[tokio::test(start_paused = true)]
async fn only_a_group_without_members_is_deleted() {
    let world = World::new().await;
    let topic_partition = world.topic("t", 1).await;
    let scene = async {
        world.settle("g", "a").await;
        let commit = OffsetCommit { topic_partition, offset: 5, leader_epoch: -1, metadata: None };
        world.log.commit_offsets("g", vec![commit]).await.unwrap();
        assert_eq!(world.delete("g").await, Reply::Failed(GroupError::NonEmpty));
        assert_eq!(world.coordinator.uses("g", &["t", "u"]), Ok(vec![true, false]));
        world.classic("g", leave("a")).await;
        assert_eq!(world.delete("g").await, Reply::Deleted);
        let snapshot = world.log.snapshot();
        assert!(snapshot.group("g").is_none() && snapshot.group_offsets("g").next().is_none());
        assert_eq!(world.coordinator.describe("g"), None);
        assert_eq!(world.settle("g", "b").await, 1, "it begins anew");
    };
    world.with(scene).await;
}

#[tokio::test(start_paused = true)]
async fn a_group_that_another_coordinator_changed_is_loaded_again() {
    let world = World::new().await;
    let scene = async {
        let generation = world.settle("g", "a").await;
        let group = world.log.snapshot().group("g").cloned().expect("it is in the log");
        let other = GroupChange::ReserveGenerations { last: 100 };
        world.log.change_group("g", group.revision, other).await.unwrap();
        // The leader joins again: the new generation's assignment cannot be written.
        let joined = world.classic("g", join("a", "")).await;
        assert!(matches!(joined, Reply::Joined(joined) if joined.generation == generation + 1));
        let synced = world.classic("g", sync("a", generation + 1)).await;
        assert_eq!(synced, Reply::Failed(GroupError::NotCoordinator));
        let joined = world.classic("g", join("a", "")).await;
        assert!(matches!(joined, Reply::Joined(joined) if joined.generation == 101));
    };
    world.with(scene).await;
}

#[tokio::test(start_paused = true)]
async fn all_groups_are_listed() {
    let world = World::new().await;
    let topic_partition = world.topic("t", 1).await;
    let scene = async {
        world.settle("classic", "a").await;
        world.consumer("consumer", beat("a", JOINING)).await;
        let commit = OffsetCommit { topic_partition, offset: 5, leader_epoch: -1, metadata: None };
        world.log.commit_offsets("offsets", vec![commit]).await.unwrap();
        let listed = world.coordinator.list();
        let listed: Vec<_> =
            listed.iter().map(|it| (it.group_id.as_str(), it.group_type, it.state)).collect();
        let expected = [
            ("classic", "classic", "Stable"),
            ("consumer", "consumer", "Stable"),
            ("offsets", "classic", "Empty"),
        ];
        assert_eq!(listed, expected);
    };
    world.with(scene).await;
}

#[tokio::test(start_paused = true)]
async fn offsets_of_a_group_without_members_are_forgotten_in_the_end() {
    let world = World::new().await;
    let topic_partition = world.topic("t", 1).await;
    let commit = OffsetCommit { topic_partition, offset: 5, leader_epoch: -1, metadata: None };
    world.log.commit_offsets("g", vec![commit]).await.unwrap();
    let forgotten = async {
        while world.log.snapshot().group_offsets("g").next().is_some() {
            pass(Duration::from_secs(300)).await;
        }
    };
    let begun = tokio::time::Instant::now();
    world.with(forgotten).await;
    let days = begun.elapsed().as_secs() / 86_400;
    assert_eq!(days, 7);
}

#[tokio::test]
async fn member_ids_are_never_the_same() {
    let coordinator = World::new().await.coordinator;
    let (a, b) = (coordinator.new_member_id(Some("me")), coordinator.new_member_id(Some("me")));
    assert!(a.starts_with("me-") && b.starts_with("me-") && a != b);
}
