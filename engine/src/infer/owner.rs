//! Inference by the owner of the shard: a background task observes records as they arrive and pins
//! what it finds in the log.
//!
//! Invariants: the task sleeps until the log says that something changed; it never polls. Columns are
//! stored before they are published, and progress is stored with them, so a restart observes at most
//! the last `PROGRESS_RECORDS_MAX` records or `PROGRESS_AGE_MAX` again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use strandline_storage::ids::{TopicId, TopicPartition};
use strandline_storage::log::{Log, PutSchemaError, Snapshot, Topic};
use tokio::sync::watch;

use super::columns::{ColumnsOrigin, TopicColumns, needs_inference};
use super::encoding::{self, SCHEMA_KIND};
use super::reader::{is_behind, observe_step};
use super::topic::TopicInference;

/// Records after which a topic's columns count as known: queries wait for no more.
pub const PREPARE_RECORDS_MAX: u64 = 10_000;
/// Records observed since progress was stored last, at most.
const PROGRESS_RECORDS_MAX: u64 = 10_000;
/// Age of progress that is not stored, at most.
const PROGRESS_AGE_MAX: Duration = Duration::from_secs(10);
/// Beyond the first records of a topic, the task rests this many times as long as it worked.
const REST_FACTOR: u32 = 4;
/// The longest rest, so that a new topic does not wait for an old one.
const REST_MAX: Duration = Duration::from_millis(300);

/// What the log holds of the topic's inference; nothing when there is none that can be read.
pub fn stored_inference(snapshot: &Snapshot, topic: &Topic) -> TopicInference {
    let Some(schema) = snapshot.schema(topic.id, SCHEMA_KIND) else { return TopicInference::default() };
    encoding::decode(&schema.bytes).unwrap_or_else(|error| {
        tracing::warn!(%error, topic = topic.name, "columns are inferred again");
        TopicInference::default()
    })
}

/// What the task has published of one topic.
#[derive(Clone, Debug)]
struct Published {
    columns: Arc<TopicColumns>,
    progress: Arc<TopicInference>,
}

/// What queries and the background task share.
#[derive(Debug)]
pub struct OwnerInference {
    topics: Mutex<HashMap<TopicId, Published>>,
    revision: watch::Sender<u64>,
}

impl Default for OwnerInference {
    fn default() -> Self {
        Self { topics: Mutex::default(), revision: watch::Sender::new(0) }
    }
}

impl OwnerInference {
    /// The columns published last; those of the log while the task has not looked at the topic.
    pub fn columns(&self, snapshot: &Snapshot, topic: &Topic) -> Arc<TopicColumns> {
        if let Some(published) = self.topics.lock().expect("no holder of the lock panics").get(&topic.id) {
            return published.columns.clone();
        }
        let inference = stored_inference(snapshot, topic);
        Arc::new(TopicColumns::new(topic, &inference, ColumnsOrigin::Owner))
    }

    /// Waits until the columns of the topic are known as far as the snapshot goes. The caller bounds
    /// the wait.
    pub async fn caught_up(&self, snapshot: &Snapshot, topic: &Topic) {
        let mut revision = self.revision.subscribe();
        while !self.has_passed(snapshot, topic) {
            if revision.changed().await.is_err() {
                return;
            }
        }
    }

    fn has_passed(&self, snapshot: &Snapshot, topic: &Topic) -> bool {
        if !needs_inference(topic) {
            return true;
        }
        let published = self.topics.lock().expect("no holder of the lock panics").get(&topic.id).cloned();
        let Some(published) = published else { return false };
        let inference = &published.progress;
        if inference.is_finished() || inference.records >= PREPARE_RECORDS_MAX {
            return true;
        }
        (0..topic.partition_count).all(|partition| {
            let view = snapshot.partition(TopicPartition::new(topic.id, partition));
            view.is_none_or(|view| !is_behind(inference, partition, &view))
        })
    }

