//! Expressions: one arm per form, each of which is rewritten, passed on as the planner knows it,
//! or refused.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, CaseWhen, CeilFloorKind, DataType, ExactNumberInfo, Expr, Ident, Interval, Subscript, Value,
};

use super::kind::Kind;
use super::scope::{Found, Scope};
use super::{Rewriter, build, category, number};
use crate::error::{SqlError, SqlErrorKind};
use crate::functions::BYTEA;
use crate::parse::position_of;
use crate::pg_type::PgType;

/// What is known about an expression once it is rewritten.
pub(super) type Rewrite = Result<Option<Kind>, SqlError>;

const WHOLE_NUMBER: DataType = DataType::Decimal(ExactNumberInfo::PrecisionAndScale(20, 0));
const BOOL: Option<Kind> = Some(Kind::of(PgType::Bool));
const TEXT: Option<Kind> = Some(Kind::of(PgType::Text));

impl Rewriter<'_> {
    /// Rewrites an expression in place and answers what is known about its type.
    pub(super) fn expr(&mut self, expr: &mut Expr, scope: &Scope) -> Rewrite {
        match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => self.column(expr, scope),
            Expr::Value(_) => literal(expr),
            Expr::Nested(inner) => self.expr(inner, scope),
            Expr::BinaryOp { .. } => self.binary(expr, scope),
            Expr::UnaryOp { .. } => self.unary(expr, scope),
            Expr::Cast { .. } | Expr::TypedString(_) => self.cast(expr, scope),
            Expr::Function(_) => self.call(expr, scope),
            Expr::Case { .. } => self.case(expr, scope),
            Expr::InList { .. } | Expr::Between { .. } => self.range(expr, scope),
            Expr::Like { .. } | Expr::ILike { .. } => self.like(expr, scope),
            Expr::AnyOp { .. } | Expr::AllOp { .. } => self.any_or_all(expr, scope),
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => self.subquery(expr, scope),
            Expr::Interval(interval) => interval_literal(interval),
            _ => self.other(expr, scope),
        }
    }

    pub(super) fn exprs<'e>(
        &mut self,
        exprs: impl IntoIterator<Item = &'e mut Expr>,
        scope: &Scope,
    ) -> Result<(), SqlError> {
        exprs.into_iter().try_for_each(|expr| self.expr(expr, scope).map(|_| ()))
    }

    /// The forms that only pass on what is inside them.
    fn other(&mut self, expr: &mut Expr, scope: &Scope) -> Rewrite {
        match expr {
            Expr::IsTrue(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotFalse(inner)
            | Expr::IsNull(inner)
            | Expr::IsNotNull(inner)
            | Expr::IsUnknown(inner)
            | Expr::IsNotUnknown(inner) => self.expr(inner, scope).map(|_| BOOL),
            Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..) => self.distinct_from(expr, scope),
            Expr::Extract { .. } => self.extract(expr, scope),
            Expr::AtTimeZone { .. } => self.at_time_zone(expr, scope),
            Expr::Collate { .. } => self.collate(expr, scope),
            Expr::CompoundFieldAccess { .. } => self.field_access(expr, scope),
            Expr::Ceil { expr: inner, field } | Expr::Floor { expr: inner, field } => {
                if *field
                    != CeilFloorKind::DateTimeField(
                        datafusion::sql::sqlparser::ast::DateTimeField::NoDateTime,
                    )
                {
                    return Err(SqlError::unsupported("a field or scale of CEIL and FLOOR"));
                }
                self.expr(inner, scope)
            }
            Expr::Position { expr: inner, r#in } => {
                self.exprs([inner.as_mut(), r#in.as_mut()], scope)?;
                Ok(Some(Kind::of(PgType::Int4)))
            }
            Expr::Substring { expr: inner, substring_from, substring_for, .. } => {
                self.expr(inner, scope)?;
                self.exprs(substring_from.iter_mut().chain(substring_for).map(AsMut::as_mut), scope)?;
                Ok(TEXT)
            }
            Expr::Trim { expr: inner, trim_what, trim_characters, .. } => {
                self.expr(inner, scope)?;
                self.exprs(trim_what.iter_mut().map(AsMut::as_mut), scope)?;
                self.exprs(trim_characters.iter_mut().flatten(), scope)?;
                Ok(TEXT)
            }
            Expr::Overlay { expr: inner, overlay_what, overlay_from, overlay_for } => {
                self.exprs([inner.as_mut(), overlay_what.as_mut(), overlay_from.as_mut()], scope)?;
                self.exprs(overlay_for.iter_mut().map(AsMut::as_mut), scope)?;
                Ok(TEXT)
            }
            Expr::Array(array) => self.array(&mut array.elem, scope),
            Expr::Tuple(values) => self.exprs(values, scope).map(|()| None),
            Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets) => {
                self.exprs(sets.iter_mut().flatten(), scope).map(|()| None)
            }
            other => Err(SqlError::unsupported(format!("the expression {other}"))),
        }
    }

    fn array(&mut self, elements: &mut [Expr], scope: &Scope) -> Rewrite {
        let mut kind = None;
        for element in elements {
            let next = self.expr(element, scope)?;
            kind = kind.or(next);
        }
        Ok(kind.and_then(|kind: Kind| kind.pg_type.array()).map(Kind::of))
    }

    /// `(f(x))[1]`, and `t.list[1]`, whose name the grammar takes apart.
    fn field_access(&mut self, expr: &mut Expr, scope: &Scope) -> Rewrite {
        let Expr::CompoundFieldAccess { root, access_chain } = expr else { return Ok(None) };
        if let Expr::Identifier(first) = root.as_ref() {
            let mut parts = vec![first.clone()];
            while let Some(AccessExpr::Dot(Expr::Identifier(part))) = access_chain.first() {
                parts.push(part.clone());
                access_chain.remove(0);
            }
            if parts.len() > 1 {
                **root = Expr::CompoundIdentifier(parts);
            }
        }
        let kind = self.expr(root, scope)?;
        self.subscripts(access_chain, scope)?;
        Ok(kind.and_then(|kind| kind.pg_type.element()).map(Kind::of))
    }

    fn subscripts(&mut self, chain: &mut [AccessExpr], scope: &Scope) -> Result<(), SqlError> {
        for access in chain {
            match access {
                AccessExpr::Subscript(Subscript::Index { index }) => {
                    self.expr(index, scope)?;
                }
                AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride: None }) => {
                    self.exprs(lower_bound.iter_mut().chain(upper_bound), scope)?;
                }
                AccessExpr::Subscript(_) | AccessExpr::Dot(_) => {
                    return Err(SqlError::unsupported("a field of a composite value"));
                }
            }
        }
        Ok(())
    }

    fn column(&mut self, expr: &mut Expr, scope: &Scope) -> Rewrite {
        let found = match &*expr {
            Expr::Identifier(ident) => match scope.column(ident)? {
                Some(found) => found,
                None if is_call(ident) => {
                    *expr = build::call(&ident.value.to_lowercase(), Vec::new());
                    return Ok(TEXT);
                }
                None => return Err(no_column(ident, scope)),
            },
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [qualifier @ .., ident] if !qualifier.is_empty() && qualifier.len() <= 3 => {
                    scope.qualified(qualifier, ident)?
                }
                _ => return Err(SqlError::new(SqlErrorKind::Syntax, "improper qualified name")),
            },
            _ => return Ok(None),
        };
        let Found { expr: resolved, kind, depth, .. } = found;
        self.references += 1;
        self.outer_references += usize::from(depth > 0);
        *expr = resolved;
        Ok(kind)
    }

    fn case(&mut self, expr: &mut Expr, scope: &Scope) -> Rewrite {
        let Expr::Case { operand, conditions, else_result, .. } = expr else { return Ok(None) };
        let operand_kind = match operand {
            Some(operand) => Some(self.expr(operand, scope)?),
            None => None,
        };
        let mut kinds = Vec::with_capacity(conditions.len() + 1);
        let mut compared = Vec::with_capacity(conditions.len() + 1);
        for CaseWhen { condition, result } in conditions.iter_mut() {
            let mut condition_kind = self.expr(condition, scope)?;
            if let Some(operand_kind) = operand_kind {
                category::check(operand_kind, "=", condition_kind)?;
                condition_kind = self.adapt(condition, condition_kind, operand_kind)?;
            }
            compared.push((condition, condition_kind));
            kinds.push(self.expr(result, scope)?);
        }
        if let (Some(operand), Some(operand_kind)) = (operand.as_mut(), operand_kind) {
            compared.push((operand, operand_kind));
            number::meet(&mut compared);
        }
        if let Some(result) = else_result {
            kinds.push(self.expr(result, scope)?);
        }
        let results = conditions.iter_mut().map(|case| &mut case.result);
        self.choose(results.chain(else_result.iter_mut().map(AsMut::as_mut)), &kinds)
    }

    /// Brings values of which one is chosen to the type that they have in common.
    pub(super) fn choose<'e>(
        &mut self,
        values: impl IntoIterator<Item = &'e mut Expr>,
        kinds: &[Option<Kind>],
    ) -> Rewrite {
        let common = number::common(kinds);
        let mut adapted = Vec::with_capacity(kinds.len());
        for (value, kind) in values.into_iter().zip(kinds) {
            let kind = self.adapt(value, *kind, common)?;
            adapted.push((value, kind));
        }
        number::meet(&mut adapted);
        // Bytes of a topic have another form than constants.
        if common.is_some_and(Kind::is_bytea) && kinds.contains(&None) {
            for (value, _) in adapted.into_iter().filter(|(_, kind)| kind.is_some_and(Kind::is_bytea)) {
                build::replace(value, |value| build::call(BYTEA, vec![value]));
            }
        }
        Ok(common)
    }

    /// Only orders that compare bytes are known, which is how text is compared here.
    fn collate(&mut self, expr: &mut Expr, scope: &Scope) -> Rewrite {
        let Expr::Collate { expr: inner, collation } = expr else { return Ok(None) };
        let name = collation.0.last().map(super::names::part_text).unwrap_or_default();
        if !matches!(name.to_ascii_lowercase().as_str(), "default" | "c" | "posix" | "ucs_basic") {
            return Err(SqlError::unsupported(format!("the collation {collation}"))
                .with_hint("text is compared bytewise, as with COLLATE \"C\""));
        }
        let kind = self.expr(inner, scope)?;
        build::replace(expr, |collate| match collate {
            Expr::Collate { expr, .. } => *expr,
            other => other,
        });
        Ok(kind)
    }

    /// Remembers what a parameter stands for, unless a cast said it already.
    pub(super) fn note_parameter(&mut self, expr: &Expr, pg_type: PgType) {
        if let Some(number) = build::parameter_number(expr) {
            self.parameter_types.entry(number).or_insert(pg_type);
        }
    }
}

