//! One-dimensional array parameters, in both formats.

use bytes::Bytes;
use datafusion::scalar::ScalarValue;
use strandline_sql::PgType;

use super::{ParameterError, binary, null, text};
use crate::encode::TimeZone;
use crate::wire::cursor::{Cursor, MessageError};

/// `{1,NULL,"a b"}`; quotes keep anything, a backslash keeps the next character.
pub(super) fn parse(
    literal: &str,
    pg_type: PgType,
    element: PgType,
    zone: &TimeZone,
) -> Result<ScalarValue, ParameterError> {
    let invalid = || ParameterError::text(pg_type, literal);
    let inner =
        literal.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).ok_or_else(invalid)?;
    let values = split_items(inner)
        .ok_or_else(invalid)?
        .into_iter()
        .map(|item| match item {
            Some(item) => text::decode(&item, element, zone),
            None => null(element),
        })
        .collect::<Result<Vec<_>, _>>()?;
    list(&values, element)
}

fn list(values: &[ScalarValue], element: PgType) -> Result<ScalarValue, ParameterError> {
    // Numerics of one array may come in different widths and scales.
    let data_type = values
        .first()
        .map_or_else(|| null(element).map(|value| value.data_type()), |value| Ok(value.data_type()))?;
    if values.iter().any(|value| value.data_type() != data_type) {
        return Err(ParameterError::Unsupported { pg_type: "numeric[] of different scales" });
    }
    Ok(ScalarValue::List(ScalarValue::new_list(values, &data_type, true)))
}

/// The items between the braces; None for an unquoted NULL. None when the text is not an array of
/// one dimension.
fn split_items(inner: &str) -> Option<Vec<Option<String>>> {
    if inner.trim().is_empty() {
        return Some(Vec::new());
    }
    let mut items = Vec::new();
    let mut rest = inner.chars().peekable();
    loop {
        let (item, was_quoted) = next_item(&mut rest)?;
        match (was_quoted, item.as_str()) {
            (false, "") => return None,
            (false, word) if word.eq_ignore_ascii_case("null") => items.push(None),
            _ => items.push(Some(item)),
        }
        match rest.next() {
            None => return Some(items),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}

/// Reads up to the comma or the end, which it leaves.
fn next_item(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<(String, bool)> {
    let mut item = String::new();
    let mut was_quoted = false;
    let mut in_quotes = false;
    while let Some(character) = rest.peek().copied() {
        if character == ',' && !in_quotes {
            break;
        }
        rest.next();
        match character {
            '\\' => item.push(rest.next()?),
            '"' => {
                in_quotes = !in_quotes;
                was_quoted = true;
            }
            '{' | '}' if !in_quotes => return None,
            other => item.push(other),
        }
    }
    if in_quotes {
        return None;
    }
    let item = if was_quoted { item } else { item.trim().to_owned() };
    Some((item, was_quoted))
}

/// The form of array_recv: dimensions, a flag for NULLs, the element type, then the elements.
pub(super) fn decode(bytes: &[u8], pg_type: PgType, element: PgType) -> Result<ScalarValue, ParameterError> {
    let items = read_items(Bytes::copy_from_slice(bytes), element)
        .map_err(|_| ParameterError::binary(pg_type, bytes.len()))?;
    let values = items
        .into_iter()
        .map(|item| match item {
            Some(item) => binary::decode(&item, element),
            None => null(element),
        })
        .collect::<Result<Vec<_>, _>>()?;
    list(&values, element)
}

fn read_items(bytes: Bytes, element: PgType) -> Result<Vec<Option<Bytes>>, MessageError> {
    let mut cursor = Cursor::new(bytes);
    let dimensions = cursor.i32()?;
    let _has_nulls = cursor.i32()?;
    let oid = cursor.u32()?;
    let mut items = Vec::new();
    match dimensions {
        0 => {}
        1 if oid == element.oid() => {
            let count = cursor.i32()?;
            let _lower_bound = cursor.i32()?;
            // Each turn takes at least four bytes, so the count cannot run ahead of the bytes.
            for _ in 0..count {
                items.push(cursor.value()?);
            }
        }
        length => return Err(MessageError::NegativeLength { length }),
    }
    cursor.finish()?;
    Ok(items)
}
