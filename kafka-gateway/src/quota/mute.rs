//! For how long a connection is not read from.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use strandline_storage::seam::Clock;

/// The longest of the times that were asked for holds.
#[derive(Debug, Default)]
pub(crate) struct Mute {
    /// In milliseconds of the monotonic clock.
    until_ms: AtomicU64,
}

impl Mute {
    pub(crate) fn until(&self, moment: Duration) {
        let moment_ms = u64::try_from(moment.as_millis()).unwrap_or(u64::MAX);
        self.until_ms.fetch_max(moment_ms, Ordering::Relaxed);
    }

    /// Waits until the connection may be read from.
    pub(crate) async fn over(&self, clock: &dyn Clock) {
        loop {
            let until = Duration::from_millis(self.until_ms.load(Ordering::Relaxed));
            let left = until.saturating_sub(clock.monotonic());
            if left.is_zero() {
                return;
            }
            clock.sleep(left).await;
        }
    }
}
