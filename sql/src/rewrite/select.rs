//! One SELECT: its list with `*` expanded and every column named, and the clauses that refer to it.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, FunctionArguments, GroupByExpr, GroupByWithModifier, Ident, NamedWindowExpr, ObjectName,
    ObjectNamePart, OrderBy, Select, SelectItem, SelectItemQualifiedWildcardKind, Value,
    WildcardAdditionalOptions, visit_expressions,
};

use super::kind::Kind;
use super::names::{fold, same_without_case};
use super::query::{item_name, order_by_items, output_ordinal, refuse_select_clauses};
use super::scope::{Scope, ScopeColumn};
use super::{Output, Rewriter, build};
use crate::error::{SqlError, SqlErrorKind};
use crate::parse::position_of;

/// One column of a select list, rewritten.
struct Item {
    name: String,
    expr: Expr,
    kind: Option<Kind>,
}

impl Rewriter<'_> {
    /// Rewrites a SELECT; answers its outputs and whether what it reads is always empty.
    pub(super) fn select(
        &mut self,
        select: &mut Select,
        order_by: Option<&mut OrderBy>,
        outer: Option<&Scope>,
    ) -> Result<(Vec<Output>, bool), SqlError> {
        refuse_select_clauses(select)?;
        let scope = self.from(&mut select.from, outer)?;
        let mut items = self.items(std::mem::take(&mut select.projection), &scope)?;
        if scope.always_empty {
            simplify_empty(&mut items, &mut select.selection);
        }
        let outputs = outputs(&items, &scope);
        if let Some(selection) = &mut select.selection {
            match self.expr(selection, &scope) {
                Err(error) if scope.always_empty && error.kind == SqlErrorKind::FeatureNotSupported => {
                    *selection = build::boolean(false);
                }
                other => drop(other?),
            }
        }
        self.group_by(&mut select.group_by, &outputs, &scope)?;
        if let Some(having) = &mut select.having {
            self.expr(having, &scope)?;
        }
        for window in &mut select.named_window {
            window.0 = build::ident(&fold(&window.0));
            match &mut window.1 {
                NamedWindowExpr::NamedWindow(name) => *name = build::ident(&fold(name)),
                NamedWindowExpr::WindowSpec(spec) => self.window_spec(spec, &scope)?,
            }
        }
        let on_expressions = match &mut select.distinct {
            Some(Distinct::On(on)) => {
                for expr in on {
                    self.sort_key(expr, SortBy::Expression, &items, &scope)?;
                }
                SortBy::Expression
            }
            _ => SortBy::Ordinal,
        };
        if let Some(order_by) = order_by {
            for item in order_by_items(order_by)? {
                self.sort_key(&mut item.expr, on_expressions, &items, &scope)?;
            }
        }
        select.projection =
            items.into_iter().zip(&outputs).map(|(item, output)| named(item, output)).collect();
        Ok((outputs, scope.always_empty))
    }

    fn items(&mut self, projection: Vec<SelectItem>, scope: &Scope) -> Result<Vec<Item>, SqlError> {
        let mut items = Vec::with_capacity(projection.len());
        for item in projection {
            match item {
                SelectItem::Wildcard(options) => {
                    refuse_wildcard_options(&options)?;
                    expand_all(scope, &mut items)?;
                }
                SelectItem::QualifiedWildcard(kind, options) => {
                    refuse_wildcard_options(&options)?;
                    self.expand_one(&kind, scope, &mut items)?;
                }
                SelectItem::ExprWithAliases { .. } => {
                    return Err(SqlError::unsupported("several aliases for one column"));
                }
                SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. } => {
                    items.push(self.item(item, scope)?);
                }
            }
        }
        Ok(items)
    }

    fn item(&mut self, item: SelectItem, scope: &Scope) -> Result<Item, SqlError> {
        let written = item_name(&item);
        let has_alias = matches!(item, SelectItem::ExprWithAlias { .. });
        let (SelectItem::UnnamedExpr(mut expr) | SelectItem::ExprWithAlias { mut expr, .. }) = item else {
            return Err(SqlError::unsupported("this select item"));
        };
        let plain = !has_alias && matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        let kind = match self.expr(&mut expr, scope) {
            Ok(kind) => kind,
            // No row comes out, so that nobody can see the value.
            Err(error) if scope.always_empty && error.kind == SqlErrorKind::FeatureNotSupported => {
                expr = build::null();
                None
            }
            Err(error) => return Err(error),
        };
        let mut name = written.unwrap_or_default();
        // A column that was found without case is shown under the name that it has.
        if plain
            && let Expr::CompoundIdentifier(parts) = &expr
            && let Some(last) = parts.last()
            && same_without_case(&last.value, &name)
        {
            name.clone_from(&last.value);
        }
        if is_set_returning(&expr) {
            build::replace(&mut expr, |series| build::call("unnest", vec![series]));
        }
        Ok(Item { name, expr, kind })
    }

    fn expand_one(
        &mut self,
        kind: &SelectItemQualifiedWildcardKind,
        scope: &Scope,
        items: &mut Vec<Item>,
    ) -> Result<(), SqlError> {
        let SelectItemQualifiedWildcardKind::ObjectName(name) = kind else {
            return Err(SqlError::unsupported("the expansion of a composite value"));
        };
        let (relation, depth) = scope.relation(&idents(name)?)?;
        if depth > 0 {
            self.outer_references += 1;
        }
        self.references += 1;
        let columns = relation.columns.iter().filter(|column| column.in_star);
        items.extend(columns.map(|column| star_item(&relation.binding, column)));
        Ok(())
    }

    fn group_by(
        &mut self,
        group_by: &mut GroupByExpr,
        outputs: &[Output],
        scope: &Scope,
    ) -> Result<(), SqlError> {
        let GroupByExpr::Expressions(exprs, modifiers) = group_by else {
            return Err(SqlError::unsupported("GROUP BY ALL"));
        };
        if let Some(modifier) = modifiers.first() {
            return Err(SqlError::unsupported(match modifier {
                GroupByWithModifier::Rollup => "WITH ROLLUP",
                GroupByWithModifier::Cube => "WITH CUBE",
                _ => "this GROUP BY modifier",
            }));
        }
        for expr in exprs {
            if is_number(expr) {
                continue;
            }
            // An input column goes before an output column here, unlike in ORDER BY.
            if let Expr::Identifier(ident) = &*expr
                && scope.column(ident)?.is_none()
                && let Some(ordinal) = output_ordinal(&fold(ident), outputs)?
            {
                *expr = build::number(ordinal);
                continue;
            }
            self.expr(expr, scope)?;
        }
        Ok(())
    }

    /// A key of ORDER BY or DISTINCT ON: a number, the name of an output, or an expression over the
    /// input.
    fn sort_key(
        &mut self,
        expr: &mut Expr,
        by: SortBy,
        items: &[Item],
        scope: &Scope,
    ) -> Result<(), SqlError> {
        if let Some(position) = written_ordinal(expr) {
            if position == 0 || position > items.len() {
                let message = format!("ORDER BY position {position} is not in select list");
                return Err(SqlError::new(SqlErrorKind::InvalidReference, message));
            }
            *expr = by.key(position - 1, items);
            return Ok(());
        }
        if let Expr::Identifier(ident) = &*expr
            && let Some(index) = named_item(ident, items)?
        {
            *expr = by.key(index, items);
            return Ok(());
        }
        self.expr(expr, scope)?;
        if let Some(index) = items.iter().position(|item| item.expr == *expr) {
            *expr = by.key(index, items);
        }
        Ok(())
    }
}

