//! What is known about the type of an expression while it is rewritten: enough to read literals
//! as PostgreSQL would, no more. `None` means that only the planner will know.

use datafusion::arrow::datatypes::{DataType as ArrowType, TimeUnit};
use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType, ExactNumberInfo, TimezoneInfo};

use crate::error::{SqlError, SqlErrorKind};
use crate::pg_type::PgType;

/// A type, and how the planner keeps its values where that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) pg_type: PgType,
    stored: Stored,
}

/// What the planner has for a type that it has several forms of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stored {
    /// Its usual form, or one that is not known.
    Usual,
    Time(TimeUnit),
    /// A numeric with as many digits as there can be.
    Wide,
    /// The headers of a record: a list, which is json to clients.
    Headers,
}

impl Kind {
    pub(super) const fn of(pg_type: PgType) -> Self {
        Self { pg_type, stored: Stored::Usual }
    }

    pub(super) fn of_time(pg_type: PgType, unit: Option<TimeUnit>) -> Self {
        Self { pg_type, stored: unit.map_or(Stored::Usual, Stored::Time) }
    }

    pub(super) fn wide_numeric() -> Self {
        Self { pg_type: PgType::Numeric, stored: Stored::Wide }
    }

    pub(super) fn of_column(pg_type: PgType, arrow_type: &ArrowType) -> Self {
        let stored = match arrow_type {
            ArrowType::Timestamp(unit, _) => Stored::Time(*unit),
            ArrowType::Decimal256(..) => Stored::Wide,
            ArrowType::List(_) if pg_type == PgType::Json => Stored::Headers,
            _ => Stored::Usual,
        };
        Self { pg_type, stored }
    }

    /// The precision of times, where it is known.
    pub(super) fn unit(self) -> Option<TimeUnit> {
        match self.stored {
            Stored::Time(unit) => Some(unit),
            _ => None,
        }
    }

    pub(super) fn is_wide(self) -> bool {
        self.stored == Stored::Wide
    }

    pub(super) fn is_headers(self) -> bool {
        self.stored == Stored::Headers
    }

    pub(super) fn is_bytea(self) -> bool {
        self.pg_type == PgType::Bytea
    }

    pub(super) fn is_instant(self) -> bool {
        self.pg_type == PgType::Timestamptz
    }

    /// A date or a time on a wall clock, which is an instant only in some zone.
    pub(super) fn is_wall_clock(self) -> bool {
        matches!(self.pg_type, PgType::Timestamp | PgType::Date)
    }

    pub(super) fn is_integer(self) -> bool {
        matches!(
            self.pg_type,
            PgType::Int2 | PgType::Int4 | PgType::Int8 | PgType::Oid | PgType::Regclass | PgType::Regtype
        )
    }

    pub(super) fn is_fractional(self) -> bool {
        matches!(self.pg_type, PgType::Float4 | PgType::Float8 | PgType::Numeric)
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self.pg_type, PgType::Float4 | PgType::Float8)
    }

    pub(super) fn is_interval(self) -> bool {
        self.pg_type == PgType::Interval
    }

    /// An integer that is a number and no identifier.
    pub(super) fn is_count(self) -> bool {
        matches!(self.pg_type, PgType::Int2 | PgType::Int4 | PgType::Int8)
    }

    pub(super) fn is_number(self) -> bool {
        self.is_integer() || self.is_fractional()
    }

    pub(super) fn is_text(self) -> bool {
        matches!(self.pg_type, PgType::Text | PgType::Varchar | PgType::BpChar | PgType::Name | PgType::Char)
    }
}

/// The type that a cast names.
///
/// # Errors
/// Types that do not exist here.
pub(super) fn pg_type_of(data_type: &DataType) -> Result<PgType, SqlError> {
    let simple = match data_type {
        DataType::Boolean | DataType::Bool => PgType::Bool,
        DataType::SmallInt(_) | DataType::Int2(_) => PgType::Int2,
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => PgType::Int4,
        DataType::BigInt(_) | DataType::Int8(_) => PgType::Int8,
        DataType::Real | DataType::Float4 => PgType::Float4,
        DataType::Double(_) | DataType::DoublePrecision | DataType::Float8 => PgType::Float8,
        DataType::Float(precision) => float(precision),
        DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_) => PgType::Numeric,
        DataType::Text => PgType::Text,
        DataType::Varchar(_)
        | DataType::CharVarying(_)
        | DataType::CharacterVarying(_)
        | DataType::Nvarchar(_) => PgType::Varchar,
        DataType::Char(_) | DataType::Character(_) => PgType::BpChar,
        DataType::Bytea => PgType::Bytea,
        DataType::Date => PgType::Date,
        DataType::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => PgType::Time,
        DataType::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => PgType::Timestamp,
        DataType::Timestamp(..) => PgType::Timestamptz,
        DataType::Interval { .. } => PgType::Interval,
        DataType::JSON => PgType::Json,
        DataType::JSONB => PgType::Jsonb,
        DataType::Uuid => PgType::Uuid,
        DataType::Regclass => PgType::Regclass,
        DataType::Array(
            ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::AngleBracket(element),
        ) => {
            return pg_type_of(element)?.array().ok_or_else(|| unknown(&data_type.to_string()));
        }
        DataType::Custom(name, arguments) if arguments.is_empty() => {
            let mut parts: Vec<String> = name.0.iter().map(super::names::part_text).collect();
            let last = parts.pop().unwrap_or_default();
            if parts.first().is_some_and(|schema| schema != "pg_catalog") {
                return Err(unknown(&data_type.to_string()));
            }
            return named(&last).ok_or_else(|| unknown(&last));
        }
        other => return Err(unknown(&other.to_string())),
    };
    Ok(simple)
}

/// Types that only look-ups of names have; they are object identifiers.
fn named(name: &str) -> Option<PgType> {
    match name {
        "regnamespace" | "regrole" | "xid" | "cid" => Some(PgType::Oid),
        "regprocedure" | "regoper" => Some(PgType::Regproc),
        other => PgType::from_name(other),
    }
}

fn float(precision: &ExactNumberInfo) -> PgType {
    match precision {
        ExactNumberInfo::Precision(bits) if *bits <= 24 => PgType::Float4,
        _ => PgType::Float8,
    }
}

fn unknown(name: &str) -> SqlError {
    SqlError::new(SqlErrorKind::UndefinedObject, format!("type \"{}\" does not exist", name.to_lowercase()))
}
