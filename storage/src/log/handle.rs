//! `Log`: the handle that everybody holds, over all shards. One operation per method; the work is
//! elsewhere.
//!
//! Shard 0 decides which topics there are and keeps their schemas and the producer ids; a partition, a
//! group or a transactional id is in one shard, and what is asked of it goes there.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::future::{join_all, select_all, try_join_all};
use tokio::sync::watch;

use super::align::{adopt, align};
use super::all_shards::{check_placed, with_all_shards};
use super::append::{Appended, PartitionAppend};
use super::change;
use super::changes::Changes;
use super::config_change::ConfigChanges;
use super::error::{
    AddPartitionsError, AppendError, ChangeGroupError, CommitOffsetError, CreateTopicError,
    DeleteRecordsError, MaintenanceError, OpenError, PutSchemaError, TopicError, WriteError,
};
use super::group_change::{self, GroupChange};
use super::health::Health;
use super::keys::shard_of;
use super::maintenance::Request;
use super::placement::{ShardPart, by_shard, place_of};
use super::retry::Backoff;
use super::settings::LogSettings;
use super::shard::Shard;
use super::shared::Environment;
use super::snapshot::Snapshot;
use super::state::Topic;
use super::submit::{Checks, PendingAppend, submit};
use super::transactional_ids::{Decision, TransactionalIdView, update_job};
use super::transactions::{EndTransaction, EndedParts, EndedTransaction, TransactionPart};
use crate::ids::{ShardId, TopicId, TopicPartition};
use crate::object::{LogStore, StoreError};
use crate::seam::Seams;

/// More shards than this on one node serve nobody.
pub const SHARDS_MAX: u32 = 64;

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

/// What a log uses, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    pub tail_bytes: u64,
    pub cache_bytes: u64,
    /// Appended but not yet durable.
    pub pending_bytes: u64,
}

/// A log that is open. Copies share it.
#[derive(Clone, Debug)]
pub struct Log {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// By number; at least one.
    shards: Box<[Shard]>,
    environment: Environment,
    settings: LogSettings,
    checks: Checks,
    /// Somebody is about to bring the copies of topics in line.
    aligns: AtomicBool,
}

impl Log {
    /// Opens the log for writing: claims its shards, closes what older owners left, and recovers their
    /// state.
    ///
    /// # Errors
    /// A store that cannot be read, damage, a format of a newer version, or another owner.
    pub async fn open(
        store: Arc<dyn LogStore>,
        settings: LogSettings,
        seams: Seams,
    ) -> Result<Self, OpenError> {
        with_all_shards(store, settings, seams, Self::open_shards).await
    }

    /// Opens a log of which so many shards were found.
    async fn open_shards(
        store: Arc<dyn LogStore>,
        settings: LogSettings,
        seams: Seams,
        found: u32,
    ) -> Result<Self, OpenError> {
        let count = found.max(settings.shards.min(SHARDS_MAX));
        if count != settings.shards {
            tracing::info!(
                shards = count,
                asked_for = settings.shards,
                "the log has its own number of shards"
            );
        }
        let environment = Environment::new(store, settings.clone(), seams, count);
        let first = Shard::open(environment.clone(), ShardId(0)).await?;
        check_placed(&first, found)?;
        if count > 1 {
            // Of two processes that open at a time, the one that lost shard 0 leaves the others alone.
            first.check_still_owned().await?;
        }
        let others = (1..count).map(|shard| Shard::open(environment.clone(), ShardId(shard)));
        let others = try_join_all(others).await?;
        if count > 1 {
            first.check_still_owned().await?;
        }
        let log = Self::new([first].into_iter().chain(others).collect(), environment, settings);
        log.settle_topics().await.map_err(|error| log.not_aligned(&error))?;
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
        with_all_shards(store, settings, seams, Self::open_shards_read_only).await
    }

    async fn open_shards_read_only(
        store: Arc<dyn LogStore>,
        settings: LogSettings,
        seams: Seams,
        count: u32,
    ) -> Result<Self, OpenError> {
        let environment = Environment::new(store, settings.clone(), seams, count);
        // Shard 0 comes last: what it says of topics is then in all others, as far as it was acked.
        let others = (1..count).map(|shard| Shard::open_read_only(environment.clone(), ShardId(shard)));
        let others = try_join_all(others).await?;
        let first = Shard::open_read_only(environment.clone(), ShardId(0)).await?;
        check_placed(&first, count)?;
        Ok(Self::new([first].into_iter().chain(others).collect(), environment, settings))
    }

