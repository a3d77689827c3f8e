//! Log cleaning on a whole log: what stays, when tombstones and markers go, and a property test
//! against a map.

mod model;

use std::time::Duration;

use bytes::Bytes;

use crate::format::event::TransactionResult::{self, Abort, Commit};
use crate::format::{
    BatchBuilder, BatchHeader, BatchKind, BatchOptions, Compression, DecompressionBudget, ProducerIdentity,
    Records, verify_crc,
};
use crate::ids::TopicPartition;
use crate::log::maintenance::fixture::World;
use crate::log::tests::{create as create_topic, set_config};
use crate::log::{
    AppendError, EndTransaction, FetchOptions, FirstBatch, Isolation, Log, PartitionAppend, PartitionView,
};

const T: i64 = 1_767_225_600_000;
/// Cleans all that may be cleaned, whenever the WAL is compacted.
const EAGER: [(&str, &str); 2] = [("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0")];

/// A log that reads everything from the store.
fn world() -> World {
    let mut world = World::new();
    world.settings.tail_bytes_max = 0;
    world
}

async fn create(log: &Log, configs: &[(&str, &str)]) -> TopicPartition {
    create_topic(log, "keyed", 1, configs).await
}

/// A key and a value; no value is a tombstone.
type Pair<'a> = (&'a str, Option<&'a str>);

