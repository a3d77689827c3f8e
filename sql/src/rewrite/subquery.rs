//! Subqueries inside expressions, and the ways around those that the planner cannot take apart.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, GroupByExpr,
    JoinConstraint, JoinOperator, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor,
    TableWithJoins,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::expr::Rewrite;
use super::kind::Kind;
use super::number::{self, Meeting};
use super::scope::Scope;
use super::{Output, Rewriter, build, category};
use crate::error::{SqlError, SqlErrorKind};
use crate::functions::{SINGLE_VALUE, is_aggregate};
use crate::pg_type::PgType;

impl Rewriter<'_> {
    pub(super) fn subquery(&mut self, expr: &mut Expr, scope: &Scope) -> Rewrite {
        match expr {
            Expr::Exists { subquery, negated } => {
                let negated = *negated;
                if self.is_empty_query(subquery, scope) {
                    *expr = build::boolean(negated);
                } else {
                    self.query(subquery, Some(scope))?;
                }
                Ok(Some(Kind::of(PgType::Bool)))
            }
            Expr::InSubquery { expr: value, subquery, .. } => {
                let kind = self.expr(value, scope)?;
                let outputs = self.query(subquery, Some(scope))?;
                let column = one_column(&outputs)?.kind;
                category::check(kind, "=", column)?;
                let kind = self.adapt(value, kind, column)?;
                let meeting = Meeting::of([kind, column].into_iter());
                meeting.convert(value, kind);
                number::convert_output(&mut subquery.body, 0, column, meeting);
                Ok(Some(Kind::of(PgType::Bool)))
            }
            Expr::Subquery(query) => {
                if self.is_empty_query(query, scope) {
                    *expr = build::null();
                    return Ok(None);
                }
                self.scalar(query, scope)
            }
            _ => Ok(None),
        }
    }

    /// A scalar subquery. One that refers to the rows around it becomes an aggregate that insists on
    /// one row, because only aggregates can be taken out of the rows.
    fn scalar(&mut self, query: &mut Query, scope: &Scope) -> Rewrite {
        let before = self.outer_references;
        let outputs = self.query(query, Some(scope))?;
        let kind = one_column(&outputs)?.kind;
        if self.outer_references > before
            && query.limit_clause.is_none()
            && let SetExpr::Select(select) = query.body.as_mut()
            && !is_aggregated(select)
        {
            query.order_by = None;
            for item in &mut select.projection {
                if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                    let inner = std::mem::replace(expr, build::null());
                    let single = build::call(SINGLE_VALUE, vec![inner]);
                    *item = SelectItem::ExprWithAlias { expr: single, alias: build::ident("value") };
                }
            }
        }
        Ok(kind)
    }

    /// `ARRAY(SELECT ...)` is an aggregate over the query.
    pub(super) fn array_subquery(&mut self, mut query: Query, scope: &Scope) -> Result<Expr, SqlError> {
        let empty = || build::arrow_cast(build::call("make_array", Vec::new()), "List(Utf8)");
        if self.is_empty_query(&query, scope) {
            return Ok(empty());
        }
        let outputs = self.query(&mut query, Some(scope))?;
        one_column(&outputs)?;
        let order_by = query.order_by.take();
        let (SetExpr::Select(select), None) = (query.body.as_mut(), &query.limit_clause) else {
            return Err(SqlError::unsupported("ARRAY of a query with LIMIT or a set operation"));
        };
        if is_aggregated(select) || select.distinct.is_some() {
            return Err(SqlError::unsupported("ARRAY of a query with aggregates or DISTINCT"));
        }
        let Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) =
            select.projection.pop()
        else {
            return Err(SqlError::unsupported("ARRAY of this query"));
        };
        let mut aggregate = build::function("array_agg", vec![expr.clone()]);
        if let (Some(order_by), FunctionArguments::List(list)) = (order_by, &mut aggregate.args)
            && let OrderByKind::Expressions(mut keys) = order_by.kind
        {
            for key in &mut keys {
                if matches!(key.expr, Expr::Value(_)) {
                    key.expr = expr.clone();
                }
            }
            list.clauses.push(FunctionArgumentClause::OrderBy(keys));
        }
        select.projection.push(SelectItem::ExprWithAlias {
            expr: Expr::Function(aggregate),
            alias: build::ident("value"),
        });
        Ok(build::call("coalesce", vec![Expr::Subquery(Box::new(query)), empty()]))
    }

    /// Whether a query has no rows for certain: it joins a catalog that is always empty, and no
    /// aggregate makes a row of nothing. Then neither the planner nor the rules here need to
    /// understand the rest of it.
    fn is_empty_query(&mut self, query: &Query, scope: &Scope) -> bool {
        let SetExpr::Select(select) = query.body.as_ref() else { return false };
        if query.with.is_some() || is_aggregated(select) {
            return false;
        }
        let Some(mut from) = plain_tables(&select.from) else { return false };
        let tables = self.catalog_tables.clone();
        let empty = self.from(&mut from, Some(scope)).is_ok_and(|scope| scope.always_empty);
        if !empty {
            self.catalog_tables = tables;
        }
        empty
    }
}

