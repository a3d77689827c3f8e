//! Functions in FROM: the few that answer rows, and scalar ones as tables of one row.

use datafusion::arrow::datatypes::TimeUnit;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArg, FunctionArgExpr, ObjectName, TableAlias, TableFactor,
};

use super::from::{column_aliases, push, scope_columns, table_alias};
use super::kind::Kind;
use super::names::fold;
use super::query::renamed;
use super::scope::{Scope, ScopeRelation};
use super::{Output, Rewriter, build};
use crate::catalog;
use crate::error::SqlError;
use crate::functions::{TIMESTAMP, TIMESTAMPTZ};
use crate::pg_type::PgType;

impl Rewriter<'_> {
    pub(super) fn unnest(
        &mut self,
        alias: &mut Option<TableAlias>,
        lists: &mut [Expr],
        scope: &mut Scope,
    ) -> Result<bool, SqlError> {
        let inside = Scope::inside(scope.outer);
        self.exprs(lists.iter_mut(), &inside)?;
        // The lists in the catalogs are all NULL.
        let empty = lists.iter().all(|list| is_catalog_list(list, &inside));
        let outputs = lists.iter().map(|_| unnamed_column("unnest")).collect();
        let relation = function_relation(alias, "unnest", outputs)?;
        push(scope, relation)?;
        Ok(empty)
    }

    /// A function in FROM: one that the planner has, or a scalar one as a table of one row.
    pub(super) fn table_function(
        &mut self,
        factor: &mut TableFactor,
        scope: &mut Scope,
    ) -> Result<bool, SqlError> {
        let TableFactor::Function { lateral, name, args, alias, with_ordinality } = factor else {
            return Err(SqlError::unsupported("this function in FROM"));
        };
        if *with_ordinality {
            return Err(SqlError::unsupported("WITH ORDINALITY"));
        }
        let function = name.0.last().map(super::names::part_text).unwrap_or_default();
        if let Some(definition) = catalog::definition("pg_catalog", &function).filter(|_| args.is_empty()) {
            let alias = alias.take();
            *factor = plain_table(build::object_name(&[definition.schema, definition.name]), alias);
            return self.table(factor, scope);
        }
        let mut arguments = plain_arguments(args)?;
        if function != "generate_series" {
            return self.scalar_table(factor, &function, arguments, scope);
        }
        let outer = if *lateral { Some(&*scope) } else { scope.outer };
        let inside = Scope::inside(outer);
        if let Some(step) = arguments.get_mut(2) {
            super::cast::interval_literal(step, None)?;
        }
        let kinds = arguments
            .iter_mut()
            .map(|argument| self.expr(argument, &inside))
            .collect::<Result<Vec<_>, _>>()?;
        let time = kinds.iter().flatten().find(|kind| kind.is_instant() || kind.is_wall_clock()).copied();
        let row = match time {
            Some(time) => Some(self.times_of_series(&mut arguments, &kinds, time)?),
            None => {
                // The planner takes only bigint.
                for (argument, kind) in arguments.iter_mut().zip(kinds) {
                    if kind.is_some_and(Kind::is_integer) && !matches!(argument, Expr::Value(_)) {
                        build::replace(argument, |argument| build::cast(argument, DataType::BigInt(None)));
                    }
                }
                None
            }
        };
        *name = build::object_name(&[&function]);
        *args = arguments.into_iter().map(|expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))).collect();
        let output = Output { kind: row, ..unnamed_column(&function) };
        let relation = function_relation(alias, &function, vec![output])?;
        push(scope, relation)?;
        Ok(false)
    }

    /// A series of timestamps stays one, all other times are instants; the planner takes only
    /// nanoseconds.
    fn times_of_series(
        &mut self,
        arguments: &mut [Expr],
        kinds: &[Option<Kind>],
        time: Kind,
    ) -> Result<Kind, SqlError> {
        let (pg_type, function, arrow_type) = if time.pg_type == PgType::Timestamp {
            (PgType::Timestamp, TIMESTAMP, "Timestamp(Nanosecond, None)")
        } else {
            (PgType::Timestamptz, TIMESTAMPTZ, "Timestamp(Nanosecond, Some(\"UTC\"))")
        };
        for (argument, kind) in arguments.iter_mut().zip(kinds).take(2) {
            self.adapt(argument, *kind, Some(Kind::of(pg_type)))?;
            let zone = build::string(self.zone_name());
            build::replace(argument, |argument| {
                build::arrow_cast(build::call(function, vec![argument, zone]), arrow_type)
            });
        }
        Ok(Kind::of_time(pg_type, Some(TimeUnit::Nanosecond)))
    }

    fn scalar_table(
        &mut self,
        factor: &mut TableFactor,
        function: &str,
        arguments: Vec<Expr>,
        scope: &mut Scope,
    ) -> Result<bool, SqlError> {
        let TableFactor::Function { alias, .. } = factor else {
            return Err(SqlError::unsupported("this function in FROM"));
        };
        if !crate::functions::is_scalar(function) {
            return Err(SqlError::unsupported(format!("the function {function} in FROM")));
        }
        let mut subquery = super::subquery::select_of(build::call(function, arguments))?;
        let inside = Scope::inside(scope.outer);
        let outputs = self.query(&mut subquery, inside.outer)?;
        let mut alias = alias.take();
        let relation = function_relation(&mut alias, function, outputs)?;
        *factor = TableFactor::Derived { lateral: false, subquery: Box::new(subquery), alias, sample: None };
        push(scope, relation)?;
        Ok(false)
    }
}

/// Whether an expression is a column of a catalog that holds lists.
fn is_catalog_list(expr: &Expr, scope: &Scope) -> bool {
    let Expr::CompoundIdentifier(parts) = expr else { return false };
    let [relation, column] = parts.as_slice() else { return false };
    let relation = scope.relation(std::slice::from_ref(relation)).map(|(relation, _)| relation);
    relation.is_ok_and(|relation| {
        relation.is_catalog
            && relation.columns.iter().any(|other| {
                other.internal == column.value
                    && other.kind.is_some_and(|kind| kind.pg_type.element().is_some())
            })
    })
}

/// A function in FROM: table and column have its name, or that of the alias.
fn function_relation(
    alias: &mut Option<TableAlias>,
    function: &str,
    mut outputs: Vec<Output>,
) -> Result<ScopeRelation, SqlError> {
    let binding = alias.as_ref().map_or_else(|| function.to_owned(), |alias| fold(&alias.name));
    let names: Vec<String> = match alias {
        Some(alias) if !alias.columns.is_empty() => {
            alias.columns.iter().map(|column| fold(&column.name)).collect()
        }
        Some(_) if outputs.len() == 1 => vec![binding.clone()],
        _ => outputs.iter().map(|output| output.name.clone()).collect(),
    };
    outputs = renamed(outputs, &names, &binding)?;
    *alias = Some(table_alias(&binding, column_aliases(&outputs)));
    Ok(ScopeRelation { binding, schema: None, columns: scope_columns(outputs), is_catalog: false })
}

pub(super) fn plain_arguments(args: &[FunctionArg]) -> Result<Vec<Expr>, SqlError> {
    args.iter()
        .map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr.clone()),
            other => Err(SqlError::unsupported(format!("the argument {other} of a function in FROM"))),
        })
        .collect()
}

fn plain_table(name: ObjectName, alias: Option<TableAlias>) -> TableFactor {
    TableFactor::Table {
        name,
        alias,
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}

fn unnamed_column(name: &str) -> Output {
    Output { name: name.to_owned(), internal: name.to_owned(), kind: None }
}
