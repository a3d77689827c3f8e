//! `strandline.settings`: the settings of the session that asks.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::datatypes::Field;

use super::{SystemContext, text};

pub(super) fn fields() -> Vec<Field> {
    vec![text("name"), text("setting"), text("description")]
}

pub(super) fn rows(context: &SystemContext) -> Vec<ArrayRef> {
    let rows = &context.settings;
    vec![
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.name.as_str()))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.value.as_str()))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.description))),
    ]
}
