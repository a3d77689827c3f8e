//! Runs a plan and hands out its rows.
//!
//! Invariants: rows wait in a channel of `BATCHES_IN_FLIGHT`, so a slow client slows the query and
//! fills no memory; dropping the stream stops the query; an error is the last item.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execute_stream;
use futures::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::engine::Engine;
use crate::error::{EngineError, ErrorKind};
use crate::queries::QueryEntry;
use crate::session::OutputColumn;
use crate::telemetry::{QueryOutcome, record};

use super::limits::Limits;

/// Batches that wait for the client.
const BATCHES_IN_FLIGHT: usize = 2;

/// The rows of a statement. Ends with the first error.
#[derive(Debug)]
pub struct RowStream {
    batches: mpsc::Receiver<Result<RecordBatch, EngineError>>,
    task: Option<JoinHandle<()>>,
}

impl RowStream {
    /// A stream of one batch that is there already.
    pub(crate) fn of_batch(batch: RecordBatch) -> Self {
        let (sender, batches) = mpsc::channel(1);
        sender.try_send(Ok(batch)).expect("a new channel has room for one");
        Self { batches, task: None }
    }
}

impl Stream for RowStream {
    type Item = Result<RecordBatch, EngineError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.batches.poll_recv(context)
    }
}

impl Drop for RowStream {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// A query that is ready to run.
pub(crate) struct RowJob {
    pub state: SessionState,
    pub plan: LogicalPlan,
    pub columns: Vec<OutputColumn>,
    pub limits: Limits,
    pub entry: QueryEntry,
}

/// Starts the query on the engine's runtime.
pub(crate) fn stream_rows(engine: &Arc<Engine>, job: RowJob) -> RowStream {
    let (sender, batches) = mpsc::channel(BATCHES_IN_FLIGHT);
    let task = engine.handle().spawn(produce(
        Running::new(engine.clone(), job.entry),
        job.state,
        Work { plan: job.plan, columns: job.columns, limits: job.limits, sender },
    ));
    RowStream { batches, task: Some(task) }
}

struct Work {
    plan: LogicalPlan,
    columns: Vec<OutputColumn>,
    limits: Limits,
    sender: mpsc::Sender<Result<RecordBatch, EngineError>>,
}

async fn produce(mut running: Running, state: SessionState, mut work: Work) {
    let schema = shown_schema(&work.columns);
    let rows = send_rows(&running, &state, &work.plan, &schema, &work.sender);
    let outcome = work.limits.run(rows).await;
    running.outcome = match &outcome {
        Ok(Sent::All) => QueryOutcome::Finished,
        Ok(Sent::NobodyListens) => QueryOutcome::Dropped,
        Err(error) => outcome_of(error.kind),
    };
    // Statistics are complete before the client can see the end.
    drop(running);
    if let Err(error) = outcome {
        // A client that is gone needs no error.
        let _ = work.sender.send(Err(error)).await;
    }
}

fn outcome_of(kind: ErrorKind) -> QueryOutcome {
    match kind {
        ErrorKind::Canceled => QueryOutcome::Canceled,
        ErrorKind::StatementTimeout => QueryOutcome::TimedOut,
        _ => QueryOutcome::Failed,
    }
}

enum Sent {
    All,
    NobodyListens,
}

async fn send_rows(
    running: &Running,
    state: &SessionState,
    plan: &LogicalPlan,
    schema: &SchemaRef,
    sender: &mpsc::Sender<Result<RecordBatch, EngineError>>,
) -> Result<Sent, EngineError> {
    let engine = &running.engine;
    let mut permit = engine.query_permit().await?;
    let physical = state.create_physical_plan(plan).await?;
    let mut batches = execute_stream(physical, state.task_ctx())?;
    while let Some(batch) = batches.next().await {
        let batch = as_described(batch?, schema)?;
        running.entry.add_rows(batch.num_rows());
        // While a client takes its time with the rows, another query may run.
        drop(permit);
        if sender.send(Ok(batch)).await.is_err() {
            return Ok(Sent::NobodyListens);
        }
        permit = engine.query_permit().await?;
    }
    drop(permit);
    Ok(Sent::All)
}

fn shown_schema(columns: &[OutputColumn]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(|column| column.field.clone()).collect::<Vec<_>>()))
}

/// The batch in the types that the client was told of; parameters can change those of a plan.
fn as_described(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, EngineError> {
    if batch.schema().fields() == schema.fields() {
        return Ok(batch);
    }
    let nullable = Schema::new(
        schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect::<Vec<_>>(),
    );
    let columns: Result<Vec<ArrayRef>, DataFusionError> = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| match column.data_type() == field.data_type() {
            true => Ok(column.clone()),
            false => Ok(cast(column, field.data_type())?),
        })
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let batch = RecordBatch::try_new_with_options(Arc::new(nullable), columns?, &options);
    Ok(batch.map_err(DataFusionError::from)?)
}

/// A statement that is listed as running; counted and logged when it ends, however it does.
struct Running {
    engine: Arc<Engine>,
    entry: QueryEntry,
    started: Duration,
    outcome: QueryOutcome,
}

impl Running {
    fn new(engine: Arc<Engine>, entry: QueryEntry) -> Self {
        let started = engine.clock().monotonic();
        Self { engine, entry, started, outcome: QueryOutcome::Dropped }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let elapsed = self.engine.clock().monotonic().saturating_sub(self.started);
        let slow = self.engine.settings.slow_query;
        record(&self.entry, self.outcome, elapsed, slow, &self.engine.scan_counters);
    }
}