/// A FROM clause of nothing but tables and lists, without its conditions; looking at it twice costs
/// little, however deep queries nest.
fn plain_tables(from: &[TableWithJoins]) -> Option<Vec<TableWithJoins>> {
    let is_name = |expr: &Expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    let is_plain = |factor: &TableFactor| match factor {
        TableFactor::Table { args: None, .. } => true,
        TableFactor::Table { args: Some(args), .. } => args
            .args
            .iter()
            .all(|arg| matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) if is_name(expr))),
        TableFactor::UNNEST { array_exprs, .. } => array_exprs.iter().all(is_name),
        _ => false,
    };
    let mut from = from.to_vec();
    for item in &mut from {
        if !is_plain(&item.relation) || !item.joins.iter().all(|join| is_plain(&join.relation)) {
            return None;
        }
        for join in &mut item.joins {
            if let JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::Left(constraint)
            | JoinOperator::LeftOuter(constraint)
            | JoinOperator::Right(constraint)
            | JoinOperator::RightOuter(constraint)
            | JoinOperator::FullOuter(constraint) = &mut join.join_operator
            {
                *constraint = JoinConstraint::On(build::boolean(true));
            }
        }
    }
    Some(from)
}

fn one_column(outputs: &[Output]) -> Result<&Output, SqlError> {
    match outputs {
        [output] => Ok(output),
        _ => Err(SqlError::new(SqlErrorKind::Syntax, "subquery must return only one column")),
    }
}

pub(super) fn is_aggregated(select: &Select) -> bool {
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(exprs, _) if exprs.is_empty());
    let has_aggregate = select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => calls_aggregate(expr),
        _ => false,
    });
    grouped || has_aggregate || select.having.is_some()
}

fn calls_aggregate(expr: &Expr) -> bool {
    match expr {
        Expr::Function(function) => {
            let name = function.name.0.last().map(super::names::part_text).unwrap_or_default();
            (function.over.is_none() && is_aggregate(&name)) || arguments(&function.args).any(calls_aggregate)
        }
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } | Expr::UnaryOp { expr: inner, .. } => {
            calls_aggregate(inner)
        }
        Expr::BinaryOp { left, right, .. } => calls_aggregate(left) || calls_aggregate(right),
        Expr::Case { conditions, else_result, .. } => {
            conditions.iter().any(|when| calls_aggregate(&when.condition) || calls_aggregate(&when.result))
                || else_result.as_deref().is_some_and(calls_aggregate)
        }
        _ => false,
    }
}

fn arguments(arguments: &FunctionArguments) -> impl Iterator<Item = &Expr> {
    let list = match arguments {
        FunctionArguments::List(list) => list.args.as_slice(),
        _ => &[],
    };
    list.iter().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    })
}

/// `SELECT expr`.
///
/// # Errors
/// Never for the text that it parses.
pub(super) fn select_of(expr: Expr) -> Result<Query, SqlError> {
    let mut query = Parser::new(&PostgreSqlDialect {})
        .try_with_sql("SELECT 1")
        .and_then(|mut parser| parser.parse_query())
        .map_err(|error| SqlError::new(SqlErrorKind::Syntax, error.to_string()))?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = vec![SelectItem::UnnamedExpr(expr)];
    }
    Ok(*query)
}
