//! Comparisons: literals take the type of the other side, as in PostgreSQL, and times are compared
//! exactly.
//!
//! A topic's `ts` counts milliseconds, and the planner cuts a finer constant down to that. So a
//! finer bound is first moved to the millisecond that selects the same rows.

use datafusion::sql::sqlparser::ast::{BinaryOperator, DataType, Expr};

use datafusion::arrow::datatypes::TimeUnit;

use super::expr::Rewrite;
use super::kind::Kind;
use super::scope::Scope;
use super::{Rewriter, build, category, number};
use crate::error::{SqlError, SqlErrorKind};
use crate::functions::{ByteaFault, CEIL_MS, EXACT_MS, FLOOR_MS, INTERVAL_ORDER, TIMEZONE, bytes_of};
use crate::pg_type::PgType;
use crate::time::literal;

/// An operand after it was rewritten.
struct Operand {
    expr: Expr,
    kind: Option<Kind>,
    /// Whether it is the same for every row.
    constant: bool,
}

/// To which millisecond a finer time is moved.
#[derive(Clone, Copy)]
enum Round {
    Up,
    Down,
    /// Not at all: a time between two milliseconds equals none.
    Exact,
}

pub(super) fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator as Op;
    matches!(op, Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq)
}

impl Rewriter<'_> {
    fn operand(&mut self, expr: Expr, scope: &Scope) -> Result<Operand, SqlError> {
        let mut expr = expr;
        let before = self.references;
        let kind = match self.name_as_number(&mut expr, scope)? {
            Some(kind) => Some(kind),
            None => self.expr(&mut expr, scope)?,
        };
        if kind.is_some_and(Kind::is_headers) {
            self.as_text(&mut expr, kind);
        }
        Ok(Operand { expr, kind, constant: self.references == before })
    }

    /// `left op right` for a comparison.
    pub(super) fn comparison(&mut self, expr: &mut Expr, scope: &Scope) -> Rewrite {
        let Expr::BinaryOp { left, op, right } = std::mem::replace(expr, build::null()) else {
            return Ok(None);
        };
        let mut left = self.operand(*left, scope)?;
        let mut right = self.operand(*right, scope)?;
        category::check(left.kind, &op, right.kind)?;
        let left_kind = self.adapt(&mut left.expr, left.kind, right.kind)?;
        right.kind = self.adapt(&mut right.expr, right.kind, left.kind)?;
        left.kind = left_kind;
        number::meet(&mut [(&mut left.expr, left.kind), (&mut right.expr, right.kind)]);
        *expr = self.compare(left, op, right);
        Ok(Some(Kind::of(PgType::Bool)))
    }

    /// `IS [NOT] DISTINCT FROM`.
    pub(super) fn distinct_from(&mut self, expr: &mut Expr, scope: &Scope) -> Rewrite {
        if let Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) = expr {
            let left_kind = self.expr(left, scope)?;
            let right_kind = self.expr(right, scope)?;
            category::check(left_kind, "=", right_kind)?;
            let left_number = self.adapt(left, left_kind, right_kind)?;
            let right_number = self.adapt(right, right_kind, left_kind)?;
            number::meet(&mut [(left, left_number), (right, right_number)]);
        }
        Ok(Some(Kind::of(PgType::Bool)))
    }

    /// BETWEEN and IN, as the comparisons that they stand for where times need care.
    pub(super) fn range(&mut self, expr: &mut Expr, scope: &Scope) -> Rewrite {
        match std::mem::replace(expr, build::null()) {
            Expr::Between { expr: value, negated, low, high } => {
                let mut value = self.operand(*value, scope)?;
                let mut low = self.bound(*low, &value, ">=", scope)?;
                let mut high = self.bound(*high, &value, "<=", scope)?;
                meet([&mut value, &mut low, &mut high]);
                *expr = between(value, negated, (low, high), &self.zone_name());
            }
            Expr::InList { expr: value, list, negated } => {
                let mut value = self.operand(*value, scope)?;
                let mut list = list
                    .into_iter()
                    .map(|item| self.bound(item, &value, "=", scope))
                    .collect::<Result<Vec<_>, _>>()?;
                meet(std::iter::once(&mut value).chain(&mut list));
                *expr = in_list(value, negated, list, &self.zone_name());
            }
            other => *expr = other,
        }
        Ok(Some(Kind::of(PgType::Bool)))
    }

    fn bound(
        &mut self,
        expr: Expr,
        value: &Operand,
        operator: &str,
        scope: &Scope,
    ) -> Result<Operand, SqlError> {
        let mut bound = self.operand(expr, scope)?;
        category::check(value.kind, operator, bound.kind)?;
        bound.kind = self.adapt(&mut bound.expr, bound.kind, value.kind)?;
        self.localize(&mut bound, value.kind);
        Ok(bound)
    }

    /// Gives a literal the type of what it is compared with, and answers what is known of it then.
    pub(super) fn adapt(&mut self, expr: &mut Expr, own: Option<Kind>, other: Option<Kind>) -> Rewrite {
        let Some(other) = other else { return Ok(own) };
        self.note_parameter(expr, parameter_type(other.pg_type));
        if own.is_some() {
            return Ok(own);
        }
        let Some(text) = build::string_literal(expr) else { return Ok(own) };
        if let Some(typed) = self.typed_literal(text, other.pg_type)? {
            *expr = typed;
            if other.is_number() {
                return Ok(Some(Kind::of(other.pg_type)));
            }
        } else if other.pg_type.element().is_some()
            && let Some(elements) = super::any::array_literal(text)
        {
            *expr = self.array_constant(elements, other.pg_type)?;
        }
        Ok(own)
    }

    /// A string as a constant of a type; `None` where a string will do.
    pub(super) fn typed_literal(&self, text: &str, pg_type: PgType) -> Result<Option<Expr>, SqlError> {
        let constant = match pg_type {
            PgType::Timestamptz => instant_constant(literal::instant_us(text, self.clock)?),
            PgType::Timestamp => {
                let micros = literal::local_us(text, self.clock)?;
                build::arrow_cast(build::number(micros), "Timestamp(Microsecond, None)")
            }
            PgType::Date => {
                let day = literal::day(text, self.clock)?;
                let epoch = chrono::DateTime::UNIX_EPOCH.date_naive();
                let days = i32::try_from(day.signed_duration_since(epoch).num_days()).unwrap_or(i32::MAX);
                build::arrow_cast(build::arrow_cast(build::number(days), "Int32"), "Date32")
            }
            PgType::Interval => {
                super::cast::interval(&crate::time::interval::parse(text, None)?.to_planner_text())
            }
            PgType::Bool => build::boolean(boolean(text)?),
            PgType::Int2 | PgType::Int4 | PgType::Int8 | PgType::Oid => {
                let number: i64 = text.trim().parse().map_err(|_| invalid(pg_type, text))?;
                build::number(number)
            }
            PgType::Float4 | PgType::Float8 => {
                let number: f64 = text.trim().parse().map_err(|_| invalid(pg_type, text))?;
                build::cast(build::string(number.to_string()), DataType::DoublePrecision)
            }
            PgType::Numeric => decimal(text).ok_or_else(|| invalid(pg_type, text))?,
            PgType::Bytea => build::bytes(&bytes_of(text).map_err(bytea_fault)?),
            _ => return Ok(None),
        };
        Ok(Some(constant))
    }

    /// A comparison whose sides are rewritten.
    fn compare(&self, mut left: Operand, op: BinaryOperator, mut right: Operand) -> Expr {
        self.localize(&mut left, right.kind);
        self.localize(&mut right, left.kind);
        if is_interval(&left) || is_interval(&right) {
            return build::binary(interval_order(left.expr), op, interval_order(right.expr));
        }
        if counts_milliseconds(&left) && needs_rounding(&right) {
            return compare_exactly(left, op, right, &self.zone_name());
        }
        if counts_milliseconds(&right) && needs_rounding(&left) {
            return compare_exactly(right, mirrored(op), left, &self.zone_name());
        }
        build::binary(left.expr, op, right.expr)
    }

    /// A date or a time without a zone is compared with an instant as the time in the session zone.
    fn localize(&self, operand: &mut Operand, other: Option<Kind>) {
        if operand.kind.is_some_and(Kind::is_wall_clock) && other.is_some_and(Kind::is_instant) {
            let zone = self.zone_name();
            build::replace(&mut operand.expr, |expr| build::call(TIMEZONE, vec![build::string(zone), expr]));
            operand.kind = Some(Kind::of(PgType::Timestamptz));
        }
    }
}

