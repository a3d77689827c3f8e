//! Records of a catalog as an Arrow batch. A column that a record does not name has what "nothing"
//! is in its type: false, 0, the empty "char", NULL for text and lists.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float32Array, Int16Array, Int32Array, Int64Array, StringArray, UInt32Array,
    new_null_array,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};

use crate::pg_type::{PgType, TYPE_METADATA_KEY};

/// The value of one column.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    Null,
    Bool(bool),
    Number(i64),
    Text(String),
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i32> for Cell {
    fn from(value: i32) -> Self {
        Self::Number(value.into())
    }
}

impl From<u32> for Cell {
    fn from(value: u32) -> Self {
        Self::Number(value.into())
    }
}

impl From<i16> for Cell {
    fn from(value: i16) -> Self {
        Self::Number(value.into())
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

/// One row, by the names of the columns that it fills.
pub(super) type Record = Vec<(&'static str, Cell)>;

/// The batch of records with these columns.
pub(super) fn build(columns: &[(&'static str, PgType)], records: &[Record]) -> RecordBatch {
    let fields: Vec<Field> = columns.iter().map(|(name, pg_type)| field(name, *pg_type)).collect();
    let arrays = columns.iter().map(|(name, pg_type)| array(name, *pg_type, records)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(records.len()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .expect("each array was built for its field, with one value per record")
}

fn field(name: &str, pg_type: PgType) -> Field {
    let field = Field::new(name, arrow_type(pg_type), true);
    if PgType::of_field(&field) == pg_type {
        return field;
    }
    field.with_metadata([(TYPE_METADATA_KEY.to_owned(), pg_type.name().to_owned())].into())
}

fn arrow_type(pg_type: PgType) -> DataType {
    match pg_type {
        PgType::Bool => DataType::Boolean,
        PgType::Int2 => DataType::Int16,
        PgType::Int4 => DataType::Int32,
        PgType::Int8 => DataType::Int64,
        PgType::Float4 => DataType::Float32,
        PgType::Oid | PgType::Regclass | PgType::Regtype => DataType::UInt32,
        PgType::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        PgType::Int2Vector | PgType::Int2Array => DataType::new_list(DataType::Int16, true),
        PgType::OidVector | PgType::OidArray => DataType::new_list(DataType::UInt32, true),
        other if other.element().is_some() => DataType::new_list(DataType::Utf8, true),
        _ => DataType::Utf8,
    }
}

fn array(name: &str, pg_type: PgType, records: &[Record]) -> ArrayRef {
    let cells = records.iter().map(|record| cell(name, record));
    match pg_type {
        PgType::Bool => Arc::new(BooleanArray::from_iter(cells.map(|cell| truth(cell)))),
        PgType::Int2 => Arc::new(
            cells
                .map(|cell| number(cell).and_then(|number| i16::try_from(number).ok()))
                .collect::<Int16Array>(),
        ),
        PgType::Int4 => Arc::new(
            cells
                .map(|cell| number(cell).and_then(|number| i32::try_from(number).ok()))
                .collect::<Int32Array>(),
        ),
        PgType::Int8 => Arc::new(cells.map(number).collect::<Int64Array>()),
        // Row counts and costs: small whole numbers here.
        PgType::Float4 => {
            Arc::new(cells.map(|cell| number(cell).map(|number| number as f32)).collect::<Float32Array>())
        }
        PgType::Oid | PgType::Regclass | PgType::Regtype => Arc::new(
            cells
                .map(|cell| number(cell).and_then(|number| u32::try_from(number).ok()))
                .collect::<UInt32Array>(),
        ),
        PgType::Timestamptz => new_null_array(&arrow_type(pg_type), records.len()),
        other if other.element().is_some() => new_null_array(&arrow_type(pg_type), records.len()),
        other => Arc::new(cells.map(|cell| text(cell, other)).collect::<StringArray>()),
    }
}

/// What a record says about a column; `None` when it says nothing.
fn cell<'r>(name: &str, record: &'r Record) -> Option<&'r Cell> {
    record.iter().find(|(column, _)| *column == name).map(|(_, cell)| cell)
}

fn truth(cell: Option<&Cell>) -> Option<bool> {
    match cell {
        None => Some(false),
        Some(Cell::Bool(value)) => Some(*value),
        Some(_) => None,
    }
}

fn number(cell: Option<&Cell>) -> Option<i64> {
    match cell {
        None => Some(0),
        Some(Cell::Number(value)) => Some(*value),
        Some(_) => None,
    }
}

fn text(cell: Option<&Cell>, pg_type: PgType) -> Option<&str> {
    match cell {
        None if pg_type == PgType::Char => Some(""),
        Some(Cell::Text(value)) => Some(value),
        _ => None,
    }
}
