//! One Arrow column, read once per batch into the few shapes that the wire knows.
//!
//! Invariant: every Arrow type of one shape becomes the same [`Column`] variant, so the writers
//! never look at Arrow types. Types without a shape are refused here, before any row is written.

use std::sync::Arc;

use datafusion::arrow::array::types::{Decimal256Type, Int64Type, IntervalMonthDayNanoType, UInt64Type};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Decimal256Array, Float32Array, Float64Array,
    Int64Array, IntervalMonthDayNanoArray, StringViewArray, UInt64Array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, IntervalUnit, TimeUnit, i256};

use super::EncodeError;
use super::datetime::{Interval, PgTimestamp};

/// One value that is not NULL.
#[derive(Debug)]
pub(crate) enum Cell<'a> {
    Bool(bool),
    Int(i64),
    UInt(u64),
    Float4(f32),
    Float8(f64),
    Numeric {
        unscaled: i256,
        scale: i8,
    },
    Text(&'a str),
    Bytes(&'a [u8]),
    /// Days since 1970-01-01.
    Date(i64),
    /// Microseconds since midnight.
    Time(i64),
    Timestamp(PgTimestamp),
    Interval(Interval),
    List {
        items: &'a Column,
        start: usize,
        end: usize,
    },
    Struct {
        fields: &'a [(String, Column)],
        row: usize,
    },
    Map {
        keys: &'a Column,
        values: &'a Column,
        start: usize,
        end: usize,
    },
}

/// A column of values of one shape, with its NULLs.
#[derive(Debug)]
pub(crate) struct Column {
    nulls: Option<NullBuffer>,
    values: Values,
    arrow_type: DataType,
}

#[derive(Debug)]
enum Values {
    Null,
    Bool(BooleanArray),
    Int(Int64Array),
    UInt(UInt64Array),
    Float4(Float32Array),
    Float8(Float64Array),
    Numeric { values: Decimal256Array, scale: i8 },
    Text(StringViewArray),
    Bytes(BinaryViewArray),
    Date(Int64Array),
    Time(Int64Array),
    Timestamp { values: Int64Array, unit: TimeUnit },
    Duration { values: Int64Array, unit: TimeUnit },
    Interval(IntervalMonthDayNanoArray),
    List { offsets: OffsetBuffer<i32>, items: Box<Column> },
    Struct(Vec<(String, Column)>),
    Map { offsets: OffsetBuffer<i32>, keys: Box<Column>, values: Box<Column> },
}

impl Column {
    /// # Errors
    /// When the Arrow type has no form on the wire.
    pub(crate) fn read(array: &ArrayRef) -> Result<Self, EncodeError> {
        let values = read_values(array)?;
        let nulls = array.logical_nulls();
        Ok(Self { nulls, values, arrow_type: array.data_type().clone() })
    }

    /// The value at `row`, or None for NULL.
    pub(crate) fn cell(&self, row: usize) -> Option<Cell<'_>> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        Some(match &self.values {
            Values::Null => return None,
            Values::Bool(values) => Cell::Bool(values.value(row)),
            Values::Int(values) => Cell::Int(values.value(row)),
            Values::UInt(values) => Cell::UInt(values.value(row)),
            Values::Float4(values) => Cell::Float4(values.value(row)),
            Values::Float8(values) => Cell::Float8(values.value(row)),
            Values::Numeric { values, scale } => Cell::Numeric { unscaled: values.value(row), scale: *scale },
            Values::Text(values) => Cell::Text(values.value(row)),
            Values::Bytes(values) => Cell::Bytes(values.value(row)),
            Values::Date(values) => Cell::Date(values.value(row)),
            Values::Time(values) => Cell::Time(values.value(row)),
            Values::Timestamp { values, unit } => {
                Cell::Timestamp(PgTimestamp::from_unix(values.value(row), *unit))
            }
            Values::Duration { values, unit } => {
                Cell::Interval(Interval::from_duration(values.value(row), *unit))
            }
            Values::Interval(values) => Cell::Interval(Interval::from_arrow(values.value(row))),
            Values::List { offsets, items } => {
                let (start, end) = bounds(offsets, row);
                Cell::List { items, start, end }
            }
            Values::Struct(fields) => Cell::Struct { fields, row },
            Values::Map { offsets, keys, values } => {
                let (start, end) = bounds(offsets, row);
                Cell::Map { keys, values, start, end }
            }
        })
    }

    pub(crate) fn arrow_type(&self) -> &DataType {
        &self.arrow_type
    }
}

impl Cell<'_> {
    /// What the value is, for messages.
    pub(crate) fn shape(&self) -> &'static str {
        match self {
            Cell::Bool(_) => "boolean",
            Cell::Int(_) | Cell::UInt(_) => "integer",
            Cell::Float4(_) | Cell::Float8(_) => "float",
            Cell::Numeric { .. } => "numeric",
            Cell::Text(_) => "text",
            Cell::Bytes(_) => "bytes",
            Cell::Date(_) => "date",
            Cell::Time(_) => "time",
            Cell::Timestamp(_) => "timestamp",
            Cell::Interval(_) => "interval",
            Cell::List { .. } => "list",
            Cell::Struct { .. } => "struct",
            Cell::Map { .. } => "map",
        }
    }
}

