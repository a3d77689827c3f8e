//! Operations on numbers: integers that do not wrap, and quotients with enough digits.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments,
};

use super::build;
use super::kind::Kind;
use crate::functions::CHECKED;
use crate::pg_type::PgType;

/// Digits that the dividend has after the point; the planner adds four for the quotient.
const DIVIDEND_SCALE: i64 = 16;

/// What an operation on numbers and times answers.
pub(super) fn kind(op: &BinaryOperator, left: Option<Kind>, right: Option<Kind>) -> Option<Kind> {
    let (left, right) = (left?, right?);
    let time = |kind: Kind| kind.is_instant() || kind.is_wall_clock();
    if time(left) && time(right) {
        return (*op == BinaryOperator::Minus).then(|| Kind::of(PgType::Interval));
    }
    if time(left) && right.pg_type == PgType::Interval {
        // A day plus hours is no longer a day; the planner decides.
        return left.is_instant().then_some(left);
    }
    if left.pg_type == PgType::Interval && right.is_instant() {
        return Some(right);
    }
    if left.pg_type == PgType::Interval && right.pg_type == PgType::Interval {
        return Some(left);
    }
    if !left.is_number() || !right.is_number() {
        return None;
    }
    Some(match (left.is_float(), right.is_float()) {
        (true, true) if left == right => left,
        (true, _) | (_, true) => Kind::of(PgType::Float8),
        _ if left.is_wide() || right.is_wide() => Kind::wide_numeric(),
        _ if left.is_fractional() || right.is_fractional() => Kind::of(PgType::Numeric),
        _ => Kind::of(PgType::Int8),
    })
}

/// Has the planner do an operation as PostgreSQL does, where it would wrap or cut.
pub(super) fn exact(expr: &mut Expr, left_kind: Option<Kind>, right_kind: Option<Kind>) {
    let (Some(left_kind), Some(right_kind)) = (left_kind, right_kind) else { return };
    let Expr::BinaryOp { left, op, .. } = expr else { return };
    let operator = match op {
        BinaryOperator::Plus => "+",
        BinaryOperator::Minus => "-",
        BinaryOperator::Multiply => "*",
        BinaryOperator::Divide => {
            let numbers = left_kind.is_number() && right_kind.is_number();
            let floats = left_kind.is_float() || right_kind.is_float();
            if numbers && !floats && (left_kind.is_fractional() || right_kind.is_fractional()) {
                build::replace(left, |left| build::decimal(left, DIVIDEND_SCALE));
            }
            return;
        }
        _ => return,
    };
    if left_kind.is_count() && right_kind.is_count() {
        build::replace(expr, |expr| match expr {
            Expr::BinaryOp { left, right, .. } => checked(*left, operator, *right),
            other => other,
        });
    }
}

/// A chain of operations is one call, so that it does not nest.
fn checked(left: Expr, operator: &str, right: Expr) -> Expr {
    let mut chain = match left {
        Expr::Function(function) if function.name == build::object_name(&[CHECKED]) => function,
        first => build::function(CHECKED, vec![build::string(""), first]),
    };
    if let FunctionArguments::List(list) = &mut chain.args {
        if let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(operators))) = list.args.first_mut() {
            let all = format!("{}{operator}", build::string_literal(operators).unwrap_or_default());
            *operators = build::string(all);
        }
        list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(right)));
    }
    Expr::Function(chain)
}