/// Functions that are called without parentheses and that the grammar takes for names.
fn is_call(ident: &Ident) -> bool {
    ident.quote_style.is_none()
        && matches!(ident.value.to_lowercase().as_str(), "current_schema" | "current_role")
}

fn no_column(ident: &Ident, scope: &Scope) -> SqlError {
    if scope.relation(std::slice::from_ref(ident)).is_ok() {
        return SqlError::unsupported(format!("the whole row {ident} as a value"))
            .with_hint(format!("write {ident}.* to select its columns"))
            .at(position_of(ident.span.start));
    }
    scope.unknown_column(ident)
}

/// Brings every form of string into the one that the planner knows.
fn literal(expr: &mut Expr) -> Rewrite {
    if let Some(text) = build::string_literal(expr) {
        let text = text.to_owned();
        *expr = build::string(text);
        return Ok(None);
    }
    let Expr::Value(value) = &*expr else { return Ok(None) };
    match &value.value {
        Value::Number(text, _) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            if text.parse::<i64>().is_ok() {
                return Ok(Some(Kind::of(PgType::Int8)));
            }
            if text.parse::<u64>().is_ok() {
                // The planner would make it an unsigned integer, which PostgreSQL does not have.
                *expr = build::cast(build::string(text.clone()), WHOLE_NUMBER);
            }
            Ok(Some(Kind::of(PgType::Numeric)))
        }
        Value::Number(text, _) => {
            if let Some(digits) = written_out(text) {
                // The planner would give it a negative scale, with which its casts go wrong.
                let precision = ExactNumberInfo::PrecisionAndScale(digits.len() as u64, 0);
                *expr = build::cast(build::string(digits), DataType::Decimal(precision));
            }
            Ok(Some(Kind::of(PgType::Numeric)))
        }
        Value::Boolean(_) => Ok(BOOL),
        Value::HexStringLiteral(_) | Value::Null | Value::Placeholder(_) => Ok(None),
        other => Err(SqlError::unsupported(format!("the literal {other}"))),
    }
}

