//! Compaction, merges, retention, checkpoints and deletion on a whole log.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Runtime;

use super::fixture::World;
use super::maintenance_runtime;
use crate::format::{BatchBuilder, BatchOptions, DecompressionBudget, Records};
use crate::ids::TopicPartition;
use crate::log::tests::create;
use crate::log::{FetchOptions, FirstBatch, Isolation, Log, MaintenanceSettings, PartitionAppend, Snapshot};
use crate::seam::{Failpoints, Seams};

const T: i64 = 1_767_225_600_000;

fn batch(values: &[&str], timestamp: i64) -> Bytes {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    for (number, value) in values.iter().enumerate() {
        let timestamp = Some(timestamp + number as i64);
        builder.append(timestamp, None, Some(value.as_bytes()), &[]).expect("a small record");
    }
    builder.finish()
}

async fn append(log: &Log, topic_partition: TopicPartition, values: &[&str], timestamp: i64) -> i64 {
    let batch = batch(values, timestamp);
    let appended = log.append(vec![PartitionAppend { topic_partition, batch }]).await.remove(0);
    appended.expect("the batch is appended").base_offset
}

/// Offsets and values of all records.
async fn read(snapshot: &Snapshot, topic_partition: TopicPartition) -> Vec<(i64, String)> {
    let view = snapshot.partition(topic_partition).expect("the partition exists");
    let start = view.bounds().log_start_offset;
    let options = FetchOptions {
        from: start,
        bytes_max: usize::MAX,
        isolation: Isolation::ReadUncommitted,
        first_batch: FirstBatch::Whole,
    };
    let fetched = view.fetch(options).await.expect("the fetch succeeds");
    let mut records = Vec::new();
    for batch in &fetched.batches {
        let decoded = Records::decode(batch, &mut DecompressionBudget::new(1 << 20)).expect("a stored batch");
        for record in &decoded {
            let record = record.expect("a stored record");
            let value = String::from_utf8(record.value.unwrap_or_default().to_vec()).expect("text");
            if record.offset >= start {
                records.push((record.offset, value));
            }
        }
    }
    records
}

fn numbered(count: i64) -> Vec<(i64, String)> {
    (0..count).map(|number| (number, format!("v{number}"))).collect()
}

async fn append_numbered(log: &Log, id: TopicPartition, range: std::ops::Range<i64>) {
    for number in range {
        assert_eq!(append(log, id, &[&format!("v{number}")], T + number).await, number);
    }
}

#[tokio::test(start_paused = true)]
async fn compaction_changes_nothing_that_a_reader_sees() {
    let world = World::new();
    let log = world.open().await;
    let a = create(&log, "a", 2, &[]).await;
    let b = TopicPartition::new(a.topic_id, 1);
    append_numbered(&log, a, 0..40).await;
    append_numbered(&log, b, 0..7).await;
    let before = log.snapshot();
    log.compact_now().await.expect("the compaction succeeds");
    let after = log.snapshot();
    for snapshot in [&before, &after] {
        assert_eq!(read(snapshot, a).await, numbered(40));
        assert_eq!(read(snapshot, b).await, numbered(7));
    }
    let view = after.partition(a).expect("it exists");
    assert_eq!((view.slices().len(), view.tail().len()), (1, 0));
    assert_eq!(world.keys("data").await.len(), 1, "small partitions share a segment");
    append_numbered(&log, a, 40..50).await;
    assert_eq!(read(&log.snapshot(), a).await, numbered(50));
    for target in [0, 1, 39, 40, 49] {
        let view = log.snapshot().partition(a).expect("it exists");
        let found = view.lookup_time(T + target, Isolation::ReadCommitted).await.expect("it is readable");
        assert_eq!(found.map(|found| (found.offset, found.timestamp)), Some((target, T + target)));
    }
    log.close().await;
    let log = world.open().await;
    assert_eq!(read(&log.snapshot(), a).await, numbered(50));
    log.compact_now().await.expect("the compaction succeeds");
    assert_eq!(read(&log.snapshot(), a).await, numbered(50));
}

