//! What clients and operators do. Nobody waits for most of it: a process may crash in the middle.

use std::time::Duration;

use bytes::Bytes;

use super::checker::{Promise, Promises, Seen};
use super::failpoints::Role;
use super::reads::ReadFailure;
use super::records::{BatchOrder, batch};
use super::run::{Process, World};
use super::sim_store::SimStore;
use super::transfers::LEDGER;
use crate::ids::TopicPartition;
use crate::log::{
    AppendError, CreateTopic, CreateTopicError, Log, MaintenanceError, OpenError, PartitionAppend, Snapshot,
    WriteError,
};

/// Two partitions that stay.
pub(super) const KEPT: &str = "kept";
/// One partition; retention goes on in it, and now and then it is deleted and made anew.
pub(super) const FLEETING: &str = "fleeting";
/// One partition, which keeps the newest record of each key.
pub(super) const LATEST: &str = "latest";

/// A topic: its name, how many partitions, and how it is configured.
type TopicOrder = (&'static str, i32, &'static [(&'static str, &'static str)]);

const TOPICS: [TopicOrder; 4] = [
    (KEPT, 2, &[]),
    (FLEETING, 1, &[("retention.bytes", "2500")]),
    (LATEST, 1, &[("cleanup.policy", "compact")]),
    (LEDGER, 2, &[]),
];

/// A client gives up on an answer after this time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Snapshots are held so many at a time.
const HELD_MAX: usize = 4;

/// A snapshot that somebody keeps, and what it held when it was taken.
pub(super) struct Held {
    store: SimStore,
    snapshot: Snapshot,
    seen: Seen,
}

