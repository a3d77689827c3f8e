//! One run: processes that open, append, read, maintain, crash and fence each other, on one seed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng};

use super::WrongRule;
use super::checker::{History, Promises};
use super::failpoints::{Role, SimFailpoints};
use super::ledger::Transactions;
use super::memory::Memory;
use super::operations::{Held, KEPT, partition_of};
use super::records::{BatchOrder, batch};
use super::settings::draw_settings;
use super::sim_store::{Requests, SimStore};
use super::totals::Totals;
use super::transfers::LEDGER;
use crate::format::{WalKind, writer_nonce_of};
use crate::ids::WalPosition;
use crate::log::keys::{ShardKeys, checkpoint_position, wal_position};
use crate::log::{Health, Log, LogSettings, OpenError, Snapshot};
use crate::object::fault::{FaultRates, FaultStore};
use crate::object::sim_file_system::SimFileSystem;
use crate::object::{DurableLocal, LocalOptions, LogStore};
use crate::seam::Seams;

/// Steps of one run, each of which begins one operation or some.
const STEPS: u32 = 150;
/// Owners of before that go on until they are fenced.
const ZOMBIES_MAX: usize = 2;
const LOCAL_ROOT: &str = "/data";

/// What the objects are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Remote,
    Local,
}

/// A process: its log, and its own handle on the store.
#[derive(Clone)]
pub(super) struct Process {
    /// Counts opens.
    pub(super) number: u64,
    pub(super) log: Log,
    pub(super) store: SimStore,
}

#[derive(Clone)]
enum Backend {
    Remote { faults: FaultStore, inner: Arc<dyn LogStore> },
    Local(SimFileSystem),
}

/// What the tasks of a run share.
#[derive(Clone)]
pub(super) struct World {
    pub(super) seams: Seams,
    pub(super) settings: LogSettings,
    backend: Backend,
    requests: Arc<Requests>,
    totals: Arc<Mutex<Totals>>,
    shared: Arc<Mutex<Shared>>,
}

pub(super) struct Shared {
    rng: StdRng,
    pub(super) history: History,
    totals: Arc<Mutex<Totals>>,
    next_id: u64,
    /// Opens that were begun.
    opens: u64,
    current: Option<Process>,
    zombies: Vec<Process>,
    pub(super) held: Vec<Held>,
    /// What may be relied on at each process.
    promises: BTreeMap<u64, Promises>,
    /// Of 100 steps, how many each kind of disruption has.
    disruption: u32,
}

impl Shared {
    pub(super) fn promises_of(&mut self, process: u64) -> &mut Promises {
        self.promises.entry(process).or_default()
    }

    pub(super) fn count(&mut self, name: &'static str) {
        self.totals.lock().expect("no holder of the lock panics").count(name);
    }
}

/// Runs one seed; an error is a broken promise.
pub(super) fn run_seed(place: Place, seed: u64, wrong_rule: Option<WrongRule>) -> Result<Totals, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without I/O can be built").block_on(run(place, seed, wrong_rule))
}

async fn run(place: Place, seed: u64, wrong_rule: Option<WrongRule>) -> Result<Totals, String> {
    let world = World::new(place, seed, wrong_rule);
    let clients = [
        tokio::spawn(world.clone().produce_idempotently()),
        tokio::spawn(world.clone().transfer()),
        tokio::spawn(world.clone().consume_in_a_group()),
    ];
    for _ in 0..STEPS {
        world.step().await?;
    }
    clients.iter().for_each(tokio::task::JoinHandle::abort);
    world.finish().await
}

impl World {
    fn new(place: Place, seed: u64, wrong_rule: Option<WrongRule>) -> Self {
        let seams = Seams::simulated(seed);
        let mut rng = StdRng::seed_from_u64(seed);
        let settings = draw_settings(&mut rng, wrong_rule);
        let backend = match place {
            Place::Remote => {
                let inner: Arc<dyn LogStore> = Arc::new(Memory::default());
                let faults = FaultStore::new(inner.clone(), seams.clone(), FaultRates::MIXED);
                Backend::Remote { faults, inner }
            }
            Place::Local => Backend::Local(SimFileSystem::default()),
        };
        let totals: Arc<Mutex<Totals>> = Arc::default();
        let shared = Shared {
            disruption: [1, 2, 5][rng.random_range(0..3)],
            rng,
            history: History::new(Transactions::new(settings.shards == 1)),
            totals: totals.clone(),
            next_id: 1,
            opens: 0,
            current: None,
            zombies: Vec::new(),
            held: Vec::new(),
            promises: BTreeMap::new(),
        };
        let (requests, shared) = (Arc::default(), Arc::new(Mutex::new(shared)));
        Self { seams, settings, backend, requests, totals, shared }
    }

