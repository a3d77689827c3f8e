//! The rows of `pg_catalog`.

use super::batch::{Cell, Record};
use super::{
    INFORMATION_SCHEMA, NAMESPACES, OWNER_OID, PG_CATALOG, PUBLIC, UTF8, definitions, namespace_oid,
};
use crate::pg_type::{PgType, TYPES};
use crate::relations::{Relation, Relations};

/// The access method of tables.
const HEAP: u32 = 2;
const DEFAULT_TABLESPACE: u32 = 1663;
/// The first attribute number of a user's column.
const FIRST_NUMBER: i32 = 1;
/// The sizes that PostgreSQL passes by value.
const BY_VALUE: [i16; 4] = [1, 2, 4, 8];

fn schema_oid(relation: &Relation) -> u32 {
    namespace_oid(&relation.schema).unwrap_or(PUBLIC)
}

pub(super) fn namespaces(_relations: &dyn Relations) -> Vec<Record> {
    let namespace = |(name, oid): &(&str, u32)| {
        vec![("oid", (*oid).into()), ("nspname", (*name).into()), ("nspowner", OWNER_OID.into())]
    };
    NAMESPACES.iter().map(namespace).collect()
}

pub(super) fn classes(relations: &dyn Relations) -> Vec<Record> {
    let own = relations.relations();
    let own = own.iter().map(|relation| {
        class(relation.oid, &relation.name, schema_oid(relation), "r", relation.columns.len())
    });
    let system = definitions::all().map(|definition| {
        let (namespace, kind) = match definition.schema {
            "pg_catalog" => (PG_CATALOG, "r"),
            _ => (INFORMATION_SCHEMA, "v"),
        };
        class(definition.oid, definition.name, namespace, kind, definition.columns.len())
    });
    own.chain(system).collect()
}

fn class(oid: u32, name: &str, namespace: u32, kind: &str, columns: usize) -> Record {
    vec![
        ("oid", oid.into()),
        ("relname", name.into()),
        ("relnamespace", namespace.into()),
        ("relowner", OWNER_OID.into()),
        ("relam", if kind == "r" { HEAP } else { 0 }.into()),
        ("relfilenode", oid.into()),
        // Not counted, as PostgreSQL says it.
        ("reltuples", (-1).into()),
        ("relpersistence", "p".into()),
        ("relkind", kind.into()),
        ("relnatts", i16::try_from(columns).unwrap_or(i16::MAX).into()),
        ("relispopulated", true.into()),
        ("relreplident", "d".into()),
    ]
}

pub(super) fn attributes(relations: &dyn Relations) -> Vec<Record> {
    let mut records = Vec::new();
    for relation in relations.relations() {
        for (number, column) in (FIRST_NUMBER..).zip(&relation.columns) {
            records.push(attribute(relation.oid, number, &column.name, column.pg_type, !column.nullable));
        }
    }
    for definition in definitions::all() {
        for (number, (name, pg_type)) in (FIRST_NUMBER..).zip(definition.columns) {
            records.push(attribute(definition.oid, number, name, *pg_type, false));
        }
    }
    records
}

fn attribute(relation: u32, number: i32, name: &str, pg_type: PgType, not_null: bool) -> Record {
    let dimensions = i16::from(pg_type.element().is_some());
    vec![
        ("attrelid", relation.into()),
        ("attname", name.into()),
        ("atttypid", pg_type.oid().into()),
        ("attlen", pg_type.size().into()),
        ("attnum", number.into()),
        ("attcacheoff", (-1).into()),
        ("atttypmod", (-1).into()),
        ("attndims", dimensions.into()),
        ("attbyval", BY_VALUE.contains(&pg_type.size()).into()),
        ("attalign", alignment(pg_type).into()),
        ("attstorage", storage(pg_type).into()),
        ("attnotnull", not_null.into()),
        ("attislocal", true.into()),
        ("attstattarget", (-1).into()),
    ]
}

fn alignment(pg_type: PgType) -> &'static str {
    match pg_type.size() {
        1 => "c",
        2 => "s",
        8 => "d",
        _ => "i",
    }
}

fn storage(pg_type: PgType) -> &'static str {
    if pg_type.size() < 0 { "x" } else { "p" }
}

pub(super) fn types(_relations: &dyn Relations) -> Vec<Record> {
    TYPES
        .iter()
        .map(|facts| {
            let pg_type = facts.kind;
            let function = |end: &str| Cell::from(format!("{}{end}", function_prefix(pg_type)));
            vec![
                ("oid", facts.oid.into()),
                ("typname", facts.name.into()),
                ("typnamespace", PG_CATALOG.into()),
                ("typowner", OWNER_OID.into()),
                ("typlen", facts.length.into()),
                ("typbyval", BY_VALUE.contains(&facts.length).into()),
                ("typtype", if matches!(facts.category, 'P' | 'X') { "p" } else { "b" }.into()),
                ("typcategory", facts.category.to_string().into()),
                ("typispreferred", is_preferred(pg_type).into()),
                ("typisdefined", true.into()),
                ("typdelim", ",".into()),
                ("typelem", facts.element.map_or(0, PgType::oid).into()),
                ("typarray", pg_type.array().map_or(0, PgType::oid).into()),
                ("typinput", function("in")),
                ("typoutput", function("out")),
                ("typreceive", function("recv")),
                ("typsend", function("send")),
                ("typalign", alignment(pg_type).into()),
                ("typstorage", storage(pg_type).into()),
                ("typtypmod", (-1).into()),
            ]
        })
        .collect()
}

