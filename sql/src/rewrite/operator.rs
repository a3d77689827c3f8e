//! Operators: arithmetic with numbers and times, `||`, and the operators of json and patterns.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

use super::compare::is_comparison;
use super::expr::Rewrite;
use super::kind::Kind;
use super::scope::Scope;
use super::{Rewriter, arithmetic, build, category, number};
use crate::error::SqlError;
use crate::functions::{BYTEA_CONCAT, INTERVAL_DIVIDE, INTERVAL_MULTIPLY, JSON, SHIFT, TIMESTAMP};
use crate::pg_type::PgType;

/// A bigint although its digits without the sign are none.
const SMALLEST_BIGINT: &str = "-9223372036854775808";

impl Rewriter<'_> {
    pub(super) fn binary(&mut self, expr: &mut Expr, scope: &Scope) -> Rewrite {
        let mut place = expr;
        let mut logical = false;
        // A chain of AND and OR leans to the left and may be long: it is walked without recursion.
        while let Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } = place {
            logical = true;
            self.expr(right, scope)?;
            place = left;
        }
        let kind = match place {
            Expr::BinaryOp { .. } => self.operation(place, scope)?,
            other => self.expr(other, scope)?,
        };
        Ok(if logical { Some(Kind::of(PgType::Bool)) } else { kind })
    }

    fn operation(&mut self, expr: &mut Expr, scope: &Scope) -> Rewrite {
        let Expr::BinaryOp { left, op, right } = expr else { return self.expr(expr, scope) };
        match op {
            BinaryOperator::PGCustomBinaryOperator(parts) => *op = custom_operator(parts)?,
            BinaryOperator::Custom(written) => {
                let (operator, sign) = without_sign(written)?;
                *op = operator;
                build::replace(right, |right| Expr::UnaryOp { op: sign, expr: Box::new(right) });
            }
            _ => {}
        }
        if is_comparison(op) {
            return self.comparison(expr, scope);
        }
        let left_kind = self.expr(left, scope)?;
        let right_kind = self.expr(right, scope)?;
        self.operate(expr, left_kind, right_kind)
    }

    /// An operation whose sides are rewritten; apart from the walk, which may be deep.
    fn operate(&mut self, expr: &mut Expr, left_kind: Option<Kind>, right_kind: Option<Kind>) -> Rewrite {
        let Expr::BinaryOp { left, op, right } = expr else { return Ok(None) };
        match op {
            BinaryOperator::Multiply | BinaryOperator::Divide
                if is_interval(left_kind) || is_interval(right_kind) =>
            {
                scale_interval(expr, left_kind, right_kind)
            }
            BinaryOperator::StringConcat if is_bytea(left_kind) || is_bytea(right_kind) => {
                self.concat_bytes(expr, left_kind, right_kind)
            }
            BinaryOperator::StringConcat => {
                self.as_text(left, left_kind);
                self.as_text(right, right_kind);
                self.note_parameter(left, PgType::Text);
                self.note_parameter(right, PgType::Text);
                let array = left_kind.or(right_kind).filter(|kind| kind.pg_type.element().is_some());
                Ok(array.or(Some(Kind::of(PgType::Text))))
            }
            BinaryOperator::Plus
            | BinaryOperator::Minus
            | BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Modulo => self.arithmetic(expr, left_kind, right_kind),
            BinaryOperator::Arrow | BinaryOperator::HashArrow => {
                headers_as_json(left, left_kind);
                Ok(Some(Kind::of(PgType::Json)))
            }
            BinaryOperator::LongArrow | BinaryOperator::HashLongArrow => {
                headers_as_json(left, left_kind);
                Ok(Some(Kind::of(PgType::Text)))
            }
            BinaryOperator::PGRegexMatch
            | BinaryOperator::PGRegexIMatch
            | BinaryOperator::PGRegexNotMatch
            | BinaryOperator::PGRegexNotIMatch => {
                if is_bytea(left_kind) {
                    let (left, right) = (category::type_name(left_kind), category::type_name(right_kind));
                    return Err(category::no_operator(left, op, right));
                }
                self.note_parameter(right, PgType::Text);
                Ok(Some(Kind::of(PgType::Bool)))
            }
            _ => Ok(None),
        }
    }

    fn arithmetic(&mut self, expr: &mut Expr, left_kind: Option<Kind>, right_kind: Option<Kind>) -> Rewrite {
        if let Some(kind) = self.date_arithmetic(expr, left_kind, right_kind) {
            return Ok(Some(kind));
        }
        if let Some(kind) = self.instant_arithmetic(expr, left_kind, right_kind) {
            return Ok(Some(kind));
        }
        let Expr::BinaryOp { left, op, right } = expr else { return Ok(None) };
        let left_kind = self.number_beside(left, left_kind, right_kind)?;
        let right_kind = self.number_beside(right, right_kind, left_kind)?;
        if is_number(left_kind) && is_number(right_kind) {
            number::meet(&mut [(left, left_kind), (right, right_kind)]);
        }
        let kind = arithmetic::kind(op, left_kind, right_kind);
        arithmetic::exact(expr, left_kind, right_kind);
        Ok(kind)
    }

    /// A string beside a number is a number.
    fn number_beside(&mut self, expr: &mut Expr, kind: Option<Kind>, other: Option<Kind>) -> Rewrite {
        if is_number(other) && build::string_literal(expr).is_some() {
            return self.adapt(expr, kind, other);
        }
        Ok(kind)
    }

    /// `bytea || bytea` is bytea; with text the bytes are shown as text.
    fn concat_bytes(
        &mut self,
        expr: &mut Expr,
        left_kind: Option<Kind>,
        right_kind: Option<Kind>,
    ) -> Rewrite {
        let Expr::BinaryOp { left, right, .. } = expr else { return Ok(None) };
        let bytea = Some(Kind::of(PgType::Bytea));
        let is_other = |kind: Option<Kind>| kind.is_some() && !is_bytea(kind);
        if is_other(left_kind) || is_other(right_kind) {
            self.as_text(left, left_kind);
            self.as_text(right, right_kind);
            return Ok(Some(Kind::of(PgType::Text)));
        }
        self.adapt(left, left_kind, bytea)?;
        self.adapt(right, right_kind, bytea)?;
        let take = |side: &mut Expr| std::mem::replace(side, build::null());
        *expr = build::call(BYTEA_CONCAT, vec![take(left), take(right)]);
        Ok(bytea)
    }

    /// Days are counted in integers, and a day plus a time is a timestamp, as in PostgreSQL.
    fn date_arithmetic(&self, expr: &mut Expr, left: Option<Kind>, right: Option<Kind>) -> Option<Kind> {
        let is_date = |kind: Option<Kind>| kind.is_some_and(|kind| kind.pg_type == PgType::Date);
        let is_integer = |kind: Option<Kind>| kind.is_some_and(Kind::is_integer);
        let Expr::BinaryOp { left: left_side, op, right: right_side } = expr else { return None };
        let minus = *op == BinaryOperator::Minus;
        if !minus && *op != BinaryOperator::Plus {
            return None;
        }
        let days = |side: &mut Expr| build::replace(side, |side| build::arrow_cast(side, "Int32"));
        let zone = || build::string(self.zone_name());
        let midnight =
            |side: &mut Expr| build::replace(side, |side| build::call(TIMESTAMP, vec![side, zone()]));
        if is_date(left) && is_date(right) && minus {
            days(left_side);
            days(right_side);
            return Some(Kind::of(PgType::Int4));
        }
        if (is_date(left) && is_integer(right)) || (is_integer(left) && is_date(right) && !minus) {
            days(left_side);
            days(right_side);
            build::replace(expr, |sum| build::arrow_cast(build::nested(sum), "Date32"));
            return Some(Kind::of(PgType::Date));
        }
        if is_date(left) && is_interval(right) {
            midnight(left_side);
            return Some(Kind::of(PgType::Timestamp));
        }
        if is_interval(left) && is_date(right) && !minus {
            midnight(right_side);
            return Some(Kind::of(PgType::Timestamp));
        }
        None
    }

    /// Days and months of an interval are those of the session's zone.
    fn instant_arithmetic(&self, expr: &mut Expr, left: Option<Kind>, right: Option<Kind>) -> Option<Kind> {
        if self.is_utc() {
            return None;
        }
        let Expr::BinaryOp { left: left_side, op, right: right_side } = expr else { return None };
        let instant = |kind: Option<Kind>| kind.filter(|kind| kind.is_instant());
        let sign = match op {
            BinaryOperator::Plus => 1,
            BinaryOperator::Minus => -1,
            _ => return None,
        };
        let (kind, swapped) = match (instant(left), instant(right)) {
            (Some(kind), None) if is_interval(right) => (kind, false),
            (None, Some(kind)) if is_interval(left) && sign == 1 => (kind, true),
            _ => return None,
        };
        let take = |side: &mut Expr| std::mem::replace(side, build::null());
        let (left_side, right_side) = (take(left_side), take(right_side));
        let (time, interval) = if swapped { (right_side, left_side) } else { (left_side, right_side) };
        let zone = build::string(self.zone_name());
        *expr = build::call(SHIFT, vec![time, interval, zone, build::number(sign)]);
        Some(kind)
    }

    pub(super) fn unary(&mut self, expr: &mut Expr, scope: &Scope) -> Rewrite {
        if build::number_literal(expr).is_some_and(|digits| digits == SMALLEST_BIGINT) {
            return Ok(Some(Kind::of(PgType::Int8)));
        }
        let Expr::UnaryOp { op, expr: inner } = expr else { return Ok(None) };
        let kind = self.expr(inner, scope)?;
        match op {
            UnaryOperator::Not => Ok(Some(Kind::of(PgType::Bool))),
            UnaryOperator::Minus if is_interval(kind) => {
                let inner = std::mem::replace(inner.as_mut(), build::null());
                *expr = build::call(INTERVAL_MULTIPLY, vec![inner, build::number(-1)]);
                Ok(kind)
            }
            UnaryOperator::Plus | UnaryOperator::Minus => Ok(kind),
            UnaryOperator::BitwiseNot => {
                let inner = std::mem::replace(inner.as_mut(), build::null());
                let flipped = build::binary(inner, BinaryOperator::PGBitwiseXor, build::number(-1));
                *expr = build::nested(flipped);
                Ok(kind)
            }
            other => Err(SqlError::unsupported(format!("the operator {other}"))),
        }
    }
}

