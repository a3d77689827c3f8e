//! What the text of a planner's error says about its kind. Pure.
//!
//! Invariant: text that is not recognised gets the kind that says least.

use super::ErrorKind;

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
