//! What the text of a planner's error says about its kind. Pure.
//!
//! Invariant: text that is not recognised keeps its words; what is shown never holds a tree of the
//! planner's own structures.

use strandline_sql::PgType;

use super::{EngineError, ErrorKind};

/// What a planning error is about, by its text.
pub(super) fn plan_kind(message: &str) -> ErrorKind {
    let lower = message.to_lowercase();
    let any = |parts: &[&str]| parts.iter().any(|part| lower.contains(part));
    if any(&["invalid function", "no function matches", "failed to coerce arguments"]) {
        ErrorKind::UndefinedFunction
    } else if lower.contains("table") && lower.contains("not found") {
        ErrorKind::UndefinedTable
    } else if lower.starts_with("limit must be >=") {
        ErrorKind::NegativeLimit
    } else if lower.starts_with("offset must be >=") {
        ErrorKind::NegativeSkip
    } else if any(&[
        "must appear in the group by",
        "could not be resolved from available columns",
        "aggregate functions are not allowed",
        "aggregate function calls cannot be nested",
    ]) {
        ErrorKind::Grouping
    } else if any(&["ambiguous"]) {
        ErrorKind::AmbiguousColumn
    } else if any(&["placeholder"]) {
        ErrorKind::UndefinedParameter
    } else if any(&["not supported", "unsupported", "not implemented"]) {
        ErrorKind::FeatureNotSupported
    } else if any(&[
        "cannot coerce",
        "type_coercion",
        "cannot infer common",
        "datatype",
        "non-boolean predicate",
    ]) {
        ErrorKind::DatatypeMismatch
    } else {
        ErrorKind::Syntax
    }
}

/// What a fault in the data is about, by its text.
pub(super) fn execution_kind(message: &str) -> ErrorKind {
    let lower = message.to_lowercase();
    let any = |parts: &[&str]| parts.iter().any(|part| lower.contains(part));
    if any(&["divide by zero", "division by zero"]) {
        ErrorKind::DivisionByZero
    } else if any(&["overflow", "out of range", "to store in a decimal"]) {
        ErrorKind::NumericOutOfRange
    } else if any(&["error parsing timestamp", "invalid timezone"]) {
        ErrorKind::InvalidDatetime
    } else if any(&["cannot cast", "error parsing", "invalid digit"]) {
        ErrorKind::InvalidText
    } else if any(&["placeholder"]) {
        ErrorKind::UndefinedParameter
    } else if any(&["scalar subquery returned more than one row"]) {
        ErrorKind::Cardinality
    } else if any(&["unrecognized configuration parameter"]) {
        ErrorKind::UndefinedObject
    } else if lower.starts_with("parameter \"") && lower.ends_with("cannot be changed") {
        ErrorKind::ReadOnlySetting
    } else if any(&["invalid value for parameter"]) {
        ErrorKind::InvalidParameterValue
    } else {
        ErrorKind::DataException
    }
}

/// A cast of a number that its type cannot hold; `None` for text that is no number.
pub(super) fn out_of_range(message: &str) -> Option<EngineError> {
    let (value, data_type) = cast_of(message)?;
    let pg_type = match data_type {
        "Int8" | "Int16" | "UInt8" => PgType::Int2,
        "Int32" | "UInt16" => PgType::Int4,
        "Int64" | "UInt64" => PgType::Int8,
        "UInt32" => PgType::Oid,
        "Float32" => PgType::Float4,
        _ => return None,
    };
    let message = format!("value \"{value}\" is out of range for type {}", pg_type.display_name());
    Some(EngineError::new(ErrorKind::NumericOutOfRange, message))
}

/// The value and the type that a cast did not fit, when the value is a number: casts of numbers name
/// it bare, casts of text in quotes.
fn cast_of(message: &str) -> Option<(&str, &str)> {
    if let Some(rest) = message.strip_prefix("Can't cast value ") {
        return rest.rsplit_once(" to type ");
    }
    let rest = message.strip_prefix("Cannot cast string '")?.strip_suffix(" type")?;
    let (text, data_type) = rest.rsplit_once("' to value of ")?;
    let digits = text.trim().trim_start_matches(['+', '-']);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some((text, data_type))
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
            let error = out_of_range(text).expect(text);
            assert_eq!((error.kind, error.message.as_str()), (ErrorKind::NumericOutOfRange, expected));
        }
        for text in [
            "Cannot cast string 'x' to value of Int32 type",
            "Cannot cast string '' to value of Int32 type",
            "Cannot cast string '' to value of 9' to value of Int32 type",
            "Cannot cast string '1' to value of Date32 type",
        ] {
            assert_eq!(out_of_range(text), None, "{text}");
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
}
