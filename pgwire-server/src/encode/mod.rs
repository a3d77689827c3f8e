//! Arrow columns to Postgres DataRow messages, in the text and the binary format.
//!
//! Owns: what each type looks like on the wire. A column is read once per batch into a [`Column`],
//! each value is a [`Cell`], and the Postgres type that Describe named decides how the cell is
//! written; so the formats grow as M readers + N writers, not M x N.
//!
//! Invariant: a row that cannot be written leaves nothing behind in the buffer.
//! Pure: no async, clock or environment; knows nothing of connections.

mod array;
mod binary;
mod cell;
mod datetime;
mod float;
mod json;
mod numeric;
mod record;
mod text;

use bytes::{BufMut, BytesMut};
use datafusion::arrow::record_batch::RecordBatch;
use strandline_sql::PgType;

pub(crate) use array::is_nested_list;
use cell::Cell;
pub(crate) use cell::Column;
pub(crate) use datetime::{PgTimestamp, TimeZone, UNIX_TO_POSTGRES_DAYS};

/// The two representations that a client may ask for, per column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Binary,
}

impl Format {
    pub(crate) fn code(self) -> i16 {
        match self {
            Self::Text => 0,
            Self::Binary => 1,
        }
    }
}

/// The session settings that the text format depends on.
#[derive(Clone, Debug)]
pub(crate) struct TextStyle {
    pub(crate) zone: TimeZone,
    /// `extra_float_digits`: above 0 is the shortest text that reads back as the same number.
    pub(crate) float_digits: i32,
}

impl Default for TextStyle {
    fn default() -> Self {
        Self { zone: TimeZone::utc(), float_digits: 1 }
    }
}

/// Why a value cannot be written as the type that was described.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum EncodeError {
    #[error("value {value} is out of range for type {pg_type}")]
    OutOfRange { value: String, pg_type: String },
    #[error("a value of type {arrow} cannot be sent as type {pg_type}")]
    Unsupported { arrow: String, pg_type: String },
    #[error("a row of {size} bytes is larger than the protocol's bound of {max} bytes")]
    RowTooLarge { size: usize, max: usize },
}

/// One output column: the type that was described and the format that the client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WireColumn {
    pub(crate) pg_type: PgType,
    pub(crate) format: Format,
}

/// libpq refuses messages from about 1 GiB on.
const ROW_BYTES_MAX: usize = 0x3fff_ffff;

/// A batch whose columns have been read and whose rows can be written one by one.
#[derive(Debug)]
pub(crate) struct EncodableBatch {
    columns: Vec<(Column, WireColumn)>,
    row_count: usize,
}

impl EncodableBatch {
    /// # Errors
    /// When a column's Arrow type has no form on the wire.
    pub(crate) fn new(batch: &RecordBatch, layout: &[WireColumn]) -> Result<Self, EncodeError> {
        let columns = batch
            .columns()
            .iter()
            .zip(layout)
            .map(|(array, wire)| Ok((Column::read(array)?, *wire)))
            .collect::<Result<_, EncodeError>>()?;
        Ok(Self { columns, row_count: batch.num_rows() })
    }

    pub(crate) fn row_count(&self) -> usize {
        self.row_count
    }

    /// Appends row `row` to `out` as one DataRow message.
    pub(crate) fn write_row(
        &self,
        row: usize,
        style: &TextStyle,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let start = out.len();
        let written = self.try_write_row(row, style, out);
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    fn try_write_row(&self, row: usize, style: &TextStyle, out: &mut BytesMut) -> Result<(), EncodeError> {
        out.put_u8(b'D');
        let message = out.len();
        out.put_i32(0);
        let count = u16::try_from(self.columns.len()).expect("Describe bounds the column count");
        out.put_u16(count);
        for (column, wire) in &self.columns {
            write_value(column.cell(row), *wire, style, out)?;
        }
        patch_length(out, message, out.len() - message)
    }
}

/// Writes the length-prefixed value, or -1 for NULL.
fn write_value(
    cell: Option<Cell<'_>>,
    wire: WireColumn,
    style: &TextStyle,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    let Some(cell) = cell else {
        out.put_i32(-1);
        return Ok(());
    };
    let length_at = out.len();
    out.put_i32(0);
    match wire.format {
        Format::Text => text::write(&cell, wire.pg_type, style, out)?,
        Format::Binary => binary::write(&cell, wire.pg_type, style, out)?,
    }
    patch_length(out, length_at, out.len() - length_at - 4)
}

fn patch_length(out: &mut BytesMut, at: usize, length: usize) -> Result<(), EncodeError> {
    if length > ROW_BYTES_MAX {
        return Err(EncodeError::RowTooLarge { size: length, max: ROW_BYTES_MAX });
    }
    let length = u32::try_from(length).expect("the bound fits u32");
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests;
