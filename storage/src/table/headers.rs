//! The headers of records as lists of key and value, in order and with repeats.

use std::sync::Arc;

use datafusion::arrow::array::builder::{BinaryBuilder, StringBuilder};
use datafusion::arrow::array::{ArrayRef, ListArray, StructArray};
use datafusion::arrow::buffer::OffsetBuffer;

use super::columns::{header_fields, header_item};
use crate::format::RecordHeaders;

/// One list for each record, empty when it has no headers. Values are exact and may be null; keys
/// are text in Kafka, so one that is not UTF-8 is shown lossy.
pub(super) fn headers_column<'a>(records: impl Iterator<Item = RecordHeaders<'a>>) -> ArrayRef {
    let (mut keys, mut values, mut lengths) = (StringBuilder::new(), BinaryBuilder::new(), Vec::new());
    for headers in records {
        lengths.push(headers.len());
        for (key, value) in headers.iter() {
            keys.append_value(String::from_utf8_lossy(key));
            values.append_option(value);
        }
    }
    let columns: Vec<ArrayRef> = vec![Arc::new(keys.finish()), Arc::new(values.finish())];
    let items = StructArray::new(header_fields(), columns, None);
    Arc::new(ListArray::new(header_item(), OffsetBuffer::from_lengths(lengths), Arc::new(items), None))
}
