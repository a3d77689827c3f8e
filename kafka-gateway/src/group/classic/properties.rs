//! Any sequence of requests, delays and restarts leaves a classic group in order.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use strandline_storage::format::event;
use strandline_storage::log::GroupChange;

use super::tests::{caller, heartbeat, join, limits, seconds, sync};
use super::*;

#[derive(Clone, Debug)]
enum Act {
    Join { client: u8, is_static: bool },
    Rejoin(u8),
    SyncAll,
    Heartbeat(u8),
    Leave(u8),
    Pass(u64),
    Restart,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (0u8..6, any::<bool>()).prop_map(|(client, is_static)| Act::Join { client, is_static }),
        3 => (0u8..6).prop_map(Act::Rejoin),
        3 => Just(Act::SyncAll),
        2 => (0u8..6).prop_map(Act::Heartbeat),
        1 => (0u8..6).prop_map(Act::Leave),
        2 => (1u64..30).prop_map(Act::Pass),
        1 => Just(Act::Restart),
    ]
}

/// A group, what clients know of it, and what the log has.
struct World {
    group: ClassicGroup,
    now: Duration,
    waiters: u64,
    ids: u64,
    /// Whose join or sync a waiter is.
    waiting: BTreeMap<Waiter, u8>,
    members: BTreeMap<u8, Joined>,
    durable: Option<event::ClassicGroup>,
    reserved: i32,
    /// Generations with the members that they were told to.
    told: BTreeMap<i32, BTreeSet<String>>,
    restarts: usize,
    last_generation: i32,
}

impl World {
    fn new() -> Self {
        Self {
            group: ClassicGroup::new(limits(0), 0),
            now: seconds(100),
            waiters: 0,
            ids: 0,
            waiting: BTreeMap::new(),
            members: BTreeMap::new(),
            durable: None,
            reserved: 0,
            told: BTreeMap::new(),
            restarts: 0,
            last_generation: 0,
        }
    }

    fn step(&mut self, client: u8, input: Input) {
        self.waiters += 1;
        let waiter = Waiter(self.waiters);
        if !matches!(input, Input::Tick) {
            self.waiting.insert(waiter, client);
        }
        for effect in self.group.step(self.now, waiter, input) {
            match effect {
                Effect::Persist(GroupChange::Classic(group)) => self.durable = Some(group),
                Effect::Persist(GroupChange::ReserveGenerations { last }) => {
                    assert!(last > self.reserved, "reservations go up");
                    self.reserved = last;
                }
                Effect::Persist(other) => panic!("a classic group does not write {other:?}"),
                Effect::Answer(waiter, reply) => self.answer(waiter, reply),
            }
        }
        assert!(self.group.generation >= self.last_generation, "generations only go up");
        self.last_generation = self.group.generation;
    }

    fn answer(&mut self, waiter: Waiter, reply: Reply) {
        let client = self.waiting.remove(&waiter).expect("a request is answered once");
        match reply {
            Reply::Joined(joined) => {
                let durable = self.durable.as_ref().map_or(0, |group| group.generation);
                assert!(joined.generation <= self.reserved.max(durable), "what is told is reserved");
                self.told.entry(joined.generation).or_default().insert(joined.member_id.clone());
                self.members.insert(client, joined);
            }
            Reply::NotJoined { .. } => drop(self.members.remove(&client)),
            _ => (),
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Join { client, is_static } => {
                self.ids += 1;
                let id = format!("member-{}", self.ids);
                let instance_id = is_static.then(|| format!("instance-{client}"));
                self.step(client, join(&id).with(|join| join.caller.instance_id = instance_id).input());
            }
            Act::Rejoin(client) => {
                let Some(known) = self.members.get(&client) else { return };
                let id = known.member_id.clone();
                self.step(client, join(&id).again().input());
            }
            Act::SyncAll => {
                let known: Vec<_> = self.members.iter().map(|(client, it)| (*client, it.clone())).collect();
                for (client, joined) in known {
                    self.step(client, sync(&joined.member_id, joined.generation, &[]));
                }
            }
            Act::Heartbeat(client) => {
                let Some(known) = self.members.get(&client).cloned() else { return };
                self.step(client, heartbeat(&known.member_id, known.generation));
            }
            Act::Leave(client) => {
                let Some(known) = self.members.remove(&client) else { return };
                self.step(client, Input::Leave { members: vec![caller(&known.member_id)] });
            }
            Act::Pass(duration) => self.pass(seconds(duration)),
            Act::Restart => self.restart(),
        }
    }

    fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some(deadline) = self.group.next_deadline().filter(|deadline| *deadline <= end) {
            self.now = deadline.max(self.now);
            self.step(0, Input::Tick);
        }
        self.now = end;
    }

    /// Only what was written is left, and what clients were told.
    fn restart(&mut self) {
        let empty = event::ClassicGroup::default();
        let durable = self.durable.as_ref().unwrap_or(&empty);
        self.group = ClassicGroup::restore(self.now, limits(0), durable, self.reserved);
        self.waiting.clear();
        self.restarts += 1;
        self.last_generation = self.group.generation;
        let again = self.group.describe();
        let written: BTreeSet<_> = durable.members.iter().map(|it| it.member_id.clone()).collect();
        let restored: BTreeSet<_> = again.members.into_iter().map(|it| it.member_id).collect();
        assert_eq!(written, restored, "the replay gives the same members");
    }

    fn check(&self) {
        let members = &self.group.members;
        let statics = members.values().filter(|member| member.is_static()).count();
        assert_eq!(statics, self.group.static_members.len());
        for (instance, id) in &self.group.static_members {
            assert_eq!(members[id].instance_id.as_ref(), Some(instance));
        }
        if matches!(self.group.phase, Phase::Stable | Phase::CompletingRebalance) {
            assert!(!members.is_empty() && members.contains_key(&self.group.leader));
            let protocol = &self.group.protocol;
            assert!(members.values().all(|member| member.supports(protocol)));
        }
        if self.group.phase == Phase::Stable {
            let waits = |member: &Member| member.awaiting_join.is_some() || member.awaiting_sync.is_some();
            assert!(!members.values().any(waits), "nobody waits in a stable group");
            let durable = self.durable.as_ref().expect("a stable group is written");
            let written: BTreeSet<_> = durable.members.iter().map(|it| &it.member_id).collect();
            assert_eq!(written, members.keys().collect(), "a stable group is what was written");
            assert_eq!(durable.generation, self.group.generation);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_group_stays_in_order(acts in proptest::collection::vec(act(), 1..60)) {
        let mut world = World::new();
        for act in acts {
            world.act(act);
            world.check();
        }
        // Whoever still waits is answered in the end.
        for _ in 0..4 {
            world.pass(seconds(200));
            world.check();
        }
        prop_assert!(world.group.members.is_empty() && world.waiting.is_empty());
    }

    #[test]
    fn no_generation_is_given_out_again_after_a_restart(
        before in proptest::collection::vec(act(), 1..30),
        after in proptest::collection::vec(act(), 1..30),
    ) {
        let mut world = World::new();
        before.into_iter().filter(|act| !matches!(act, Act::Restart)).for_each(|act| world.act(act));
        let told_before = world.told.clone();
        let kept = world.durable.as_ref().map_or(0, |group| group.generation);
        world.restart();
        world.members.clear();
        world.told.clear();
        after.into_iter().filter(|act| !matches!(act, Act::Restart)).for_each(|act| world.act(act));
        for generation in world.told.keys().filter(|generation| **generation != kept) {
            prop_assert!(!told_before.contains_key(generation), "generation {} came twice", generation);
        }
    }
}
