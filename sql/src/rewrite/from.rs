//! FROM: tables and subqueries, and what their names mean.

use datafusion::sql::sqlparser::ast::{
    Ident, TableAlias, TableAliasColumnDef, TableFactor, TableFunctionArgs, TableWithJoins,
};

use super::kind::Kind;
use super::names::fold;
use super::query::renamed;
use super::scope::{Scope, ScopeColumn, ScopeRelation, ambiguous_table, quoted};
use super::select::idents;
use super::table_function::plain_arguments;
use super::{Output, Rewriter, build};
use crate::catalog::{self, Definition};
use crate::error::{SqlError, SqlErrorKind};
use crate::parse::position_of;
use crate::relations::{Relation, RelationKind};

/// A table that a name was resolved to.
enum Table {
    Common(Vec<Output>),
    Catalog(&'static Definition),
    Relation(Relation),
}

impl Rewriter<'_> {
    pub(super) fn from<'s>(
        &mut self,
        from: &mut [TableWithJoins],
        outer: Option<&'s Scope<'s>>,
    ) -> Result<Scope<'s>, SqlError> {
        let mut scope = Scope::inside(outer);
        for item in from {
            let empty = self.table_with_joins(item, &mut scope)?;
            scope.always_empty |= empty;
        }
        Ok(scope)
    }

    /// Adds what an item of FROM joins, and answers whether it is always empty.
    fn table_with_joins(&mut self, item: &mut TableWithJoins, scope: &mut Scope) -> Result<bool, SqlError> {
        let first = scope.relations.len();
        let mut empty = self.table_factor(&mut item.relation, scope)?;
        for join in &mut item.joins {
            empty = self.join(join, first, empty, scope)?;
        }
        Ok(empty)
    }

    pub(super) fn table_factor(
        &mut self,
        factor: &mut TableFactor,
        scope: &mut Scope,
    ) -> Result<bool, SqlError> {
        as_function(factor)?;
        match factor {
            TableFactor::Table { .. } => self.table(factor, scope),
            TableFactor::Derived { lateral, subquery, alias, sample: None } => {
                let outer = if *lateral { Some(&*scope) } else { scope.outer };
                let outputs = self.query(subquery, outer)?;
                let empty = self.query_is_empty;
                let relation = derived(alias, outputs)?;
                push(scope, relation)?;
                Ok(empty)
            }
            TableFactor::Function { .. } => self.table_function(factor, scope),
            TableFactor::UNNEST {
                alias,
                array_exprs,
                with_offset: false,
                with_ordinality: false,
                with_offset_alias: None,
            } => self.unnest(alias, array_exprs, scope),
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                self.table_with_joins(table_with_joins, scope)
            }
            TableFactor::NestedJoin { .. } => Err(SqlError::unsupported("an alias for a join")),
            other => Err(SqlError::unsupported(format!("{other} in FROM"))),
        }
    }

    pub(super) fn table(&mut self, factor: &mut TableFactor, scope: &mut Scope) -> Result<bool, SqlError> {
        let TableFactor::Table { name, alias, .. } = factor else {
            return Err(SqlError::unsupported("this table"));
        };
        let parts = idents(name)?;
        let position = parts.first().and_then(|part| position_of(part.span.start));
        let table = self.resolve_table(&parts).map_err(|error| error.at(position))?;
        let (schema, own_name, mut columns, empty) = match table {
            Table::Common(columns) => {
                let own_name = parts.last().map(fold).unwrap_or_default();
                *name = build::object_name(&[&own_name]);
                (None, own_name, scope_columns(columns), false)
            }
            Table::Catalog(definition) => {
                *name = build::object_name(&[definition.schema, definition.name]);
                self.catalog_tables.insert((definition.schema, definition.name));
                let columns = catalog_columns(definition);
                (
                    Some(definition.schema.to_owned()),
                    definition.name.to_owned(),
                    columns,
                    definition.is_empty(),
                )
            }
            Table::Relation(relation) => {
                *name = build::object_name(&[&relation.schema, &relation.name]);
                let columns = relation_columns(&relation);
                (Some(relation.schema), relation.name, columns, false)
            }
        };
        let table_name = own_name.clone();
        let binding = match alias {
            Some(alias) => {
                rename_columns(&mut columns, alias)?;
                let binding = fold(&alias.name);
                alias.name = build::ident(&binding);
                binding
            }
            None => own_name,
        };
        let is_catalog =
            schema.as_deref().is_some_and(|schema| catalog::definition(schema, &table_name).is_some());
        let schema = if alias.is_some() { None } else { schema };
        push(scope, ScopeRelation { binding, schema, columns, is_catalog })?;
        Ok(empty)
    }

    fn resolve_table(&self, parts: &[Ident]) -> Result<Table, SqlError> {
        let (name, schema) = match parts {
            [name] => (name, None),
            [schema, name] => (name, Some(fold(schema))),
            [database, schema, name] => {
                let database = fold(database);
                if database != self.relations.database() && database != "strandline" {
                    return Err(SqlError::unsupported(format!(
                        "a reference to another database, \"{database}\","
                    )));
                }
                (name, Some(fold(schema)))
            }
            _ => return Err(SqlError::new(SqlErrorKind::Syntax, "improper relation name: too many dots")),
        };
        let wanted = fold(name);
        if schema.is_none()
            && let Some(common) = self.common_tables.iter().rev().find(|common| common.name == wanted)
        {
            return Ok(Table::Common(common.columns.clone()));
        }
        // pg_catalog is searched first when no schema is named, as in PostgreSQL.
        if let Some(definition) = catalog::definition(schema.as_deref().unwrap_or("pg_catalog"), &wanted) {
            return Ok(Table::Catalog(definition));
        }
        if let Some(relation) = self.relations.relation(schema.as_deref(), &wanted) {
            return Ok(Table::Relation(relation));
        }
        self.resolve_without_case(schema.as_deref(), name)
    }

    fn resolve_without_case(&self, schema: Option<&str>, name: &Ident) -> Result<Table, SqlError> {
        let wanted = fold(name);
        let lower = wanted.to_lowercase();
        let all = self.relations.relations();
        let fits = |relation: &&Relation| {
            relation.schema == schema.unwrap_or("public") && relation.name.to_lowercase() == lower
        };
        let fitting: Vec<&Relation> = all.iter().filter(fits).collect();
        match fitting.as_slice() {
            [relation] if name.quote_style.is_none() => return Ok(Table::Relation((*relation).clone())),
            [] => {}
            several if name.quote_style.is_none() => {
                return Err(ambiguous_table(&wanted, several.iter().map(|relation| relation.name.as_str())));
            }
            _ => {}
        }
        let shown = schema.map_or_else(|| wanted.clone(), |schema| format!("{schema}.{wanted}"));
        let error =
            SqlError::new(SqlErrorKind::UndefinedTable, format!("relation \"{shown}\" does not exist"));
        let candidates = candidates(&all, &lower);
        if candidates.is_empty() {
            return Err(error);
        }
        Err(error.with_hint(format!("perhaps {}", candidates.join(" or "))))
    }
}

