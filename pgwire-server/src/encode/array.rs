//! One-dimensional arrays: `{1,NULL,"a b"}` and array_send's form. Lists of lists and of structs
//! have no array type here; the caller shows them as JSON.

use std::ops::Range;

use bytes::{BufMut, BytesMut};
use datafusion::arrow::datatypes::DataType;
use strandline_sql::PgType;

use super::cell::Column;
use super::{EncodeError, Format, TextStyle, WireColumn, text, write_value};

/// One array value: a range of a column of elements.
pub(crate) struct ArrayValue<'a> {
    items: &'a Column,
    rows: Range<usize>,
    pg_type: PgType,
    element: PgType,
}

impl<'a> ArrayValue<'a> {
    /// None when `pg_type` is no array that can hold the elements.
    pub(crate) fn new(items: &'a Column, rows: Range<usize>, pg_type: PgType) -> Option<Self> {
        let element = pg_type.element().filter(|_| !items.arrow_type().is_nested())?;
        Some(Self { items, rows, pg_type, element })
    }
}

/// Whether a column of this Arrow type is sent as JSON whatever its type says, because no array
/// type holds nested elements.
pub(crate) fn is_nested_list(arrow_type: &DataType) -> bool {
    match arrow_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _) => field.data_type().is_nested(),
        _ => false,
    }
}

/// int2vector and oidvector: elements from 0 on, printed with spaces and no braces.
fn is_vector(pg_type: PgType) -> bool {
    matches!(pg_type, PgType::Int2Vector | PgType::OidVector)
}

pub(crate) fn write_text(
    array: &ArrayValue<'_>,
    style: &TextStyle,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    let ArrayValue { items, rows, pg_type, element } = array;
    let vector = is_vector(*pg_type);
    if !vector {
        out.put_u8(b'{');
    }
    for row in rows.clone() {
        if row > rows.start {
            out.put_u8(if vector { b' ' } else { b',' });
        }
        match items.cell(row) {
            None => out.put_slice(b"NULL"),
            Some(cell) => {
                let start = out.len();
                text::write(&cell, *element, style, out)?;
                quote_from(start, out);
            }
        }
    }
    if !vector {
        out.put_u8(b'}');
    }
    Ok(())
}

/// Puts quotes around what was written from `start` on, where array_in would read it otherwise.
fn quote_from(start: usize, out: &mut BytesMut) {
    let value = &out[start..];
    let is_special = |byte: &u8| {
        matches!(byte, b'{' | b'}' | b',' | b'"' | b'\\' | b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
    };
    let needs_quotes =
        value.is_empty() || value.eq_ignore_ascii_case(b"null") || value.iter().any(is_special);
    if !needs_quotes {
        return;
    }
    let value = out.split_off(start);
    out.put_u8(b'"');
    for byte in value {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(b'\\');
        }
        out.put_u8(byte);
    }
    out.put_u8(b'"');
}

pub(crate) fn write_binary(
    array: &ArrayValue<'_>,
    style: &TextStyle,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    let ArrayValue { items, rows, pg_type, element } = array;
    let has_nulls = rows.clone().any(|row| items.cell(row).is_none());
    out.put_i32(i32::from(!rows.is_empty()));
    out.put_i32(i32::from(has_nulls));
    out.put_u32(element.oid());
    if rows.is_empty() {
        return Ok(());
    }
    out.put_i32(i32::try_from(rows.len()).expect("Arrow list offsets are i32"));
    out.put_i32(if is_vector(*pg_type) { 0 } else { 1 });
    let wire = WireColumn { pg_type: *element, format: Format::Binary };
    rows.clone().try_for_each(|row| write_value(items.cell(row), wire, style, out))
}
