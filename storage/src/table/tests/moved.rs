//! Statements of a process that only reads, while the owner of the log compacts and deletes what they
//! read.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use datafusion::common::Result;
use datafusion::physical_plan::execute_stream;
use futures::StreamExt;

use super::fixture::{Fixture, T, integers, record};
use crate::format::Compression;
use crate::ids::TopicPartition;
use crate::log::{LogSettings, MaintenanceSettings, PartitionView};
use crate::object::ObjectMeta;

const RECORDS_PER_BATCH: i64 = 20;
/// A slice of so many has some blocks, and ends within what becomes one block when it is merged.
const BATCHES_PER_SLICE: i64 = 50;
const BATCHES: i64 = 3 * BATCHES_PER_SLICE + 5;
const ROWS: i64 = BATCHES * RECORDS_PER_BATCH;

/// When the owner compacts and deletes.
#[derive(Clone, Copy, Debug)]
enum When {
    BeforePlanning,
    BeforeTheFirstRow,
    AfterSomeRows,
}

/// Of an owner that deletes what it does not need any more at once, when it is told to.
fn settings(merge_slices: usize) -> LogSettings {
    let never = Duration::from_secs(1 << 30);
    let maintenance = MaintenanceSettings {
        compaction_interval: never,
        checkpoint_interval: never,
        merge_slices,
        checkpoints_kept: 1,
        wal_delete_delay: Duration::ZERO,
        segment_delete_delay: Some(Duration::ZERO),
        ..MaintenanceSettings::default()
    };
    LogSettings { maintenance, ..LogSettings::default() }
}

async fn append(fixture: &Fixture, batches: Range<i64>) {
    for batch in batches {
        let value = |row: i64| format!("value {row} {}", "x".repeat(200));
        let rows = batch * RECORDS_PER_BATCH..(batch + 1) * RECORDS_PER_BATCH;
        let records: Vec<_> =
            rows.map(|row| record(T + row, &format!("k{}", row % 7), &value(row))).collect();
        fixture.append(0, Compression::None, &records).await;
    }
}

/// Slices that were compacted one by one, and a tail.
async fn sliced() -> Fixture {
    let written = Fixture::with_settings(1, &[], settings(16)).await;
    for slice in 0..3 {
        append(&written, slice * BATCHES_PER_SLICE..(slice + 1) * BATCHES_PER_SLICE).await;
        written.compact().await;
    }
    append(&written, 3 * BATCHES_PER_SLICE..BATCHES).await;
    written
}

fn partition(fixture: &Fixture) -> PartitionView {
    fixture.log.snapshot().partition(TopicPartition::new(fixture.topic.id, 0)).unwrap()
}

/// Puts all records into other objects, and deletes those that had them.
async fn move_all(written: &Fixture) {
    let owner = written.reopen_with(settings(2)).await;
    let before = data(&owner).await;
    append(&owner, BATCHES..3 * BATCHES).await;
    owner.compact().await;
    owner.log.checkpoint_now().await.unwrap();
    owner.log.collect_now().await.unwrap();
    assert!(before.len() > 3 && before.is_disjoint(&data(&owner).await), "everything is elsewhere");
}

/// The objects with batches; a fence is far smaller.
async fn data(fixture: &Fixture) -> BTreeSet<String> {
    let objects = fixture.store.list("shards/0").await.unwrap();
    let has_batches = |object: &ObjectMeta| {
        object.length > 1000 && (object.key.contains("/wal/") || object.key.contains("/data/"))
    };
    objects.into_iter().filter(has_batches).map(|object| object.key).collect()
}

/// The first column of the rows, of which the owner moves all at some time.
async fn rows(reader: &Fixture, owner: &Fixture, sql: &str, when: When) -> Result<Vec<Option<i64>>> {
    let session = reader.session();
    if matches!(when, When::BeforePlanning) {
        move_all(owner).await;
    }
    let plan = session.sql(sql).await?.create_physical_plan().await?;
    if matches!(when, When::BeforeTheFirstRow) {
        move_all(owner).await;
    }
    let mut stream = execute_stream(plan, session.task_ctx())?;
    let mut batches = Vec::new();
    while let Some(batch) = stream.next().await {
        batches.push(batch?);
        if batches.len() == 1 && matches!(when, When::AfterSomeRows) {
            move_all(owner).await;
        }
    }
    Ok(integers(&batches, 0))
}

async fn check(sql: &str, target_partitions: usize, when: When) {
    let owner = sliced().await;
    let mut reader = owner.read_back().await;
    reader.target_partitions = target_partitions;
    let view = partition(&reader);
    assert_eq!((view.slices().len(), view.tail().len()), (3, 5));
    let mut expected = integers(&reader.query(sql).await, 0);
    let mut found = rows(&reader, &owner, sql, when).await.unwrap();
    if !sql.contains("ORDER BY") {
        expected.sort_unstable();
        found.sort_unstable();
    }
    assert!(!expected.is_empty() && found == expected, "{sql}, {target_partitions}, {when:?}: {found:?}");
}

#[tokio::test]
async fn every_row_of_the_snapshot_comes_once_whenever_its_objects_are_deleted() {
    let last = format!("SELECT _offset, _value FROM t ORDER BY _offset DESC LIMIT {}", ROWS - 7);
    for sql in [
        "SELECT _offset, _value FROM t",
        "SELECT _offset FROM t WHERE length(_value) > 10 AND _offset >= 21",
        "SELECT _offset, _value FROM t ORDER BY _offset",
        &last,
        "SELECT _offset FROM t WHERE _key = 'k3' LIMIT 100000",
        "SELECT count(*) FROM t WHERE _key = 'k3'",
        "SELECT count(*) FROM t",
        "SELECT _offset, ts FROM t ORDER BY ts DESC LIMIT 2500",
    ] {
        for when in [When::BeforePlanning, When::BeforeTheFirstRow, When::AfterSomeRows] {
            for target_partitions in [1, 4] {
                check(sql, target_partitions, when).await;
            }
        }
    }
}

#[tokio::test]
async fn a_slice_is_read_in_pieces_although_its_index_may_be_another_one() {
    let owner = sliced().await;
    let mut reader = owner.read_back().await;
    reader.target_partitions = 4;
    let plan = reader.plan("SELECT _value FROM t").await;
    assert!(plan.contains("LogScan"), "{plan}");
    let scan =
        reader.session().sql("SELECT _value FROM t").await.unwrap().create_physical_plan().await.unwrap();
    let partitions = scan.properties().partitioning.partition_count();
    let mut with_rows = 0;
    for partition in 0..partitions {
        let mut stream = scan.execute(partition, reader.session().task_ctx()).unwrap();
        with_rows += usize::from(stream.next().await.is_some());
    }
    assert_eq!(with_rows, 4, "three slices and a tail are read in as many parts as are asked for");
}

#[tokio::test]
async fn rows_that_were_deleted_meanwhile_fail_the_statement_and_no_other() {
    let owner = sliced().await;
    let reader = owner.read_back().await;
    let start = BATCHES_PER_SLICE * RECORDS_PER_BATCH + 7;
    owner.delete_records(0, start).await;
    let all = "SELECT _offset FROM t";
    let error = rows(&reader, &owner, all, When::BeforePlanning).await.unwrap_err().to_string();
    assert!(error.contains("deleted or cleaned") && error.contains("run the statement again"), "{error}");
    let rest =
        reader.query(&format!("SELECT _offset FROM t WHERE _offset >= {start} ORDER BY _offset")).await;
    assert_eq!(integers(&rest, 0), (start..ROWS).map(Some).collect::<Vec<_>>());
}
