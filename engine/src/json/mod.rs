//! The JSON operators `->`, `->>`, `#>` and `#>>`: functions over JSON text and the planner that puts
//! them in the operators' place; `json_typeof` and `json_array_length`.
//!
//! Invariants, as in PostgreSQL's json type: of repeated members the last counts; a missing member is
//! NULL; `->` gives the text as it was written. Unlike there, text that is not JSON gives NULL and no
//! error, because one bad record must not fail a query.

mod facts;
mod functions;
mod path;
mod planner;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;

use facts::{json_array_length, json_typeof};
use functions::{json_get, json_get_path, json_get_path_text, json_get_text};
use planner::JsonOperatorPlanner;

/// Adds the functions and their operators to a session.
///
/// # Errors
/// When the registry takes no functions.
pub fn register(registry: &mut dyn FunctionRegistry) -> Result<()> {
    let operators = [json_get(), json_get_text(), json_get_path(), json_get_path_text()];
    for function in operators.into_iter().chain([json_typeof(), json_array_length()]) {
        registry.register_udf(function)?;
    }
    registry.register_expr_planner(Arc::new(JsonOperatorPlanner))
}
