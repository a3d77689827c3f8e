//! LIKE and ILIKE, over text and over bytes.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, ValueWithSpan};

use super::any::{array_elements, bounded, not_repeated};
use super::expr::Rewrite;
use super::kind::Kind;
use super::operator::is_bytea;
use super::scope::Scope;
use super::{Rewriter, build, category};
use crate::error::SqlError;
use crate::functions::{BYTEA_LIKE, LIKE_PATTERN};
use crate::pg_type::PgType;

impl Rewriter<'_> {
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
        let pattern_kind = self.expr(pattern, scope)?;
        if is_bytea(value_kind) {
            return self.like_bytes(expr, value_kind, pattern_kind);
        }
        self.as_text(value, value_kind);
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

    /// LIKE over bytes.
    fn like_bytes(
        &mut self,
        expr: &mut Expr,
        value_kind: Option<Kind>,
        pattern_kind: Option<Kind>,
    ) -> Rewrite {
        let operator = if matches!(expr, Expr::ILike { .. }) { "~~*" } else { "~~" };
        let (Expr::Like { expr: value, pattern, negated, escape_char, .. }
        | Expr::ILike { expr: value, pattern, negated, escape_char, .. }) = &mut *expr
        else {
            return Ok(None);
        };
        let is_bytes = pattern_kind.is_none_or(Kind::is_bytea);
        if operator == "~~*" || !is_bytes {
            let (left, right) = (category::type_name(value_kind), category::type_name(pattern_kind));
            return Err(category::no_operator(left, operator, right));
        }
        if escape_char.is_some() {
            return Err(SqlError::unsupported("an ESCAPE of a bytea"));
        }
        self.adapt(pattern, pattern_kind, value_kind)?;
        let take = |side: &mut Expr| std::mem::replace(side, build::null());
        let like = build::call(BYTEA_LIKE, vec![take(value), take(pattern)]);
        *expr = if *negated { build::not(like) } else { like };
        Ok(Some(Kind::of(PgType::Bool)))
    }
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