/// The digits of a whole number that was written with an exponent, such as `1.5e3`; none if they are
/// more than a numeric holds.
fn written_out(text: &str) -> Option<String> {
    const DIGITS_MAX: usize = 76;
    let (mantissa, exponent) = text.split_once(['e', 'E'])?;
    let exponent: usize = exponent.strip_prefix('+').unwrap_or(exponent).parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let zeros = exponent.checked_sub(fraction.len())?;
    let fits = whole.len() + fraction.len() + zeros <= DIGITS_MAX;
    fits.then(|| format!("{whole}{fraction}{}", "0".repeat(zeros)))
}

/// `interval '90 min'`, `interval '3' day`.
fn interval_literal(interval: &mut Interval) -> Rewrite {
    if interval.last_field.is_some()
        || interval.leading_precision.is_some()
        || interval.fractional_seconds_precision.is_some()
    {
        return Err(SqlError::unsupported("a range or precision of INTERVAL"));
    }
    let Some(text) = build::string_literal(&interval.value) else {
        return Err(SqlError::unsupported("an INTERVAL of anything but a literal"));
    };
    let unit = interval.leading_field.take().map(|field| field.to_string().to_ascii_lowercase());
    let parsed = crate::time::interval::parse(text, unit.as_deref())?;
    *interval.value = build::string(parsed.to_planner_text());
    Ok(Some(Kind::of(PgType::Interval)))
}
