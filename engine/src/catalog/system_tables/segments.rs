//! `strandline.segments`: one row per slice, the range of offsets of one partition in one segment.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, Int32Array, Int64Array, StringArray};
use datafusion::arrow::datatypes::{DataType, Field};
use strandline_storage::format::Slice;

use super::{SystemContext, bigint, counts, integer, optional_time, optional_times, text};

struct Row {
    topic: String,
    object: String,
    slice: Slice,
}

pub(super) fn fields() -> Vec<Field> {
    vec![
        text("topic"),
        integer("partition"),
        text("object"),
        bigint("base_offset"),
        bigint("next_offset"),
        bigint("records"),
        bigint("blocks"),
        bigint("size_bytes"),
        optional_time("min_ts"),
        optional_time("max_ts"),
        Field::new("lost", DataType::Boolean, false),
    ]
}

pub(super) fn rows(context: &SystemContext) -> Vec<ArrayRef> {
    let rows = collect(context);
    let slices = || rows.iter().map(|row| &row.slice);
    let blocks = |slice: &Slice| slice.location().map_or(0, |location| location.block_count().into());
    let known = |timestamp: i64| (timestamp >= 0).then_some(timestamp);
    vec![
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.topic.as_str()))),
        Arc::new(Int32Array::from_iter_values(slices().map(|slice| slice.topic_partition.partition))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.object.as_str()))),
        Arc::new(Int64Array::from_iter_values(slices().map(|slice| slice.base_offset))),
        Arc::new(Int64Array::from_iter_values(slices().map(|slice| slice.next_offset))),
        counts(slices().map(|slice| slice.data_count)),
        counts(slices().map(blocks)),
        counts(slices().map(Slice::data_length)),
        optional_times(slices().map(|slice| known(slice.max_timestamp).map(|_| slice.min_timestamp))),
        optional_times(slices().map(|slice| known(slice.max_timestamp))),
        Arc::new(BooleanArray::from_iter(slices().map(|slice| Some(slice.location().is_none())))),
    ]
}

fn collect(context: &SystemContext) -> Vec<Row> {
    let snapshot = &context.relations.snapshot;
    let mut rows = Vec::new();
    for topic in context.relations.topics() {
        for view in topic.partitions().filter_map(|partition| snapshot.partition(partition)) {
            rows.extend(view.slices().map(|installed| Row {
                topic: topic.name.clone(),
                object: view.slice_object(installed),
                slice: installed.slice.clone(),
            }));
        }
    }
    rows
}