fn bounds(offsets: &OffsetBuffer<i32>, row: usize) -> (usize, usize) {
    let at = |index: usize| usize::try_from(offsets[index]).expect("Arrow offsets are not negative");
    (at(row), at(row + 1))
}

fn read_values(array: &ArrayRef) -> Result<Values, EncodeError> {
    use DataType as T;
    Ok(match array.data_type() {
        T::Null => Values::Null,
        T::Boolean => Values::Bool(array.as_boolean().clone()),
        T::Int8 | T::Int16 | T::Int32 | T::Int64 | T::UInt8 | T::UInt16 | T::UInt32 => {
            Values::Int(int64(array)?)
        }
        T::UInt64 => Values::UInt(array.as_primitive::<UInt64Type>().clone()),
        T::Float16 | T::Float32 => Values::Float4(converted(array, &T::Float32)?.as_primitive().clone()),
        T::Float64 => Values::Float8(array.as_primitive().clone()),
        T::Decimal32(_, scale) | T::Decimal64(_, scale) | T::Decimal128(_, scale) => {
            decimal(&converted(array, &T::Decimal256(76, *scale))?, *scale)
        }
        T::Decimal256(_, scale) => decimal(array, *scale),
        T::Utf8 | T::LargeUtf8 | T::Utf8View => {
            Values::Text(converted(array, &T::Utf8View)?.as_string_view().clone())
        }
        T::Binary | T::LargeBinary | T::BinaryView => {
            Values::Bytes(converted(array, &T::BinaryView)?.as_binary_view().clone())
        }
        T::FixedSizeBinary(_) => {
            let binary = converted(array, &T::Binary)?;
            Values::Bytes(converted(&binary, &T::BinaryView)?.as_binary_view().clone())
        }
        T::Dictionary(_, value_type) => read_values(&converted(array, value_type)?)?,
        T::RunEndEncoded(_, values) => read_values(&converted(array, values.data_type())?)?,
        T::List(_) | T::LargeList(_) | T::FixedSizeList(..) | T::ListView(_) | T::LargeListView(_) => {
            list(array)?
        }
        T::Struct(_) => structure(array)?,
        T::Map(..) => map(array)?,
        _ => temporal(array)?,
    })
}

fn temporal(array: &ArrayRef) -> Result<Values, EncodeError> {
    use DataType as T;
    Ok(match array.data_type() {
        T::Date32 => Values::Date(int64(array)?),
        T::Date64 => Values::Date(int64(&converted(array, &T::Date32)?)?),
        T::Time32(_) | T::Time64(_) => {
            Values::Time(int64(&converted(array, &T::Time64(TimeUnit::Microsecond))?)?)
        }
        T::Timestamp(unit, _) => Values::Timestamp { values: int64(array)?, unit: *unit },
        T::Duration(unit) => Values::Duration { values: int64(array)?, unit: *unit },
        T::Interval(_) => {
            let intervals = converted(array, &T::Interval(IntervalUnit::MonthDayNano))?;
            Values::Interval(intervals.as_primitive::<IntervalMonthDayNanoType>().clone())
        }
        other => return Err(unsupported(other)),
    })
}

fn unsupported(arrow_type: &DataType) -> EncodeError {
    EncodeError::Unsupported { arrow: arrow_type.to_string(), pg_type: "a Postgres type".to_owned() }
}

fn converted(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, EncodeError> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    cast(array, to).map_err(|_| unsupported(array.data_type()))
}

/// Dates, times and timestamps give their raw count of units.
fn int64(array: &ArrayRef) -> Result<Int64Array, EncodeError> {
    // Arrow has no direct way from 32-bit dates to 64-bit integers.
    let array = match array.data_type() {
        DataType::Date32 => converted(array, &DataType::Int32)?,
        _ => Arc::clone(array),
    };
    Ok(converted(&array, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

fn decimal(array: &ArrayRef, scale: i8) -> Values {
    Values::Numeric { values: array.as_primitive::<Decimal256Type>().clone(), scale }
}

fn list(array: &ArrayRef) -> Result<Values, EncodeError> {
    let element = match array.data_type() {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::ListView(field)
        | DataType::LargeListView(field) => Arc::clone(field),
        other => return Err(unsupported(other)),
    };
    let array = converted(array, &DataType::List(element))?;
    let list = array.as_list::<i32>();
    Ok(Values::List { offsets: list.offsets().clone(), items: Box::new(Column::read(list.values())?) })
}

fn structure(array: &ArrayRef) -> Result<Values, EncodeError> {
    let structure = array.as_struct();
    let fields = structure
        .fields()
        .iter()
        .zip(structure.columns())
        .map(|(field, column)| Ok((field.name().clone(), Column::read(column)?)))
        .collect::<Result<_, EncodeError>>()?;
    Ok(Values::Struct(fields))
}

fn map(array: &ArrayRef) -> Result<Values, EncodeError> {
    let map = array.as_map();
    Ok(Values::Map {
        offsets: map.offsets().clone(),
        keys: Box::new(Column::read(map.keys())?),
        values: Box::new(Column::read(map.values())?),
    })
}
