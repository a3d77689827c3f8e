//! Large objects with the faults of creates. The bytes wait here until the end, so that a process that
//! crashes before it leaves nothing.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Fault, ProcessStore, Shared};
use crate::object::large_object::broken;
use crate::object::{LargeObject, StoreError};

pub(super) struct FaultyLargeObject {
    process: ProcessStore,
    key: String,
    /// None after a failed write.
    pieces: Option<Vec<Bytes>>,
}

impl FaultyLargeObject {
    pub(super) fn new(process: ProcessStore, key: &str) -> Self {
        Self { process, key: key.to_owned(), pieces: Some(Vec::new()) }
    }
}

#[async_trait]
impl LargeObject for FaultyLargeObject {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        let mut pieces = self.pieces.take().ok_or_else(|| broken(&self.key))?;
        let shared = &self.process.shared;
        self.process.answer(async { shared.meet_write_fault(&self.key) }).await?;
        pieces.push(bytes);
        self.pieces = Some(pieces);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<(), StoreError> {
        let pieces = self.pieces.ok_or_else(|| broken(&self.key))?;
        self.process.answer(self.process.shared.finish_large(&self.key, pieces)).await
    }

    async fn abort(self: Box<Self>) {}
}

impl Shared {
    fn meet_write_fault(&self, key: &str) -> Result<(), StoreError> {
        match self.choose(&[(Fault::LostRequest, self.rates.lost_request)]) {
            None => Ok(()),
            Some(_) => Err(StoreError::unavailable(key, "a part was lost")),
        }
    }

    async fn finish_large(self: &Arc<Self>, key: &str, pieces: Vec<Bytes>) -> Result<(), StoreError> {
        let rates = &self.rates;
        let fault = self.choose(&[
            (Fault::LostRequest, rates.lost_request),
            (Fault::LostResponse, rates.lost_response),
            (Fault::LateApply, rates.late_apply),
            (Fault::Slow, rates.slow),
        ]);
        match fault {
            Some(Fault::LostRequest) => Err(StoreError::unavailable(key, "the request was lost")),
            Some(Fault::LostResponse) => {
                self.apply_large(key, pieces).await?;
                Err(StoreError::unavailable(key, "the response was lost"))
            }
            Some(Fault::LateApply) => {
                let (shared, key) = (Arc::clone(self), key.to_owned());
                let late = StoreError::unavailable(&key, "the request timed out");
                self.late().spawn(async move {
                    shared.delay().await;
                    // Nobody waits for the answer.
                    let _ = shared.apply_large(&key, pieces).await;
                });
                Err(late)
            }
            Some(Fault::Slow) => {
                self.delay().await;
                self.apply_large(key, pieces).await
            }
            _ => self.apply_large(key, pieces).await,
        }
    }

    async fn apply_large(&self, key: &str, pieces: Vec<Bytes>) -> Result<(), StoreError> {
        let mut large = self.inner.create_large(key).await?;
        for piece in pieces {
            large.write(piece).await?;
        }
        large.finish().await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{FaultRates, FaultStore};
    use super::*;
    use crate::object::{LogStore, ObjectStoreBackend};
    use crate::seam::Seams;

    const PIECE: Bytes = Bytes::from_static(b"piece");

    fn store_with(rates: FaultRates) -> FaultStore {
        FaultStore::new(Arc::new(ObjectStoreBackend::memory()), Seams::simulated(1), rates)
    }

    async fn write_two(process: &ProcessStore) -> Result<(), StoreError> {
        let mut large = process.create_large("key").await?;
        large.write(PIECE).await?;
        large.write(PIECE).await?;
        large.finish().await
    }

    async fn content(store: &FaultStore) -> Option<Bytes> {
        store.stop_faults();
        store.process().get("key").await.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_fault_leaves_nothing_or_the_whole_object() {
        let lost = FaultRates { lost_request: 1000, ..FaultRates::NONE };
        let unanswered = FaultRates { lost_response: 1000, ..FaultRates::NONE };
        for (rates, expected) in [(lost, None), (unanswered, Some(Bytes::from_static(b"piecepiece")))] {
            let store = store_with(rates);
            write_two(&store.process()).await.expect_err("every request meets the fault");
            assert_eq!(content(&store).await, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_end_lands_after_its_answer() {
        let rates = FaultRates { late_apply: 1000, delay_max: Duration::from_secs(60), ..FaultRates::NONE };
        let store = store_with(rates);
        write_two(&store.process()).await.expect_err("every request meets the fault");
        assert_eq!(content(&store).await, None);
        store.settle().await;
        assert_eq!(content(&store).await, Some(Bytes::from_static(b"piecepiece")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_crash_drops_what_was_not_finished() {
        let store = store_with(FaultRates::NONE);
        let process = store.process();
        let mut large = process.create_large("key").await.expect("nothing fails");
        large.write(PIECE).await.expect("nothing fails");
        process.crash();
        let waited = tokio::time::timeout(Duration::from_secs(3600), large.finish()).await;
        assert!(waited.is_err(), "a crashed process was answered");
        assert_eq!(content(&store).await, None);
    }
}
