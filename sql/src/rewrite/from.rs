//! FROM: tables, subqueries, functions that answer rows, and joins.

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArg, FunctionArgExpr, Ident, Join, JoinConstraint, JoinOperator, ObjectName,
    TableAlias, TableAliasColumnDef, TableFactor, TableFunctionArgs, TableWithJoins,
};

use super::kind::Kind;
use super::names::fold;
use super::query::renamed;
use super::scope::{MergedColumn, Scope, ScopeColumn, ScopeRelation, ambiguous_table, quoted};
use super::select::idents;
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

/// Which side of a join keeps rows without a partner, and so whose emptiness empties the result.
#[derive(Clone, Copy)]
enum Side {
    Both,
    Left,
    Right,
    Full,
}

impl Side {
    fn is_empty(self, left: bool, right: bool) -> bool {
        match self {
            Self::Both => left || right,
            Self::Left => left,
            Self::Right => right,
            Self::Full => left && right,
        }
    }
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

    fn join(
        &mut self,
        join: &mut Join,
        first: usize,
        left_empty: bool,
        scope: &mut Scope,
    ) -> Result<bool, SqlError> {
        let middle = scope.relations.len();
        let right_empty = self.table_factor(&mut join.relation, scope)?;
        let (side, constraint) = match &mut join.join_operator {
            JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => (Side::Both, constraint),
            JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (Side::Left, constraint),
            JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
                (Side::Right, constraint)
            }
            JoinOperator::FullOuter(constraint) => (Side::Full, constraint),
            JoinOperator::CrossJoin(JoinConstraint::None) => {
                return Ok(left_empty || right_empty);
            }
            _ => return Err(SqlError::unsupported("this kind of JOIN")),
        };
        match constraint {
            JoinConstraint::On(expr) => {
                self.expr(expr, scope)?;
            }
            JoinConstraint::Using(names) => {
                let names = names.iter().map(using_name).collect::<Result<Vec<_>, _>>()?;
                let on = merge(scope, first, middle, side, &names)?;
                *constraint = JoinConstraint::On(on);
            }
            JoinConstraint::Natural => {
                let names = common_names(scope, first, middle);
                let on = merge(scope, first, middle, side, &names)?;
                *constraint = JoinConstraint::On(on);
            }
            JoinConstraint::None => {
                return Err(SqlError::new(SqlErrorKind::Syntax, "a JOIN needs ON or USING"));
            }
        }
        Ok(side.is_empty(left_empty, right_empty))
    }

    fn table_factor(&mut self, factor: &mut TableFactor, scope: &mut Scope) -> Result<bool, SqlError> {
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
            } => {
                let inside = Scope::inside(scope.outer);
                for expr in array_exprs.iter_mut() {
                    self.expr(expr, &inside)?;
                }
                // The lists in the catalogs are all NULL.
                let empty = array_exprs.iter().all(|expr| is_catalog_list(expr, &inside));
                let outputs = array_exprs.iter().map(|_| unnamed_column("unnest")).collect();
                let relation = function_relation(alias, "unnest", outputs)?;
                push(scope, relation)?;
                Ok(empty)
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                self.table_with_joins(table_with_joins, scope)
            }
            TableFactor::NestedJoin { .. } => Err(SqlError::unsupported("an alias for a join")),
            other => Err(SqlError::unsupported(format!("{other} in FROM"))),
        }
    }

    fn table(&mut self, factor: &mut TableFactor, scope: &mut Scope) -> Result<bool, SqlError> {
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

    /// A function in FROM: one that the planner has, or a scalar one as a table of one row.
    fn table_function(&mut self, factor: &mut TableFactor, scope: &mut Scope) -> Result<bool, SqlError> {
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
        for argument in &mut arguments {
            let kind = self.expr(argument, &inside)?;
            // The planner takes only bigint.
            if kind.is_some_and(Kind::is_integer) && !matches!(argument, Expr::Value(_)) {
                build::replace(argument, |argument| build::cast(argument, DataType::BigInt(None)));
            }
        }
        *name = build::object_name(&[&function]);
        *args = arguments.into_iter().map(|expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))).collect();
        let relation = function_relation(alias, &function, vec![unnamed_column(&function)])?;
        push(scope, relation)?;
        Ok(false)
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

