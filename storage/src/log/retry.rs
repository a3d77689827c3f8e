//! Waiting for a store that fails for a while.

use std::time::Duration;

use crate::object::StoreError;
use crate::seam::Clock;

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
