//! The system catalogs, `pg_catalog` and `information_schema`, as Arrow batches made from the
//! relations of a snapshot.
//!
//! Invariant: object identifiers are the same on every connection and after every restart, and
//! those of PostgreSQL's own objects are PostgreSQL's.

mod batch;
mod definitions;
mod information_schema;
mod keywords;
mod pg_catalog;

use datafusion::arrow::record_batch::RecordBatch;

use crate::pg_type::PgType;
use crate::relations::Relations;

use batch::Record;
pub(crate) use keywords::is_reserved;

/// The schema of PostgreSQL's own objects.
const PG_CATALOG: u32 = 11;
const PUBLIC: u32 = 2200;
const INFORMATION_SCHEMA: u32 = 13_212;
const STRANDLINE: u32 = 13_213;
const INTERNAL: u32 = 13_214;

/// The schemas and their identifiers.
const NAMESPACES: &[(&str, u32)] = &[
    ("pg_catalog", PG_CATALOG),
    ("public", PUBLIC),
    ("information_schema", INFORMATION_SCHEMA),
    ("strandline", STRANDLINE),
    ("internal", INTERNAL),
];

/// The role that owns everything.
pub(crate) const OWNER_OID: u32 = 10;

/// The number of the encoding UTF8.
pub(crate) const UTF8: i32 = 6;

/// One table of the system catalogs, filled.
#[derive(Debug, Clone)]
pub struct CatalogTable {
    /// `pg_catalog` or `information_schema`.
    pub schema: &'static str,
    pub name: &'static str,
    pub batch: RecordBatch,
}

/// What a table of the system catalogs looks like.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) schema: &'static str,
    pub(crate) name: &'static str,
    oid: u32,
    pub(crate) columns: &'static [(&'static str, PgType)],
    /// `None` when there are no objects of this kind.
    rows: Option<fn(&dyn Relations) -> Vec<Record>>,
}

impl Definition {
    /// Whether the table never has rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_none()
    }

    fn fill(&self, relations: &dyn Relations) -> RecordBatch {
        let records = self.rows.map(|rows| rows(relations)).unwrap_or_default();
        batch::build(self.columns, &records)
    }
}

/// One table of the system catalogs, or `None` when there is no such table.
pub fn catalog_table(relations: &dyn Relations, schema: &str, name: &str) -> Option<RecordBatch> {
    definition(schema, name).map(|definition| definition.fill(relations))
}

/// Every table of the system catalogs.
pub fn catalog_tables(relations: &dyn Relations) -> Vec<CatalogTable> {
    definitions::all()
        .map(|definition| CatalogTable {
            schema: definition.schema,
            name: definition.name,
            batch: definition.fill(relations),
        })
        .collect()
}

pub(crate) fn definition(schema: &str, name: &str) -> Option<&'static Definition> {
    definitions::all().find(|definition| definition.name == name && definition.schema == schema)
}

pub(crate) fn namespace_oid(name: &str) -> Option<u32> {
    NAMESPACES.iter().find(|(other, _)| *other == name).map(|(_, oid)| *oid)
}

pub(crate) fn namespace_name(oid: i64) -> Option<String> {
    NAMESPACES.iter().find(|(_, other)| i64::from(*other) == oid).map(|(name, _)| (*name).to_owned())
}

/// The identifier of the type with this name.
pub(crate) fn type_oid(name: &str) -> Option<u32> {
    let name = name.trim();
    let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
    PgType::from_name(name.trim_matches('"')).map(PgType::oid)
}

/// The identifier of the relation that a text names, as `'t'::regclass` reads it.
pub(crate) fn relation_oid(relations: &dyn Relations, text: &str) -> Option<u32> {
    let parts = split_name(text)?;
    let (schema, name) = match parts.as_slice() {
        [name] => (None, name),
        [schema, name] => (Some(schema.as_str()), name),
        _ => return None,
    };
    definition(schema.unwrap_or("pg_catalog"), name)
        .map(|definition| definition.oid)
        .or_else(|| relations.relation(schema, name).map(|relation| relation.oid))
}

/// Every table of the catalogs: identifier, schema and name.
pub(crate) fn relation_names() -> impl Iterator<Item = (u32, (String, String))> {
    definitions::all()
        .map(|definition| (definition.oid, (definition.schema.to_owned(), definition.name.to_owned())))
}

/// The parts of a dotted name, folded unless they are quoted; `None` when it is no name.
pub(crate) fn split_name(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let (part, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_part(quoted)?,
            None => {
                let end = rest.find('.').unwrap_or(rest.len());
                (rest[..end].trim().to_lowercase(), &rest[end..])
            }
        };
        if part.is_empty() {
            return None;
        }
        parts.push(part);
        match after.trim_start().strip_prefix('.') {
            Some(next) => rest = next.trim_start(),
            None if after.trim().is_empty() => return Some(parts),
            None => return None,
        }
    }
}

fn quoted_part(text: &str) -> Option<(String, &str)> {
    let mut part = String::new();
    let mut characters = text.char_indices().peekable();
    while let Some((index, character)) = characters.next() {
        if character != '"' {
            part.push(character);
        } else if characters.next_if(|(_, next)| *next == '"').is_some() {
            part.push('"');
        } else {
            return Some((part, &text[index + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::relations::FIRST_USER_OID;

    #[test]
    fn names_are_split_as_regclass_reads_them() {
        let split = |text| split_name(text).map(|parts| parts.join("|"));
        assert_eq!(split("Logs").as_deref(), Some("logs"));
        assert_eq!(split("public.\"A.b\"").as_deref(), Some("public|A.b"));
        assert_eq!(split("\"a\"\"b\" . c").as_deref(), Some("a\"b|c"));
        assert_eq!(split("a..b"), None);
        assert_eq!(split("\"open"), None);
        assert_eq!(split("\"a\"b"), None);
    }

    #[test]
    fn every_object_of_the_system_has_an_identifier_of_its_own() {
        let mut seen = HashSet::new();
        for definition in definitions::all() {
            assert!(seen.insert(definition.oid), "{} shares its oid", definition.name);
            assert!(definition.oid < FIRST_USER_OID);
            let mut names = HashSet::new();
            assert!(definition.columns.iter().all(|(name, _)| names.insert(name)), "{}", definition.name);
        }
    }
}
