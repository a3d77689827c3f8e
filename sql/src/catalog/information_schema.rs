//! The rows of `information_schema`, the part of the catalogs that the SQL standard names.

use super::batch::{Cell, Record};
use super::definitions;
use crate::pg_type::PgType;
use crate::relations::{RelationColumn, Relations};

pub(super) fn schemata(relations: &dyn Relations) -> Vec<Record> {
    super::NAMESPACES
        .iter()
        .map(|(name, _)| {
            vec![
                ("catalog_name", relations.database().into()),
                ("schema_name", (*name).into()),
                ("schema_owner", relations.user().into()),
            ]
        })
        .collect()
}

pub(super) fn tables(relations: &dyn Relations) -> Vec<Record> {
    let table = |schema: &str, name: &str, kind: &str| -> Record {
        vec![
            ("table_catalog", relations.database().into()),
            ("table_schema", schema.into()),
            ("table_name", name.into()),
            ("table_type", kind.into()),
            ("is_insertable_into", "NO".into()),
            ("is_typed", "NO".into()),
        ]
    };
    let own = relations.relations();
    let own = own.iter().map(|relation| table(&relation.schema, &relation.name, "BASE TABLE"));
    let system = definitions::all().map(|definition| {
        let kind = if definition.schema == "pg_catalog" { "BASE TABLE" } else { "VIEW" };
        table(definition.schema, definition.name, kind)
    });
    own.chain(system).collect()
}

pub(super) fn columns(relations: &dyn Relations) -> Vec<Record> {
    let mut records = Vec::new();
    for relation in relations.relations() {
        for (position, RelationColumn { name, pg_type, nullable, .. }) in (1_i32..).zip(&relation.columns) {
            let mut record = column(relations, position, name, *pg_type);
            record.push(("table_schema", relation.schema.as_str().into()));
            record.push(("table_name", relation.name.as_str().into()));
            record.push(("is_nullable", if *nullable { "YES" } else { "NO" }.into()));
            records.push(record);
        }
    }
    for definition in definitions::all() {
        for (position, (name, pg_type)) in (1_i32..).zip(definition.columns) {
            let mut record = column(relations, position, name, *pg_type);
            record.push(("table_schema", definition.schema.into()));
            record.push(("table_name", definition.name.into()));
            record.push(("is_nullable", "YES".into()));
            records.push(record);
        }
    }
    records
}

fn column(relations: &dyn Relations, position: i32, name: &str, pg_type: PgType) -> Record {
    let bits = match pg_type {
        PgType::Int2 => Some((16, 2)),
        PgType::Int4 => Some((32, 2)),
        PgType::Int8 => Some((64, 2)),
        PgType::Float4 => Some((24, 2)),
        PgType::Float8 => Some((53, 2)),
        _ => None,
    };
    let is_time =
        matches!(pg_type, PgType::Time | PgType::Timestamp | PgType::Timestamptz | PgType::Interval);
    let scale = matches!(pg_type, PgType::Int2 | PgType::Int4 | PgType::Int8).then_some(0);
    let time_precision = if is_time { Some(6) } else { (pg_type == PgType::Date).then_some(0) };
    let number = |value: Option<i32>| value.map_or(Cell::Null, Cell::from);
    vec![
        ("table_catalog", relations.database().into()),
        ("column_name", name.into()),
        ("ordinal_position", position.into()),
        ("data_type", data_type(pg_type).into()),
        ("character_maximum_length", Cell::Null),
        ("character_octet_length", Cell::Null),
        ("numeric_precision", number(bits.map(|(precision, _)| precision))),
        ("numeric_precision_radix", number(bits.map(|(_, radix)| radix))),
        ("numeric_scale", number(scale)),
        ("datetime_precision", number(time_precision)),
        ("interval_precision", Cell::Null),
        ("maximum_cardinality", Cell::Null),
        ("udt_catalog", relations.database().into()),
        ("udt_schema", "pg_catalog".into()),
        ("udt_name", pg_type.name().into()),
        ("dtd_identifier", position.to_string().into()),
        ("is_self_referencing", "NO".into()),
        ("is_identity", "NO".into()),
        ("identity_cycle", "NO".into()),
        ("is_generated", "NEVER".into()),
        ("is_updatable", "NO".into()),
    ]
}

fn data_type(pg_type: PgType) -> &'static str {
    if pg_type.element().is_some() { "ARRAY" } else { pg_type.display_name() }
}