/// Nobody can see what subqueries answer where no row comes out, and the planner may not know how to
/// take them apart.
fn simplify_empty(items: &mut [Item], selection: &mut Option<Expr>) {
    for item in items.iter_mut().filter(|item| has_subquery(&item.expr)) {
        item.expr = build::null();
    }
    if let Some(selection) = selection.as_mut().filter(|selection| has_subquery(selection)) {
        *selection = build::boolean(false);
    }
}

fn has_subquery(expr: &Expr) -> bool {
    let found = visit_expressions(expr, |inner| match inner {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// How a sort key that is an output column is written for the planner.
#[derive(Clone, Copy)]
enum SortBy {
    /// By its number, which needs no name.
    Ordinal,
    /// As its expression, where the planner compares it with DISTINCT ON.
    Expression,
}

impl SortBy {
    fn key(self, index: usize, items: &[Item]) -> Expr {
        match self {
            Self::Ordinal => build::number(index + 1),
            Self::Expression => items[index].expr.clone(),
        }
    }
}

/// The output column that a name of ORDER BY means; the same expression twice is no ambiguity.
fn named_item(ident: &Ident, items: &[Item]) -> Result<Option<usize>, SqlError> {
    let wanted = fold(ident);
    let mut fitting = items.iter().enumerate().filter(|(_, item)| item.name == wanted);
    let Some((index, first)) = fitting.next() else { return Ok(None) };
    if fitting.all(|(_, item)| item.expr == first.expr) {
        return Ok(Some(index));
    }
    let message = format!("ORDER BY \"{wanted}\" is ambiguous");
    Err(SqlError::new(SqlErrorKind::AmbiguousColumn, message).at(position_of(ident.span.start)))
}

fn is_number(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::Number(..)))
}

fn written_ordinal(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => text.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

fn expand_all(scope: &Scope, items: &mut Vec<Item>) -> Result<(), SqlError> {
    if scope.relations.is_empty() {
        let message = "SELECT * with no tables specified is not valid";
        return Err(SqlError::new(SqlErrorKind::Syntax, message));
    }
    items.extend(scope.merged.iter().map(|column| Item {
        name: column.name.clone(),
        expr: column.expr.clone(),
        kind: column.kind,
    }));
    for relation in &scope.relations {
        let columns = relation.columns.iter().filter(|column| column.in_star && !column.is_merged);
        items.extend(columns.map(|column| star_item(&relation.binding, column)));
    }
    Ok(())
}

fn star_item(binding: &str, column: &ScopeColumn) -> Item {
    Item { name: column.name.clone(), expr: build::column(binding, &column.internal), kind: column.kind }
}

/// The outputs of a list, each with a name that is unique: its own, when no other output and no input
/// column has it.
fn outputs(items: &[Item], scope: &Scope) -> Vec<Output> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for item in items {
        *counts.entry(item.name.as_str()).or_default() += 1;
    }
    let columns = scope.relations.iter().flat_map(|relation| &relation.columns);
    let inputs: HashSet<&str> = columns.map(|column| column.internal.as_str()).collect();
    let internal = |index: usize, item: &Item| {
        let is_itself = own_name(&item.expr) == Some(item.name.as_str());
        if counts[item.name.as_str()] == 1 && (is_itself || !inputs.contains(item.name.as_str())) {
            return item.name.clone();
        }
        let mut internal = format!("c{index}");
        while counts.contains_key(internal.as_str()) || inputs.contains(internal.as_str()) {
            internal.insert(0, '_');
        }
        internal
    };
    items
        .iter()
        .enumerate()
        .map(|(index, item)| Output {
            name: item.name.clone(),
            internal: internal(index, item),
            kind: item.kind,
        })
        .collect()
}

/// The name that the planner has for an expression that is a column.
fn own_name(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::CompoundIdentifier(parts) => parts.last().map(|last| last.value.as_str()),
        _ => None,
    }
}

