//! One shard of a log that is open: the way to its committer, to its maintenance, and to its state.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::append::PreparedBatch;
use super::change;
use super::committer::{AppendJob, AppendResults, ChangeJob, Command, Committer, CommitterSettings};
use super::error::{MaintenanceError, OpenError, WriteError};
use super::health::Health;
use super::maintenance::{Maintainer, Request};
use super::open::{self, OpenOrder};
use super::shared::{Environment, Shared};
use crate::ids::ShardId;
use crate::object::StoreError;
use crate::telemetry::{self, AppendWait};

/// Commands that wait for the committer; beyond them, callers wait.
const QUEUE_LENGTH: usize = 4096;

/// Batches of at least as many bytes are worth a put of their own.
const LARGE_BYTES: usize = 256 * 1024;

/// A close waits for a checkpoint no longer than this: without it, the next open takes longer.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(10);

/// Copies share the shard.
#[derive(Clone, Debug)]
pub(super) struct Shard {
    pub(super) shared: Arc<Shared>,
    /// `None` in a log that was opened for reading only.
    writer: Option<Writer>,
}

#[derive(Clone, Debug)]
struct Writer {
    /// The one that the open claimed.
    epoch: u64,
    commands: mpsc::Sender<Command>,
    /// One permit per pending byte; all shards share them.
    pending: Arc<Semaphore>,
    maintenance: mpsc::Sender<Request>,
}

impl Shard {
    /// Opens the shard for writing: claims it, closes what older owners left, and recovers its state.
    pub(super) async fn open(environment: Environment, shard: ShardId) -> Result<Self, OpenError> {
        let Environment { store, settings, seams, pending, .. } = &environment;
        let opening = open::open(OpenOrder { store, shard, settings, seams, own_epoch: None }).await?;
        let epoch = opening.writer_epoch;
        let committer_settings = CommitterSettings {
            writer_epoch: epoch,
            linger: settings.linger.unwrap_or_else(|| store.linger_default()),
            puts_in_flight_max: settings.puts_in_flight_max,
            commit_bytes_max: settings.commit_bytes_max,
        };
        let state = opening.start.state.clone();
        let shared = Arc::new(Shared::new(&environment, shard, opening.cluster_id, state, Health::Serving));
        if let Some(root) = &opening.checkpoint {
            shared.set_checkpoint(root.position, root.append_time_ms);
        }
        let (commands, receiver) = mpsc::channel(QUEUE_LENGTH);
        let committer =
            Committer::new(committer_settings, shared.clone(), opening.putter, receiver, opening.start);
        tokio::spawn(committer.run());
        let (maintenance, requests) = mpsc::channel(1);
        let maintainer = Maintainer::new(shared.clone(), commands.downgrade(), requests, opening.checkpoint);
        match &settings.maintenance_runtime {
            Some(runtime) => runtime.spawn(maintainer.run()),
            None => tokio::spawn(maintainer.run()),
        };
        let pending = pending.clone();
        let opened = Self { shared, writer: Some(Writer { epoch, commands, pending, maintenance }) };
        if opening.passed_over_losses {
            // Later opens begin behind what was passed over.
            let written = opened.maintain(Request::Checkpoint).await;
            written.map_err(|error| opened.not_written(&error))?;
        }
        Ok(opened)
    }

    /// Opens the shard for reading only: claims nothing and writes nothing.
    pub(super) async fn open_read_only(environment: Environment, shard: ShardId) -> Result<Self, OpenError> {
        let Environment { store, settings, seams, .. } = &environment;
        let (cluster_id, state) = open::read_only(store, shard, settings, seams).await?;
        let shared = Shared::new(&environment, shard, cluster_id, state, Health::ReadOnly);
        let shared = Arc::new(shared);
        Ok(Self { shared, writer: None })
    }

    /// # Errors
    /// Another process has claimed the shard since this one opened it.
    pub(super) async fn check_still_owned(&self) -> Result<(), OpenError> {
        let Some(writer) = &self.writer else { return Ok(()) };
        open::check_still_newest(&self.shared, writer.epoch).await
    }

