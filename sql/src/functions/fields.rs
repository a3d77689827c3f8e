//! The fields of a time that the planner's `date_part` lacks or counts differently: seconds with
//! their fraction, ISO weeks' years and days, and what is counted in decades and more.

use std::sync::Arc;

use chrono::{DateTime, Datelike, Timelike, Utc};
use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNano, TimeUnit};
use datafusion::common::exec_err;
use datafusion::error::Result;

use super::FIELD;
use super::scalar::{Column, Inputs, Scalar};
use super::time::{Times, intervals};

const MINUTE_NS: i64 = 60_000_000_000;

pub(super) fn functions() -> Vec<Scalar> {
    vec![Scalar::of_type(FIELD, (2, 2), DataType::Float64, field)]
}

/// Whether a field is read here.
pub(crate) fn is_own_field(field: &str) -> bool {
    is_of_minute(field) || DATE_FIELDS.contains(&field)
}

const DATE_FIELDS: &[&str] = &["isodow", "isoyear", "julian", "decade", "century", "millennium"];

fn is_of_minute(field: &str) -> bool {
    let singular = field.strip_suffix('s').unwrap_or(field);
    matches!(singular, "second" | "millisecond" | "microsecond")
}

fn field(inputs: &Inputs) -> Result<ArrayRef> {
    let fields = inputs.texts(0)?;
    let first = inputs.rows().find_map(|row| fields.get(row)).unwrap_or("second");
    let values = if is_of_minute(first) {
        of_minute(inputs, first)?
    } else if first == "epoch" {
        let intervals = intervals(inputs, 1)?;
        inputs.rows().map(|row| intervals.native(row).map(seconds)).collect()
    } else {
        of_date(inputs, first)?
    };
    Ok(Arc::new(values))
}

/// The length of an interval, with years of 365.25 and months of 30 days.
fn seconds(interval: IntervalMonthDayNano) -> f64 {
    let days = f64::from(interval.months / 12) * 365.25
        + f64::from(interval.months % 12) * 30.0
        + f64::from(interval.days);
    let (whole, rest) = (interval.nanoseconds / 1_000_000_000, interval.nanoseconds % 1_000_000_000);
    (days * 86_400.0 + whole as f64) + rest as f64 / 1e9
}

/// Seconds and their parts, with the fraction.
fn of_minute(inputs: &Inputs, field: &str) -> Result<Float64Array> {
    let per_unit = match field.strip_suffix('s').unwrap_or(field) {
        "second" => 1e9,
        "millisecond" => 1e6,
        _ => 1e3,
    };
    let nanos = nanos_of_minute(inputs)?;
    // Below 60e9, so that the conversion is exact.
    Ok(nanos.into_iter().map(|nanos| nanos.map(|nanos| nanos as f64 / per_unit)).collect())
}

fn nanos_of_minute(inputs: &Inputs) -> Result<Vec<Option<i64>>> {
    Ok(match inputs.array(1)?.data_type() {
        DataType::Interval(_) | DataType::Duration(_) => {
            let intervals = intervals(inputs, 1)?;
            let nanos = |interval: IntervalMonthDayNano| interval.nanoseconds % MINUTE_NS;
            inputs.rows().map(|row| intervals.native(row).map(nanos)).collect()
        }
        DataType::Time32(_) | DataType::Time64(_) => {
            let times = inputs.cast(1, &DataType::Time64(TimeUnit::Nanosecond))?;
            let values: Column<Int64Array> = inputs.with_array(1, cast(&times, &DataType::Int64)?)?;
            inputs.rows().map(|row| values.get(row).map(|nanos| nanos % MINUTE_NS)).collect()
        }
        _ => {
            let times = Times::of(inputs, 1)?;
            let nanos =
                |time: DateTime<Utc>| i64::from(time.second()) * 1_000_000_000 + i64::from(time.nanosecond());
            inputs.rows().map(|row| times.get(row).map(nanos)).collect()
        }
    })
}

fn of_date(inputs: &Inputs, field: &str) -> Result<Float64Array> {
    let times = Times::of(inputs, 1)?;
    inputs.rows().map(|row| times.get(row).map(|time| date_field(time, field)).transpose()).collect()
}

fn date_field(time: DateTime<Utc>, field: &str) -> Result<f64> {
    Ok(match field {
        "isodow" => f64::from(time.weekday().number_from_monday()),
        "isoyear" => f64::from(time.iso_week().year()),
        "decade" => f64::from(time.year().div_euclid(10)),
        "century" => f64::from((time.year() - 1).div_euclid(100) + 1),
        "millennium" => f64::from((time.year() - 1).div_euclid(1000) + 1),
        "julian" => {
            let day = f64::from(time.date_naive().num_days_from_ce()) + 1_721_425.0;
            day + f64::from(time.num_seconds_from_midnight()) / 86_400.0
        }
        other => return exec_err!("unit \"{other}\" not recognized"),
    })
}
