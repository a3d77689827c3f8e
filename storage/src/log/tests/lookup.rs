//! Seek by time: exact to the record, in memory and read back from WAL objects, in every codec.

use super::*;
use crate::format::BatchKind;
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

/// Looks three ways: in memory, in the WAL read back, and in segments; and once more after a restart.
async fn three_ways(store: &Arc<CountingStore>, log: Log, check: impl AsyncFn(&Log)) {
    check(&log).await;
    let log = reopen(store, log).await;
    check(&log).await;
    log.compact_now().await.expect("the WAL is compacted");
    assert!(log.snapshot().shard_stats().iter().all(|shard| shard.tail_bytes == 0));
    check(&log).await;
    check(&reopen(store, log).await).await;
}

#[tokio::test]
async fn a_lookup_never_answers_below_the_log_start_also_inside_a_batch() {
    for codec in Compression::ALL {
        let store = memory();
        let log = open(&store).await;
        let events = create(&log, "events", 1, &[]).await;
        for first in [0, 10, 20] {
            let times: Vec<_> = (first..first + 10).map(|number| T + number).collect();
            append(&log, events, compressed(codec, &times)).await.unwrap();
        }
        assert_eq!(log.delete_records(vec![(events, 15)]).await, Ok(vec![Ok(15)]));
        three_ways(&store, log, async |log| {
            for target in 0..16 {
                assert_eq!(lookup(log, events, T + target).await, Some((15, T + 15)), "{target}");
            }
            for target in 16..30 {
                assert_eq!(lookup(log, events, T + target).await, Some((target, T + target)));
            }
            let offsets: Vec<_> =
                records(&fetch(log, events, 15).await).into_iter().map(|(at, _)| at).collect();
            assert!((15..30).all(|offset| offsets.contains(&offset)), "{offsets:?}");
            let below = view(log, events).fetch(from(14, usize::MAX)).await;
            assert!(below.is_err(), "what is below the log start is gone");
        })
        .await;
    }
}

#[tokio::test]
async fn the_greatest_timestamp_is_that_of_a_record_that_is_left() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[]).await;
    // Two batches in one block; the greatest time is in the first.
    let both = [batch(&[T + 90, T + 1]), batch(&[T + 5, T + 7, T + 7])];
    let appends = both.map(|batch| PartitionAppend { topic_partition: events, batch });
    for appended in log.append(appends.to_vec()).await {
        appended.expect("it is appended");
    }
    assert_eq!(log.delete_records(vec![(events, 2)]).await, Ok(vec![Ok(2)]));
    three_ways(&store, log, async |log| {
        let max = view(log, events).max_timestamp(ANY).await.unwrap().expect("three records are left");
        assert_eq!((max.offset, max.timestamp), (3, T + 7));
        assert_eq!(lookup(log, events, T + 8).await, None);
    })
    .await;
}

#[tokio::test]
async fn no_boundary_between_segments_and_the_wal_hides_a_record() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[]).await;
    for round in 0..12 {
        for number in round * 5..round * 5 + 5 {
            append(&log, events, batch(&[T + number])).await.unwrap();
        }
        for number in 0..round * 5 + 5 {
            assert_eq!(lookup(&log, events, T + number).await, Some((number, T + number)));
        }
        if round % 2 == 1 {
            log.compact_now().await.expect("the WAL is compacted");
        }
        let view = view(&log, events);
        assert!(round < 2 || view.slices().len() > 0, "a part is in segments");
        for number in 0..round * 5 + 5 {
            assert_eq!(lookup(&log, events, T + number).await, Some((number, T + number)));
        }
        assert_eq!(lookup(&log, events, T + round * 5 + 5).await, None);
    }
}

#[tokio::test]
async fn times_that_run_backwards_keep_their_true_bounds() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[]).await;
    for time in [T, T - 60_000, T + 1] {
        append(&log, events, batch(&[time])).await.unwrap();
    }
    three_ways(&store, log, async |log| {
        assert_eq!(lookup(log, events, T + 2).await, None);
        assert_eq!(lookup(log, events, T - 70_000).await, Some((0, T)));
        assert_eq!(lookup(log, events, T + 1).await, Some((2, T + 1)));
        let view = view(log, events);
        let max = view.max_timestamp(ANY).await.unwrap().expect("there are records");
        assert_eq!((max.offset, max.timestamp), (2, T + 1));
        let slices = view.slices().map(|slice| (slice.slice.min_timestamp, slice.slice.max_timestamp));
        let blocks = view.tail().map(|block| (block.min_timestamp, block.max_timestamp));
        let bounds = slices.chain(blocks).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        assert_eq!(bounds, Some((T - 60_000, T + 1)));
    })
    .await;
}

#[tokio::test]
async fn the_greatest_timestamp_names_its_first_record_in_every_codec_and_place() {
    for codec in Compression::ALL {
        let store = memory();
        let log = open(&store).await;
        let events = create(&log, "events", 1, &[]).await;
        append(&log, events, compressed(codec, &[T + 5, T + 9, T + 1])).await.unwrap();
        append(&log, events, compressed(codec, &[T + 2, T + 9])).await.unwrap();
        three_ways(&store, log, async |log| {
            let max = view(log, events).max_timestamp(ANY).await.unwrap().expect("there are records");
            assert_eq!((max.offset, max.timestamp), (1, T + 9));
        })
        .await;
    }
}

/// Reported as KAFKA-16310 (kafka#15621).
#[tokio::test]
async fn with_the_time_of_the_append_the_first_record_of_the_batch_is_the_greatest() {
    let store = memory();
    let log = open(&store).await;
    let configs = [("message.timestamp.type", "LogAppendTime")];
    let events = create(&log, "events", 1, &configs).await;
    let appended = append(&log, events, compressed(Compression::Gzip, &[2, 3, 4])).await.unwrap();
    let time = appended.log_append_time.expect("the log sets the time");
    three_ways(&store, log, async |log| {
        let max = view(log, events).max_timestamp(ANY).await.unwrap().expect("there are records");
        assert_eq!((max.offset, max.timestamp), (0, time));
        assert_eq!(lookup(log, events, 1).await, Some((0, time)));
        assert_eq!(lookup(log, events, time + 1).await, None);
    })
    .await;
}

/// Reported as franz-go PR#1434.
#[tokio::test]
async fn a_match_at_or_past_the_last_stable_offset_is_none_under_read_committed() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[]).await;
    append(&log, events, batch(&[T])).await.unwrap();
    let producer = Some(ProducerIdentity { producer_id: 7, producer_epoch: 0, base_sequence: 0 });
    let options = BatchOptions { producer, kind: BatchKind::Transactional, ..BatchOptions::default() };
    append(&log, events, batch_with(options, &[Some(T + 10)])).await.unwrap();
    append(&log, events, batch(&[T + 20])).await.unwrap();
    three_ways(&store, log, async |log| {
        let view = view(log, events);
        let committed = async |target| view.lookup_time(target, Isolation::ReadCommitted).await.unwrap();
        assert_eq!(committed(T).await.map(|found| found.offset), Some(0));
        assert_eq!(committed(T + 1).await, None);
        assert_eq!(committed(T + 20).await, None);
        assert_eq!(lookup(log, events, T + 1).await, Some((1, T + 10)));
        assert_eq!(view.max_timestamp(Isolation::ReadCommitted).await.unwrap(), None);
    })
    .await;
}