fn batch(options: BatchOptions, timestamp: i64, pairs: &[Pair<'_>]) -> Bytes {
    let mut builder = BatchBuilder::new(options);
    for (number, (key, value)) in pairs.iter().enumerate() {
        let timestamp = Some(timestamp + number as i64);
        builder
            .append(timestamp, Some(key.as_bytes()), value.map(str::as_bytes), &[])
            .expect("a small record");
    }
    builder.finish()
}

async fn append(log: &Log, topic_partition: TopicPartition, batch: Bytes) -> Result<i64, AppendError> {
    let appended = log.append(vec![PartitionAppend { topic_partition, batch }]).await.remove(0);
    appended.map(|appended| appended.base_offset)
}

async fn put(log: &Log, id: TopicPartition, pairs: &[Pair<'_>]) -> i64 {
    let next = view(log, id).bounds().high_watermark;
    append(log, id, batch(BatchOptions::default(), T + next, pairs)).await.expect("the batch is appended")
}

fn transactional(producer_id: i64, base_sequence: i32) -> BatchOptions {
    let producer = Some(ProducerIdentity { producer_id, producer_epoch: 0, base_sequence });
    BatchOptions { producer, kind: BatchKind::Transactional, ..BatchOptions::default() }
}

async fn end(log: &Log, id: TopicPartition, producer_id: i64, result: TransactionResult) -> i64 {
    let transaction = EndTransaction {
        producer_id,
        producer_epoch: 0,
        coordinator_epoch: 0,
        result,
        partitions: vec![id],
        offsets: Vec::new(),
    };
    let ended = log.end_transaction(transaction).await.expect("the log takes it");
    ended.partitions[0].clone().expect("the transaction ends")
}

fn view(log: &Log, id: TopicPartition) -> PartitionView {
    log.snapshot().partition(id).expect("the partition exists")
}

/// A stored record.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stored {
    offset: i64,
    timestamp: Option<i64>,
    key: String,
    value: Option<String>,
}

/// All batches, and all records of users in them.
async fn read(log: &Log, id: TopicPartition) -> (Vec<BatchHeader>, Vec<Stored>) {
    let view = view(log, id);
    let from = view.bounds().log_start_offset;
    let (isolation, first_batch) = (Isolation::ReadUncommitted, FirstBatch::Whole);
    let fetched = view.fetch(FetchOptions { from, bytes_max: usize::MAX, isolation, first_batch }).await;
    let fetched = fetched.expect("the fetch succeeds");
    assert_eq!(fetched.next_offset, view.bounds().high_watermark, "the end of the log can be reached");
    let (mut headers, mut records) = (Vec::new(), Vec::new());
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    for batch in &fetched.batches {
        verify_crc(batch).expect("the crc is right");
        let decoded = Records::decode(batch, &mut DecompressionBudget::new(1 << 20)).expect("a stored batch");
        headers.push(*decoded.header());
        if decoded.header().is_control() {
            continue;
        }
        records.extend(decoded.iter().map(|record| record.expect("a stored record")).map(|record| Stored {
            offset: record.offset,
            timestamp: record.timestamp,
            key: text(record.key.expect("records have keys")),
            value: record.value.map(text),
        }));
    }
    (headers, records)
}

/// Offset, key and value of all records of users.
async fn pairs(log: &Log, id: TopicPartition) -> Vec<(i64, String, Option<String>)> {
    let (_, records) = read(log, id).await;
    records.into_iter().map(|record| (record.offset, record.key, record.value)).collect()
}

fn pair(offset: i64, key: &str, value: Option<&str>) -> (i64, String, Option<String>) {
    (offset, key.to_owned(), value.map(str::to_owned))
}

async fn compact(log: &Log) {
    log.compact_now().await.expect("the compaction succeeds");
}

#[tokio::test(start_paused = true)]
async fn the_newest_record_of_each_key_stays_at_its_offset() {
    for compression in Compression::ALL {
        let world = world();
        let log = world.open().await;
        let id = create(&log, &EAGER).await;
        let options = BatchOptions { compression, ..BatchOptions::default() };
        let first = [("a", Some("1")), ("b", Some("1")), ("c", Some("1"))];
        append(&log, id, batch(options, T, &first)).await.unwrap();
        append(&log, id, batch(options, T + 3, &[("a", Some("2"))])).await.unwrap();
        append(&log, id, batch(options, T + 4, &[("b", Some("2")), ("d", Some("1"))])).await.unwrap();
        compact(&log).await;
        let expected = [
            pair(2, "c", Some("1")),
            pair(3, "a", Some("2")),
            pair(4, "b", Some("2")),
            pair(5, "d", Some("1")),
        ];
        assert_eq!(pairs(&log, id).await, expected);
        put(&log, id, &[("c", Some("2"))]).await;
        assert_eq!(pairs(&log, id).await.len(), 5, "the tail is not cleaned");
        compact(&log).await;
        log.close().await;
        let log = world.open().await;
        assert_eq!(pairs(&log, id).await[..3], expected[1..]);
        let view = view(&log, id);
        for (target, offset) in [(T, 3), (T + 3, 3), (T + 4, 4), (T + 5, 5), (T + 6, 6)] {
            let found = view.lookup_time(target, Isolation::ReadCommitted).await.unwrap().unwrap();
            assert_eq!((found.offset, found.timestamp), (offset, T + offset));
        }
        assert_eq!(view.record_count(), 4);
        assert_eq!(view.lookup_time(T + 7, Isolation::ReadCommitted).await.unwrap(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_without_a_key_is_refused() {
    let world = world();
    let log = world.open().await;
    let id = create(&log, &EAGER).await;
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.append(Some(T), Some(b"a"), None, &[]).unwrap();
    builder.append(Some(T), None, Some(b"value"), &[]).unwrap();
    assert_eq!(append(&log, id, builder.finish()).await, Err(AppendError::NullKey { records: vec![1] }));
}

#[tokio::test(start_paused = true)]
async fn a_tombstone_goes_when_its_time_has_come_and_the_last_batch_keeps_its_place() {
    let world = world();
    let log = world.open().await;
    let id = create(&log, &[EAGER[0], EAGER[1], ("delete.retention.ms", "3600000")]).await;
    put(&log, id, &[("a", Some("1")), ("b", Some("1"))]).await;
    put(&log, id, &[("b", None)]).await;
    compact(&log).await;
    let kept = [pair(0, "a", Some("1")), pair(2, "b", None)];
    assert_eq!(pairs(&log, id).await, kept);
    world.seams.clock.sleep(Duration::from_secs(3000)).await;
    log.close().await;
    let log = world.open().await;
    assert_eq!(pairs(&log, id).await, kept);
    tokio::time::timeout(Duration::from_secs(2 * 3600), async {
        while pairs(&log, id).await.len() > 1 {
            world.seams.clock.sleep(Duration::from_secs(10)).await;
        }
    })
    .await
    .expect("the tombstone goes by itself");
    let (headers, records) = read(&log, id).await;
    assert_eq!(records.len(), 1);
    let last = headers.last().unwrap();
    assert_eq!((last.base_offset, last.record_count), (2, 0));
    assert_eq!(view(&log, id).slices().last().unwrap().slice.delete_horizon_ms, None);
    put(&log, id, &[("c", Some("1"))]).await;
    compact(&log).await;
    let (headers, _) = read(&log, id).await;
    assert_eq!(headers.iter().map(|header| header.base_offset).collect::<Vec<_>>(), [0, 3]);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_old_enough_or_not_dirty_enough_waits() {
    let world = world();
    let log = world.open().await;
    let id = create(&log, &[EAGER[0], ("min.cleanable.dirty.ratio", "0.6")]).await;
    put(&log, id, &[("a", Some("1"))]).await;
    put(&log, id, &[("a", Some("2"))]).await;
    compact(&log).await;
    assert_eq!(pairs(&log, id).await.len(), 1, "all of it was dirty");
    put(&log, id, &[("a", Some("3"))]).await;
    compact(&log).await;
    assert_eq!(pairs(&log, id).await.len(), 2, "half of it is dirty");
    let set = async |key: &str, value: &str| {
        set_config(&log, id.topic_id, key, Some(value)).await.unwrap();
    };
    set("min.compaction.lag.ms", "3600000").await;
    set("min.cleanable.dirty.ratio", "0").await;
    compact(&log).await;
    assert_eq!(pairs(&log, id).await.len(), 2, "its records are not old enough");
    set("min.cleanable.dirty.ratio", "1").await;
    set("min.compaction.lag.ms", "0").await;
    compact(&log).await;
    assert_eq!(pairs(&log, id).await.len(), 2);
    set("max.compaction.lag.ms", "60000").await;
    world.seams.clock.sleep(Duration::from_secs(61)).await;
    compact(&log).await;
    assert_eq!(pairs(&log, id).await, [pair(2, "a", Some("3"))]);
}

#[tokio::test(start_paused = true)]
async fn aborted_records_go_and_their_marker_after_them() {
    let world = world();
    let log = world.open().await;
    let id = create(&log, &[EAGER[0], EAGER[1], ("delete.retention.ms", "3600000")]).await;
    put(&log, id, &[("a", Some("kept"))]).await;
    append(&log, id, batch(transactional(7, 0), T + 1, &[("a", Some("aborted"))])).await.unwrap();
    assert_eq!(end(&log, id, 7, Abort).await, 2);
    append(&log, id, batch(transactional(7, 1), T + 3, &[("b", Some("committed"))])).await.unwrap();
    assert_eq!(end(&log, id, 7, Commit).await, 4);
    append(&log, id, batch(transactional(8, 0), T + 5, &[("b", Some("open"))])).await.unwrap();
    compact(&log).await;
    assert_eq!(pairs(&log, id).await.len(), 4, "the one slice reaches past the last stable offset");
    end(&log, id, 8, Commit).await;
    compact(&log).await;
    let left = [pair(0, "a", Some("kept")), pair(5, "b", Some("open"))];
    assert_eq!(pairs(&log, id).await, left);
    let offsets =
        |headers: &[BatchHeader]| headers.iter().map(|header| header.base_offset).collect::<Vec<_>>();
    assert_eq!(offsets(&read(&log, id).await.0), [0, 2, 4, 5, 6], "markers stay for now");
    assert_eq!(view(&log, id).aborted_between(0, 10), [], "nothing is left to hide");
    world.seams.clock.sleep(Duration::from_secs(3 * 3600)).await;
    compact(&log).await;
    assert_eq!(pairs(&log, id).await, left);
    assert_eq!(offsets(&read(&log, id).await.0), [0, 5, 6], "only the marker with records before it stays");
    log.close().await;
    let log = world.open().await;
    assert_eq!(pairs(&log, id).await, left);
}

#[tokio::test(start_paused = true)]
async fn more_keys_than_memory_holds_are_cleaned_in_several_goes() {
    let mut world = world();
    world.settings.maintenance.clean_keys_max = 10;
    let log = world.open().await;
    let id = create(&log, &EAGER).await;
    for round in 0..3 {
        for key in 0..40 {
            let (key, value) = (format!("key {key}"), format!("value {round}"));
            put(&log, id, &[(&key, Some(&value))]).await;
        }
    }
    compact(&log).await;
    let expected: Vec<_> =
        (0..40).map(|key| pair(80 + key, &format!("key {key}"), Some("value 2"))).collect();
    assert_eq!(pairs(&log, id).await, expected);
    assert!(view(&log, id).slices().len() <= 2);
}

#[tokio::test(start_paused = true)]
async fn values_that_were_replaced_are_erased_from_every_object() {
    let world = world();
    let log = world.open().await;
    let id = create(&log, &EAGER).await;
    put(&log, id, &[("a", Some("secret-a")), ("b", Some("public-b"))]).await;
    put(&log, id, &[("a", None)]).await;
    put(&log, id, &[("c", Some("public-c"))]).await;
    tokio::time::advance(world.settings.maintenance.erase_delay).await;
    for _ in 0..2 {
        compact(&log).await;
        log.checkpoint_now().await.expect("the checkpoint is written");
        tokio::time::advance(Duration::from_secs(61)).await;
        log.collect_now().await.expect("the collection succeeds");
    }
    assert!(!world.contains(b"secret-a").await, "a replaced value is still in an object");
    assert!(world.contains(b"public-b").await && world.contains(b"public-c").await);
}

#[tokio::test(start_paused = true)]
async fn retention_deletes_from_a_topic_with_both_policies() {
    let world = world();
    let log = world.open().await;
    let both = [("cleanup.policy", "compact,delete"), ("retention.ms", "3600000"), EAGER[1]];
    let id = create(&log, &both).await;
    put(&log, id, &[("a", Some("1")), ("b", Some("1"))]).await;
    put(&log, id, &[("a", Some("2"))]).await;
    compact(&log).await;
    assert_eq!(pairs(&log, id).await.len(), 2);
    tokio::time::timeout(Duration::from_secs(3 * 3600), async {
        while view(&log, id).bounds().log_start_offset < 3 {
            world.seams.clock.sleep(Duration::from_secs(10)).await;
        }
    })
    .await
    .expect("retention runs by itself");
    put(&log, id, &[("b", Some("2"))]).await;
    compact(&log).await;
    assert_eq!(pairs(&log, id).await, [pair(3, "b", Some("2"))]);
}