    /// Queues batches that were checked; waits while too many bytes are pending.
    pub(super) async fn enqueue(
        &self,
        batches: Vec<PreparedBatch>,
    ) -> Result<oneshot::Receiver<AppendResults>, WriteError> {
        let writer = self.writer()?;
        let bytes: usize = batches.iter().map(PreparedBatch::size_bytes).sum();
        self.shared.wait_for_compaction().await;
        let permit = writer.reserve(bytes, &self.shared).await?;
        let (reply, results) = oneshot::channel();
        let job = Command::Append(AppendJob { batches, reply, permit });
        writer.commands.send(job).await.map_err(|_| self.write_error())?;
        if bytes >= LARGE_BYTES {
            // The committer gets a turn before the caller looks for its next request: on few
            // processors all that a producer has in flight would otherwise become one object, and
            // no two puts would overlap.
            tokio::task::yield_now().await;
        }
        Ok(results)
    }

    pub(super) async fn change<T, E>(&self, change: change::Change<T, E>) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<WriteError> + Send + 'static,
    {
        self.commit(|answer| change.into_job(answer)).await
    }

    pub(super) async fn commit<T, E: From<WriteError>>(
        &self,
        job: impl FnOnce(oneshot::Sender<Result<T, E>>) -> ChangeJob,
    ) -> Result<T, E> {
        let writer = self.writer()?;
        let (answer, answered) = oneshot::channel();
        let job = job(answer);
        writer.commands.send(Command::Change(job)).await.map_err(|_| self.write_error())?;
        answered.await.map_err(|_| self.write_error())?
    }

    pub(super) async fn maintain<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, MaintenanceError>>) -> Request,
    ) -> Result<T, MaintenanceError> {
        let writer = self.writer()?;
        let (reply, answered) = oneshot::channel();
        writer.maintenance.send(request(reply)).await.map_err(|_| self.write_error())?;
        answered.await.map_err(|_| self.write_error())?
    }

    /// Refuses new writes, and resolves when what was pending is durable and a checkpoint of it is
    /// written, as far as the store lets it.
    pub(super) async fn close(&self) {
        let Some(writer) = &self.writer else { return };
        let (reply, ended) = oneshot::channel();
        if writer.maintenance.send(Request::Close(reply)).await.is_ok() {
            tokio::select! {
                // An error means that the task had ended for another reason.
                _ = ended => {}
                () = self.shared.seams.clock.sleep(CLOSE_WAIT_MAX) => {}
            }
        }
        let (reply, closed) = oneshot::channel();
        if writer.commands.send(Command::Close(reply)).await.is_ok() {
            // An error means that the committer had stopped for another reason.
            drop(closed.await);
        }
    }

    pub(super) fn health(&self) -> Health {
        self.shared.health().borrow().clone()
    }

    /// Resolves when nothing more can be written, with the reason.
    pub(super) async fn stopped(&self) -> Health {
        let mut health = self.shared.health();
        let stopped = health.wait_for(Health::is_stopped).await;
        stopped.map_or(Health::Closed, |health| health.clone())
    }

    fn not_written(&self, error: &MaintenanceError) -> OpenError {
        let location = self.shared.store.location().to_owned();
        let key = self.shared.keys.checkpoints();
        let reason = error.to_string();
        OpenError::Store { location, source: StoreError::Unavailable { key, reason } }
    }

    fn writer(&self) -> Result<&Writer, WriteError> {
        self.writer.as_ref().ok_or(WriteError::ReadOnly)
    }

    fn write_error(&self) -> WriteError {
        self.health().write_error()
    }
}

impl Writer {
    /// Waits until so many bytes may be pending, unless no appends are taken.
    async fn reserve(&self, bytes: usize, shared: &Shared) -> Result<OwnedSemaphorePermit, WriteError> {
        let mut health = shared.health();
        // One job may be larger than the whole budget: it then waits until nothing else is pending.
        let permits = u32::try_from(bytes.min(shared.settings.pending_bytes_max)).unwrap_or(u32::MAX);
        let refused = |health: &Health| health.is_refusing() || health.is_stopped();
        let has_to_wait = self.pending.available_permits() < permits as usize;
        let started = shared.seams.clock.monotonic();
        let reserved = tokio::select! {
            biased;
            refused = async { health.wait_for(refused).await.map(|health| health.write_error()) } => {
                Err(refused.unwrap_or(WriteError::Closed))
            }
            permit = self.pending.clone().acquire_many_owned(permits) => {
                Ok(permit.expect("the semaphore is never closed"))
            }
        };
        if has_to_wait {
            let took = shared.seams.clock.monotonic().saturating_sub(started);
            telemetry::append_waited(AppendWait::Pending, took);
        }
        reserved
    }
}
