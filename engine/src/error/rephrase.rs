//! The planner's messages in the words of PostgreSQL, where they are known. Pure.
//!
//! Invariant: text that is not recognised is left alone; what is shown never holds a tree of the
//! planner's own structures, nor the names of its types.

use datafusion::arrow::datatypes::DataType;
use strandline_sql::PgType;

use super::{EngineError, ErrorKind};

const CASTS: &str = "you might need to add explicit type casts";

/// A plan that cannot be made: functions and operators that do not exist, columns outside of GROUP BY.
pub(super) fn rephrased(message: &str) -> Option<EngineError> {
    no_function(message).or_else(|| no_operator(message)).or_else(|| ungrouped(message))
}

fn no_function(message: &str) -> Option<EngineError> {
    let call = between(message, "No function matches the given name and argument types '", "'.")?;
    let (name, types) = call.strip_suffix(')')?.split_once('(')?;
    let types: Vec<_> = arguments(types).into_iter().map(type_name).collect();
    let message = format!("function {name}({}) does not exist", types.join(", "));
    Some(EngineError::new(ErrorKind::UndefinedFunction, message).with_hint(CASTS))
}

fn no_operator(message: &str) -> Option<EngineError> {
    let lower = message.to_lowercase();
    let start = |words: &str| lower.find(words).map(|start| start + words.len());
    let operation = match start("cannot coerce arithmetic expression ") {
        Some(start) => message.get(start..)?.strip_suffix(" to valid types")?,
        None => message.get(start("cannot infer common argument type for comparison operation ")?..)?,
    };
    let operator = [" + ", " - ", " * ", " / ", " % ", " = ", " != ", " < ", " <= ", " > ", " >= "]
        .into_iter()
        .find(|operator| operation.contains(operator))?;
    let (left, right) = operation.split_once(operator)?;
    let message = format!("operator does not exist: {}{operator}{}", type_name(left), type_name(right));
    Some(EngineError::new(ErrorKind::UndefinedFunction, message).with_hint(CASTS))
}

fn ungrouped(message: &str) -> Option<EngineError> {
    let head = message.split_once("\" must appear in the GROUP BY clause")?.0;
    let name = head.rsplit_once("column \"")?.1;
    let name = name.strip_prefix("public.").unwrap_or(name);
    let message =
        format!("column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function");
    Some(EngineError::new(ErrorKind::Grouping, message))
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split_once(after).map(|(found, _)| found)
}

/// The types of a list; some have commas and brackets of their own.
fn arguments(list: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let is_end = |letter: char| {
        depth += match letter {
            '(' | '{' | '[' => 1,
            ')' | '}' | ']' => -1,
            _ => 0,
        };
        letter == ',' && depth == 0
    };
    list.split(is_end).map(str::trim).filter(|argument| !argument.is_empty()).collect()
}

/// The name in PostgreSQL of a type as the planner prints it.
fn type_name(arrow: &str) -> String {
    match arrow.parse::<DataType>() {
        Ok(DataType::Null) => "unknown".to_owned(),
        Ok(data_type) => PgType::of_arrow(&data_type).display_name().to_owned(),
        Err(_) => arrow.to_owned(),
    }
}

/// A cast of a value that its type cannot hold, or of text that is no such value.
pub(super) fn bad_cast(message: &str) -> Option<EngineError> {
    if let Some(rest) = message.strip_prefix("Can't cast value ") {
        let (value, data_type) = rest.rsplit_once(" to type ")?;
        return Some(out_of_range(value, data_type));
    }
    let rest = message.strip_prefix("Cannot cast string '")?.strip_suffix(" type")?;
    let (text, data_type) = rest.rsplit_once("' to value of ")?;
    let digits = text.trim().trim_start_matches(['+', '-']);
    let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_whole && data_type.contains("Int") {
        return Some(out_of_range(text, data_type));
    }
    let message = format!("invalid input syntax for type {}: \"{text}\"", type_name(data_type));
    Some(EngineError::new(ErrorKind::InvalidText, message))
}

fn out_of_range(value: &str, data_type: &str) -> EngineError {
    let message = format!("value \"{value}\" is out of range for type {}", type_name(data_type));
    EngineError::new(ErrorKind::NumericOutOfRange, message)
}

