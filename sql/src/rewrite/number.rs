//! Numbers of different types that meet: in a comparison, a sum, the branches of a CASE or a UNION.
//!
//! Where a float and a numeric meet, PostgreSQL takes both as floats; the planner would take both as
//! decimals, which cannot hold most floats. Where a wide numeric (the column of a topic) and a narrow
//! one meet, the planner finds no type for both, so that the narrow one is made wide.

use datafusion::sql::sqlparser::ast::{DataType, Expr, SelectItem, SetExpr, UnaryOperator};

use super::build;
use super::kind::Kind;
use crate::functions::{FLOAT8, WIDE};
use crate::pg_type::PgType;

/// What numbers become where they meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meeting {
    Floats,
    WideNumerics,
    /// The planner brings them together as PostgreSQL does.
    AsTheyAre,
}

impl Meeting {
    pub(super) fn of(kinds: impl Iterator<Item = Option<Kind>> + Clone) -> Self {
        let known = kinds.flatten();
        if known.clone().any(Kind::is_float) {
            Self::Floats
        } else if known.clone().any(Kind::is_wide) {
            Self::WideNumerics
        } else {
            Self::AsTheyAre
        }
    }

    /// Gives one of the numbers the common type.
    pub(super) fn convert(self, expr: &mut Expr, kind: Option<Kind>) {
        let numeric = kind.is_some_and(|kind| kind.pg_type == PgType::Numeric);
        match self {
            Self::Floats => match digits(expr) {
                // The planner would read the digits as a decimal first, and round twice.
                Some(digits) => *expr = build::cast(build::string(digits), DataType::DoublePrecision),
                None if numeric => build::replace(expr, |expr| build::call(FLOAT8, vec![expr])),
                None => {}
            },
            Self::WideNumerics => {
                let narrow = numeric && !kind.is_some_and(Kind::is_wide);
                // The planner would take a parameter for a number of the column's scale, and round it.
                let parameter = kind.is_none() && build::parameter_number(expr).is_some();
                if narrow || parameter {
                    build::replace(expr, |expr| build::call(WIDE, vec![expr]));
                }
            }
            Self::AsTheyAre => {}
        }
    }
}

/// Brings numbers to the type in which PostgreSQL has them meet; what is no number stays.
pub(super) fn meet(operands: &mut [(&mut Expr, Option<Kind>)]) {
    let meeting = Meeting::of(operands.iter().map(|(_, kind)| *kind));
    for (expr, kind) in operands {
        meeting.convert(expr, *kind);
    }
}

/// The type that values of several kinds have in common; the first one decides where they are no
/// numbers.
pub(super) fn common(kinds: &[Option<Kind>]) -> Option<Kind> {
    let first = kinds.iter().copied().flatten().next()?;
    let mut known = kinds.iter().copied().flatten();
    if known.clone().all(|kind| kind == first) {
        // A value of unknown precision may be finer than the others.
        return Some(if kinds.contains(&None) { Kind::of(first.pg_type) } else { first });
    }
    if !known.clone().all(Kind::is_number) {
        return Some(Kind::of(first.pg_type));
    }
    Some(if known.clone().any(Kind::is_float) {
        Kind::of(PgType::Float8)
    } else if known.clone().any(Kind::is_wide) {
        Kind::wide_numeric()
    } else if known.any(Kind::is_fractional) {
        Kind::of(PgType::Numeric)
    } else {
        Kind::of(if first.is_count() { PgType::Int8 } else { first.pg_type })
    })
}

/// Has a query answer one of its columns in the type in which it meets the columns of others.
pub(super) fn convert_output(query: &mut SetExpr, index: usize, kind: Option<Kind>, meeting: Meeting) {
    match query {
        SetExpr::Select(select) => {
            let Some(item) = select.projection.get_mut(index) else { return };
            match item {
                SelectItem::ExprWithAlias { expr, .. } => meeting.convert(expr, kind),
                SelectItem::UnnamedExpr(expr) => {
                    let Expr::CompoundIdentifier(parts) = &*expr else { return };
                    let Some(alias) = parts.last().cloned() else { return };
                    let mut expr = std::mem::replace(expr, build::null());
                    meeting.convert(&mut expr, kind);
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
                _ => {}
            }
        }
        SetExpr::Values(values) => {
            for row in &mut values.rows {
                if let Some(expr) = row.content.get_mut(index) {
                    meeting.convert(expr, kind);
                }
            }
        }
        SetExpr::Query(query) => convert_output(&mut query.body, index, kind, meeting),
        SetExpr::SetOperation { left, right, .. } => {
            convert_output(left, index, kind, meeting);
            convert_output(right, index, kind, meeting);
        }
        _ => {}
    }
}

/// The digits of a number literal, also of one that was written out for the planner.
fn digits(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Nested(inner) => digits(inner),
        Expr::Cast { expr, data_type: DataType::Decimal(_), .. } => {
            build::string_literal(expr).map(str::to_owned)
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } => {
            digits(inner).filter(|digits| !digits.starts_with('-')).map(|digits| format!("-{digits}"))
        }
        other => build::number_literal(other),
    }
}
