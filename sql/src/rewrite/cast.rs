//! Casts: to times and text as PostgreSQL writes them, to the types that only exist in names
//! (regclass and its kin), and those that the planner would do differently.

use datafusion::sql::sqlparser::ast::{
    CharacterLength, DataType, ExactNumberInfo, Expr, TimezoneInfo, TypedString,
};

use super::any::array_literal;
use super::expr::Rewrite;
use super::kind::{Kind, pg_type_of};

use super::scope::Scope;
use super::{Rewriter, build};
use crate::catalog;
use crate::error::{SqlError, SqlErrorKind};
use crate::functions::{
    BYTEA, FLOAT8, JSON, NAMESPACE_NAME, OID, REGCLASS, REGCLASS_NAME, REGTYPE_NAME, ROUND_HALF_EVEN, TEXT,
    TIMESTAMP, TIMESTAMPTZ, TIMEZONE,
};
use crate::pg_type::PgType;

/// The types whose values are names of objects, stored as numbers.
#[derive(Clone, Copy, PartialEq)]
enum Registry {
    Class,
    Type,
    Namespace,
    Role,
}

impl Registry {
    fn of(data_type: &DataType) -> Option<Self> {
        let name = match data_type {
            DataType::Regclass => "regclass".to_owned(),
            DataType::Custom(name, arguments) if arguments.is_empty() => {
                name.0.last().map(super::names::part_text)?
            }
            _ => return None,
        };
        match name.as_str() {
            "regclass" => Some(Self::Class),
            "regtype" => Some(Self::Type),
            "regnamespace" => Some(Self::Namespace),
            "regrole" => Some(Self::Role),
            _ => None,
        }
    }

    fn kind(self) -> Kind {
        Kind::of(match self {
            Self::Class => PgType::Regclass,
            Self::Type => PgType::Regtype,
            Self::Namespace | Self::Role => PgType::Oid,
        })
    }
}

