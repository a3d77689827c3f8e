//! Joins: conditions, and the columns that USING and NATURAL make one.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Join, JoinConstraint, JoinOperator, ObjectName};

use super::kind::Kind;
use super::names::fold;
use super::scope::{MergedColumn, Scope, ScopeColumn, ScopeRelation};
use super::select::idents;
use super::{Rewriter, build, category, number};
use crate::error::{SqlError, SqlErrorKind};

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
    /// Adds what one join brings, and answers whether the result is always empty.
    pub(super) fn join(
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
        let (mut left, left_kind) = take_side(scope, first..middle, name, "left")?;
        let end = scope.relations.len();
        let (mut right, right_kind) = take_side(scope, middle..end, name, "right")?;
        category::check(left_kind, "=", right_kind)?;
        number::meet(&mut [(&mut left, left_kind), (&mut right, right_kind)]);
        let kind = number::common(&[left_kind, right_kind]);
        let expr = match side {
            Side::Both | Side::Left => left.clone(),
            Side::Right => right.clone(),
            Side::Full => build::call("coalesce", vec![left.clone(), right.clone()]),
        };
        scope.merged.push(MergedColumn { name: name.clone(), expr, kind });
        conditions.push(build::binary(left, BinaryOperator::Eq, right));
    }
    let all = conditions.into_iter().reduce(|all, next| build::binary(all, BinaryOperator::And, next));
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
