//! Functions that tell something of a JSON value: `json_typeof` and `json_array_length`.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int32Array, StringViewArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use super::functions::is_text;
use super::path::{count_elements, type_name};

/// `json_typeof(json)`: `object`, `array`, `string`, `number`, `boolean` or `null`.
pub fn json_typeof() -> Arc<ScalarUDF> {
    function(Fact::Type)
}

/// `json_array_length(json)`: NULL for what is no array.
pub fn json_array_length() -> Arc<ScalarUDF> {
    function(Fact::Length)
}

fn function(fact: Fact) -> Arc<ScalarUDF> {
    let aliases = vec![format!("jsonb{}", fact.name().trim_start_matches("json"))];
    Arc::new(JsonFact { fact, aliases, signature: Signature::user_defined(Volatility::Immutable) }.into())
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fact {
    Type,
    Length,
}

impl Fact {
    fn name(self) -> &'static str {
        match self {
            Self::Type => "json_typeof",
            Self::Length => "json_array_length",
        }
    }

    fn of(self, values: &StringViewArray) -> ArrayRef {
        match self {
            Self::Type => {
                Arc::new(values.iter().map(|json| json.and_then(type_name)).collect::<StringViewArray>())
            }
            Self::Length => Arc::new(values.iter().map(|json| length(json?)).collect::<Int32Array>()),
        }
    }
}

fn length(json: &str) -> Option<i32> {
    i32::try_from(count_elements(json)?).ok()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct JsonFact {
    fact: Fact,
    aliases: Vec<String>,
    signature: Signature,
}

impl ScalarUDFImpl for JsonFact {
    fn name(&self) -> &str {
        self.fact.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(match self.fact {
            Fact::Type => DataType::Utf8View,
            Fact::Length => DataType::Int32,
        })
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [json] if is_text(json) => Ok(vec![DataType::Utf8View]),
            [other] => plan_err!("no function matches {}({other}): it takes json", self.name()),
            _ => plan_err!("no function matches: {} takes 1 argument, not {}", self.name(), arg_types.len()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match &args.args[0] {
            ColumnarValue::Array(values) => ColumnarValue::Array(self.fact.of(values.as_string_view())),
            ColumnarValue::Scalar(value) => {
                let values = value.to_array()?;
                let answer = self.fact.of(values.as_string_view());
                ColumnarValue::Scalar(ScalarValue::try_from_array(&answer, 0)?)
            }
        })
    }
}
