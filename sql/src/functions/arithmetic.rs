//! Arithmetic where the planner's own would wrap, cut or round differently from PostgreSQL.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Float64Array, Int64Array, Scalar as Constant};
use datafusion::arrow::compute::kernels::numeric::{add, mul, sub};
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNano};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;

use super::scalar::{Inputs, Scalar};
use super::time::intervals;
use super::{CHECKED, INTERVAL_ORDER, ROUND_HALF_EVEN};

pub(super) fn functions() -> Vec<Scalar> {
    vec![
        Scalar::new(CHECKED, (3, usize::MAX), |types| widest(&types[1..]), checked),
        Scalar::of_type(INTERVAL_ORDER, (1, 1), DataType::Int64, interval_order),
        Scalar::of_type(ROUND_HALF_EVEN, (1, 1), DataType::Float64, |inputs| {
            let numbers = inputs.floats(0)?;
            let rounded = inputs.rows().map(|row| numbers.get(row).map(f64::round_ties_even));
            Ok(Arc::new(rounded.collect::<Float64Array>()))
        }),
    ]
}

/// The widest of integer types.
fn widest(types: &[DataType]) -> Result<DataType> {
    let mut widest = DataType::Int16;
    for data_type in types {
        widest = match (data_type, widest) {
            (DataType::Int8 | DataType::Int16 | DataType::Null, found) => found,
            (DataType::Int32, DataType::Int16 | DataType::Int32) => DataType::Int32,
            (DataType::Int32 | DataType::Int64 | DataType::UInt32 | DataType::UInt64, _) => DataType::Int64,
            (other, _) => return plan_err!("an integer is needed, not {other}"),
        };
    }
    Ok(widest)
}

/// `("+*", a, b, c)` is `(a + b) * c`; what does not fit is an error.
fn checked(inputs: &Inputs) -> Result<ArrayRef> {
    let types: Vec<DataType> = (1..inputs.count())
        .map(|index| inputs.array(index).map(|array| array.data_type().clone()))
        .collect::<Result<_>>()?;
    let target = widest(&types)?;
    let operators = inputs.texts(0)?;
    let operators = operators.get(0).unwrap_or_default();
    let (mut value, mut constant) = (inputs.cast(1, &target)?, inputs.is_constant(1));
    for (index, operator) in operators.chars().enumerate() {
        let (next, next_constant) = (inputs.cast(index + 2, &target)?, inputs.is_constant(index + 2));
        value = apply(operator, (value, constant), (next, next_constant))?;
        constant = constant && next_constant;
    }
    Ok(value)
}

fn apply(operator: char, left: (ArrayRef, bool), right: (ArrayRef, bool)) -> Result<ArrayRef> {
    let operation = match operator {
        '+' => add,
        '-' => sub,
        '*' => mul,
        other => return exec_err!("{CHECKED} has no operator {other}"),
    };
    Ok(match (left, right) {
        ((left, true), (right, true)) => operation(&left, &right)?,
        ((left, true), (right, false)) => operation(&Constant::new(left), &right)?,
        ((left, false), (right, true)) => operation(&left, &Constant::new(right))?,
        ((left, false), (right, false)) => operation(&left, &right)?,
    })
}

/// What intervals are compared by: their length in microseconds, with months of 30 days.
fn interval_order(inputs: &Inputs) -> Result<ArrayRef> {
    let intervals = intervals(inputs, 0)?;
    let lengths = inputs.rows().map(|row| intervals.native(row).map(length_us));
    Ok(Arc::new(lengths.collect::<Int64Array>()))
}

fn length_us(interval: IntervalMonthDayNano) -> i64 {
    let days = i128::from(interval.months) * 30 + i128::from(interval.days);
    let length = days * 86_400_000_000 + i128::from(interval.nanoseconds).div_euclid(1000);
    i64::try_from(length).unwrap_or(if length < 0 { i64::MIN } else { i64::MAX })
}