impl Rewriter<'_> {
    pub(super) fn cast(&mut self, expr: &mut Expr, scope: &Scope) -> Rewrite {
        if let Expr::TypedString(TypedString { data_type, value, .. }) = expr {
            *expr = build::cast(Expr::Value(value.clone()), data_type.clone());
        }
        let Expr::Cast { expr: inner, data_type, array: false, format: None, .. } = expr else {
            return Err(SqlError::unsupported("this kind of CAST"));
        };
        let data_type = data_type.clone();
        if let Some(registry) = Registry::of(&data_type) {
            let mut inner = std::mem::replace(inner.as_mut(), build::null());
            let kind = self.registry_name(&mut inner, registry, scope)?;
            *expr = inner;
            return Ok(kind);
        }
        let target = pg_type_of(&data_type)?;
        let any_numeric = is_any_numeric(&data_type);
        self.note_parameter(inner, target);
        let mut inner = std::mem::replace(inner.as_mut(), build::null());
        let number = if target == PgType::Oid { self.name_as_number(&mut inner, scope)? } else { None };
        let kind = match number {
            Some(kind) => Some(kind),
            None => self.expr(&mut inner, scope)?,
        };
        if kind.is_none()
            && let Some(text) = build::string_literal(&inner)
            && let Some(constant) = self.cast_literal(text, target)?
        {
            *expr = if target == PgType::Numeric && !any_numeric {
                numeric(constant, None, &data_type)
            } else {
                constant
            };
        } else {
            *expr = self.cast_expr(inner, kind, target, data_type)?;
        }
        if let Some(kind) = kind.filter(|kind| kind.is_float() && any_numeric) {
            return Ok(Some(kind));
        }
        let unit = kind.filter(|kind| kind.pg_type == target).and_then(Kind::unit);
        Ok(Some(Kind::of_time(target, unit)))
    }

    /// A string literal that becomes a constant of the type.
    fn cast_literal(&self, text: &str, target: PgType) -> Result<Option<Expr>, SqlError> {
        if let Some(constant) = self.typed_literal(text, target)? {
            return Ok(Some(match target {
                PgType::Oid => build::call(OID, vec![constant]),
                PgType::Int2 => build::cast(constant, DataType::SmallInt(None)),
                PgType::Int4 => build::cast(constant, DataType::Int(None)),
                PgType::Float4 => build::cast(constant, DataType::Real),
                _ => constant,
            }));
        }
        Ok(match target {
            PgType::Regproc => Some(build::string(text.rsplit('.').next().unwrap_or(text))),
            PgType::Uuid | PgType::Unknown => Some(build::string(text)),
            target => match (target.element(), array_literal(text)) {
                (Some(_), Some(elements)) => Some(self.array_constant(elements, target)?),
                (Some(_), None) => {
                    let message = format!("malformed array literal: \"{text}\"");
                    return Err(SqlError::new(SqlErrorKind::InvalidText, message));
                }
                _ => None,
            },
        })
    }

    pub(super) fn array_constant(&self, elements: Vec<Expr>, target: PgType) -> Result<Expr, SqlError> {
        let element = target.element().unwrap_or(PgType::Text);
        let typed = elements
            .into_iter()
            .map(|expr| match build::string_literal(&expr) {
                Some(text) => Ok(self.typed_literal(text, element)?.unwrap_or(expr)),
                None => Ok(expr),
            })
            .collect::<Result<Vec<_>, SqlError>>()?;
        let list = build::call("make_array", typed);
        Ok(match element {
            PgType::Text | PgType::Varchar | PgType::Name | PgType::Char => {
                build::arrow_cast(list, "List(Utf8)")
            }
            PgType::Int2 => build::arrow_cast(list, "List(Int16)"),
            PgType::Int4 => build::arrow_cast(list, "List(Int32)"),
            PgType::Int8 | PgType::Oid => build::arrow_cast(list, "List(Int64)"),
            PgType::Float8 => build::arrow_cast(list, "List(Float64)"),
            PgType::Bool => build::arrow_cast(list, "List(Boolean)"),
            PgType::Bytea => build::arrow_cast(list, "List(Binary)"),
            _ => return Err(SqlError::unsupported(format!("a literal of type {}", target.display_name()))),
        })
    }

    fn cast_expr(
        &self,
        inner: Expr,
        kind: Option<Kind>,
        target: PgType,
        data_type: DataType,
    ) -> Result<Expr, SqlError> {
        let zone = || build::string(self.zone_name());
        let same = kind.is_some_and(|kind| kind.pg_type == target);
        Ok(match target {
            PgType::Timestamptz if same => inner,
            PgType::Timestamptz => build::call(TIMESTAMPTZ, vec![inner, zone()]),
            PgType::Timestamp if same => inner,
            PgType::Timestamp => build::call(TIMESTAMP, vec![inner, zone()]),
            PgType::Date if kind.is_some_and(Kind::is_instant) && !self.is_utc() => {
                build::cast(build::call(TIMEZONE, vec![zone(), inner]), DataType::Date)
            }
            PgType::Text | PgType::Varchar | PgType::BpChar | PgType::Name | PgType::Char => {
                shortened(self.text_of(inner, kind), &data_type)
            }
            PgType::Time if kind.is_some_and(Kind::is_instant) && !self.is_utc() => {
                build::cast(build::call(TIMEZONE, vec![zone(), inner]), plain_type(target))
            }
            PgType::Int2 | PgType::Int4 | PgType::Int8 if kind.is_some_and(Kind::is_fractional) => {
                let round = if kind.is_some_and(Kind::is_float) { ROUND_HALF_EVEN } else { "round" };
                build::cast(build::call(round, vec![inner]), plain_type(target))
            }
            PgType::Float4 | PgType::Float8 if build::number_literal(&inner).is_some() => {
                let digits = build::number_literal(&inner).unwrap_or_default();
                build::cast(build::string(digits), plain_type(target))
            }
            PgType::Float8 if kind.is_some_and(|kind| kind.pg_type == PgType::Numeric) => {
                build::call(FLOAT8, vec![inner])
            }
            PgType::Oid => build::call(OID, vec![inner]),
            PgType::Numeric => numeric(inner, kind, &data_type),
            PgType::Json | PgType::Jsonb if same && !kind.is_some_and(Kind::is_headers) => inner,
            PgType::Json | PgType::Jsonb => build::call(JSON, vec![inner]),
            PgType::Regproc | PgType::Uuid | PgType::Unknown => build::cast(inner, DataType::Text),
            PgType::Bytea if same => inner,
            PgType::Bytea => build::call(BYTEA, vec![inner]),
            _ if same => inner,
            _ if target.element().is_some() => array_cast(inner, kind, target, data_type)?,
            _ => build::cast(inner, plain_type(target)),
        })
    }

    /// Text as PostgreSQL shows a value.
    pub(super) fn text_of(&self, expr: Expr, kind: Option<Kind>) -> Expr {
        if build::parameter_number(&expr).is_some() {
            return build::cast(expr, DataType::Text);
        }
        match kind {
            Some(kind) if kind.is_text() => expr,
            Some(kind) if kind.is_headers() => build::cast(build::call(JSON, vec![expr]), DataType::Text),
            Some(Kind { pg_type: PgType::Regclass, .. }) => build::call(REGCLASS_NAME, vec![expr]),
            Some(Kind { pg_type: PgType::Regtype, .. }) => build::call(REGTYPE_NAME, vec![expr]),
            Some(kind) if kind.is_integer() || matches!(kind.pg_type, PgType::Numeric | PgType::Bool) => {
                build::cast(expr, DataType::Text)
            }
            _ => build::call(TEXT, vec![expr, build::string(self.zone_name())]),
        }
    }

    /// A time, a float, bytes or headers inside a text expression become text.
    pub(super) fn as_text(&self, expr: &mut Expr, kind: Option<Kind>) {
        if kind.is_some_and(|kind| {
            kind.is_instant()
                || kind.is_wall_clock()
                || kind.is_float()
                || kind.is_interval()
                || kind.is_bytea()
                || kind.is_headers()
        }) {
            build::replace(expr, |expr| self.text_of(expr, kind));
        }
    }

    /// `x::regclass` where its number counts: in comparisons and under `::oid`. Answers `None`, and
    /// leaves the expression alone, when it is no such cast.
    pub(super) fn name_as_number(
        &mut self,
        expr: &mut Expr,
        scope: &Scope,
    ) -> Result<Option<Kind>, SqlError> {
        match expr {
            Expr::Nested(inner) => self.name_as_number(inner, scope),
            Expr::Cast { expr: inner, data_type, array: false, format: None, .. } => {
                let Some(registry) = Registry::of(data_type) else { return Ok(None) };
                let mut inner = std::mem::replace(inner.as_mut(), build::null());
                let kind = self.registry_number(&mut inner, registry, scope)?;
                *expr = inner;
                Ok(Some(kind))
            }
            _ => Ok(None),
        }
    }

    fn registry_number(
        &mut self,
        inner: &mut Expr,
        registry: Registry,
        scope: &Scope,
    ) -> Result<Kind, SqlError> {
        if let Some(text) = build::string_literal(inner) {
            let oid = self.named_oid(text, registry)?;
            *inner = build::call(OID, vec![build::number(oid)]);
            return Ok(registry.kind());
        }
        self.note_parameter(inner, PgType::Text);
        let kind = self.expr(inner, scope)?;
        if !kind.is_some_and(Kind::is_integer) {
            let function = match registry {
                Registry::Class => REGCLASS,
                Registry::Type => "to_regtype",
                Registry::Namespace | Registry::Role => {
                    return Err(SqlError::unsupported("a computed regnamespace or regrole"));
                }
            };
            build::replace(inner, |inner| build::call(function, vec![inner]));
        }
        Ok(registry.kind())
    }

    /// `x::regclass` where it is shown: a number becomes a name.
    fn registry_name(&mut self, inner: &mut Expr, registry: Registry, scope: &Scope) -> Rewrite {
        if build::string_literal(inner).is_some() || build::parameter_number(inner).is_some() {
            return self.registry_number(inner, registry, scope).map(Some);
        }
        let kind = self.expr(inner, scope)?;
        if kind.is_some_and(Kind::is_text) {
            let function = if registry == Registry::Class { REGCLASS } else { "to_regtype" };
            build::replace(inner, |inner| build::call(function, vec![inner]));
            return Ok(Some(registry.kind()));
        }
        let function = match registry {
            Registry::Class => REGCLASS_NAME,
            Registry::Type => REGTYPE_NAME,
            Registry::Namespace => NAMESPACE_NAME,
            Registry::Role => "pg_get_userbyid",
        };
        build::replace(inner, |inner| build::call(function, vec![inner]));
        Ok(Some(Kind::of(PgType::Text)))
    }

    fn named_oid(&self, text: &str, registry: Registry) -> Result<u32, SqlError> {
        if let Ok(oid) = text.trim().parse() {
            return Ok(oid);
        }
        let (found, what) = match registry {
            Registry::Class => (catalog::relation_oid(self.relations, text), "relation"),
            Registry::Type => (catalog::type_oid(text), "type"),
            Registry::Namespace => (catalog::namespace_oid(text), "schema"),
            Registry::Role => ((text == self.relations.user()).then_some(catalog::OWNER_OID), "role"),
        };
        let kind = if registry == Registry::Class {
            SqlErrorKind::UndefinedTable
        } else {
            SqlErrorKind::UndefinedObject
        };
        found.ok_or_else(|| SqlError::new(kind, format!("{what} \"{text}\" does not exist")))
    }
}

