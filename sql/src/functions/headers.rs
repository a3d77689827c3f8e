//! `header(_headers, 'k')` and `header_bytes(_headers, 'k')`: the last value of a record header; and all
//! of them as JSON.
//!
//! Headers come as a list of {key, value}; keys may repeat, and as in Kafka's `lastHeader` the last
//! one counts. A header whose value is null gives NULL, an empty one the empty value.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::exec_err;
use datafusion::error::Result;

use super::scalar::{Inputs, Scalar};

pub(super) fn functions() -> Vec<Scalar> {
    vec![
        Scalar::of_type("header", (2, 2), DataType::Utf8, |inputs| {
            let values = last_values(inputs)?;
            let texts = values.iter().map(|value| value.as_deref().map(String::from_utf8_lossy));
            Ok(Arc::new(texts.collect::<StringArray>()))
        }),
        Scalar::of_type("header_bytes", (2, 2), DataType::Binary, |inputs| {
            let values = last_values(inputs)?;
            Ok(Arc::new(values.iter().map(|value| value.as_deref()).collect::<BinaryArray>()))
        }),
    ]
}

fn last_values(inputs: &Inputs) -> Result<Vec<Option<Vec<u8>>>> {
    let keys = inputs.texts(1)?;
    let headers = inputs.array(0)?;
    inputs
        .rows()
        .map(|row| {
            let index = inputs.row_of(0, row);
            match keys.get(row) {
                Some(key) if headers.is_valid(index) => last_value(headers, index, key),
                _ => Ok(None),
            }
        })
        .collect()
}

fn last_value(headers: &ArrayRef, index: usize, key: &str) -> Result<Option<Vec<u8>>> {
    let entries = match headers.data_type() {
        DataType::List(_) => headers.as_list::<i32>().value(index),
        DataType::LargeList(_) => headers.as_list::<i64>().value(index),
        other => return exec_err!("header() takes the headers of a record, not {other}"),
    };
    let Some(entries) = entries.as_struct_opt() else {
        return exec_err!("header() takes the headers of a record");
    };
    let (Some(keys), Some(values)) = (entries.column_by_name("key"), entries.column_by_name("value")) else {
        return exec_err!("header() takes the headers of a record");
    };
    let keys = cast(keys, &DataType::Utf8)?;
    let keys = keys.as_string::<i32>();
    let Some(last) = (0..keys.len()).rev().find(|entry| keys.is_valid(*entry) && keys.value(*entry) == key)
    else {
        return Ok(None);
    };
    let value = cast(&values.slice(last, 1), &DataType::Binary)?;
    let value = value.as_binary::<i32>();
    Ok(value.is_valid(0).then(|| value.value(0).to_vec()))
}

/// Headers as the JSON that clients are shown: an array of objects with a key and a value, which is
/// text with U+FFFD for what is not UTF-8.
pub(super) fn json_text(inputs: &Inputs) -> Result<ArrayRef> {
    let lists = inputs.array(0)?;
    let DataType::List(_) = lists.data_type() else {
        return exec_err!("the headers of a record are needed, not {}", lists.data_type());
    };
    let lists = lists.as_list::<i32>();
    let texts = inputs.rows().map(|row| {
        let index = inputs.row_of(0, row);
        if lists.is_valid(index) { json_of(&lists.value(index)).map(Some) } else { Ok(None) }
    });
    Ok(Arc::new(texts.collect::<Result<StringArray>>()?))
}

fn json_of(entries: &ArrayRef) -> Result<String> {
    let Some(entries) = entries.as_struct_opt() else {
        return exec_err!("the headers of a record are needed, not a list of {}", entries.data_type());
    };
    let (Some(keys), Some(values)) = (entries.column_by_name("key"), entries.column_by_name("value")) else {
        return exec_err!("the headers of a record have keys and values");
    };
    let (keys, values) = (cast(keys, &DataType::Utf8)?, cast(values, &DataType::Binary)?);
    let (keys, values) = (keys.as_string::<i32>(), values.as_binary::<i32>());
    let objects: Vec<String> = (0..entries.len())
        .map(|entry| {
            let value = if values.is_valid(entry) {
                json_string(&String::from_utf8_lossy(values.value(entry)))
            } else {
                "null".to_owned()
            };
            format!("{{\"key\": {}, \"value\": {value}}}", json_string(keys.value(entry)))
        })
        .collect();
    Ok(format!("[{}]", objects.join(", ")))
}

fn json_string(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for character in text.chars() {
        match character {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            control if control < ' ' => json.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => json.push(other),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_written_as_json() {
        assert_eq!(json_string("a\"b\\c\n\u{1}é"), "\"a\\\"b\\\\c\\n\\u0001é\"");
    }
}
