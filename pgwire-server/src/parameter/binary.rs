//! The binary form of each type, as its `typreceive` function reads it.

use datafusion::arrow::datatypes::IntervalMonthDayNano;
use datafusion::scalar::ScalarValue;
use strandline_sql::PgType;

use super::{ParameterError, array, checked_text, numeric};
use crate::encode::{PgTimestamp, UNIX_TO_POSTGRES_DAYS};

pub(super) fn decode(bytes: &[u8], pg_type: PgType) -> Result<ScalarValue, ParameterError> {
    Ok(match pg_type {
        PgType::Bool => ScalarValue::Boolean(Some(fixed::<1>(bytes, pg_type)?[0] != 0)),
        PgType::Int2 => ScalarValue::Int16(Some(i16::from_be_bytes(fixed(bytes, pg_type)?))),
        PgType::Int4 => ScalarValue::Int32(Some(i32::from_be_bytes(fixed(bytes, pg_type)?))),
        PgType::Int8 => ScalarValue::Int64(Some(i64::from_be_bytes(fixed(bytes, pg_type)?))),
        PgType::Oid | PgType::Regclass | PgType::Regtype | PgType::Regproc => {
            ScalarValue::Int64(Some(i64::from(u32::from_be_bytes(fixed(bytes, pg_type)?))))
        }
        PgType::Float4 => ScalarValue::Float32(Some(f32::from_be_bytes(fixed(bytes, pg_type)?))),
        PgType::Float8 => ScalarValue::Float64(Some(f64::from_be_bytes(fixed(bytes, pg_type)?))),
        PgType::Numeric => numeric::decode(bytes)?,
        PgType::Bytea => ScalarValue::Binary(Some(bytes.to_vec())),
        PgType::Uuid => ScalarValue::Utf8(Some(uuid_text(fixed(bytes, pg_type)?))),
        PgType::Date => date(i32::from_be_bytes(fixed(bytes, pg_type)?))?,
        PgType::Time => ScalarValue::Time64Microsecond(Some(i64::from_be_bytes(fixed(bytes, pg_type)?))),
        PgType::Timestamp => ScalarValue::TimestampMicrosecond(Some(instant(bytes, pg_type)?), None),
        PgType::Timestamptz => {
            ScalarValue::TimestampMicrosecond(Some(instant(bytes, pg_type)?), Some("UTC".into()))
        }
        PgType::Interval => interval(fixed(bytes, pg_type)?)?,
        PgType::Jsonb => match bytes.split_first() {
            Some((1, text)) => ScalarValue::Utf8(Some(checked_text(text)?.to_owned())),
            _ => return Err(ParameterError::binary(pg_type, bytes.len())),
        },
        PgType::Record => return Err(ParameterError::Unsupported { pg_type: pg_type.display_name() }),
        _ => match pg_type.element() {
            Some(element) => array::decode(bytes, pg_type, element)?,
            None => ScalarValue::Utf8(Some(checked_text(bytes)?.to_owned())),
        },
    })
}

fn fixed<const N: usize>(bytes: &[u8], pg_type: PgType) -> Result<[u8; N], ParameterError> {
    bytes.try_into().map_err(|_| ParameterError::binary(pg_type, bytes.len()))
}

fn date(days_since_2000: i32) -> Result<ScalarValue, ParameterError> {
    let days = i64::from(days_since_2000) + UNIX_TO_POSTGRES_DAYS;
    let out_of_range = |_| ParameterError::DatetimeOutOfRange { value: days.to_string() };
    Ok(ScalarValue::Date32(Some(i32::try_from(days).map_err(out_of_range)?)))
}

fn instant(bytes: &[u8], pg_type: PgType) -> Result<i64, ParameterError> {
    let wire = i64::from_be_bytes(fixed(bytes, pg_type)?);
    PgTimestamp::unix_micros(wire)
        .ok_or_else(|| ParameterError::DatetimeOutOfRange { value: wire.to_string() })
}

fn interval(bytes: [u8; 16]) -> Result<ScalarValue, ParameterError> {
    let (micros, rest) = bytes.split_first_chunk::<8>().expect("16 bytes hold 8");
    let (days, months) = rest.split_first_chunk::<4>().expect("8 bytes hold 4");
    let micros = i64::from_be_bytes(*micros);
    let nanos = micros
        .checked_mul(1_000)
        .ok_or_else(|| ParameterError::DatetimeOutOfRange { value: micros.to_string() })?;
    let months = i32::from_be_bytes(months.try_into().expect("4 of 8 bytes are left"));
    let value = IntervalMonthDayNano::new(months, i32::from_be_bytes(*days), nanos);
    Ok(ScalarValue::IntervalMonthDayNano(Some(value)))
}

fn uuid_text(bytes: [u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
