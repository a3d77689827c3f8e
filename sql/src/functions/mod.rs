//! The functions that PostgreSQL has and DataFusion lacks or answers differently.
//!
//! Those whose names begin with `strandline_` are put in by the rewriter and are no part of the
//! language.

mod arithmetic;
mod bytea;
mod catalog;
mod fields;
mod headers;
mod interval;
mod names;
mod number;
mod pattern;
mod scalar;
mod session;
mod single;
mod time;
mod to_char;
mod truncate;
mod values;

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;

use crate::relations::Relations;
use crate::statement::SetScope;

pub(crate) use bytea::{ByteaFault, bytes_of};
pub(crate) use fields::is_own_field;

/// `timezone(zone, time)`: between an instant and the time on a wall clock.
pub(crate) const TIMEZONE: &str = "timezone";
/// `(time, zone)`: the next whole millisecond.
pub(crate) const CEIL_MS: &str = "strandline_ceil_ms";
/// `(time, zone)`: the whole millisecond before.
pub(crate) const FLOOR_MS: &str = "strandline_floor_ms";
/// `(time, zone)`: the time as a whole millisecond, or one that no record has when it is none.
pub(crate) const EXACT_MS: &str = "strandline_exact_ms";
/// `(value, zone)`: a cast to timestamptz.
pub(crate) const TIMESTAMPTZ: &str = "strandline_timestamptz";
/// `(value, zone)`: a cast to timestamp.
pub(crate) const TIMESTAMP: &str = "strandline_timestamp";
/// `(value, zone)`: a cast to text.
pub(crate) const TEXT: &str = "strandline_text";
/// `(unit, time, zone)`: `date_trunc` in a zone.
pub(crate) const DATE_TRUNC: &str = "strandline_date_trunc";
/// `(field, time)`: a field that `date_part` lacks or counts differently.
pub(crate) const FIELD: &str = "strandline_field";
/// `(text, pattern, zone)` or `(seconds, zone)`.
pub(crate) const TO_TIMESTAMP: &str = "strandline_to_timestamp";
/// `(text, pattern, zone)`.
pub(crate) const TO_DATE: &str = "strandline_to_date";
/// `(operators, integer, integer, ...)`: `+`, `-` and `*` from left to right, without wrapping.
pub(crate) const CHECKED: &str = "strandline_checked";
/// `(interval)`: the number that intervals are compared by.
pub(crate) const INTERVAL_ORDER: &str = "strandline_interval_order";
/// `(float)`: the nearest whole number, of two the even one.
pub(crate) const ROUND_HALF_EVEN: &str = "strandline_round_half_even";
/// `(time, interval, zone, sign)`: an instant plus an interval whose days are those of a zone.
pub(crate) const SHIFT: &str = "strandline_shift";
/// `(interval, number)`.
pub(crate) const INTERVAL_MULTIPLY: &str = "strandline_interval_multiply";
/// `(interval, number)`.
pub(crate) const INTERVAL_DIVIDE: &str = "strandline_interval_divide";
/// `(pattern, escape)`: a LIKE pattern with the backslash as its escape.
pub(crate) const LIKE_PATTERN: &str = "strandline_like_pattern";
/// `(value)`: a cast to oid.
pub(crate) const OID: &str = "strandline_oid";
/// `(value)`: a cast to bytea.
pub(crate) const BYTEA: &str = "strandline_bytea";
/// `(value, pattern)`: LIKE over bytes.
pub(crate) const BYTEA_LIKE: &str = "strandline_bytea_like";
/// `(left, right)`: `||` of bytes.
pub(crate) const BYTEA_CONCAT: &str = "strandline_bytea_concat";
/// `(bytes, format)`: `encode`; the planner's own pads no base64.
pub(crate) const ENCODE: &str = "strandline_encode";
/// `(instants, instant)`: whether an array has an instant, whatever the precision of either.
pub(crate) const HAS_INSTANT: &str = "strandline_has_instant";
/// `(numeric)`: the nearest float.
pub(crate) const FLOAT8: &str = "strandline_float8";
/// `(numeric)`: the same number with room for as many digits as there can be.
pub(crate) const WIDE: &str = "strandline_wide";
/// `(value)`: the length of a bytea; the planner's own function counts characters of text.
pub(crate) const BYTE_LENGTH: &str = "strandline_byte_length";
/// `(value)`: a cast to json.
pub(crate) const JSON: &str = "strandline_json";
/// `(name)`: the oid of a relation, which must exist.
pub(crate) const REGCLASS: &str = "strandline_regclass";
/// `(oid)`: the name of a relation.
pub(crate) const REGCLASS_NAME: &str = "strandline_regclass_name";
/// `(oid)`: the name of a type.
pub(crate) const REGTYPE_NAME: &str = "strandline_regtype_name";
/// `(oid)`: the name of a schema.
pub(crate) const NAMESPACE_NAME: &str = "strandline_namespace_name";
/// The aggregate that insists on one row.
pub(crate) const SINGLE_VALUE: &str = "strandline_single_value";