fn is_number(kind: Option<Kind>) -> bool {
    kind.is_some_and(Kind::is_number)
}

pub(super) fn is_bytea(kind: Option<Kind>) -> bool {
    kind.is_some_and(Kind::is_bytea)
}

/// The headers of a record are a list to the planner, and json to whoever asks for a part of them.
pub(super) fn headers_as_json(expr: &mut Expr, kind: Option<Kind>) {
    if kind.is_some_and(Kind::is_headers) {
        build::replace(expr, |expr| build::call(JSON, vec![expr]));
    }
}

fn is_interval(kind: Option<Kind>) -> bool {
    kind.is_some_and(Kind::is_interval)
}

/// `interval * n`, `n * interval`, `interval / n`.
fn scale_interval(expr: &mut Expr, left_kind: Option<Kind>, right_kind: Option<Kind>) -> Rewrite {
    if is_interval(left_kind) && is_interval(right_kind) {
        return Err(SqlError::unsupported("an interval times or by an interval"));
    }
    let Expr::BinaryOp { left, op, right } = std::mem::replace(expr, build::null()) else {
        return Ok(None);
    };
    let divide = op == BinaryOperator::Divide;
    let arguments = if is_interval(left_kind) { vec![*left, *right] } else { vec![*right, *left] };
    if divide && !is_interval(left_kind) {
        return Err(SqlError::unsupported("a number by an interval"));
    }
    *expr = build::call(if divide { INTERVAL_DIVIDE } else { INTERVAL_MULTIPLY }, arguments);
    Ok(Some(Kind::of(PgType::Interval)))
}

