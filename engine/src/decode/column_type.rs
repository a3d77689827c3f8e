//! The types that a payload column can have, and the exact conversion of JSON text into each. Pure.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use chrono::DateTime;
use datafusion::arrow::datatypes::{DataType, Field, TimeUnit, i256};

use super::members::string_text;
use super::number::{self, NUMERIC_DIGITS_MAX};

/// Field metadata that says how Postgres names the type of a column.
pub const TYPE_METADATA_KEY: &str = "strandline.type";

/// The type of a payload column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnType {
    Bool,
    Bigint,
    Double,
    Numeric { scale: u32 },
    Timestamptz,
    Json,
    Text,
}

/// One JSON value as a value of a column's type.
#[derive(Debug, PartialEq)]
pub enum Converted<'a> {
    Bool(bool),
    Bigint(i64),
    Double(f64),
    Numeric(i256),
    /// Microseconds since the Unix epoch.
    Timestamptz(i64),
    /// Text, or JSON text as it was written.
    Text(Cow<'a, str>),
}

impl ColumnType {
    pub fn arrow_type(self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Bigint => DataType::Int64,
            Self::Double => DataType::Float64,
            Self::Numeric { scale } => DataType::Decimal256(
                u8::try_from(NUMERIC_DIGITS_MAX).expect("76 fits a byte"),
                i8::try_from(scale).unwrap_or(i8::MAX),
            ),
            Self::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC"))),
            Self::Json | Self::Text => DataType::Utf8View,
        }
    }

    pub fn field(self, name: &str) -> Field {
        let field = Field::new(name, self.arrow_type(), true);
        match self {
            Self::Json => {
                let metadata = HashMap::from([(TYPE_METADATA_KEY.to_owned(), "json".to_owned())]);
                field.with_metadata(metadata)
            }
            _ => field,
        }
    }

    /// The raw text of one JSON value as this type; `None` when it does not convert exactly. The
    /// caller has taken out `null`.
    pub fn convert(self, raw: &str) -> Option<Converted<'_>> {
        match self {
            Self::Bool => match raw {
                "true" => Some(Converted::Bool(true)),
                "false" => Some(Converted::Bool(false)),
                _ => None,
            },
            Self::Bigint => number_text(raw).and_then(number::to_bigint).map(Converted::Bigint),
            Self::Double => number_text(raw).and_then(number::to_double).map(Converted::Double),
            Self::Numeric { scale } => {
                number_text(raw).and_then(|text| number::to_numeric(text, scale)).map(Converted::Numeric)
            }
            Self::Timestamptz => {
                string_text(raw).and_then(|text| to_microseconds(&text)).map(Converted::Timestamptz)
            }
            Self::Json => Some(Converted::Text(Cow::Borrowed(raw))),
            Self::Text => scalar_text(raw).map(Converted::Text),
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("boolean"),
            Self::Bigint => f.write_str("bigint"),
            Self::Double => f.write_str("double precision"),
            Self::Numeric { scale } => write!(f, "numeric({NUMERIC_DIGITS_MAX},{scale})"),
            Self::Timestamptz => f.write_str("timestamp with time zone"),
            Self::Json => f.write_str("json"),
            Self::Text => f.write_str("text"),
        }
    }
}

fn number_text(raw: &str) -> Option<&str> {
    raw.starts_with(|first: char| first == '-' || first.is_ascii_digit()).then_some(raw)
}

/// A string's content, any other scalar's JSON text; nothing for arrays and objects.
fn scalar_text(raw: &str) -> Option<Cow<'_, str>> {
    match raw.as_bytes().first()? {
        b'"' => string_text(raw),
        b'[' | b'{' => None,
        _ => Some(Cow::Borrowed(raw)),
    }
}

/// An RFC 3339 time with its zone, in microseconds since the epoch; finer digits are dropped.
pub fn to_microseconds(text: &str) -> Option<i64> {
    // Most strings are no times: the fifth byte tells without parsing.
    if text.len() < "2015-09-12T00:00:00Z".len() || text.as_bytes()[4] != b'-' {
        return None;
    }
    DateTime::parse_from_rfc3339(text).ok().map(|time| time.timestamp_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> Option<Converted<'_>> {
        Some(Converted::Text(Cow::Borrowed(value)))
    }

    #[test]
    fn text_takes_every_scalar_and_json_takes_everything() {
        assert_eq!(ColumnType::Text.convert("false"), text("false"));
        assert_eq!(ColumnType::Text.convert("1e400"), text("1e400"));
        assert_eq!(ColumnType::Text.convert(r#""a\u0041""#), text("aA"));
        assert_eq!(ColumnType::Text.convert("[1]"), None);
        assert_eq!(ColumnType::Json.convert("[1 , 2]"), text("[1 , 2]"));
        assert_eq!(ColumnType::Json.convert(r#""x""#), text(r#""x""#));
    }

    #[test]
    fn a_value_of_another_kind_is_null() {
        assert_eq!(ColumnType::Bool.convert(r#""false""#), None);
        assert_eq!(ColumnType::Bool.convert("0"), None);
        assert_eq!(ColumnType::Bigint.convert(r#""5""#), None);
        assert_eq!(ColumnType::Double.convert("true"), None);
        assert_eq!(ColumnType::Timestamptz.convert("5"), None);
    }

    #[test]
    fn times_need_a_zone_and_drop_digits_below_a_microsecond() {
        let micros = |text: &str| to_microseconds(text);
        assert_eq!(micros("2015-09-12T00:46:58.771Z"), Some(1_442_018_818_771_000));
        assert_eq!(micros("2015-09-12T02:46:58.7714567+02:00"), Some(1_442_018_818_771_456));
        assert_eq!(micros("2015-09-12T00:46:58.771"), None);
        assert_eq!(micros("2015-09-12"), None);
    }
}
