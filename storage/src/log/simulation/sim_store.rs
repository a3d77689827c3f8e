//! The store as one process of the simulation sees it: it may be slow in either direction, the process
//! may be paused in the middle of a request, and after a crash no request is begun or answered.
//!
//! Every request is written down, so that two runs can be compared.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::object::{LargeObject, LogStore, ObjectMeta, ObjectPrefix, StoreError};
use crate::seam::Seams;

/// What all processes of a run asked of the store.
#[derive(Debug, Default)]
pub(super) struct Requests {
    trace: Mutex<u64>,
    counts: Mutex<BTreeMap<&'static str, u64>>,
    /// Epochs that somebody began to claim.
    claims: AtomicU64,
    is_calm: AtomicBool,
    /// A process opened its log again without a failure that was meant.
    failed_by_itself: AtomicBool,
}

impl Requests {
    /// From now on nothing is slow.
    pub(super) fn calm(&self) {
        self.is_calm.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::Relaxed)
    }

    pub(super) fn failed_by_itself(&self) -> bool {
        self.failed_by_itself.load(Ordering::Relaxed)
    }

    pub(super) fn trace(&self) -> u64 {
        *lock(&self.trace)
    }

    pub(super) fn counts(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.counts).clone()
    }

    fn note(&self, verb: Verb, key: &str, now_ms: i64) {
        let mut trace = lock(&self.trace);
        for byte in key.bytes().chain(now_ms.to_le_bytes()).chain([verb as u8]) {
            *trace = (*trace ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if let Some(what) = name_of(verb, key) {
            *lock(&self.counts).entry(what).or_default() += 1;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder of the lock panics")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Create,
    Read,
    List,
    Delete,
}

/// What a request means to the log, if it is one to count.
fn name_of(verb: Verb, key: &str) -> Option<&'static str> {
    let kind = key.split('/').nth(2)?;
    Some(match (verb, kind) {
        (Verb::Create, "checkpoints") => "checkpoints written",
        (Verb::Create, "data") => "segments written",
        (Verb::Delete, "checkpoints") => "checkpoints deleted",
        (Verb::Delete, "pages") => "pages deleted",
        (Verb::Delete, "data") => "segments deleted",
        (Verb::Delete, "wal") => "WAL objects deleted",
        (Verb::Read, "pages") => "checkpoints loaded",
        (Verb::List, "data") => "sweeps",
        _ => return None,
    })
}

/// Clones are the same process.
#[derive(Clone, Debug)]
pub(super) struct SimStore {
    inner: Arc<dyn LogStore>,
    seams: Seams,
    requests: Arc<Requests>,
    process: Arc<ProcessState>,
}

#[derive(Debug, Default)]
struct ProcessState {
    crashed: AtomicBool,
    /// Which claim of all was the last of this process.
    claim: AtomicU64,
    /// The keys of its claims: one, and one more for each failure that was meant.
    claimed: Mutex<BTreeSet<String>>,
    failures: AtomicU64,
    /// On the monotonic clock.
    paused_until_ms: AtomicU64,
}

impl SimStore {
    pub(super) fn new(inner: Arc<dyn LogStore>, seams: Seams, requests: Arc<Requests>) -> Self {
        Self { inner, seams, requests, process: Arc::default() }
    }

    /// Ends the process. A request that waited below may still land.
    pub(super) fn crash(&self) {
        self.process.crashed.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_crashed(&self) -> bool {
        self.process.crashed.load(Ordering::Relaxed)
    }

    /// Whether this process claimed the log, and no other one has begun to claim it since.
    pub(super) fn is_newest_claimant(&self) -> bool {
        self.process.claim.load(Ordering::Relaxed) == self.requests.claims.load(Ordering::Relaxed)
    }

    /// A claim that another process had before: this one does not know yet that it owns nothing.
    fn note_refused_claim(&self, key: &str) {
        if key.starts_with("shards/0/epochs/") {
            self.process.claim.store(0, Ordering::Relaxed);
        }
    }

    fn note_claim(&self, key: &str) {
        let Some((shard, _)) = key.split_once("/epochs/") else { return };
        // Whoever claims a log begins with its first shard.
        if shard == "shards/0" {
            let claim = self.requests.claims.fetch_add(1, Ordering::Relaxed) + 1;
            self.process.claim.store(claim, Ordering::Relaxed);
        }
        let mut claimed = lock(&self.process.claimed);
        claimed.insert(key.to_owned());
        let of_shard = claimed.iter().filter(|claim| claim.starts_with(&format!("{shard}/"))).count();
        if of_shard as u64 > 1 + self.process.failures.load(Ordering::Relaxed) {
            self.requests.failed_by_itself.store(true, Ordering::Relaxed);
        }
    }

    /// The next claim of shards that this process has claimed already is meant.
    pub(super) fn note_failure(&self) {
        self.process.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Holds all requests and answers back for a while.
    pub(super) fn pause(&self, time: Duration) {
        let until = self.seams.clock.monotonic() + time;
        let until_ms = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
        self.process.paused_until_ms.store(until_ms, Ordering::Relaxed);
    }

    pub(super) fn is_paused(&self) -> bool {
        !self.pause_left().is_zero()
    }

    fn pause_left(&self) -> Duration {
        let until = Duration::from_millis(self.process.paused_until_ms.load(Ordering::Relaxed));
        until.saturating_sub(self.seams.clock.monotonic())
    }

    /// A process likes to stop at the worst moment: between what it has seen and what it deletes.
    fn stumble(&self, verb: Verb, key: &str) {
        let every = match verb {
            Verb::List if key.ends_with("/data") => 6,
            Verb::Delete => 100,
            Verb::Create | Verb::Read | Verb::List => return,
        };
        if !self.requests.is_calm() && self.draw(every) == 0 {
            self.pause(Duration::from_secs(5 + self.draw(40)));
        }
    }

    async fn answer<T>(
        &self,
        verb: Verb,
        key: &str,
        request: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.wait_until_alive().await;
        self.requests.note(verb, key, self.seams.clock.now_ms());
        self.stumble(verb, key);
        self.delay(verb).await;
        self.wait_until_alive().await;
        let answer = request.await;
        self.delay(verb).await;
        self.wait_until_alive().await;
        answer
    }

    /// Slow creates are faults of the store below.
    async fn delay(&self, verb: Verb) {
        let (rate, max_ms) = match verb {
            Verb::Create => return,
            Verb::Read => (10, 2000),
            Verb::List => (60, 8000),
            Verb::Delete => (60, 4000),
        };
        if !self.requests.is_calm() && self.draw(1000) < rate {
            let delay = Duration::from_millis(self.draw(max_ms));
            self.seams.clock.sleep(delay).await;
        }
    }

    async fn wait_until_alive(&self) {
        loop {
            if self.is_crashed() {
                std::future::pending::<()>().await;
            }
            let left = self.pause_left();
            if left.is_zero() {
                return;
            }
            self.seams.clock.sleep(left).await;
        }
    }

    fn draw(&self, bound: u64) -> u64 {
        let mut bytes = [0; 8];
        self.seams.rng.fill(&mut bytes);
        u64::from_le_bytes(bytes) % bound
    }
}

#[async_trait]
impl LogStore for SimStore {
    async fn create(&self, key: &str, bytes: Bytes) -> Result<(), StoreError> {
        self.note_claim(key);
        let created = self.answer(Verb::Create, key, self.inner.create(key, bytes)).await;
        if matches!(created, Err(StoreError::AlreadyExists { .. })) {
            self.note_refused_claim(key);
        }
        created
    }

    async fn create_large(&self, key: &str) -> Result<Box<dyn LargeObject>, StoreError> {
        let inner = self.answer(Verb::Create, key, self.inner.create_large(key)).await?;
        Ok(Box::new(SimLargeObject { inner, store: self.clone() }))
    }

    async fn get(&self, key: &str) -> Result<Bytes, StoreError> {
        self.answer(Verb::Read, key, self.inner.get(key)).await
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes, StoreError> {
        self.answer(Verb::Read, key, self.inner.get_range(key, range)).await
    }

    async fn get_prefix(&self, key: &str, length: u64) -> Result<ObjectPrefix, StoreError> {
        self.answer(Verb::Read, key, self.inner.get_prefix(key, length)).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>, StoreError> {
        self.answer(Verb::List, prefix, self.inner.list(prefix)).await
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.answer(Verb::Delete, key, self.inner.delete(key)).await
    }

    async fn sync(&self, key: &str) -> Result<(), StoreError> {
        self.answer(Verb::Read, key, self.inner.sync(key)).await
    }

    fn linger_default(&self) -> Duration {
        self.inner.linger_default()
    }

    fn location(&self) -> &str {
        self.inner.location()
    }
}

struct SimLargeObject {
    inner: Box<dyn LargeObject>,
    store: SimStore,
}

#[async_trait]
impl LargeObject for SimLargeObject {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        self.store.wait_until_alive().await;
        self.inner.write(bytes).await
    }

    async fn finish(self: Box<Self>) -> Result<(), StoreError> {
        self.store.wait_until_alive().await;
        let finished = self.inner.finish().await;
        self.store.wait_until_alive().await;
        finished
    }

    async fn abort(self: Box<Self>) {
        self.store.wait_until_alive().await;
        self.inner.abort().await;
    }
}
