//! The aggregate that stands for a scalar subquery: its one value, NULL for no row, an error for
//! several rows.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use super::SINGLE_VALUE;

pub(super) fn aggregate() -> AggregateUDF {
    AggregateUDF::new_from_impl(SingleValue { signature: Signature::any(1, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleValue {
    signature: Signature,
}

impl AggregateUDFImpl for SingleValue {
    fn name(&self) -> &str {
        SINGLE_VALUE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [only] => Ok(only.clone()),
            _ => exec_err!("{SINGLE_VALUE} takes one argument"),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Single { rows: 0, value: ScalarValue::try_from(args.return_field.data_type())? }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let value = args.return_field.as_ref().clone().with_name("value").with_nullable(true);
        Ok(vec![Arc::new(value), Arc::new(Field::new("rows", DataType::UInt64, false))])
    }
}

#[derive(Debug)]
struct Single {
    rows: u64,
    value: ScalarValue,
}

impl Single {
    fn add(&mut self, rows: u64, value: impl FnOnce() -> Result<ScalarValue>) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        if self.rows + rows > 1 {
            return exec_err!("more than one row returned by a subquery used as an expression");
        }
        self.rows = rows;
        self.value = value()?;
        Ok(())
    }
}

impl Accumulator for Single {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let array = &values[0];
        self.add(array.len() as u64, || ScalarValue::try_from_array(array, 0))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::UInt64(Some(self.rows))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for row in 0..states[0].len() {
            let ScalarValue::UInt64(rows) = ScalarValue::try_from_array(&states[1], row)? else {
                return exec_err!("{SINGLE_VALUE} has a damaged state");
            };
            self.add(rows.unwrap_or(0), || ScalarValue::try_from_array(&states[0], row))?;
        }
        Ok(())
    }
}
