//! Functions between names and object identifiers of the relations of a snapshot.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::{ArrayRef, BooleanArray, UInt32Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::exec_err;
use datafusion::error::Result;

use super::scalar::{Inputs, Scalar};
use super::{FunctionContext, NAMESPACE_NAME, REGCLASS, REGCLASS_NAME};
use crate::catalog;
use crate::pg_type::PgType;
use crate::relations::Relations;

pub(super) fn functions(context: &FunctionContext) -> Vec<Scalar> {
    let directory =
        Arc::new(Directory { relations: Arc::clone(&context.relations), by_oid: OnceLock::new() });
    let (names, visible) = (Arc::clone(&directory), Arc::clone(&directory));
    let user = context.user.clone();
    vec![
        regclass(REGCLASS, Missing::Error, &directory),
        regclass("to_regclass", Missing::Null, &directory),
        Scalar::text(REGCLASS_NAME, (1, 1), move |row| Ok(row.integer(0)?.map(|oid| names.shown(oid))))
            .stable(),
        Scalar::text(NAMESPACE_NAME, (1, 1), |row| {
            Ok(row.integer(0)?.map(|oid| catalog::namespace_name(oid).unwrap_or_else(|| oid.to_string())))
        })
        .stable(),
        Scalar::of_type("pg_table_is_visible", (1, 1), DataType::Boolean, move |inputs| {
            let oids = inputs.integers(0)?;
            let values = inputs.rows().map(|row| oids.get(row).map(|oid| visible.is_visible(oid)));
            Ok(Arc::new(values.collect::<BooleanArray>()))
        })
        .stable(),
        Scalar::text("pg_get_userbyid", (1, 1), move |row| Ok(row.integer(0)?.map(|_| user.clone())))
            .shown_as(PgType::Name)
            .stable(),
    ]
}

/// What a name that does not exist gives.
#[derive(Clone, Copy)]
enum Missing {
    Error,
    Null,
}

fn regclass(name: &'static str, missing: Missing, directory: &Arc<Directory>) -> Scalar {
    let directory = Arc::clone(directory);
    Scalar::of_type(name, (1, 1), DataType::UInt32, move |inputs| directory.oids(inputs, missing))
        .shown_as(PgType::Regclass)
        .stable()
}

/// The relations, indexed when first asked.
struct Directory {
    relations: Arc<dyn Relations>,
    by_oid: OnceLock<HashMap<u32, (String, String)>>,
}

impl Directory {
    fn oids(&self, inputs: &Inputs, missing: Missing) -> Result<ArrayRef> {
        let names = inputs.texts(0)?;
        let values = inputs.rows().map(|row| {
            let Some(name) = names.get(row) else { return Ok(None) };
            let oid =
                name.trim().parse().ok().or_else(|| catalog::relation_oid(self.relations.as_ref(), name));
            match (oid, missing) {
                (None, Missing::Error) => exec_err!("relation \"{name}\" does not exist"),
                (oid, _) => Ok(oid),
            }
        });
        Ok(Arc::new(values.collect::<Result<UInt32Array>>()?))
    }

    fn find(&self, oid: i64) -> Option<&(String, String)> {
        let by_oid = self.by_oid.get_or_init(|| {
            let own = self.relations.relations().into_iter();
            let own = own.map(|relation| (relation.oid, (relation.schema, relation.name)));
            own.chain(catalog::relation_names()).collect()
        });
        by_oid.get(&u32::try_from(oid).ok()?)
    }

    /// The name as it must be written, with its schema unless that is searched.
    fn shown(&self, oid: i64) -> String {
        match self.find(oid) {
            None => oid.to_string(),
            Some((schema, name)) if is_searched(schema) => super::catalog::quote_ident(name),
            Some((schema, name)) => {
                format!("{}.{}", super::catalog::quote_ident(schema), super::catalog::quote_ident(name))
            }
        }
    }

    fn is_visible(&self, oid: i64) -> bool {
        self.find(oid).is_some_and(|(schema, _)| is_searched(schema))
    }
}

fn is_searched(schema: &str) -> bool {
    matches!(schema, "public" | "pg_catalog")
}
