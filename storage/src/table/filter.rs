//! Filters made ready to run over decoded records, cheapest columns first, so that keys and values
//! are looked at only in records that passed on their time and place.

use std::sync::Arc;

use datafusion::arrow::array::{Array, BooleanArray};
use datafusion::arrow::compute::{and, prep_null_mask_filter};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;

use super::columns::SystemColumn;
use super::rows::RowSet;

/// What evaluating a filter takes, in the order of its price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Price {
    /// Time and place of the record.
    Place,
    /// Its key, value or headers as they came.
    Bytes,
    /// The decoded value.
    Payload,
}

impl Price {
    fn of_column(index: usize) -> Self {
        match SystemColumn::from_index(index) {
            None | Some(SystemColumn::Error) => Self::Payload,
            Some(column) if column.is_indexed() => Self::Place,
            Some(_) => Self::Bytes,
        }
    }

    fn of_filter(filter: &Arc<dyn PhysicalExpr>) -> Self {
        let columns = collect_columns(filter);
        columns.iter().map(|column| Self::of_column(column.index())).max().unwrap_or(Self::Place)
    }
}

/// Filters of one price, over a schema of their own columns.
#[derive(Clone, Debug)]
struct Stage {
    /// Positions in the table.
    columns: Vec<usize>,
    schema: SchemaRef,
    filters: Vec<Arc<dyn PhysicalExpr>>,
}

/// All filters of a scan.
#[derive(Clone, Debug, Default)]
pub(super) struct FilterProgram {
    stages: Vec<Stage>,
}

impl FilterProgram {
    /// `filters` are over the columns of the table.
    pub(super) fn new(filters: &[Arc<dyn PhysicalExpr>], table: &Schema) -> Result<Self> {
        let stages = [Price::Place, Price::Bytes, Price::Payload].map(|price| {
            let filters: Vec<_> =
                filters.iter().filter(|filter| Price::of_filter(filter) == price).cloned().collect();
            (!filters.is_empty()).then(|| Stage::new(&filters, table))
        });
        Ok(Self { stages: stages.into_iter().flatten().collect::<Result<_>>()? })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// Keeps the rows that pass every filter.
    pub(super) fn retain(&self, rows: &mut RowSet<'_>) -> Result<()> {
        for stage in &self.stages {
            if rows.is_empty() {
                return Ok(());
            }
            let mask = stage.evaluate(rows)?;
            rows.retain(&mask)?;
        }
        Ok(())
    }
}

impl Stage {
    fn new(filters: &[Arc<dyn PhysicalExpr>], table: &Schema) -> Result<Self> {
        let mut columns: Vec<_> =
            filters.iter().flat_map(collect_columns).map(|column| column.index()).collect();
        columns.sort_unstable();
        columns.dedup();
        let schema = Arc::new(table.project(&columns)?);
        let filters = filters.iter().map(|filter| move_columns(filter, &columns)).collect::<Result<_>>()?;
        Ok(Self { columns, schema, filters })
    }

    /// True for the rows that pass; a filter that is null does not let a row pass.
    fn evaluate(&self, rows: &mut RowSet<'_>) -> Result<BooleanArray> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let columns = rows.columns(&self.columns)?;
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        let mut mask: Option<BooleanArray> = None;
        for filter in &self.filters {
            let values = filter.evaluate(&batch)?.into_array(batch.num_rows())?;
            let values = as_boolean_array(&values)?;
            let passes = if values.null_count() > 0 { prep_null_mask_filter(values) } else { values.clone() };
            mask = Some(match mask {
                Some(mask) => and(&mask, &passes)?,
                None => passes,
            });
        }
        mask.ok_or_else(|| internal_datafusion_err!("a stage has a filter"))
    }
}

/// The same expression over the projection `columns` of what it was over.
fn move_columns(filter: &Arc<dyn PhysicalExpr>, columns: &[usize]) -> Result<Arc<dyn PhysicalExpr>> {
    map_columns(filter, |column| {
        let position = columns.binary_search(&column.index()).expect("the filter's columns were collected");
        Column::new(column.name(), position)
    })
}

/// The same expression with each column replaced.
pub(super) fn map_columns(
    expression: &Arc<dyn PhysicalExpr>,
    map: impl Fn(&Column) -> Column,
) -> Result<Arc<dyn PhysicalExpr>> {
    let replace = |node: Arc<dyn PhysicalExpr>| match node.downcast_ref::<Column>() {
        Some(column) => Ok(Transformed::yes(Arc::new(map(column)) as Arc<dyn PhysicalExpr>)),
        None => Ok(Transformed::no(node)),
    };
    expression.clone().transform_up(replace).data()
}
