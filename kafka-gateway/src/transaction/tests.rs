//! The rules one by one, and any sequence of requests, repetitions, timeouts and restarts: every
//! transaction is committed wholly or aborted wholly, and nobody who was replaced has a say.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use strandline_storage::format::event::TransactionResult::{self, Abort, Commit};
use strandline_storage::format::{PendingOffset, PendingOffsets};
use strandline_storage::ids::{TopicId, TopicPartition};

use super::end::{complete, end, expire, missing_markers, time_out};
use super::init::Initialized;
use super::*;

const LIMITS: TransactionLimits =
    TransactionLimits { timeout_max_ms: 1000, ids_max: 1, partitions_max: 6, offset_bytes_max: 1000 };
const TIMEOUT_MS: i32 = 100;
const EXPIRATION_MS: i64 = 10_000;
const NAME: &str = "t";

fn partition(number: i32) -> TopicPartition {
    TopicPartition::new(TopicId::from_bytes([1; 16]), number)
}

/// Partitions from 4 on are in another shard.
fn is_elsewhere(partition: TopicPartition) -> bool {
    partition.partition >= 4
}

/// So is the second group.
fn is_group_elsewhere(group: &str) -> bool {
    group == GROUPS[1]
}

fn producer(producer_id: i64, producer_epoch: i16) -> Producer {
    Producer { producer_id, producer_epoch }
}

fn pending(offset: i64) -> PendingOffsets {
    BTreeMap::from([(
        partition(0),
        PendingOffset { offset, leader_epoch: -1, metadata: None, replaces: None },
    )])
}

/// What became of one transaction in the log.
#[derive(Debug, Default)]
struct Written {
    decided: Option<TransactionResult>,
    partitions: BTreeSet<TopicPartition>,
    markers: BTreeMap<TopicPartition, TransactionResult>,
    groups: BTreeMap<String, PendingOffsets>,
    committed_groups: BTreeMap<String, PendingOffsets>,
    is_complete: bool,
}

/// A log that holds one transactional id, and all that was ever written for it.
#[derive(Default)]
struct World {
    current: Option<TransactionalId>,
    now_ms: i64,
    transactions: Vec<Written>,
    fresh_producer_id: i64,
    given_out: BTreeMap<Producer, Option<Producer>>,
}

impl World {
    /// One whose producer has an epoch already.
    fn with_epoch(producer_epoch: i16) -> Self {
        let mut world = Self::default();
        world.init(None).unwrap();
        if let Some(current) = &mut world.current {
            current.producer.producer_epoch = producer_epoch;
        }
        world
    }

