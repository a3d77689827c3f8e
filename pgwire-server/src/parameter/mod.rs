//! Values of Bind: the text or binary form of a Postgres type, as the scalar that the engine binds.
//!
//! Pure. Invariant: any bytes give a value or an error, and memory grows only with bytes that came.

mod array;
mod binary;
mod datetime;
mod interval;
mod numeric;
mod text;

use bytes::Bytes;
use datafusion::scalar::ScalarValue;
use strandline_sql::PgType;

use crate::encode::{Format, TimeZone};

pub(crate) use text::parse_uuid;

/// Why a parameter is not a value of its type.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum ParameterError {
    #[error("invalid input syntax for type {pg_type}: \"{value}\"")]
    InvalidText { pg_type: &'static str, value: String },
    #[error("invalid input syntax for type {pg_type}: \"{value}\"")]
    InvalidDatetime { pg_type: &'static str, value: String },
    #[error("value \"{value}\" is out of range for type {pg_type}")]
    OutOfRange { pg_type: &'static str, value: String },
    #[error("date/time value out of range: \"{value}\"")]
    DatetimeOutOfRange { value: String },
    #[error("incorrect binary data format for type {pg_type}: {size} bytes")]
    InvalidBinary { pg_type: &'static str, size: usize },
    #[error("invalid byte sequence for encoding \"UTF8\": 0x00")]
    Nul,
    #[error("invalid byte sequence for encoding \"UTF8\" at byte {position} of a parameter")]
    InvalidUtf8 { position: usize },
    #[error("parameters of type {pg_type} are not supported")]
    Unsupported { pg_type: &'static str },
}

/// Longest piece of a parameter that a message repeats, in characters.
const SHOWN_CHARACTERS_MAX: usize = 100;

impl ParameterError {
    fn text(pg_type: PgType, value: &str) -> Self {
        Self::InvalidText { pg_type: pg_type.display_name(), value: shown(value) }
    }

    fn datetime(pg_type: PgType, value: &str) -> Self {
        Self::InvalidDatetime { pg_type: pg_type.display_name(), value: shown(value) }
    }

    fn range(pg_type: PgType, value: &str) -> Self {
        Self::OutOfRange { pg_type: pg_type.display_name(), value: shown(value) }
    }

    fn binary(pg_type: PgType, size: usize) -> Self {
        Self::InvalidBinary { pg_type: pg_type.display_name(), size }
    }
}

fn shown(value: &str) -> String {
    value.chars().take(SHOWN_CHARACTERS_MAX).collect()
}

/// Decodes one parameter; a text without a zone means the session's `zone`.
pub(crate) fn decode(
    value: Option<&Bytes>,
    pg_type: PgType,
    format: Format,
    zone: &TimeZone,
) -> Result<ScalarValue, ParameterError> {
    match (value, format) {
        (None, _) => null(pg_type),
        (Some(bytes), Format::Text) => text::decode(checked_text(bytes)?, pg_type, zone),
        (Some(bytes), Format::Binary) => binary::decode(bytes, pg_type),
    }
}

/// UTF-8 without NUL, as PostgreSQL demands of all text.
fn checked_text(bytes: &[u8]) -> Result<&str, ParameterError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| ParameterError::InvalidUtf8 { position: error.valid_up_to() })?;
    if text.contains('\0') { Err(ParameterError::Nul) } else { Ok(text) }
}

/// NULL of the type, so that the plan sees the type also where the value is missing.
fn null(pg_type: PgType) -> Result<ScalarValue, ParameterError> {
    Ok(match pg_type {
        PgType::Bool => ScalarValue::Boolean(None),
        PgType::Int2 => ScalarValue::Int16(None),
        PgType::Int4 => ScalarValue::Int32(None),
        PgType::Int8 | PgType::Oid | PgType::Regclass | PgType::Regtype | PgType::Regproc => {
            ScalarValue::Int64(None)
        }
        PgType::Float4 => ScalarValue::Float32(None),
        PgType::Float8 => ScalarValue::Float64(None),
        PgType::Numeric => numeric::null(),
        PgType::Bytea => ScalarValue::Binary(None),
        PgType::Date => ScalarValue::Date32(None),
        PgType::Time => ScalarValue::Time64Microsecond(None),
        PgType::Timestamp => ScalarValue::TimestampMicrosecond(None, None),
        PgType::Timestamptz => ScalarValue::TimestampMicrosecond(None, Some("UTC".into())),
        PgType::Interval => ScalarValue::IntervalMonthDayNano(None),
        _ => match pg_type.element() {
            Some(element) => ScalarValue::new_null_list(null(element)?.data_type(), true, 1),
            None => ScalarValue::Utf8(None),
        },
    })
}

#[cfg(test)]
mod tests;
