//! The one shape of our scalar functions: a name, a rule for the type of the answer, and a body
//! over columns of which some are constants.

use std::any::Any;
use std::cell::OnceCell;
use std::fmt::{self, Debug, Formatter};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BinaryArray, Float64Array, Int64Array, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::pg_type::{PgType, TYPE_METADATA_KEY};

type Returns = Arc<dyn Fn(&[DataType]) -> Result<DataType> + Send + Sync>;
type Body = Arc<dyn Fn(&Inputs) -> Result<ArrayRef> + Send + Sync>;

/// A scalar function.
#[derive(Clone)]
pub(crate) struct Scalar {
    name: &'static str,
    /// The least and the greatest number of arguments.
    arity: (usize, usize),
    signature: Signature,
    returns: Returns,
    /// What the answer is in PostgreSQL, when its Arrow type does not say it.
    pg_type: Option<PgType>,
    body: Body,
}

impl Scalar {
    /// A function that answers the same for the same arguments.
    pub(crate) fn new(
        name: &'static str,
        arity: (usize, usize),
        returns: impl Fn(&[DataType]) -> Result<DataType> + Send + Sync + 'static,
        body: impl Fn(&Inputs) -> Result<ArrayRef> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            arity,
            signature: signature(arity, Volatility::Immutable),
            returns: Arc::new(returns),
            pg_type: None,
            body: Arc::new(body),
        }
    }

    /// A function whose answer has one type.
    pub(crate) fn of_type(
        name: &'static str,
        arity: (usize, usize),
        data_type: DataType,
        body: impl Fn(&Inputs) -> Result<ArrayRef> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name, arity, move |_| Ok(data_type.clone()), body)
    }

    /// A function that answers text, row by row.
    pub(crate) fn text(
        name: &'static str,
        arity: (usize, usize),
        row: impl Fn(&Row) -> Result<Option<String>> + Send + Sync + 'static,
    ) -> Self {
        Self::of_type(name, arity, DataType::Utf8, move |inputs| {
            let columns = Columns::new(inputs);
            let values = inputs.rows().map(|index| row(&Row { columns: &columns, index }));
            Ok(Arc::new(values.collect::<Result<StringArray>>()?))
        })
    }

    /// The same function, called again for every statement.
    pub(crate) fn stable(mut self) -> Self {
        self.signature = signature(self.arity, Volatility::Stable);
        self
    }

    /// The same function, called for every row because it has effects.
    pub(crate) fn volatile(mut self) -> Self {
        self.signature = signature(self.arity, Volatility::Volatile);
        self
    }

    /// The same function with an answer that clients see as another type.
    pub(crate) fn shown_as(mut self, pg_type: PgType) -> Self {
        self.pg_type = Some(pg_type);
        self
    }

    pub(crate) fn into_udf(self) -> ScalarUDF {
        ScalarUDF::new_from_impl(self)
    }

    fn check_arity(&self, count: usize) -> Result<()> {
        let (least, most) = self.arity;
        if (least..=most).contains(&count) {
            return Ok(());
        }
        plan_err!("function {} takes {least} to {most} arguments, not {count}", self.name)
    }
}

fn signature(arity: (usize, usize), volatility: Volatility) -> Signature {
    if arity.1 == 0 {
        Signature::nullary(volatility)
    } else if arity.0 == 0 {
        Signature::one_of(
            vec![
                datafusion::logical_expr::TypeSignature::Nullary,
                datafusion::logical_expr::TypeSignature::VariadicAny,
            ],
            volatility,
        )
    } else {
        Signature::variadic_any(volatility)
    }
}

impl Debug for Scalar {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Scalar").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.body, &other.body)
    }
}

impl Eq for Scalar {}

impl Hash for Scalar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Scalar {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.check_arity(arg_types.len())?;
        (self.returns)(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let field = Field::new(self.name, self.return_type(&types)?, true);
        Ok(Arc::new(match self.pg_type {
            Some(pg_type) => {
                field.with_metadata([(TYPE_METADATA_KEY.to_owned(), pg_type.name().to_owned())].into())
            }
            None => field,
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows =
            if constant && self.signature.volatility != Volatility::Volatile { 1 } else { args.number_rows };
        let columns = args
            .args
            .iter()
            .map(|arg| match arg {
                ColumnarValue::Array(array) => Ok((Arc::clone(array), false)),
                ColumnarValue::Scalar(value) => Ok((value.to_array()?, true)),
            })
            .collect::<Result<Vec<_>>>()?;
        let answer = (self.body)(&Inputs { columns, rows })?;
        if constant && rows == 1 {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&answer, 0)?));
        }
        Ok(ColumnarValue::Array(answer))
    }
}

/// The arguments of one call over a batch.
pub(crate) struct Inputs {
    /// Each with whether it is a constant, which has one row.
    columns: Vec<(ArrayRef, bool)>,
    rows: usize,
}

impl Inputs {
    pub(crate) fn rows(&self) -> std::ops::Range<usize> {
        0..self.rows
    }

    pub(crate) fn count(&self) -> usize {
        self.columns.len()
    }

