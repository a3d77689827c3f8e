//! Waiting for a store that fails for a while.

use std::time::Duration;

use bytes::Bytes;

use crate::object::{LogStore, StoreError};
use crate::seam::{Clock, Seams};

const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// A read during an open is given up after so many waits, which take about a minute, so that the
/// person who started the process is told.
const READ_WAITS_MAX: u32 = 36;

/// Waits longer each time, up to a bound.
pub(super) struct Backoff<'a> {
    clock: &'a dyn Clock,
    next: Duration,
}

impl<'a> Backoff<'a> {
    pub(super) fn new(clock: &'a dyn Clock) -> Self {
        Self { clock, next: BACKOFF_MIN }
    }

    pub(super) async fn wait(&mut self) {
        self.clock.sleep(self.next).await;
        self.next = (self.next * 2).min(BACKOFF_MAX);
    }
}

/// Repeats a read while its failure may pass, for about a minute.
pub(super) async fn retry_read<T, F>(clock: &dyn Clock, mut read: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut backoff = Backoff::new(clock);
    for _ in 0..READ_WAITS_MAX {
        match read().await {
            Err(error) if error.is_transient() => backoff.wait().await,
            answer => return answer,
        }
    }
    read().await
}

/// Puts an object under a key that nobody else uses, as often as it takes. What is there already is
/// an earlier try of ours, which the bytes have to show.
pub(super) async fn create_own(
    store: &dyn LogStore,
    seams: &Seams,
    key: &str,
    bytes: Bytes,
) -> Result<(), StoreError> {
    let mut backoff = Backoff::new(&*seams.clock);
    loop {
        match store.create(key, bytes.clone()).await {
            Ok(()) => return Ok(()),
            Err(StoreError::AlreadyExists { .. }) => match store.get(key).await {
                Ok(found) if found == bytes => return Ok(()),
                Ok(_) => return Err(StoreError::AlreadyExists { key: key.to_owned() }),
                // A conflict after which nothing is there.
                Err(StoreError::NotFound { .. }) => {}
                Err(error) if error.is_transient() => {}
                Err(error) => return Err(error),
            },
            Err(error) if error.is_transient() => {}
            Err(error) => return Err(error),
        }
        backoff.wait().await;
    }
}
