//! `Log`: the handle that everybody holds. One operation per method; the work is elsewhere.

use std::collections::BTreeMap;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use super::append::{Appended, PartitionAppend, PreparedBatch};
use super::change;
use super::changes::Changes;
use super::committer::{AppendJob, AppendResults, ChangeJob, Command, Committer, CommitterSettings};
use super::error::{
    AppendError, CommitOffsetError, CreateTopicError, DeleteRecordsError, MaintenanceError, OpenError,
    PutSchemaError, TopicError, WriteError,
};
use super::health::Health;
use super::maintenance::{Maintainer, Request};
use super::open;
use super::settings::LogSettings;
use super::shared::Shared;
use super::snapshot::Snapshot;
use super::state::Topic;
use super::transactional_ids::{Decision, TransactionalIdView, update_job};
use super::transactions::{EndTransaction, EndedTransaction};
use crate::format::{BatchHeader, Compression, DecompressionBudget};
use crate::ids::{TopicId, TopicPartition};
use crate::object::{LogStore, StoreError};
use crate::seam::Seams;

/// Commands that wait for the committer; beyond them, callers wait.
const QUEUE_LENGTH: usize = 4096;

/// A close waits for a checkpoint no longer than this: without it, the next open takes longer.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(10);

/// A new topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTopic {
    pub name: String,
    pub partitions: i32,
    pub configs: BTreeMap<String, String>,
}

/// An offset to commit for a consumer group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetCommit {
    pub topic_partition: TopicPartition,
    pub offset: i64,
    /// -1 if the client named none.
    pub leader_epoch: i32,
    pub metadata: Option<String>,
}

/// What a log uses, for metrics and system tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogStats {
    pub wal_objects: u64,
    pub wal_bytes: u64,
    pub tail_bytes: u64,
    pub cache_bytes: u64,
    pub cache_hits: u64,
    pub cache_misses: u64,
    /// Appended but not yet durable.
    pub pending_bytes: u64,
}

/// A log that is open. Copies share it.
#[derive(Clone, Debug)]
pub struct Log {
    shared: Arc<Shared>,
    /// `None` in a log that was opened for reading only.
    writer: Option<Writer>,
}

#[derive(Clone, Debug)]
struct Writer {
    commands: mpsc::Sender<Command>,
    /// One permit per pending byte.
    pending: Arc<Semaphore>,
    maintenance: mpsc::Sender<Request>,
}

impl Log {
    /// Opens the log for writing: claims it, closes what older owners left, and recovers its state.
    ///
    /// # Errors
    /// A store that cannot be read, damage, a format of a newer version, or another owner.
    pub async fn open(
        store: Arc<dyn LogStore>,
        settings: LogSettings,
        seams: Seams,
    ) -> Result<Self, OpenError> {
        let opening = open::open(&store, &settings, &seams).await?;
        let committer_settings = CommitterSettings {
            shard: settings.shard,
            writer_epoch: opening.writer_epoch,
            linger: settings.linger.unwrap_or_else(|| store.linger_default()),
            puts_in_flight_max: settings.puts_in_flight_max,
            commit_bytes_max: settings.commit_bytes_max,
        };
        let pending = Arc::new(Semaphore::new(settings.pending_bytes_max));
        let state = opening.start.state.clone();
        let shared = Arc::new(Shared::new(store, settings, seams, opening.cluster_id, state));
        if let Some(root) = &opening.checkpoint {
            shared.set_checkpoint(root.position, root.append_time_ms);
        }
        let (commands, receiver) = mpsc::channel(QUEUE_LENGTH);
        let committer =
            Committer::new(committer_settings, shared.clone(), opening.putter, receiver, opening.start);
        tokio::spawn(committer.run());
        let (maintenance, requests) = mpsc::channel(1);
        let maintainer = Maintainer::new(shared.clone(), commands.downgrade(), requests, opening.checkpoint);
        tokio::spawn(maintainer.run());
        let log = Self { shared, writer: Some(Writer { commands, pending, maintenance }) };
        if opening.passed_over_losses {
            // Later opens begin behind what was passed over.
            log.checkpoint_now().await.map_err(|error| log.not_written(&error))?;
        }
        Ok(log)
    }

