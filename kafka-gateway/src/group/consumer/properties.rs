//! Any sequence of heartbeats, delays, changes of topics and restarts leaves a consumer group in
//! order.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use strandline_storage::log::{self, GroupChange};

use super::tests::{beating, joining, limits};
use super::*;

/// What the log makes of changes.
pub(super) fn replay(changes: &[GroupChange]) -> log::ConsumerGroup {
    let mut group = log::ConsumerGroup::default();
    for change in changes {
        let GroupChange::Consumer(change) = change else { panic!("a consumer group writes deltas") };
        assert!(change.epoch >= group.epoch && change.assignment_epoch >= group.assignment_epoch);
        group.epoch = change.epoch;
        group.assignment_epoch = change.assignment_epoch;
        group.assignor.clone_from(&change.assignor);
        if let Some(topics) = &change.topics {
            group.topics = Arc::new(topics.clone());
        }
        for id in &change.removed_members {
            group.members.remove(id);
        }
        for member in &change.members {
            group.members.insert(member.member_id.clone(), Arc::new(member.clone()));
        }
    }
    group
}

#[derive(Clone, Debug)]
enum Act {
    Join(u8),
    Beat(u8),
    /// A heartbeat of a client that has not given back yet.
    LazyBeat(u8),
    Leave(u8),
    Pass(u64),
    Topics(i32),
    Subscribe(u8, bool),
    Restart,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => (0u8..5).prop_map(Act::Join),
        6 => (0u8..5).prop_map(Act::Beat),
        2 => (0u8..5).prop_map(Act::LazyBeat),
        1 => (0u8..5).prop_map(Act::Leave),
        1 => (1u64..40).prop_map(Act::Pass),
        1 => (0i32..8).prop_map(Act::Topics),
        1 => (0u8..5, any::<bool>()).prop_map(|(client, both)| Act::Subscribe(client, both)),
        1 => Just(Act::Restart),
    ]
}

/// What a client believes.
#[derive(Clone, Default)]
struct Client {
    epoch: i32,
    assigned: Partitions,
    /// What it really has: it takes what it is told at its next heartbeat.
    owned: Partitions,
}

struct World {
    group: ConsumerGroup,
    now: Duration,
    topics: Topics,
    written: Vec<GroupChange>,
    clients: BTreeMap<u8, Client>,
    epoch: i32,
}

impl World {
    fn new() -> Self {
        Self {
            group: ConsumerGroup::new(limits(), 0),
            now: Duration::from_secs(100),
            topics: Topics::new(1, &[("t", 1, 4), ("u", 2, 3)]),
            written: Vec::new(),
            clients: BTreeMap::new(),
            epoch: 0,
        }
    }

    fn step(&mut self, client: u8, beat: Beat) {
        for effect in self.group.step(self.now, Waiter(1), beat, &self.topics) {
            match effect {
                Effect::Persist(change) => self.written.push(change),
                Effect::Answer(_, Reply::Beaten(beaten)) if beaten.epoch >= 0 => {
                    let known = self.clients.entry(client).or_default();
                    assert!(beaten.epoch >= known.epoch, "the epoch of a member goes up");
                    known.epoch = beaten.epoch;
                    if let Some(assigned) = beaten.assignment {
                        known.assigned = assigned;
                    }
                }
                Effect::Answer(..) => drop(self.clients.remove(&client)),
            }
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Join(client) => {
                self.clients.remove(&client);
                self.step(client, joining(&id(client)));
            }
            Act::Beat(client) => {
                let Some(known) = self.clients.get_mut(&client) else { return };
                known.owned = known.assigned.clone();
                let beat = beating(&id(client), known.epoch, Some(known.owned.clone()));
                self.step(client, beat);
            }
            Act::LazyBeat(client) => {
                let Some(known) = self.clients.get(&client) else { return };
                let beat = beating(&id(client), known.epoch, Some(known.owned.clone()));
                self.step(client, beat);
            }
            Act::Leave(client) => {
                if self.clients.contains_key(&client) {
                    self.step(client, beating(&id(client), LEAVING, None));
                }
            }
            Act::Pass(seconds) => {
                self.now += Duration::from_secs(seconds);
                self.written.extend(self.group.tick(self.now).into_iter().map(|effect| match effect {
                    Effect::Persist(change) => change,
                    Effect::Answer(..) => panic!("a tick answers nobody"),
                }));
            }
            Act::Topics(partitions) => {
                let version = self.topics.version + 1;
                self.topics = Topics::new(version, &[("t", 1, partitions), ("u", 2, 3)]);
            }
            Act::Subscribe(client, both) => {
                let Some(known) = self.clients.get(&client) else { return };
                let names = if both { vec!["t".to_owned(), "u".to_owned()] } else { vec!["u".to_owned()] };
                let beat = beating(&id(client), known.epoch, None);
                self.step(client, Beat { subscribed_topics: Some(names), ..beat });
            }
            Act::Restart => {
                let before = self.group.describe();
                self.group = ConsumerGroup::restore(self.now, limits(), &replay(&self.written), 0);
                assert_eq!(self.group.describe(), before, "the replay gives the same group");
            }
        }
    }

    fn check(&mut self) {
        let mut owners = BTreeMap::new();
        for (id, member) in &self.group.members {
            for place in member.assigned.iter().chain(member.revoking.iter()) {
                assert_eq!(owners.insert(place, id.clone()), None, "a partition has one owner at a time");
            }
        }
        assert_eq!(owners, self.group.owners);
        assert!(self.group.epoch >= self.epoch, "epochs only go up");
        self.epoch = self.group.epoch;
        let has_wanted = self.group.members.values().any(|member| !member.wanted.is_empty());
        if self.group.state_name() == "Stable" && has_wanted {
            let all: usize = self.group.topics.values().map(|count| *count as usize).sum();
            assert_eq!(owners.len(), all, "in a stable group every partition is assigned");
        }
    }
}

fn id(client: u8) -> String {
    format!("member-{client}")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_group_stays_in_order(acts in proptest::collection::vec(act(), 1..80)) {
        let mut world = World::new();
        for act in acts {
            world.act(act);
            world.check();
        }
        // When clients do as they are told and nothing else happens, the group settles.
        for _ in 0..6 {
            let clients: Vec<_> = world.clients.keys().copied().collect();
            for client in clients {
                world.act(Act::Beat(client));
                world.check();
            }
        }
        let members = &world.group.members;
        let are_known = members.keys().all(|member| world.clients.keys().any(|client| id(*client) == *member));
        if are_known && !members.is_empty() {
            prop_assert_eq!(world.group.state_name(), "Stable");
            let assigned: usize = world.clients.values().map(|client| client.assigned.len()).sum();
            let all: i32 = world.group.topics.values().sum();
            prop_assert_eq!(assigned, all as usize);
        }
    }
}
