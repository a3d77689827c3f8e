//! Sessions and their slots, without a gateway.

use std::time::Duration;

use kafka_protocol::messages::TopicName;
use kafka_protocol::protocol::StrBytes;
use proptest::prelude::*;

use super::cache::SessionCache;
use super::*;

const SECOND: Duration = Duration::from_secs(1);
const RESET: (i32, i32) = (NO_SESSION, INITIAL_EPOCH);

fn key(partition: i32) -> PartitionKey {
    PartitionKey { topic: TopicKey::Name(TopicName(StrBytes::from_static_str("t"))), partition }
}

fn item(partition: i32, fetch_offset: i64) -> Item {
    let position =
        Position { fetch_offset, bytes_max: 100, current_leader_epoch: -1, last_fetched_epoch: -1 };
    Item { key: key(partition), position, topic_id: None }
}

fn request((id, epoch): (i32, i32), partitions: &[i32]) -> SessionRequest {
    let items = partitions.iter().map(|partition| item(*partition, 0)).collect();
    SessionRequest { id, epoch, naming: Naming::Names, items, forgotten: Vec::new() }
}

fn observed(high_watermark: i64, content: Content) -> Observed {
    Observed { topic_id: None, high_watermark, log_start_offset: 0, content }
}

fn partitions(opened: &Opened) -> Vec<i32> {
    opened.items.iter().map(|item| item.key.partition).collect()
}

/// A cache, and ids that count from 1.
struct Fixture {
    cache: SessionCache,
    ids: std::ops::RangeFrom<i32>,
}

impl Fixture {
    fn new(sessions_max: usize, partitions_max: usize) -> Self {
        Self { cache: SessionCache::new(sessions_max, partitions_max), ids: 1.. }
    }

    fn close(
        &mut self,
        opened: &Opened,
        observed: &[Observed],
        now: Duration,
    ) -> Result<Closed, SessionError> {
        let ids = &mut self.ids;
        self.cache.close(opened, observed, now, || ids.next().unwrap())
    }

    /// Creates a session; gives its id, or 0.
    fn create(&mut self, partitions: &[i32], now: Duration) -> i32 {
        let opened = self.cache.open(request(RESET, partitions), now).unwrap();
        let bounds = vec![observed(0, Content::Bounds); partitions.len()];
        self.close(&opened, &bounds, now).unwrap().session_id
    }

    /// One more request of a session, without changes.
    fn touch(&mut self, id: i32, epoch: i32, now: Duration) -> Result<Opened, SessionError> {
        self.cache.open(request((id, epoch), &[]), now)
    }
}

#[test]
fn an_answer_holds_what_is_new_to_the_client() {
    let mut sessions = Fixture::new(10, 100);
    let id = sessions.create(&[0, 1, 2, 3], SECOND);
    let opened = sessions.touch(id, 1, SECOND).unwrap();
    assert_eq!(partitions(&opened), [0, 1, 2, 3]);
    let now = [
        observed(5, Content::Records),
        observed(0, Content::Bounds),
        observed(7, Content::Bounds),
        observed(-1, Content::Problem),
    ];
    let closed = sessions.close(&opened, &now, SECOND).unwrap();
    assert_eq!(closed, Closed { session_id: id, included: vec![true, false, true, true] });
    let opened = sessions.touch(id, 2, SECOND).unwrap();
    assert_eq!(partitions(&opened), [1, 2, 3, 0], "what had records goes to the end");
    let later = [
        Observed { log_start_offset: 3, ..observed(0, Content::Bounds) },
        observed(7, Content::Bounds),
        observed(-1, Content::Problem),
        observed(5, Content::Bounds),
    ];
    let closed = sessions.close(&opened, &later, SECOND).unwrap();
    assert_eq!(closed.included, [true, false, true, false], "a problem is told until it is over");
    let opened = sessions.touch(id, 3, SECOND).unwrap();
    let over = [0, 7, 0, 5].map(|high_watermark| observed(high_watermark, Content::Bounds));
    let closed = sessions.close(&opened, &over, SECOND).unwrap();
    assert_eq!(closed.included, [true, false, true, false]);
}

#[test]
fn requests_change_and_forget_partitions() {
    let mut sessions = Fixture::new(10, 100);
    let id = sessions.create(&[0, 1], SECOND);
    let mut changed = request((id, 1), &[5]);
    changed.items.push(item(1, 42));
    changed.forgotten = vec![key(0), key(9)];
    let opened = sessions.cache.open(changed, SECOND).unwrap();
    let found: Vec<_> =
        opened.items.iter().map(|item| (item.key.partition, item.position.fetch_offset)).collect();
    assert_eq!(found, [(1, 42), (5, 0)]);
    let bounds = [observed(0, Content::Bounds); 2];
    assert_eq!(sessions.close(&opened, &bounds, SECOND).unwrap().included, [false, true]);
    let mut all_gone = request((id, 2), &[]);
    all_gone.forgotten = vec![key(1), key(5)];
    let opened = sessions.cache.open(all_gone, SECOND).unwrap();
    assert_eq!((opened.items.len(), opened.ticket), (0, Ticket::None));
    assert_eq!(sessions.touch(id, 3, SECOND).unwrap_err(), SessionError::UnknownId);
}

