//! Functions about the session: who, where, and its settings.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray, Int32Array, ListArray, StringArray};
use datafusion::arrow::datatypes::{DataType, Int32Type};
use datafusion::common::{exec_datafusion_err, exec_err};
use datafusion::error::Result;

use super::FunctionContext;
use super::scalar::{Inputs, Scalar};
use crate::pg_type::PgType;
use crate::statement::SetScope;

pub(super) fn functions(context: &FunctionContext) -> Vec<Scalar> {
    let mut functions = vec![
        constant("version", &context.version, PgType::Text),
        constant("current_schema", "public", PgType::Name),
        constant("pg_client_encoding", "UTF8", PgType::Name),
        Scalar::of_type("pg_is_in_recovery", (0, 0), DataType::Boolean, |_| {
            Ok(Arc::new(BooleanArray::from(vec![false])))
        })
        .stable(),
        // Nothing is ever locked, so that there is nothing to unlock.
        Scalar::text("pg_advisory_unlock_all", (0, 0), |_| Ok(Some(String::new())))
            .shown_as(PgType::Void)
            .stable(),
        Scalar::of_type("current_schemas", (1, 1), text_list(), current_schemas).stable(),
        current_setting(context),
        set_config(context),
    ];
    for name in ["current_database", "current_catalog"] {
        functions.push(constant(name, &context.database, PgType::Name));
    }
    for name in ["current_user", "session_user", "user", "current_role"] {
        functions.push(constant(name, &context.user, PgType::Name));
    }
    let process_id = context.process_id;
    functions.push(
        Scalar::of_type("pg_backend_pid", (0, 0), DataType::Int32, move |_| {
            Ok(Arc::new(Int32Array::from(vec![process_id])))
        })
        .stable(),
    );
    functions
}

fn constant(name: &'static str, value: &str, pg_type: PgType) -> Scalar {
    let value = value.to_owned();
    Scalar::text(name, (0, 0), move |_| Ok(Some(value.clone()))).shown_as(pg_type).stable()
}

pub(super) fn text_list() -> DataType {
    DataType::new_list(DataType::Utf8, true)
}

/// A list of texts for every row.
pub(super) fn lists(rows: impl Iterator<Item = Result<Option<Vec<String>>>>) -> Result<ArrayRef> {
    let mut builder =
        datafusion::arrow::array::ListBuilder::new(datafusion::arrow::array::StringBuilder::new());
    for row in rows {
        builder.append_option(row?.map(|values| values.into_iter().map(Some)));
    }
    let list: ListArray = builder.finish();
    Ok(Arc::new(list))
}

fn current_schemas(inputs: &Inputs) -> Result<ArrayRef> {
    let implicit = inputs.cast(0, &DataType::Boolean)?;
    let implicit = implicit.as_boolean();
    lists(inputs.rows().map(|row| {
        let all = implicit.value(inputs.row_of(0, row));
        let schemas: &[&str] = if all { &["pg_catalog", "public"] } else { &["public"] };
        Ok(Some(schemas.iter().map(|schema| (*schema).to_owned()).collect()))
    }))
}

fn current_setting(context: &FunctionContext) -> Scalar {
    let settings = Arc::clone(&context.settings);
    Scalar::of_type("current_setting", (1, 2), DataType::Utf8, move |inputs| {
        let names = inputs.texts(0)?;
        let missing_is_null = inputs.count() > 1 && truth(inputs, 1)?;
        let values = inputs.rows().map(|row| {
            let Some(name) = names.get(row) else { return Ok(None) };
            let value = settings.setting(&name.to_ascii_lowercase());
            if value.is_none() && !missing_is_null {
                return exec_err!("unrecognized configuration parameter \"{name}\"");
            }
            Ok(value)
        });
        Ok(Arc::new(values.collect::<Result<StringArray>>()?))
    })
    .stable()
}

fn set_config(context: &FunctionContext) -> Scalar {
    let settings = Arc::clone(&context.settings);
    Scalar::of_type("set_config", (3, 3), DataType::Utf8, move |inputs| {
        let (names, values) = (inputs.texts(0)?, inputs.texts(1)?);
        let scope = if truth(inputs, 2)? { SetScope::Local } else { SetScope::Session };
        let answers = inputs.rows().map(|row| {
            let (Some(name), Some(value)) = (names.get(row), values.get(row)) else { return Ok(None) };
            settings
                .set(&name.to_ascii_lowercase(), value, scope)
                .map(Some)
                .map_err(|error| exec_datafusion_err!("{error}"))
        });
        Ok(Arc::new(answers.collect::<Result<StringArray>>()?))
    })
    .volatile()
}

/// The truth of an argument that is a constant.
fn truth(inputs: &Inputs, index: usize) -> Result<bool> {
    let numbers = inputs.cast(index, &DataType::Int32)?;
    Ok(numbers.as_primitive::<Int32Type>().iter().next().flatten().unwrap_or(0) != 0)
}
