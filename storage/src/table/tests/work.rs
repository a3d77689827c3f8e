//! The work that statements are allowed: what the plan says, and what the counters say was read.

use std::ops::Range;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::prelude::SessionContext;

use super::fixture::{Fixture, T, integers, record, row_count, texts};
use crate::format::{BatchBuilder, BatchOptions, Compression};
use crate::ids::{BlockObject, TopicPartition};
use crate::log::PartitionAppend;
use crate::table::{ScanCounter, ScanError};

pub(super) const BLOCKS: i64 = 50;
pub(super) const RECORDS_PER_BLOCK: i64 = 20;
const VALUE_BYTES: usize = 2000;

/// A block for each second, in order of time, dealt out to the partitions in turn.
async fn ordered(partitions: i32) -> Fixture {
    let fixture = Fixture::new(partitions).await;
    append_ordered(&fixture, partitions, 0..BLOCKS).await;
    fixture
}

/// Blocks are so large that a compaction leaves them as they are.
pub(super) async fn append_ordered(fixture: &Fixture, partitions: i32, blocks: Range<i64>) {
    for block in blocks {
        let value = |i: i64| format!("value {block} {i} {}", "x".repeat(VALUE_BYTES));
        let records: Vec<_> = (0..RECORDS_PER_BLOCK)
            .map(|i| record(T + block * 1000 + i, &format!("k{i}"), &value(i)))
            .collect();
        fixture.append((block % i64::from(partitions)) as i32, Compression::None, &records).await;
    }
}

pub(super) fn at_least(timestamp: i64) -> String {
    format!("ts >= arrow_cast({timestamp}, 'Timestamp(ms, \"UTC\")')")
}

pub(super) fn below(timestamp: i64) -> String {
    format!("ts < arrow_cast({timestamp}, 'Timestamp(ms, \"UTC\")')")
}

#[tokio::test]
async fn counts_and_bounds_read_no_payload() {
    let written = ordered(3).await;
    for fixture in &written.three_ways().await {
        for sql in [
            "SELECT count(*) FROM t",
            "SELECT count(*) FROM t WHERE _partition = 1",
            "SELECT min(ts), max(ts), min(_offset), max(_offset) FROM t",
        ] {
            let work = fixture.work(sql).await;
            assert_eq!(work.of(ScanCounter::BlocksRead), 0, "{sql}");
        }
        let counted = fixture.integer("SELECT count(*) FROM t WHERE _partition = 1").await;
        assert_eq!(counted, Some(17 * RECORDS_PER_BLOCK));
    }
}

#[tokio::test]
async fn a_count_over_a_range_of_time_decodes_only_blocks_on_its_edges() {
    let fixture = ordered(1).await;
    let range = format!("{} AND {}", at_least(T + 10_005), below(T + 20_005));
    let sql = format!("SELECT count(*) FROM t WHERE {range}");
    let work = fixture.work(&sql).await;
    assert_eq!(work.of(ScanCounter::BlocksRead), 2);
    assert_eq!(work.of(ScanCounter::BlocksCounted), 9);
    assert_eq!(fixture.integer(&sql).await, Some(10 * RECORDS_PER_BLOCK));
}

#[tokio::test]
async fn a_narrow_range_of_time_reads_only_blocks_that_overlap_it() {
    let written = ordered(1).await;
    for fixture in &written.three_ways().await {
        let range = format!("{} AND {}", at_least(T + 30_000), below(T + 30_500));
        let work = fixture.work(&format!("SELECT _value FROM t WHERE {range}")).await;
        assert_eq!(work.of(ScanCounter::BlocksTotal), BLOCKS as u64);
        assert_eq!(work.of(ScanCounter::BlocksPruned), BLOCKS as u64 - 1);
        assert_eq!(work.of(ScanCounter::BlocksRead), 1);
        assert_eq!(work.of(ScanCounter::BatchesDecoded), 1);
        assert_eq!(work.of(ScanCounter::RowsEmitted), RECORDS_PER_BLOCK as u64);
    }
}

#[tokio::test]
async fn batches_of_a_block_that_end_too_early_are_not_decompressed() {
    let fixture = Fixture::new(1).await;
    let topic_partition = TopicPartition::new(fixture.topic.id, 0);
    let batch = |timestamp: i64| {
        let options = BatchOptions { compression: Compression::Gzip, ..BatchOptions::default() };
        let mut batch = BatchBuilder::new(options);
        batch.append(Some(timestamp), None, Some(b"v"), &[]).unwrap();
        PartitionAppend { topic_partition, batch: batch.finish() }
    };
    // One commit, and so one block.
    fixture.log.append((0..8).map(|i| batch(T + i)).collect()).await;
    let work = fixture.work(&format!("SELECT ts FROM t WHERE {}", at_least(T + 6))).await;
    assert_eq!(work.of(ScanCounter::BlocksRead), 1);
    assert_eq!(work.of(ScanCounter::BatchesPruned), 6);
    assert_eq!(work.of(ScanCounter::BatchesDecompressed), 2);
}

