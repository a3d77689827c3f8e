//! Functions that tools call on the system catalogs and whose answers do not depend on a session.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, Int64Array, UInt32Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::exec_datafusion_err;
use datafusion::error::Result;

use super::REGTYPE_NAME;
use super::scalar::{Inputs, Scalar};
use super::session::{lists, text_list};
use crate::catalog;
use crate::pg_type::PgType;

/// Definitions and comments of objects of kinds that do not exist here.
const NULL_TEXTS: &[&str] = &[
    "col_description",
    "obj_description",
    "pg_get_constraintdef",
    "pg_get_expr",
    "pg_get_function_arguments",
    "pg_get_function_identity_arguments",
    "pg_get_function_result",
    "pg_get_functiondef",
    "pg_get_indexdef",
    "pg_get_partition_constraintdef",
    "pg_get_partkeydef",
    "pg_get_ruledef",
    "pg_get_serial_sequence",
    "pg_get_statisticsobjdef_columns",
    "pg_get_triggerdef",
    "pg_get_viewdef",
    "pg_tablespace_location",
    "shobj_description",
];

/// Until there are access rights everybody may do everything that is possible at all.
const TRUTHS: &[&str] = &[
    "has_any_column_privilege",
    "has_column_privilege",
    "has_database_privilege",
    "has_function_privilege",
    "has_schema_privilege",
    "has_table_privilege",
    "pg_collation_is_visible",
    "pg_function_is_visible",
    "pg_has_role",
    "pg_opclass_is_visible",
    "pg_operator_is_visible",
    "pg_type_is_visible",
];

const FALSEHOODS: &[&str] = &["pg_is_other_temp_schema", "pg_relation_is_publishable"];

/// The size of a table is not a number of bytes of this table alone.
const NULL_SIZES: &[&str] = &[
    "pg_database_size",
    "pg_indexes_size",
    "pg_relation_size",
    "pg_stat_get_numscans",
    "pg_table_size",
    "pg_total_relation_size",
];

const MANY: usize = 8;

pub(super) fn functions() -> Vec<Scalar> {
    let mut functions = vec![
        Scalar::text("format_type", (1, 2), |row| Ok(row.integer(0)?.map(format_type))),
        Scalar::text(REGTYPE_NAME, (1, 1), |row| Ok(row.integer(0)?.map(format_type))),
        Scalar::text("pg_encoding_to_char", (1, 1), |row| {
            Ok(row
                .integer(0)?
                .map(|encoding| if encoding == i64::from(catalog::UTF8) { "UTF8" } else { "" }.to_owned()))
        })
        .shown_as(PgType::Name),
        Scalar::text("pg_size_pretty", (1, 1), |row| Ok(row.integer(0)?.map(size_pretty))),
        Scalar::text("quote_ident", (1, 1), |row| Ok(row.text(0)?.map(quote_ident))),
        Scalar::text("quote_literal", (1, 1), |row| Ok(row.text(0)?.map(quote_literal))),
        Scalar::of_type("to_regtype", (1, 1), DataType::UInt32, to_regtype).shown_as(PgType::Regtype),
        Scalar::of_type("to_regnamespace", (1, 1), DataType::UInt32, to_regnamespace).shown_as(PgType::Oid),
        Scalar::of_type("parse_ident", (1, 2), text_list(), parse_ident),
        Scalar::of_type("array_upper", (2, 2), DataType::Int32, |inputs| array_bound(inputs, Bound::Upper)),
        Scalar::of_type("array_lower", (2, 2), DataType::Int32, |inputs| array_bound(inputs, Bound::Lower)),
    ];
    functions.extend(NULL_TEXTS.iter().map(|name| Scalar::text(name, (0, MANY), |_| Ok(None))));
    functions.extend(TRUTHS.iter().map(|name| boolean(name, true)));
    functions.extend(FALSEHOODS.iter().map(|name| boolean(name, false)));
    functions.extend(NULL_SIZES.iter().map(|name| {
        Scalar::of_type(name, (1, 2), DataType::Int64, |inputs| {
            Ok(Arc::new(Int64Array::new_null(inputs.rows().len())))
        })
    }));
    functions
}

fn boolean(name: &'static str, truth: bool) -> Scalar {
    Scalar::of_type(name, (0, MANY), DataType::Boolean, move |inputs| {
        Ok(Arc::new(BooleanArray::from(vec![truth; inputs.rows().len()])))
    })
}

fn format_type(oid: i64) -> String {
    match u32::try_from(oid).ok().and_then(PgType::from_oid) {
        Some(pg_type) => pg_type.display_name().to_owned(),
        None if oid == 0 => "-".to_owned(),
        None => "???".to_owned(),
    }
}

/// A number of bytes for people, with the steps and the rounding of PostgreSQL's function.
fn size_pretty(bytes: i64) -> String {
    const STEP_AT: u64 = 10 * 1024;
    if bytes.unsigned_abs() < STEP_AT {
        return format!("{bytes} bytes");
    }
    // One bit more than the unit shows is kept, to round by.
    let mut halves = bytes >> 9;
    let mut units = ["kB", "MB", "GB", "TB", "PB"].into_iter().peekable();
    loop {
        let unit = units.next().expect("the last unit ends the loop");
        if halves.unsigned_abs() < 2 * STEP_AT - 1 || units.peek().is_none() {
            return format!("{} {unit}", (halves + halves.signum()) / 2);
        }
        halves >>= 10;
    }
}

/// A name as it must be written: quoted unless it is a plain word in lower case that is no keyword.
pub(super) fn quote_ident(name: &str) -> String {
    let plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
        && !catalog::is_reserved(name);
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

fn quote_literal(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    if text.contains('\\') {
        format!(" E'{}'", doubled.replace('\\', "\\\\"))
    } else {
        format!("'{doubled}'")
    }
}

fn to_regtype(inputs: &Inputs) -> Result<ArrayRef> {
    let names = inputs.texts(0)?;
    let values = inputs.rows().map(|row| names.get(row).and_then(catalog::type_oid));
    Ok(Arc::new(values.collect::<UInt32Array>()))
}

fn to_regnamespace(inputs: &Inputs) -> Result<ArrayRef> {
    let names = inputs.texts(0)?;
    let values = inputs.rows().map(|row| names.get(row).and_then(catalog::namespace_oid));
    Ok(Arc::new(values.collect::<UInt32Array>()))
}

fn parse_ident(inputs: &Inputs) -> Result<ArrayRef> {
    let names = inputs.texts(0)?;
    lists(inputs.rows().map(|row| {
        let Some(name) = names.get(row) else { return Ok(None) };
        match catalog::split_name(name) {
            Some(parts) => Ok(Some(parts)),
            None => Err(exec_datafusion_err!("string is not a valid identifier: \"{name}\"")),
        }
    }))
}

#[derive(Clone, Copy)]
enum Bound {
    Lower,
    Upper,
}

/// The first or last index of a list; NULL for an empty one.
fn array_bound(inputs: &Inputs, bound: Bound) -> Result<ArrayRef> {
    let lists = inputs.array(0)?;
    let dimensions = inputs.integers(1)?;
    let values = inputs.rows().map(|row| {
        let index = inputs.row_of(0, row);
        if dimensions.get(row) != Some(1) || lists.is_null(index) {
            return None;
        }
        let length = lists.as_list_opt::<i32>().map_or(0, |lists| lists.value_length(index));
        match bound {
            _ if length == 0 => None,
            Bound::Lower => Some(1),
            Bound::Upper => Some(length),
        }
    });
    Ok(Arc::new(values.collect::<Int32Array>()))
}
