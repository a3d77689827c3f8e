//! What a name can mean at one place: the relations of a FROM clause and those of the queries
//! around it.
//!
//! The rule for names: exact after folding; else, unless it was quoted, the one that matches
//! without case; else an error that lists the candidates with their quotes. Never another one in
//! silence.

use datafusion::sql::sqlparser::ast::{Expr, Ident};

use super::build;
use super::kind::Kind;
use super::names::{fold, same_without_case};
use crate::error::{SqlError, SqlErrorKind};
use crate::parse::position_of;

/// The relations of one FROM clause.
#[derive(Debug, Default)]
pub(super) struct Scope<'a> {
    pub(super) outer: Option<&'a Scope<'a>>,
    pub(super) relations: Vec<ScopeRelation>,
    /// Columns that JOIN ... USING made one.
    pub(super) merged: Vec<MergedColumn>,
    /// Whether no row can come out, because a catalog that is always empty is joined.
    pub(super) always_empty: bool,
}

/// One relation under the name that the query calls it by.
#[derive(Debug, Clone)]
pub(super) struct ScopeRelation {
    pub(super) binding: String,
    /// Unless it has an alias.
    pub(super) schema: Option<String>,
    pub(super) columns: Vec<ScopeColumn>,
    /// Whether it is a table of the system catalogs.
    pub(super) is_catalog: bool,
}

/// One column of a relation.
#[derive(Debug, Clone)]
pub(super) struct ScopeColumn {
    pub(super) name: String,
    pub(super) internal: String,
    pub(super) kind: Option<Kind>,
    pub(super) in_star: bool,
    /// Whether a merged column stands for it where it is not qualified.
    pub(super) is_merged: bool,
}

/// A column that JOIN ... USING made one.
#[derive(Debug, Clone)]
pub(super) struct MergedColumn {
    pub(super) name: String,
    pub(super) expr: Expr,
    pub(super) kind: Option<Kind>,
}

/// What a column name stands for.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) expr: Expr,
    pub(super) kind: Option<Kind>,
    /// How many queries out it was found; 0 = in the query itself.
    pub(super) depth: usize,
}

/// How names are compared.
#[derive(Clone, Copy, PartialEq)]
enum Match {
    Exact,
    WithoutCase,
}

impl Match {
    fn fits(self, wanted: &str, name: &str) -> bool {
        match self {
            Self::Exact => wanted == name,
            Self::WithoutCase => same_without_case(wanted, name),
        }
    }
}

impl ScopeRelation {
    fn found(&self, column: &ScopeColumn, depth: usize) -> Found {
        Found {
            name: column.name.clone(),
            expr: build::column(&self.binding, &column.internal),
            kind: column.kind,
            depth,
        }
    }
}

impl<'a> Scope<'a> {
    pub(super) fn inside(outer: Option<&'a Scope<'a>>) -> Self {
        Self { outer, ..Self::default() }
    }

    fn levels(&self) -> impl Iterator<Item = (usize, &Scope<'a>)> {
        std::iter::successors(Some(self), |scope| scope.outer).enumerate()
    }

