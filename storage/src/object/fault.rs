//! A store that fails the way that remote stores do, for seeded simulations.
//!
//! The store itself outlives crashes. Each simulated process talks to it through a handle of its own,
//! and gets no answer any more once it has crashed; requests that were on their way may still land.
//!
//! Invariant: a create that answers `Ok` has landed.
//! Invariant: with a seeded [`Seams`] and one thread, the same seed gives the same faults.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::task::JoinSet;

use super::{LargeObject, LogStore, ObjectMeta, ObjectPrefix, StoreError};
use crate::seam::Seams;

mod large;

use large::FaultyLargeObject;

/// How many of 1,000 requests meet which fault. The rates of creates add up to 1,000 at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultRates {
    /// Creates that never arrive and answer `Unavailable`.
    pub lost_request: u32,
    /// Creates that land but answer `Unavailable`.
    pub lost_response: u32,
    /// Creates that answer `Unavailable` and land later.
    pub late_apply: u32,
    /// Creates that answer `AlreadyExists` although nothing is there.
    pub conflict: u32,
    /// Creates that land, are sent again below the caller, and answer `AlreadyExists`.
    pub own_precondition: u32,
    /// Creates that are refused for now.
    pub busy: u32,
    /// Creates that take a while and succeed.
    pub slow: u32,
    /// Reads, listings and deletes that answer `Unavailable`.
    pub unavailable_read: u32,
    /// The longest delay of slow and late requests.
    pub delay_max: Duration,
}

impl FaultRates {
    pub const NONE: Self = Self {
        lost_request: 0,
        lost_response: 0,
        late_apply: 0,
        conflict: 0,
        own_precondition: 0,
        busy: 0,
        slow: 0,
        unavailable_read: 0,
        delay_max: Duration::ZERO,
    };

    /// Every fault often enough to meet its neighbours within a few hundred requests.
    pub const MIXED: Self = Self {
        lost_request: 40,
        lost_response: 40,
        late_apply: 40,
        conflict: 30,
        own_precondition: 30,
        busy: 30,
        slow: 100,
        unavailable_read: 30,
        delay_max: Duration::from_secs(10),
    };
}

/// What a request meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    LostRequest,
    LostResponse,
    LateApply,
    Conflict,
    OwnPrecondition,
    Busy,
    Slow,
    UnavailableRead,
}

/// A store with faults. Clones share it.
#[derive(Clone, Debug)]
pub struct FaultStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    inner: Arc<dyn LogStore>,
    seams: Seams,
    rates: FaultRates,
    enabled: AtomicBool,
    injected: Mutex<BTreeMap<Fault, u64>>,
    late: Mutex<JoinSet<()>>,
}

/// The store as one simulated process sees it. Clones are the same process.
#[derive(Clone, Debug)]
pub struct ProcessStore {
    shared: Arc<Shared>,
    crashed: Arc<AtomicBool>,
}

