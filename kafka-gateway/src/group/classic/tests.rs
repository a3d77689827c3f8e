//! Scenes of classic groups, with time in seconds.

use strandline_storage::log::GroupChange;

use super::*;

/// A group and what it has answered so far.
pub(super) struct Scene {
    pub(super) group: ClassicGroup,
    now: Duration,
    waiters: u64,
    replies: BTreeMap<Waiter, Reply>,
    /// What was to be written to the log.
    pub(super) written: Vec<GroupChange>,
}

impl Scene {
    pub(super) fn new(initial_delay_s: u64) -> Self {
        let limits = limits(initial_delay_s);
        let group = ClassicGroup::new(limits, 0);
        let (replies, written) = (BTreeMap::new(), Vec::new());
        Self { group, now: seconds(100), waiters: 0, replies, written }
    }

    pub(super) fn step(&mut self, input: Input) -> Waiter {
        self.waiters += 1;
        let waiter = Waiter(self.waiters);
        for effect in self.group.step(self.now, waiter, input) {
            match effect {
                Effect::Answer(waiter, reply) => {
                    let earlier = self.replies.insert(waiter, reply);
                    assert_eq!(earlier, None, "a request is answered once");
                }
                Effect::Persist(change) => self.written.push(change),
            }
        }
        waiter
    }

    /// Lets time pass, with a tick whenever the group wants one.
    pub(super) fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some(deadline) = self.group.next_deadline().filter(|deadline| *deadline <= end) {
            self.now = deadline.max(self.now);
            self.step(Input::Tick);
        }
        self.now = end;
    }

    pub(super) fn reply(&self, waiter: Waiter) -> Option<&Reply> {
        self.replies.get(&waiter)
    }

    pub(super) fn joined(&self, waiter: Waiter) -> &Joined {
        match self.reply(waiter) {
            Some(Reply::Joined(joined)) => joined,
            other => panic!("expected a join, found {other:?}"),
        }
    }

    pub(super) fn error(&self, waiter: Waiter) -> GroupError {
        match self.reply(waiter) {
            Some(Reply::Failed(error) | Reply::NotJoined { error, .. }) => error.clone(),
            other => panic!("expected an error, found {other:?}"),
        }
    }

    pub(super) fn assignment(&self, waiter: Waiter) -> &[u8] {
        match self.reply(waiter) {
            Some(Reply::Synced(synced)) => &synced.assignment,
            other => panic!("expected an assignment, found {other:?}"),
        }
    }

    /// Both members `a` (the leader) and `b` in a stable group.
    pub(super) fn stable() -> Self {
        let mut scene = Self::new(0);
        let a = scene.step(join("a").input());
        assert_eq!(scene.joined(a).leader, "a");
        scene.step(join("b").input());
        let a = scene.step(join("a").again().input());
        let generation = scene.joined(a).generation;
        assert_eq!(generation, 2);
        scene.step(sync("b", generation, &[]));
        scene.step(sync("a", generation, &[("a", b"1"), ("b", b"2")]));
        scene
    }
}

pub(super) fn limits(initial_delay_s: u64) -> GroupLimits {
    GroupLimits {
        initial_rebalance_delay: seconds(initial_delay_s),
        session_timeout_min: seconds(6),
        session_timeout_max: seconds(1800),
        members_max: 5,
        metadata_bytes_max: 1000,
        consumer_session_timeout: seconds(45),
        consumer_heartbeat_interval: seconds(5),
    }
}

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A join that a test can change before it is sent.
pub(super) struct Joining(Join);

pub(super) fn join(id: &str) -> Joining {
    Joining(Join {
        caller: Caller::default(),
        new_member_id: id.to_owned(),
        known_id: KnownId::NotRequired,
        skipping: Skipping::Understood,
        client_id: "client".to_owned(),
        client_host: "/127.0.0.1".to_owned(),
        session_timeout: seconds(10),
        rebalance_timeout: seconds(60),
        protocol_type: "consumer".to_owned(),
        protocols: protocols(&["range"]),
    })
}