/// The item for the planner; a column that has its own name needs no alias.
fn named(item: Item, output: &Output) -> SelectItem {
    if own_name(&item.expr) == Some(output.internal.as_str()) {
        return SelectItem::UnnamedExpr(item.expr);
    }
    SelectItem::ExprWithAlias { expr: item.expr, alias: build::ident(&output.internal) }
}

/// A function that answers rows where it stands in a select list.
fn is_set_returning(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    let series = function.name.0.last().is_some_and(
        |part| matches!(part, ObjectNamePart::Identifier(name) if name.value == "generate_series"),
    );
    series && matches!(function.args, FunctionArguments::List(_))
}

fn refuse_wildcard_options(options: &WildcardAdditionalOptions) -> Result<(), SqlError> {
    let plain = options.opt_ilike.is_none()
        && options.opt_exclude.is_none()
        && options.opt_except.is_none()
        && options.opt_replace.is_none()
        && options.opt_rename.is_none()
        && options.opt_alias.is_none();
    if plain { Ok(()) } else { Err(SqlError::unsupported("an option of *")) }
}

/// The identifiers of a dotted name.
///
/// # Errors
/// When a part is not an identifier.
pub(super) fn idents(name: &ObjectName) -> Result<Vec<Ident>, SqlError> {
    name.0
        .iter()
        .map(|part| match part {
            ObjectNamePart::Identifier(ident) => Ok(ident.clone()),
            ObjectNamePart::Function(_) => Err(SqlError::unsupported(format!("the name {name}"))),
        })
        .collect()
}
