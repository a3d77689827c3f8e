//! What names a statement can use: topics, the system tables of schema `strandline`, and the
//! catalogs that the sql crate makes.
//!
//! Invariant: everything here is over one snapshot and one set of columns, so a statement that looks
//! a name up twice finds the same twice. A topic that the session may not describe is in none of it.

mod oid;
mod providers;
mod relations;
pub mod system_tables;

pub use providers::StatementCatalogs;
pub use relations::{Asker, KnownColumns, StatementRelations, pg_type};

/// The one database; `postgres` is another name for it.
pub const DATABASE: &str = "strandline";
/// Names that a client may give the database.
pub const DATABASE_NAMES: [&str; 2] = [DATABASE, "postgres"];
/// The schema of topics.
pub const PUBLIC_SCHEMA: &str = "public";
/// The schema of topics whose names begin with two underscores.
pub const INTERNAL_SCHEMA: &str = "internal";
/// The schema of system tables.
pub const SYSTEM_SCHEMA: &str = "strandline";

/// The schema that a topic is shown in.
pub fn schema_of_topic(name: &str) -> &'static str {
    if name.starts_with("__") { INTERNAL_SCHEMA } else { PUBLIC_SCHEMA }
}
