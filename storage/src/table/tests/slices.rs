//! The work that statements are allowed over slices of segments: which indexes they may load.

use datafusion::common::DataFusionError;

use super::fixture::{Fixture, T, integers, row_count, texts};
use super::work::{BLOCKS, RECORDS_PER_BLOCK, append_ordered, at_least, below};
use crate::ids::{BlockObject, TopicPartition};
use crate::log::InstalledSlice;
use crate::table::{ScanCounter, ScanError};

const SLICE_BLOCKS: i64 = 10;
const ROWS: i64 = BLOCKS * RECORDS_PER_BLOCK;
const SLICE_ROWS: i64 = SLICE_BLOCKS * RECORDS_PER_BLOCK;

/// One partition with four slices of ten blocks and ten blocks of tail, a block for each second, read
/// by an owner that keeps nothing in memory.
async fn sliced() -> Fixture {
    let written = Fixture::new(1).await;
    for slice in 0..4 {
        append_ordered(&written, 1, slice * SLICE_BLOCKS..(slice + 1) * SLICE_BLOCKS).await;
        written.compact().await;
    }
    append_ordered(&written, 1, 4 * SLICE_BLOCKS..BLOCKS).await;
    let fixture = written.reopen().await;
    let view = fixture.log.snapshot().partition(partition(&fixture)).unwrap();
    assert_eq!((view.slices().len(), view.tail().len()), (4, SLICE_BLOCKS as usize));
    let blocks = view.slices().map(|slice| slice.slice.location().unwrap().block_count());
    assert_eq!(blocks.collect::<Vec<_>>(), [SLICE_BLOCKS as u32; 4]);
    fixture
}

fn partition(fixture: &Fixture) -> TopicPartition {
    TopicPartition::new(fixture.topic.id, 0)
}

/// Indexes loaded and blocks read.
async fn reads(fixture: &Fixture, sql: &str) -> (u64, u64) {
    let work = fixture.work(sql).await;
    (work.of(ScanCounter::SliceIndexesLoaded), work.of(ScanCounter::BlocksRead))
}

#[tokio::test]
async fn counts_and_bounds_load_no_index() {
    let fixture = sliced().await;
    for (sql, expected) in [
        ("SELECT count(*) FROM t".to_owned(), ROWS),
        ("SELECT count(*) FROM t WHERE _partition = 0".to_owned(), ROWS),
        (format!("SELECT count(*) FROM t WHERE _offset >= {SLICE_ROWS}"), ROWS - SLICE_ROWS),
        (format!("SELECT count(*) FROM t WHERE {}", at_least(T + 10_000)), ROWS - SLICE_ROWS),
        ("SELECT max(_offset) FROM t".to_owned(), ROWS - 1),
        ("SELECT min(_offset) FROM t".to_owned(), 0),
        ("SELECT min(ts) FROM t".to_owned(), T),
        ("SELECT max(ts) FROM t".to_owned(), T + 49_019),
    ] {
        assert_eq!(reads(&fixture, &sql).await, (0, 0), "{sql}");
        assert_eq!(fixture.integer(&sql).await, Some(expected), "{sql}");
    }
}

#[tokio::test]
async fn a_count_over_a_range_of_time_loads_the_indexes_on_its_edges() {
    let fixture = sliced().await;
    let range = format!("{} AND {}", at_least(T + 5_005), below(T + 34_005));
    let sql = format!("SELECT count(*) FROM t WHERE {range}");
    let work = fixture.work(&sql).await;
    assert_eq!(work.of(ScanCounter::SliceIndexesLoaded), 2);
    assert_eq!(work.of(ScanCounter::BlocksRead), 2);
    assert_eq!(work.of(ScanCounter::BlocksCounted), 28);
    assert_eq!(work.of(ScanCounter::BlocksTotal), BLOCKS as u64);
    assert_eq!(work.of(ScanCounter::BlocksPruned), 20);
    assert_eq!(fixture.integer(&sql).await, Some(29 * RECORDS_PER_BLOCK));
}

#[tokio::test]
async fn a_narrow_range_of_time_loads_one_index_and_reads_what_overlaps() {
    let fixture = sliced().await;
    let range = format!("{} AND {}", at_least(T + 22_000), below(T + 23_500));
    let work = fixture.work(&format!("SELECT _value FROM t WHERE {range}")).await;
    assert_eq!(work.of(ScanCounter::SlicesPruned), 3);
    assert_eq!(work.of(ScanCounter::SliceIndexesLoaded), 1);
    assert_eq!(work.of(ScanCounter::BlocksPruned), BLOCKS as u64 - 2);
    assert_eq!(work.of(ScanCounter::BlocksRead), 2);
    assert_eq!(work.of(ScanCounter::RowsEmitted), 2 * RECORDS_PER_BLOCK as u64);
}