/// Brings the numbers among operands together.
fn meet<'o>(operands: impl IntoIterator<Item = &'o mut Operand>) {
    let mut operands: Vec<_> =
        operands.into_iter().map(|operand| (&mut operand.expr, operand.kind)).collect();
    number::meet(&mut operands);
}

fn counts_milliseconds(operand: &Operand) -> bool {
    operand.kind.is_some_and(|kind| kind.is_instant() && kind.unit() == Some(TimeUnit::Millisecond))
}

/// Whether a bound may be finer than a millisecond; literals that are not were made so already.
fn needs_rounding(bound: &Operand) -> bool {
    bound.constant && !counts_milliseconds(bound) && milliseconds(&bound.expr).is_none()
}

/// An instant as a constant, as coarse as it can be without a loss.
fn instant_constant(micros: i64) -> Expr {
    if micros % 1000 == 0 {
        build::arrow_cast(build::number(micros / 1000), MILLISECONDS)
    } else {
        build::arrow_cast(build::number(micros), "Timestamp(Microsecond, Some(\"UTC\"))")
    }
}

const MILLISECONDS: &str = "Timestamp(Millisecond, Some(\"UTC\"))";

/// Whether an expression is a constant of milliseconds that [`instant_constant`] made.
fn milliseconds(expr: &Expr) -> Option<()> {
    let whole = build::arrow_cast(build::null(), MILLISECONDS);
    let (Expr::Function(found), Expr::Function(whole)) = (expr, &whole) else { return None };
    let last = |function: &datafusion::sql::sqlparser::ast::Function| match &function.args {
        datafusion::sql::sqlparser::ast::FunctionArguments::List(list) => list.args.last().cloned(),
        _ => None,
    };
    (found.name == whole.name && last(found) == last(whole)).then_some(())
}

