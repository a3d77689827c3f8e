//! Queries as a whole: WITH, set operations, VALUES, ORDER BY over outputs, LIMIT.

use datafusion::sql::sqlparser::ast::{
    Expr, Fetch, LimitClause, ObjectNamePart, OrderBy, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SetExpr, SetOperator, TableFactor, Value, Values, With,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::kind::Kind;
use super::names::{fold, output_name};
use super::number::{self, Meeting};
use super::scope::Scope;
use super::{CommonTable, Output, Rewriter, build};
use crate::error::{SqlError, SqlErrorKind};
use crate::parse::position_of;
use crate::pg_type::PgType;

/// How deep the first terms of recursive queries may nest: each is read twice.
const RECURSIVE_NESTING_MAX: usize = 4;

impl Rewriter<'_> {
    /// Rewrites a query in place and answers its output columns.
    pub(super) fn query(
        &mut self,
        query: &mut Query,
        outer: Option<&Scope>,
    ) -> Result<Vec<Output>, SqlError> {
        refuse_clauses(query)?;
        fetch_to_limit(query)?;
        let Query { with, body, order_by, limit_clause, .. } = query;
        let visible = self.common_tables.len();
        if let Some(with) = with {
            self.with(with, outer)?;
        }
        let outputs = self.body(body, order_by.as_mut(), outer)?;
        if let Some(limit) = limit_clause {
            self.limit(limit, outer)?;
        }
        self.common_tables.truncate(visible);
        Ok(outputs)
    }

    fn with(&mut self, with: &mut With, outer: Option<&Scope>) -> Result<(), SqlError> {
        for cte in &mut with.cte_tables {
            if cte.from.is_some() {
                return Err(SqlError::unsupported("FROM after a WITH query"));
            }
            let name = fold(&cte.alias.name);
            let aliases: Vec<String> = cte.alias.columns.iter().map(|column| fold(&column.name)).collect();
            let visible = self.common_tables.len();
            if with.recursive
                && let SetExpr::SetOperation { left, .. } = cte.query.body.as_ref()
            {
                if self.recursive_depth == RECURSIVE_NESTING_MAX {
                    let message =
                        format!("recursive queries nest deeper than the limit of {RECURSIVE_NESTING_MAX}");
                    return Err(SqlError::new(SqlErrorKind::TooComplex, message));
                }
                self.recursive_depth += 1;
                let outputs = self.body(&mut left.clone(), None, outer);
                self.recursive_depth -= 1;
                let outputs = outputs?;
                let columns = renamed(outputs, &aliases, &name)?;
                self.common_tables.push(CommonTable { name: name.clone(), columns });
            }
            let outputs = self.query(&mut cte.query, outer)?;
            self.common_tables.truncate(visible);
            let columns = renamed(outputs, &aliases, &name)?;
            cte.alias.name = build::ident(&name);
            // The planner wants a name for every column or for none.
            if !aliases.is_empty() {
                cte.alias.columns = super::from::column_aliases(&columns);
            }
            self.common_tables.push(CommonTable { name, columns });
        }
        Ok(())
    }

    fn body(
        &mut self,
        body: &mut SetExpr,
        order_by: Option<&mut OrderBy>,
        outer: Option<&Scope>,
    ) -> Result<Vec<Output>, SqlError> {
        if let SetExpr::Table(table) = body {
            *body = table_as_select(table.schema_name.as_deref(), table.table_name.as_deref())?;
        }
        if let SetExpr::Select(select) = body {
            let aggregated = super::subquery::is_aggregated(select);
            let (outputs, empty) = self.select(select, order_by, outer)?;
            self.query_is_empty = empty && !aggregated;
            return Ok(outputs);
        }
        let outputs = self.set_expr(body, outer)?;
        self.query_is_empty = false;
        if let Some(order_by) = order_by {
            order_by_outputs(order_by, &outputs)?;
        }
        Ok(outputs)
    }

    fn set_expr(&mut self, body: &mut SetExpr, outer: Option<&Scope>) -> Result<Vec<Output>, SqlError> {
        match body {
            SetExpr::Query(query) => self.query(query, outer),
            SetExpr::SetOperation { .. } => self.set_operations(body, outer),
            SetExpr::Values(values) => self.values(values, outer),
            SetExpr::Select(_) | SetExpr::Table(_) => self.body(body, None, outer),
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                Err(SqlError::unsupported("a statement that changes data"))
            }
        }
    }

    /// A chain of set operations leans to the left and may be long: it is walked without recursion.
    fn set_operations(&mut self, body: &mut SetExpr, outer: Option<&Scope>) -> Result<Vec<Output>, SqlError> {
        let mut place = body;
        let mut rights = Vec::new();
        while let SetExpr::SetOperation { left, right, op, .. } = place {
            rights.push((right, *op));
            place = left;
        }
        let mut outputs = self.body(place, None, outer)?;
        let mut kinds = vec![kinds_of(&outputs)];
        rights.reverse();
        for (right, op) in &mut rights {
            let others = self.body(right, None, outer)?;
            if outputs.len() != others.len() {
                let name = match op {
                    SetOperator::Except | SetOperator::Minus => "EXCEPT",
                    SetOperator::Intersect => "INTERSECT",
                    SetOperator::Union => "UNION",
                };
                let message = format!("each {name} query must have the same number of columns");
                return Err(SqlError::new(SqlErrorKind::Syntax, message));
            }
            kinds.push(kinds_of(&others));
        }
        let mut branches = vec![place];
        branches.extend(rights.into_iter().map(|(right, _)| right.as_mut()));
        meet(&mut branches, &kinds, &mut outputs);
        Ok(outputs)
    }

    fn values(&mut self, values: &mut Values, outer: Option<&Scope>) -> Result<Vec<Output>, SqlError> {
        let scope = Scope::inside(outer);
        let mut outputs: Vec<Output> = Vec::new();
        let mut kinds: Vec<Vec<Option<Kind>>> = Vec::new();
        for (number, row) in values.rows.iter_mut().enumerate() {
            for (index, expr) in row.content.iter_mut().enumerate() {
                let kind = self.expr(expr, &scope)?;
                if number == 0 {
                    let name = format!("column{}", index + 1);
                    outputs.push(Output { internal: name.clone(), name, kind });
                    kinds.push(Vec::with_capacity(1));
                }
                if let Some(column) = kinds.get_mut(index) {
                    column.push(kind);
                }
            }
        }
        for (index, (output, kinds)) in outputs.iter_mut().zip(&kinds).enumerate() {
            let meeting = Meeting::of(kinds.iter().copied());
            for (row, kind) in values.rows.iter_mut().zip(kinds) {
                if let Some(expr) = row.content.get_mut(index) {
                    meeting.convert(expr, *kind);
                }
            }
            output.kind = output.kind.and(number::common(kinds));
        }
        Ok(outputs)
    }

    fn limit(&mut self, limit: &mut LimitClause, outer: Option<&Scope>) -> Result<(), SqlError> {
        let LimitClause::LimitOffset { limit, offset, limit_by } = limit else {
            return Err(SqlError::unsupported("LIMIT with a comma").with_hint("write LIMIT n OFFSET m"));
        };
        if !limit_by.is_empty() {
            return Err(SqlError::unsupported("LIMIT BY"));
        }
        let scope = Scope::inside(outer);
        for expr in limit.iter_mut().chain(offset.iter_mut().map(|offset| &mut offset.value)) {
            self.note_parameter(expr, PgType::Int8);
            self.expr(expr, &scope)?;
        }
        Ok(())
    }
}

