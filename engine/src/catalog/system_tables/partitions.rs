//! `strandline.partitions`: one row per partition, with its bounds and what its records are in.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int32Array, Int64Array, StringArray};
use datafusion::arrow::datatypes::Field;
use strandline_storage::log::{Bounds, PartitionView};

use super::{SystemContext, bigint, counts, integer, optional_time, optional_times, text};

struct Row {
    topic: String,
    partition: i32,
    bounds: Bounds,
    segments: u64,
    blocks: u64,
    tail_blocks: u64,
    size_bytes: u64,
    tail_bytes: u64,
    timestamps: Option<(i64, i64)>,
}

pub(super) fn fields() -> Vec<Field> {
    vec![
        text("topic"),
        integer("partition"),
        bigint("log_start_offset"),
        bigint("last_stable_offset"),
        bigint("high_watermark"),
        integer("leader_epoch"),
        bigint("segment_count"),
        bigint("blocks"),
        bigint("tail_blocks"),
        bigint("size_bytes"),
        bigint("tail_bytes"),
        optional_time("min_ts"),
        optional_time("max_ts"),
    ]
}

pub(super) fn rows(context: &SystemContext) -> Vec<ArrayRef> {
    let rows = collect(context);
    let bigints =
        |of: fn(&Row) -> i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values(rows.iter().map(of))) };
    let integers =
        |of: fn(&Row) -> i32| -> ArrayRef { Arc::new(Int32Array::from_iter_values(rows.iter().map(of))) };
    vec![
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.topic.as_str()))),
        integers(|row| row.partition),
        bigints(|row| row.bounds.log_start_offset),
        bigints(|row| row.bounds.last_stable_offset),
        bigints(|row| row.bounds.high_watermark),
        integers(|row| row.bounds.leader_epoch),
        counts(rows.iter().map(|row| row.segments)),
        counts(rows.iter().map(|row| row.blocks)),
        counts(rows.iter().map(|row| row.tail_blocks)),
        counts(rows.iter().map(|row| row.size_bytes)),
        counts(rows.iter().map(|row| row.tail_bytes)),
        optional_times(rows.iter().map(|row| row.timestamps.map(|(min, _)| min))),
        optional_times(rows.iter().map(|row| row.timestamps.map(|(_, max)| max))),
    ]
}

fn collect(context: &SystemContext) -> Vec<Row> {
    let snapshot = &context.relations.snapshot;
    let mut rows = Vec::new();
    for topic in context.relations.topics() {
        let views = topic.partitions().filter_map(|partition| snapshot.partition(partition));
        rows.extend(views.map(|view| row(&topic.name, &view)));
    }
    rows
}

fn row(topic: &str, view: &PartitionView) -> Row {
    let slice_blocks = view.slices().filter_map(|slice| slice.slice.location()).map(|it| it.block_count());
    let tail_blocks = view.tail().len() as u64;
    Row {
        topic: topic.to_owned(),
        partition: view.topic_partition().partition,
        bounds: view.bounds(),
        segments: view.slices().len() as u64,
        blocks: slice_blocks.map(u64::from).sum::<u64>() + tail_blocks,
        tail_blocks,
        size_bytes: view.size_bytes(),
        tail_bytes: view.tail().map(|block| u64::from(block.length)).sum(),
        timestamps: timestamps(view),
    }
}

/// The bounds of time of all slices and blocks: those of deleted records that share one with records
/// that are there are in them.
fn timestamps(view: &PartitionView) -> Option<(i64, i64)> {
    let slices = view.slices().map(|slice| (slice.slice.min_timestamp, slice.slice.max_timestamp));
    let blocks = view.tail().map(|block| (block.min_timestamp, block.max_timestamp));
    let known = slices.chain(blocks).filter(|(_, max)| *max >= 0);
    known.reduce(|all, next| (all.0.min(next.0), all.1.max(next.1)))
}