fn plain_arguments(args: &[FunctionArg]) -> Result<Vec<Expr>, SqlError> {
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

fn push(scope: &mut Scope, relation: ScopeRelation) -> Result<(), SqlError> {
    if scope.relations.iter().any(|other| other.binding == relation.binding) {
        let message = format!("table name \"{}\" specified more than once", relation.binding);
        return Err(
            SqlError::new(SqlErrorKind::DuplicateAlias, message).with_hint("give one of them an alias")
        );
    }
    scope.relations.push(relation);
    Ok(())
}

fn scope_columns(outputs: Vec<Output>) -> Vec<ScopeColumn> {
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

fn table_alias(name: &str, columns: Vec<TableAliasColumnDef>) -> TableAlias {
    TableAlias { explicit: true, name: build::ident(name), columns, at: None }
}

fn unnamed_column(name: &str) -> Output {
    Output { name: name.to_owned(), internal: name.to_owned(), kind: None }
}

fn using_name(name: &ObjectName) -> Result<String, SqlError> {
    match idents(name)?.as_slice() {
        [ident] => Ok(fold(ident)),
        _ => Err(SqlError::new(SqlErrorKind::Syntax, format!("USING takes a column name, not {name}"))),
    }
}

/// The columns that both sides of a NATURAL JOIN show.
fn common_names(scope: &Scope, first: usize, middle: usize) -> Vec<String> {
    let right = &scope.relations[middle..];
    let has = |relations: &[ScopeRelation], name: &str| {
        relations
            .iter()
            .any(|relation| relation.columns.iter().any(|column| !column.is_merged && column.name == name))
    };
    let merged = scope.merged.iter().map(|column| column.name.clone());
    let left = scope.relations[first..middle]
        .iter()
        .flat_map(|relation| relation.columns.iter())
        .filter(|column| !column.is_merged && column.in_star)
        .map(|column| column.name.clone());
    merged.chain(left).filter(|name| has(right, name)).collect()
}

/// Makes columns of both sides of a join one, and answers the condition that joins them.
fn merge(
    scope: &mut Scope,
    first: usize,
    middle: usize,
    side: Side,
    names: &[String],
) -> Result<Expr, SqlError> {
    let mut conditions = Vec::with_capacity(names.len());
    for name in names {
        let (left, kind) = take_side(scope, first..middle, name, "left")?;
        let end = scope.relations.len();
        let (right, _) = take_side(scope, middle..end, name, "right")?;
        let expr = match side {
            Side::Both | Side::Left => left.clone(),
            Side::Right => right.clone(),
            Side::Full => build::call("coalesce", vec![left.clone(), right.clone()]),
        };
        scope.merged.push(MergedColumn { name: name.clone(), expr, kind });
        conditions.push(build::binary(left, datafusion::sql::sqlparser::ast::BinaryOperator::Eq, right));
    }
    let all = conditions
        .into_iter()
        .reduce(|all, next| build::binary(all, datafusion::sql::sqlparser::ast::BinaryOperator::And, next));
    Ok(all.unwrap_or_else(|| build::boolean(true)))
}

/// The one column with this name on one side of a join, which becomes part of a merged column.
fn take_side(
    scope: &mut Scope,
    range: std::ops::Range<usize>,
    name: &str,
    side: &str,
) -> Result<(Expr, Option<Kind>), SqlError> {
    if side == "left"
        && let Some(index) = scope.merged.iter().position(|column| column.name == name)
    {
        let merged = scope.merged.remove(index);
        return Ok((merged.expr, merged.kind));
    }
    let mut fitting: Vec<(Expr, &mut ScopeColumn)> = Vec::new();
    for relation in &mut scope.relations[range] {
        for column in relation.columns.iter_mut().filter(|column| !column.is_merged && column.name == name) {
            fitting.push((build::column(&relation.binding, &column.internal), column));
        }
    }
    if fitting.len() > 1 {
        let message = format!("common column name \"{name}\" appears more than once in {side} table");
        return Err(SqlError::new(SqlErrorKind::AmbiguousColumn, message));
    }
    let Some((expr, column)) = fitting.pop() else {
        let message = format!("column \"{name}\" specified in USING clause does not exist in {side} table");
        return Err(SqlError::new(SqlErrorKind::UndefinedColumn, message));
    };
    column.is_merged = true;
    Ok((expr, column.kind))
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