pub(super) fn protocols(names: &[&str]) -> Vec<(String, Bytes)> {
    names.iter().map(|name| ((*name).to_owned(), Bytes::from_static(b"metadata"))).collect()
}

impl Joining {
    pub(super) fn again(mut self) -> Self {
        self.0.caller.member_id = std::mem::take(&mut self.0.new_member_id);
        self
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut Join)) -> Self {
        change(&mut self.0);
        self
    }

    pub(super) fn input(self) -> Input {
        Input::Join(self.0)
    }
}

pub(super) fn caller(id: &str) -> Caller {
    Caller { member_id: id.to_owned(), instance_id: None }
}

pub(super) fn sync(id: &str, generation: i32, assignments: &[(&str, &'static [u8])]) -> Input {
    let assignments = assignments.iter().map(|(id, bytes)| ((*id).to_owned(), Bytes::from_static(bytes)));
    Input::Sync(Sync {
        caller: caller(id),
        generation,
        protocol_type: None,
        protocol: None,
        assignments: assignments.collect(),
    })
}

pub(super) fn heartbeat(id: &str, generation: i32) -> Input {
    Input::Heartbeat { caller: caller(id), generation }
}

fn leave(id: &str) -> Input {
    Input::Leave { members: vec![caller(id)] }
}

fn commit(id: &str, generation: i32) -> Input {
    Input::Commit { caller: caller(id), generation }
}

#[test]
fn the_first_generation_waits_for_more_members() {
    let mut scene = Scene::new(3);
    let a = scene.step(join("a").input());
    scene.pass(seconds(2));
    let b = scene.step(join("b").input());
    scene.pass(seconds(2));
    assert_eq!((scene.reply(a), scene.reply(b)), (None, None), "a second member extends the wait");
    scene.pass(seconds(2));
    assert_eq!(scene.joined(a).members.len(), 2);
    assert_eq!((scene.joined(a).generation, scene.joined(b).generation), (1, 1));
    assert!(scene.joined(b).members.is_empty(), "only the leader gets the members");
}

#[test]
fn without_a_delay_a_lone_member_has_its_generation_at_once() {
    let mut scene = Scene::new(0);
    let a = scene.step(join("a").input());
    assert_eq!((scene.joined(a).generation, scene.joined(a).protocol.as_str()), (1, "range"));
}

#[test]
fn the_assignment_reaches_each_member() {
    let mut scene = Scene::new(0);
    scene.step(join("a").input());
    let b = scene.step(join("b").input());
    scene.step(join("a").again().input());
    assert_eq!(scene.joined(b).leader, "a");
    let b = scene.step(sync("b", 2, &[]));
    assert_eq!(scene.reply(b), None, "a follower waits for the leader");
    let a = scene.step(sync("a", 2, &[("b", b"two")]));
    assert_eq!((scene.assignment(a), scene.assignment(b)), (&b""[..], &b"two"[..]));
    let again = scene.step(sync("b", 2, &[]));
    assert_eq!(scene.assignment(again), b"two");
}

#[test]
fn a_new_member_is_told_to_come_back_with_its_id() {
    let mut scene = Scene::new(0);
    let first = scene.step(join("a").with(|join| join.known_id = KnownId::Required).input());
    let told = Reply::NotJoined { error: GroupError::MemberIdRequired, member_id: "a".to_owned() };
    assert_eq!(scene.reply(first), Some(&told));
    let second = scene.step(join("a").again().input());
    assert_eq!(scene.joined(second).member_id, "a");
}

#[test]
fn an_id_that_nobody_comes_back_with_expires() {
    let mut scene = Scene::new(0);
    scene.step(join("a").with(|join| join.known_id = KnownId::Required).input());
    assert!(!scene.group.is_forgettable());
    scene.pass(seconds(10));
    assert!(scene.group.is_forgettable());
    let late = scene.step(join("a").again().input());
    assert_eq!(scene.error(late), GroupError::UnknownMember);
}

#[test]
fn joins_that_make_no_sense_are_refused() {
    let mut scene = Scene::stable();
    let refused = |scene: &mut Scene, joining: Joining| {
        let waiter = scene.step(joining.input());
        scene.error(waiter)
    };
    let short = join("c").with(|join| join.session_timeout = seconds(5));
    assert_eq!(refused(&mut scene, short), GroupError::InvalidSessionTimeout);
    let long = join("c").with(|join| join.session_timeout = seconds(1801));
    assert_eq!(refused(&mut scene, long), GroupError::InvalidSessionTimeout);
    assert_eq!(refused(&mut scene, join("ghost").again()), GroupError::UnknownMember);
    let other_type = join("c").with(|join| join.protocol_type = "connect".to_owned());
    assert_eq!(refused(&mut scene, other_type), GroupError::InconsistentProtocol);
    let other_protocol = join("c").with(|join| join.protocols = protocols(&["sticky"]));
    assert_eq!(refused(&mut scene, other_protocol), GroupError::InconsistentProtocol);
    let none = join("c").with(|join| join.protocols.clear());
    assert_eq!(refused(&mut scene, none), GroupError::InconsistentProtocol);
}

#[test]
fn a_full_group_takes_nobody() {
    let mut scene = Scene::new(3);
    for id in ["a", "b", "c", "d", "e"] {
        scene.step(join(id).input());
    }
    let waiter = scene.step(join("f").input());
    assert_eq!(scene.error(waiter), GroupError::GroupFull);
}

#[test]
fn the_protocol_is_the_one_with_the_most_votes_that_all_have() {
    let mut scene = Scene::new(3);
    let a = scene.step(join("a").with(|join| join.protocols = protocols(&["x", "range", "sticky"])).input());
    scene.step(join("b").with(|join| join.protocols = protocols(&["sticky", "range"])).input());
    scene.step(join("c").with(|join| join.protocols = protocols(&["sticky", "range", "x"])).input());
    scene.pass(seconds(10));
    assert_eq!(scene.joined(a).protocol, "sticky");
}

#[test]
fn a_settled_group_is_not_disturbed_by_a_follower_that_joins_again() {
    let mut scene = Scene::stable();
    let b = scene.step(join("b").again().input());
    assert_eq!((scene.joined(b).generation, scene.joined(b).members.len()), (2, 0));
    let b = scene.step(heartbeat("b", 2));
    assert_eq!(scene.reply(b), Some(&Reply::Done));
}

#[test]
fn the_leader_or_new_metadata_begin_a_rebalance() {
    let mut scene = Scene::stable();
    let a = scene.step(join("a").again().input());
    assert_eq!(scene.reply(a), None);
    let b = scene.step(heartbeat("b", 2));
    assert_eq!(scene.error(b), GroupError::RebalanceInProgress);
    scene.step(join("b").again().input());
    assert_eq!(scene.joined(a).generation, 3);

    let mut scene = Scene::stable();
    let metadata = vec![("range".to_owned(), Bytes::from_static(b"new"))];
    let b = scene.step(join("b").again().with(|join| join.protocols = metadata).input());
    assert_eq!(scene.reply(b), None);
}

#[test]
fn a_rebalance_interrupts_those_who_wait_for_their_assignment() {
    let mut scene = Scene::new(0);
    scene.step(join("a").input());
    scene.step(join("b").input());
    scene.step(join("a").again().input());
    let b = scene.step(sync("b", 2, &[]));
    scene.step(join("c").input());
    assert_eq!(scene.error(b), GroupError::RebalanceInProgress);
    let a = scene.step(sync("a", 2, &[]));
    assert_eq!(scene.error(a), GroupError::RebalanceInProgress);
}

#[test]
fn who_does_not_join_again_in_time_is_out() {
    let mut scene = Scene::stable();
    let c = scene.step(join("c").input());
    let a = scene.step(join("a").again().input());
    for _ in 0..12 {
        scene.pass(seconds(5));
        scene.step(heartbeat("b", 2));
    }
    assert_eq!((scene.joined(a).generation, scene.joined(c).generation), (3, 3));
    assert_eq!(scene.joined(a).members.len(), 2);
    let b = scene.step(heartbeat("b", 2));
    assert_eq!(scene.error(b), GroupError::UnknownMember);
}

#[test]
fn who_does_not_ask_for_its_assignment_in_time_is_out() {
    let mut scene = Scene::new(0);
    scene.step(join("a").input());
    scene.step(join("b").input());
    scene.step(join("a").again().input());
    let a = scene.step(sync("a", 2, &[]));
    assert_eq!(scene.assignment(a), b"");
    for _ in 0..12 {
        scene.pass(seconds(5));
        scene.step(heartbeat("a", 2));
        scene.step(heartbeat("b", 2));
    }
    let b = scene.step(heartbeat("b", 2));
    assert_eq!(scene.error(b), GroupError::UnknownMember);
    let a = scene.step(heartbeat("a", 2));
    assert_eq!(scene.error(a), GroupError::RebalanceInProgress);
}

#[test]
fn a_member_without_a_sign_of_life_is_out() {
    let mut scene = Scene::stable();
    scene.pass(seconds(9));
    scene.step(heartbeat("a", 2));
    scene.pass(seconds(1));
    let a = scene.step(heartbeat("a", 2));
    assert_eq!(scene.error(a), GroupError::RebalanceInProgress, "b is gone");
    let a = scene.step(join("a").again().input());
    assert_eq!((scene.joined(a).generation, scene.joined(a).members.len()), (3, 1));
}

#[test]
fn the_others_share_what_a_leaving_member_had() {
    let mut scene = Scene::stable();
    let a = scene.step(leave("a"));
    assert_eq!(scene.reply(a), Some(&Reply::Left(vec![Ok(())])));
    let b = scene.step(join("b").again().input());
    assert_eq!((scene.joined(b).generation, scene.joined(b).leader.as_str()), (3, "b"));
    let ghost = scene.step(leave("a"));
    assert_eq!(scene.reply(ghost), Some(&Reply::Left(vec![Err(GroupError::UnknownMember)])));
    scene.step(leave("b"));
    assert!(scene.group.is_forgettable());
}

#[test]
fn a_member_that_leaves_while_joining_is_answered() {
    let mut scene = Scene::new(3);
    let a = scene.step(join("a").input());
    scene.step(leave("a"));
    assert_eq!(scene.error(a), GroupError::UnknownMember);
    scene.pass(seconds(60));
    assert!(scene.group.is_forgettable());
}

#[test]
fn a_join_that_is_sent_twice_answers_the_newer_one() {
    let mut scene = Scene::stable();
    let older = scene.step(join("a").again().input());
    let newer = scene.step(join("a").again().input());
    assert_eq!(scene.error(older), GroupError::RebalanceInProgress);
    scene.step(join("b").again().input());
    assert_eq!(scene.joined(newer).generation, 3);
}

#[test]
fn commits_need_the_generation_while_there_are_members() {
    let mut scene = Scene::stable();
    let outcome = |scene: &mut Scene, input| {
        let waiter = scene.step(input);
        scene.reply(waiter).cloned()
    };
    let failed = |error| Some(Reply::Failed(error));
    assert_eq!(outcome(&mut scene, commit("a", 2)), Some(Reply::Done));
    assert_eq!(outcome(&mut scene, commit("a", 1)), failed(GroupError::IllegalGeneration));
    assert_eq!(outcome(&mut scene, commit("ghost", 2)), failed(GroupError::UnknownMember));
    assert_eq!(outcome(&mut scene, commit("", -1)), failed(GroupError::UnknownMember));
    scene.step(join("a").again().input());
    assert_eq!(outcome(&mut scene, commit("b", 2)), Some(Reply::Done), "what was read before still counts");
    scene.step(join("b").again().input());
    assert_eq!(outcome(&mut scene, commit("b", 3)), failed(GroupError::RebalanceInProgress));
    let mut empty = Scene::new(0);
    assert_eq!(outcome(&mut empty, commit("", -1)), Some(Reply::Done));
}

#[test]
fn requests_of_another_generation_are_refused() {
    let mut scene = Scene::stable();
    let beat = scene.step(heartbeat("a", 1));
    assert_eq!(scene.error(beat), GroupError::IllegalGeneration);
    let synced = scene.step(sync("a", 3, &[]));
    assert_eq!(scene.error(synced), GroupError::IllegalGeneration);
    let ghost = scene.step(sync("ghost", 2, &[]));
    assert_eq!(scene.error(ghost), GroupError::UnknownMember);
}

#[test]
fn a_sync_that_believes_in_another_protocol_is_refused() {
    let mut scene = Scene::stable();
    let believing = |protocol_type: &str, protocol: &str| {
        Input::Sync(Sync {
            caller: caller("a"),
            generation: 2,
            protocol_type: Some(protocol_type.to_owned()),
            protocol: Some(protocol.to_owned()),
            assignments: Vec::new(),
        })
    };
    let a = scene.step(believing("consumer", "sticky"));
    assert_eq!(scene.error(a), GroupError::InconsistentProtocol);
    let a = scene.step(believing("connect", "range"));
    assert_eq!(scene.error(a), GroupError::InconsistentProtocol);
    let a = scene.step(believing("consumer", "range"));
    assert_eq!(scene.assignment(a), b"1");
}

#[test]
fn what_members_say_is_bounded() {
    let mut scene = Scene::stable();
    let large = vec![("range".to_owned(), Bytes::from(vec![0; 990]))];
    let c = scene.step(join("c").with(|join| join.protocols = large).input());
    assert_eq!(scene.error(c), GroupError::GroupFull);
    scene.step(join("a").again().input());
    let b = scene.step(join("b").again().input());
    assert_eq!(scene.joined(b).generation, 3);
    let a = scene.step(sync("a", 3, &[("a", &[0; 990])]));
    assert!(matches!(scene.error(a), GroupError::TooLarge { max: 1000, .. }));
}

#[test]
fn one_event_tells_of_a_completed_rebalance() {
    let scene = Scene::stable();
    let classic: Vec<_> = scene.written.iter().filter(|it| matches!(it, GroupChange::Classic(_))).collect();
    let [GroupChange::Classic(group)] = classic[..] else { panic!("one event, not {}", classic.len()) };
    assert_eq!((group.generation, group.leader.as_str(), group.members.len()), (2, "a", 2));
    assert_eq!(group.members[1].assignment, Bytes::from_static(b"2"));
}

#[test]
fn a_group_that_is_restored_goes_on_without_a_rebalance() {
    let mut scene = Scene::stable();
    let Some(GroupChange::Classic(group)) = scene.written.last().cloned() else { panic!("it was written") };
    scene.group = ClassicGroup::restore(scene.now, limits(0), &group, 10);
    let a = scene.step(heartbeat("a", 2));
    assert_eq!(scene.reply(a), Some(&Reply::Done));
    let b = scene.step(sync("b", 2, &[]));
    assert_eq!(scene.assignment(b), b"2");
    let b = scene.step(join("b").again().input());
    assert_eq!(scene.joined(b).generation, 2, "a follower that joins again disturbs nobody");
    scene.step(join("a").again().input());
    scene.step(join("b").again().input());
    assert_eq!(scene.group.generation, 11, "generations that may have been told are not told again");
}