/// What to say where the planner prints the expression that it could not place.
pub(super) fn without_tree(message: &str) -> Option<EngineError> {
    const BARE: &str = "physical plan does not support logical expression ";
    if message.contains("subquery can only be used in") {
        return Some(misplaced_subquery());
    }
    let start = message.to_lowercase().find(BARE)?;
    let tree = message.get(start + BARE.len()..)?;
    let expression = tree.split(|letter: char| !letter.is_ascii_alphanumeric()).next()?;
    Some(match expression {
        "Exists" | "ScalarSubquery" | "InSubquery" | "SetComparison" => misplaced_subquery(),
        "AggregateFunction" => {
            EngineError::new(ErrorKind::Grouping, "aggregate functions are not allowed in this place")
        }
        "WindowFunction" => {
            EngineError::new(ErrorKind::Windowing, "window functions are not allowed in this place")
        }
        _ => {
            let message = "an expression of this kind in this place is not supported";
            EngineError::new(ErrorKind::FeatureNotSupported, message)
        }
    })
}

fn misplaced_subquery() -> EngineError {
    let message = "a subquery of this kind in this place is not supported";
    EngineError::new(ErrorKind::FeatureNotSupported, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_do_not_fit_are_out_of_range_and_other_text_is_not() {
        let cases = [
            ("Can't cast value 40000 to type Int16", "value \"40000\" is out of range for type smallint"),
            (
                "Cannot cast string '-99999999999' to value of Int32 type",
                "value \"-99999999999\" is out of range for type integer",
            ),
        ];
        for (text, expected) in cases {
            let error = bad_cast(text).expect(text);
            assert_eq!((error.kind, error.message.as_str()), (ErrorKind::NumericOutOfRange, expected));
        }
        for text in ["x", "", "' to value of 9"] {
            let error = bad_cast(&format!("Cannot cast string '{text}' to value of Int32 type")).expect(text);
            let expected = format!("invalid input syntax for type integer: \"{text}\"");
            assert_eq!((error.kind, error.message), (ErrorKind::InvalidText, expected));
        }
    }

    #[test]
    fn a_tree_of_the_planner_is_never_shown() {
        let exists = "physical plan does not support logical expression Exists(Exists { subquery: .. })";
        let other = "Physical plan does not support logical expression Wildcard { qualifier: None }";
        for text in [exists, other] {
            let error = without_tree(text).expect(text);
            assert_eq!(error.kind, ErrorKind::FeatureNotSupported);
            assert!(!error.message.contains(['{', '(']), "{error}");
        }
        assert_eq!(without_tree("table \"t\" not found"), None);
    }

    #[test]
    fn functions_and_operators_are_named_with_the_types_of_postgres() {
        let cases = [
            (
                "internal error: Function 'sum' failed to match any signature, errors: .. bug .. No function \
                 matches the given name and argument types 'sum(Utf8View)'. You might need to",
                "function sum(text) does not exist",
            ),
            (
                "No function matches the given name and argument types 'f(Timestamp(ns, \"UTC\"), List(Int64))'.",
                "function f(timestamp with time zone, bigint[]) does not exist",
            ),
            (
                "No function matches the given name and argument types 'max()'.",
                "function max() does not exist",
            ),
            (
                "cannot coerce arithmetic expression Int64 + Utf8View to valid types",
                "operator does not exist: bigint + text",
            ),
            (
                "cannot infer common argument type for comparison operation Boolean > Int64",
                "operator does not exist: boolean > bigint",
            ),
        ];
        for (text, expected) in cases {
            let error = rephrased(text).expect(text);
            assert_eq!((error.kind, error.message.as_str()), (ErrorKind::UndefinedFunction, expected));
        }
        let grouping = "column in SELECT must be in GROUP BY or an aggregate function: While expanding \
                        wildcard, column \"public.edits.channel\" must appear in the GROUP BY clause or must be part";
        let error = rephrased(grouping).expect("a known text");
        let expected =
            "column \"edits.channel\" must appear in the GROUP BY clause or be used in an aggregate function";
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Grouping, expected));
        assert_eq!(rephrased("something else"), None);
    }
}
