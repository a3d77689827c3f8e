//! Which types PostgreSQL has comparisons between.
//!
//! The planner reads text as a number or a time where it is compared with one, and fails at the first
//! row whose text is none. PostgreSQL has no such operator, and says so before anything is read.

use super::kind::Kind;
use crate::error::{SqlError, SqlErrorKind};
use crate::pg_type::PgType;

/// What a type is a kind of.
#[derive(Clone, Copy, PartialEq)]
enum Category {
    Text,
    Bytea,
    Number,
    Bool,
    Time,
    Interval,
}

impl Category {
    fn of(kind: Kind) -> Option<Self> {
        match kind.pg_type {
            _ if kind.is_text() => Some(Self::Text),
            _ if kind.is_bytea() => Some(Self::Bytea),
            _ if kind.is_number() => Some(Self::Number),
            _ if kind.is_instant() || kind.is_wall_clock() => Some(Self::Time),
            _ if kind.is_interval() => Some(Self::Interval),
            PgType::Bool => Some(Self::Bool),
            _ => None,
        }
    }
}

/// Whether an operator exists between two types, as far as they are known.
///
/// # Errors
/// When text or bytea meets a type of another category.
pub(super) fn check(
    left: Option<Kind>,
    operator: impl std::fmt::Display,
    right: Option<Kind>,
) -> Result<(), SqlError> {
    let (Some(left), Some(right)) = (left, right) else { return Ok(()) };
    let (Some(one), Some(other)) = (Category::of(left), Category::of(right)) else { return Ok(()) };
    let is_string = |category| matches!(category, Category::Text | Category::Bytea);
    if one == other || !(is_string(one) || is_string(other)) {
        return Ok(());
    }
    Err(no_operator(left.pg_type.display_name(), operator, right.pg_type.display_name()))
}

/// The error for an operator that PostgreSQL does not have.
pub(super) fn no_operator(left: &str, operator: impl std::fmt::Display, right: &str) -> SqlError {
    let message = format!("operator does not exist: {left} {operator} {right}");
    SqlError::new(SqlErrorKind::UndefinedFunction, message)
        .with_hint("you might need to add explicit type casts")
}

/// What a type is called in errors; a literal has none.
pub(super) fn type_name(kind: Option<Kind>) -> &'static str {
    kind.map_or("unknown", |kind| kind.pg_type.display_name())
}