/// Brings the two ways in which the grammar writes a function in FROM into one, and refuses what a
/// table can have beside its name.
fn as_function(factor: &mut TableFactor) -> Result<(), SqlError> {
    let TableFactor::Table {
        name,
        alias,
        args,
        with_hints,
        version,
        with_ordinality,
        partitions,
        json_path,
        sample,
        index_hints,
    } = factor
    else {
        return match factor {
            TableFactor::Derived { sample: Some(_), .. } => Err(SqlError::unsupported("TABLESAMPLE")),
            _ => Ok(()),
        };
    };
    if sample.is_some() {
        return Err(SqlError::unsupported("TABLESAMPLE"));
    }
    if !with_hints.is_empty() || !index_hints.is_empty() {
        return Err(SqlError::unsupported("a table hint"));
    }
    if version.is_some() || !partitions.is_empty() || json_path.is_some() {
        return Err(SqlError::unsupported("a version, partition or path of a table"));
    }
    if let Some(TableFunctionArgs { args: arguments, .. }) = args.take() {
        let (name, alias) = (name.clone(), alias.take());
        let with_ordinality = *with_ordinality;
        let is_unnest = name.0.last().is_some_and(|part| super::names::part_text(part) == "unnest");
        *factor = if is_unnest && !with_ordinality {
            TableFactor::UNNEST {
                alias,
                array_exprs: plain_arguments(&arguments)?,
                with_offset: false,
                with_offset_alias: None,
                with_ordinality,
            }
        } else {
            TableFactor::Function { lateral: false, name, args: arguments, with_ordinality, alias }
        };
    }
    Ok(())
}