#[tokio::test(start_paused = true)]
async fn an_object_of_several_partitions_is_read_once() {
    let mut world = World::new();
    world.settings.tail_bytes_max = 0;
    let log = world.open().await;
    let configs = [("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0")];
    let a = create(&log, "a", 2, &configs).await;
    let b = TopicPartition::new(a.topic_id, 1);
    let keyed = |value: &str| {
        let mut builder = BatchBuilder::new(BatchOptions::default());
        builder.append(Some(T), Some(b"key"), Some(value.as_bytes()), &[]).expect("a small record");
        builder.finish()
    };
    for round in 0..10 {
        let value = format!("v{round}");
        let appends = [a, b].map(|topic_partition| PartitionAppend { topic_partition, batch: keyed(&value) });
        for appended in log.append(appends.to_vec()).await {
            appended.expect("the batch is appended");
        }
    }
    let before = world.store.counts().gets;
    log.compact_now().await.expect("the compaction succeeds");
    // Each object of the WAL; the segment for the cleaning of each partition; the lengths of both segments.
    assert_eq!(world.store.counts().gets - before, 10 + 2 + 2);
    for id in [a, b] {
        assert_eq!(read(&log.snapshot(), id).await, [(9, "v9".to_owned())]);
    }
}

/// Notes on which threads compactions end.
#[derive(Debug, Default)]
struct ThreadNames(Mutex<Vec<String>>);

impl Failpoints for ThreadNames {
    fn reach(&self, name: &str) {
        if name == "compaction.before_install" {
            let thread = std::thread::current().name().unwrap_or_default().to_owned();
            self.0.lock().expect("no holder of the lock panics").push(thread);
        }
    }
}

#[test]
fn maintenance_runs_on_threads_of_its_own() {
    let maintenance = maintenance_runtime().expect("the system gives threads");
    let threads = Arc::new(ThreadNames::default());
    let requests = Runtime::new().expect("the system gives threads");
    requests.block_on(async {
        let mut world = World::new();
        world.settings.maintenance_runtime = Some(maintenance.handle().clone());
        world.seams = Seams { failpoints: Some(threads.clone()), ..Seams::system() };
        let log = world.open().await;
        let a = create(&log, "a", 1, &[]).await;
        append_numbered(&log, a, 0..3).await;
        log.compact_now().await.expect("the compaction succeeds");
        log.close().await;
    });
    assert_eq!(*threads.0.lock().expect("no holder of the lock panics"), ["maintenance"]);
}

#[tokio::test(start_paused = true)]
async fn many_small_slices_become_one() {
    let world = World::new();
    let log = world.open().await;
    let a = create(&log, "a", 1, &[]).await;
    for round in 0..40 {
        append_numbered(&log, a, round * 5..round * 5 + 5).await;
        log.compact_now().await.expect("the compaction succeeds");
        let view = log.snapshot().partition(a).expect("it exists");
        assert!(view.slices().len() <= 16, "{} slices", view.slices().len());
    }
    assert_eq!(read(&log.snapshot(), a).await, numbered(200));
    log.close().await;
    assert_eq!(read(&world.open().await.snapshot(), a).await, numbered(200));
}

#[tokio::test(start_paused = true)]
async fn slices_stay_within_the_segment_bytes_of_their_topic() {
    const MIB: u64 = 1 << 20;
    let world = World::new();
    let log = world.open().await;
    let a = create(&log, "a", 1, &[("segment.bytes", "1048576")]).await;
    let append = async |round: i64| {
        let mut builder = BatchBuilder::new(BatchOptions::default());
        let value = vec![b'v'; 60_000];
        builder.append(Some(T + round), None, Some(&value), &[]).expect("one record fits");
        let append = PartitionAppend { topic_partition: a, batch: builder.finish() };
        log.append(vec![append]).await.remove(0).expect("the append succeeds");
    };
    for round in 0..200 {
        append(round).await;
        if round % 7 == 6 {
            log.compact_now().await.expect("the compaction succeeds");
        }
    }
    let view = log.snapshot().partition(a).expect("it exists");
    let lengths: Vec<u64> = view.slices().map(|slice| slice.slice.data_length()).collect();
    assert!(lengths.iter().all(|length| *length <= MIB), "{lengths:?}");
    assert!(lengths.len() < 32, "small ones are merged: {lengths:?}");
    let offsets: Vec<i64> = read(&log.snapshot(), a).await.into_iter().map(|(offset, _)| offset).collect();
    assert_eq!(offsets, Vec::from_iter(0..200));
}

