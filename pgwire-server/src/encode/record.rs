//! Composite values of no named type: `(1,"a b",)` and record_send's form.

use bytes::{BufMut, BytesMut};
use strandline_sql::PgType;

use super::cell::Column;
use super::{EncodeError, Format, TextStyle, WireColumn, text, write_value};

pub(crate) fn write_text(
    fields: &[(String, Column)],
    row: usize,
    style: &TextStyle,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    out.put_u8(b'(');
    for (index, (_, column)) in fields.iter().enumerate() {
        if index > 0 {
            out.put_u8(b',');
        }
        if let Some(cell) = column.cell(row) {
            let start = out.len();
            text::write(&cell, PgType::of_arrow(column.arrow_type()), style, out)?;
            quote_from(start, out);
        }
    }
    out.put_u8(b')');
    Ok(())
}

/// A record doubles quotes and backslashes, where an array escapes them.
fn quote_from(start: usize, out: &mut BytesMut) {
    let is_special =
        |byte: &u8| matches!(byte, b'(' | b')' | b',' | b'"' | b'\\') || byte.is_ascii_whitespace();
    if !out[start..].is_empty() && !out[start..].iter().any(is_special) {
        return;
    }
    let value = out.split_off(start);
    out.put_u8(b'"');
    for byte in value {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(byte);
        }
        out.put_u8(byte);
    }
    out.put_u8(b'"');
}

pub(crate) fn write_binary(
    fields: &[(String, Column)],
    row: usize,
    style: &TextStyle,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    out.put_i32(i32::try_from(fields.len()).expect("Arrow structs have few fields"));
    fields.iter().try_for_each(|(_, column)| {
        let pg_type = PgType::of_arrow(column.arrow_type());
        out.put_u32(pg_type.oid());
        write_value(column.cell(row), WireColumn { pg_type, format: Format::Binary }, style, out)
    })
}
