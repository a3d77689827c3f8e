//! Arithmetic on intervals that the planner lacks.

use std::sync::Arc;

use datafusion::arrow::array::IntervalMonthDayNanoArray;
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalUnit};
use datafusion::common::exec_err;
use datafusion::error::Result;

use super::scalar::{Inputs, Scalar};
use super::time::intervals;
use super::{INTERVAL_DIVIDE, INTERVAL_MULTIPLY};

pub(super) fn functions() -> Vec<Scalar> {
    let interval = || DataType::Interval(IntervalUnit::MonthDayNano);
    vec![
        Scalar::of_type(INTERVAL_MULTIPLY, (2, 2), interval(), |inputs| Ok(Arc::new(scale(inputs, Ok)?))),
        Scalar::of_type(INTERVAL_DIVIDE, (2, 2), interval(), |inputs| {
            Ok(Arc::new(scale(inputs, |number| {
                if number == 0.0 { exec_err!("division by zero") } else { Ok(1.0 / number) }
            })?))
        }),
    ]
}

fn scale(inputs: &Inputs, factor: impl Fn(f64) -> Result<f64>) -> Result<IntervalMonthDayNanoArray> {
    let intervals = intervals(inputs, 0)?;
    let numbers = inputs.floats(1)?;
    inputs
        .rows()
        .map(|row| match (intervals.native(row), numbers.get(row)) {
            (Some(interval), Some(number)) => scaled(interval, factor(number)?).map(Some),
            _ => Ok(None),
        })
        .collect()
}

/// Fractions of months become days of which a month has 30, fractions of days become time.
fn scaled(interval: IntervalMonthDayNano, factor: f64) -> Result<IntervalMonthDayNano> {
    let all_months = f64::from(interval.months) * factor;
    let months = all_months.trunc();
    let all_days = f64::from(interval.days) * factor + (all_months - months) * 30.0;
    let days = all_days.trunc();
    let nanos = (interval.nanoseconds as f64 * factor + (all_days - days) * 86_400e9).round();
    let fits = |value: f64| value.is_finite() && value.abs() <= f64::from(i32::MAX);
    if !fits(months) || !fits(days) || !nanos.is_finite() || nanos.abs() > 9.2e18 {
        return exec_err!("interval out of range");
    }
    Ok(IntervalMonthDayNano::new(months as i32, days as i32, nanos as i64))
}