fn kinds_of(outputs: &[Output]) -> Vec<Option<Kind>> {
    outputs.iter().map(|output| output.kind).collect()
}

/// Brings the numbers of the branches of a UNION and its kin together, column by column.
fn meet(branches: &mut [&mut SetExpr], kinds: &[Vec<Option<Kind>>], outputs: &mut [Output]) {
    for (index, output) in outputs.iter_mut().enumerate() {
        let column: Vec<Option<Kind>> = kinds.iter().map(|branch| branch[index]).collect();
        let meeting = Meeting::of(column.iter().copied());
        for (branch, kind) in branches.iter_mut().zip(&column) {
            number::convert_output(branch, index, *kind, meeting);
        }
        output.kind = output.kind.and(number::common(&column));
    }
}

fn refuse_clauses(query: &Query) -> Result<(), SqlError> {
    if let Some(lock) = query.locks.first() {
        return Err(SqlError::unsupported(lock).with_hint("a log has no rows to lock"));
    }
    if query.for_clause.is_some() {
        return Err(SqlError::unsupported("this FOR clause"));
    }
    if query.settings.is_some() || query.format_clause.is_some() {
        return Err(SqlError::unsupported("SETTINGS or FORMAT in a query"));
    }
    if !query.pipe_operators.is_empty() {
        return Err(SqlError::unsupported("a pipe operator"));
    }
    Ok(())
}

/// `FETCH FIRST n ROWS ONLY` is another way to write LIMIT.
fn fetch_to_limit(query: &mut Query) -> Result<(), SqlError> {
    let Some(Fetch { with_ties, percent, quantity }) = query.fetch.take() else { return Ok(()) };
    if with_ties || percent {
        return Err(SqlError::unsupported("FETCH with WITH TIES or PERCENT"));
    }
    let limit = Some(quantity.unwrap_or_else(|| build::number(1)));
    match &mut query.limit_clause {
        None => {
            query.limit_clause = Some(LimitClause::LimitOffset { limit, offset: None, limit_by: Vec::new() });
        }
        Some(LimitClause::LimitOffset { limit: place @ None, .. }) => *place = limit,
        Some(_) => return Err(SqlError::new(SqlErrorKind::Syntax, "LIMIT and FETCH exclude each other")),
    }
    Ok(())
}