    pub(super) fn with<T>(&self, use_shared: impl FnOnce(&mut Shared) -> T) -> T {
        use_shared(&mut self.shared.lock().expect("no holder of the lock panics"))
    }

    pub(super) fn draw(&self, bound: u32) -> u32 {
        self.with(|shared| shared.rng.random_range(0..bound))
    }

    pub(super) fn count(&self, name: &'static str) {
        self.totals.lock().expect("no holder of the lock panics").count(name);
    }

    pub(super) fn violate(&self, what: String) {
        self.with(|shared| shared.history.violate(what));
    }

    pub(super) async fn sleep_ms(&self, bound: u32) {
        let ms = self.draw(bound);
        self.seams.clock.sleep(Duration::from_millis(u64::from(ms))).await;
    }

    pub(super) fn current(&self) -> Option<Process> {
        self.with(|shared| shared.current.clone())
    }

    pub(super) fn new_ids(&self, count: u32) -> Vec<u64> {
        self.with(|shared| {
            let ids = (shared.next_id..).take(count as usize).collect();
            shared.next_id += u64::from(count);
            ids
        })
    }

    async fn step(&self) -> Result<(), String> {
        let disruption = self.with(|shared| shared.disruption);
        let drawn = self.draw(100);
        if drawn < 4 * disruption {
            self.disrupt(drawn / disruption).await?;
        } else {
            self.operate();
        }
        if !self.is_served() || (self.seems_dead() && self.draw(3) == 0) {
            self.open().await?;
        }
        self.sleep_ms(1500).await;
        self.check_health();
        self.with(|shared| shared.history.violation()).map_or(Ok(()), Err)
    }

    fn is_served(&self) -> bool {
        let is_alive = |process: Process| !process.store.is_crashed() && !process.log.health().is_stopped();
        self.current().is_some_and(is_alive)
    }

    /// Whether the current process is paused; on a local disk nobody can take over from it.
    fn seems_dead(&self) -> bool {
        let is_remote = matches!(self.backend, Backend::Remote { .. });
        is_remote && self.current().is_some_and(|process| process.store.is_paused())
    }

    /// A log fails for good only by what its own checks find, and nothing here gives them cause.
    fn check_health(&self) {
        if self.requests.failed_by_itself() {
            self.violate("a commit failed in the process itself".to_owned());
        }
        let Backend::Remote { .. } = self.backend else { return };
        let health = self.current().map(|process| process.log.health());
        if let Some(Health::Failed { reason }) = health
            && !reason.contains("a newer process owns the log")
            && !reason.contains("was claimed by another process")
        {
            self.violate(format!("a log failed: {reason}"));
        }
    }

    async fn disrupt(&self, kind: u32) -> Result<(), String> {
        match (kind, &self.backend) {
            (0, _) => self.crash(),
            (1, Backend::Local(disk)) => {
                disk.fail_power_at(disk.operations() + u64::from(self.draw(150)));
                self.count("power failed");
            }
            (1, Backend::Remote { .. }) => self.open().await?,
            // Two at once: one of them may find that the other has the epoch.
            (2, Backend::Remote { .. }) => {
                let (first, second) = tokio::join!(self.open(), self.open());
                first.and(second)?;
            }
            // Somebody takes over from a process that seems dead, and is not.
            (_, Backend::Remote { .. }) => {
                self.pause();
                self.open().await?;
            }
            (_, Backend::Local(_)) => {
                self.pause();
            }
        }
        Ok(())
    }

    fn pause(&self) {
        if let Some(process) = self.current() {
            process.store.pause(Duration::from_secs(u64::from(self.draw(40))));
            self.count("paused");
        }
    }

    fn operate(&self) {
        let Some(process) = self.current() else { return };
        let world = self.clone();
        match self.draw(100) {
            0..8 => drop(tokio::spawn(world.read(process))),
            8..12 => drop(tokio::spawn(world.hold(process))),
            12..17 => drop(tokio::spawn(world.check_held())),
            17..20 => drop(tokio::spawn(world.allocate(process))),
            20..26 => drop(tokio::spawn(world.delete_records(process))),
            26..29 => drop(tokio::spawn(world.recreate_topic(process))),
            29..33 => drop(tokio::spawn(world.compact(process))),
            33..37 => drop(tokio::spawn(world.checkpoint(process))),
            37..39 => drop(tokio::spawn(world.collect(process))),
            39..44 => drop(tokio::spawn(world.read_beside())),
            44..51 => self.operate_zombie(),
            _ => return self.append_some(&process),
        }
        self.count("operations");
    }