#[tokio::test]
async fn the_last_rows_decode_at_most_the_blocks_that_hold_them() {
    let written = ordered(1).await;
    for fixture in &written.three_ways().await {
        let sql = "SELECT _offset, _value FROM t ORDER BY _offset DESC LIMIT 50";
        let work = fixture.work(sql).await;
        assert_eq!(work.of(ScanCounter::BlocksRead), 3);
        assert_eq!(work.of(ScanCounter::BatchesDecoded), 3);
        let offsets = integers(&fixture.query(sql).await, 0);
        let last = BLOCKS * RECORDS_PER_BLOCK;
        assert_eq!(offsets, (last - 50..last).rev().map(Some).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_limit_stops_reading() {
    let fixture = ordered(1).await;
    let work = fixture.work("SELECT _value FROM t LIMIT 5").await;
    assert!(work.of(ScanCounter::BlocksRead) <= 2, "one for each output partition");
    let work = fixture.work("SELECT _value FROM t WHERE _key = 'k3' LIMIT 1").await;
    assert!(work.of(ScanCounter::BlocksRead) <= 2);
}

#[tokio::test]
async fn the_newest_rows_by_time_are_found_without_reading_old_blocks() {
    let fixture = ordered(1).await;
    let sql = "SELECT ts FROM t ORDER BY ts DESC LIMIT 10";
    let work = fixture.work(sql).await;
    assert!(work.of(ScanCounter::BlocksRead) <= 8, "read {} blocks", work.of(ScanCounter::BlocksRead));
    let newest = T + (BLOCKS - 1) * 1000 + RECORDS_PER_BLOCK;
    let expected: Vec<_> = (newest - 10..newest).rev().map(Some).collect();
    assert_eq!(integers(&fixture.query(sql).await, 0), expected);
}

#[tokio::test]
async fn orders_by_offset_need_no_sort() {
    let (one, three) = (ordered(1).await, ordered(3).await);
    for sql in ["SELECT * FROM t ORDER BY _offset LIMIT 5", "SELECT ts FROM t ORDER BY _offset DESC"] {
        let plan = one.plan(sql).await;
        assert!(!plan.contains("SortExec"), "{sql}\n{plan}");
    }
    for order in ["_partition, _offset", "_partition DESC, _offset DESC", "_offset DESC"] {
        let plan = three.plan(&format!("SELECT _partition, _offset FROM t ORDER BY {order} LIMIT 5")).await;
        assert!(!plan.contains("SortExec"), "{order}\n{plan}");
    }
    let plan = three.plan("SELECT * FROM t ORDER BY _offset, _partition").await;
    assert!(!plan.contains("SortExec"), "{plan}");
    let plan = three.plan("SELECT * FROM t ORDER BY _key").await;
    assert!(plan.contains("SortExec"), "{plan}");
}

#[tokio::test]
async fn filters_and_columns_are_pushed_into_the_scan() {
    let fixture = ordered(1).await;
    let plan = fixture.plan("SELECT _key FROM t WHERE _value LIKE '%7%' AND _offset > 3").await;
    assert!(!plan.contains("FilterExec"), "{plan}");
    assert!(plan.contains("columns=[_key]"), "{plan}");
    assert!(plan.contains("_offset@2 > 3"), "{plan}");
}

#[tokio::test]
async fn a_filter_on_a_subquery_is_evaluated_in_the_running_scan() {
    let fixture = ordered(1).await;
    let sql = "SELECT _offset FROM t WHERE _offset > (SELECT max(_offset) - 2 FROM t WHERE _key <> '')";
    let last = BLOCKS * RECORDS_PER_BLOCK;
    let mut offsets = integers(&fixture.query(sql).await, 0);
    offsets.sort_unstable();
    assert_eq!(offsets, [Some(last - 2), Some(last - 1)]);
}

#[tokio::test]
async fn a_limit_below_another_order_keeps_its_rows() {
    let fixture = ordered(1).await;
    let first = "SELECT * FROM t ORDER BY _offset LIMIT 30";
    let sql = format!("SELECT _offset FROM ({first}) ORDER BY ts DESC LIMIT 2");
    assert_eq!(integers(&fixture.query(&sql).await, 0), [Some(29), Some(28)]);
    let sql = format!("SELECT count(*) FROM ({first}) WHERE _offset >= 25");
    assert_eq!(fixture.integer(&sql).await, Some(5));
    assert_eq!(fixture.integer("SELECT count(*) FROM (SELECT * FROM t LIMIT 7)").await, Some(7));
}

#[tokio::test]
async fn joins_and_groups_agree_with_the_rows() {
    let fixture = ordered(3).await;
    let pairs = "SELECT count(*) FROM t a JOIN t b ON a._value = b._value WHERE b._key = 'k7'";
    assert_eq!(fixture.integer(pairs).await, Some(BLOCKS));
    let groups = "SELECT count(*) FROM (SELECT _key FROM t GROUP BY _key HAVING count(*) = 50)";
    assert_eq!(fixture.integer(groups).await, Some(RECORDS_PER_BLOCK));
}

#[tokio::test]
async fn explain_analyze_says_what_was_read() {
    let fixture = ordered(1).await;
    let sql = format!("EXPLAIN ANALYZE SELECT _value FROM t WHERE {}", at_least(T + 40_000));
    let plan: String = texts(&fixture.query(&sql).await, 1).into_iter().flatten().collect();
    for metric in
        ["blocks_total=50", "blocks_pruned=40", "blocks_read=10", "records_decoded=200", "output_rows=200"]
    {
        assert!(plan.contains(metric), "{metric}\n{plan}");
    }
}

#[tokio::test]
async fn a_damaged_block_fails_only_the_scans_that_touch_it() {
    let fixture = ordered(1).await;
    let key = damage_block_with_offset(&fixture, 500).await;
    let fixture = fixture.read_back().await;
    let error = fixture.try_query("SELECT _value FROM t").await.unwrap_err();
    let DataFusionError::External(source) = error.find_root() else { panic!("{error}") };
    let message = source.downcast_ref::<ScanError>().unwrap().to_string();
    assert!(message.contains(&key) && message.contains("500 to 519"), "{message}");
    assert_eq!(fixture.integer("SELECT count(*) FROM t").await, Some(BLOCKS * RECORDS_PER_BLOCK));
    for healthy in ["_offset < 500", "_offset >= 520"] {
        let rows = fixture.query(&format!("SELECT _value FROM t WHERE {healthy}")).await;
        assert!(row_count(&rows) >= 480);
    }
    assert_eq!(row_count(&fixture.query("SELECT * FROM t ORDER BY _offset DESC LIMIT 9").await), 9);
}

/// Flips a bit in the block of an offset, and returns the key of its object.
async fn damage_block_with_offset(fixture: &Fixture, offset: i64) -> String {
    let view = fixture.log.snapshot().partition(TopicPartition::new(fixture.topic.id, 0)).unwrap();
    let block = view.tail().find(|block| block.base_offset == offset).copied().unwrap();
    let BlockObject::Wal(position) = block.object else { panic!("the tail is in the WAL") };
    let suffix = format!("{:020}", position.seq);
    let objects = fixture.store.list("").await.unwrap();
    let key = objects.into_iter().map(|object| object.key).find(|key| key.ends_with(&suffix)).unwrap();
    let mut bytes = fixture.store.get(&key).await.unwrap().to_vec();
    bytes[block.position as usize + 70] ^= 1;
    fixture.store.delete(&key).await.unwrap();
    fixture.store.create(&key, bytes.into()).await.unwrap();
    key
}

#[tokio::test]
async fn a_statement_without_a_snapshot_or_a_topic_is_refused() {
    let fixture = ordered(1).await;
    let bare = SessionContext::new();
    bare.register_table("t", fixture.table()).unwrap();
    let error = bare.sql("SELECT * FROM t").await.unwrap().collect().await.unwrap_err();
    assert!(error.to_string().contains("no snapshot"), "{error}");
    fixture.log.delete_topic(fixture.topic.id).await.unwrap();
    let error = fixture.try_query("SELECT * FROM t").await.unwrap_err();
    assert!(error.to_string().contains("does not exist any more"), "{error}");
}

#[tokio::test]
async fn a_statement_sees_the_snapshot_that_it_began_with() {
    let fixture = ordered(1).await;
    let session = fixture.session();
    fixture.append(0, Compression::None, &[record(T, "later", "v")]).await;
    let rows = session.sql("SELECT _offset FROM t").await.unwrap().collect().await.unwrap();
    assert_eq!(row_count(&rows) as i64, BLOCKS * RECORDS_PER_BLOCK);
}

#[tokio::test]
async fn a_stream_that_is_dropped_reads_no_further() {
    use futures::StreamExt;

    let mut fixture = ordered(1).await;
    fixture.target_partitions = 1;
    let big = "x".repeat(100_000);
    for i in 0..30 {
        fixture.append(0, Compression::None, &[record(T + i, "big", &big)]).await;
    }
    let rows = fixture.session().sql("SELECT _value FROM t WHERE _key = 'big'").await.unwrap();
    let mut stream = rows.execute_stream().await.unwrap();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    let read = fixture.counters.get(ScanCounter::BlocksRead);
    tokio::task::yield_now().await;
    assert!(read < BLOCKS as u64 + 30, "read {read} blocks");
    assert_eq!(fixture.counters.get(ScanCounter::BlocksRead), read);
}

#[tokio::test]
async fn a_needle_does_not_keep_its_batch_in_memory() {
    let fixture = Fixture::new(1).await;
    let records: Vec<_> = (0..100).map(|i| record(T + i, "k", &format!("{i:01000}"))).collect();
    fixture.append(0, Compression::None, &records).await;
    let bytes =
        |batches: &[RecordBatch]| batches.iter().map(RecordBatch::get_array_memory_size).sum::<usize>();
    let all = fixture.query("SELECT _value FROM t").await;
    assert!(bytes(&all) >= 100_000);
    let needle = fixture.query("SELECT _value FROM t WHERE _value LIKE '%42'").await;
    assert!(bytes(&needle) < 20_000, "{} bytes", bytes(&needle));
}