impl FaultStore {
    pub fn new(inner: Arc<dyn LogStore>, seams: Seams, rates: FaultRates) -> Self {
        let shared = Shared {
            inner,
            seams,
            rates,
            enabled: AtomicBool::new(true),
            injected: Mutex::default(),
            late: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// A handle for a new process.
    pub fn process(&self) -> ProcessStore {
        ProcessStore { shared: Arc::clone(&self.shared), crashed: Arc::default() }
    }

    /// From now on no request meets a fault. Late ones still land.
    pub fn stop_faults(&self) {
        self.shared.enabled.store(false, Ordering::Relaxed);
    }

    pub fn resume_faults(&self) {
        self.shared.enabled.store(true, Ordering::Relaxed);
    }

    /// How often each fault was met.
    pub fn injected(&self) -> BTreeMap<Fault, u64> {
        self.shared.injected().clone()
    }

    /// Waits until every late request has landed.
    pub async fn settle(&self) {
        let mut late = std::mem::take(&mut *self.shared.late());
        while late.join_next().await.is_some() {}
    }
}

impl Shared {
    fn injected(&self) -> MutexGuard<'_, BTreeMap<Fault, u64>> {
        self.injected.lock().expect("no holder of the lock panics")
    }

    fn late(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.late.lock().expect("no holder of the lock panics")
    }

    /// A number below `bound`, which is not 0.
    fn draw(&self, bound: u64) -> u64 {
        let mut bytes = [0; 8];
        self.seams.rng.fill(&mut bytes);
        u64::from_le_bytes(bytes) % bound
    }

    fn choose(&self, rates: &[(Fault, u32)]) -> Option<Fault> {
        if !self.enabled.load(Ordering::Relaxed) {
            return None;
        }
        let mut left = self.draw(1000);
        for (fault, rate) in rates {
            if left < u64::from(*rate) {
                *self.injected().entry(*fault).or_insert(0) += 1;
                return Some(*fault);
            }
            left -= u64::from(*rate);
        }
        None
    }

    fn choose_for_create(&self) -> Option<Fault> {
        let rates = &self.rates;
        self.choose(&[
            (Fault::LostRequest, rates.lost_request),
            (Fault::LostResponse, rates.lost_response),
            (Fault::LateApply, rates.late_apply),
            (Fault::Conflict, rates.conflict),
            (Fault::OwnPrecondition, rates.own_precondition),
            (Fault::Busy, rates.busy),
            (Fault::Slow, rates.slow),
        ])
    }

    async fn delay(&self) {
        let delay_ms = u64::try_from(self.rates.delay_max.as_millis()).unwrap_or(u64::MAX - 1);
        let delay = Duration::from_millis(self.draw(delay_ms + 1));
        self.seams.clock.sleep(delay).await;
    }

    fn create_later(self: &Arc<Self>, key: &str, bytes: Bytes) {
        let (shared, key) = (Arc::clone(self), key.to_owned());
        self.late().spawn(async move {
            shared.delay().await;
            // Nobody waits for the answer.
            let _ = shared.inner.create(&key, bytes).await;
        });
    }

    async fn create(self: &Arc<Self>, key: &str, bytes: Bytes) -> Result<(), StoreError> {
        let exists = || Err(StoreError::AlreadyExists { key: key.to_owned() });
        match self.choose_for_create() {
            None | Some(Fault::UnavailableRead) => self.inner.create(key, bytes).await,
            Some(Fault::LostRequest) => Err(StoreError::unavailable(key, "the request was lost")),
            Some(Fault::LostResponse) => {
                self.inner.create(key, bytes).await?;
                Err(StoreError::unavailable(key, "the response was lost"))
            }
            Some(Fault::LateApply) => {
                self.create_later(key, bytes);
                Err(StoreError::unavailable(key, "the request timed out"))
            }
            Some(Fault::Conflict) => exists(),
            Some(Fault::OwnPrecondition) => {
                self.inner.create(key, bytes).await?;
                exists()
            }
            Some(Fault::Busy) => Err(StoreError::unavailable(key, "the store is busy")),
            Some(Fault::Slow) => {
                self.delay().await;
                self.inner.create(key, bytes).await
            }
        }
    }

    fn meet_read_fault(&self, key: &str) -> Result<(), StoreError> {
        match self.choose(&[(Fault::UnavailableRead, self.rates.unavailable_read)]) {
            None => Ok(()),
            Some(_) => Err(StoreError::unavailable(key, "the store is busy")),
        }
    }
}

impl ProcessStore {
    /// Ends the process: no request of it is answered or begun any more. A request that waited below
    /// may still land.
    pub fn crash(&self) {
        self.crashed.store(true, Ordering::Relaxed);
    }

    async fn answer<T>(&self, request: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.stop_if_crashed().await;
        let answer = request.await;
        self.stop_if_crashed().await;
        answer
    }

    async fn read<T>(
        &self,
        key: &str,
        request: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let with_fault = async {
            self.shared.meet_read_fault(key)?;
            request.await
        };
        self.answer(with_fault).await
    }

