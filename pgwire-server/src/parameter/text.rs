//! The text form of each type, as its `typinput` function reads it.

use datafusion::scalar::ScalarValue;
use strandline_sql::PgType;

use super::{ParameterError, array, datetime, interval, numeric};
use crate::encode::TimeZone;

pub(super) fn decode(text: &str, pg_type: PgType, zone: &TimeZone) -> Result<ScalarValue, ParameterError> {
    let trimmed = text.trim();
    Ok(match pg_type {
        PgType::Bool => ScalarValue::Boolean(Some(boolean(trimmed).ok_or_else(|| invalid(pg_type, text))?)),
        PgType::Int2 => ScalarValue::Int16(Some(integer(trimmed, pg_type)?)),
        PgType::Int4 => ScalarValue::Int32(Some(integer(trimmed, pg_type)?)),
        PgType::Int8 => ScalarValue::Int64(Some(integer(trimmed, pg_type)?)),
        PgType::Oid => ScalarValue::Int64(Some(i64::from(integer::<u32>(trimmed, pg_type)?))),
        // A number or a name: what a name stands for is known where the statement is planned.
        PgType::Regclass | PgType::Regtype | PgType::Regproc => match trimmed.parse::<u32>() {
            Ok(oid) => ScalarValue::Int64(Some(i64::from(oid))),
            Err(_) => ScalarValue::Utf8(Some(text.to_owned())),
        },
        PgType::Float4 => ScalarValue::Float32(Some(trimmed.parse().map_err(|_| invalid(pg_type, text))?)),
        PgType::Float8 => ScalarValue::Float64(Some(trimmed.parse().map_err(|_| invalid(pg_type, text))?)),
        PgType::Numeric => numeric::parse(trimmed)?,
        PgType::Bytea => ScalarValue::Binary(Some(bytea(text).ok_or_else(|| invalid(pg_type, text))?)),
        PgType::Uuid => {
            parse_uuid(trimmed).ok_or_else(|| invalid(pg_type, text))?;
            ScalarValue::Utf8(Some(trimmed.to_ascii_lowercase()))
        }
        PgType::Date => datetime::date(trimmed)?,
        PgType::Time => datetime::time(trimmed)?,
        PgType::Timestamp => datetime::timestamp(trimmed)?,
        PgType::Timestamptz => datetime::timestamptz(trimmed, zone)?,
        PgType::Interval => interval::parse(trimmed)?,
        PgType::Record => return Err(ParameterError::Unsupported { pg_type: pg_type.display_name() }),
        _ => match pg_type.element() {
            Some(element) => array::parse(text, pg_type, element, zone)?,
            None => ScalarValue::Utf8(Some(text.to_owned())),
        },
    })
}

fn invalid(pg_type: PgType, text: &str) -> ParameterError {
    ParameterError::text(pg_type, text)
}

/// Any prefix of true, false, yes, no, and of on and off what tells them apart, in any case.
fn boolean(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    let is_prefix_of = |word: &str| !text.is_empty() && word.starts_with(&text);
    if is_prefix_of("true") || is_prefix_of("yes") || text == "on" || text == "1" {
        Some(true)
    } else if is_prefix_of("false") || is_prefix_of("no") || text == "of" || text == "off" || text == "0" {
        Some(false)
    } else {
        None
    }
}

fn integer<T: TryFrom<i128>>(text: &str, pg_type: PgType) -> Result<T, ParameterError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid(pg_type, text));
    }
    let value = text.parse::<i128>().map_err(|_| ParameterError::range(pg_type, text))?;
    T::try_from(value).map_err(|_| ParameterError::range(pg_type, text))
}

/// `\x` and hexadecimal digits, or the escape form: backslash and three octal digits.
fn bytea(text: &str) -> Option<Vec<u8>> {
    match text.strip_prefix("\\x") {
        Some(digits) => hex(digits),
        None => escaped(text.as_bytes()),
    }
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = digits.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let nibble = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    digits.chunks_exact(2).map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?)).collect()
}

fn escaped(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
        } else if let Some(after) = rest.strip_prefix(b"\\") {
            bytes.push(b'\\');
            rest = after;
        } else {
            let (octal, after) = rest.split_at_checked(3)?;
            let octal = std::str::from_utf8(octal).ok()?;
            bytes.push(u8::from_str_radix(octal, 8).ok()?);
            rest = after;
        }
    }
    Some(bytes)
}

/// 32 hexadecimal digits, with or without hyphens and braces.
pub(crate) fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let inner = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(text);
    let digits: String = inner.chars().filter(|character| *character != '-').collect();
    hex(&digits)?.try_into().ok()
}