    /// Opens the log for reading only: claims nothing and writes nothing. The state is that of now;
    /// open again for a newer one.
    ///
    /// # Errors
    /// As [`Self::open`], and when there is no log.
    pub async fn open_read_only(
        store: Arc<dyn LogStore>,
        settings: LogSettings,
        seams: Seams,
    ) -> Result<Self, OpenError> {
        let (cluster_id, state) = open::read_only(&store, &settings, &seams).await?;
        let shared = Arc::new(Shared::new(store, settings, seams, cluster_id, state));
        shared.set_health(Health::ReadOnly);
        Ok(Self { shared, writer: None })
    }

    /// One consistent state. What was acked before is in it.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.shared.durable(), self.shared.clone())
    }

    /// The same for ever, and for all processes on one store.
    pub fn cluster_id(&self) -> &str {
        &self.shared.cluster_id
    }

    pub fn seams(&self) -> &Seams {
        &self.shared.seams
    }

    pub fn settings(&self) -> &LogSettings {
        &self.shared.settings
    }

    /// Checks batches and queues them; resolves when they are queued, and waits there while too many
    /// bytes are pending. Calls that are made one after the other keep their order per partition.
    /// Dropping the result does not take the batches back.
    pub async fn submit(&self, appends: Vec<PartitionAppend>) -> PendingAppend {
        let bytes: usize = appends.iter().map(|append| append.batch.len()).sum();
        let count = appends.len();
        let batches = prepare(&self.shared, appends).await;
        if batches.iter().all(Result::is_err) {
            return PendingAppend::refused(
                batches.into_iter().map(|batch| batch.map(unreachable_batch)).collect(),
            );
        }
        match self.enqueue(bytes, batches).await {
            Ok(results) => PendingAppend(Pending::Queued { results, count }),
            Err(error) => {
                PendingAppend::refused((0..count).map(|_| Err(AppendError::Write(error.clone()))).collect())
            }
        }
    }

    /// Appends batches; resolves when each is durable or refused, in the order of the input.
    pub async fn append(&self, appends: Vec<PartitionAppend>) -> Vec<Result<Appended, AppendError>> {
        self.submit(appends).await.await
    }

    async fn enqueue(
        &self,
        bytes: usize,
        batches: Vec<Result<PreparedBatch, AppendError>>,
    ) -> Result<oneshot::Receiver<AppendResults>, WriteError> {
        let writer = self.writer()?;
        self.shared.wait_for_compaction().await;
        let permit = writer.reserve(bytes, &self.shared).await?;
        let (reply, results) = oneshot::channel();
        let job = Command::Append(AppendJob { batches, reply, permit });
        writer.commands.send(job).await.map_err(|_| self.write_error())?;
        Ok(results)
    }

    /// Creates a topic.
    pub async fn create_topic(&self, topic: CreateTopic) -> Result<Arc<Topic>, CreateTopicError> {
        let check = change::create_topic(topic, self.shared.clone());
        let id = self.change(check).await?;
        let created = self.snapshot().topic_by_id(id).cloned();
        // Only a deletion right after the creation can have taken it away.
        created.ok_or(CreateTopicError::Write(WriteError::Closed))
    }

    /// Whether a topic could be created, without creating it.
    pub fn check_create_topic(&self, topic: &CreateTopic) -> Result<(), CreateTopicError> {
        change::check_new_topic(topic, &self.shared.durable(), &self.shared.settings)
    }

    /// Deletes a topic with its records, committed offsets and schemas.
    pub async fn delete_topic(&self, topic_id: TopicId) -> Result<(), TopicError> {
        self.change(change::delete_topic(topic_id)).await
    }

    /// Deletes the records of partitions below an offset, -1 for all; gives the log start of each.
    pub async fn delete_records(
        &self,
        before: Vec<(TopicPartition, i64)>,
    ) -> Result<Vec<Result<i64, DeleteRecordsError>>, WriteError> {
        self.change(change::delete_records(before)).await
    }

    /// Changes configs of a topic; `None` resets one to its default.
    pub async fn set_topic_config(
        &self,
        topic_id: TopicId,
        changes: Vec<(String, Option<String>)>,
    ) -> Result<(), TopicError> {
        self.change(change::set_topic_config(topic_id, changes)).await
    }

    /// Commits offsets of a group, each accepted or refused for itself, all accepted ones together.
    pub async fn commit_offsets(
        &self,
        group: &str,
        offsets: Vec<OffsetCommit>,
    ) -> Result<Vec<Result<(), CommitOffsetError>>, WriteError> {
        self.change(change::commit_offsets(group.to_owned(), offsets)).await
    }

    /// Forgets committed offsets of a group: those of some partitions, or all.
    pub async fn delete_group_offsets(
        &self,
        group: &str,
        partitions: Option<Vec<TopicPartition>>,
    ) -> Result<(), WriteError> {
        self.change(change::delete_group_offsets(group.to_owned(), partitions)).await
    }

    /// Gives out producer ids that were never given out before.
    pub async fn allocate_producer_ids(&self, count: u32) -> Result<Range<i64>, WriteError> {
        self.change(change::allocate_producer_ids(count)).await
    }

    /// Stores opaque bytes about a topic if their version is still the expected one (0: none yet);
    /// gives the new version.
    pub async fn put_schema(
        &self,
        topic_id: TopicId,
        kind: &str,
        expected_version: u32,
        bytes: Bytes,
    ) -> Result<u32, PutSchemaError> {
        self.change(change::put_schema(topic_id, kind.to_owned(), expected_version, bytes)).await
    }

    /// Ends a transaction: writes its markers, and commits its offsets, in one commit.
    pub async fn end_transaction(&self, transaction: EndTransaction) -> Result<EndedTransaction, WriteError> {
        self.commit(|answer| transaction.into_job(answer)).await
    }

    /// Takes a decision about a transactional id and writes what it leads to, in one commit.
    ///
    /// # Errors
    /// What `decide` refuses; a log that does not take the decision.
    pub async fn update_transactional_id<T, E>(
        &self,
        name: &str,
        decide: impl FnOnce(&TransactionalIdView<'_>) -> Result<Decision<T>, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<WriteError> + Send + 'static,
    {
        self.commit(|answer| update_job(name.to_owned(), decide, answer)).await
    }

    async fn change<T, E>(&self, change: change::Change<T, E>) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<WriteError> + Send + 'static,
    {
        self.commit(|answer| change.into_job(answer)).await
    }

    async fn commit<T, E: From<WriteError>>(
        &self,
        job: impl FnOnce(oneshot::Sender<Result<T, E>>) -> ChangeJob,
    ) -> Result<T, E> {
        let writer = self.writer()?;
        let (answer, answered) = oneshot::channel();
        let job = job(answer);
        writer.commands.send(Command::Change(job)).await.map_err(|_| self.write_error())?;
        answered.await.map_err(|_| self.write_error())?
    }

    /// Wakes when something happens to one of these partitions. Register first and look at a
    /// snapshot then, and nothing is missed.
    pub fn changes(&self, partitions: &[TopicPartition]) -> Changes {
        self.shared.changes.register(partitions)
    }

    /// Counts changes of topics, configs and schemas.
    pub fn topic_changes(&self) -> watch::Receiver<u64> {
        self.shared.topic_changes()
    }

    pub fn health(&self) -> Health {
        self.shared.health().borrow().clone()
    }

    /// Resolves when nothing more can be written, with the reason.
    pub async fn stopped(&self) -> Health {
        let mut health = self.shared.health();
        let stopped = health.wait_for(Health::is_stopped).await;
        stopped.map_or(Health::Closed, |health| health.clone())
    }

    pub fn stats(&self) -> LogStats {
        let (state, reader) = (self.shared.durable(), &self.shared.reader);
        let pending_max = self.shared.settings.pending_bytes_max;
        let pending =
            self.writer.as_ref().map_or(0, |writer| pending_max - writer.pending.available_permits());
        LogStats {
            wal_objects: state.wal_objects,
            wal_bytes: state.wal_bytes,
            tail_bytes: reader.tail_bytes() as u64,
            cache_bytes: reader.cache().bytes(),
            cache_hits: reader.cache().hits(),
            cache_misses: reader.cache().misses(),
            pending_bytes: pending as u64,
        }
    }

    /// Compacts all of the WAL into segments, and merges what is due, now.
    pub async fn compact_now(&self) -> Result<(), MaintenanceError> {
        self.maintain(Request::Compact).await
    }

    /// Writes a checkpoint now.
    pub async fn checkpoint_now(&self) -> Result<(), MaintenanceError> {
        self.maintain(Request::Checkpoint).await
    }

    /// Deletes now what may be deleted by now.
    pub async fn collect_now(&self) -> Result<(), MaintenanceError> {
        self.maintain(Request::Collect).await
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
    pub async fn close(&self) {
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
        tokio::select! {
            biased;
            refused = async { health.wait_for(refused).await.map(|health| health.write_error()) } => {
                Err(refused.unwrap_or(WriteError::Closed))
            }
            permit = self.pending.clone().acquire_many_owned(permits) => {
                Ok(permit.expect("the semaphore is never closed"))
            }
        }
    }
}

/// Checks batches against the configuration of their topics. Work that would keep other tasks from
/// running for long goes to a thread of its own.
async fn prepare(
    shared: &Arc<Shared>,
    appends: Vec<PartitionAppend>,
) -> Vec<Result<PreparedBatch, AppendError>> {
    if !takes_long(&appends) {
        return check_all(shared, appends);
    }
    let permit = shared.long_checks.acquire().await.expect("the semaphore is never closed");
    let shared = shared.clone();
    let checked = tokio::task::spawn_blocking(move || check_all(&shared, appends)).await;
    drop(permit);
    checked.expect("checks do not panic, and nobody cancels them")
}

/// What batches decompress to is known only afterwards, so a small compressed one may be much work.
fn takes_long(appends: &[PartitionAppend]) -> bool {
    const COMPRESSED_BYTES: usize = 16 * 1024;
    const PLAIN_BYTES: usize = 1024 * 1024;
    let (mut compressed, mut plain) = (0, 0);
    for PartitionAppend { batch, .. } in appends {
        let header = BatchHeader::parse(batch);
        match header.and_then(|header| header.compression()) {
            Ok(Compression::None) | Err(_) => plain += batch.len(),
            Ok(_) => compressed += batch.len(),
        }
    }
    compressed > COMPRESSED_BYTES || plain > PLAIN_BYTES
}

/// All batches of one request share one budget of decompressed bytes.
fn check_all(shared: &Shared, appends: Vec<PartitionAppend>) -> Vec<Result<PreparedBatch, AppendError>> {
    let state = shared.durable();
    let now_ms = shared.seams.clock.now_ms();
    let mut budget = DecompressionBudget::new(shared.settings.decompressed_bytes_max);
    let check = |append: PartitionAppend| {
        let unknown = AppendError::UnknownTopicPartition(append.topic_partition);
        let topic = state.topics.get(&append.topic_partition.topic_id).ok_or(unknown)?;
        PreparedBatch::check(append, &topic.config, now_ms, &mut budget)
    };
    appends.into_iter().map(check).collect()
}

fn unreachable_batch(_: PreparedBatch) -> Appended {
    unreachable!("only refused batches are answered without the queue")
}

/// Resolves when the batches of one [`Log::submit`] are durable or refused, in their order.
#[derive(Debug)]
pub struct PendingAppend(Pending);

#[derive(Debug)]
enum Pending {
    Refused(Option<AppendResults>),
    Queued { results: oneshot::Receiver<AppendResults>, count: usize },
}

impl PendingAppend {
    fn refused(results: AppendResults) -> Self {
        Self(Pending::Refused(Some(results)))
    }
}

impl Future for PendingAppend {
    type Output = Vec<Result<Appended, AppendError>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Pending::Refused(results) => {
                Poll::Ready(results.take().expect("a future is not polled after it resolved"))
            }
            Pending::Queued { results, count } => Pin::new(results).poll(context).map(|results| {
                let stopped = || (0..*count).map(|_| Err(AppendError::Write(WriteError::Closed))).collect();
                results.unwrap_or_else(|_| stopped())
            }),
        }
    }
}
