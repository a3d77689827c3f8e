//! Casts to text, json and oid as PostgreSQL writes and reads them.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray, UInt32Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type, IntervalMonthDayNano};
use datafusion::common::exec_err;
use datafusion::error::Result;

use super::bytea::hex_text;
use super::headers;
use super::scalar::{Inputs, Scalar};
use super::time::{Times, Zones, intervals, shown};
use super::{JSON, OID, TEXT};
use crate::pg_type::PgType;

pub(super) fn functions() -> Vec<Scalar> {
    vec![
        Scalar::of_type(TEXT, (2, 2), DataType::Utf8, text),
        Scalar::of_type(JSON, (1, 1), DataType::Utf8, json).shown_as(PgType::Json),
        Scalar::of_type(OID, (1, 1), DataType::UInt32, oid).shown_as(PgType::Oid),
    ]
}

/// A cast to json: text as it is, the headers of a record as the array that clients see.
fn json(inputs: &Inputs) -> Result<ArrayRef> {
    match inputs.array(0)?.data_type() {
        DataType::List(_) => headers::json_text(inputs),
        _ => inputs.cast(0, &DataType::Utf8),
    }
}

fn text(inputs: &Inputs) -> Result<ArrayRef> {
    let array = inputs.array(0)?;
    let texts: StringArray = match array.data_type() {
        DataType::Timestamp(..) => {
            let times = Times::of(inputs, 0)?;
            let mut zones = Zones::of(inputs, 1)?;
            let values = inputs.rows().map(|row| {
                let zone = if times.is_instant { zones.get(row)? } else { None };
                Ok(times.get(row).and_then(|time| shown(time, zone)))
            });
            values.collect::<Result<_>>()?
        }
        DataType::Interval(_) | DataType::Duration(_) => {
            let values = intervals(inputs, 0)?;
            inputs.rows().map(|row| values.native(row).map(interval_text)).collect()
        }
        DataType::Time32(_) | DataType::Time64(_) => {
            let times = cast(array, &DataType::Utf8)?;
            let times = times.as_string::<i32>();
            rows(inputs, array, |index| match times.value(index).split_once('.') {
                Some((whole, fraction)) => {
                    let fraction = fraction.trim_end_matches('0');
                    let dot = if fraction.is_empty() { "" } else { "." };
                    format!("{whole}{dot}{fraction}")
                }
                None => times.value(index).to_owned(),
            })
        }
        DataType::Float64 => {
            rows(inputs, array, |index| float_text(array.as_primitive::<Float64Type>().value(index)))
        }
        DataType::Float32 => {
            rows(inputs, array, |index| format!("{}", array.as_primitive::<Float32Type>().value(index)))
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            let bytes = cast(array, &DataType::Binary)?;
            let bytes = bytes.as_binary::<i32>();
            rows(inputs, array, |index| format!("\\x{}", hex_text(bytes.value(index))))
        }
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let values = inputs.rows().map(|row| {
                let index = inputs.row_of(0, row);
                if lists.is_null(index) { Ok(None) } else { list_text(&lists.value(index)).map(Some) }
            });
            values.collect::<Result<_>>()?
        }
        _ => return expanded(inputs, &cast(array, &DataType::Utf8)?),
    };
    Ok(Arc::new(texts))
}

/// A constant repeated for every row that is asked for.
fn expanded(inputs: &Inputs, texts: &ArrayRef) -> Result<ArrayRef> {
    let texts = texts.as_string::<i32>();
    let values = inputs.rows().map(|row| {
        let index = inputs.row_of(0, row);
        texts.is_valid(index).then(|| texts.value(index))
    });
    Ok(Arc::new(values.collect::<StringArray>()))
}

fn rows(inputs: &Inputs, array: &ArrayRef, value: impl Fn(usize) -> String) -> StringArray {
    inputs
        .rows()
        .map(|row| {
            let index = inputs.row_of(0, row);
            array.is_valid(index).then(|| value(index))
        })
        .collect()
}

/// The shortest digits that read back as the same number; an exponent from 1e15 on.
fn float_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e15).contains(&size) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{value}")
}

/// `{a,"b c",NULL}`.
fn list_text(values: &ArrayRef) -> Result<String> {
    let texts = cast(values, &DataType::Utf8)?;
    let texts = texts.as_string::<i32>();
    let elements: Vec<String> = texts
        .iter()
        .map(|element| match element {
            None => "NULL".to_owned(),
            Some(text) => {
                let plain = !text.is_empty()
                    && !text.eq_ignore_ascii_case("null")
                    && !text.contains(|letter: char| letter.is_whitespace() || "{},\"\\".contains(letter));
                if plain {
                    text.to_owned()
                } else {
                    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
                }
            }
        })
        .collect();
    Ok(format!("{{{}}}", elements.join(",")))
}

/// `1 year 2 mons 3 days 04:05:06.7`.
fn interval_text(interval: IntervalMonthDayNano) -> String {
    let mut parts = Vec::new();
    let mut part = |number: i32, one: &str, many: &str| {
        if number != 0 {
            parts.push(format!("{number} {}", if number == 1 { one } else { many }));
        }
    };
    part(interval.months / 12, "year", "years");
    part(interval.months % 12, "mon", "mons");
    part(interval.days, "day", "days");
    if interval.nanoseconds != 0 || parts.is_empty() {
        let micros = interval.nanoseconds.unsigned_abs() / 1000;
        let sign = if interval.nanoseconds < 0 { "-" } else { "" };
        let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
        let mut text = format!("{sign}{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        if fraction > 0 {
            text.push_str(format!(".{fraction:06}").trim_end_matches('0'));
        }
        parts.push(text);
    }
    parts.join(" ")
}

fn oid(inputs: &Inputs) -> Result<ArrayRef> {
    let numbers = inputs.cast(0, &DataType::Int64)?;
    let numbers: &Int64Array = numbers.as_primitive();
    let values = inputs.rows().map(|row| {
        let index = inputs.row_of(0, row);
        if numbers.is_null(index) {
            return Ok(None);
        }
        match u32::try_from(numbers.value(index)) {
            Ok(oid) => Ok(Some(oid)),
            Err(_) => exec_err!("OID out of range: {}", numbers.value(index)),
        }
    });
    Ok(Arc::new(values.collect::<Result<UInt32Array>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_as_postgres_shows_them() {
        for (value, expected) in [
            (1.0, "1"),
            (0.1, "0.1"),
            (1e15, "1e+15"),
            (1e-7, "1e-07"),
            (-2.5, "-2.5"),
            (0.0, "0"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(float_text(value), expected);
        }
    }

    #[test]
    fn intervals_are_shown_as_postgres_shows_them() {
        let shown = |months, days, nanos| interval_text(IntervalMonthDayNano::new(months, days, nanos));
        assert_eq!(shown(14, 3, 0), "1 year 2 mons 3 days");
        assert_eq!(shown(0, 0, 0), "00:00:00");
        assert_eq!(shown(0, 1, -1_500_000_000), "1 day -00:00:01.5");
    }
}