/// The settings of a session, for `current_setting` and `set_config`.
pub trait Settings: Debug + Send + Sync {
    /// The value of a setting; the name is in lower case.
    fn setting(&self, name: &str) -> Option<String>;
    /// Sets a setting and answers its new value.
    ///
    /// # Errors
    /// The sentence that says why not.
    fn set(&self, name: &str, value: &str, scope: SetScope) -> Result<String, String>;
}

/// What the functions know about their session.
#[derive(Clone)]
pub struct FunctionContext {
    /// What `version()` answers.
    pub version: String,
    pub database: String,
    pub user: String,
    /// What `pg_backend_pid()` answers.
    pub process_id: i32,
    pub settings: Arc<dyn Settings>,
    /// For the functions that turn names into object identifiers and back.
    pub relations: Arc<dyn Relations>,
}

/// Adds every function to a session's registry; those that DataFusion has under the same name are
/// replaced.
///
/// # Errors
/// When the registry does not take a function.
pub fn register_functions(registry: &mut dyn FunctionRegistry, context: &FunctionContext) -> Result<()> {
    let pure = [
        arithmetic::functions(),
        bytea::functions(),
        catalog::functions(),
        fields::functions(),
        headers::functions(),
        interval::functions(),
        number::functions(),
        pattern::functions(),
        time::functions(),
        to_char::functions(),
        truncate::functions(),
        values::functions(),
    ];
    for scalar in pure.into_iter().flatten() {
        registry.register_udf(Arc::new(scalar.into_udf()))?;
    }
    for scalar in session::functions(context).into_iter().chain(names::functions(context)) {
        registry.register_udf(Arc::new(scalar.into_udf()))?;
    }
    registry.register_udaf(Arc::new(single::aggregate()))?;
    Ok(())
}

/// Whether a function answers one value, so that it can stand in FROM as a table of one row.
pub(crate) fn is_scalar(name: &str) -> bool {
    const SET_RETURNING: &[&str] = &[
        "generate_subscripts",
        "json_array_elements",
        "json_array_elements_text",
        "json_each",
        "json_each_text",
        "json_object_keys",
        "jsonb_array_elements",
        "jsonb_array_elements_text",
        "jsonb_each",
        "jsonb_each_text",
        "jsonb_object_keys",
        "regexp_matches",
        "regexp_split_to_table",
        "string_to_table",
    ];
    !SET_RETURNING.contains(&name) && !is_aggregate(name)
}

/// Whether a function is an aggregate of the planner.
pub(crate) fn is_aggregate(name: &str) -> bool {
    const COMMON: &[&str] = &[
        "array_agg",
        "avg",
        "bit_and",
        "bit_or",
        "bool_and",
        "bool_or",
        "count",
        "every",
        "first_value",
        "last_value",
        "max",
        "median",
        "min",
        "percentile_cont",
        "string_agg",
        "sum",
        SINGLE_VALUE,
    ];
    COMMON.contains(&name)
        || name.starts_with("stddev")
        || name.starts_with("var")
        || name.starts_with("approx_")
        || name.starts_with("regr_")
        || name.starts_with("co") && matches!(name, "corr" | "covar" | "covar_pop" | "covar_samp")
}
