//! Names: how PostgreSQL folds them, and how it names an output column that has no alias.
//!
//! Source: `FigureColname` in PostgreSQL's parse_target.c.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, DataType, Expr, Ident, ObjectNamePart, Query, SelectItem, SetExpr, Subscript, TrimWhereField,
};

use super::kind::pg_type_of;
use crate::pg_type::PgType;

/// What a column is called when nothing names it.
pub(super) const UNNAMED: &str = "?column?";

/// A name after folding: unless it is quoted, its ASCII letters are in lower case, as PostgreSQL has
/// it in every encoding of several bytes.
pub(super) fn fold(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_ascii_lowercase(),
    }
}

/// Whether two names are the same but for case.
pub(super) fn same_without_case(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

pub(super) fn part_text(part: &ObjectNamePart) -> String {
    match part {
        ObjectNamePart::Identifier(ident) => fold(ident),
        ObjectNamePart::Function(function) => fold(&function.name),
    }
}

/// How strongly an expression suggests its name: a cast's type gives way to a column's name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    None,
    Weak(String),
    Strong(String),
}

impl Name {
    fn strong(name: &str) -> Self {
        Self::Strong(name.to_owned())
    }
}

/// The name that PostgreSQL gives an output column, from the expression as it was written.
pub(super) fn output_name(expr: &Expr) -> String {
    match suggest(expr) {
        Name::None => UNNAMED.to_owned(),
        Name::Weak(name) | Name::Strong(name) => name,
    }
}

fn suggest(expr: &Expr) -> Name {
    match expr {
        Expr::Identifier(ident) => Name::Strong(fold(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().map_or(Name::None, |last| Name::Strong(fold(last))),
        Expr::CompoundFieldAccess { root, access_chain } => field_access(root, access_chain),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => suggest(inner),
        Expr::Function(function) => {
            function.name.0.last().map_or(Name::None, |part| Name::Strong(part_text(part)))
        }
        Expr::Cast { expr, data_type, .. } => match suggest(expr) {
            Name::Strong(name) => Name::Strong(name),
            _ => Name::Weak(type_name(data_type)),
        },
        Expr::TypedString(typed) => Name::Weak(type_name(&typed.data_type)),
        Expr::Interval(_) => Name::Weak("interval".to_owned()),
        Expr::Case { else_result, .. } => match else_result.as_deref().map(suggest) {
            Some(Name::Strong(name)) => Name::Strong(name),
            _ => Name::Weak("case".to_owned()),
        },
        Expr::Subquery(query) => subquery_name(query),
        Expr::Array(_) => Name::strong("array"),
        Expr::Tuple(_) => Name::strong("row"),
        other => keyword_name(other).map_or(Name::None, Name::strong),
    }
}

/// Functions that have a syntax of their own.
fn keyword_name(expr: &Expr) -> Option<&'static str> {
    Some(match expr {
        Expr::Exists { negated: false, .. } => "exists",
        Expr::Extract { .. } => "extract",
        Expr::Ceil { .. } => "ceil",
        Expr::Floor { .. } => "floor",
        Expr::Position { .. } => "position",
        Expr::Substring { shorthand: true, .. } => "substr",
        Expr::Substring { .. } => "substring",
        Expr::Overlay { .. } => "overlay",
        Expr::AtTimeZone { .. } => "timezone",
        Expr::Trim { trim_where: Some(TrimWhereField::Leading), .. } => "ltrim",
        Expr::Trim { trim_where: Some(TrimWhereField::Trailing), .. } => "rtrim",
        Expr::Trim { .. } => "btrim",
        _ => return None,
    })
}

/// `(f(x)).n` is called n, `a[1]` as the array.
fn field_access(root: &Expr, chain: &[AccessExpr]) -> Name {
    chain
        .iter()
        .rev()
        .find_map(|access| match access {
            AccessExpr::Dot(Expr::Identifier(ident)) => Some(Name::Strong(fold(ident))),
            AccessExpr::Dot(_) | AccessExpr::Subscript(Subscript::Index { .. } | Subscript::Slice { .. }) => {
                None
            }
        })
        .unwrap_or_else(|| suggest(root))
}

/// A scalar subquery has the name of its column; an array of one is called array.
fn subquery_name(query: &Query) -> Name {
    let mut body = query.body.as_ref();
    while let SetExpr::SetOperation { left, .. } = body {
        body = left;
    }
    let SetExpr::Select(select) = body else { return Name::None };
    match select.projection.first() {
        Some(SelectItem::ExprWithAlias { alias, .. }) => Name::Strong(fold(alias)),
        Some(SelectItem::UnnamedExpr(expr)) => Name::Strong(output_name(expr)),
        _ => Name::None,
    }
}

fn type_name(data_type: &DataType) -> String {
    if let DataType::Custom(name, _) = data_type {
        return name.0.last().map(part_text).unwrap_or_default();
    }
    let pg_type = pg_type_of(data_type).map(|pg_type| pg_type.element().unwrap_or(pg_type));
    pg_type.map_or_else(|_| data_type.to_string().to_lowercase(), |found: PgType| found.name().to_owned())
}
