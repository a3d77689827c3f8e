//! The binary format: what PostgreSQL's `typsend` functions produce.

use bytes::{BufMut, BytesMut};
use strandline_sql::PgType;

use super::array::ArrayValue;
use super::cell::Cell;
use super::datetime::UNIX_TO_POSTGRES_DAYS;
use super::{EncodeError, TextStyle, array, json, numeric, record, text};

/// The version byte before the text of a jsonb value.
const JSONB_VERSION: u8 = 1;

pub(crate) fn write(
    cell: &Cell<'_>,
    pg_type: PgType,
    style: &TextStyle,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    match cell {
        Cell::Bool(value) if pg_type == PgType::Bool => out.put_u8(u8::from(*value)),
        Cell::Int(value) => write_integer(i128::from(*value), pg_type, style, out)?,
        Cell::UInt(value) => write_integer(i128::from(*value), pg_type, style, out)?,
        Cell::Float4(value) if pg_type == PgType::Float4 => out.put_f32(*value),
        Cell::Float4(value) if pg_type == PgType::Float8 => out.put_f64(f64::from(*value)),
        Cell::Float8(value) if pg_type == PgType::Float8 => out.put_f64(*value),
        Cell::Numeric { unscaled, scale } if pg_type == PgType::Numeric => {
            numeric::Digits::new(*unscaled, *scale).write_binary(out);
        }
        Cell::Text(value) if pg_type == PgType::Bytea => out.put_slice(value.as_bytes()),
        // The catalogs name functions that pg_proc does not list, so that none of them has a number.
        Cell::Text(_) if pg_type == PgType::Regproc => out.put_u32(0),
        Cell::Text(value) if pg_type == PgType::Uuid => write_uuid(value, out)?,
        Cell::Bytes(value) if pg_type == PgType::Bytea => out.put_slice(value),
        Cell::Bytes(value) if pg_type == PgType::Uuid && value.len() == 16 => out.put_slice(value),
        Cell::Date(days) if pg_type == PgType::Date => {
            let days = days.saturating_sub(UNIX_TO_POSTGRES_DAYS);
            out.put_i32(i32::try_from(days).map_err(|_| out_of_range(days, pg_type))?);
        }
        Cell::Time(micros) if pg_type == PgType::Time => out.put_i64(*micros),
        Cell::Timestamp(value) if matches!(pg_type, PgType::Timestamp | PgType::Timestamptz) => {
            out.put_i64(value.wire());
        }
        Cell::Interval(value) if pg_type == PgType::Interval => {
            out.put_i64(value.micros);
            out.put_i32(value.days);
            out.put_i32(value.months);
        }
        Cell::List { items, start, end } => match ArrayValue::new(items, *start..*end, pg_type) {
            Some(value) => array::write_binary(&value, style, out)?,
            None => write_json(cell, pg_type, style, out)?,
        },
        Cell::Struct { fields, row } if pg_type == PgType::Record => {
            record::write_binary(fields, *row, style, out)?;
        }
        Cell::Struct { .. } | Cell::Map { .. } => write_json(cell, pg_type, style, out)?,
        _ => write_as_text(cell, pg_type, style, out)?,
    }
    Ok(())
}

fn out_of_range(value: impl std::fmt::Display, pg_type: PgType) -> EncodeError {
    EncodeError::OutOfRange { value: value.to_string(), pg_type: pg_type.display_name().to_owned() }
}

fn write_integer(
    value: i128,
    pg_type: PgType,
    style: &TextStyle,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    let error = |_| out_of_range(value, pg_type);
    match pg_type {
        PgType::Int2 => out.put_i16(i16::try_from(value).map_err(error)?),
        PgType::Int4 => out.put_i32(i32::try_from(value).map_err(error)?),
        PgType::Int8 => out.put_i64(i64::try_from(value).map_err(error)?),
        PgType::Oid | PgType::Regclass | PgType::Regtype | PgType::Regproc => {
            out.put_u32(u32::try_from(value).map_err(error)?);
        }
        PgType::Numeric => text::integer_digits(value).write_binary(out),
        _ => match i64::try_from(value) {
            Ok(value) => write_as_text(&Cell::Int(value), pg_type, style, out)?,
            Err(_) => return Err(out_of_range(value, pg_type)),
        },
    }
    Ok(())
}

/// Types whose binary form is their text; every other pair has none.
fn write_as_text(
    cell: &Cell<'_>,
    pg_type: PgType,
    style: &TextStyle,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    match pg_type {
        PgType::Text
        | PgType::Varchar
        | PgType::BpChar
        | PgType::Name
        | PgType::Char
        | PgType::Unknown
        | PgType::Json => text::write(cell, pg_type, style, out),
        PgType::Jsonb => {
            out.put_u8(JSONB_VERSION);
            text::write(cell, pg_type, style, out)
        }
        PgType::Void => Ok(()),
        _ => Err(EncodeError::Unsupported {
            arrow: cell.shape().to_owned(),
            pg_type: pg_type.display_name().to_owned(),
        }),
    }
}

fn write_json(
    cell: &Cell<'_>,
    pg_type: PgType,
    style: &TextStyle,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    if pg_type == PgType::Jsonb {
        out.put_u8(JSONB_VERSION);
    }
    json::write(cell, style, out)
}

fn write_uuid(text: &str, out: &mut BytesMut) -> Result<(), EncodeError> {
    let uuid = crate::parameter::parse_uuid(text).ok_or_else(|| out_of_range(text, PgType::Uuid))?;
    out.put_slice(&uuid);
    Ok(())
}