/// A literal in a place that takes an interval.
pub(super) fn interval_literal(expr: &mut Expr, unit: Option<&str>) -> Result<(), SqlError> {
    if let Some(text) = build::string_literal(expr) {
        let parsed = crate::time::interval::parse(text, unit)?;
        *expr = interval(&parsed.to_planner_text());
    }
    Ok(())
}

/// An interval from the text that the planner reads.
pub(super) fn interval(text: &str) -> Expr {
    Expr::Interval(datafusion::sql::sqlparser::ast::Interval {
        value: Box::new(build::string(text)),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    })
}

/// Whether a type is `numeric` without a precision, as which floats stay what they are.
fn is_any_numeric(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Numeric(ExactNumberInfo::None)
            | DataType::Decimal(ExactNumberInfo::None)
            | DataType::Dec(ExactNumberInfo::None)
    )
}

/// `varchar(n)` cuts, `char(n)` also fills up.
fn shortened(expr: Expr, data_type: &DataType) -> Expr {
    let (length, function) = match data_type {
        DataType::Varchar(length) | DataType::CharVarying(length) | DataType::CharacterVarying(length) => {
            (length, "left")
        }
        DataType::Char(length) | DataType::Character(length) => (length, "rpad"),
        _ => return expr,
    };
    match length {
        Some(CharacterLength::IntegerLength { length, .. }) => {
            build::call(function, vec![expr, build::number(length)])
        }
        _ => expr,
    }
}

