//! Seek by time: exact to the record, in memory and read back from WAL objects, in every codec.

use super::*;
use crate::log::TimestampedOffset;

const ANY: Isolation = Isolation::ReadUncommitted;

async fn lookup(log: &Log, partition: TopicPartition, target_ms: i64) -> Option<(i64, i64)> {
    let found = view(log, partition).lookup_time(target_ms, ANY).await.unwrap();
    found.map(|TimestampedOffset { offset, timestamp, .. }| (offset, timestamp))
}

#[tokio::test]
async fn a_lookup_lands_on_the_record_inside_its_batch() {
    for codec in Compression::ALL {
        let store = memory();
        let log = open(&store).await;
        let events = create(&log, "events", 1, &[]).await;
        append(&log, events, compressed(codec, &[T, T + 10, T + 20])).await.unwrap();
        append(&log, events, compressed(codec, &[T + 30])).await.unwrap();
        let check = async |log: &Log| {
            for (target, offset) in [(0, 0), (1, 1), (10, 1), (11, 2), (20, 2), (21, 3), (30, 3)] {
                assert_eq!(
                    lookup(log, events, T + target).await.map(|found| found.0),
                    Some(offset),
                    "{target}"
                );
            }
            assert_eq!(lookup(log, events, T + 31).await, None);
        };
        check(&log).await;
        check(&reopen(&store, log).await).await;
    }
}

#[tokio::test]
async fn each_record_of_a_batch_is_found_by_its_own_time() {
    for codec in Compression::ALL {
        let store = memory();
        let log = open(&store).await;
        let events = create(&log, "events", 1, &[]).await;
        let times: Vec<_> = (0..50).map(|number| T + number).collect();
        append(&log, events, compressed(codec, &times)).await.unwrap();
        let log = reopen(&store, log).await;
        for number in 0..50 {
            assert_eq!(lookup(&log, events, T + number).await, Some((number, T + number)));
        }
    }
}

#[tokio::test]
async fn times_that_run_backwards_are_answered_in_order_of_offsets() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[]).await;
    for time in [T, T - 60_000, T + 1, T + 1, T - 5] {
        append(&log, events, batch(&[time])).await.unwrap();
    }
    let check = async |log: &Log| {
        assert_eq!(lookup(log, events, T - 100_000).await, Some((0, T)));
        assert_eq!(lookup(log, events, T + 1).await, Some((2, T + 1)));
        assert_eq!(lookup(log, events, T + 2).await, None);
        let max = view(log, events).max_timestamp(ANY).await.unwrap().unwrap();
        assert_eq!((max.offset, max.timestamp), (2, T + 1));
    };
    check(&log).await;
    check(&reopen(&store, log).await).await;
}

#[tokio::test]
async fn the_greatest_timestamp_names_its_first_record() {
    for codec in Compression::ALL {
        let store = memory();
        let log = open(&store).await;
        let events = create(&log, "events", 1, &[]).await;
        assert_eq!(view(&log, events).max_timestamp(ANY).await, Ok(None));
        append(&log, events, compressed(codec, &[T + 5, T + 9, T + 1, T + 9])).await.unwrap();
        let log = reopen(&store, log).await;
        assert_eq!(view(&log, events).max_timestamp(ANY).await.unwrap().unwrap().offset, 1);
    }
}

#[tokio::test]
async fn records_without_a_time_are_never_found_and_hide_nobody() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[]).await;
    let without = |times: &[Option<i64>]| batch_with(BatchOptions::default(), times);
    append(&log, events, without(&[None, None])).await.unwrap();
    assert_eq!(lookup(&log, events, 0).await, None);
    assert_eq!(view(&log, events).max_timestamp(ANY).await, Ok(None));
    append(&log, events, without(&[None, Some(T), None])).await.unwrap();
    let log = reopen(&store, log).await;
    assert_eq!(lookup(&log, events, 0).await, Some((3, T)));
    assert_eq!(lookup(&log, events, T).await, Some((3, T)));
    let blocks: Vec<_> = view(&log, events).tail().map(|block| block.null_timestamp_count).collect();
    assert_eq!(blocks.iter().sum::<u32>(), 4);
}

#[tokio::test]
async fn a_lookup_reads_one_object_at_most_and_nothing_the_second_time() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[]).await;
    for number in 0..300 {
        append(&log, events, batch(&[T + number, T + number])).await.unwrap();
    }
    let log = reopen(&store, log).await;
    let before = store.counts().gets;
    assert_eq!(lookup(&log, events, T + 150).await, Some((300, T + 150)));
    assert_eq!(store.counts().gets - before, 1);
    assert_eq!(lookup(&log, events, T + 150).await, Some((300, T + 150)));
    assert_eq!(lookup(&log, events, T + 1000).await, None);
    assert_eq!(store.counts().gets - before, 1);
}

#[tokio::test]
async fn lookups_and_fetches_agree_with_a_plain_list_on_any_order_of_times() {
    use rand::{Rng as _, SeedableRng};
    for seed in 0..20 {
        let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
        let store = memory();
        let log = open(&store).await;
        let events = create(&log, "events", 1, &[]).await;
        let mut oracle = Vec::new();
        for _ in 0..30 {
            let times: Vec<_> = (0..rng.random_range(1..20))
                .map(|_| rng.random_bool(0.9).then(|| T + rng.random_range(0..200)))
                .collect();
            let compression = Compression::ALL[rng.random_range(0..5)];
            let batch = batch_with(BatchOptions { compression, ..BatchOptions::default() }, &times);
            append(&log, events, batch).await.unwrap();
            oracle.extend(times);
        }
        let log = reopen(&store, log).await;
        for target in T - 1..T + 202 {
            let expected = oracle.iter().position(|time| time.is_some_and(|time| time >= target));
            let found = lookup(&log, events, target).await;
            assert_eq!(found.map(|found| found.0), expected.map(|offset| offset as i64), "seed {seed}");
        }
        let all = records(&fetch(&log, events, 0).await);
        assert_eq!(all, (0..).zip(oracle).collect::<Vec<_>>(), "seed {seed}");
    }
}
