//! The text format: what psql prints for each value.

use std::fmt::Write;

use bytes::{BufMut, BytesMut};
use datafusion::arrow::datatypes::i256;
use strandline_sql::PgType;

use super::array::ArrayValue;
use super::cell::Cell;
use super::{EncodeError, TextStyle, array, datetime, float, json, numeric, record};

/// What stands for NUL, which no Postgres text can hold.
const REPLACEMENT: &str = "\u{fffd}";

pub(crate) fn write(
    cell: &Cell<'_>,
    pg_type: PgType,
    style: &TextStyle,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    match cell {
        Cell::Bool(value) => out.put_u8(if *value { b't' } else { b'f' }),
        Cell::Int(value) => write_display(value, out),
        Cell::UInt(value) => write_unsigned(*value, pg_type, out)?,
        Cell::Float4(value) => float::write_float4(*value, style.float_digits, out),
        Cell::Float8(value) => float::write_float8(*value, style.float_digits, out),
        Cell::Numeric { unscaled, scale } => numeric::Digits::new(*unscaled, *scale).write_text(out),
        Cell::Text(value) => write_text_as(value, pg_type, out),
        Cell::Bytes(value) => write_bytes_as(value, pg_type, out),
        Cell::Date(days) => datetime::write_date(*days, out),
        Cell::Time(micros) => datetime::write_time(*micros, out),
        Cell::Timestamp(value) => {
            value.write_text((pg_type == PgType::Timestamptz).then_some(&style.zone), out);
        }
        Cell::Interval(value) => value.write_text(out),
        Cell::List { items, start, end } => match ArrayValue::new(items, *start..*end, pg_type) {
            Some(value) => array::write_text(&value, style, out)?,
            None => json::write(cell, style, out)?,
        },
        Cell::Struct { fields, row } if pg_type == PgType::Record => {
            record::write_text(fields, *row, style, out)?;
        }
        Cell::Struct { .. } | Cell::Map { .. } => json::write(cell, style, out)?,
    }
    Ok(())
}

fn write_display(value: &impl std::fmt::Display, out: &mut BytesMut) {
    write!(out, "{value}").expect("a buffer takes any text");
}

/// An unsigned number that its signed type cannot hold must fail in both formats alike.
fn write_unsigned(value: u64, pg_type: PgType, out: &mut BytesMut) -> Result<(), EncodeError> {
    if pg_type == PgType::Int8 && i64::try_from(value).is_err() {
        return Err(EncodeError::OutOfRange {
            value: value.to_string(),
            pg_type: pg_type.display_name().to_owned(),
        });
    }
    write_display(&value, out);
    Ok(())
}

fn write_text_as(value: &str, pg_type: PgType, out: &mut BytesMut) {
    match pg_type {
        PgType::Bytea => write_hex(value.as_bytes(), out),
        PgType::Json | PgType::Jsonb => json::write_text(value, out),
        _ => write_clean(value, out),
    }
}

fn write_bytes_as(value: &[u8], pg_type: PgType, out: &mut BytesMut) {
    match (pg_type, <[u8; 16]>::try_from(value)) {
        (PgType::Uuid, Ok(uuid)) => write_uuid(uuid, out),
        _ => write_hex(value, out),
    }
}

/// Text without NUL: a client would take the rest for lost.
pub(crate) fn write_clean(value: &str, out: &mut BytesMut) {
    let mut parts = value.split('\0');
    out.put_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        out.put_slice(REPLACEMENT.as_bytes());
        out.put_slice(part.as_bytes());
    }
}

fn write_hex(value: &[u8], out: &mut BytesMut) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(2 + value.len() * 2);
    out.put_slice(b"\\x");
    for byte in value {
        out.put_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

fn write_uuid(uuid: [u8; 16], out: &mut BytesMut) {
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.put_u8(b'-');
        }
        write!(out, "{byte:02x}").expect("a buffer takes any text");
    }
}

/// An integer as a decimal of scale 0.
pub(crate) fn integer_digits(value: i128) -> numeric::Digits {
    numeric::Digits::new(i256::from_i128(value), 0)
}
