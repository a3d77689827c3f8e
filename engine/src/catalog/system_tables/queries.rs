//! `strandline.queries`: the statements that run now, the asking one included.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int32Array, Int64Array, StringArray};
use datafusion::arrow::datatypes::Field;

use strandline_sql::Relations;

use super::{SystemContext, bigint, count, integer, text, time, times};
use crate::queries::QueryRow;

/// In the place of what others run, as PostgreSQL has it.
const HIDDEN_TEXT: &str = "<insufficient privilege>";

pub(super) fn fields() -> Vec<Field> {
    vec![
        bigint("query_id"),
        integer("process_id"),
        text("user"),
        text("application_name"),
        time("started_at"),
        bigint("rows"),
        text("query"),
    ]
}

pub(super) fn rows(context: &SystemContext) -> Vec<ArrayRef> {
    let relations = &context.relations;
    let shows_all = relations.grants().shows_everything();
    let shown_text = |row: &QueryRow| match shows_all || row.description.user == relations.user() {
        true => row.description.text.clone(),
        false => HIDDEN_TEXT.to_owned(),
    };
    let rows = context.queries.list();
    vec![
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| count(row.id)))),
        Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.description.process_id))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.description.user.as_str()))),
        Arc::new(StringArray::from_iter_values(
            rows.iter().map(|row| row.description.application_name.as_str()),
        )),
        times(rows.iter().map(|row| row.description.started_at_ms)),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| count(row.rows)))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(shown_text))),
    ]
}