    fn new(shards: Box<[Shard]>, environment: Environment, settings: LogSettings) -> Self {
        environment.shards.set(shards.iter().map(|shard| &shard.shared));
        let (checks, aligns) = (Checks::default(), AtomicBool::default());
        Self { inner: Arc::new(Inner { shards, environment, settings, checks, aligns }) }
    }

    /// One consistent state of each shard. What was acked before is in it.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.inner.shards)
    }

    /// The same for ever, and for all processes on one store.
    pub fn cluster_id(&self) -> &str {
        &self.first().shared.cluster_id
    }

    /// Where the log is, as a person would write it: a directory or a URL.
    pub fn location(&self) -> &str {
        self.inner.environment.store.location()
    }

    pub fn seams(&self) -> &Seams {
        &self.inner.environment.seams
    }

    pub fn settings(&self) -> &LogSettings {
        &self.inner.settings
    }

    /// Checks batches and queues them; resolves when they are queued, and waits there while too many
    /// bytes are pending. Calls that are made one after the other keep their order per partition.
    /// Dropping the result does not take the batches back.
    pub async fn submit(&self, appends: Vec<PartitionAppend>) -> PendingAppend {
        submit(&self.inner.shards, &self.inner.checks, appends).await
    }

    /// Appends batches; resolves when each is durable or refused, in the order of the input.
    pub async fn append(&self, appends: Vec<PartitionAppend>) -> Vec<Result<Appended, AppendError>> {
        self.submit(appends).await.await
    }

    /// Creates a topic.
    pub async fn create_topic(&self, topic: CreateTopic) -> Result<Arc<Topic>, CreateTopicError> {
        let check = change::create_topic(topic, self.shard_count(), self.first().shared.clone());
        let id = self.first().change(check).await?;
        self.align_topic(id).await?;
        let created = self.snapshot().topic_by_id(id).cloned();
        // Only a deletion right after the creation can have taken it away.
        created.ok_or(CreateTopicError::Write(WriteError::Closed))
    }

    /// Whether a topic could be created, without creating it.
    pub fn check_create_topic(&self, topic: &CreateTopic) -> Result<(), CreateTopicError> {
        change::check_new_topic(topic, &self.first().shared.durable(), &self.inner.settings)
    }

    /// Deletes a topic with its records, committed offsets and schemas.
    pub async fn delete_topic(&self, topic_id: TopicId) -> Result<(), TopicError> {
        self.first().change(change::delete_topic(topic_id)).await?;
        Ok(self.align_topic(topic_id).await?)
    }

    /// Deletes the records of partitions below an offset, -1 for all; gives the log start of each.
    pub async fn delete_records(
        &self,
        before: Vec<(TopicPartition, i64)>,
    ) -> Result<Vec<Result<i64, DeleteRecordsError>>, WriteError> {
        let state = self.first().shared.durable();
        let mut results = vec![Ok(0); before.len()];
        let parts = by_shard(before.into_iter().enumerate(), |(id, _)| state.shard_of(*id));
        for (shard, ShardPart { places, items }) in parts {
            let shard = &self.inner.shards[shard.0 as usize];
            let deleted = shard.change(change::delete_records(items)).await?;
            places.into_iter().zip(deleted).for_each(|(place, result)| results[place] = result);
        }
        Ok(results)
    }

    /// Changes the configuration of a topic, from what it is when the change is committed.
    pub async fn alter_topic_config(
        &self,
        topic_id: TopicId,
        changes: ConfigChanges,
    ) -> Result<(), TopicError> {
        self.first().change(change::alter_topic_config(topic_id, changes)).await?;
        Ok(self.align_topic(topic_id).await?)
    }

    /// Gives a topic more partitions; `partition_count` is how many it then has.
    pub async fn add_partitions(
        &self,
        topic_id: TopicId,
        partition_count: i32,
    ) -> Result<(), AddPartitionsError> {
        let shared = self.first().shared.clone();
        let change = change::add_partitions(topic_id, partition_count, self.shard_count(), shared);
        self.first().change(change).await?;
        Ok(self.align_topic(topic_id).await?)
    }

    /// Whether a topic could have so many partitions, without adding any.
    pub fn check_add_partitions(
        &self,
        topic_id: TopicId,
        partition_count: i32,
    ) -> Result<(), AddPartitionsError> {
        let state = self.first().shared.durable();
        change::check_more_partitions(topic_id, partition_count, &state, &self.inner.settings).map(drop)
    }

    /// Commits offsets of a group, each accepted or refused for itself, all accepted ones together.
    pub async fn commit_offsets(
        &self,
        group: &str,
        offsets: Vec<OffsetCommit>,
    ) -> Result<Vec<Result<(), CommitOffsetError>>, WriteError> {
        self.group_shard(group).change(change::commit_offsets(group.to_owned(), offsets)).await
    }

    /// Forgets committed offsets of a group: those of some partitions, or all.
    pub async fn delete_group_offsets(
        &self,
        group: &str,
        partitions: Option<Vec<TopicPartition>>,
    ) -> Result<(), WriteError> {
        self.group_shard(group).change(change::delete_group_offsets(group.to_owned(), partitions)).await
    }

    /// Changes a group that has the expected revision (0: none yet); gives its revision after it.
    pub async fn change_group(
        &self,
        group: &str,
        expected_revision: u64,
        change: GroupChange,
    ) -> Result<u64, ChangeGroupError> {
        let change = group_change::change_group(group.to_owned(), expected_revision, change);
        self.group_shard(group).change(change).await
    }

    /// Gives out producer ids that were never given out before.
    pub async fn allocate_producer_ids(&self, count: u32) -> Result<Range<i64>, WriteError> {
        self.first().change(change::allocate_producer_ids(count)).await
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
        let change = change::put_schema(topic_id, kind.to_owned(), expected_version, bytes);
        self.first().change(change).await
    }

    /// Ends a transaction: writes its markers, and commits its offsets. What is in one shard becomes
    /// visible together.
    pub async fn end_transaction(&self, transaction: EndTransaction) -> Result<EndedTransaction, WriteError> {
        let state = self.first().shared.durable();
        let parts = transaction
            .split(|partition| state.shard_of(partition), |group| ShardId(self.group_place(group) as u32));
        let (mut all_places, mut commits) = (Vec::new(), Vec::new());
        for (shard, TransactionPart { transaction, places }) in parts {
            let shard = &self.inner.shards[shard.0 as usize];
            all_places.push(places);
            commits.push(shard.commit(|answer| transaction.into_job(answer)));
        }
        let mut ended = EndedParts::default();
        // Each is waited for, so that none is still to come when another one has failed.
        for (places, part) in all_places.into_iter().zip(join_all(commits).await) {
            ended.add(places, part?);
        }
        Ok(ended.into_whole())
    }

    /// Takes a decision about a transactional id and writes what it leads to, in one commit of the
    /// shard that the transactional id is in.
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
        let knows =
            |shard: usize| self.inner.shards[shard].shared.durable().transactional_ids.get(name).is_some();
        let place = place_of(name, self.inner.shards.len(), knows);
        let log = self.clone();
        let holds = move |group: &str| log.group_place(group) == place;
        self.inner.shards[place].commit(|answer| update_job(name.to_owned(), holds, decide, answer)).await
    }

    /// Wakes when something happens to one of these partitions. Register first and look at a
    /// snapshot then, and nothing is missed.
    pub fn changes(&self, partitions: &[TopicPartition]) -> Changes {
        self.inner.environment.changes.register(partitions)
    }

    /// Counts changes of topics, configs and schemas.
    pub fn topic_changes(&self) -> watch::Receiver<u64> {
        self.first().shared.topic_changes()
    }

    /// That of the shard that is worst off.
    pub fn health(&self) -> Health {
        let rank = |health: &Health| match health {
            Health::Serving => 0,
            Health::ReadOnly => 1,
            Health::Refusing { .. } => 2,
            Health::Closed => 3,
            Health::Fenced { .. } => 4,
            Health::Failed { .. } => 5,
        };
        let healths = self.inner.shards.iter().map(Shard::health);
        healths.max_by_key(rank).expect("a log has at least one shard")
    }

    /// Resolves when a shard takes no more writes, for good, with the reason.
    pub async fn stopped(&self) -> Health {
        let stopped = self.inner.shards.iter().map(|shard| Box::pin(shard.stopped()));
        select_all(stopped).await.0
    }

    pub fn stats(&self) -> LogStats {
        let Environment { pending, cache, .. } = &self.inner.environment;
        LogStats {
            tail_bytes: self.inner.shards.iter().map(|shard| shard.shared.reader.tail_bytes() as u64).sum(),
            cache_bytes: cache.bytes(),
            pending_bytes: (self.inner.settings.pending_bytes_max - pending.available_permits()) as u64,
        }
    }

    /// Compacts all of the WAL into segments, and merges what is due, now.
    pub async fn compact_now(&self) -> Result<(), MaintenanceError> {
        try_join_all(self.inner.shards.iter().map(|shard| shard.maintain(Request::Compact))).await.map(drop)
    }

    /// Writes a checkpoint now.
    pub async fn checkpoint_now(&self) -> Result<(), MaintenanceError> {
        try_join_all(self.inner.shards.iter().map(|shard| shard.maintain(Request::Checkpoint)))
            .await
            .map(drop)
    }

    /// Deletes now what may be deleted by now.
    pub async fn collect_now(&self) -> Result<(), MaintenanceError> {
        try_join_all(self.inner.shards.iter().map(|shard| shard.maintain(Request::Collect))).await.map(drop)
    }

    /// Refuses new writes, and resolves when what was pending is durable and a checkpoint of it is
    /// written, as far as the store lets it.
    pub async fn close(&self) {
        join_all(self.inner.shards.iter().map(Shard::close)).await;
    }

    pub(super) fn shard(&self, shard: ShardId) -> Option<&Shard> {
        self.inner.shards.get(shard.0 as usize)
    }

    pub(super) fn first(&self) -> &Shard {
        &self.inner.shards[0]
    }

    fn shard_count(&self) -> u32 {
        self.inner.shards.len() as u32
    }

    fn group_shard(&self, group: &str) -> &Shard {
        &self.inner.shards[self.group_place(group)]
    }

    fn group_place(&self, group: &str) -> usize {
        let knows = |shard: usize| self.inner.shards[shard].shared.durable().knows_group(group);
        place_of(group, self.inner.shards.len(), knows)
    }

    async fn align_topic(&self, topic_id: TopicId) -> Result<(), WriteError> {
        let aligned = self.align_topics(Some(vec![topic_id])).await;
        if aligned.is_err() {
            self.align_later();
        }
        aligned
    }

    /// Brings shard 0 and the copies of its topics in line, again when a shard has to open itself again.
    async fn settle_topics(&self) -> Result<(), WriteError> {
        let mut backoff = Backoff::new(&*self.inner.environment.seams.clock);
        loop {
            let settle = async {
                self.adopt_topics().await?;
                self.align_topics(None).await
            };
            match settle.await {
                Err(WriteError::Reopening { .. }) => backoff.wait().await,
                settled => return settled,
            }
        }
    }

    /// After a loss in shard 0 that an operator has accepted, copies may know more of topics than it does.
    async fn adopt_topics(&self) -> Result<(), WriteError> {
        let first = self.first();
        let is_of_first = |object: &String| shard_of(object) == Some(ShardId(0));
        if !self.inner.settings.accept_loss.iter().any(is_of_first) {
            return Ok(());
        }
        let copies = self.inner.shards[1..].iter().map(|shard| shard.shared.durable());
        first.change(adopt(copies.collect())).await
    }

    /// Brings the copies of topics in line with shard 0, of some or of all.
    async fn align_topics(&self, topics: Option<Vec<TopicId>>) -> Result<(), WriteError> {
        let first = &self.first().shared;
        let copies = self.inner.shards[1..].iter();
        let aligned = copies.map(|shard| shard.change(align(topics.clone(), first.clone())));
        try_join_all(aligned).await.map(drop)
    }

    /// A copy could not be changed: all are brought in line as soon as their shards take writes again.
    fn align_later(&self) {
        if self.inner.aligns.swap(true, Ordering::AcqRel) {
            return;
        }
        let log = self.clone();
        tokio::spawn(async move {
            let mut backoff = Backoff::new(&*log.inner.environment.seams.clock);
            while !log.health().is_stopped() {
                backoff.wait().await;
                log.inner.aligns.store(false, Ordering::Release);
                if log.align_topics(None).await.is_ok() {
                    return;
                }
                log.inner.aligns.store(true, Ordering::Release);
            }
        });
    }

    fn not_aligned(&self, error: &WriteError) -> OpenError {
        let location = self.inner.environment.store.location().to_owned();
        if let WriteError::Fenced { by } = error {
            return OpenError::Overtaken { location, by: by.clone() };
        }
        let (key, reason) = (self.first().shared.keys.epochs(), error.to_string());
        OpenError::Store { location, source: StoreError::Unavailable { key, reason } }
    }
}
