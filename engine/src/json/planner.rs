//! Puts functions in the place of the JSON operators.

use std::sync::Arc;

use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::sqlparser::ast::BinaryOperator;
use datafusion::logical_expr::{Expr, ScalarUDF};

use super::functions::{json_get, json_get_path, json_get_path_text, json_get_text};

/// Plans `->`, `->>`, `#>` and `#>>`.
#[derive(Debug)]
pub struct JsonOperatorPlanner;

impl ExprPlanner for JsonOperatorPlanner {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        _schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let Some(func) = function_of(&expr.op) else { return Ok(PlannerResult::Original(expr)) };
        let args = vec![expr.left, expr.right];
        Ok(PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction { func, args })))
    }
}

fn function_of(operator: &BinaryOperator) -> Option<Arc<ScalarUDF>> {
    match operator {
        BinaryOperator::Arrow => Some(json_get()),
        BinaryOperator::LongArrow => Some(json_get_text()),
        BinaryOperator::HashArrow => Some(json_get_path()),
        BinaryOperator::HashLongArrow => Some(json_get_path_text()),
        _ => None,
    }
}
