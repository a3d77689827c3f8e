//! EXPLAIN: a plan as lines of text in one column, as PostgreSQL shows it.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::execute_stream;
use futures::StreamExt;
use strandline_sql::{ExplainDetail, ExplainMode};
use strandline_storage::seam::Clock;

use crate::error::EngineError;

use super::interruptible::interruptible;
use super::limits::StopFlag;

/// The lines of the plan; with `Analyze` the plan is run first and its rows are thrown away.
pub(crate) async fn explain(
    state: &SessionState,
    plan: &LogicalPlan,
    (mode, detail): (ExplainMode, ExplainDetail),
    (clock, flag): (&dyn Clock, &StopFlag),
) -> Result<RecordBatch, EngineError> {
    let started = clock.monotonic();
    let physical = state.create_physical_plan(plan).await?;
    let planned = clock.monotonic();
    let is_verbose = detail == ExplainDetail::Verbose;
    let mut lines: Vec<String> = Vec::new();
    match mode {
        ExplainMode::Plan => {
            let shown = DisplayableExecutionPlan::new(physical.as_ref()).indent(is_verbose).to_string();
            lines.extend(shown.lines().map(str::to_owned));
        }
        ExplainMode::Analyze => {
            let physical = interruptible(physical, flag)?;
            let mut batches = execute_stream(physical.clone(), state.task_ctx())?;
            let mut rows = 0;
            while let Some(batch) = batches.next().await {
                rows += batch?.num_rows();
            }
            let shown = match is_verbose {
                true => DisplayableExecutionPlan::with_full_metrics(physical.as_ref()),
                false => DisplayableExecutionPlan::with_metrics(physical.as_ref()),
            };
            lines.extend(shown.indent(is_verbose).to_string().lines().map(str::to_owned));
            lines.push(format!("Rows: {rows}"));
            lines.push(format!("Planning Time: {}", milliseconds(planned.saturating_sub(started))));
            let ended = clock.monotonic();
            lines.push(format!("Execution Time: {}", milliseconds(ended.saturating_sub(planned))));
        }
    }
    let schema = Schema::new(vec![Field::new("QUERY PLAN", DataType::Utf8, false)]);
    let lines = Arc::new(StringArray::from(lines));
    Ok(RecordBatch::try_new(Arc::new(schema), vec![lines])
        .map_err(datafusion::error::DataFusionError::from)?)
}

fn milliseconds(duration: Duration) -> String {
    format!("{:.3} ms", duration.as_secs_f64() * 1_000.0)
}