    /// Clients of an owner of before do not know either that it is one.
    fn operate_zombie(&self) {
        let drawn = self.draw(ZOMBIES_MAX as u32) as usize;
        let Some(process) = self.with(|shared| shared.zombies.get(drawn).cloned()) else { return };
        self.count("requests by owners of before");
        let world = self.clone();
        match self.draw(6) {
            0 => drop(tokio::spawn(world.read(process))),
            1 => drop(tokio::spawn(world.checkpoint(process))),
            2 => drop(tokio::spawn(world.collect(process))),
            3 => drop(tokio::spawn(world.compact(process))),
            4 => drop(tokio::spawn(world.delete_records(process))),
            _ => self.append_some(&process),
        }
    }

    fn crash(&self) {
        let Some(process) = self.with(|shared| shared.current.take()) else { return };
        process.store.crash();
        self.count("crashed");
    }

    /// Ends whatever runs on a local disk, which has one process at a time.
    fn crash_local(&self, disk: &SimFileSystem) {
        self.crash();
        if self.draw(2) == 0 {
            disk.kill();
            self.count("killed");
        } else {
            let mut rng = self.with(|shared| StdRng::seed_from_u64(shared.rng.random()));
            disk.crash(|| rng.random_bool(0.5));
        }
    }

    /// A handle on the store for a new process.
    fn new_store(&self) -> Result<SimStore, String> {
        let inner: Arc<dyn LogStore> = match &self.backend {
            Backend::Remote { faults, .. } => Arc::new(faults.process()),
            Backend::Local(disk) => {
                self.crash_local(disk);
                let opened = DurableLocal::open_on(disk.clone(), LOCAL_ROOT, LocalOptions::NO_RESERVE);
                Arc::new(opened.map_err(|error| format!("the directory does not open: {error}"))?)
            }
        };
        Ok(SimStore::new(inner, self.seams.clone(), self.requests.clone()))
    }

    /// A handle for a process that only reads; none when there is nothing to read.
    pub(super) fn read_only_store(&self) -> Option<SimStore> {
        let inner: Arc<dyn LogStore> = match &self.backend {
            Backend::Remote { faults, .. } => Arc::new(faults.process()),
            Backend::Local(disk) => {
                Arc::new(DurableLocal::open_read_only_on(disk.clone(), PathBuf::from(LOCAL_ROOT)).ok()?)
            }
        };
        Some(SimStore::new(inner, self.seams.clone(), self.requests.clone()))
    }

    pub(super) fn process_seams(&self, store: &SimStore, role: Role) -> Seams {
        let failpoints = SimFailpoints {
            store: store.clone(),
            seams: self.seams.clone(),
            requests: self.requests.clone(),
            totals: self.totals.clone(),
            role,
        };
        Seams { failpoints: Some(Arc::new(failpoints)), ..self.seams.clone() }
    }

    /// Opens a new process. The one before it, if it is alive, goes on until it is fenced.
    async fn open(&self) -> Result<(), String> {
        let (number, promises) = self.with(|shared| {
            shared.opens += 1;
            (shared.opens, shared.history.promises().clone())
        });
        let store = self.new_store()?;
        let seams = self.process_seams(&store, Role::Writer);
        let opening = Log::open(Arc::new(store.clone()), self.settings.clone(), seams);
        let Some(opened) = self.unless_crashed(&store, opening).await else {
            self.count("crashed while opening");
            return Ok(());
        };
        match opened {
            Ok(log) => {
                let process = Process { number, log, store };
                self.delete_fences().await;
                self.with(|shared| {
                    shared.promises.insert(number, promises);
                    shared.zombies.extend(shared.current.replace(process.clone()));
                    let surplus = shared.zombies.len().saturating_sub(ZOMBIES_MAX);
                    shared.zombies.drain(..surplus);
                });
                self.count("opened");
                self.create_topics(&process).await
            }
            Err(OpenError::Claimed { .. } | OpenError::Superseded { .. } | OpenError::Overtaken { .. }) => {
                self.count("refused opens");
                Ok(())
            }
            // The power has failed again.
            Err(OpenError::Store { .. }) if matches!(self.backend, Backend::Local(_)) => Ok(()),
            Err(error) => Err(format!("open fails: {error}")),
        }
    }

