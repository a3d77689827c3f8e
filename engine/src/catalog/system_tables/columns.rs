//! `strandline.columns`: one row per payload column, with what did not fit its type, and one per
//! member that a system column hides.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, Int32Array, Int64Array, StringArray};
use datafusion::arrow::datatypes::{DataType, Field};

use super::{SystemContext, bigint, count, optional_text, text};
use crate::infer::TopicColumns;
use crate::infer::columns::{ColumnsOrigin, PayloadColumn, Pin};
use crate::infer::topic::Misfits;

struct Row {
    topic: String,
    column: String,
    column_type: Option<String>,
    is_pinned: bool,
    misfits: Misfits,
    note: Option<String>,
}

pub(super) fn fields() -> Vec<Field> {
    vec![
        text("topic"),
        text("column"),
        optional_text("type"),
        Field::new("pinned", DataType::Boolean, false),
        bigint("misfits"),
        Field::new("first_misfit_partition", DataType::Int32, true),
        Field::new("first_misfit_offset", DataType::Int64, true),
        optional_text("note"),
    ]
}

pub(super) fn rows(context: &SystemContext) -> Vec<ArrayRef> {
    let rows = collect(context);
    let partitions = rows.iter().map(|row| row.misfits.first.map(|(partition, _)| partition));
    let offsets = rows.iter().map(|row| row.misfits.first.map(|(_, offset)| offset));
    vec![
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.topic.as_str()))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.column.as_str()))),
        Arc::new(StringArray::from_iter(rows.iter().map(|row| row.column_type.as_deref()))),
        Arc::new(BooleanArray::from_iter(rows.iter().map(|row| Some(row.is_pinned)))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| count(row.misfits.count)))),
        Arc::new(Int32Array::from_iter(partitions)),
        Arc::new(Int64Array::from_iter(offsets)),
        Arc::new(StringArray::from_iter(rows.iter().map(|row| row.note.as_deref()))),
    ]
}

fn collect(context: &SystemContext) -> Vec<Row> {
    let relations = &context.relations;
    let mut rows = Vec::new();
    for topic in relations.topics() {
        let columns = relations.topic_columns(topic);
        rows.extend(columns.columns.iter().map(|column| column_row(&topic.name, column, &columns)));
        rows.extend(columns.shadowed.iter().map(|name| shadowed_row(&topic.name, name)));
        if columns.undecoded.count > 0 {
            rows.push(undecoded_row(&topic.name, columns.undecoded));
        }
    }
    rows
}

fn column_row(topic: &str, column: &PayloadColumn, columns: &TopicColumns) -> Row {
    let note = match columns.origin {
        ColumnsOrigin::Owner => None,
        ColumnsOrigin::Provisional => Some("inferred from a bounded number of records".to_owned()),
    };
    Row {
        topic: topic.to_owned(),
        column: column.name.clone(),
        column_type: Some(column.column_type.to_string()),
        is_pinned: column.pin == Pin::Pinned,
        misfits: column.misfits,
        note,
    }
}

fn shadowed_row(topic: &str, name: &str) -> Row {
    Row {
        topic: topic.to_owned(),
        column: name.to_owned(),
        column_type: None,
        is_pinned: false,
        misfits: Misfits::default(),
        note: Some(format!("hidden by the system column of this name; use _value ->> '{name}'")),
    }
}

fn undecoded_row(topic: &str, undecoded: Misfits) -> Row {
    Row {
        topic: topic.to_owned(),
        column: "_value".to_owned(),
        column_type: Some("json".to_owned()),
        is_pinned: true,
        misfits: undecoded,
        note: Some("values that are no JSON object; _error says why".to_owned()),
    }
}