#[test]
fn a_request_must_fit_its_session() {
    let mut sessions = Fixture::new(10, 100);
    let id = sessions.create(&[0], SECOND);
    assert_eq!(sessions.touch(id + 1, 1, SECOND).unwrap_err(), SessionError::UnknownId);
    assert_eq!(sessions.touch(NO_SESSION, 1, SECOND).unwrap_err(), SessionError::UnknownId);
    assert_eq!(sessions.touch(id, 2, SECOND).unwrap_err(), SessionError::WrongEpoch);
    let by_ids = SessionRequest { naming: Naming::Ids, ..request((id, 1), &[]) };
    assert_eq!(sessions.cache.open(by_ids, SECOND).unwrap_err(), SessionError::OtherNaming);
    let first = sessions.touch(id, 1, SECOND).unwrap();
    assert_eq!(sessions.touch(id, 1, SECOND).unwrap_err(), SessionError::WrongEpoch);
    sessions.touch(id, 2, SECOND).unwrap();
    let too_late = sessions.close(&first, &[observed(0, Content::Bounds)], SECOND);
    assert_eq!(too_late, Err(SessionError::WrongEpoch), "its answer was overtaken by the next request");
    let opened = sessions.cache.open(request((id, FINAL_EPOCH), &[4]), SECOND).unwrap();
    assert_eq!((partitions(&opened), opened.ticket), (vec![4], Ticket::None));
    assert_eq!(sessions.touch(id, 3, SECOND).unwrap_err(), SessionError::UnknownId);
}

#[test]
fn after_the_greatest_epoch_comes_1() {
    assert_eq!(session::next_epoch(INITIAL_EPOCH), 1);
    assert_eq!(session::next_epoch(i32::MAX), 1);
}

#[test]
fn a_slot_goes_from_an_unused_or_a_smaller_session_to_a_larger_one() {
    let mut sessions = Fixture::new(2, 100);
    let at = |seconds| Duration::from_secs(seconds);
    let small = sessions.create(&[0], at(0));
    let large = sessions.create(&[0, 1, 2], at(1));
    assert_eq!(sessions.create(&[0, 1, 2, 3], at(100)), NO_SESSION, "both are young and in use");
    sessions.touch(small, 1, at(121)).unwrap();
    sessions.touch(large, 1, at(121)).unwrap();
    assert_eq!(sessions.create(&[0], at(122)), NO_SESSION, "it is no larger than the smallest");
    let newer = sessions.create(&[0, 1], at(122));
    assert_ne!(newer, NO_SESSION);
    assert_eq!(sessions.touch(small, 2, at(122)).unwrap_err(), SessionError::UnknownId);
    assert_eq!(sessions.create(&[0], at(200)), NO_SESSION);
    let last = sessions.create(&[0], at(242));
    assert_ne!(last, NO_SESSION, "one was unused for two minutes");
    assert_eq!(sessions.touch(large, 2, at(242)).unwrap_err(), SessionError::UnknownId);
    sessions.touch(newer, 1, at(242)).unwrap();
}

#[test]
fn sessions_hold_no_more_partitions_together_than_they_may() {
    let mut sessions = Fixture::new(10, 5);
    let first = sessions.create(&[0, 1, 2], SECOND);
    assert_eq!(sessions.create(&[0, 1, 2], SECOND), NO_SESSION);
    assert_ne!(sessions.create(&[0, 1], SECOND), NO_SESSION);
    let grown = sessions.cache.open(request((first, 1), &[3]), SECOND);
    assert_eq!(grown.unwrap_err(), SessionError::UnknownId);
    assert_eq!(sessions.cache.sizes(), (1, 2));
}

#[test]
fn a_request_without_partitions_gets_no_slot() {
    assert_eq!(Fixture::new(10, 5).create(&[], SECOND), NO_SESSION);
}

proptest! {
    #[test]
    fn the_bounds_hold_whatever_clients_do(
        steps in prop::collection::vec((0..6i32, -1..4i32, prop::collection::vec(0..8i32, 0..6), 0..100u64), 1..80)
    ) {
        let mut sessions = Fixture::new(3, 12);
        let mut now = Duration::ZERO;
        for (id, epoch, parts, passed) in steps {
            now += Duration::from_secs(passed);
            let mut request = request((id, epoch), &parts);
            request.forgotten = parts.iter().map(|partition| key(partition / 2)).collect();
            if let Ok(opened) = sessions.cache.open(request, now) {
                let seen = vec![observed(i64::from(epoch), Content::Records); opened.items.len()];
                let closed = sessions.close(&opened, &seen, now).unwrap();
                prop_assert_eq!(closed.included.len(), opened.items.len());
            }
            let (count, partitions) = sessions.cache.sizes();
            prop_assert!(count <= 3 && partitions <= 12);
        }
    }
}

#[test]
fn names_that_no_topic_can_have_are_not_kept() {
    let mut fixture = Fixture::new(10, 10);
    let long = Item {
        key: PartitionKey {
            topic: TopicKey::Name(TopicName(StrBytes::from_string("x".repeat(250)))),
            partition: 0,
        },
        ..item(0, 0)
    };
    let mut asked = request(RESET, &[0]);
    asked.items.push(long.clone());
    let opened = fixture.cache.open(asked, SECOND).unwrap();
    let everything = [observed(0, Content::Bounds), observed(-1, Content::Problem)];
    assert_eq!(fixture.close(&opened, &everything, SECOND).unwrap().session_id, NO_SESSION);

    let id = fixture.create(&[0], SECOND);
    assert_ne!(id, NO_SESSION);
    let mut asked = request((id, 1), &[]);
    asked.items.push(long);
    assert_eq!(fixture.cache.open(asked, SECOND).map(drop), Err(SessionError::UnknownId));
    assert_eq!(fixture.cache.sizes(), (1, 1));
}
