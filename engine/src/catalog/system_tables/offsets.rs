//! `strandline.consumer_offsets`: what consumer groups have committed, and how far behind they are.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int32Array, Int64Array, StringArray};
use datafusion::arrow::datatypes::{DataType, Field};
use strandline_storage::access::{Operation, ResourceKind};

use super::{SystemContext, bigint, integer, optional_text, text, time, times};

struct Row {
    group: String,
    topic: String,
    partition: i32,
    offset: i64,
    lag: Option<i64>,
    leader_epoch: i32,
    metadata: Option<String>,
    commit_time_ms: i64,
}

pub(super) fn fields() -> Vec<Field> {
    vec![
        text("group"),
        text("topic"),
        integer("partition"),
        bigint("offset"),
        Field::new("lag", DataType::Int64, true),
        integer("leader_epoch"),
        optional_text("metadata"),
        time("committed_at"),
    ]
}

pub(super) fn rows(context: &SystemContext) -> Vec<ArrayRef> {
    let rows = collect(context);
    vec![
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.group.as_str()))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.topic.as_str()))),
        Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.partition))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.offset))),
        Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.lag))),
        Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.leader_epoch))),
        Arc::new(StringArray::from_iter(rows.iter().map(|row| row.metadata.as_deref()))),
        times(rows.iter().map(|row| row.commit_time_ms)),
    ]
}

fn collect(context: &SystemContext) -> Vec<Row> {
    let snapshot = &context.relations.snapshot;
    let grants = context.relations.grants();
    let mut rows = Vec::new();
    for group in snapshot.groups().filter(|group| grants.may(Operation::Describe, ResourceKind::Group, group))
    {
        for (topic_partition, committed) in snapshot.group_offsets(group) {
            let Some(topic) = snapshot.topic_by_id(topic_partition.topic_id) else { continue };
            if !grants.shows_topic(&topic.name) {
                continue;
            }
            let high_watermark = snapshot.partition(topic_partition).map(|view| view.bounds().high_watermark);
            rows.push(Row {
                group: group.to_owned(),
                topic: topic.name.clone(),
                partition: topic_partition.partition,
                offset: committed.offset,
                lag: high_watermark.map(|end| (end - committed.offset).max(0)),
                leader_epoch: committed.leader_epoch,
                metadata: committed.metadata.clone(),
                commit_time_ms: committed.commit_time_ms,
            });
        }
    }
    rows
}
