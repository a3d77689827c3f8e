//! SHOW: one setting, or all of them.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::Schema;
use datafusion::error::DataFusionError;

use crate::error::EngineError;
use crate::statement::RowStream;

use super::prepared::{Execution, OutputColumn, RowsTag};
use super::setting_table::find;
use super::settings::unknown;
use super::shared::SessionCore;

/// # Errors
/// When there is no such setting.
pub(super) fn columns(core: &SessionCore, name: &str) -> Result<Vec<OutputColumn>, EngineError> {
    if name == "all" {
        return Ok(["name", "setting", "description"].map(OutputColumn::text).into());
    }
    let shown = match find(name) {
        Some(spec) => spec.name,
        None if core.settings.get(name).is_some() => name,
        None => return Err(unknown(name)),
    };
    Ok(vec![OutputColumn::text(shown)])
}

pub(super) fn execute(core: &SessionCore, name: &str) -> Result<Execution, EngineError> {
    let columns = columns(core, name)?;
    let values: Vec<ArrayRef> = if name == "all" {
        let rows = core.settings.rows();
        vec![
            Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.name.as_str()))),
            Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.value.as_str()))),
            Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.description))),
        ]
    } else {
        let value = core.settings.get(name).ok_or_else(|| unknown(name))?;
        vec![Arc::new(StringArray::from(vec![value]))]
    };
    let schema = Schema::new(columns.iter().map(|column| column.field.clone()).collect::<Vec<_>>());
    let batch = RecordBatch::try_new(Arc::new(schema), values).map_err(DataFusionError::from)?;
    Ok(Execution::Rows {
        columns,
        stream: RowStream::of_batch(batch),
        tag: RowsTag::Show,
        notices: Vec::new(),
    })
}