/// The columns of a derived table under the names of its alias.
///
/// # Errors
/// When the alias has more names than there are columns.
pub(super) fn renamed(
    outputs: Vec<Output>,
    aliases: &[String],
    table: &str,
) -> Result<Vec<Output>, SqlError> {
    if aliases.len() > outputs.len() {
        let message = format!(
            "table \"{table}\" has {} columns available but {} columns specified",
            outputs.len(),
            aliases.len()
        );
        return Err(SqlError::new(SqlErrorKind::InvalidReference, message));
    }
    let mut columns = outputs;
    for (index, (column, alias)) in columns.iter_mut().zip(aliases).enumerate() {
        column.name.clone_from(alias);
        let repeated = aliases[..index].contains(alias);
        column.internal = if repeated { format!("{alias}:{index}") } else { alias.clone() };
    }
    Ok(columns)
}

/// ORDER BY where only output columns can be named: by number or by name.
fn order_by_outputs(order_by: &mut OrderBy, outputs: &[Output]) -> Result<(), SqlError> {
    for item in order_by_items(order_by)? {
        match &item.expr {
            Expr::Value(value) if matches!(value.value, Value::Number(..)) => {}
            Expr::Identifier(ident) => {
                let ordinal = output_ordinal(&fold(ident), outputs)
                    .map_err(|error| error.at(position_of(ident.span.start)))?;
                let Some(ordinal) = ordinal else {
                    let message = format!("column \"{}\" does not exist in the result", fold(ident));
                    return Err(SqlError::new(SqlErrorKind::UndefinedColumn, message)
                        .at(position_of(ident.span.start)));
                };
                item.expr = build::number(ordinal);
            }
            other => {
                let message = format!("ORDER BY {other} over a UNION, INTERSECT, EXCEPT or VALUES");
                return Err(SqlError::unsupported(message)
                    .with_hint("order by a column of the result, or select from it in a subquery"));
            }
        }
    }
    Ok(())
}

/// The items of an ORDER BY that holds only what PostgreSQL has.
///
/// # Errors
/// When it holds more.
pub(super) fn order_by_items(order_by: &mut OrderBy) -> Result<&mut Vec<OrderByExpr>, SqlError> {
    if order_by.interpolate.is_some() {
        return Err(SqlError::unsupported("INTERPOLATE"));
    }
    match &mut order_by.kind {
        OrderByKind::All(_) => Err(SqlError::unsupported("ORDER BY ALL")),
        OrderByKind::Expressions(items) if items.iter().any(|item| item.with_fill.is_some()) => {
            Err(SqlError::unsupported("WITH FILL"))
        }
        OrderByKind::Expressions(items) => Ok(items),
    }
}

/// The number of the output column with this name, counted from 1.
///
/// # Errors
/// When several have it.
pub(super) fn output_ordinal(name: &str, outputs: &[Output]) -> Result<Option<usize>, SqlError> {
    let mut fitting = outputs.iter().enumerate().filter(|(_, output)| output.name == name);
    let first = fitting.next().map(|(index, _)| index + 1);
    if fitting.next().is_some() {
        let message = format!("ORDER BY \"{name}\" is ambiguous");
        return Err(SqlError::new(SqlErrorKind::AmbiguousColumn, message));
    }
    Ok(first)
}

/// `TABLE t` is `SELECT * FROM t`.
fn table_as_select(schema: Option<&str>, table: Option<&str>) -> Result<SetExpr, SqlError> {
    let mut statement = Parser::new(&PostgreSqlDialect {})
        .try_with_sql("SELECT * FROM t")
        .and_then(|mut parser| parser.parse_query())
        .map_err(|error| SqlError::new(SqlErrorKind::Syntax, error.to_string()))?;
    if let SetExpr::Select(select) = statement.body.as_mut()
        && let Some(TableFactor::Table { name, .. }) = select.from.first_mut().map(|from| &mut from.relation)
    {
        let parts = schema.into_iter().chain(table);
        name.0 = parts.map(|part| ObjectNamePart::Identifier(part.trim_matches('"').into())).collect();
    }
    Ok(*statement.body)
}

/// The name of an item that has no alias.
pub(super) fn item_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(expr) => Some(output_name(expr)),
        SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
        _ => None,
    }
}

/// Refuses the clauses of a SELECT that other systems have.
pub(super) fn refuse_select_clauses(select: &Select) -> Result<(), SqlError> {
    let foreign = [
        (select.top.is_some(), "TOP"),
        (select.exclude.is_some(), "EXCLUDE"),
        (select.into.is_some(), "SELECT INTO"),
        (!select.lateral_views.is_empty(), "LATERAL VIEW"),
        (select.prewhere.is_some(), "PREWHERE"),
        (!select.connect_by.is_empty(), "CONNECT BY"),
        (!select.cluster_by.is_empty(), "CLUSTER BY"),
        (!select.distribute_by.is_empty(), "DISTRIBUTE BY"),
        (!select.sort_by.is_empty(), "SORT BY"),
        (select.qualify.is_some(), "QUALIFY"),
        (select.value_table_mode.is_some(), "SELECT AS VALUE"),
        (select.select_modifiers.is_some(), "this SELECT modifier"),
    ];
    match foreign.iter().find(|(present, _)| *present) {
        Some((_, name)) => Err(SqlError::unsupported(name)),
        None => Ok(()),
    }
}
