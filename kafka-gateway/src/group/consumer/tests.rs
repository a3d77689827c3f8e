//! Scenes of consumer groups, with time in seconds.

use std::net::IpAddr;
use std::sync::Arc;

use strandline_storage::access::{
    Access, AclBinding, Authorizer, Operation, PatternKind, Permission, ResourceKind,
};
use strandline_storage::log::GroupChange;

use super::*;
use crate::authorize::{Principal, Subject};

pub(super) struct Scene {
    pub(super) group: ConsumerGroup,
    pub(super) now: Duration,
    pub(super) topics: Topics,
    pub(super) written: Vec<GroupChange>,
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn limits() -> GroupLimits {
    GroupLimits {
        initial_rebalance_delay: seconds(3),
        session_timeout_min: seconds(6),
        session_timeout_max: seconds(1800),
        members_max: 5,
        metadata_bytes_max: 1000,
        consumer_session_timeout: seconds(45),
        consumer_heartbeat_interval: seconds(5),
    }
}

pub(super) fn joining(id: &str) -> Beat {
    Beat {
        caller: Caller { member_id: id.to_owned(), instance_id: None },
        rebalance_timeout: Some(seconds(60)),
        subscribed_topics: Some(vec!["t".to_owned()]),
        owned: Some(Partitions::default()),
        ..Beat::default()
    }
}

pub(super) fn beating(id: &str, epoch: i32, owned: Option<Partitions>) -> Beat {
    let caller = Caller { member_id: id.to_owned(), instance_id: None };
    Beat { caller, epoch, owned, ..Beat::default() }
}

fn of_instance(beat: Beat, instance: &str) -> Beat {
    let caller = Caller { instance_id: Some(instance.to_owned()), ..beat.caller };
    Beat { caller, ..beat }
}

fn topic() -> TopicId {
    TopicId::from_bytes([1; 16])
}

fn places(partitions: &[i32]) -> Partitions {
    partitions.iter().map(|partition| (topic(), *partition)).collect()
}

impl Scene {
    fn new() -> Self {
        let topics = Topics::new(1, &[("t", 1, 4), ("u", 2, 2)]);
        Self { group: ConsumerGroup::new(limits(), 0), now: seconds(100), topics, written: Vec::new() }
    }

    pub(super) fn beat(&mut self, beat: Beat) -> Result<Beaten, GroupError> {
        let mut answer = None;
        for effect in self.group.step(self.now, Waiter(1), beat, &self.topics) {
            match effect {
                Effect::Persist(change) => self.written.push(change),
                Effect::Answer(_, reply) => answer = Some(reply),
            }
        }
        match answer.expect("a heartbeat is answered at once") {
            Reply::Beaten(beaten) => Ok(beaten),
            Reply::Failed(error) => Err(error),
            other => panic!("a heartbeat is not answered with {other:?}"),
        }
    }

    fn error(&mut self, beat: Beat) -> GroupError {
        self.beat(beat).expect_err("the heartbeat is refused")
    }

    /// A heartbeat of a member that says what it has.
    fn go_on(&mut self, id: &str, epoch: i32, owned: &[i32]) -> Beaten {
        self.beat(beating(id, epoch, Some(places(owned)))).expect("the heartbeat is accepted")
    }

    /// Member `a` with all four partitions in epoch 1.
    fn with_one() -> Self {
        let mut scene = Self::new();
        let a = scene.beat(joining("a")).unwrap();
        assert_eq!((a.epoch, a.assignment), (1, Some(places(&[0, 1, 2, 3]))));
        scene
    }

    /// Members `a` and `b`, both settled in epoch 2.
    fn with_two() -> Self {
        let mut scene = Self::with_one();
        let b = scene.beat(joining("b")).unwrap();
        assert_eq!((b.epoch, b.assignment), (2, Some(places(&[]))), "b waits for what a has");
        let a = scene.go_on("a", 1, &[0, 1, 2, 3]);
        assert_eq!((a.epoch, a.assignment), (1, Some(places(&[0, 1]))), "a gives back first");
        let b = scene.go_on("b", 2, &[]);
        assert_eq!((b.epoch, b.assignment), (2, None));
        let a = scene.go_on("a", 1, &[0, 1]);
        assert_eq!((a.epoch, a.assignment), (2, None));
        let b = scene.go_on("b", 2, &[]);
        assert_eq!((b.epoch, b.assignment), (2, Some(places(&[2, 3]))));
        scene
    }

