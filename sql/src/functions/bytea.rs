//! bytea: its two text forms, its length, LIKE and `||` over bytes, and `encode`.
//!
//! Source: PostgreSQL's varlena.c (byteain) and encode.c.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, BinaryArray, BooleanArray, Int32Array, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{exec_datafusion_err, exec_err};
use datafusion::error::Result;

use super::scalar::{Column, Inputs, Scalar};
use super::{BYTE_LENGTH, BYTEA, BYTEA_CONCAT, BYTEA_LIKE, ENCODE};

pub(super) fn functions() -> Vec<Scalar> {
    vec![
        Scalar::of_type(BYTEA, (1, 1), DataType::Binary, bytea),
        Scalar::of_type(BYTE_LENGTH, (1, 1), DataType::Int32, byte_length),
        Scalar::of_type(BYTEA_LIKE, (2, 2), DataType::Boolean, |inputs| {
            let (values, patterns) = (bytes(inputs, 0)?, bytes(inputs, 1)?);
            let matches = inputs.rows().map(|row| Some(is_like(values.get(row)?, patterns.get(row)?)));
            Ok(Arc::new(matches.collect::<BooleanArray>()))
        }),
        Scalar::of_type(BYTEA_CONCAT, (2, 2), DataType::Binary, |inputs| {
            let (left, right) = (bytes(inputs, 0)?, bytes(inputs, 1)?);
            let joined = inputs.rows().map(|row| Some([left.get(row)?, right.get(row)?].concat()));
            Ok(Arc::new(joined.collect::<BinaryArray>()))
        }),
        Scalar::of_type(ENCODE, (2, 2), DataType::Utf8, |inputs| {
            let (values, formats) = (bytes(inputs, 0)?, inputs.texts(1)?);
            let texts = inputs.rows().map(|row| match (values.get(row), formats.get(row)) {
                (Some(bytes), Some(format)) => encoded(bytes, format).map(Some),
                _ => Ok(None),
            });
            Ok(Arc::new(texts.collect::<Result<StringArray>>()?))
        }),
    ]
}

fn bytes(inputs: &Inputs, index: usize) -> Result<Column<BinaryArray>> {
    inputs.column(index, &DataType::Binary)
}

fn byte_length(inputs: &Inputs) -> Result<ArrayRef> {
    let bytes = inputs.cast(0, &DataType::Binary)?;
    let lengths = bytes.as_binary::<i32>().iter().map(|bytes| bytes.map(|bytes| bytes.len() as i32));
    Ok(Arc::new(lengths.collect::<Int32Array>()))
}

/// A cast to bytea; what is bytes already stays.
fn bytea(inputs: &Inputs) -> Result<ArrayRef> {
    let data_type = inputs.array(0)?.data_type();
    if !matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null) {
        return inputs.cast(0, &DataType::Binary);
    }
    let texts = inputs.texts(0)?;
    let values: Vec<Option<Vec<u8>>> = inputs
        .rows()
        .map(|row| match texts.get(row) {
            None => Ok(None),
            Some(text) => bytes_of(text).map(Some).map_err(|fault| exec_datafusion_err!("{fault}")),
        })
        .collect::<Result<_>>()?;
    Ok(Arc::new(values.iter().map(Option::as_deref).collect::<BinaryArray>()))
}

/// Why a text is no bytea.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ByteaFault {
    #[error("invalid hexadecimal digit: \"{0}\"")]
    Digit(char),
    #[error("invalid hexadecimal data: odd number of digits")]
    OddDigits,
    #[error("invalid input syntax for type bytea")]
    Escape,
}

/// `\x6162` is hex, `a\\b\142` has escapes.
///
/// # Errors
/// When it is neither.
pub(crate) fn bytes_of(text: &str) -> std::result::Result<Vec<u8>, ByteaFault> {
    match text.strip_prefix("\\x") {
        Some(hex) => from_hex(hex),
        None => from_escapes(text).ok_or(ByteaFault::Escape),
    }
}

fn from_hex(hex: &str) -> std::result::Result<Vec<u8>, ByteaFault> {
    let digits: Vec<u8> = hex
        .chars()
        .filter(|digit| !digit.is_ascii_whitespace())
        .map(|digit| {
            let value = digit.to_digit(16).and_then(|value| u8::try_from(value).ok());
            value.ok_or(ByteaFault::Digit(digit))
        })
        .collect::<std::result::Result<_, _>>()?;
    if !digits.len().is_multiple_of(2) {
        return Err(ByteaFault::OddDigits);
    }
    Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn from_escapes(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first != b'\\' {
            bytes.push(*first);
            rest = after;
        } else if after.first() == Some(&b'\\') {
            bytes.push(b'\\');
            rest = &after[1..];
        } else {
            let octal = std::str::from_utf8(after.get(..3)?).ok()?;
            bytes.push(u8::from_str_radix(octal, 8).ok()?);
            rest = &after[3..];
        }
    }
    Some(bytes)
}