    fn update<T>(
        &mut self,
        decide: impl FnOnce(&TransactionalIdView<'_>) -> Decided<T>,
    ) -> Result<T, TransactionError> {
        let before = self.current.clone();
        let partitions = before.iter().flat_map(|before| before.partitions.iter().copied());
        let groups = before.iter().flat_map(|before| before.groups.keys().cloned());
        let view = TransactionalIdView {
            current: before.as_ref(),
            count: usize::from(before.is_some()),
            now_ms: self.now_ms,
            coordinator_epoch: 1,
            elsewhere: partitions.filter(|partition| is_elsewhere(*partition)).collect(),
            groups_elsewhere: groups.filter(|group| is_group_elsewhere(group)).collect(),
        };
        let Decision { answer, change } = decide(&view)?;
        match change {
            TransactionalIdChange::None => {}
            TransactionalIdChange::Put(after) => self.put(before.as_ref(), after),
            TransactionalIdChange::End(after) => {
                let before = before.expect("only what is known has a transaction to end");
                self.end_written(&before, &after);
                self.put(Some(&before), after);
            }
            TransactionalIdChange::Remove => self.current = None,
        }
        Ok(answer)
    }

    fn put(&mut self, before: Option<&TransactionalId>, after: TransactionalId) {
        let has_transaction =
            |state: TransactionState| state == TransactionState::Ongoing || state.is_prepared();
        if let Some(before) = before {
            let (old, new) = (before.producer, after.producer);
            assert!(new >= old, "{old:?} is followed by {new:?}");
            let next_id = new.producer_id != old.producer_id;
            assert!(!next_id || new.producer_epoch == 0, "a new id begins with epoch 0");
            assert!(!before.state.is_prepared() || after.state.result() == before.state.result());
        }
        if has_transaction(after.state) && before.is_none_or(|before| !has_transaction(before.state)) {
            self.transactions.push(Written::default());
        }
        if has_transaction(after.state) {
            let written = self.transactions.last_mut().expect("one is open");
            assert!(written.partitions.is_subset(&after.partitions), "nothing leaves a transaction");
            written.partitions = after.partitions.clone();
            written.groups = after.groups.clone();
            if after.state.is_prepared() {
                assert!(written.decided.is_none_or(|decided| Some(decided) == after.state.result()));
                written.decided = after.state.result();
            }
        } else {
            assert!(after.partitions.is_empty() && after.groups.is_empty() && after.started_at_ms.is_none());
        }
        self.current = Some(after);
    }

    fn end_written(&mut self, before: &TransactionalId, after: &TransactionalId) {
        let result = after.state.result().expect("an end has a result");
        assert!(!after.state.is_prepared(), "it is complete with this commit");
        let written = self.transactions.last_mut().expect("one is open");
        assert!(written.decided.is_none_or(|decided| decided == result));
        written.decided = Some(result);
        for partition in before.partitions.iter().filter(|partition| !is_elsewhere(**partition)) {
            assert_eq!(written.markers.insert(*partition, result), None, "one marker in this shard");
        }
        if result == Commit {
            let here = before.groups.iter().filter(|(group, _)| !is_group_elsewhere(group));
            written.committed_groups.extend(here.map(|(group, offsets)| (group.clone(), offsets.clone())));
        }
        written.is_complete = true;
        assert!(written.markers.keys().eq(written.partitions.iter()), "{written:?}");
        assert!(written.markers.values().all(|marked| *marked == result), "{written:?}");
    }

    fn init(&mut self, expected: Option<Producer>) -> Result<Initialized, TransactionError> {
        self.fresh_producer_id += 1;
        let init = Init { expected, timeout_ms: TIMEOUT_MS, fresh_producer_id: self.fresh_producer_id };
        let initialized = self.update(|view| init.decide(view, NAME, &LIMITS))?;
        if let Initialized::Ready(producer) = initialized
            && let Some(asked) = self.given_out.insert(producer, expected)
        {
            assert!(expected.is_some() && asked == expected, "{producer:?} was given out already");
        }
        Ok(initialized)
    }

    fn add(&mut self, producer: Producer, number: i32) -> Result<(), TransactionError> {
        let add = AddPartitions { producer, partitions: [partition(number)].into() };
        self.update(|view| add.decide(view, &LIMITS)).map(drop)
    }

    fn add_group(&mut self, producer: Producer, group: &str) -> Result<(), TransactionError> {
        let add = AddGroup { producer, group: group.to_owned() };
        self.update(|view| add.decide(view, &LIMITS)).map(drop)
    }

    fn commit(&mut self, producer: Producer, group: &str, offset: i64) -> Result<(), TransactionError> {
        let commit = CommitOffsets { producer, group: group.to_owned(), offsets: pending(offset) };
        self.update(|view| commit.decide(view, &LIMITS))
    }

    fn end(&mut self, producer: Producer, result: TransactionResult) -> Result<Ended, TransactionError> {
        let ended = self.update(|view| end(view, producer, result));
        if ended.is_ok() {
            let last = self.transactions.last().expect("there was one");
            assert_eq!(last.decided, Some(result));
        }
        ended
    }

    /// What the coordinator does about a prepared transaction, perhaps ended by a kill.
    fn drive(&mut self, killed: Killed) {
        let Some(missing) = self.update(missing_markers).unwrap() else { return };
        if killed == Killed::BeforeMarkers {
            return;
        }
        for partition in missing.partitions {
            assert!(is_elsewhere(partition));
            let written = self.transactions.last_mut().expect("one is open");
            // The same marker may come again.
            let marked = written.markers.insert(partition, missing.result);
            assert!(marked.is_none_or(|marked| marked == missing.result));
        }
        let written = self.transactions.last_mut().expect("one is open");
        for of_group in missing.offsets.into_iter().filter(|_| missing.result == Commit) {
            assert!(is_group_elsewhere(&of_group.group));
            written.committed_groups.insert(of_group.group, of_group.offsets);
        }
        if killed == Killed::Never {
            self.update(complete).unwrap();
        }
    }

    fn state(&self) -> TransactionState {
        self.current.as_ref().expect("it is known").state
    }

    fn ready(&mut self) -> Producer {
        match self.init(None).unwrap() {
            Initialized::Ready(producer) => producer,
            Initialized::Aborted(ended) => panic!("no transaction should be open: {ended:?}"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Killed {
    Never,
    BeforeMarkers,
    AfterMarkers,
}

#[test]
fn a_transaction_begins_with_its_first_partition_and_ends_in_one_decision() {
    let mut world = World::default();
    let first = world.ready();
    assert_eq!(first, producer(1, 0));
    assert_eq!(world.end(first, Commit), Err(TransactionError::InvalidState));
    for result in [Commit, Abort] {
        world.add(first, 0).unwrap();
        world.add(first, 1).unwrap();
        assert_eq!(world.state(), TransactionState::Ongoing);
        for _ in 0..2 {
            assert_eq!(world.end(first, result), Ok(Ended::Complete), "also a second time");
        }
        let other = if result == Commit { Abort } else { Commit };
        assert_eq!(world.end(first, other), Err(TransactionError::InvalidState));
    }
    assert_eq!(world.transactions.len(), 2);
}

#[test]
fn a_transaction_over_several_shards_is_prepared_until_all_have_their_markers() {
    let mut world = World::default();
    let first = world.ready();
    for number in [0, 4, 5] {
        world.add(first, number).unwrap();
    }
    assert_eq!(world.end(first, Commit), Ok(Ended::Prepared));
    for killed in [Killed::BeforeMarkers, Killed::AfterMarkers] {
        world.drive(killed);
        assert_eq!(world.state(), TransactionState::PrepareCommit);
        assert_eq!(world.end(first, Commit), Err(TransactionError::ConcurrentTransactions));
        assert_eq!(world.end(first, Abort), Err(TransactionError::InvalidState));
        assert_eq!(world.add(first, 0), Err(TransactionError::ConcurrentTransactions));
        assert_eq!(world.init(None), Err(TransactionError::ConcurrentTransactions));
    }
    world.drive(Killed::Never);
    assert_eq!(world.state(), TransactionState::CompleteCommit);
    assert_eq!(world.end(first, Commit), Ok(Ended::Complete));
}

#[test]
fn a_new_producer_aborts_what_the_one_before_left_open_and_fences_it() {
    let mut world = World::default();
    let old = world.ready();
    world.add(old, 0).unwrap();
    assert_eq!(world.init(None), Ok(Initialized::Aborted(Ended::Complete)));
    assert_eq!(world.end(old, Commit), Err(TransactionError::ProducerFenced));
    let new = world.ready();
    assert_eq!(new, producer(1, 2));
    assert_eq!(world.add(old, 0), Err(TransactionError::ProducerFenced));
    assert_eq!(world.add(producer(9, 2), 0), Err(TransactionError::InvalidProducerIdMapping));
    world.add(new, 0).unwrap();
    assert_eq!(world.end(new, Commit), Ok(Ended::Complete));
}

#[test]
fn a_producer_that_names_its_epoch_goes_on_only_if_nobody_took_its_place() {
    let mut world = World::default();
    let first = world.ready();
    let Ok(Initialized::Ready(second)) = world.init(Some(first)) else { panic!("it may go on") };
    assert_eq!(second, producer(1, 1));
    assert_eq!(world.init(Some(first)), Ok(Initialized::Ready(second)), "the answer was lost");
    world.add(second, 0).unwrap();
    assert_eq!(world.init(Some(first)), Err(TransactionError::ProducerFenced), "it arrived after all");
    assert_eq!(world.init(Some(second)), Ok(Initialized::Aborted(Ended::Complete)));
    let Ok(Initialized::Ready(third)) = world.init(Some(second)) else { panic!("it may go on") };
    assert_eq!(third, producer(1, 2));
    let other = world.ready();
    assert_eq!(world.init(Some(third)), Err(TransactionError::ProducerFenced));
    assert_eq!(world.end(other, Abort), Err(TransactionError::InvalidState));
}

#[test]
fn a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced() {
    let mut world = World::default();
    let slow = world.ready();
    world.add(slow, 0).unwrap();
    world.now_ms += i64::from(TIMEOUT_MS) - 1;
    assert_eq!(world.update(time_out), Ok(None));
    world.add(slow, 1).unwrap();
    world.now_ms += 1;
    assert_eq!(world.update(time_out), Ok(Some(Ended::Complete)), "what was added does not extend it");
    assert_eq!(world.state(), TransactionState::CompleteAbort);
    assert_eq!(world.end(slow, Commit), Err(TransactionError::ProducerFenced));
    assert_eq!(world.init(Some(slow)), Err(TransactionError::ProducerFenced));
    assert_eq!(world.ready(), producer(1, 2));
}

#[test]
fn a_producer_whose_epochs_are_used_up_is_followed_by_a_new_id() {
    for named in [false, true] {
        let mut world = World::with_epoch(i16::MAX - 2);
        let last = world.ready();
        assert_eq!(last, producer(1, i16::MAX - 1));
        world.add(last, 0).unwrap();
        let expected = named.then_some(last);
        assert_eq!(world.init(expected), Ok(Initialized::Aborted(Ended::Complete)));
        assert_eq!(world.current.as_ref().map(|current| current.producer), Some(producer(1, i16::MAX)));
        let fresh = world.init(expected).unwrap();
        assert_eq!(fresh, Initialized::Ready(producer(world.fresh_producer_id, 0)));
        if named {
            assert_eq!(world.init(expected), Ok(fresh), "the answer was lost");
        }
        assert_eq!(world.add(last, 0), Err(TransactionError::InvalidProducerIdMapping));
    }
}

#[test]
fn offsets_need_their_group_in_an_open_transaction() {
    let mut world = World::default();
    let first = world.ready();
    assert_eq!(world.commit(first, "g", 1), Err(TransactionError::InvalidState));
    world.add(first, 0).unwrap();
    assert_eq!(world.commit(first, "g", 1), Err(TransactionError::InvalidState));
    world.add_group(first, "g").unwrap();
    world.commit(first, "g", 1).unwrap();
    world.commit(first, "g", 2).unwrap();
    world.end(first, Commit).unwrap();
    assert_eq!(world.transactions[0].committed_groups, BTreeMap::from([("g".to_owned(), pending(2))]));
    assert_eq!(world.commit(first, "g", 3), Err(TransactionError::InvalidState));
}

#[test]
fn what_is_out_of_bounds_is_refused_and_changes_nothing() {
    let mut world = World::default();
    for timeout_ms in [0, -1, LIMITS.timeout_max_ms + 1] {
        let init = Init { expected: None, timeout_ms, fresh_producer_id: 1 };
        let refused = world.update(|view| init.decide(view, NAME, &LIMITS));
        assert_eq!(refused, Err(TransactionError::InvalidTimeout));
    }
    let full = TransactionLimits { ids_max: 0, ..LIMITS };
    let init = Init { expected: None, timeout_ms: 1, fresh_producer_id: 1 };
    let refused = world.update(|view| init.decide(view, NAME, &full));
    assert_eq!(refused, Err(TransactionError::TooManyIds { max: 0 }));
    let first = world.ready();
    let many = AddPartitions { producer: first, partitions: (0..7).map(partition).collect() };
    let refused = world.update(|view| many.decide(view, &LIMITS));
    assert_eq!(refused, Err(TransactionError::TooManyPartitions { max: 6 }));
    assert_eq!(world.state(), TransactionState::Empty);
    let long = "g".repeat(1000);
    assert_eq!(world.add_group(first, &long), Err(TransactionError::OffsetsTooLarge { max: 1000 }));
}

#[test]
fn a_transactional_id_is_forgotten_when_it_was_idle_for_long_but_not_with_a_transaction() {
    let mut world = World::default();
    let first = world.ready();
    world.now_ms += EXPIRATION_MS - 1;
    world.update(|view| expire(view, EXPIRATION_MS)).unwrap();
    world.add(first, 0).unwrap();
    world.now_ms += 10 * EXPIRATION_MS;
    world.update(|view| expire(view, EXPIRATION_MS)).unwrap();
    world.end(first, Commit).unwrap();
    world.now_ms += EXPIRATION_MS;
    world.update(|view| expire(view, EXPIRATION_MS)).unwrap();
    assert_eq!(world.current, None);
    assert_eq!(world.end(first, Commit), Err(TransactionError::InvalidProducerIdMapping));
    assert_eq!(world.init(Some(first)), Ok(Initialized::Ready(producer(2, 0))), "it may go on");
}

#[test]
fn a_batch_is_verified_against_the_state() {
    let mut world = World::default();
    let verified =
        |world: &World, producer, number| verify(world.current.as_ref(), producer, partition(number));
    assert_eq!(verified(&world, producer(1, 0), 0), Err(TransactionError::InvalidProducerIdMapping));
    let first = world.ready();
    assert_eq!(verified(&world, first, 0), Err(TransactionError::InvalidState));
    world.add(first, 4).unwrap();
    assert_eq!(verified(&world, first, 4), Ok(()));
    assert_eq!(verified(&world, first, 0), Err(TransactionError::InvalidState));
    assert_eq!(verified(&world, producer(1, 1), 4), Err(TransactionError::ProducerFenced));
    assert_eq!(verified(&world, producer(2, 0), 4), Err(TransactionError::InvalidProducerIdMapping));
    world.end(first, Abort).unwrap();
    assert_eq!(verified(&world, first, 4), Err(TransactionError::ConcurrentTransactions));
}

/// One thing that happens. There are two clients, each of which knows the producer that it got last.
#[derive(Clone, Debug)]
enum Step {
    Init { client: usize, is_named: bool, answer_is_lost: bool },
    Add { client: usize, number: i32 },
    AddGroup { client: usize, group: usize },
    Commit { client: usize, group: usize, offset: i64 },
    End { client: usize, result: TransactionResult },
    Drive(Killed),
    Wait(i64),
    TimeOut,
    Expire,
}

const GROUPS: [&str; 2] = ["g", "h"];

fn step() -> impl Strategy<Value = Step> {
    let client = 0..2_usize;
    let killed = prop::sample::select(&[Killed::Never, Killed::BeforeMarkers, Killed::AfterMarkers][..]);
    prop_oneof![
        3 => (client.clone(), any::<bool>(), prop::bool::weighted(0.2)).prop_map(
            |(client, is_named, answer_is_lost)| Step::Init { client, is_named, answer_is_lost }
        ),
        6 => (client.clone(), 0..6).prop_map(|(client, number)| Step::Add { client, number }),
        2 => (client.clone(), 0..2_usize).prop_map(|(client, group)| Step::AddGroup { client, group }),
        2 => (client.clone(), 0..2_usize, 0..100_i64)
            .prop_map(|(client, group, offset)| Step::Commit { client, group, offset }),
        5 => (client, prop::sample::select(&[Commit, Abort][..]))
            .prop_map(|(client, result)| Step::End { client, result }),
        4 => killed.prop_map(Step::Drive),
        2 => (0..80_i64).prop_map(Step::Wait),
        1 => Just(Step::Wait(EXPIRATION_MS)),
        2 => Just(Step::TimeOut),
        1 => Just(Step::Expire),
    ]
}

/// Does one step; a client that is not the present producer must be refused.
fn take(world: &mut World, clients: &mut [Option<Producer>; 2], step: Step) {
    let present = world.current.as_ref().map(|current| current.producer);
    let acts = |client: usize| clients[client];
    let (client, done) = match step {
        Step::Init { client, is_named, answer_is_lost } => {
            let expected = clients[client].filter(|_| is_named);
            if let Ok(Initialized::Ready(producer)) = world.init(expected)
                && !answer_is_lost
            {
                clients[client] = Some(producer);
            }
            return;
        }
        Step::Add { client, number } => (client, acts(client).map(|producer| world.add(producer, number))),
        Step::AddGroup { client, group } => {
            (client, acts(client).map(|producer| world.add_group(producer, GROUPS[group])))
        }
        Step::Commit { client, group, offset } => {
            (client, acts(client).map(|producer| world.commit(producer, GROUPS[group], offset)))
        }
        Step::End { client, result } => {
            (client, acts(client).map(|producer| world.end(producer, result).map(drop)))
        }
        Step::Drive(killed) => return world.drive(killed),
        Step::Wait(ms) => {
            world.now_ms += ms;
            return;
        }
        Step::TimeOut => return drop(world.update(time_out)),
        Step::Expire => return world.update(|view| expire(view, EXPIRATION_MS)).unwrap(),
    };
    if let Some(done) = done
        && clients[client] != present
    {
        let refused = done.expect_err("who was replaced has no say");
        let codes = [TransactionError::ProducerFenced, TransactionError::InvalidProducerIdMapping];
        assert!(codes.contains(&refused), "{refused}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_transaction_ends_in_one_way_wholly(
        steps in vec(step(), 0..120),
        producer_epoch in prop::sample::select(&[0, i16::MAX - 4][..]),
    ) {
        let mut world = World::with_epoch(producer_epoch);
        let mut clients = [None, None];
        for step in steps {
            take(&mut world, &mut clients, step);
        }
        world.drive(Killed::Never);
        world.now_ms += i64::from(TIMEOUT_MS);
        world.update(time_out).unwrap();
        world.drive(Killed::Never);
        for written in &world.transactions {
            let Some(result) = written.decided.filter(|_| written.is_complete) else {
                panic!("a transaction is left open: {written:?}");
            };
            prop_assert!(written.markers.keys().eq(written.partitions.iter()), "{:?}", written);
            prop_assert!(written.markers.values().all(|marked| *marked == result), "{:?}", written);
            let expected = if result == Commit { written.groups.clone() } else { BTreeMap::new() };
            prop_assert_eq!(&written.committed_groups, &expected);
        }
    }
}