    fn publish(&self, topic: &Topic, inference: &TopicInference) {
        let columns = Arc::new(TopicColumns::new(topic, inference, ColumnsOrigin::Owner));
        let published = Published { columns, progress: Arc::new(inference.clone()) };
        self.topics.lock().expect("no holder of the lock panics").insert(topic.id, published);
        self.revision.send_modify(|revision| *revision += 1);
    }

    fn forget(&self, topic_id: TopicId) {
        self.topics.lock().expect("no holder of the lock panics").remove(&topic_id);
    }
}

/// One topic as the task works on it.
struct TopicWork {
    topic: Arc<Topic>,
    inference: TopicInference,
    schema_version: u32,
    stored: TopicInference,
    /// When the first observation that is not stored was made.
    unstored_since: Option<Duration>,
}

impl TopicWork {
    fn load(snapshot: &Snapshot, topic: &Arc<Topic>) -> Self {
        let inference = stored_inference(snapshot, topic);
        let schema_version = snapshot.schema(topic.id, SCHEMA_KIND).map_or(0, |schema| schema.version);
        let stored = inference.clone();
        Self { topic: topic.clone(), inference, schema_version, stored, unstored_since: None }
    }

    fn must_store(&self, now: Duration) -> bool {
        let Some(since) = self.unstored_since else { return false };
        let has_new_shape = !self.inference.has_shape_of(&self.stored);
        let records = self.inference.records.saturating_sub(self.stored.records);
        has_new_shape || records >= PROGRESS_RECORDS_MAX || now.saturating_sub(since) >= PROGRESS_AGE_MAX
    }
}

/// The background task.
pub struct OwnerTask {
    log: Log,
    shared: Arc<OwnerInference>,
    stop: watch::Receiver<bool>,
    topics: HashMap<TopicId, TopicWork>,
}

/// What a pass over all topics did.
#[derive(Default)]
struct Pass {
    has_observed: bool,
    /// Whether it observed records beyond those that decide a young topic's columns.
    is_beyond_samples: bool,
}

impl OwnerTask {
    pub fn new(log: Log, shared: Arc<OwnerInference>, stop: watch::Receiver<bool>) -> Self {
        Self { log, shared, stop, topics: HashMap::new() }
    }

    /// Works until it is told to stop, then stores what it knows.
    pub async fn run(mut self) {
        let mut topic_changes = self.log.topic_changes();
        loop {
            topic_changes.mark_unchanged();
            let partitions = inferred_partitions(&self.log.snapshot());
            let mut changes = self.log.changes(&partitions);
            let snapshot = self.log.snapshot();
            self.follow_topics(&snapshot);
            let started = self.log.seams().clock.monotonic();
            let pass = self.pass(&snapshot).await;
            self.store_due().await;
            if *self.stop.borrow() {
                break;
            }
            if pass.has_observed {
                self.rest(&pass, started).await;
                continue;
            }
            let age_limit = self.unstored_age_limit();
            tokio::select! {
                () = changes.changed() => {}
                changed = topic_changes.changed() => if changed.is_err() { break },
                () = age_limit => {}
                changed = self.stop.changed() => if changed.is_err() { break },
            }
        }
        self.store_all().await;
    }

    fn follow_topics(&mut self, snapshot: &Snapshot) {
        let shared = self.shared.clone();
        self.topics.retain(|topic_id, _| {
            let lives = snapshot.topic_by_id(*topic_id).is_some();
            if !lives {
                shared.forget(*topic_id);
            }
            lives
        });
        for topic in snapshot.topics() {
            let work = self.topics.entry(topic.id).or_insert_with(|| {
                let work = TopicWork::load(snapshot, topic);
                shared.publish(topic, &work.inference);
                work
            });
            if !Arc::ptr_eq(&work.topic, topic) {
                work.topic = topic.clone();
                shared.publish(topic, &work.inference);
            }
        }
    }