pub(super) fn push(scope: &mut Scope, relation: ScopeRelation) -> Result<(), SqlError> {
    if scope.relations.iter().any(|other| other.binding == relation.binding) {
        let message = format!("table name \"{}\" specified more than once", relation.binding);
        return Err(
            SqlError::new(SqlErrorKind::DuplicateAlias, message).with_hint("give one of them an alias")
        );
    }
    scope.relations.push(relation);
    Ok(())
}

pub(super) fn scope_columns(outputs: Vec<Output>) -> Vec<ScopeColumn> {
    outputs
        .into_iter()
        .map(|output| ScopeColumn {
            name: output.name,
            internal: output.internal,
            kind: output.kind,
            in_star: true,
            is_merged: false,
        })
        .collect()
}

fn catalog_columns(definition: &Definition) -> Vec<ScopeColumn> {
    let column = |(name, pg_type): &(&str, crate::PgType)| ScopeColumn {
        name: (*name).to_owned(),
        internal: (*name).to_owned(),
        kind: Some(Kind::of(*pg_type)),
        in_star: true,
        is_merged: false,
    };
    definition.columns.iter().map(column).collect()
}

fn relation_columns(relation: &Relation) -> Vec<ScopeColumn> {
    relation
        .columns
        .iter()
        .map(|column| ScopeColumn {
            name: column.name.clone(),
            internal: column.name.clone(),
            kind: Some(Kind::of_column(column.pg_type, &column.arrow_type)),
            in_star: column.in_star || relation.kind == RelationKind::System,
            is_merged: false,
        })
        .collect()
}

/// Gives columns the names of an alias; the planner wants a name for every column or for none.
fn rename_columns(columns: &mut [ScopeColumn], alias: &mut TableAlias) -> Result<(), SqlError> {
    if alias.at.is_some() {
        return Err(SqlError::unsupported("AT after an alias"));
    }
    if alias.columns.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = alias.columns.iter().map(|column| fold(&column.name)).collect();
    let outputs = columns
        .iter()
        .map(|column| Output {
            name: column.name.clone(),
            internal: column.internal.clone(),
            kind: column.kind,
        })
        .collect();
    let outputs = renamed(outputs, &names, &fold(&alias.name))?;
    alias.columns = column_aliases(&outputs);
    for (column, output) in columns.iter_mut().zip(outputs) {
        (column.name, column.internal) = (output.name, output.internal);
    }
    Ok(())
}

/// The list of column names for the planner.
pub(super) fn column_aliases(columns: &[Output]) -> Vec<TableAliasColumnDef> {
    columns
        .iter()
        .map(|column| TableAliasColumnDef { name: build::ident(&column.internal), data_type: None })
        .collect()
}

/// A subquery in FROM; PostgreSQL lets it have no alias, the planner needs one to qualify with.
fn derived(alias: &mut Option<TableAlias>, outputs: Vec<Output>) -> Result<ScopeRelation, SqlError> {
    let mut columns = scope_columns(outputs);
    let binding = match alias {
        Some(alias) => {
            rename_columns(&mut columns, alias)?;
            let binding = fold(&alias.name);
            alias.name = build::ident(&binding);
            binding
        }
        None => {
            *alias = Some(table_alias("subquery", Vec::new()));
            "subquery".to_owned()
        }
    };
    Ok(ScopeRelation { binding, schema: None, columns, is_catalog: false })
}

pub(super) fn table_alias(name: &str, columns: Vec<TableAliasColumnDef>) -> TableAlias {
    TableAlias { explicit: true, name: build::ident(name), columns, at: None }
}

/// Relations whose names are close to the wanted one, as they must be written.
fn candidates(all: &[Relation], lower: &str) -> Vec<String> {
    const SHOWN_MAX: usize = 5;
    let mut close: Vec<(usize, String)> = all
        .iter()
        .filter_map(|relation| {
            let other = relation.name.to_lowercase();
            let near = other == lower || (lower.len() > 2 && other.contains(lower));
            let shown = match relation.schema.as_str() {
                "public" => quoted(&relation.name),
                schema => format!("{schema}.{}", quoted(&relation.name)),
            };
            near.then(|| (other.len().abs_diff(lower.len()), shown))
        })
        .collect();
    close.sort();
    close.into_iter().take(SHOWN_MAX).map(|(_, name)| name).collect()
}