    /// What was written, replayed.
    fn replayed(&self) -> ConsumerGroup {
        ConsumerGroup::restore(self.now, limits(), &super::properties::replay(&self.written), 0)
    }
}

#[test]
fn a_member_gets_what_another_has_given_back() {
    let scene = Scene::with_two();
    assert_eq!(scene.group.state_name(), "Stable");
    assert_eq!(scene.group.describe().members.len(), 2);
}

#[test]
fn the_first_answer_is_repeated_for_a_member_that_lost_it() {
    let mut scene = Scene::with_one();
    let again = scene.beat(joining("a")).unwrap();
    assert_eq!((again.epoch, again.assignment), (1, Some(places(&[0, 1, 2, 3]))));
    let plain = scene.go_on("a", 1, &[0, 1, 2, 3]);
    assert_eq!(plain.assignment, None, "what is known is not told again");
}

#[test]
fn epochs_that_are_not_current_are_fenced() {
    let mut scene = Scene::with_two();
    let fenced = |found| GroupError::FencedMemberEpoch { found, current: 2 };
    assert_eq!(scene.error(beating("a", 3, None)), fenced(3));
    assert_eq!(scene.error(beating("a", 1, None)), fenced(1), "it does not say what it has");
    assert_eq!(scene.error(beating("a", 1, Some(places(&[0, 3])))), fenced(1), "it has what is not its own");
    assert_eq!(scene.go_on("a", 1, &[0]).epoch, 2, "the answer with the epoch was lost");
    assert_eq!(scene.error(beating("ghost", 2, None)), GroupError::UnknownMember);
}

#[test]
fn the_others_share_what_a_leaving_member_had() {
    let mut scene = Scene::with_two();
    let left = scene.beat(beating("a", LEAVING, None)).unwrap();
    assert_eq!(left.epoch, LEAVING);
    let b = scene.go_on("b", 2, &[2, 3]);
    assert_eq!((b.epoch, b.assignment), (3, Some(places(&[0, 1, 2, 3]))));
    scene.beat(beating("b", LEAVING, None)).unwrap();
    assert!(scene.group.is_empty());
    assert_eq!(scene.beat(joining("c")).unwrap().epoch, 5, "epochs go on");
}

#[test]
fn a_silent_member_is_removed_and_so_is_one_that_gives_nothing_back() {
    let mut scene = Scene::with_two();
    scene.now += seconds(44);
    scene.go_on("b", 2, &[2, 3]);
    scene.now += seconds(1);
    assert_eq!(scene.go_on("b", 2, &[2, 3]).assignment, Some(places(&[0, 1, 2, 3])));

    let mut scene = Scene::with_one();
    scene.beat(joining("b")).unwrap();
    for _ in 0..6 {
        scene.go_on("a", 1, &[0, 1, 2, 3]);
        scene.go_on("b", 2, &[]);
        scene.now += seconds(10);
    }
    let b = scene.go_on("b", 2, &[]);
    assert_eq!(b.assignment, Some(places(&[0, 1, 2, 3])));
    assert_eq!(scene.error(beating("a", 1, None)), GroupError::UnknownMember);
}

#[test]
fn a_static_member_that_is_away_keeps_its_partitions() {
    let mut scene = Scene::new();
    scene.beat(of_instance(joining("a"), "i")).unwrap();
    let taken = scene.error(of_instance(joining("a2"), "i"));
    assert_eq!(taken, GroupError::UnreleasedInstance { by: "a".to_owned() });
    let epoch = scene.group.epoch();
    let away = scene.beat(of_instance(beating("a", LEAVING_FOR_A_WHILE, None), "i")).unwrap();
    assert_eq!(away.epoch, LEAVING_FOR_A_WHILE);
    let back = scene.beat(of_instance(joining("a2"), "i")).unwrap();
    assert_eq!((back.epoch, back.assignment), (epoch, Some(places(&[0, 1, 2, 3]))));
    assert_eq!(scene.group.epoch(), epoch, "nobody else is disturbed");
    assert_eq!(scene.error(of_instance(beating("a", 1, None), "i")), GroupError::FencedInstance);
    scene.beat(of_instance(beating("a2", LEAVING_FOR_A_WHILE, None), "i")).unwrap();
    scene.now += seconds(45);
    scene.group.tick(scene.now);
    assert!(scene.group.is_empty(), "away no longer than a session");
}

#[test]
fn new_partitions_and_topics_are_assigned() {
    let mut scene = Scene::with_one();
    scene.topics = Topics::new(2, &[("t", 1, 6), ("u", 2, 2)]);
    let a = scene.go_on("a", 1, &[0, 1, 2, 3]);
    assert_eq!((a.epoch, a.assignment), (2, Some(places(&[0, 1, 2, 3, 4, 5]))));
    scene.topics = Topics::new(3, &[("t", 1, 6), ("u", 2, 2), ("v", 3, 1)]);
    assert_eq!(scene.go_on("a", 2, &[0]).epoch, 2, "a topic that nobody wants changes nothing");
    let all = Beat { subscribed_regex: Some(".*".to_owned()), ..beating("a", 2, None) };
    let a = scene.beat(all).unwrap();
    assert_eq!((a.epoch, a.assignment.map(|it| it.len())), (3, Some(9)));
    scene.topics = Topics::new(4, &[("u", 2, 2)]);
    let owned = scene.group.members["a"].assigned.clone();
    let a = scene.beat(beating("a", 3, Some(owned))).unwrap();
    assert_eq!((a.epoch, a.assignment.map(|it| it.len())), (3, Some(2)), "deleted topics are given back");
}

/// The rights of somebody who may describe these topics and nothing else.
fn rights_to_describe(topics: &[&str]) -> Rights {
    let mut access = Access::default();
    for topic in topics {
        access.acls.insert(&AclBinding {
            resource_kind: ResourceKind::Topic,
            pattern_kind: PatternKind::Literal,
            resource_name: (*topic).to_owned(),
            principal: "User:alice".to_owned(),
            host: "*".to_owned(),
            operation: Operation::Describe,
            permission: Permission::Allow,
        });
    }
    let alice = Subject::new(&Principal::user("alice".to_owned()), IpAddr::from([127, 0, 0, 1]));
    Rights::new(&Authorizer::default(), Arc::new(access), Arc::new(alice))
}

#[test]
fn an_expression_finds_only_topics_that_its_member_may_describe() {
    let mut scene = Scene::new();
    let all = Beat {
        subscribed_topics: None,
        subscribed_regex: Some(".*".to_owned()),
        rights: rights_to_describe(&["t"]),
        ..joining("a")
    };
    let a = scene.beat(all).unwrap();
    assert_eq!((a.epoch, a.assignment.map(|it| it.len())), (1, Some(4)));
    let mut beat = |topics: &[&str], epoch| {
        let owned = scene.group.members["a"].assigned.clone();
        let rights = rights_to_describe(topics);
        scene.beat(Beat { rights, ..beating("a", epoch, Some(owned)) }).unwrap()
    };
    assert_eq!(beat(&["t"], 1).epoch, 1, "the same rights change nothing");
    let a = beat(&["t", "u"], 1);
    assert_eq!((a.epoch, a.assignment.map(|it| it.len())), (2, Some(6)));
    let a = beat(&["u"], 2);
    assert_eq!(a.assignment.map(|it| it.len()), Some(2), "what it may not see any more is given back");
}

#[test]
fn a_group_that_was_loaded_keeps_its_topics_until_its_members_are_heard() {
    let mut scene = Scene::new();
    let all = |id: &str| Beat {
        subscribed_topics: None,
        subscribed_regex: Some(".*".to_owned()),
        rights: rights_to_describe(&["t", "u", "v"]),
        ..joining(id)
    };
    scene.beat(all("a")).unwrap();
    let member = scene.group.members.get_mut("a").unwrap();
    member.rights = None;
    member.wanted.clear();
    scene.group.topics_version = None;
    scene.topics = Topics::new(2, &[("t", 1, 4), ("u", 2, 2), ("v", 3, 1)]);
    let b = scene.beat(Beat { rights: rights_to_describe(&["t"]), ..all("b") }).unwrap();
    assert_eq!(b.epoch, 2);
    assert_eq!(scene.group.topics.len(), 2, "nobody who was heard may see the new topic");
    let owned = scene.group.members["a"].assigned.clone();
    let rights = rights_to_describe(&["t", "u", "v"]);
    scene.beat(Beat { rights, ..beating("a", 1, Some(owned)) }).unwrap();
    assert_eq!(scene.group.topics.len(), 3);
}

#[test]
fn heartbeats_that_make_no_sense_are_refused() {
    let mut scene = Scene::with_one();
    let invalid = |beat: Beat, scene: &mut Scene| {
        assert!(matches!(scene.error(beat), GroupError::InvalidRequest(_)));
    };
    invalid(Beat { rebalance_timeout: None, ..joining("b") }, &mut scene);
    invalid(Beat { owned: None, ..joining("b") }, &mut scene);
    invalid(Beat { owned: Some(places(&[1])), ..joining("b") }, &mut scene);
    invalid(Beat { subscribed_topics: None, ..joining("b") }, &mut scene);
    invalid(joining(""), &mut scene);
    invalid(beating("a", -3, None), &mut scene);
    invalid(beating("a", LEAVING_FOR_A_WHILE, None), &mut scene);
    let assignor = Beat { assignor: Some("sticky".to_owned()), ..joining("b") };
    assert!(matches!(scene.error(assignor), GroupError::UnsupportedAssignor { .. }));
    let regex = Beat { subscribed_regex: Some("(".to_owned()), ..joining("b") };
    assert!(matches!(scene.error(regex), GroupError::InvalidRegex { .. }));
    let large = Beat { subscribed_topics: Some(vec!["x".repeat(2000)]), ..joining("b") };
    assert!(matches!(scene.error(large), GroupError::TooLarge { .. }));
    assert_eq!(scene.group.describe().members.len(), 1, "none of them is a member");
    for id in ["b", "c", "d", "e"] {
        scene.beat(joining(id)).unwrap();
    }
    assert_eq!(scene.error(joining("f")), GroupError::GroupFull);
}

#[test]
fn offsets_are_for_members_of_the_current_epoch() {
    let scene = Scene::with_one();
    let caller = |id: &str| Caller { member_id: id.to_owned(), instance_id: None };
    let commit = |id, epoch| scene.group.check_commit(&caller(id), epoch, CommitVersion::Epochs);
    let stale = GroupError::StaleMemberEpoch { found: 0, current: 1 };
    assert_eq!(commit("a", 1), Ok(()));
    assert_eq!(commit("a", 0), Err(stale.clone()));
    assert_eq!(commit("", -1), Err(GroupError::UnknownMember));
    let older = scene.group.check_commit(&caller("a"), 1, CommitVersion::Generations);
    assert_eq!(older, Err(GroupError::UnsupportedVersion));
    assert_eq!(scene.group.check_fetch(None, -1), Ok(()));
    assert_eq!(scene.group.check_fetch(Some("a"), 1), Ok(()));
    assert_eq!(scene.group.check_fetch(Some("a"), 0), Err(stale));
    let empty = ConsumerGroup::new(limits(), 0);
    assert_eq!(empty.check_commit(&caller(""), -1, CommitVersion::Generations), Ok(()));
}

#[test]
fn the_assignor_is_the_one_that_most_ask_for() {
    let mut scene = Scene::new();
    let range = Beat { assignor: Some("range".to_owned()), ..joining("a") };
    scene.beat(range).unwrap();
    assert_eq!(scene.group.describe().assignor, "range");
    scene.beat(joining("b")).unwrap();
    assert_eq!(scene.group.describe().assignor, "range");
    let uniform = Beat { assignor: Some("uniform".to_owned()), ..joining("c") };
    scene.beat(uniform).unwrap();
    assert_eq!(scene.group.describe().assignor, "uniform");
}

#[test]
fn a_group_that_is_restored_goes_on_without_a_change() {
    let mut scene = Scene::with_two();
    let before = scene.group.describe();
    scene.group = scene.replayed();
    assert_eq!(scene.group.describe(), before);
    let writes = scene.written.len();
    assert_eq!(scene.go_on("a", 2, &[0, 1]).epoch, 2);
    assert_eq!(scene.go_on("b", 2, &[2, 3]).epoch, 2);
    assert_eq!((scene.group.epoch(), scene.written.len()), (2, writes), "nothing is to be written");
}
