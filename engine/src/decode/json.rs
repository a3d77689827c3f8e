//! The decoder of JSON objects: top-level members become columns of pinned types.
//!
//! Invariant: of repeated members the last wins; a value that is not one JSON object gives NULL in
//! every column and one error text; a tombstone gives NULLs and no error.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanBuilder, Decimal256Builder, Float64Builder, Int64Builder, StringViewArray,
    StringViewBuilder, TimestampMicrosecondBuilder,
};
use datafusion::arrow::datatypes::Fields;
use strandline_storage::table::{DecodeError, Decoded, ErrorColumn, PayloadDecoder};

use super::column_type::{ColumnType, Converted};
use super::members::for_each_member;

/// Decodes the values of one topic whose columns are known.
#[derive(Debug)]
pub struct JsonDecoder {
    fields: Fields,
    types: Vec<ColumnType>,
}

impl JsonDecoder {
    pub fn new<'a>(columns: impl IntoIterator<Item = (&'a str, ColumnType)>) -> Self {
        let (fields, types): (Vec<_>, Vec<_>) =
            columns.into_iter().map(|(name, column_type)| (column_type.field(name), column_type)).unzip();
        Self { fields: fields.into(), types }
    }
}

impl PayloadDecoder for JsonDecoder {
    fn fields(&self) -> &Fields {
        &self.fields
    }

    fn decode(
        &self,
        values: &[Option<&[u8]>],
        projection: &[usize],
        errors: ErrorColumn,
    ) -> Result<Decoded, DecodeError> {
        let mut slots = HashMap::with_capacity(projection.len());
        let mut columns = Vec::with_capacity(projection.len());
        for (slot, index) in projection.iter().enumerate() {
            slots.insert(self.fields[*index].name().as_str(), slot);
            columns.push((self.types[*index], ColumnBuilder::new(self.types[*index], values.len())));
        }
        let mut error_texts = StringViewBuilder::with_capacity(values.len());
        let mut row: Vec<Option<&str>> = vec![None; projection.len()];
        for value in values {
            row.fill(None);
            let error = value.and_then(|value| read_row(value, &slots, &mut row));
            for (raw, (column_type, builder)) in row.iter().zip(&mut columns) {
                builder.append(raw.and_then(|raw| column_type.convert(raw)));
            }
            error_texts.append_option(error);
        }
        Ok(Decoded {
            columns: columns.into_iter().map(|(_, builder)| builder.finish()).collect(),
            errors: wanted(errors, error_texts),
        })
    }
}

fn wanted(errors: ErrorColumn, mut texts: StringViewBuilder) -> Option<StringViewArray> {
    match errors {
        ErrorColumn::Wanted => Some(texts.finish()),
        ErrorColumn::Unwanted => None,
    }
}

/// Fills `row` with the raw text of the wanted members; answers the error's text instead, with an
/// empty row, when the value is not one JSON object.
fn read_row<'a>(
    value: &'a [u8],
    slots: &HashMap<&str, usize>,
    row: &mut [Option<&'a str>],
) -> Option<String> {
    let outcome = for_each_member(value, &mut |name, raw| {
        if let Some(slot) = slots.get(&*name) {
            row[*slot] = (raw != "null").then_some(raw);
        }
    });
    let error = outcome.err()?;
    row.fill(None);
    Some(error.to_string())
}

enum ColumnBuilder {
    Bool(BooleanBuilder),
    Bigint(Int64Builder),
    Double(Float64Builder),
    Numeric(Decimal256Builder),
    Timestamptz(TimestampMicrosecondBuilder),
    Text(StringViewBuilder),
}

impl ColumnBuilder {
    fn new(column_type: ColumnType, capacity: usize) -> Self {
        match column_type {
            ColumnType::Bool => Self::Bool(BooleanBuilder::with_capacity(capacity)),
            ColumnType::Bigint => Self::Bigint(Int64Builder::with_capacity(capacity)),
            ColumnType::Double => Self::Double(Float64Builder::with_capacity(capacity)),
            ColumnType::Numeric { .. } => {
                let builder = Decimal256Builder::with_capacity(capacity);
                Self::Numeric(builder.with_data_type(column_type.arrow_type()))
            }
            ColumnType::Timestamptz => {
                let builder = TimestampMicrosecondBuilder::with_capacity(capacity);
                Self::Timestamptz(builder.with_data_type(column_type.arrow_type()))
            }
            ColumnType::Json | ColumnType::Text => Self::Text(StringViewBuilder::with_capacity(capacity)),
        }
    }