    /// What comes of it, unless its process crashes: nothing answers there any more.
    async fn unless_crashed<T>(&self, store: &SimStore, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                () = self.seams.clock.sleep(Duration::from_secs(1)) => {}
            }
            if store.is_crashed() {
                return None;
            }
        }
    }

    async fn delete_fences(&self) {
        let Backend::Remote { inner, .. } = &self.backend else { return };
        if self.settings.wrong_rule != Some(WrongRule::DeleteFence) {
            return;
        }
        for object in inner.list("shards/0/wal").await.expect("the memory store lists") {
            let bytes = inner.get(&object.key).await.expect("the memory store reads");
            if matches!(writer_nonce_of(&bytes), Ok((WalKind::Fence, _))) {
                inner.delete(&object.key).await.expect("the memory store deletes");
            }
        }
    }

    /// Ends all processes, lets late requests land, and holds what is there against the promises.
    async fn finish(&self) -> Result<Totals, String> {
        self.crash();
        let zombies = self.with(|shared| std::mem::take(&mut shared.zombies));
        zombies.iter().for_each(|process| process.store.crash());
        self.requests.calm();
        if let Backend::Remote { faults, .. } = &self.backend {
            faults.stop_faults();
            faults.settle().await;
        }
        self.check_final().await?;
        if let Backend::Remote { inner, .. } = &self.backend {
            self.lose_an_object(inner).await?;
            self.check_final().await?;
        }
        let mut totals = self.totals.lock().expect("no holder of the lock panics").clone();
        self.requests.counts().into_keys().for_each(|name| totals.count(name));
        let faults = match &self.backend {
            Backend::Remote { faults, .. } => faults.injected(),
            Backend::Local(_) => BTreeMap::new(),
        };
        totals.finish(faults, self.requests.trace());
        Ok(totals)
    }

    async fn check_final(&self) -> Result<(), String> {
        self.open().await?;
        self.begin_life().await;
        let process = self.current().ok_or("the last open is refused without a fault")?;
        let expected = self.with(|shared| shared.history.promises().clone());
        let snapshot = process.log.snapshot();
        self.check_no_open_transaction(&snapshot);
        match self.read_snapshot(&snapshot).await {
            Ok(seen) => self.with(|shared| shared.history.check(&expected, &seen)),
            Err(failure) => return Err(format!("the last read fails without a fault: {failure:?}")),
        }
        self.with(|shared| shared.history.violation()).map_or(Ok(()), Err)
    }

    /// Once a new producer has taken over, nothing of the one before is open any more.
    fn check_no_open_transaction(&self, snapshot: &Snapshot) {
        let partitions = snapshot.topic(LEDGER).into_iter().flat_map(|topic| topic.partitions());
        for view in partitions.filter_map(|id| snapshot.partition(id)) {
            let bounds = view.bounds();
            if bounds.last_stable_offset != bounds.high_watermark {
                let (stable, end) = (bounds.last_stable_offset, bounds.high_watermark);
                self.violate(format!("a transaction that nobody knows is open at {stable} of {end}"));
            }
        }
    }

    /// The store loses an object that was acked: no open may go on as if it had never been.
    async fn lose_an_object(&self, store: &Arc<dyn LogStore>) -> Result<(), String> {
        let process = self.current().ok_or("a log is open")?;
        let id = partition_of(&process.log, KEPT, 0).ok_or("the topic is there")?;
        for _ in 0..4 {
            let ids = self.new_ids(1);
            let appended = self.append(&process, id, batch(&ids, BatchOrder::Plain), &ids).await;
            appended.map_err(|error| format!("an append fails without a fault: {error}"))?;
        }
        self.crash();
        let Some(key) = acked_object(store).await else { return Ok(()) };
        let bytes = store.get(&key).await.expect("the memory store reads");
        store.delete(&key).await.expect("the memory store deletes");
        let opened = Log::open(store.clone(), self.settings.clone(), self.seams.clone()).await;
        match opened {
            Err(OpenError::MissingObject { key: named, .. }) if named == key => {}
            Err(error) => return Err(format!("a missing object is not named: {error}")),
            Ok(_) => return Err(format!("object {key} was acked and is missing, and the log opens")),
        }
        let restored = store.create(&key, bytes).await;
        restored.map_err(|error| format!("something was put in the place of a missing object: {error}"))?;
        self.count("missing objects refused");
        Ok(())
    }
}

/// A WAL object that a later one of its epoch says to be durable, and that no checkpoint covers.
async fn acked_object(store: &Arc<dyn LogStore>) -> Option<String> {
    let keys = ShardKeys::new(Default::default());
    let listed = async |prefix: &str| store.list(prefix).await.expect("the memory store lists");
    let positions = listed(&keys.wal_prefix()).await;
    let newest = positions.iter().filter_map(|object| wal_position(&object.key)).max()?;
    let covered = listed(&keys.checkpoints()).await;
    let covered = covered.iter().filter_map(|object| checkpoint_position(&object.key)).max();
    let lost = WalPosition { seq: newest.seq.checked_sub(2)?, ..newest };
    (covered < Some(lost)).then(|| keys.wal(lost))
}
