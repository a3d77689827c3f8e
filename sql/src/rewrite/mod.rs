//! Turns a query as PostgreSQL reads it into one that DataFusion plans to the same answer.
//!
//! The tree is walked once. Every name is resolved against the scope that it stands in and comes
//! out qualified and quoted, every output column gets a name that is unique, and what DataFusion
//! lacks or reads differently becomes calls of our own functions.
//!
//! Invariant: a clause that is not understood is refused; nothing is passed on unread.

mod any;
mod arithmetic;
mod build;
mod call;
mod cast;
mod category;
mod compare;
mod expr;
mod from;
mod join;
mod kind;
mod names;
mod number;
mod operator;
mod pattern;
mod query;
mod scope;
mod select;
mod subquery;
mod table_function;

use std::collections::{BTreeMap, BTreeSet};

use datafusion::sql::sqlparser::ast;

use crate::error::{SqlError, SqlErrorKind};
use crate::pg_type::PgType;
use crate::relations::{Relations, SessionInfo};
use crate::time::literal::Clock;
use crate::time::zone::Zone;

use kind::Kind;

/// A query that is ready to be planned.
#[derive(Debug, Clone, PartialEq)]
pub struct Rewritten {
    /// What DataFusion plans; the names of its output columns are unique and internal.
    pub statement: ast::Statement,
    /// What clients see as the names of the columns, in their order; names may repeat.
    pub output_names: Vec<String>,
    /// Whether a table of the system catalogs is read: [`Self::catalog_tables`] is not empty.
    pub touches_catalog: bool,
    /// The tables of the system catalogs that are read, as schema and name.
    pub catalog_tables: BTreeSet<(&'static str, &'static str)>,
    /// What the text says about the types of parameters, by number: from casts and comparisons.
    pub parameter_types: BTreeMap<usize, PgType>,
}

/// Resolves names, expands `*`, and rewrites what DataFusion lacks or reads differently.
///
/// # Errors
/// Names that do not exist or are ambiguous, times that cannot be read, SQL that is not supported.
pub fn rewrite(
    query: ast::Statement,
    relations: &dyn Relations,
    session: &SessionInfo,
) -> Result<Rewritten, SqlError> {
    let ast::Statement::Query(mut query) = query else {
        return Err(SqlError::unsupported("this statement"));
    };
    let zone = session_zone(session)?;
    let mut rewriter = Rewriter {
        relations,
        clock: Clock { now_us: Some(session.now_us), zone },
        common_tables: Vec::new(),
        catalog_tables: BTreeSet::new(),
        parameter_types: BTreeMap::new(),
        references: 0,
        outer_references: 0,
        recursive_depth: 0,
        query_is_empty: false,
    };
    let outputs = rewriter.query(&mut query, None)?;
    Ok(Rewritten {
        statement: ast::Statement::Query(query),
        output_names: outputs.into_iter().map(|output| output.name).collect(),
        touches_catalog: !rewriter.catalog_tables.is_empty(),
        catalog_tables: rewriter.catalog_tables,
        parameter_types: rewriter.parameter_types,
    })
}

/// The time zone that a text names, as SHOW prints it; `None` when there is none.
pub fn canonical_time_zone(text: &str) -> Option<String> {
    Zone::parse(text).map(Zone::name)
}

/// The instant that a text names, in microseconds since 1970, as a literal of the statement would.
///
/// # Errors
/// When the text is no time.
pub fn parse_instant(text: &str, session: &SessionInfo) -> Result<i64, SqlError> {
    let clock = Clock { now_us: Some(session.now_us), zone: session_zone(session)? };
    crate::time::literal::instant_us(text, clock)
}

fn session_zone(session: &SessionInfo) -> Result<Zone, SqlError> {
    Zone::parse(&session.time_zone).ok_or_else(|| {
        let message = format!("time zone \"{}\" is not known", session.time_zone);
        SqlError::new(SqlErrorKind::InvalidParameter, message)
    })
}

/// The walk over one statement.
struct Rewriter<'a> {
    relations: &'a dyn Relations,
    clock: Clock,
    /// The WITH queries that are visible, innermost last.
    common_tables: Vec<CommonTable>,
    catalog_tables: BTreeSet<(&'static str, &'static str)>,
    parameter_types: BTreeMap<usize, PgType>,
    /// How many columns were resolved so far: an expression that raises it is not constant.
    references: usize,
    /// How many of them belonged to an enclosing query.
    outer_references: usize,
    /// How many first terms of recursive queries are being read.
    recursive_depth: usize,
    /// Whether the query that was rewritten last has no rows for certain.
    query_is_empty: bool,
}

/// A WITH query by its name.
#[derive(Debug, Clone)]
struct CommonTable {
    name: String,
    columns: Vec<Output>,
}

/// One output column of a query.
#[derive(Debug, Clone, PartialEq)]
struct Output {
    /// What people see.
    name: String,
    /// What the planner knows it by; unique in its query.
    internal: String,
    kind: Option<Kind>,
}

impl Rewriter<'_> {
    /// Whether the session shows times in UTC.
    fn is_utc(&self) -> bool {
        self.clock.zone.is_utc()
    }

    fn zone_name(&self) -> String {
        self.clock.zone.name()
    }
}