/// Without a precision `numeric` holds anything: integers stay whole, and floats stay floats, which
/// show the same digits.
fn numeric(inner: Expr, kind: Option<Kind>, data_type: &DataType) -> Expr {
    let (DataType::Numeric(info) | DataType::Decimal(info) | DataType::Dec(info)) = data_type else {
        return inner;
    };
    if *info != ExactNumberInfo::None {
        return build::cast(inner, DataType::Decimal(*info));
    }
    match kind {
        Some(kind) if kind.is_fractional() => inner,
        Some(kind) if kind.is_integer() => {
            build::cast(inner, DataType::Decimal(ExactNumberInfo::PrecisionAndScale(20, 0)))
        }
        _ => build::cast(inner, DataType::Decimal(ExactNumberInfo::PrecisionAndScale(38, 10))),
    }
}

fn array_cast(
    inner: Expr,
    kind: Option<Kind>,
    target: PgType,
    data_type: DataType,
) -> Result<Expr, SqlError> {
    if build::parameter_number(&inner).is_some() || kind.is_none_or(|kind| kind.pg_type.element().is_some()) {
        let element = target.element();
        return Ok(match element {
            Some(PgType::Oid | PgType::Int8) => build::arrow_cast(inner, "List(Int64)"),
            Some(PgType::Int2) => build::arrow_cast(inner, "List(Int16)"),
            Some(PgType::Int4) => build::arrow_cast(inner, "List(Int32)"),
            Some(PgType::Float8) => build::arrow_cast(inner, "List(Float64)"),
            Some(PgType::Text | PgType::Varchar | PgType::Name) => build::arrow_cast(inner, "List(Utf8)"),
            _ => return Err(SqlError::unsupported(format!("a cast to {data_type}"))),
        });
    }
    Err(SqlError::unsupported(format!("a cast to {data_type}")))
}

/// The type as the planner spells it.
fn plain_type(pg_type: PgType) -> DataType {
    match pg_type {
        PgType::Bool => DataType::Boolean,
        PgType::Int2 => DataType::SmallInt(None),
        PgType::Int4 => DataType::Int(None),
        PgType::Int8 => DataType::BigInt(None),
        PgType::Float4 => DataType::Real,
        PgType::Date => DataType::Date,
        PgType::Time => DataType::Time(None, TimezoneInfo::None),
        PgType::Interval => DataType::Interval { fields: None, precision: None },
        PgType::Float8 => DataType::DoublePrecision,
        _ => DataType::Text,
    }
}