#[tokio::test]
async fn filters_that_no_index_helps_load_each_index_once() {
    let mut fixture = sliced().await;
    fixture.target_partitions = 1;
    let sql = "SELECT count(*) FROM t WHERE _key = 'k3'";
    assert_eq!(reads(&fixture, sql).await, (4, BLOCKS as u64));
    assert_eq!(fixture.integer(sql).await, Some(BLOCKS));
}

#[tokio::test]
async fn a_limit_loads_one_index() {
    let fixture = sliced().await;
    assert_eq!(reads(&fixture, "SELECT _value FROM t LIMIT 5").await, (1, 1));
    let first = "SELECT _offset, _value FROM t ORDER BY _offset LIMIT 25";
    assert_eq!(reads(&fixture, first).await, (1, 2));
    assert_eq!(integers(&fixture.query(first).await, 0), (0..25).map(Some).collect::<Vec<_>>());
    let after = format!("SELECT _value FROM t WHERE _offset >= {} ORDER BY _offset LIMIT 5", SLICE_ROWS + 30);
    assert_eq!(reads(&fixture, &after).await, (1, 1));
}

#[tokio::test]
async fn the_last_rows_load_only_the_indexes_that_hold_them() {
    let fixture = sliced().await;
    let last = |rows: i64| format!("SELECT _offset, _value FROM t ORDER BY _offset DESC LIMIT {rows}");
    assert_eq!(reads(&fixture, &last(50)).await, (0, 3));
    assert_eq!(reads(&fixture, &last(SLICE_ROWS + 30)).await, (1, 12));
    let offsets = integers(&fixture.query(&last(SLICE_ROWS + 30)).await, 0);
    assert_eq!(offsets, (ROWS - SLICE_ROWS - 30..ROWS).rev().map(Some).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_first_and_last_rows_by_time_rule_slices_out_before_their_index_is_loaded() {
    let mut fixture = sliced().await;
    fixture.target_partitions = 1;
    for (order, indexes, expected) in [("ts DESC", 0, T + 49_019), ("ts", 1, T)] {
        let sql = format!("SELECT ts, _value FROM t ORDER BY {order} LIMIT 10");
        let work = fixture.work(&sql).await;
        assert_eq!(work.of(ScanCounter::SliceIndexesLoaded), indexes, "{sql}");
        assert_eq!(work.of(ScanCounter::SlicesPruned), 4 - indexes, "{sql}");
        assert!(work.of(ScanCounter::BlocksRead) <= 2, "{sql}");
        assert_eq!(integers(&fixture.query(&sql).await, 0)[0], Some(expected));
    }
    fixture.target_partitions = 4;
    let sql = "SELECT ts, _value FROM t ORDER BY ts LIMIT 10";
    let work = fixture.work(sql).await;
    assert_eq!(
        work.of(ScanCounter::SliceIndexesLoaded),
        4,
        "all output partitions begin with the first slice"
    );
    assert_eq!(integers(&fixture.query(sql).await, 0)[0], Some(T));
    fixture.target_partitions = 1;
    let range = below(T + 35_000);
    let sql = format!("SELECT ts, _value FROM t WHERE {range} ORDER BY ts DESC LIMIT 10");
    let (loaded, read) = reads(&fixture, &sql).await;
    assert!(loaded == 1 && read <= 2, "loaded {loaded}, read {read}");
}

#[tokio::test]
async fn a_slice_is_cut_into_pieces_for_more_output_partitions_than_there_are_slices() {
    let mut fixture = sliced().await;
    fixture.target_partitions = 8;
    let rows = fixture.query("SELECT _offset FROM t WHERE length(_value) > 10").await;
    let mut offsets: Vec<_> = integers(&rows, 0);
    offsets.sort_unstable();
    assert_eq!(offsets, (0..ROWS).map(Some).collect::<Vec<_>>());
    assert_eq!(fixture.integer("SELECT count(*) FROM t").await, Some(ROWS));
    let sorted = fixture.query("SELECT _offset FROM t ORDER BY _offset DESC").await;
    assert_eq!(integers(&sorted, 0), (0..ROWS).rev().map(Some).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_log_start_inside_of_a_slice_cuts_its_rows_and_nothing_else() {
    let written = Fixture::new(1).await;
    append_ordered(&written, 1, 0..BLOCKS).await;
    written.compact().await;
    let start = 3 * RECORDS_PER_BLOCK + 5;
    written.delete_records(0, start).await;
    let fixture = written.reopen().await;
    let work = fixture.work("SELECT count(*) FROM t").await;
    assert_eq!(work.of(ScanCounter::SliceIndexesLoaded), 2, "one for each output partition");
    assert_eq!(work.of(ScanCounter::BlocksRead), 1);
    for (aggregate, expected) in [
        ("count(*)", ROWS - start),
        ("min(_offset)", start),
        ("min(ts)", T + 3_005),
        ("max(_offset)", ROWS - 1),
    ] {
        assert_eq!(
            fixture.integer(&format!("SELECT {aggregate} FROM t")).await,
            Some(expected),
            "{aggregate}"
        );
    }
}

#[tokio::test]
async fn explain_says_which_slices_are_read() {
    let fixture = sliced().await;
    let sql = format!("SELECT _value FROM t WHERE {}", at_least(T + 25_000));
    let plan = fixture.plan(&sql).await;
    assert!(plan.contains("slices=2/4, blocks=25/50"), "{plan}");
    let rows = fixture.query(&format!("EXPLAIN ANALYZE {sql}")).await;
    let plan: String = texts(&rows, 1).into_iter().flatten().collect();
    // The index of the slice inside of the range is loaded when the scan gets there.
    for metric in ["slices_pruned=2", "blocks_total=50", "blocks_pruned=25", "blocks_read=25"] {
        assert!(plan.contains(metric), "{metric}\n{plan}");
    }
    assert!(!plan.contains("slice_indexes_loaded=0"), "{plan}");
}

#[tokio::test]
async fn a_damaged_index_fails_only_the_scans_that_touch_it() {
    let fixture = sliced().await;
    let view = fixture.log.snapshot().partition(partition(&fixture)).unwrap();
    let slice = view.slice(2).unwrap();
    let key = view.slice_object(slice);
    damage_index(&fixture, &key, slice).await;
    check_contained(&fixture, &key).await;
}

#[tokio::test]
async fn a_missing_segment_fails_only_the_scans_that_touch_it() {
    let fixture = sliced().await;
    let view = fixture.log.snapshot().partition(partition(&fixture)).unwrap();
    let key = view.slice_object(view.slice(2).unwrap());
    fixture.store.delete(&key).await.unwrap();
    check_contained(&fixture, &key).await;
}

/// The third slice cannot be read.
async fn check_contained(fixture: &Fixture, key: &str) {
    let in_slice = format!("SELECT _value FROM t WHERE {}", at_least(T + 25_000));
    for sql in ["SELECT _value FROM t", &in_slice, "SELECT * FROM t ORDER BY _offset LIMIT 450"] {
        let error = fixture.try_query(sql).await.unwrap_err();
        let DataFusionError::External(source) = error.find_root() else { panic!("{error}") };
        let message = source.downcast_ref::<ScanError>().unwrap().to_string();
        assert!(message.contains(key) && message.contains("400 to 599"), "{message}");
    }
    assert_eq!(fixture.integer("SELECT count(*) FROM t").await, Some(ROWS));
    for (healthy, rows) in [("_offset < 400", 400), ("_offset >= 600", 400), ("_offset >= 600 LIMIT 7", 7)] {
        let found = fixture.query(&format!("SELECT _value FROM t WHERE {healthy}")).await;
        assert_eq!(row_count(&found), rows, "{healthy}");
    }
    for order in ["_offset DESC", "ts DESC"] {
        let found = fixture.query(&format!("SELECT * FROM t ORDER BY {order} LIMIT 9")).await;
        assert_eq!(row_count(&found), 9, "{order}");
    }
}

/// Flips a bit in the index of a slice.
async fn damage_index(fixture: &Fixture, key: &str, slice: &InstalledSlice) {
    let position = slice.slice.location().unwrap().index_position as usize;
    let mut bytes = fixture.store.get(key).await.unwrap().to_vec();
    bytes[position + 30] ^= 1;
    fixture.store.delete(key).await.unwrap();
    fixture.store.create(key, bytes.into()).await.unwrap();
}

/// The object of the third of five blocks vanished before it was compacted.
#[tokio::test]
async fn a_lost_slice_fails_the_scans_that_touch_it_and_counts() {
    let written = Fixture::new(1).await;
    append_ordered(&written, 1, 0..5).await;
    let view = written.log.snapshot().partition(partition(&written)).unwrap();
    let BlockObject::Wal(position) = view.tail_block(2).unwrap().object else { panic!("it is in the WAL") };
    let suffix = format!("{:020}", position.seq);
    let objects = written.store.list("shards/0/wal").await.unwrap();
    let key = objects.into_iter().map(|object| object.key).rfind(|key| key.ends_with(&suffix)).unwrap();
    let fixture = written.reopen().await;
    fixture.store.delete(&key).await.unwrap();
    fixture.compact().await;
    let lost = fixture.log.snapshot().partition(partition(&fixture)).unwrap();
    assert_eq!(lost.slices().filter(|slice| slice.slice.location().is_none()).count(), 1);
    for sql in ["SELECT _value FROM t", "SELECT count(*) FROM t", "SELECT max(ts) FROM t WHERE _offset < 50"]
    {
        let message = fixture.try_query(sql).await.unwrap_err().to_string();
        assert!(message.contains(&key) && message.contains("40 to 59"), "{message}");
    }
    for (healthy, rows) in [("_offset < 40", 40), ("_offset >= 60", 40)] {
        let count = format!("SELECT count(*) FROM t WHERE {healthy}");
        assert_eq!(fixture.integer(&count).await, Some(rows), "{healthy}");
        let found = fixture.query(&format!("SELECT _value FROM t WHERE {healthy}")).await;
        assert_eq!(row_count(&found) as i64, rows, "{healthy}");
    }
}
