//! The functions behind the JSON operators.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, StringViewArray, StringViewBuilder};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::decode::column_type::TYPE_METADATA_KEY;

use super::path::{Step, as_text, path_step, step};

/// `json -> key`: JSON text.
pub fn json_get() -> Arc<ScalarUDF> {
    function(Access::Step, Shape::Json)
}

/// `json ->> key`: text.
pub fn json_get_text() -> Arc<ScalarUDF> {
    function(Access::Step, Shape::Text)
}

/// `json #> '{a,0}'`: JSON text.
pub fn json_get_path() -> Arc<ScalarUDF> {
    function(Access::Path, Shape::Json)
}

/// `json #>> '{a,0}'`: text.
pub fn json_get_path_text() -> Arc<ScalarUDF> {
    function(Access::Path, Shape::Text)
}

fn function(access: Access, shape: Shape) -> Arc<ScalarUDF> {
    Arc::new(JsonGet { access, shape, signature: Signature::user_defined(Volatility::Immutable) }.into())
}

/// What the second argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Access {
    /// One name or place.
    Step,
    /// The text of an array of names and places.
    Path,
}

/// What comes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Shape {
    Json,
    Text,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct JsonGet {
    access: Access,
    shape: Shape,
    signature: Signature,
}

impl ScalarUDFImpl for JsonGet {
    fn name(&self) -> &str {
        match (self.access, self.shape) {
            (Access::Step, Shape::Json) => "json_get",
            (Access::Step, Shape::Text) => "json_get_text",
            (Access::Path, Shape::Json) => "json_get_path",
            (Access::Path, Shape::Text) => "json_get_path_text",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> Result<FieldRef> {
        let field = Field::new(self.name(), DataType::Utf8View, true);
        Ok(Arc::new(match self.shape {
            Shape::Text => field,
            Shape::Json => {
                field.with_metadata(HashMap::from([(TYPE_METADATA_KEY.to_owned(), "json".to_owned())]))
            }
        }))
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let [json, key] = arg_types else {
            return plan_err!("{} takes 2 arguments, not {}", self.name(), arg_types.len());
        };
        if !is_text(json) {
            return plan_err!("operator does not exist: the left side must be json or text, not {json}");
        }
        let key = match key {
            key if is_text(key) => DataType::Utf8View,
            key if key.is_integer() && self.access == Access::Step => DataType::Int64,
            other => return plan_err!("operator does not exist: json has no member of type {other}"),
        };
        Ok(vec![DataType::Utf8View, key])
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let are_scalars = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if are_scalars { 1 } else { args.number_rows };
        let json = args.args[0].to_array(rows)?;
        let found = self.look_up(json.as_string_view(), &args.args[1], rows)?;
        if are_scalars {
            return ScalarValue::try_from_array(&found, 0).map(ColumnarValue::Scalar);
        }
        Ok(ColumnarValue::Array(found))
    }
}

impl JsonGet {
    fn look_up(&self, json: &StringViewArray, key: &ColumnarValue, rows: usize) -> Result<ArrayRef> {
        let mut found = StringViewBuilder::with_capacity(rows);
        match key {
            // Most keys are literals: they are read once.
            ColumnarValue::Scalar(key) => {
                let key = self.scalar_key(key);
                for json in json {
                    self.append(&mut found, json.and_then(|json| key.as_ref()?.find(json)));
                }
            }
            ColumnarValue::Array(keys) => {
                for (row, json) in json.iter().enumerate() {
                    let key = ScalarValue::try_from_array(keys, row)?;
                    self.append(&mut found, json.and_then(|json| self.scalar_key(&key)?.find(json)));
                }
            }
        }
        Ok(Arc::new(found.finish()))
    }

    fn scalar_key(&self, key: &ScalarValue) -> Option<Key> {
        match (key, self.access) {
            (ScalarValue::Int64(Some(place)), _) => Some(Key::Element(*place)),
            (ScalarValue::Utf8View(Some(name)), Access::Step) => Some(Key::Member(name.clone())),
            (ScalarValue::Utf8View(Some(path)), Access::Path) => parse_path(path).map(Key::Path),
            _ => None,
        }
    }

    fn append(&self, found: &mut StringViewBuilder, raw: Option<&str>) {
        match self.shape {
            Shape::Json => found.append_option(raw),
            Shape::Text => found.append_option(raw.and_then(as_text)),
        }
    }
}

/// The second argument, read.
enum Key {
    Member(String),
    Element(i64),
    Path(Vec<String>),
}

impl Key {
    fn find<'a>(&self, json: &'a str) -> Option<&'a str> {
        match self {
            Self::Member(name) => step(json, Step::Member(name)),
            Self::Element(place) => step(json, Step::Element(*place)),
            Self::Path(path) => walk(json, path),
        }
    }
}

pub(super) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null)
}

fn walk<'a>(json: &'a str, path: &[String]) -> Option<&'a str> {
    path.iter().try_fold(json.trim(), |json, step| path_step(json, step))
}

/// The steps of an array literal such as `{a,"b,c",0}`.
fn parse_path(text: &str) -> Option<Vec<String>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut steps = Vec::new();
    let mut step = String::new();
    let mut in_quotes = false;
    let mut letters = inner.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => in_quotes = !in_quotes,
            '\\' => step.push(letters.next()?),
            ',' if !in_quotes => steps.push(std::mem::take(&mut step)),
            letter => step.push(letter),
        }
    }
    if !inner.is_empty() {
        steps.push(step);
    }
    (!in_quotes).then_some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_as_array_literals() {
        assert_eq!(parse_path(r#"{a,"b,c",0}"#).unwrap(), ["a", "b,c", "0"]);
        assert_eq!(parse_path("{}").unwrap(), Vec::<String>::new());
        assert_eq!(parse_path("a,b"), None);
        assert_eq!(parse_path(r#"{"a}"#), None);
    }

    #[test]
    fn paths_walk_through_objects_and_arrays() {
        let json = r#" {"a":[{"b":"x"},2]} "#;
        let path = parse_path("{a,0,b}").unwrap();
        assert_eq!(walk(json, &path), Some(r#""x""#));
        assert_eq!(walk(json, &parse_path("{a,-1}").unwrap()), Some("2"));
        assert_eq!(walk(json, &parse_path("{a,b}").unwrap()), None);
    }
}
