//! Operators: arithmetic with intervals, patterns, ANY and ALL.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, UnaryOperator, ValueWithSpan, visit_expressions,
};

use super::compare::is_comparison;
use super::expr::Rewrite;
use super::kind::Kind;
use super::scope::Scope;
use super::{Rewriter, arithmetic, build};
use crate::error::SqlError;
use crate::functions::{INTERVAL_DIVIDE, INTERVAL_MULTIPLY, LIKE_PATTERN, SHIFT, TIMESTAMP};
use crate::pg_type::PgType;

/// How many elements an array may have that is compared by anything but `=` and `<>`.
const COMPARED_ELEMENTS_MAX: usize = 100;

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
        match op {
            BinaryOperator::Multiply | BinaryOperator::Divide
                if is_interval(left_kind) || is_interval(right_kind) =>
            {
                scale_interval(expr, left_kind, right_kind)
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
            | BinaryOperator::Modulo => {
                if let Some(kind) = self.date_arithmetic(expr, left_kind, right_kind) {
                    return Ok(Some(kind));
                }
                if let Some(kind) = self.instant_arithmetic(expr, left_kind, right_kind) {
                    return Ok(Some(kind));
                }
                let Expr::BinaryOp { op, .. } = expr else { return Ok(None) };
                let kind = arithmetic::kind(op, left_kind, right_kind);
                arithmetic::exact(expr, left_kind, right_kind);
                Ok(kind)
            }
            BinaryOperator::Arrow | BinaryOperator::HashArrow => Ok(Some(Kind::of(PgType::Json))),
            BinaryOperator::LongArrow | BinaryOperator::HashLongArrow => Ok(Some(Kind::of(PgType::Text))),
            BinaryOperator::PGRegexMatch
            | BinaryOperator::PGRegexIMatch
            | BinaryOperator::PGRegexNotMatch
            | BinaryOperator::PGRegexNotIMatch => {
                self.note_parameter(right, PgType::Text);
                Ok(Some(Kind::of(PgType::Bool)))
            }
            _ => Ok(None),
        }
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

    /// LIKE and ILIKE. The planner knows only the backslash as an escape, so that a pattern with
    /// another one is translated.
    pub(super) fn like(&mut self, expr: &mut Expr, scope: &Scope) -> Rewrite {
        if let Expr::Like { any: true, .. } | Expr::ILike { any: true, .. } = expr {
            return self.like_any(expr, scope);
        }
        let (Expr::Like { expr: value, pattern, escape_char, .. }
        | Expr::ILike { expr: value, pattern, escape_char, .. }) = expr
        else {
            return Ok(None);
        };
        let value_kind = self.expr(value, scope)?;
        self.as_text(value, value_kind);
        self.expr(pattern, scope)?;
        self.note_parameter(pattern, PgType::Text);
        if let Some(escape) = escape_char.take() {
            translate_pattern(pattern, &escape)?;
        }
        Ok(Some(Kind::of(PgType::Bool)))
    }

    fn like_any(&mut self, expr: &mut Expr, scope: &Scope) -> Rewrite {
        let (Expr::Like { pattern, .. } | Expr::ILike { pattern, .. }) = &*expr else { return Ok(None) };
        let Some(patterns) = array_elements(pattern) else {
            return Err(SqlError::unsupported("LIKE ANY of anything but an array of literals"));
        };
        bounded(patterns.len())?;
        if let Expr::Like { expr: value, .. } | Expr::ILike { expr: value, .. } = &*expr {
            not_repeated(value)?;
        }
        let template = std::mem::replace(expr, build::null());
        let negated =
            matches!(&template, Expr::Like { negated: true, .. } | Expr::ILike { negated: true, .. });
        let each = patterns.into_iter().map(|element| {
            let mut like = template.clone();
            if let Expr::Like { any, pattern, .. } | Expr::ILike { any, pattern, .. } = &mut like {
                *any = false;
                **pattern = element;
            }
            like
        });
        *expr = build::nested(
            each.reduce(|all, next| build::binary(all, BinaryOperator::Or, next))
                .unwrap_or_else(|| build::boolean(negated)),
        );
        self.expr(expr, scope)
    }

    pub(super) fn any_or_all(&mut self, expr: &mut Expr, scope: &Scope) -> Rewrite {
        let (left, op, right, any) = match std::mem::replace(expr, build::null()) {
            Expr::AnyOp { left, compare_op, right, .. } => (*left, compare_op, *right, true),
            Expr::AllOp { left, compare_op, right } => (*left, compare_op, *right, false),
            other => {
                *expr = other;
                return Ok(None);
            }
        };
        let right = unwrapped(right);
        let member = matches!((&op, any), (BinaryOperator::Eq, true) | (BinaryOperator::NotEq, false));
        let written = if any { "ANY" } else { "ALL" };
        let rewritten = match right {
            Expr::Subquery(subquery) if member => {
                Expr::InSubquery { expr: Box::new(left), subquery, negated: !any }
            }
            Expr::Subquery(_) => {
                return Err(SqlError::unsupported(format!("{op} {written} of a subquery")));
            }
            list => match array_elements(&list) {
                Some(list) if member => Expr::InList { expr: Box::new(left), list, negated: !any },
                Some(list) => chain(&left, &op, list, any)?,
                None if member => return self.membership(expr, left, list, any, scope),
                None => {
                    return Err(SqlError::unsupported(format!(
                        "{op} {written} of anything but an array of literals"
                    )));
                }
            },
        };
        *expr = rewritten;
        self.expr(expr, scope)
    }

    /// `left = ANY (array)`.
    fn membership(
        &mut self,
        place: &mut Expr,
        mut left: Expr,
        mut array: Expr,
        any: bool,
        scope: &Scope,
    ) -> Rewrite {
        let kind = self.expr(&mut left, scope)?;
        let array_kind = self.expr(&mut array, scope)?;
        self.adapt(&mut left, kind, array_kind.and_then(|kind| kind.pg_type.element()).map(Kind::of))?;
        if let Some(number) = build::parameter_number(&array) {
            let element = kind.map_or(PgType::Text, |kind| kind.pg_type);
            let array_type = element.array().unwrap_or(PgType::TextArray);
            let array_type = *self.parameter_types.entry(number).or_insert(array_type);
            array = build::arrow_cast(array, list_type(array_type));
        }
        let has = build::call("array_has", vec![array, left]);
        *place = if any { has } else { Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(has) } };
        Ok(Some(Kind::of(PgType::Bool)))
    }
}

