//! The columns of a topic: the system columns, which come first and never move, then those of the
//! payload.
//!
//! Invariant: [`SystemColumn::ALL`] is in the order of the columns, so that the position of a system
//! column in the table is its number.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};

use super::decoder::PayloadDecoder;

/// The key of a field's metadata that says more of a type than Arrow does.
pub const TYPE_METADATA_KEY: &str = "strandline.type";
/// The field holds JSON text.
pub const JSON_TYPE: &str = "json";
/// The field holds the headers of a record: a list of keys and values.
pub const HEADERS_TYPE: &str = "headers";

/// What a key or a value is shown as. Formats that only a decoder understands come as `Bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnFormat {
    Json,
    Text,
    Bytes,
}

/// A column that every topic has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub enum SystemColumn {
    /// The record's timestamp; null when it has none.
    Timestamp,
    Partition,
    Offset,
    Key,
    Value,
    Headers,
    /// When the record was committed.
    AppendTimestamp,
    KeyBytes,
    ValueBytes,
    /// Why the value did not decode; null when it did.
    Error,
}

impl SystemColumn {
    pub const ALL: [Self; 10] = [
        Self::Timestamp,
        Self::Partition,
        Self::Offset,
        Self::Key,
        Self::Value,
        Self::Headers,
        Self::AppendTimestamp,
        Self::KeyBytes,
        Self::ValueBytes,
        Self::Error,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Timestamp => "ts",
            Self::Partition => "_partition",
            Self::Offset => "_offset",
            Self::Key => "_key",
            Self::Value => "_value",
            Self::Headers => "_headers",
            Self::AppendTimestamp => "_append_ts",
            Self::KeyBytes => "_key_bytes",
            Self::ValueBytes => "_value_bytes",
            Self::Error => "_error",
        }
    }

    /// The position of the column in the table.
    pub fn index(self) -> usize {
        self as usize
    }

    pub(super) fn from_index(index: usize) -> Option<Self> {
        Self::ALL.get(index).copied()
    }

    /// The column has a range in the block index.
    pub(super) fn is_indexed(self) -> bool {
        matches!(self, Self::Timestamp | Self::Partition | Self::Offset | Self::AppendTimestamp)
    }
}

/// The type of the timestamps of records: milliseconds, as in Kafka.
pub(super) fn timestamp_type() -> DataType {
    DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()))
}

/// The fields of one header: its key, lossy where it is not UTF-8, and its exact value.
pub(super) fn header_fields() -> Fields {
    Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Binary, true)])
}

/// The field of the items of `_headers`.
pub(super) fn header_item() -> FieldRef {
    Arc::new(Field::new("item", DataType::Struct(header_fields()), false))
}

/// The system columns in order, for a topic with these formats.
pub fn system_columns(key_format: ColumnFormat, value_format: ColumnFormat) -> Vec<FieldRef> {
    SystemColumn::ALL.map(|column| Arc::new(field(column, key_format, value_format))).into()
}

fn field(column: SystemColumn, key_format: ColumnFormat, value_format: ColumnFormat) -> Field {
    let name = column.name();
    match column {
        SystemColumn::Timestamp => Field::new(name, timestamp_type(), true),
        SystemColumn::Partition => Field::new(name, DataType::Int32, false),
        SystemColumn::Offset => Field::new(name, DataType::Int64, false),
        SystemColumn::Key => shown(name, key_format),
        SystemColumn::Value => shown(name, value_format),
        SystemColumn::Headers => marked(Field::new(name, DataType::List(header_item()), false), HEADERS_TYPE),
        SystemColumn::AppendTimestamp => Field::new(name, timestamp_type(), false),
        SystemColumn::KeyBytes | SystemColumn::ValueBytes => Field::new(name, DataType::BinaryView, true),
        SystemColumn::Error => Field::new(name, DataType::Utf8View, true),
    }
}

fn shown(name: &str, format: ColumnFormat) -> Field {
    match format {
        ColumnFormat::Json => marked(Field::new(name, DataType::Utf8View, true), JSON_TYPE),
        ColumnFormat::Text => Field::new(name, DataType::Utf8View, true),
        ColumnFormat::Bytes => Field::new(name, DataType::BinaryView, true),
    }
}

fn marked(field: Field, kind: &str) -> Field {
    field.with_metadata(HashMap::from([(TYPE_METADATA_KEY.to_owned(), kind.to_owned())]))
}

/// The columns of one topic, and what builds those of its payload.
#[derive(Debug)]
pub(super) struct TableLayout {
    pub(super) schema: SchemaRef,
    pub(super) key_format: ColumnFormat,
    pub(super) value_format: ColumnFormat,
    pub(super) decoder: Option<Arc<dyn PayloadDecoder>>,
}

impl TableLayout {
    pub(super) fn new(
        key_format: ColumnFormat,
        value_format: ColumnFormat,
        decoder: Option<Arc<dyn PayloadDecoder>>,
    ) -> Self {
        let mut fields = system_columns(key_format, value_format);
        if let Some(decoder) = &decoder {
            fields.extend(decoder.fields().iter().cloned());
        }
        Self { schema: Arc::new(Schema::new(fields)), key_format, value_format, decoder }
    }

    /// The decoder's number of a table column that is not a system column.
    pub(super) fn payload_index(column: usize) -> Option<usize> {
        column.checked_sub(SystemColumn::ALL.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_columns_stand_at_their_numbers() {
        let fields = system_columns(ColumnFormat::Text, ColumnFormat::Json);
        for column in SystemColumn::ALL {
            assert_eq!(fields[column.index()].name(), column.name());
            assert_eq!(SystemColumn::from_index(column.index()), Some(column));
        }
        assert_eq!(fields.len(), SystemColumn::ALL.len());
    }

    #[test]
    fn formats_decide_the_types_of_key_and_value() {
        let fields = system_columns(ColumnFormat::Bytes, ColumnFormat::Json);
        assert_eq!(fields[SystemColumn::Key.index()].data_type(), &DataType::BinaryView);
        let value = &fields[SystemColumn::Value.index()];
        assert_eq!(value.data_type(), &DataType::Utf8View);
        assert_eq!(value.metadata()[TYPE_METADATA_KEY], JSON_TYPE);
    }
}
