//! Nested values that no other type fits, as JSON text: record headers, maps, lists of structs.
//!
//! Bytes are shown as text with U+FFFD for what is not UTF-8, because header values are bytes that
//! people read as text; `header_bytes` has the exact ones.

use std::fmt::Write;

use bytes::{BufMut, BytesMut};
use serde::de::IgnoredAny;
use strandline_sql::PgType;

use super::cell::{Cell, Column};
use super::{EncodeError, TextStyle, text};

pub(crate) fn write(cell: &Cell<'_>, style: &TextStyle, out: &mut BytesMut) -> Result<(), EncodeError> {
    match cell {
        Cell::Bool(value) => out.put_slice(if *value { b"true" } else { b"false" }),
        Cell::Int(_) | Cell::UInt(_) | Cell::Numeric { .. } => {
            text::write(cell, PgType::Numeric, style, out)?;
        }
        Cell::Float4(value) if value.is_finite() => text::write(cell, PgType::Float4, style, out)?,
        Cell::Float8(value) if value.is_finite() => text::write(cell, PgType::Float8, style, out)?,
        Cell::Text(value) => write_string(value, out),
        Cell::Bytes(value) => write_string(&String::from_utf8_lossy(value), out),
        Cell::List { items, start, end } => write_array(items, *start..*end, style, out)?,
        Cell::Struct { fields, row } => write_object(fields, *row, style, out)?,
        Cell::Map { keys, values, start, end } => write_map((keys, values), *start..*end, style, out)?,
        Cell::Float4(_)
        | Cell::Float8(_)
        | Cell::Date(_)
        | Cell::Time(_)
        | Cell::Timestamp(_)
        | Cell::Interval(_) => {
            out.put_u8(b'"');
            text::write(cell, PgType::Timestamptz, style, out)?;
            out.put_u8(b'"');
        }
    }
    Ok(())
}

fn write_or_null(
    column: &Column,
    row: usize,
    style: &TextStyle,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    match column.cell(row) {
        Some(cell) => write(&cell, style, out),
        None => {
            out.put_slice(b"null");
            Ok(())
        }
    }
}

fn write_separator(is_first: bool, out: &mut BytesMut) {
    if !is_first {
        out.put_slice(b", ");
    }
}

fn write_array(
    items: &Column,
    rows: std::ops::Range<usize>,
    style: &TextStyle,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    out.put_u8(b'[');
    for row in rows.clone() {
        write_separator(row == rows.start, out);
        write_or_null(items, row, style, out)?;
    }
    out.put_u8(b']');
    Ok(())
}

fn write_object(
    fields: &[(String, Column)],
    row: usize,
    style: &TextStyle,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    out.put_u8(b'{');
    for (index, (name, column)) in fields.iter().enumerate() {
        write_separator(index == 0, out);
        write_string(name, out);
        out.put_slice(b": ");
        write_or_null(column, row, style, out)?;
    }
    out.put_u8(b'}');
    Ok(())
}

fn write_map(
    (keys, values): (&Column, &Column),
    rows: std::ops::Range<usize>,
    style: &TextStyle,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    out.put_u8(b'{');
    for row in rows.clone() {
        write_separator(row == rows.start, out);
        let mut key = BytesMut::new();
        if let Some(cell) = keys.cell(row) {
            text::write(&cell, PgType::Text, style, &mut key)?;
        }
        write_string(&String::from_utf8_lossy(&key), out);
        out.put_slice(b": ");
        write_or_null(values, row, style, out)?;
    }
    out.put_u8(b'}');
    Ok(())
}

/// JSON as it was written. Other text becomes a JSON string: a driver that reads one bad record would
/// lose the whole result.
pub(crate) fn write_text(value: &str, out: &mut BytesMut) {
    match serde_json::from_str::<IgnoredAny>(value) {
        Ok(_) => out.put_slice(value.as_bytes()),
        Err(_) => write_string(value, out),
    }
}

fn write_string(value: &str, out: &mut BytesMut) {
    out.put_u8(b'"');
    for character in value.chars() {
        match character {
            '"' => out.put_slice(b"\\\""),
            '\\' => out.put_slice(b"\\\\"),
            '\n' => out.put_slice(b"\\n"),
            '\r' => out.put_slice(b"\\r"),
            '\t' => out.put_slice(b"\\t"),
            control if control < ' ' => {
                write!(out, "\\u{:04x}", u32::from(control)).expect("a buffer takes any text");
            }
            other => out.put_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.put_u8(b'"');
}
