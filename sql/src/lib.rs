//! The SQL language of Strandline: PostgreSQL's dialect, turned into what the query engine plans.
//!
//! Text goes in through [`parse`], a statement for the planner and the names of its columns come
//! out of [`rewrite`]; [`register_functions`] and [`catalog_table`] supply the functions and the
//! system catalogs that such statements use.
//!
//! Invariant: this crate knows nothing of storage, sockets, files or the clock. Names and columns
//! come in through [`Relations`], the time of a statement through [`SessionInfo`].
//! Invariant: what is not supported is an error; no clause is dropped in silence.

mod catalog;
mod error;
mod functions;
mod parse;
mod pg_type;
mod relations;
mod rewrite;
mod statement;
mod time;

pub use catalog::{CatalogTable, catalog_table, catalog_tables};
pub use error::{SqlError, SqlErrorKind};
pub use functions::{FunctionContext, Settings, register_functions};
pub use parse::{CHAINED_CONDITIONS_MAX, CHAINED_OPERATORS_MAX, NESTING_MAX, SET_OPERATIONS_MAX, parse};
pub use pg_type::{PgType, TYPE_METADATA_KEY};
pub use relations::{FIRST_USER_OID, Relation, RelationColumn, RelationKind, Relations, SessionInfo};
pub use rewrite::{Rewritten, canonical_time_zone, parse_instant, rewrite};
pub use statement::{
    AccessMode, Explain, ExplainDetail, ExplainMode, Parsed, SetScope, Statement, Transaction,
    TransactionModes,
};
