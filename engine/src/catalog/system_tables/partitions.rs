//! `strandline.partitions`: one row per partition, with its bounds.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int32Array, Int64Array, StringArray};
use datafusion::arrow::datatypes::Field;
use strandline_storage::log::Bounds;

use super::{SystemContext, bigint, count, integer, text};

struct Row {
    topic: String,
    partition: i32,
    bounds: Bounds,
    blocks: i64,
    size_bytes: i64,
}

pub(super) fn fields() -> Vec<Field> {
    vec![
        text("topic"),
        integer("partition"),
        bigint("log_start_offset"),
        bigint("last_stable_offset"),
        bigint("high_watermark"),
        integer("leader_epoch"),
        bigint("blocks"),
        bigint("size_bytes"),
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
        bigints(|row| row.blocks),
        bigints(|row| row.size_bytes),
    ]
}

fn collect(context: &SystemContext) -> Vec<Row> {
    let snapshot = &context.relations.snapshot;
    let mut rows = Vec::new();
    for topic in snapshot.topics() {
        let views = topic.partitions().filter_map(|partition| snapshot.partition(partition));
        rows.extend(views.map(|view| Row {
            topic: topic.name.clone(),
            partition: view.topic_partition().partition,
            bounds: view.bounds(),
            blocks: count(view.blocks().len() as u64),
            size_bytes: count(view.size_bytes()),
        }));
    }
    rows
}
