//! Questions of drivers about types that cannot be planned as they are written. Pure.
//!
//! asyncpg asks for the types that it has no codec for with a recursive query whose subqueries refer
//! to rows outside of them. Here it is asked in a way that can be planned and gives the same rows:
//! there are no domains, ranges or composite values, so a type leads to its element and no further.

use datafusion::sql::sqlparser::ast;
use strandline_sql::Statement;

use crate::error::{EngineError, ErrorKind};

/// The recursive table that asyncpg builds, and its columns.
const TABLE: &str = "typeinfo_tree";
const COLUMNS: [&str; 11] = [
    "oid",
    "ns",
    "name",
    "kind",
    "basetype",
    "elemtype",
    "elemdelim",
    "range_subtype",
    "attrtypoids",
    "attrnames",
    "depth",
];

/// The same question: the types themselves, then those of their elements.
const PLANNABLE: &str = "\
    SELECT t.oid, ns.nspname AS ns, t.typname AS name, t.typtype AS kind, NULL::oid AS basetype, \
           t.typelem AS elemtype, element.typdelim AS elemdelim, NULL::oid AS range_subtype, \
           NULL::text[] AS attrtypoids, NULL::text[] AS attrnames, 0 AS depth, \
           NULL::text AS basetype_name, t.typelem::regtype::text AS elemtype_name, \
           NULL::text AS range_subtype_name \
    FROM pg_catalog.pg_type t \
    JOIN pg_catalog.pg_namespace ns ON ns.oid = t.typnamespace \
    LEFT JOIN pg_catalog.pg_type element \
           ON t.typlen = -1 AND t.typelem <> 0 AND element.oid = t.typelem \
    WHERE t.typtype <> 'c' AND t.oid = ANY($1::oid[]) \
    UNION ALL \
    SELECT t.oid, ns.nspname, t.typname, t.typtype, NULL::oid, t.typelem, NULL, NULL::oid, \
           NULL::text[], NULL::text[], 1, NULL::text, t.typelem::regtype::text, NULL::text \
    FROM pg_catalog.pg_type t \
    JOIN pg_catalog.pg_namespace ns ON ns.oid = t.typnamespace \
    WHERE t.oid IN (SELECT a.typelem FROM pg_catalog.pg_type a \
                    WHERE a.typlen = -1 AND a.oid = ANY($1::oid[])) \
    ORDER BY depth DESC";

/// A statement to plan in the place of this one; `None` when it can be planned as it is.
///
/// # Errors
/// Never for the statements that are known here; a fault in this file would be one.
pub(super) fn plannable(statement: &ast::Statement) -> Result<Option<ast::Statement>, EngineError> {
    if !is_type_introspection(statement) {
        return Ok(None);
    }
    match strandline_sql::parse(PLANNABLE)?.pop().map(|parsed| parsed.statement) {
        Some(Statement::Query(query)) => Ok(Some(*query)),
        _ => Err(EngineError::new(ErrorKind::Internal, "the text in place of a driver's is no query")),
    }
}

fn is_type_introspection(statement: &ast::Statement) -> bool {
    let ast::Statement::Query(query) = statement else { return false };
    let Some(with) = &query.with else { return false };
    let [table] = with.cte_tables.as_slice() else { return false };
    let columns = table.alias.columns.iter().map(|column| column.name.value.as_str());
    with.recursive && table.alias.name.value == TABLE && columns.eq(COLUMNS)
}
