//! Numerics as the numbers of other types that they meet.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal256Array, Float64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DECIMAL256_MAX_PRECISION, DataType, Decimal256Type, DecimalType, i256};
use datafusion::common::exec_datafusion_err;
use datafusion::error::Result;

use super::scalar::{Inputs, Scalar};
use super::{FLOAT8, WIDE};

pub(super) fn functions() -> Vec<Scalar> {
    vec![
        Scalar::of_type(FLOAT8, (1, 1), DataType::Float64, float8),
        Scalar::new(
            WIDE,
            (1, 1),
            |types| Ok(wide_type(&types[0]).unwrap_or_else(|| types[0].clone())),
            |inputs| {
                let array = inputs.array(0)?;
                match wide_type(array.data_type()) {
                    Some(wide) => Ok(cast(array, &wide)?),
                    None => Ok(Arc::clone(array)),
                }
            },
        ),
    ]
}

/// The decimal with as many digits as there can be that has the same digits after the point.
fn wide_type(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Some(DataType::Decimal256(DECIMAL256_MAX_PRECISION, *scale)),
        _ => None,
    }
}

/// The nearest float of a numeric.
fn float8(inputs: &Inputs) -> Result<ArrayRef> {
    let array = inputs.array(0)?;
    let Some(wide @ DataType::Decimal256(precision, scale)) = wide_type(array.data_type()) else {
        return inputs.cast(0, &DataType::Float64);
    };
    let numbers = cast(array, &wide)?;
    let numbers: &Decimal256Array = numbers.as_primitive();
    let floats = numbers.iter().map(|number| match number {
        Some(number) => nearest(number, precision, scale).map(Some),
        None => Ok(None),
    });
    Ok(Arc::new(floats.collect::<Result<Float64Array>>()?))
}

/// A quotient of two floats that are exact is the nearest one; other numbers are read from their digits.
fn nearest(unscaled: i256, precision: u8, scale: i8) -> Result<f64> {
    const EXACT_INTEGER_MAX: i64 = 1 << 53;
    const EXACT_POWER_MAX: i8 = 22;
    if let Some(small) = unscaled.to_i128().and_then(|number| i64::try_from(number).ok())
        && (-EXACT_INTEGER_MAX..=EXACT_INTEGER_MAX).contains(&small)
        && (0..=EXACT_POWER_MAX).contains(&scale)
    {
        return Ok(small as f64 / 10_f64.powi(i32::from(scale)));
    }
    let digits = Decimal256Type::format_decimal(unscaled, precision, scale);
    digits.parse().map_err(|_| exec_datafusion_err!("invalid input syntax for type double precision"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_float_of_a_numeric_is_that_of_its_digits() {
        for (digits, scale) in
            [("3", 1), ("30", 2), ("9007199254740993", 0), ("90071992547409931", 1), ("-1", 30)]
        {
            let number = i256::from_string(digits).unwrap();
            let written = Decimal256Type::format_decimal(number, 76, scale);
            assert_eq!(nearest(number, 76, scale).unwrap(), written.parse::<f64>().unwrap(), "{written}");
        }
    }
}