/// `n>-1` and `j->>-1`: the grammar takes a sign for a part of the operator.
fn without_sign(written: &str) -> Result<(BinaryOperator, UnaryOperator), SqlError> {
    use BinaryOperator as Op;
    let unknown = || SqlError::unsupported(format!("the operator {written}"));
    let sign = match written.chars().last() {
        Some('-') => UnaryOperator::Minus,
        Some('+') => UnaryOperator::Plus,
        _ => return Err(unknown()),
    };
    let operator = match &written[..written.len() - 1] {
        "=" => Op::Eq,
        "<>" | "!=" => Op::NotEq,
        "<" => Op::Lt,
        "<=" => Op::LtEq,
        ">" => Op::Gt,
        ">=" => Op::GtEq,
        "->" => Op::Arrow,
        "->>" => Op::LongArrow,
        "+" => Op::Plus,
        "-" => Op::Minus,
        "*" => Op::Multiply,
        "/" => Op::Divide,
        "%" => Op::Modulo,
        "||" => Op::StringConcat,
        _ => return Err(unknown()),
    };
    Ok((operator, sign))
}

/// `OPERATOR(pg_catalog.~)` is the operator itself.
fn custom_operator(parts: &[String]) -> Result<BinaryOperator, SqlError> {
    use BinaryOperator as Op;
    let name = parts.last().map_or("", String::as_str);
    let in_catalog = parts.len() == 1 || parts.first().is_some_and(|schema| schema == "pg_catalog");
    let op = match name {
        "=" => Op::Eq,
        "<>" | "!=" => Op::NotEq,
        "<" => Op::Lt,
        "<=" => Op::LtEq,
        ">" => Op::Gt,
        ">=" => Op::GtEq,
        "~" => Op::PGRegexMatch,
        "~*" => Op::PGRegexIMatch,
        "!~" => Op::PGRegexNotMatch,
        "!~*" => Op::PGRegexNotIMatch,
        "~~" => Op::PGLikeMatch,
        "~~*" => Op::PGILikeMatch,
        "!~~" => Op::PGNotLikeMatch,
        "!~~*" => Op::PGNotILikeMatch,
        "+" => Op::Plus,
        "-" => Op::Minus,
        "*" => Op::Multiply,
        "/" => Op::Divide,
        "||" => Op::StringConcat,
        _ => return Err(SqlError::unsupported(format!("the operator {}", parts.join(".")))),
    };
    if in_catalog { Ok(op) } else { Err(SqlError::unsupported(format!("the operator {}", parts.join(".")))) }
}