#[tokio::test(start_paused = true)]
async fn what_is_compacted_and_covered_by_a_checkpoint_is_deleted_after_the_delay() {
    let world = World::new();
    let log = world.open().await;
    let a = create(&log, "a", 1, &[]).await;
    append_numbered(&log, a, 0..30).await;
    let held = log.snapshot();
    log.compact_now().await.expect("the compaction succeeds");
    log.checkpoint_now().await.expect("the checkpoint is written");
    log.collect_now().await.expect("the collection succeeds");
    assert!(world.keys("wal").await.len() > 30, "the delay has not passed");
    tokio::time::advance(Duration::from_secs(61)).await;
    log.collect_now().await.expect("the collection succeeds");
    assert!(world.keys("wal").await.len() > 28, "a snapshot is held");
    assert_eq!(read(&held, a).await, numbered(30));
    drop(held);
    log.collect_now().await.expect("the collection succeeds");
    assert_eq!(world.keys("wal").await.len(), 0, "all is compacted");
    append_numbered(&log, a, 30..33).await;
    assert_eq!(read(&log.snapshot(), a).await, numbered(33));
    log.close().await;
    let log = world.open().await;
    assert_eq!(read(&log.snapshot(), a).await, numbered(33));
    append_numbered(&log, a, 33..35).await;
    log.compact_now().await.expect("the compaction succeeds");
    log.checkpoint_now().await.expect("the checkpoint is written");
    tokio::time::advance(Duration::from_secs(61)).await;
    log.collect_now().await.expect("the collection succeeds");
    let wal = world.keys("wal").await;
    assert_eq!(wal.len(), 1, "the fence of the first epoch stays: {wal:?}");
    assert_eq!(read(&world.open().await.snapshot(), a).await, numbered(35));
}

#[tokio::test(start_paused = true)]
async fn a_collection_that_takes_several_turns_deletes_all_that_may_go() {
    let world = World::new();
    let log = world.open().await;
    let a = create(&log, "a", 1, &[]).await;
    append_numbered(&log, a, 0..5000).await;
    log.compact_now().await.expect("the compaction succeeds");
    log.checkpoint_now().await.expect("the checkpoint is written");
    assert!(world.keys("wal").await.len() > 5000, "the delay has not passed");
    tokio::time::advance(Duration::from_secs(61)).await;
    log.collect_now().await.expect("the collection succeeds");
    assert_eq!(world.keys("wal").await.len(), 0, "all is compacted");
    assert_eq!(read(&log.snapshot(), a).await, numbered(5000));
}