    /// One step in every partition that is behind.
    async fn pass(&mut self, snapshot: &Snapshot) -> Pass {
        let mut pass = Pass::default();
        let clock = self.log.seams().clock.clone();
        for work in self.topics.values_mut() {
            if !needs_inference(&work.topic) || work.inference.is_finished() {
                continue;
            }
            if observe_topic(work, snapshot).await {
                work.unstored_since.get_or_insert_with(|| clock.monotonic());
                pass.has_observed = true;
                pass.is_beyond_samples |= work.inference.records > PREPARE_RECORDS_MAX;
            }
            if work.unstored_since.is_some() && work.inference.has_shape_of(&work.stored) {
                self.shared.publish(&work.topic, &work.inference);
            }
        }
        pass
    }

    async fn rest(&mut self, pass: &Pass, started: Duration) {
        let clock = self.log.seams().clock.clone();
        if !pass.is_beyond_samples {
            tokio::task::yield_now().await;
            return;
        }
        let worked = clock.monotonic().saturating_sub(started);
        tokio::select! {
            () = clock.sleep((worked * REST_FACTOR).min(REST_MAX)) => {}
            _ = self.stop.changed() => {}
        }
    }

    /// Resolves when the oldest observation that is not stored is old enough; never when all is.
    fn unstored_age_limit(&self) -> impl Future<Output = ()> + use<> {
        let clock = self.log.seams().clock.clone();
        let oldest = self.topics.values().filter_map(|work| work.unstored_since).min();
        async move {
            match oldest {
                Some(since) => {
                    clock.sleep((since + PROGRESS_AGE_MAX).saturating_sub(clock.monotonic())).await
                }
                None => std::future::pending().await,
            }
        }
    }

    async fn store_due(&mut self) {
        let now = self.log.seams().clock.monotonic();
        for work in self.topics.values_mut() {
            if work.must_store(now) {
                store(&self.log, work).await;
                self.shared.publish(&work.topic, &work.inference);
            }
        }
    }

    async fn store_all(&mut self) {
        for work in self.topics.values_mut().filter(|work| work.unstored_since.is_some()) {
            store(&self.log, work).await;
        }
    }
}

/// One step in each partition of the topic; whether any record was observed.
async fn observe_topic(work: &mut TopicWork, snapshot: &Snapshot) -> bool {
    let mut has_observed = false;
    for partition in 0..work.topic.partition_count {
        let topic_partition = TopicPartition::new(work.topic.id, partition);
        let Some(view) = snapshot.partition(topic_partition) else { continue };
        if !is_behind(&work.inference, partition, &view) || work.inference.is_finished() {
            continue;
        }
        match observe_step(&mut work.inference, partition, &view).await {
            Ok(_) => has_observed = true,
            Err(error) => {
                let topic = &work.topic.name;
                tracing::warn!(%error, topic, partition, "records cannot be read to find columns");
            }
        }
    }
    has_observed
}

/// Stores the topic's inference. A failure leaves it to the next pass that observes something: the
/// log reports its own health, and queries go on with what is known.
async fn store(log: &Log, work: &mut TopicWork) {
    let bytes = Bytes::from(encoding::encode(&work.inference));
    let outcome = log.put_schema(work.topic.id, SCHEMA_KIND, work.schema_version, bytes).await;
    work.unstored_since = None;
    match outcome {
        Ok(version) => {
            work.schema_version = version;
            work.stored = work.inference.clone();
        }
        Err(PutSchemaError::VersionMismatch { current, .. }) => work.schema_version = current,
        Err(PutSchemaError::UnknownTopic) => {}
        Err(error) => tracing::warn!(%error, topic = work.topic.name, "columns cannot be stored"),
    }
}

fn inferred_partitions(snapshot: &Snapshot) -> Vec<TopicPartition> {
    let topics = snapshot.topics().filter(|topic| needs_inference(topic));
    topics
        .flat_map(|topic| {
            (0..topic.partition_count).map(|partition| TopicPartition::new(topic.id, partition))
        })
        .collect()
}