    async fn stop_if_crashed(&self) {
        if self.crashed.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl LogStore for ProcessStore {
    async fn create(&self, key: &str, bytes: Bytes) -> Result<(), StoreError> {
        self.answer(self.shared.create(key, bytes)).await
    }

    async fn create_large(&self, key: &str) -> Result<Box<dyn LargeObject>, StoreError> {
        self.answer(async { Ok(()) }).await?;
        Ok(Box::new(FaultyLargeObject::new(self.clone(), key)))
    }

    async fn get(&self, key: &str) -> Result<Bytes, StoreError> {
        self.read(key, self.shared.inner.get(key)).await
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes, StoreError> {
        self.read(key, self.shared.inner.get_range(key, range)).await
    }

    async fn get_prefix(&self, key: &str, length: u64) -> Result<ObjectPrefix, StoreError> {
        self.read(key, self.shared.inner.get_prefix(key, length)).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>, StoreError> {
        self.read(prefix, self.shared.inner.list(prefix)).await
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.read(key, self.shared.inner.delete(key)).await
    }

    async fn sync(&self, key: &str) -> Result<(), StoreError> {
        self.read(key, self.shared.inner.sync(key)).await
    }

    async fn release_reserve(&self) -> Result<bool, StoreError> {
        self.answer(self.shared.inner.release_reserve()).await
    }

    async fn restore_reserve(&self) -> Result<bool, StoreError> {
        self.answer(self.shared.inner.restore_reserve()).await
    }

    fn linger_default(&self) -> Duration {
        self.shared.inner.linger_default()
    }

    fn location(&self) -> &str {
        self.shared.inner.location()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ObjectStoreBackend, StoreErrorKind};
    use super::*;

    const BYTES: Bytes = Bytes::from_static(b"bytes");

    fn store_with(rates: FaultRates) -> FaultStore {
        FaultStore::new(Arc::new(ObjectStoreBackend::memory()), Seams::simulated(1), rates)
    }

    async fn create_under(rates: FaultRates) -> (FaultStore, StoreErrorKind) {
        let store = store_with(rates);
        let error = store.process().create("key", BYTES).await.expect_err("every create meets the fault");
        store.stop_faults();
        (store, error.kind())
    }

    async fn has_key(store: &FaultStore) -> bool {
        store.process().get("key").await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_request_or_a_busy_store_leaves_nothing() {
        for rates in [
            FaultRates { lost_request: 1000, ..FaultRates::NONE },
            FaultRates { busy: 1000, ..FaultRates::NONE },
        ] {
            let (store, kind) = create_under(rates).await;
            assert_eq!(kind, StoreErrorKind::Unavailable);
            assert!(!has_key(&store).await);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_response_leaves_the_object() {
        let (store, kind) = create_under(FaultRates { lost_response: 1000, ..FaultRates::NONE }).await;
        assert_eq!(kind, StoreErrorKind::Unavailable);
        assert!(has_key(&store).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_request_lands_after_its_answer() {
        let rates = FaultRates { late_apply: 1000, delay_max: Duration::from_secs(60), ..FaultRates::NONE };
        let (store, kind) = create_under(rates).await;
        assert_eq!(kind, StoreErrorKind::Unavailable);
        assert!(!has_key(&store).await);
        store.settle().await;
        assert!(has_key(&store).await);
    }

    #[tokio::test(start_paused = true)]
    async fn already_exists_is_said_with_and_without_an_object() {
        let (store, kind) = create_under(FaultRates { conflict: 1000, ..FaultRates::NONE }).await;
        assert_eq!(kind, StoreErrorKind::AlreadyExists);
        assert!(!has_key(&store).await);
        let (store, kind) = create_under(FaultRates { own_precondition: 1000, ..FaultRates::NONE }).await;
        assert_eq!(kind, StoreErrorKind::AlreadyExists);
        assert!(has_key(&store).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_crashed_process_gets_no_answer_while_another_one_does() {
        let store = store_with(FaultRates::NONE);
        let (old, new) = (store.process(), store.process());
        old.crash();
        let waited = tokio::time::timeout(Duration::from_secs(3600), old.create("key", BYTES)).await;
        assert!(waited.is_err(), "a crashed process was answered");
        assert!(!has_key(&store).await);
        new.create("key", BYTES).await.expect("the other process lives");
    }

    #[tokio::test(start_paused = true)]
    async fn one_seed_gives_one_sequence_of_answers() {
        let mut runs = Vec::new();
        for _ in 0..2 {
            let store = store_with(FaultRates::MIXED);
            let process = store.process();
            let mut answers = Vec::new();
            for number in 0..500 {
                answers.push(process.create(&number.to_string(), BYTES).await.map_err(|error| error.kind()));
            }
            store.settle().await;
            assert_eq!(store.injected().len(), 7, "every fault of a create was met");
            runs.push((answers, process.list("").await.map_err(|error| error.kind())));
        }
        assert_eq!(runs[0], runs[1]);
    }
}
