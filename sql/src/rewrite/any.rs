//! ANY and ALL, and the arrays that they look through.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, DataType, Expr, visit_expressions};

use super::expr::Rewrite;
use super::kind::Kind;
use super::scope::Scope;
use super::{Rewriter, build, category};
use crate::error::SqlError;
use crate::functions::{BYTEA, HAS_INSTANT};
use crate::pg_type::PgType;

/// How many elements an array may have that is compared by anything but `=` and `<>`.
const COMPARED_ELEMENTS_MAX: usize = 100;

impl Rewriter<'_> {
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
        let element = array_kind.and_then(|kind| kind.pg_type.element()).map(Kind::of);
        category::check(kind, "=", element)?;
        let kind = self.adapt(&mut left, kind, element)?;
        if let Some(number) = build::parameter_number(&array) {
            let element = kind.map_or(PgType::Text, |kind| kind.pg_type);
            let array_type = element.array().unwrap_or(PgType::TextArray);
            let array_type = *self.parameter_types.entry(number).or_insert(array_type);
            array = build::arrow_cast(array, list_type(array_type));
        }
        let has = if kind.is_some_and(Kind::is_instant) {
            build::call(HAS_INSTANT, vec![array, left])
        } else if kind.is_some_and(Kind::is_bytea) {
            // The elements are bytes of another form than a topic's columns.
            build::call("array_has", vec![array, build::call(BYTEA, vec![left])])
        } else {
            build::call("array_has", vec![array, left])
        };
        *place = if any { has } else { build::not(has) };
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
        Some(PgType::Bytea) => "List(Binary)",
        Some(PgType::Date) => "List(Date32)",
        Some(PgType::Timestamp) => "List(Timestamp(Microsecond, None))",
        Some(PgType::Timestamptz) => "List(Timestamp(Microsecond, Some(\"UTC\")))",
        _ => "List(Utf8)",
    }
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
pub(super) fn not_repeated(expr: &Expr) -> Result<(), SqlError> {
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

pub(super) fn bounded(elements: usize) -> Result<(), SqlError> {
    if elements <= COMPARED_ELEMENTS_MAX {
        return Ok(());
    }
    Err(SqlError::unsupported(format!(
        "an array of {elements} elements in ANY or ALL (at most {COMPARED_ELEMENTS_MAX})"
    )))
}
