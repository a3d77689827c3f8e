//! How names come in: the relations that a statement can see, described without saying where they
//! are stored. The engine implements [`Relations`] over one snapshot.

use datafusion::arrow::datatypes::DataType;

use crate::pg_type::PgType;

/// The relations of one snapshot. Names are exact: folding and the search without case happen in
/// this crate.
pub trait Relations: Send + Sync {
    /// The relation with exactly this name; without a schema, the one in `public`.
    fn relation(&self, schema: Option<&str>, name: &str) -> Option<Relation>;
    /// Every relation of every schema, without those of `pg_catalog` and `information_schema`.
    fn relations(&self) -> Vec<Relation>;
    /// The database of the connection.
    fn database(&self) -> &str;
    /// The user of the connection.
    fn user(&self) -> &str;
}

/// A topic or a system table.
#[derive(Debug, Clone, PartialEq)]
pub struct Relation {
    pub schema: String,
    pub name: String,
    /// The same on every connection and after every restart; at least [`FIRST_USER_OID`].
    pub oid: u32,
    pub kind: RelationKind,
    /// In the order of the catalogs.
    pub columns: Vec<RelationColumn>,
}

/// Object identifiers below this one belong to the system, as in PostgreSQL.
pub const FIRST_USER_OID: u32 = 16384;

/// What a relation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelationKind {
    /// A topic; `*` means the columns that are [`RelationColumn::in_star`].
    Topic,
    /// A table of the system; `*` means every column.
    System,
}

/// One column of a relation.
#[derive(Debug, Clone, PartialEq)]
pub struct RelationColumn {
    pub name: String,
    pub arrow_type: DataType,
    pub pg_type: PgType,
    pub nullable: bool,
    /// Whether `*` on a topic shows it.
    pub in_star: bool,
}

/// What a rewrite must know about the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    /// The session's time zone, as `SET TIME ZONE` stored it: an IANA name or an offset.
    pub time_zone: String,
    /// When the statement began, in microseconds since 1970 in UTC: what `'now'` and `'today'` mean.
    pub now_us: i64,
}

impl SessionInfo {
    /// A session in UTC.
    pub fn utc(now_us: i64) -> Self {
        Self { time_zone: "UTC".to_owned(), now_us }
    }
}
