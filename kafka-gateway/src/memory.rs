//! Memory that all connections share: what their large requests, or their large answers, may hold
//! together.
//!
//! Invariant: memory is held for bytes that are there, never for bytes that a client announced. Who
//! waits for memory is seen by all who hold some, so that a client that stalls cannot keep it.

use std::sync::Arc;
use std::time::Duration;

use strandline_storage::seam::Clock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Bytes that may be held at a time.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    bytes: Arc<Semaphore>,
    /// Whoever has it takes no more from the budget: holders that all wait for more would otherwise
    /// wait for each other.
    overdraft: Arc<Semaphore>,
    /// How many wait for memory.
    waiting: watch::Sender<usize>,
    /// How long a client may stall while others wait for the memory that it holds.
    contended_timeout: Duration,
    clock: Arc<dyn Clock>,
}

impl MemoryBudget {
    pub(crate) fn new(bytes_max: usize, contended_timeout: Duration, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            bytes: Arc::new(Semaphore::new(bytes_max)),
            overdraft: Arc::new(Semaphore::new(1)),
            waiting: watch::Sender::new(0),
            contended_timeout,
            clock,
        })
    }

    pub(crate) fn available_bytes(&self) -> usize {
        self.bytes.available_permits()
    }

    /// Holds nothing yet.
    pub(crate) fn empty(self: &Arc<Self>) -> Memory {
        self.try_take(0).expect("no bytes are always there")
    }

    /// Takes bytes if they are there.
    pub(crate) fn try_take(self: &Arc<Self>, bytes: usize) -> Option<Memory> {
        let held = self.bytes.clone().try_acquire_many_owned(permits(bytes)).ok()?;
        Some(Memory { budget: self.clone(), held, overdraft: None })
    }

    /// Waits for bytes.
    pub(crate) async fn take(self: &Arc<Self>, bytes: usize) -> Memory {
        let _waiting = Waiting::new(self);
        let held = acquire(&self.bytes, permits(bytes)).await;
        Memory { budget: self.clone(), held, overdraft: None }
    }

    /// Resolves as soon as somebody waits for memory.
    async fn is_wanted(&self) {
        let mut waiting = self.waiting.subscribe();
        // The sender lives as long as this.
        let _ = waiting.wait_for(|waiting| *waiting > 0).await;
    }
}

fn permits(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

async fn acquire(semaphore: &Arc<Semaphore>, permits: u32) -> OwnedSemaphorePermit {
    semaphore.clone().acquire_many_owned(permits).await.expect("a budget is never closed")
}

/// Counts somebody who waits for as long as it lives.
struct Waiting<'a>(&'a MemoryBudget);

impl<'a> Waiting<'a> {
    fn new(budget: &'a MemoryBudget) -> Self {
        budget.waiting.send_modify(|waiting| *waiting += 1);
        Self(budget)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.send_modify(|waiting| *waiting -= 1);
    }
}

/// Bytes that somebody holds; given back when dropped.
#[derive(Debug)]
pub(crate) struct Memory {
    budget: Arc<MemoryBudget>,
    held: OwnedSemaphorePermit,
    overdraft: Option<OwnedSemaphorePermit>,
}

impl Memory {
    pub(crate) fn bytes(&self) -> usize {
        self.held.num_permits()
    }

    /// Waits for more bytes. One holder at a time gets them although they are not there.
    pub(crate) async fn grow(&mut self, bytes: usize) {
        if self.overdraft.is_some() {
            return;
        }
        let _waiting = Waiting::new(&self.budget);
        tokio::select! {
            biased;
            more = acquire(&self.budget.bytes, permits(bytes)) => self.held.merge(more),
            overdraft = acquire(&self.budget.overdraft, 1) => self.overdraft = Some(overdraft),
        }
    }

    /// Gives back what is no longer needed; never more than there is.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        drop(self.held.split(bytes.min(self.bytes())));
    }

    /// Resolves when a client that holds this has done nothing for too long, with the time that it
    /// had: less when others wait for the memory.
    pub(crate) async fn stalled(&self, timeout: Duration) -> Duration {
        let clock = &self.budget.clock;
        let contended = self.budget.contended_timeout.min(timeout);
        if self.bytes() == 0 && self.overdraft.is_none() {
            clock.sleep(timeout).await;
            return timeout;
        }
        clock.sleep(contended).await;
        tokio::select! {
            () = self.budget.is_wanted() => contended,
            () = clock.sleep(timeout.saturating_sub(contended)) => timeout,
        }
    }
}

#[cfg(test)]
mod tests {
    use strandline_storage::seam::Seams;

    use super::*;

    const CONTENDED: Duration = Duration::from_secs(5);
    const TIMEOUT: Duration = Duration::from_secs(60);

    fn budget(bytes_max: usize) -> Arc<MemoryBudget> {
        MemoryBudget::new(bytes_max, CONTENDED, Seams::simulated(1).clock)
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_come_back_when_they_are_given_back_or_dropped() {
        let budget = budget(100);
        let mut memory = budget.try_take(80).unwrap();
        assert!(budget.try_take(21).is_none());
        memory.give_back(30);
        memory.grow(20).await;
        assert_eq!((memory.bytes(), budget.available_bytes()), (70, 30));
        memory.give_back(1000);
        assert_eq!((memory.bytes(), budget.available_bytes()), (0, 100));
        drop(budget.take(100).await);
        assert_eq!(budget.available_bytes(), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn holders_that_wait_for_more_do_not_wait_for_each_other() {
        let budget = budget(100);
        let (mut a, mut b) = (budget.try_take(50).unwrap(), budget.try_take(50).unwrap());
        a.grow(50).await;
        let waits = async {
            b.grow(50).await;
            b.bytes()
        };
        tokio::pin!(waits);
        assert!(futures::poll!(&mut waits).is_pending(), "one overdraft at a time");
        drop(a);
        assert_eq!(waits.await, 100);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stall_is_cut_short_when_others_wait() {
        let budget = budget(100);
        let memory = budget.try_take(100).unwrap();
        assert_eq!(memory.stalled(TIMEOUT).await, TIMEOUT);
        let waits = budget.take(1);
        tokio::pin!(waits);
        assert!(futures::poll!(&mut waits).is_pending());
        assert_eq!(memory.stalled(TIMEOUT).await, CONTENDED);
        assert_eq!(budget.empty().stalled(TIMEOUT).await, TIMEOUT, "it holds nothing");
        drop(memory);
        assert_eq!(waits.await.bytes(), 1);
    }
}