    fn append(&mut self, value: Option<Converted<'_>>) {
        match (self, value) {
            (Self::Bool(builder), Some(Converted::Bool(value))) => builder.append_value(value),
            (Self::Bigint(builder), Some(Converted::Bigint(value))) => builder.append_value(value),
            (Self::Double(builder), Some(Converted::Double(value))) => builder.append_value(value),
            (Self::Numeric(builder), Some(Converted::Numeric(value))) => builder.append_value(value),
            (Self::Timestamptz(builder), Some(Converted::Timestamptz(value))) => builder.append_value(value),
            (Self::Text(builder), Some(Converted::Text(value))) => builder.append_value(value),
            (builder, _) => builder.append_null(),
        }
    }

    fn append_null(&mut self) {
        match self {
            Self::Bool(builder) => builder.append_null(),
            Self::Bigint(builder) => builder.append_null(),
            Self::Double(builder) => builder.append_null(),
            Self::Numeric(builder) => builder.append_null(),
            Self::Timestamptz(builder) => builder.append_null(),
            Self::Text(builder) => builder.append_null(),
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::Bool(mut builder) => Arc::new(builder.finish()),
            Self::Bigint(mut builder) => Arc::new(builder.finish()),
            Self::Double(mut builder) => Arc::new(builder.finish()),
            Self::Numeric(mut builder) => Arc::new(builder.finish()),
            Self::Timestamptz(mut builder) => Arc::new(builder.finish()),
            Self::Text(mut builder) => Arc::new(builder.finish()),
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Array, AsArray};
    use datafusion::arrow::datatypes::{DataType, Decimal256Type, Int64Type};

    use super::*;

    fn decoder() -> JsonDecoder {
        JsonDecoder::new([
            ("n", ColumnType::Bigint),
            ("s", ColumnType::Text),
            ("d", ColumnType::Numeric { scale: 1 }),
            ("j", ColumnType::Json),
        ])
    }

    fn decode(values: &[Option<&[u8]>], projection: &[usize]) -> Decoded {
        decoder().decode(values, projection, ErrorColumn::Wanted).unwrap()
    }

    #[test]
    fn one_bad_value_spoils_its_own_row_only() {
        let deep = format!("{{\"n\":1,\"x\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let values: [Option<&[u8]>; 8] = [
            Some(br#"{"n":1,"s":"a"}"#),
            Some(b"\xAB\xBB"),
            Some(br#"{"n":1,"s":"#),
            Some(br#"{"n":1}{"n":2}"#),
            Some(b"  "),
            None,
            Some(deep.as_bytes()),
            Some(br#"{"n":2,"s":null}"#),
        ];
        let decoded = decode(&values, &[0, 1]);
        let numbers = decoded.columns[0].as_primitive::<Int64Type>();
        let found: Vec<_> = numbers.iter().collect();
        assert_eq!(found, [Some(1), None, None, None, None, None, None, Some(2)]);
        let errors = decoded.errors.unwrap();
        let has_error: Vec<_> = (0..8).map(|row| errors.is_valid(row)).collect();
        assert_eq!(has_error, [false, true, true, true, true, false, true, false]);
    }

    #[test]
    fn of_repeated_members_the_last_wins() {
        let values: [Option<&[u8]>; 2] = [Some(br#"{"n":1,"n":2}"#), Some(br#"{"n":1,"n":null}"#)];
        let decoded = decode(&values, &[0]);
        let numbers: Vec<_> = decoded.columns[0].as_primitive::<Int64Type>().iter().collect();
        assert_eq!(numbers, [Some(2), None]);
    }

    #[test]
    fn columns_come_in_the_order_of_the_projection() {
        let values: [Option<&[u8]>; 1] = [Some(br#"{"j":{"a" : 1},"d":1.5,"n":7}"#)];
        let decoded = decode(&values, &[3, 2]);
        assert_eq!(decoded.columns[0].as_string_view().value(0), r#"{"a" : 1}"#);
        let numerics = decoded.columns[1].as_primitive::<Decimal256Type>();
        assert_eq!(numerics.value_as_string(0), "1.5");
        assert_eq!(decoded.columns[1].data_type(), &DataType::Decimal256(76, 1));
    }
}