/// The Arrow type of an array that comes in as a parameter.
fn list_type(pg_type: PgType) -> &'static str {
    match pg_type.element() {
        Some(PgType::Bool) => "List(Boolean)",
        Some(PgType::Int2) => "List(Int16)",
        Some(PgType::Int4) => "List(Int32)",
        Some(PgType::Int8 | PgType::Oid) => "List(Int64)",
        Some(PgType::Float4) => "List(Float32)",
        Some(PgType::Float8) => "List(Float64)",
        _ => "List(Utf8)",
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

fn translate_pattern(pattern: &mut Expr, escape: &ValueWithSpan) -> Result<(), SqlError> {
    let escape = Expr::Value(escape.clone());
    let Some(text) = build::string_literal(&escape) else {
        return Err(SqlError::unsupported("an ESCAPE that is not a string"));
    };
    if text == "\\" {
        return Ok(());
    }
    if text.chars().count() > 1 {
        return Err(SqlError::unsupported("an ESCAPE of several characters"));
    }
    let text = text.to_owned();
    build::replace(pattern, |pattern| build::call(LIKE_PATTERN, vec![pattern, build::string(text)]));
    Ok(())
}

/// An array without parentheses and without the cast that only names its type.
fn unwrapped(expr: Expr) -> Expr {
    match expr {
        Expr::Nested(inner) => unwrapped(*inner),
        Expr::Cast { expr, data_type: DataType::Array(_), .. } if array_elements(&expr).is_some() => {
            unwrapped(*expr)
        }
        other => other,
    }
}

/// The elements of `ARRAY[...]` or `'{...}'`.
pub(super) fn array_elements(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Nested(inner) => array_elements(inner),
        Expr::Array(array) => Some(array.elem.clone()),
        Expr::Tuple(values) => Some(values.clone()),
        other => array_literal(build::string_literal(other)?),
    }
}

/// The elements of an array in PostgreSQL's text form, of one dimension.
pub(super) fn array_literal(text: &str) -> Option<Vec<Expr>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut elements = Vec::new();
    let mut rest = inner.trim();
    while !rest.is_empty() {
        let (element, after) = array_element(rest)?;
        elements.push(element);
        rest = after.trim_start();
        if rest.is_empty() {
            break;
        }
        rest = rest.strip_prefix(',')?.trim_start();
        if rest.is_empty() {
            return None;
        }
    }
    Some(elements)
}

fn array_element(text: &str) -> Option<(Expr, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(',').unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        let word = word.trim();
        if word.is_empty() || word.contains(['{', '}', '"']) {
            return None;
        }
        let element = if word.eq_ignore_ascii_case("null") { build::null() } else { build::string(word) };
        return Some((element, rest));
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => return Some((build::string(value), &quoted[index + 1..])),
            '\\' => value.push(characters.next()?.1),
            other => value.push(other),
        }
    }
    None
}

/// `left op ANY (a, b)` as `left op a OR left op b`; ALL joins with AND.
fn chain(left: &Expr, op: &BinaryOperator, list: Vec<Expr>, any: bool) -> Result<Expr, SqlError> {
    bounded(list.len())?;
    not_repeated(left)?;
    let join = if any { BinaryOperator::Or } else { BinaryOperator::And };
    let all = list
        .into_iter()
        .map(|element| build::binary(left.clone(), op.clone(), element))
        .reduce(|all, next| build::binary(all, join.clone(), next));
    Ok(build::nested(all.unwrap_or_else(|| build::boolean(!any))))
}

/// What is compared with each element is repeated for each, so that it must not repeat anything
/// itself.
fn not_repeated(expr: &Expr) -> Result<(), SqlError> {
    let repeats = visit_expressions(expr, |inner| match inner {
        Expr::AnyOp { .. }
        | Expr::AllOp { .. }
        | Expr::Like { any: true, .. }
        | Expr::ILike { any: true, .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    if repeats.is_continue() {
        return Ok(());
    }
    Err(SqlError::unsupported("ANY or ALL inside what is compared with ANY or ALL"))
}

fn bounded(elements: usize) -> Result<(), SqlError> {
    if elements <= COMPARED_ELEMENTS_MAX {
        return Ok(());
    }
    Err(SqlError::unsupported(format!(
        "an array of {elements} elements in ANY or ALL (at most {COMPARED_ELEMENTS_MAX})"
    )))
}
