//! Which member is to have which partitions. Pure, and the same for the same input.
//!
//! Invariant: a partition of a topic that somebody subscribes to goes to exactly one member, one
//! that subscribes to the topic.

use std::collections::{BTreeMap, BTreeSet};

use strandline_storage::ids::TopicId;

use super::partitions::Partitions;

/// How partitions are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Assignor {
    /// Evenly over all members, who keep as much as they can of what they have.
    Uniform,
    /// Of each topic a run of partitions to each member, so that the same numbers of several topics
    /// go to the same member.
    Range,
}

impl Assignor {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "uniform" => Some(Self::Uniform),
            "range" => Some(Self::Range),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }

    /// What each of the subscribers is to have, in their order. `topics` has the number of partitions
    /// of each topic.
    pub(crate) fn assign(
        self,
        subscribers: &[Subscriber<'_>],
        topics: &BTreeMap<TopicId, i32>,
    ) -> Vec<Partitions> {
        if subscribers.is_empty() {
            return Vec::new();
        }
        match self {
            Self::Uniform => uniform(subscribers, topics),
            Self::Range => range(subscribers, topics),
        }
    }
}

/// A member that wants partitions.
pub(crate) struct Subscriber<'a> {
    pub(crate) topics: &'a BTreeSet<TopicId>,
    /// What it was to have before.
    pub(crate) target: &'a Partitions,
}

fn range(subscribers: &[Subscriber<'_>], topics: &BTreeMap<TopicId, i32>) -> Vec<Partitions> {
    let mut targets = vec![Partitions::default(); subscribers.len()];
    for (topic, count) in topics {
        let takers: Vec<_> = takers_of(subscribers, *topic).collect();
        let (Ok(members), count) = (i32::try_from(takers.len()), *count) else { continue };
        let mut next = 0;
        for (place, taker) in (0..members).zip(takers) {
            let share = count / members + i32::from(place < count % members);
            (next..next + share).for_each(|partition| targets[taker].insert(*topic, partition));
            next += share;
        }
    }
    targets
}

fn uniform(subscribers: &[Subscriber<'_>], topics: &BTreeMap<TopicId, i32>) -> Vec<Partitions> {
    let mut sharing = Sharing::new(subscribers, topics);
    sharing.keep_what_is_there();
    sharing.give_out_the_rest();
    sharing.level();
    sharing.targets
}

/// An assignment in the making.
struct Sharing<'a> {
    subscribers: &'a [Subscriber<'a>],
    topics: &'a BTreeMap<TopicId, i32>,
    targets: Vec<Partitions>,
    owners: BTreeMap<(TopicId, i32), usize>,
    /// Members by the number of partitions that they have so far.
    loads: BTreeSet<(usize, usize)>,
}

impl<'a> Sharing<'a> {
    fn new(subscribers: &'a [Subscriber<'a>], topics: &'a BTreeMap<TopicId, i32>) -> Self {
        Self {
            subscribers,
            topics,
            targets: vec![Partitions::default(); subscribers.len()],
            owners: BTreeMap::new(),
            loads: (0..subscribers.len()).map(|member| (0, member)).collect(),
        }
    }

    fn keep_what_is_there(&mut self) {
        for member in 0..self.subscribers.len() {
            for (topic, partition) in self.subscribers[member].target.iter() {
                let exists = self.topics.get(&topic).is_some_and(|count| partition < *count);
                let is_wanted = self.subscribers[member].topics.contains(&topic);
                if exists && is_wanted && !self.owners.contains_key(&(topic, partition)) {
                    self.give(topic, partition, member);
                }
            }
        }
    }

    fn give_out_the_rest(&mut self) {
        for (topic, count) in self.topics {
            for partition in 0..*count {
                if self.owners.contains_key(&(*topic, partition)) {
                    continue;
                }
                let Some(member) = self.least_loaded(*topic) else { break };
                self.give(*topic, partition, member);
            }
        }
    }

    /// Moves partitions from members with more to members with at least two fewer, until there is
    /// no such move. Each one makes the loads more even, so that this ends.
    fn level(&mut self) {
        let mut has_moved = true;
        while has_moved {
            has_moved = false;
            // The last partitions of a member go first, so that what it keeps is in one piece.
            let places: Vec<_> = self.owners.keys().rev().copied().collect();
            for (topic, partition) in places {
                if self.is_level() {
                    return;
                }
                let owner = self.owners[&(topic, partition)];
                let Some(taker) = self.least_loaded(topic) else { continue };
                if self.targets[owner].len() >= self.targets[taker].len() + 2 {
                    self.move_to(topic, partition, owner, taker);
                    has_moved = true;
                }
            }
        }
    }

    fn is_level(&self) -> bool {
        let (least, most) = (self.loads.first(), self.loads.last());
        least.zip(most).is_none_or(|((least, _), (most, _))| least + 1 >= *most)
    }

    fn least_loaded(&self, topic: TopicId) -> Option<usize> {
        let wants = |member: &usize| self.subscribers[*member].topics.contains(&topic);
        self.loads.iter().map(|(_, member)| *member).find(wants)
    }

    fn give(&mut self, topic: TopicId, partition: i32, member: usize) {
        self.count(member, |target| target.insert(topic, partition));
        self.owners.insert((topic, partition), member);
    }

    fn move_to(&mut self, topic: TopicId, partition: i32, owner: usize, taker: usize) {
        self.count(owner, |target| target.remove(topic, partition));
        self.give(topic, partition, taker);
    }

    /// Changes what a member has, and its load with it.
    fn count(&mut self, member: usize, change: impl FnOnce(&mut Partitions)) {
        let target = &mut self.targets[member];
        self.loads.remove(&(target.len(), member));
        change(target);
        self.loads.insert((target.len(), member));
    }
}