/// How the functions of a type begin: `int8in`, but `date_in`.
fn function_prefix(pg_type: PgType) -> String {
    let facts = pg_type.facts();
    if facts.name.starts_with('_') {
        return "array_".to_owned();
    }
    let with_underscore = matches!(
        pg_type,
        PgType::Json
            | PgType::Date
            | PgType::Time
            | PgType::Timestamp
            | PgType::Timestamptz
            | PgType::Interval
            | PgType::Numeric
            | PgType::Uuid
            | PgType::Jsonb
            | PgType::Void
            | PgType::Record
    );
    format!("{}{}", facts.name, if with_underscore { "_" } else { "" })
}

/// The type of its category that others are turned into.
fn is_preferred(pg_type: PgType) -> bool {
    matches!(
        pg_type,
        PgType::Bool | PgType::Text | PgType::Oid | PgType::Float8 | PgType::Timestamptz | PgType::Interval
    )
}

pub(super) fn databases(relations: &dyn Relations) -> Vec<Record> {
    let mut names = vec!["strandline"];
    if relations.database() != "strandline" {
        names.push(relations.database());
    }
    // PostgreSQL's own first database has the number 5.
    (5_u32..)
        .zip(names)
        .map(|(oid, name)| {
            vec![
                ("oid", oid.into()),
                ("datname", name.into()),
                ("datdba", OWNER_OID.into()),
                ("encoding", UTF8.into()),
                ("datlocprovider", "c".into()),
                ("datallowconn", true.into()),
                ("datconnlimit", (-1).into()),
                ("dattablespace", DEFAULT_TABLESPACE.into()),
                ("datcollate", "C".into()),
                ("datctype", "C".into()),
            ]
        })
        .collect()
}

pub(super) fn roles(relations: &dyn Relations) -> Vec<Record> {
    vec![vec![
        ("oid", OWNER_OID.into()),
        ("rolname", relations.user().into()),
        ("rolsuper", true.into()),
        ("rolinherit", true.into()),
        ("rolcreaterole", true.into()),
        ("rolcreatedb", true.into()),
        ("rolcanlogin", true.into()),
        ("rolconnlimit", (-1).into()),
        ("rolpassword", "********".into()),
    ]]
}

pub(super) fn users(relations: &dyn Relations) -> Vec<Record> {
    vec![vec![
        ("usename", relations.user().into()),
        ("usesysid", OWNER_OID.into()),
        ("usecreatedb", true.into()),
        ("usesuper", true.into()),
        ("passwd", "********".into()),
    ]]
}

pub(super) fn access_methods(_relations: &dyn Relations) -> Vec<Record> {
    vec![vec![
        ("oid", HEAP.into()),
        ("amname", "heap".into()),
        ("amhandler", "heap_tableam_handler".into()),
        ("amtype", "t".into()),
    ]]
}

pub(super) fn tablespaces(_relations: &dyn Relations) -> Vec<Record> {
    vec![vec![
        ("oid", DEFAULT_TABLESPACE.into()),
        ("spcname", "pg_default".into()),
        ("spcowner", OWNER_OID.into()),
    ]]
}

pub(super) fn tables(relations: &dyn Relations) -> Vec<Record> {
    let own = relations.relations().into_iter().map(|relation| (relation.schema, relation.name));
    let system = definitions::all()
        .filter(|definition| definition.schema == "pg_catalog")
        .map(|definition| (definition.schema.to_owned(), definition.name.to_owned()));
    own.chain(system)
        .map(|(schema, name)| {
            vec![
                ("schemaname", schema.into()),
                ("tablename", name.into()),
                ("tableowner", relations.user().into()),
            ]
        })
        .collect()
}

pub(super) fn user_tables(relations: &dyn Relations) -> Vec<Record> {
    relations
        .relations()
        .into_iter()
        .map(|relation| {
            vec![
                ("relid", relation.oid.into()),
                ("schemaname", relation.schema.into()),
                ("relname", relation.name.into()),
                ("n_live_tup", Cell::Null),
            ]
        })
        .collect()
}

/// The constants that tools look up; settings that can change are shown by SHOW.
pub(super) fn settings(_relations: &dyn Relations) -> Vec<Record> {
    const CONSTANTS: &[(&str, &str, &str)] = &[
        ("block_size", "8192", "internal"),
        ("integer_datetimes", "on", "internal"),
        ("max_identifier_length", "63", "internal"),
        ("max_index_keys", "32", "internal"),
        ("server_encoding", "UTF8", "internal"),
        ("server_version", "16.6", "internal"),
        ("server_version_num", "160006", "internal"),
        ("standard_conforming_strings", "on", "user"),
    ];
    CONSTANTS
        .iter()
        .map(|(name, setting, context)| {
            vec![
                ("name", (*name).into()),
                ("setting", (*setting).into()),
                ("category", "Preset Options".into()),
                ("context", (*context).into()),
                ("vartype", "string".into()),
                ("source", "default".into()),
                ("boot_val", (*setting).into()),
                ("reset_val", (*setting).into()),
                ("sourceline", Cell::Null),
            ]
        })
        .collect()
}