    pub(crate) fn array(&self, index: usize) -> Result<&ArrayRef> {
        match self.columns.get(index) {
            Some((array, _)) => Ok(array),
            None => exec_err!("argument {} is missing", index + 1),
        }
    }

    pub(crate) fn is_constant(&self, index: usize) -> bool {
        self.columns.get(index).is_some_and(|(_, constant)| *constant)
    }

    /// The row of an argument's array that belongs to a row of the batch.
    pub(crate) fn row_of(&self, index: usize, row: usize) -> usize {
        if self.is_constant(index) { 0 } else { row }
    }

    /// One argument as another Arrow type.
    pub(crate) fn cast(&self, index: usize, data_type: &DataType) -> Result<ArrayRef> {
        let array = self.array(index)?;
        if array.data_type() == data_type {
            return Ok(Arc::clone(array));
        }
        Ok(cast(array, data_type)?)
    }

    /// One argument as text.
    pub(crate) fn texts(&self, index: usize) -> Result<Column<StringArray>> {
        self.column(index, &DataType::Utf8)
    }

    /// One argument as integers.
    pub(crate) fn integers(&self, index: usize) -> Result<Column<Int64Array>> {
        self.column(index, &DataType::Int64)
    }

    /// One argument as floating point numbers.
    pub(crate) fn floats(&self, index: usize) -> Result<Column<Float64Array>> {
        self.column(index, &DataType::Float64)
    }

    /// One argument as an array of a known type.
    pub(crate) fn column<A: Array + Clone + 'static>(
        &self,
        index: usize,
        data_type: &DataType,
    ) -> Result<Column<A>> {
        self.with_array(index, self.cast(index, data_type)?)
    }

    /// An array that was made from one argument, with the argument's rows.
    pub(crate) fn with_array<A: Array + Clone + 'static>(
        &self,
        index: usize,
        array: ArrayRef,
    ) -> Result<Column<A>> {
        let constant = self.is_constant(index);
        let any: &dyn Any = array.as_any();
        match any.downcast_ref::<A>() {
            Some(array) => Ok(Column { array: array.clone(), constant }),
            None => exec_err!("argument {} has the unexpected type {}", index + 1, array.data_type()),
        }
    }
}

/// One argument with a known type.
pub(crate) struct Column<A> {
    array: A,
    constant: bool,
}

impl<A: Array> Column<A> {
    fn row(&self, row: usize) -> Option<usize> {
        let row = if self.constant { 0 } else { row };
        self.array.is_valid(row).then_some(row)
    }
}

impl Column<StringArray> {
    pub(crate) fn get(&self, row: usize) -> Option<&str> {
        self.row(row).map(|row| self.array.value(row))
    }
}

impl Column<BinaryArray> {
    pub(crate) fn get(&self, row: usize) -> Option<&[u8]> {
        self.row(row).map(|row| self.array.value(row))
    }
}

impl Column<Int64Array> {
    pub(crate) fn get(&self, row: usize) -> Option<i64> {
        self.row(row).map(|row| self.array.value(row))
    }
}

impl Column<Float64Array> {
    pub(crate) fn get(&self, row: usize) -> Option<f64> {
        self.row(row).map(|row| self.array.value(row))
    }
}

impl<T: datafusion::arrow::datatypes::ArrowPrimitiveType>
    Column<datafusion::arrow::array::PrimitiveArray<T>>
{
    /// The native value of a row.
    pub(crate) fn native(&self, row: usize) -> Option<T::Native> {
        self.row(row).map(|row| self.array.value(row))
    }
}

/// The arguments in the types that rows are asked for, converted once for all rows.
struct Columns<'a> {
    inputs: &'a Inputs,
    texts: Vec<OnceCell<Column<StringArray>>>,
    integers: Vec<OnceCell<Column<Int64Array>>>,
}

impl<'a> Columns<'a> {
    fn new(inputs: &'a Inputs) -> Self {
        let count = inputs.count();
        Self {
            inputs,
            texts: (0..count).map(|_| OnceCell::new()).collect(),
            integers: (0..count).map(|_| OnceCell::new()).collect(),
        }
    }
}

/// One row of the arguments. An argument that was not given is NULL.
pub(crate) struct Row<'a> {
    columns: &'a Columns<'a>,
    index: usize,
}

impl Row<'_> {
    pub(crate) fn text(&self, index: usize) -> Result<Option<&str>> {
        let Some(cell) = self.columns.texts.get(index) else { return Ok(None) };
        let column = match cell.get() {
            Some(column) => column,
            None => {
                let column = self.columns.inputs.texts(index)?;
                cell.get_or_init(|| column)
            }
        };
        Ok(column.get(self.index))
    }

    pub(crate) fn integer(&self, index: usize) -> Result<Option<i64>> {
        let Some(cell) = self.columns.integers.get(index) else { return Ok(None) };
        let column = match cell.get() {
            Some(column) => column,
            None => {
                let column = self.columns.inputs.integers(index)?;
                cell.get_or_init(|| column)
            }
        };
        Ok(column.get(self.index))
    }
}