fn takers_of<'a>(subscribers: &'a [Subscriber<'_>], topic: TopicId) -> impl Iterator<Item = usize> + 'a {
    let all = subscribers.iter().enumerate();
    all.filter(move |(_, subscriber)| subscriber.topics.contains(&topic)).map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn topic(number: u8) -> TopicId {
        TopicId::from_bytes([number; 16])
    }

    /// Members by the topics they subscribe to, and what they had.
    fn assign(
        assignor: Assignor,
        members: &[(Vec<u8>, Partitions)],
        topics: &[(u8, i32)],
    ) -> Vec<Partitions> {
        let wanted: Vec<BTreeSet<_>> =
            members.iter().map(|(topics, _)| topics.iter().map(|it| topic(*it)).collect()).collect();
        let subscribers: Vec<_> =
            members.iter().zip(&wanted).map(|((_, target), topics)| Subscriber { topics, target }).collect();
        let topics = topics.iter().map(|(number, count)| (topic(*number), *count)).collect();
        assignor.assign(&subscribers, &topics)
    }

    fn sizes(targets: &[Partitions]) -> Vec<usize> {
        targets.iter().map(Partitions::len).collect()
    }

    #[test]
    fn range_gives_runs_and_the_same_numbers_of_all_topics() {
        let members = vec![(vec![1, 2], Partitions::default()); 3];
        let targets = assign(Assignor::Range, &members, &[(1, 7), (2, 7)]);
        let of = |member: usize, number: u8| targets[member].of(topic(number)).collect::<Vec<_>>();
        assert_eq!((of(0, 1), of(1, 1), of(2, 1)), (vec![0, 1, 2], vec![3, 4], vec![5, 6]));
        assert_eq!((of(0, 2), of(1, 2), of(2, 2)), (vec![0, 1, 2], vec![3, 4], vec![5, 6]));
    }

    #[test]
    fn uniform_is_even_and_moves_no_more_than_it_must() {
        let alone = assign(Assignor::Uniform, &[(vec![1], Partitions::default())], &[(1, 10)]);
        assert_eq!(sizes(&alone), [10]);
        let members = [(vec![1], alone[0].clone()), (vec![1], Partitions::default())];
        let two = assign(Assignor::Uniform, &members, &[(1, 10)]);
        assert_eq!(sizes(&two), [5, 5]);
        assert!(two[0].iter().all(|(topic, partition)| alone[0].contains(topic, partition)));
        let members = [(vec![1], two[0].clone()), (vec![1], two[1].clone())];
        assert_eq!(assign(Assignor::Uniform, &members, &[(1, 10)]), two, "nothing changed, nothing moves");
    }

    #[test]
    fn uniform_levels_members_with_different_topics() {
        let members = [
            (vec![1, 2], Partitions::default()),
            (vec![1], Partitions::default()),
            (vec![2], Partitions::default()),
        ];
        let targets = assign(Assignor::Uniform, &members, &[(1, 3), (2, 3)]);
        assert_eq!(sizes(&targets), [2, 2, 2]);
    }

    proptest! {
        #[test]
        fn every_partition_goes_to_one_member_that_wants_it(
            wanted in proptest::collection::vec(proptest::collection::vec(0u8..4, 0..4), 1..6),
            counts in proptest::collection::vec(0i32..9, 4),
            earlier in proptest::collection::vec((0usize..6, 0u8..5, 0i32..12), 0..20),
        ) {
            let mut members: Vec<_> = wanted.into_iter().map(|topics| (topics, Partitions::default())).collect();
            for (member, number, partition) in earlier {
                let member = member % members.len();
                members[member].1.insert(topic(number), partition);
            }
            let topics: Vec<_> = (0u8..4).zip(counts).collect();
            for assignor in [Assignor::Uniform, Assignor::Range] {
                let targets = assign(assignor, &members, &topics);
                for (number, count) in &topics {
                    let takers = members.iter().filter(|(wanted, _)| wanted.contains(number)).count();
                    for partition in 0..*count {
                        let owners: Vec<_> = (0..members.len())
                            .filter(|member| targets[*member].contains(topic(*number), partition))
                            .collect();
                        prop_assert_eq!(owners.len(), usize::from(takers > 0));
                        prop_assert!(owners.iter().all(|owner| members[*owner].0.contains(number)));
                    }
                }
                let wanted: i32 = topics
                    .iter()
                    .filter(|(number, _)| members.iter().any(|(wanted, _)| wanted.contains(number)))
                    .map(|(_, count)| count)
                    .sum();
                let given: usize = sizes(&targets).iter().sum();
                prop_assert_eq!(given, wanted as usize);
            }
        }

        #[test]
        fn uniform_differs_by_at_most_one_among_members_with_the_same_topics(
            members in 1usize..8,
            count in 0i32..50,
        ) {
            let members = vec![(vec![1], Partitions::default()); members];
            let sizes = sizes(&assign(Assignor::Uniform, &members, &[(1, count)]));
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            prop_assert!(most - least <= 1);
        }
    }
}