/// LIKE over bytes: `%` is any of them, `_` one, the backslash has the next byte stand for itself.
fn is_like(value: &[u8], pattern: &[u8]) -> bool {
    let (mut at, mut place) = (0, 0);
    // Where to go on when the bytes after the last `%` do not fit: one byte later.
    let mut retry: Option<(usize, usize)> = None;
    while at < value.len() || place < pattern.len() {
        match pattern.get(place) {
            Some(b'%') => {
                retry = Some((at, place));
                place += 1;
                continue;
            }
            Some(b'_') if at < value.len() => {
                (at, place) = (at + 1, place + 1);
                continue;
            }
            Some(&byte) if byte != b'_' => {
                let escaped = byte == b'\\' && place + 1 < pattern.len();
                let wanted = if escaped { pattern[place + 1] } else { byte };
                if value.get(at) == Some(&wanted) {
                    (at, place) = (at + 1, place + 1 + usize::from(escaped));
                    continue;
                }
            }
            _ => {}
        }
        match retry {
            Some((from, percent)) if from < value.len() => {
                retry = Some((from + 1, percent));
                (at, place) = (from + 1, percent + 1);
            }
            _ => return false,
        }
    }
    true
}

fn encoded(bytes: &[u8], format: &str) -> Result<String> {
    match format.to_ascii_lowercase().as_str() {
        "hex" => Ok(hex_text(bytes)),
        "base64" => Ok(base64_text(bytes)),
        "escape" => Ok(escape_text(bytes)),
        _ => exec_err!("unrecognized encoding: \"{format}\""),
    }
}

/// Two digits a byte.
pub(super) fn hex_text(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)]))
        .collect()
}

/// Padded, in lines of 76 characters.
fn base64_text(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const LINE_BYTES: usize = 57;
    let mut text = String::with_capacity(bytes.len() / 3 * 4 + 8);
    for line in bytes.chunks(LINE_BYTES) {
        for group in line.chunks(3) {
            let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for place in 0..4 {
                let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize];
                text.push(if place <= group.len() { char::from(letter) } else { '=' });
            }
        }
        if line.len() == LINE_BYTES {
            text.push('\n');
        }
    }
    text
}

/// Bytes that are no ASCII, and zero, as three octal digits.
fn escape_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            1..=127 => text.push(char::from(*byte)),
            other => text.push_str(&format!("\\{other:03o}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_hex_or_with_escapes() {
        assert_eq!(bytes_of("\\x61 62"), Ok(b"ab".to_vec()));
        assert_eq!(bytes_of("a\\\\b\\142"), Ok(b"a\\bb".to_vec()));
        assert_eq!(bytes_of(""), Ok(Vec::new()));
        assert_eq!(bytes_of("\\x6"), Err(ByteaFault::OddDigits));
        assert_eq!(bytes_of("\\xzz"), Err(ByteaFault::Digit('z')));
        assert_eq!(bytes_of("\\9"), Err(ByteaFault::Escape));
    }

    #[test]
    fn like_takes_bytes_one_by_one() {
        for (value, pattern, expected) in [
            (&b"xoky"[..], &b"%ok%"[..], true),
            (b"\xff\xfeok", b"%ok", true),
            (b"\xff", b"_", true),
            (b"", b"_", false),
            (b"", b"%", true),
            (b"abc", b"a%c", true),
            (b"abcab", b"a%c", false),
            (b"aXbXc", b"a%X%c", true),
            (b"a%b", b"a\\%b", true),
            (b"axb", b"a\\%b", false),
            (b"ab", b"a", false),
        ] {
            assert_eq!(is_like(value, pattern), expected, "{value:?} LIKE {pattern:?}");
        }
    }

    #[test]
    fn bytes_are_encoded_as_postgres_does() {
        for (bytes, format, expected) in [
            (&b"a"[..], "base64", "YQ=="),
            (b"ab", "base64", "YWI="),
            (b"abc", "BASE64", "YWJj"),
            (b"\xab\xbb", "hex", "abbb"),
            (b"a\\\x00\xff", "escape", "a\\\\\\000\\377"),
        ] {
            assert_eq!(encoded(bytes, format).unwrap(), expected);
        }
        let lines = base64_text(&[0; 58]);
        assert_eq!(lines, format!("{}\nAA==", "A".repeat(76)));
        assert!(encoded(b"", "rot13").is_err());
    }
}