    /// The column that a bare name stands for, or `None` when there is none.
    ///
    /// # Errors
    /// When several columns fit.
    pub(super) fn column(&self, ident: &Ident) -> Result<Option<Found>, SqlError> {
        let wanted = fold(ident);
        for rule in rules(ident) {
            for (depth, scope) in self.levels() {
                let found = scope.unqualified(&wanted, *rule, depth);
                if let Some(found) = only(found, ident, *rule)? {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    fn unqualified(&self, wanted: &str, rule: Match, depth: usize) -> Vec<Found> {
        let merged = self.merged.iter().filter(|column| rule.fits(wanted, &column.name)).map(|column| {
            Found { name: column.name.clone(), expr: column.expr.clone(), kind: column.kind, depth }
        });
        let plain = self.relations.iter().flat_map(|relation| {
            relation
                .columns
                .iter()
                .filter(|column| !column.is_merged && rule.fits(wanted, &column.name))
                .map(move |column| relation.found(column, depth))
        });
        merged.chain(plain).collect()
    }

    /// The column that `relation.name` or `schema.relation.name` stands for.
    ///
    /// # Errors
    /// When the relation or the column does not exist, or several fit.
    pub(super) fn qualified(&self, qualifier: &[Ident], ident: &Ident) -> Result<Found, SqlError> {
        let (relation, depth) = self.relation(qualifier)?;
        let wanted = fold(ident);
        for rule in rules(ident) {
            let found = relation
                .columns
                .iter()
                .filter(|column| rule.fits(&wanted, &column.name))
                .map(|column| relation.found(column, depth))
                .collect();
            if let Some(found) = only(found, ident, *rule)? {
                return Ok(found);
            }
        }
        let candidates = similar(&wanted, relation.columns.iter().map(|column| column.name.as_str()));
        let message = format!("column {}.{wanted} does not exist", relation.binding);
        Err(undefined(message, candidates).at(position_of(ident.span.start)))
    }

    /// The relation that a qualifier names.
    ///
    /// # Errors
    /// When there is none, or several fit without case.
    pub(super) fn relation(&self, qualifier: &[Ident]) -> Result<(&ScopeRelation, usize), SqlError> {
        let Some((name, schema)) = qualifier.split_last() else {
            return Err(SqlError::new(SqlErrorKind::Syntax, "a name is empty"));
        };
        let wanted = fold(name);
        let schema = schema.last().map(fold);
        for rule in rules(name) {
            for (depth, scope) in self.levels() {
                let fitting: Vec<&ScopeRelation> = scope
                    .relations
                    .iter()
                    .filter(|relation| rule.fits(&wanted, &relation.binding))
                    .filter(|relation| schema.is_none() || schema == relation.schema)
                    .collect();
                match fitting.as_slice() {
                    [] => {}
                    [relation] => return Ok((relation, depth)),
                    several => {
                        let names = several.iter().map(|relation| relation.binding.as_str());
                        return Err(ambiguous_table(&wanted, names).at(position_of(name.span.start)));
                    }
                }
            }
        }
        let message = format!("missing FROM-clause entry for table \"{wanted}\"");
        Err(SqlError::new(SqlErrorKind::UndefinedTable, message).at(position_of(name.span.start)))
    }

    /// The error for a bare name that no column fits.
    pub(super) fn unknown_column(&self, ident: &Ident) -> SqlError {
        let wanted = fold(ident);
        let names = self
            .levels()
            .flat_map(|(_, scope)| scope.relations.iter())
            .flat_map(|relation| relation.columns.iter().map(|column| column.name.as_str()));
        let candidates = similar(&wanted, names);
        undefined(format!("column \"{wanted}\" does not exist"), candidates).at(position_of(ident.span.start))
    }
}

/// A quoted name is exact, any other may differ in case.
fn rules(ident: &Ident) -> &'static [Match] {
    match ident.quote_style {
        Some(_) => &[Match::Exact],
        None => &[Match::Exact, Match::WithoutCase],
    }
}

fn only(mut found: Vec<Found>, ident: &Ident, rule: Match) -> Result<Option<Found>, SqlError> {
    if found.len() <= 1 {
        return Ok(found.pop());
    }
    let wanted = fold(ident);
    let message = format!("column reference \"{wanted}\" is ambiguous");
    let candidates = found.iter().map(|found| match rule {
        Match::Exact => found.expr.to_string(),
        Match::WithoutCase => quoted(&found.name),
    });
    let hint = format!("it could be {}", candidates.collect::<Vec<_>>().join(" or "));
    Err(SqlError::new(SqlErrorKind::AmbiguousColumn, message)
        .with_hint(hint)
        .at(position_of(ident.span.start)))
}

/// Names that differ from the wanted one in case, or else begin or contain it.
fn similar<'n>(wanted: &str, names: impl Iterator<Item = &'n str>) -> Vec<String> {
    const SHOWN_MAX: usize = 5;
    let lower = wanted.to_lowercase();
    let mut close: Vec<(usize, String)> = names
        .filter_map(|name| {
            let other = name.to_lowercase();
            let near = other == lower
                || (lower.len() > 2 && (other.contains(&lower) || lower.contains(&other) && other.len() > 2));
            near.then(|| (other.len().abs_diff(lower.len()), quoted(name)))
        })
        .collect();
    close.sort();
    close.dedup();
    close.into_iter().take(SHOWN_MAX).map(|(_, name)| name).collect()
}

fn undefined(message: String, candidates: Vec<String>) -> SqlError {
    let error = SqlError::new(SqlErrorKind::UndefinedColumn, message);
    if candidates.is_empty() {
        error
    } else {
        error.with_hint(format!("perhaps {}", candidates.join(" or ")))
    }
}

/// The error when several tables differ from a name in case only.
pub(super) fn ambiguous_table<'n>(wanted: &str, names: impl Iterator<Item = &'n str>) -> SqlError {
    let message = format!("table reference \"{wanted}\" is ambiguous");
    let candidates: Vec<String> = names.map(quoted).collect();
    SqlError::new(SqlErrorKind::AmbiguousTable, message)
        .with_hint(format!("it could be {}", candidates.join(" or ")))
}

/// A name as it must be written to be exact.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
