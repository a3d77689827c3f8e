//! One run: processes that open, append, read, crash and fence each other, on one seed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng};

use super::WrongRule;
use super::checker::History;
use crate::format::{
    BatchBuilder, BatchOptions, DecompressionBudget, ProducerIdentity, Records, WalKind, split_batches,
    writer_nonce_of,
};
use crate::ids::TopicPartition;
use crate::log::{
    AppendError, CreateTopic, CreateTopicError, FetchOptions, FirstBatch, Isolation, Log, LogSettings,
    OpenError, PartitionAppend, Topic, WriteError,
};
use crate::object::fault::{Fault, FaultRates, FaultStore, ProcessStore};
use crate::object::{LogStore, ObjectStoreBackend};
use crate::seam::Seams;

const TOPIC: &str = "events";
const PARTITIONS: i32 = 2;
const STEPS: u32 = 40;
/// Of the one idempotent producer.
const PRODUCER_ID: i64 = 1_000_000;

/// How often what happened, to see that a run of many seeds meets everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    acked: u64,
    opened: u64,
    crashed: u64,
    fenced: u64,
    refused_opens: u64,
    retried_batches: u64,
    faults: BTreeMap<Fault, u64>,
    /// Where each acked record went, of one run.
    trace: BTreeMap<(i32, i64), u64>,
}

impl Totals {
    pub(super) fn add(&mut self, run: &Self) {
        self.acked += run.acked;
        self.opened += run.opened;
        self.crashed += run.crashed;
        self.fenced += run.fenced;
        self.refused_opens += run.refused_opens;
        self.retried_batches += run.retried_batches;
        for (fault, count) in &run.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
    }

    pub(super) fn every_kind_happened(&self) -> bool {
        let counts =
            [self.acked, self.opened, self.crashed, self.fenced, self.refused_opens, self.retried_batches];
        counts.iter().all(|count| *count > 0) && self.faults.len() == 8
    }
}

/// A process: its log, and its own handle on the store.
#[derive(Clone)]
struct Process {
    log: Log,
    store: ProcessStore,
}

/// What the tasks of a run share.
#[derive(Clone)]
struct World {
    seams: Seams,
    faults: FaultStore,
    inner: Arc<dyn LogStore>,
    wrong_rule: Option<WrongRule>,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    rng: StdRng,
    history: History,
    totals: Totals,
    next_id: u64,
    current: Option<Process>,
}

/// Runs one seed; an error is a broken promise.
pub(super) fn run_seed(seed: u64, wrong_rule: Option<WrongRule>) -> Result<Totals, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without I/O can be built").block_on(run(seed, wrong_rule))
}

async fn run(seed: u64, wrong_rule: Option<WrongRule>) -> Result<Totals, String> {
    let seams = Seams::simulated(seed);
    let inner: Arc<dyn LogStore> = Arc::new(ObjectStoreBackend::memory());
    let shared = Shared {
        rng: StdRng::seed_from_u64(seed),
        history: History::default(),
        totals: Totals::default(),
        next_id: 1,
        current: None,
    };
    let faults = FaultStore::new(inner.clone(), seams.clone(), FaultRates::MIXED);
    let world = World { seams, faults, inner, wrong_rule, shared: Arc::new(Mutex::new(shared)) };
    let producer = tokio::spawn(world.clone().produce_idempotently());
    for _ in 0..STEPS {
        world.step().await?;
    }
    producer.abort();
    world.finish().await
}

impl World {
    fn with<T>(&self, use_shared: impl FnOnce(&mut Shared) -> T) -> T {
        use_shared(&mut self.shared.lock().expect("no holder of the lock panics"))
    }

    fn draw(&self, bound: u32) -> u32 {
        self.with(|shared| shared.rng.random_range(0..bound))
    }

    async fn sleep_ms(&self, bound: u32) {
        let ms = self.draw(bound);
        self.seams.clock.sleep(Duration::from_millis(u64::from(ms))).await;
    }

    fn current(&self) -> Option<Process> {
        self.with(|shared| shared.current.clone())
    }

