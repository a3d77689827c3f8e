//! `strandline.topics`: one row per topic.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int32Array, Int64Array, StringArray};
use datafusion::arrow::datatypes::Field;
use strandline_storage::log::Topic;
use strandline_storage::table::ColumnFormat;

use super::{SystemContext, bigint, count, integer, text, time, times};
use crate::catalog::schema_of_topic;

pub(super) fn fields() -> Vec<Field> {
    vec![
        text("topic"),
        text("schema"),
        text("topic_id"),
        integer("partitions"),
        text("key_format"),
        text("value_format"),
        bigint("payload_columns"),
        bigint("records"),
        bigint("size_bytes"),
        time("created_at"),
    ]
}

pub(super) fn rows(context: &SystemContext) -> Vec<ArrayRef> {
    let relations = &context.relations;
    let topics: Vec<_> = relations.topics().cloned().collect();
    let columns: Vec<_> = topics.iter().map(|topic| relations.topic_columns(topic)).collect();
    let sizes: Vec<_> = topics.iter().map(|topic| size(context, topic)).collect();
    vec![
        Arc::new(StringArray::from_iter_values(topics.iter().map(|topic| topic.name.as_str()))),
        Arc::new(StringArray::from_iter_values(topics.iter().map(|topic| schema_of_topic(&topic.name)))),
        Arc::new(StringArray::from_iter_values(topics.iter().map(|topic| topic.id.to_string()))),
        Arc::new(Int32Array::from_iter_values(topics.iter().map(|topic| topic.partition_count))),
        Arc::new(StringArray::from_iter_values(columns.iter().map(|it| format_name(it.key_format)))),
        Arc::new(StringArray::from_iter_values(columns.iter().map(|it| format_name(it.value_format)))),
        Arc::new(Int64Array::from_iter_values(columns.iter().map(|it| count(it.columns.len() as u64)))),
        Arc::new(Int64Array::from_iter_values(sizes.iter().map(|(records, _)| *records))),
        Arc::new(Int64Array::from_iter_values(sizes.iter().map(|(_, bytes)| *bytes))),
        times(topics.iter().map(|topic| topic.created_at_ms)),
    ]
}

fn format_name(format: ColumnFormat) -> &'static str {
    match format {
        ColumnFormat::Json => "json",
        ColumnFormat::Text => "text",
        ColumnFormat::Bytes => "bytes",
    }
}

/// Records and bytes of the topic.
fn size(context: &SystemContext, topic: &Topic) -> (i64, i64) {
    let views = topic.partitions().filter_map(|partition| context.relations.snapshot.partition(partition));
    views.fold((0, 0), |(records, bytes), view| {
        (records + count(view.record_count()), bytes + count(view.size_bytes()))
    })
}