#[tokio::test(start_paused = true)]
async fn deleted_records_are_erased_from_every_object() {
    let world = World::new();
    let log = world.open().await;
    let a = create(&log, "a", 1, &[]).await;
    let b = create(&log, "b", 1, &[]).await;
    append(&log, a, &["secret-first"], T).await;
    append(&log, a, &["kept"], T + 5).await;
    append(&log, b, &["secret-topic"], T).await;
    log.compact_now().await.expect("the compaction succeeds");
    let deleted = log.delete_records(vec![(a, 1)]).await.expect("the log takes it");
    assert_eq!(deleted, [Ok(1)]);
    log.delete_topic(b.topic_id).await.expect("the topic is deleted");
    assert_eq!(read(&log.snapshot(), a).await, [(1, "kept".to_owned())]);
    let view = log.snapshot().partition(a).expect("it exists");
    let found = view.lookup_time(T, Isolation::ReadCommitted).await.expect("it is readable");
    assert_eq!(found.map(|found| found.offset), Some(1));
    drop(view);
    tokio::time::advance(world.settings.maintenance.erase_delay).await;
    for _ in 0..2 {
        log.compact_now().await.expect("the compaction succeeds");
        log.checkpoint_now().await.expect("the checkpoint is written");
        tokio::time::advance(Duration::from_secs(61)).await;
        log.collect_now().await.expect("the collection succeeds");
    }
    assert!(!world.contains(b"secret").await, "a deleted value is still in an object");
    assert!(world.contains(b"kept").await);
    assert_eq!(read(&log.snapshot(), a).await, [(1, "kept".to_owned())]);
    assert_eq!(read(&world.open().await.snapshot(), a).await, [(1, "kept".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn retention_deletes_the_oldest_records_by_age_and_by_size() {
    let world = World::new();
    let log = world.open().await;
    let aged = create(&log, "aged", 1, &[("retention.ms", "3600000")]).await;
    let sized = create(&log, "sized", 1, &[("retention.bytes", "60")]).await;
    let kept = create(&log, "kept", 1, &[]).await;
    for id in [aged, sized, kept] {
        append_numbered(&log, id, 0..10).await;
        log.compact_now().await.expect("the compaction succeeds");
    }
    let start = |id| log.snapshot().partition(id).expect("it exists").bounds().log_start_offset;
    tokio::time::advance(Duration::from_secs(2 * 3600)).await;
    append(&log, aged, &["new"], T + 7_200_000).await;
    append(&log, sized, &["new"], T + 7_200_000).await;
    tokio::time::timeout(Duration::from_secs(3600), async {
        while start(aged) == 0 || start(sized) == 0 {
            world.seams.clock.sleep(Duration::from_secs(1)).await;
        }
    })
    .await
    .expect("retention runs by itself");
    assert_eq!((start(aged), start(sized), start(kept)), (10, 10, 0));
    assert_eq!(read(&log.snapshot(), aged).await, [(10, "new".to_owned())]);
    assert_eq!(read(&log.snapshot(), kept).await, numbered(10));
}

/// Reported as redpanda#11922.
#[tokio::test(start_paused = true)]
async fn retention_goes_by_the_time_of_the_append_where_that_is_the_time_of_the_records() {
    const YEAR_MS: i64 = 365 * 24 * 3_600_000;
    let world = World::new();
    let log = world.open().await;
    let configs = [("retention.ms", "3600000"), ("message.timestamp.type", "LogAppendTime")];
    let stamped = create(&log, "stamped", 1, &configs).await;
    append(&log, stamped, &["from the future"], T + YEAR_MS).await;
    append(&log, stamped, &["from the past"], T - YEAR_MS).await;
    log.compact_now().await.expect("the compaction succeeds");
    let start = || log.snapshot().partition(stamped).expect("it exists").bounds().log_start_offset;
    world.seams.clock.sleep(world.settings.maintenance.retention_interval * 3).await;
    assert_eq!(start(), 0, "nothing is an hour old, whatever its producer said");
    tokio::time::advance(Duration::from_secs(2 * 3600)).await;
    append(&log, stamped, &["new"], T).await;
    tokio::time::timeout(Duration::from_secs(3600), async {
        while start() < 2 {
            world.seams.clock.sleep(Duration::from_secs(1)).await;
        }
    })
    .await
    .expect("what was appended two hours ago is deleted, whatever its producer said");
    assert_eq!(read(&log.snapshot(), stamped).await, [(2, "new".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn everything_happens_by_itself_in_time() {
    let mut world = World::new();
    world.settings.maintenance = MaintenanceSettings::default();
    let log = world.open().await;
    let a = create(&log, "a", 1, &[]).await;
    append_numbered(&log, a, 0..20).await;
    tokio::time::timeout(Duration::from_secs(7200), async {
        while !world.keys("wal").await.is_empty() || world.keys("checkpoints").await.is_empty() {
            world.seams.clock.sleep(Duration::from_secs(10)).await;
        }
    })
    .await
    .expect("the WAL is compacted, covered by a checkpoint, and deleted");
    // The first sweep comes after an hour.
    world.seams.clock.sleep(Duration::from_secs(2 * 3600)).await;
    let counts = world.store.counts();
    world.seams.clock.sleep(Duration::from_secs(3600)).await;
    assert_eq!(world.store.counts(), counts, "an idle log asks nothing of its store");
    assert_eq!(read(&log.snapshot(), a).await, numbered(20));
}

#[tokio::test(start_paused = true)]
async fn deleted_records_are_erased_in_time_although_nobody_writes_any_more() {
    let mut world = World::new();
    world.settings.maintenance = MaintenanceSettings::default();
    let log = world.open().await;
    let a = create(&log, "a", 1, &[]).await;
    append(&log, a, &["secret"], T).await;
    append(&log, a, &["kept"], T + 5).await;
    log.compact_now().await.expect("the compaction succeeds");
    log.delete_records(vec![(a, 1)]).await.expect("the log takes it")[0].clone().expect("it is in bounds");
    world.seams.clock.sleep(world.settings.maintenance.erase_delay).await;
    assert!(!world.contains(b"secret").await, "a deleted value is still in an object");
    assert_eq!(read(&log.snapshot(), a).await, [(1, "kept".to_owned())]);
}
