//! `header(_headers, 'k')` and `header_bytes(_headers, 'k')`: the last value of a record header.
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