impl World {
    /// The answer, unless it does not come: a crashed process gives none.
    pub(super) async fn within<T>(&self, answer: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            answer = answer => Some(answer),
            () = self.seams.clock.sleep(PATIENCE) => None,
        }
    }

    /// Creates what is not there.
    pub(super) async fn create_topics(&self, process: &Process) -> Result<(), String> {
        for (name, partitions, configs) in TOPICS {
            let configs = configs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            let topic = CreateTopic { name: name.into(), partitions, configs: configs.collect() };
            match self.within(process.log.create_topic(topic)).await {
                Some(Ok(topic)) => self.with(|shared| {
                    for id in topic.partitions() {
                        shared.history.created(id);
                        shared.promises_of(process.number).raise(id, Promise::default());
                    }
                }),
                None | Some(Err(CreateTopicError::AlreadyExists { .. } | CreateTopicError::Write(_))) => {}
                Some(Err(error)) => return Err(format!("create topic fails: {error}")),
            }
            self.note_retention(&process.log);
        }
        Ok(())
    }

    fn note_retention(&self, log: &Log) {
        if let Some(topic) = log.snapshot().topic(FLEETING) {
            self.with(|shared| shared.history.is_retained(topic.id));
        }
    }

    /// Deletes the fleeting topic and makes it anew.
    pub(super) async fn recreate_topic(self, process: Process) {
        let Some(topic) = process.log.snapshot().topic(FLEETING).cloned() else { return };
        self.with(|shared| shared.history.may_be_deleted(topic.id));
        if let Some(Ok(())) = self.within(process.log.delete_topic(topic.id)).await {
            self.with(|shared| {
                shared.history.deleted(topic.id);
                shared.promises_of(process.number).delete(topic.id);
                shared.count("topics deleted");
            });
        }
        if let Err(what) = self.create_topics(&process).await {
            self.with(|shared| shared.history.violate(what));
        }
    }

    /// Starts a few appends that nobody waits for.
    pub(super) fn append_some(&self, process: &Process) {
        for _ in 0..1 + self.draw(6) {
            let (place, count) = (self.draw(4), 1 + self.draw(3));
            let ids = self.new_ids(count);
            let (world, process) = (self.clone(), process.clone());
            tokio::spawn(async move {
                world.sleep_ms(300).await;
                let (name, partition, order) = match place {
                    0 | 1 => (KEPT, place as i32, BatchOrder::Plain),
                    2 => (FLEETING, 0, BatchOrder::Plain),
                    _ => (LATEST, 0, BatchOrder::Keyed),
                };
                let Some(id) = partition_of(&process.log, name, partition) else { return };
                let batch = batch(&ids, order);
                // Not knowing what became of it is not a broken promise.
                let _ = world.append(&process, id, batch, &ids).await;
            });
        }
    }

    /// Appends one batch and notes the ack; gives its first offset.
    pub(super) async fn append(
        &self,
        process: &Process,
        id: TopicPartition,
        batch: Bytes,
        ids: &[u64],
    ) -> Result<i64, AppendError> {
        self.count("operations");
        let appends = vec![PartitionAppend { topic_partition: id, batch }];
        let appended = process.log.append(appends).await.remove(0);
        if let Err(AppendError::Write(WriteError::Fenced { .. })) = appended {
            self.count("fenced");
        }
        let appended = appended?;
        let high_watermark = appended.last_offset + 1;
        let promise = Promise { log_start_offset: 0, high_watermark };
        self.with(|shared| {
            shared.history.ack(id, appended.base_offset, ids);
            shared.history.raise(id, promise);
            shared.promises_of(process.number).raise(id, promise);
            shared.count("acked");
        });
        Ok(appended.base_offset)
    }

    /// One producer that sends each batch until it is acked, whatever happens to the processes.
    pub(super) async fn produce_idempotently(self) {
        let (mut sequence, mut newest_offset) = (0, -1);
        loop {
            let ids = self.new_ids(2);
            let batch = batch(&ids, BatchOrder::Idempotent(sequence));
            let base_offset = loop {
                if let Ok(base_offset) = self.send_once(batch.clone(), &ids).await {
                    break base_offset;
                }
                self.count("retried batches");
                self.sleep_ms(500).await;
            };
            if base_offset <= newest_offset {
                self.violate(format!(
                    "a later batch of a producer is at {base_offset}, before {newest_offset}"
                ));
            }
            newest_offset = base_offset;
            sequence += 2;
            self.sleep_ms(800).await;
        }
    }

    async fn send_once(&self, batch: Bytes, ids: &[u64]) -> Result<i64, AppendError> {
        let unknown = || AppendError::Write(WriteError::Closed);
        let process = self.current().ok_or_else(unknown)?;
        let id = partition_of(&process.log, KEPT, 0).ok_or_else(unknown)?;
        let sent = self.within(self.append(&process, id, batch, ids)).await.ok_or_else(unknown)?;
        // An owner of before does not know what its successor took.
        let is_owner = process.store.is_newest_claimant();
        if let (true, Err(error @ AppendError::OutOfOrderSequence { .. })) = (is_owner, &sent) {
            self.violate(format!("an acked batch was lost: {error}"));
        }
        sent
    }

    pub(super) async fn allocate(self, process: Process) {
        if let Ok(ids) = process.log.allocate_producer_ids(10).await {
            self.with(|shared| shared.history.allocated(ids));
        }
    }

    /// Deletes records up to some offset that is there.
    pub(super) async fn delete_records(self, process: Process) {
        let Some(id) = partition_of(&process.log, KEPT, self.draw(2) as i32) else { return };
        let Some(view) = process.log.snapshot().partition(id) else { return };
        let bounds = view.bounds();
        drop(view);
        let length = u32::try_from(bounds.high_watermark - bounds.log_start_offset).unwrap_or(0);
        let offset = bounds.log_start_offset + i64::from(self.draw(length + 1));
        self.with(|shared| shared.history.log_start_requested(id, offset));
        let deleted = process.log.delete_records(vec![(id, offset)]).await;
        if let Ok([Ok(log_start_offset)]) = deleted.as_deref() {
            let promise = Promise { log_start_offset: *log_start_offset, high_watermark: 0 };
            self.with(|shared| {
                shared.history.raise(id, promise);
                shared.promises_of(process.number).raise(id, promise);
                shared.count("records deleted");
            });
        }
    }

    pub(super) async fn compact(self, process: Process) {
        self.note_maintenance(process.log.compact_now().await);
    }

    pub(super) async fn checkpoint(self, process: Process) {
        self.note_maintenance(process.log.checkpoint_now().await);
    }

    pub(super) async fn collect(self, process: Process) {
        self.note_maintenance(process.log.collect_now().await);
    }

    fn note_maintenance(&self, outcome: Result<(), MaintenanceError>) {
        if let Err(MaintenanceError::Superseded { .. }) = outcome {
            self.count("collections refused");
        }
    }

    /// Reads all that is there and holds it against the promises.
    pub(super) async fn read(self, process: Process) {
        let expected = self.with(|shared| shared.promises_of(process.number).clone());
        let snapshot = process.log.snapshot();
        let read = self.read_snapshot(&snapshot).await;
        let Some(seen) = self.judge(&process.store, read) else { return };
        self.note_seen(&process, &expected, &seen);
        self.count("snapshots read");
    }

    fn note_seen(&self, process: &Process, expected: &Promises, seen: &Seen) {
        self.with(|shared| {
            shared.history.check(expected, seen);
            for (id, partition) in &seen.partitions {
                shared.promises_of(process.number).raise(*id, partition.bounds);
            }
        });
        let fleeting = process.log.snapshot().topic(FLEETING).map(|topic| topic.id);
        let is_trimmed = |(id, partition): (&TopicPartition, &super::checker::SeenPartition)| {
            Some(id.topic_id) == fleeting && partition.bounds.log_start_offset > 0
        };
        if seen.partitions.iter().any(is_trimmed) {
            self.count("retention");
        }
    }

    /// What was read. Damage is a broken promise, unless another process may have deleted objects: it
    /// does not know what this one reads.
    fn judge(&self, store: &SimStore, read: Result<Seen, ReadFailure>) -> Option<Seen> {
        match read {
            Ok(seen) => return Some(seen),
            Err(ReadFailure::Unavailable) => {}
            Err(ReadFailure::Removed) => {
                self.violate("an owner is told that records were removed".to_owned())
            }
            Err(ReadFailure::Wrong(what)) => self.violate(what),
            Err(ReadFailure::Damaged(what)) => {
                if store.is_newest_claimant() {
                    self.violate(format!("nothing is damaged, but: {what}"));
                }
            }
        }
        None
    }

    /// Takes a snapshot, to look at it again later.
    pub(super) async fn hold(self, process: Process) {
        let snapshot = process.log.snapshot();
        let read = self.read_snapshot(&snapshot).await;
        let Some(seen) = self.judge(&process.store, read) else { return };
        let held = Held { store: process.store, snapshot, seen };
        self.with(|shared| {
            if shared.held.len() >= HELD_MAX {
                shared.held.remove(0);
            }
            shared.held.push(held);
        });
    }

    /// Looks at a held snapshot again.
    pub(super) async fn check_held(self) {
        let drawn = self.draw(HELD_MAX as u32) as usize;
        let taken = self.with(|shared| (drawn < shared.held.len()).then(|| shared.held.remove(drawn)));
        let Some(held) = taken else { return };
        let read = self.read_snapshot(&held.snapshot).await;
        let Some(seen) = self.judge(&held.store, read) else { return };
        if seen != held.seen {
            self.violate("a snapshot that is held has changed".to_owned());
        }
        self.count("held snapshots read");
        if self.draw(2) == 0 {
            self.with(|shared| shared.held.push(held));
        }
    }

    /// Another process looks at the store, without a word to anybody.
    pub(super) async fn read_beside(self) {
        let expected = self.with(|shared| shared.history.promises().clone());
        let Some(store) = self.read_only_store() else { return };
        let seams = self.process_seams(&store, Role::Reader);
        let opened = Log::open_read_only(std::sync::Arc::new(store), self.settings.clone(), seams).await;
        let log = match opened {
            Ok(log) => log,
            Err(OpenError::Store { .. } | OpenError::NoLog { .. }) => return,
            Err(error) => return self.violate(format!("an open for reading fails: {error}")),
        };
        self.note_retention(&log);
        // The owner may compact and delete what this state refers to.
        self.sleep_ms(60_000).await;
        match self.read_snapshot(&log.snapshot()).await {
            Ok(seen) => {
                self.with(|shared| shared.history.check(&expected, &seen));
                self.count("read-only opens");
            }
            Err(ReadFailure::Unavailable) => {}
            Err(ReadFailure::Removed) => self.count("read-only reads of what was removed"),
            Err(ReadFailure::Wrong(what)) => self.violate(what),
            Err(ReadFailure::Damaged(what)) => {
                self.violate(format!("nothing is damaged, but a reader beside finds: {what}"));
            }
        }
    }
}

pub(super) fn partition_of(log: &Log, name: &str, partition: i32) -> Option<TopicPartition> {
    Some(TopicPartition::new(log.snapshot().topic(name)?.id, partition))
}
