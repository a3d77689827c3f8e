//! Keys and values as Arrow views.
//!
//! Bytes are shared with the batch that they came in when most of it is wanted, and copied when
//! little of it is: a view keeps its whole buffer in memory.
//!
//! Invariant: a null stays null and an empty one empty; text is always valid UTF-8.

use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::array::builder::GenericByteViewBuilder;
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::datatypes::{BinaryViewType, ByteViewType, StringViewType};

use super::rows::Row;
use crate::format::Records;

/// Buffers below this length are not worth sharing: the bytes cost less than the bookkeeping.
const SHARED_LENGTH_MIN: usize = 4096;
/// Arrow's views count bytes in 32 bits.
const SHARED_LENGTH_MAX: usize = i32::MAX as usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteField {
    Key,
    Value,
}

impl ByteField {
    fn range(self, row: &Row<'_>) -> Option<Range<usize>> {
        match self {
            Self::Key => row.record.key_range(),
            Self::Value => row.record.value_range(),
        }
    }
}

/// The exact bytes.
pub(super) fn bytes_column(rows: &[&Row<'_>], field: ByteField) -> ArrayRef {
    view_column::<BinaryViewType>(rows, field, |builder, bytes| builder.append_value(bytes))
}

/// The bytes as text, each sequence that is not UTF-8 replaced by U+FFFD.
pub(super) fn text_column(rows: &[&Row<'_>], field: ByteField) -> ArrayRef {
    view_column::<StringViewType>(rows, field, |builder, bytes| {
        builder.append_value(String::from_utf8_lossy(bytes));
    })
}

fn view_column<T: ByteViewType>(
    rows: &[&Row<'_>],
    field: ByteField,
    append: impl Fn(&mut GenericByteViewBuilder<T>, &[u8]),
) -> ArrayRef {
    let mut builder = GenericByteViewBuilder::<T>::with_capacity(rows.len());
    let mut rest = rows;
    while let Some(first) = rest.first() {
        let (same_batch, others) = rest.split_at(run_length(rest));
        append_batch(&mut builder, first.records, same_batch, field, &append);
        rest = others;
    }
    Arc::new(builder.finish())
}

/// How many of the first rows stand in one batch.
fn run_length(rows: &[&Row<'_>]) -> usize {
    rows.iter().take_while(|row| ptr::eq(row.records, rows[0].records)).count()
}

fn append_batch<T: ByteViewType>(
    builder: &mut GenericByteViewBuilder<T>,
    records: &Records,
    rows: &[&Row<'_>],
    field: ByteField,
    append: impl Fn(&mut GenericByteViewBuilder<T>, &[u8]),
) {
    let buffer = records.buffer();
    let shared = is_worth_sharing(buffer.len(), rows, field)
        .then(|| builder.append_block(Buffer::from(buffer.clone())));
    for row in rows {
        let Some(range) = field.range(row) else {
            builder.append_null();
            continue;
        };
        let view = shared.and_then(|block| {
            let (position, length) = (u32::try_from(range.start).ok()?, u32::try_from(range.len()).ok()?);
            builder.try_append_view(block, position, length).ok()
        });
        if view.is_none() {
            append(builder, &buffer[range]);
        }
    }
}

fn is_worth_sharing(length: usize, rows: &[&Row<'_>], field: ByteField) -> bool {
    let wanted = || rows.iter().filter_map(|row| field.range(row)).map(|range| range.len()).sum::<usize>();
    (SHARED_LENGTH_MIN..=SHARED_LENGTH_MAX).contains(&length) && wanted() >= length / 2
}