fn rounded(bound: Expr, round: Round, zone: &str) -> Expr {
    let name = match round {
        Round::Up => CEIL_MS,
        Round::Down => FLOOR_MS,
        Round::Exact => EXACT_MS,
    };
    build::call(name, vec![bound, build::string(zone)])
}

/// `column op bound` with a bound that may lie between two milliseconds.
fn compare_exactly(column: Operand, op: BinaryOperator, bound: Operand, zone: &str) -> Expr {
    use BinaryOperator as Op;
    let round = match op {
        Op::GtEq | Op::Lt => Round::Up,
        Op::Gt | Op::LtEq => Round::Down,
        _ => Round::Exact,
    };
    build::binary(column.expr, op, rounded(bound.expr, round, zone))
}

fn mirrored(op: BinaryOperator) -> BinaryOperator {
    use BinaryOperator as Op;
    match op {
        Op::Lt => Op::Gt,
        Op::LtEq => Op::GtEq,
        Op::Gt => Op::Lt,
        Op::GtEq => Op::LtEq,
        other => other,
    }
}

fn is_interval(operand: &Operand) -> bool {
    operand.kind.is_some_and(Kind::is_interval)
}

/// The planner compares months, days and time one after the other; a day has 24 hours here.
fn interval_order(expr: Expr) -> Expr {
    let typed = if build::parameter_number(&expr).is_some() {
        build::cast(expr, DataType::Interval { fields: None, precision: None })
    } else {
        expr
    };
    build::call(INTERVAL_ORDER, vec![typed])
}

fn between(value: Operand, negated: bool, (low, high): (Operand, Operand), zone: &str) -> Expr {
    let (low, high) = (bound_of(&value, low, Round::Up, zone), bound_of(&value, high, Round::Down, zone));
    Expr::Between { expr: Box::new(compared(value)), negated, low: Box::new(low), high: Box::new(high) }
}

fn in_list(value: Operand, negated: bool, list: Vec<Operand>, zone: &str) -> Expr {
    let list = list.into_iter().map(|item| bound_of(&value, item, Round::Exact, zone)).collect();
    Expr::InList { expr: Box::new(compared(value)), list, negated }
}

/// A value as it is compared with its bounds.
fn compared(value: Operand) -> Expr {
    if is_interval(&value) { interval_order(value.expr) } else { value.expr }
}

fn bound_of(value: &Operand, bound: Operand, round: Round, zone: &str) -> Expr {
    if counts_milliseconds(value) && needs_rounding(&bound) {
        rounded(bound.expr, round, zone)
    } else if is_interval(value) {
        interval_order(bound.expr)
    } else {
        bound.expr
    }
}

/// What a parameter is when it is compared with a column: drivers know these types.
fn parameter_type(pg_type: PgType) -> PgType {
    match pg_type {
        PgType::Name | PgType::Char | PgType::Json | PgType::Jsonb => PgType::Text,
        other => other,
    }
}

fn invalid(pg_type: PgType, text: &str) -> SqlError {
    let shown: String = text.chars().take(100).collect();
    SqlError::new(
        SqlErrorKind::InvalidText,
        format!("invalid input syntax for type {}: \"{shown}\"", pg_type.display_name()),
    )
}

/// PostgreSQL calls wrong hexadecimal digits an invalid parameter of its decoder.
fn bytea_fault(fault: ByteaFault) -> SqlError {
    let kind = match fault {
        ByteaFault::Digit(_) | ByteaFault::OddDigits => SqlErrorKind::InvalidParameter,
        ByteaFault::Escape => SqlErrorKind::InvalidText,
    };
    SqlError::new(kind, fault.to_string())
}

fn boolean(text: &str) -> Result<bool, SqlError> {
    let word = text.trim().to_ascii_lowercase();
    let starts = |full: &str, least: usize| word.len() >= least && full.starts_with(&word);
    match word.as_str() {
        "1" | "on" => Ok(true),
        "0" => Ok(false),
        _ if starts("true", 1) || starts("yes", 1) => Ok(true),
        _ if starts("false", 1) || starts("no", 1) || starts("off", 2) => Ok(false),
        _ => Err(invalid(PgType::Bool, text)),
    }
}

/// A number written out, as the planner reads it.
fn decimal(text: &str) -> Option<Expr> {
    let text = text.trim();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && digits.bytes().filter(|byte| *byte == b'.').count() <= 1
        && digits.bytes().any(|byte| byte.is_ascii_digit());
    plain.then(|| build::number(text.strip_prefix('+').unwrap_or(text)))
}
