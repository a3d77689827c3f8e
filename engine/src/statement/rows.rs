//! Runs a plan and hands out its rows.
//!
//! Invariants: rows wait in a channel of `BATCHES_IN_FLIGHT`, so a slow client slows the query and
//! fills no memory; dropping the stream stops the query; an error is the last item; a statement that
//! has to stop gives its error at once, even while the query's threads are in the middle of a step.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execute_stream;
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::engine::Engine;
use crate::error::{EngineError, ErrorKind};
use crate::queries::QueryEntry;
use crate::session::OutputColumn;
use crate::telemetry::{QueryOutcome, record};

use super::interruptible::interruptible;
use super::limits::{Limits, StopFlag, StopReason};

/// Batches that wait for the client.
const BATCHES_IN_FLIGHT: usize = 2;

/// The rows of a statement. Ends with the first error.
pub struct RowStream {
    /// `None` after the end.
    batches: Option<mpsc::Receiver<Result<RecordBatch, EngineError>>>,
    query: Option<RunningTask>,
}

/// The task behind a stream, and what ends the wait for it.
struct RunningTask {
    task: JoinHandle<()>,
    flag: StopFlag,
    stopped: BoxFuture<'static, EngineError>,
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        self.flag.set(StopReason::Dropped);
        self.task.abort();
    }
}

impl fmt::Debug for RowStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowStream").field("batches", &self.batches).finish_non_exhaustive()
    }
}

impl RowStream {
    /// A stream of one batch that is there already.
    pub(crate) fn of_batch(batch: RecordBatch) -> Self {
        let (sender, batches) = mpsc::channel(1);
        sender.try_send(Ok(batch)).expect("a new channel has room for one");
        Self { batches: Some(batches), query: None }
    }
}

impl Stream for RowStream {
    type Item = Result<RecordBatch, EngineError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(batches) = &mut self.batches else { return Poll::Ready(None) };
        let received = batches.poll_recv(context);
        let item = match (received, &mut self.query) {
            (Poll::Pending, Some(query)) => Some(Err(ready!(query.stopped.poll_unpin(context)))),
            (received, _) => ready!(received),
        };
        if !matches!(item, Some(Ok(_))) {
            self.batches = None;
            self.query = None;
        }
        Poll::Ready(item)
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
    let flag = job.limits.flag().clone();
    let stopped = job.limits.clone().stopped().boxed();
    let task = engine.handle().spawn(produce(
        Running::new(engine.clone(), job.entry, flag.clone()),
        job.state,
        Work { plan: job.plan, columns: job.columns, limits: job.limits, sender },
    ));
    RowStream { batches: Some(batches), query: Some(RunningTask { task, flag, stopped }) }
}

struct Work {
    plan: LogicalPlan,
    columns: Vec<OutputColumn>,
    limits: Limits,
    sender: mpsc::Sender<Result<RecordBatch, EngineError>>,
}

async fn produce(mut running: Running, state: SessionState, work: Work) {
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
    let mut batches = execute_stream(interruptible(physical, &running.flag)?, state.task_ctx())?;
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
    flag: StopFlag,
}

impl Running {
    fn new(engine: Arc<Engine>, entry: QueryEntry, flag: StopFlag) -> Self {
        let started = engine.clock().monotonic();
        Self { engine, entry, started, outcome: QueryOutcome::Dropped, flag }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let elapsed = self.engine.clock().monotonic().saturating_sub(self.started);
        let slow = self.engine.settings.slow_query;
        if let (QueryOutcome::Dropped, Some(reason)) = (self.outcome, self.flag.reason()) {
            self.outcome = reason.outcome();
        }
        record(&self.entry, self.outcome, elapsed, slow, &self.engine.scan_counters);
    }
}
