//! Puts the values of parameters into a plan.
//!
//! Invariant: a value changes its type only where that loses nothing, where it is text that has to be
//! read as what it is compared with, or where it is a numeric beside a double, which PostgreSQL takes
//! as a double.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ParamValues;
use datafusion::logical_expr::LogicalPlan;
use datafusion::scalar::ScalarValue;
use strandline_sql::PgType;

use crate::error::{EngineError, ErrorKind};

use super::fine_times;
use super::plan::{ParameterPlace, PlannedQuery};

/// The plan with these values in the places of its parameters.
///
/// # Errors
/// When there are too few values, or one cannot be read as what its parameter is.
pub(crate) fn bind(
    query: &PlannedQuery,
    values: Vec<ScalarValue>,
    parse_time: &dyn Fn(&str) -> Result<i64, EngineError>,
) -> Result<LogicalPlan, EngineError> {
    if values.len() < query.parameters.len() {
        let message = format!(
            "statement has {} parameters, {} values were given",
            query.parameters.len(),
            values.len()
        );
        return Err(EngineError::new(ErrorKind::ProtocolViolation, message));
    }
    if query.parameters.is_empty() {
        return Ok(query.plan.clone());
    }
    let expected = query.parameters.iter().map(expected_type).chain(std::iter::repeat(None));
    let values: Result<Vec<_>, EngineError> = values
        .into_iter()
        .zip(expected)
        .map(|(value, expected)| coerce(value, expected.as_ref(), parse_time))
        .collect();
    let values = values?;
    let plan = fine_times::coarsen(query.plan.clone(), &values)?;
    Ok(plan.with_param_values(ParamValues::from(values))?)
}

/// The plan knows best; else the text of the statement, for types whose values come as text.
fn expected_type(place: &ParameterPlace) -> Option<DataType> {
    place.data_type.clone().or_else(|| match place.pg_type? {
        PgType::Bool => Some(DataType::Boolean),
        PgType::Int2 => Some(DataType::Int16),
        PgType::Int4 => Some(DataType::Int32),
        PgType::Int8 => Some(DataType::Int64),
        PgType::Float4 => Some(DataType::Float32),
        PgType::Float8 => Some(DataType::Float64),
        PgType::Date => Some(DataType::Date32),
        PgType::Timestamptz => Some(DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
        _ => None,
    })
}

fn coerce(
    value: ScalarValue,
    expected: Option<&DataType>,
    parse_time: &dyn Fn(&str) -> Result<i64, EngineError>,
) -> Result<ScalarValue, EngineError> {
    let Some(expected) = expected else { return Ok(value) };
    if value.is_null() {
        return Ok(ScalarValue::try_from(expected)?);
    }
    match (&value, expected) {
        (ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), expected) => {
            from_text(text, expected, parse_time)
        }
        (
            ScalarValue::TimestampMicrosecond(Some(micros), zone),
            DataType::Timestamp(TimeUnit::Millisecond, _),
        ) if micros % 1_000 == 0 => Ok(ScalarValue::TimestampMillisecond(Some(micros / 1_000), zone.clone())),
        (
            ScalarValue::Decimal128(..) | ScalarValue::Decimal256(..),
            DataType::Float64 | DataType::Float32,
        ) => Ok(value.cast_to(&DataType::Float64)?),
        _ => Ok(value),
    }
}

fn from_text(
    text: &str,
    expected: &DataType,
    parse_time: &dyn Fn(&str) -> Result<i64, EngineError>,
) -> Result<ScalarValue, EngineError> {
    match expected {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            Ok(ScalarValue::Utf8View(Some(text.to_owned())))
        }
        DataType::Timestamp(_, Some(zone)) => {
            let micros = ScalarValue::TimestampMicrosecond(Some(parse_time(text)?), Some(zone.clone()));
            coerce(micros, Some(expected), parse_time)
        }
        expected => ScalarValue::Utf8(Some(text.to_owned())).cast_to(expected).map_err(|_| {
            let message = format!("\"{text}\" is no value of type {}", type_name(expected));
            EngineError::new(ErrorKind::InvalidText, message)
        }),
    }
}

fn type_name(data_type: &DataType) -> &'static str {
    PgType::of_arrow(data_type).display_name()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_times(text: &str) -> Result<i64, EngineError> {
        Err(EngineError::new(ErrorKind::InvalidDatetime, text))
    }

    fn utc(unit: TimeUnit) -> DataType {
        DataType::Timestamp(unit, Some("UTC".into()))
    }

    #[test]
    fn text_is_read_as_what_it_is_compared_with() {
        let text = ScalarValue::Utf8(Some("42".to_owned()));
        let bound = coerce(text.clone(), Some(&DataType::Int64), &no_times).unwrap();
        assert_eq!(bound, ScalarValue::Int64(Some(42)));
        let error = coerce(ScalarValue::from("x"), Some(&DataType::Int64), &no_times).unwrap_err();
        assert_eq!(error.to_string(), "\"x\" is no value of type bigint");
        let micros = |_: &str| Ok(1_500);
        let bound = coerce(text.clone(), Some(&utc(TimeUnit::Millisecond)), &micros).unwrap();
        assert_eq!(bound, ScalarValue::TimestampMicrosecond(Some(1_500), Some("UTC".into())));
        assert_eq!(coerce(text.clone(), None, &no_times).unwrap(), text);
    }

    #[test]
    fn whole_milliseconds_become_the_unit_of_the_column() {
        let value = ScalarValue::TimestampMicrosecond(Some(2_000), Some("UTC".into()));
        let bound = coerce(value, Some(&utc(TimeUnit::Millisecond)), &no_times).unwrap();
        assert_eq!(bound, ScalarValue::TimestampMillisecond(Some(2), Some("UTC".into())));
    }

    #[test]
    fn a_numeric_beside_a_double_is_a_double() {
        let value = ScalarValue::Decimal128(Some(15), 38, 1);
        let bound = coerce(value, Some(&DataType::Float64), &no_times).unwrap();
        assert_eq!(bound, ScalarValue::Float64(Some(1.5)));
    }

    #[test]
    fn null_takes_the_type_of_its_place() {
        let bound = coerce(ScalarValue::Utf8(None), Some(&DataType::Int64), &no_times).unwrap();
        assert_eq!(bound, ScalarValue::Int64(None));
    }
}