    async fn step(&self) -> Result<(), String> {
        match self.draw(100) {
            0..10 => self.crash(),
            10..16 => self.open().await?,
            // Two at once: one of them may find that the other has the epoch.
            16..20 => {
                let (first, second) = tokio::join!(self.open(), self.open());
                first.and(second)?;
            }
            20..30 => self.read().await,
            30..36 => self.allocate(),
            _ => self.append_some(),
        }
        if self.current().is_none_or(|process| process.log.health().is_stopped()) {
            self.open().await?;
        }
        self.sleep_ms(1500).await;
        self.with(|shared| shared.history.violation()).map_or(Ok(()), Err)
    }

    fn crash(&self) {
        if let Some(process) = self.with(|shared| shared.current.take()) {
            process.store.crash();
            self.with(|shared| shared.totals.crashed += 1);
        }
    }

    /// Opens a new process. The one before it, if it is alive, goes on until it is fenced.
    async fn open(&self) -> Result<(), String> {
        let store = self.faults.process();
        let settings = LogSettings { wrong_rule: self.wrong_rule, ..LogSettings::default() };
        match Log::open(Arc::new(store.clone()), settings, self.seams.clone()).await {
            Ok(log) => {
                self.delete_fences().await;
                self.create_topic(&log).await?;
                self.with(|shared| {
                    shared.totals.opened += 1;
                    shared.current = Some(Process { log, store });
                });
                Ok(())
            }
            Err(OpenError::Claimed { .. } | OpenError::Superseded { .. }) => {
                self.with(|shared| shared.totals.refused_opens += 1);
                Ok(())
            }
            Err(error) => Err(format!("open fails: {error}")),
        }
    }

    async fn create_topic(&self, log: &Log) -> Result<(), String> {
        let topic = CreateTopic { name: TOPIC.into(), partitions: PARTITIONS, configs: BTreeMap::new() };
        match log.create_topic(topic).await {
            Ok(_) | Err(CreateTopicError::AlreadyExists { .. } | CreateTopicError::Write(_)) => Ok(()),
            Err(error) => Err(format!("create topic fails: {error}")),
        }
    }

    async fn delete_fences(&self) {
        if self.wrong_rule != Some(WrongRule::DeleteFence) {
            return;
        }
        for object in self.inner.list("shards/0/wal").await.expect("the memory store lists") {
            let bytes = self.inner.get(&object.key).await.expect("the memory store reads");
            if matches!(writer_nonce_of(&bytes), Ok((WalKind::Fence, _))) {
                self.inner.delete(&object.key).await.expect("the memory store deletes");
            }
        }
    }

    fn new_ids(&self, count: u32) -> Vec<u64> {
        self.with(|shared| {
            let ids = (shared.next_id..).take(count as usize).collect();
            shared.next_id += u64::from(count);
            ids
        })
    }

    /// Starts a few appends that nobody waits for.
    fn append_some(&self) {
        let Some(process) = self.current() else { return };
        for _ in 0..1 + self.draw(6) {
            let (partition, count) = (self.draw(2) as i32, 1 + self.draw(3));
            let ids = self.new_ids(count);
            let (world, log) = (self.clone(), process.log.clone());
            tokio::spawn(async move {
                world.sleep_ms(300).await;
                let batch = batch(&ids, None);
                // Not knowing what became of it is not a broken promise.
                let _ = world.append(&log, partition, batch, &ids).await;
            });
        }
    }

    async fn append(&self, log: &Log, partition: i32, batch: Bytes, ids: &[u64]) -> Result<(), AppendError> {
        let Some(topic) = topic(log) else { return Err(AppendError::Write(WriteError::Closed)) };
        let topic_partition = TopicPartition::new(topic.id, partition);
        let appended = log.append(vec![PartitionAppend { topic_partition, batch }]).await.remove(0);
        if let Err(AppendError::Write(WriteError::Fenced { .. })) = appended {
            self.with(|shared| shared.totals.fenced += 1);
        }
        let appended = appended?;
        self.with(|shared| shared.history.ack(partition, appended.base_offset, ids));
        Ok(())
    }

    /// One producer that sends each batch until it is acked, whatever happens to the processes.
    async fn produce_idempotently(self) {
        let mut sequence = 0;
        loop {
            let ids = self.new_ids(2);
            let batch = batch(&ids, Some(sequence));
            while let Err(error) = self.send_once(batch.clone(), &ids).await {
                if let AppendError::OutOfOrderSequence { .. } = error {
                    self.with(|shared| shared.history.violate(format!("an acked batch was lost: {error}")));
                }
                self.with(|shared| shared.totals.retried_batches += 1);
                self.sleep_ms(500).await;
            }
            sequence += 2;
            self.sleep_ms(800).await;
        }
    }

