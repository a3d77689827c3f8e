//! Time parameters that are finer than the column that they are compared with.
//!
//! Records have milliseconds, drivers send microseconds, and DataFusion cuts off the digits that the
//! column lacks, which moves the bound. Here the bound is moved to the millisecond that selects the
//! same records.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr::{Between, Placeholder};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, lit};
use datafusion::scalar::ScalarValue;

/// The plan with bounds in milliseconds for those parameters.
pub(super) fn coarsen(plan: LogicalPlan, values: &[ScalarValue]) -> Result<LogicalPlan> {
    if !values.iter().any(|value| fine_micros(value).is_some()) {
        return Ok(plan);
    }
    let plan = plan.transform_up_with_subqueries(|node| {
        node.map_expressions(|expr| expr.transform_up(|expr| Ok(coarsen_expr(expr, values))))
    })?;
    Ok(plan.data)
}

fn coarsen_expr(expr: Expr, values: &[ScalarValue]) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(binary) => match compared(&binary, values) {
            Some(exact) => Transformed::yes(exact),
            None => Transformed::no(Expr::BinaryExpr(binary)),
        },
        Expr::Between(Between { expr, negated, low, high }) => {
            let bound = |side: Box<Expr>, round: fn(i64) -> i64| match fine_parameter(&side, values) {
                Some(micros) => Box::new(milliseconds(round(micros))),
                None => side,
            };
            let (low, high) = (bound(low, ceiling), bound(high, floor));
            Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
        }
        other => Transformed::no(other),
    }
}

/// The comparison of a column of milliseconds with a finer time.
fn compared(binary: &BinaryExpr, values: &[ScalarValue]) -> Option<Expr> {
    let (column, operator, micros) = match fine_parameter(&binary.right, values) {
        Some(micros) => (&binary.left, binary.op, micros),
        None => (&binary.right, binary.op.swap()?, fine_parameter(&binary.left, values)?),
    };
    let (floor, ceiling) = (milliseconds(floor(micros)), milliseconds(ceiling(micros)));
    let column = column.as_ref().clone();
    match operator {
        Operator::Gt | Operator::LtEq => Some(binary_expr(column, operator, floor)),
        Operator::GtEq | Operator::Lt => Some(binary_expr(column, operator, ceiling)),
        // No millisecond equals the time; NULL stays NULL.
        Operator::Eq => Some(column.clone().lt_eq(floor).and(column.gt_eq(ceiling))),
        Operator::NotEq => Some(column.clone().lt_eq(floor).or(column.gt_eq(ceiling))),
        _ => None,
    }
}

fn binary_expr(left: Expr, operator: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), operator, Box::new(right)))
}

/// The value of a parameter that stands where milliseconds are, if it has finer digits.
fn fine_parameter(expr: &Expr, values: &[ScalarValue]) -> Option<i64> {
    let Expr::Placeholder(Placeholder { id, field: Some(field) }) = expr else { return None };
    let is_coarse = matches!(field.data_type(), DataType::Timestamp(TimeUnit::Millisecond, Some(_)));
    let place: usize = id.strip_prefix('$')?.parse().ok()?;
    let value = values.get(place.checked_sub(1)?)?;
    fine_micros(value).filter(|_| is_coarse)
}

fn fine_micros(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::TimestampMicrosecond(Some(micros), Some(_)) if micros % 1_000 != 0 => Some(*micros),
        _ => None,
    }
}

fn floor(micros: i64) -> i64 {
    micros.div_euclid(1_000)
}

fn ceiling(micros: i64) -> i64 {
    floor(micros) + 1
}

fn milliseconds(value: i64) -> Expr {
    lit(ScalarValue::TimestampMillisecond(Some(value), Some("UTC".into())))
}