    async fn send_once(&self, batch: Bytes, ids: &[u64]) -> Result<(), AppendError> {
        let unknown = || AppendError::Write(WriteError::Closed);
        let process = self.current().ok_or_else(unknown)?;
        // A crashed process never answers; a client gives up and sends again.
        tokio::select! {
            biased;
            sent = self.append(&process.log, 0, batch, ids) => sent,
            () = self.seams.clock.sleep(Duration::from_secs(30)) => Err(unknown()),
        }
    }

    fn allocate(&self) {
        let Some(process) = self.current() else { return };
        let world = self.clone();
        tokio::spawn(async move {
            if let Ok(ids) = process.log.allocate_producer_ids(10).await {
                world.with(|shared| shared.history.allocated(ids));
            }
        });
    }

    async fn read(&self) {
        let Some(process) = self.current() else { return };
        if let Some(partitions) = self.read_all(&process).await {
            self.with(|shared| {
                partitions.iter().for_each(|(partition, records)| shared.history.see(*partition, records));
            });
        }
    }

    /// All records of all partitions; `None` when the store does not answer.
    async fn read_all(&self, process: &Process) -> Option<Vec<(i32, BTreeMap<i64, u64>)>> {
        let topic = topic(&process.log)?;
        let snapshot = process.log.snapshot();
        let mut partitions = Vec::new();
        for topic_partition in topic.partitions() {
            let view = snapshot.partition(topic_partition)?;
            let options = FetchOptions {
                from: 0,
                bytes_max: usize::MAX,
                isolation: Isolation::ReadUncommitted,
                first_batch: FirstBatch::Whole,
            };
            let fetched = view.fetch(options).await.ok()?;
            let records = fetched.batches.into_iter().flat_map(|batch| ids_of(&batch)).collect();
            partitions.push((topic_partition.partition, records));
        }
        Some(partitions)
    }

    /// Ends all processes, lets late requests land, and holds what is there against the promises.
    async fn finish(&self) -> Result<Totals, String> {
        self.crash();
        self.faults.stop_faults();
        self.faults.settle().await;
        self.open().await?;
        let process = self.current().ok_or("the last open is refused without a fault")?;
        let partitions = self.read_all(&process).await.ok_or("the last read fails without a fault")?;
        self.with(|shared| {
            for (partition, records) in &partitions {
                shared.history.check_final(*partition, records);
            }
            if let Some(violation) = shared.history.violation() {
                return Err(violation);
            }
            let mut totals = shared.totals.clone();
            totals.acked = shared.history.acked_count();
            totals.trace = shared.history.acked().clone();
            totals.faults = self.faults.injected();
            Ok(totals)
        })
    }
}

fn topic(log: &Log) -> Option<Arc<Topic>> {
    log.snapshot().topic(TOPIC).cloned()
}

/// A batch whose values are ids.
fn batch(ids: &[u64], base_sequence: Option<i32>) -> Bytes {
    let producer = base_sequence.map(|base_sequence| ProducerIdentity {
        producer_id: PRODUCER_ID,
        producer_epoch: 0,
        base_sequence,
    });
    let mut builder = BatchBuilder::new(BatchOptions { producer, ..BatchOptions::default() });
    for id in ids {
        builder.append(Some(1_767_225_600_000), None, Some(&id.to_be_bytes()), &[]).expect("a small batch");
    }
    builder.finish()
}

fn ids_of(batch: &Bytes) -> Vec<(i64, u64)> {
    let (_, batch) = split_batches(batch.clone()).next().expect("one batch").expect("a whole batch");
    let records = Records::decode(&batch, &mut DecompressionBudget::new(1 << 20)).expect("an own batch");
    let id = |value: &[u8]| u64::from_be_bytes(value.try_into().expect("values are ids"));
    let record =
        |record: crate::format::Record<'_>| (record.offset, id(record.value.expect("values are not null")));
    records.iter().map(|result| record(result.expect("an own record"))).collect()
}
