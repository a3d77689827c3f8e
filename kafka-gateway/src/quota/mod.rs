//! Quotas of bytes that clients send and fetch: whoever is over its quota gets its answer with the time
//! that it has to wait, and is not read from for so long (KIP-219).
//!
//! Who has which quota is in the log. How much of it is used is known here alone, and begins anew with the
//! process.

mod bucket;
mod buckets;
mod mute;

use std::sync::Mutex;
use std::time::Duration;

use strandline_storage::access::AppliedQuota;

use self::buckets::{Buckets, Payer, burst_bytes};
pub(crate) use self::mute::Mute;
use crate::context::Context;
use crate::telemetry;

/// The keys of quotas, as Kafka has them.
pub(crate) const PRODUCER_BYTE_RATE: &str = "producer_byte_rate";
pub(crate) const CONSUMER_BYTE_RATE: &str = "consumer_byte_rate";
/// Kept, and without effect.
pub(crate) const REQUEST_PERCENTAGE: &str = "request_percentage";

/// How much of their quotas all clients have used.
#[derive(Debug, Default)]
pub(crate) struct ClientQuotas {
    produced: Mutex<Buckets>,
    fetched: Mutex<Buckets>,
}

impl Context {
    /// Counts the bytes of a Produce request, and mutes the connection if they are too many; gives the time
    /// of that in milliseconds.
    pub(crate) fn charge_produced(&self, bytes: usize) -> i32 {
        let Some(quota) = self.quota(PRODUCER_BYTE_RATE) else { return 0 };
        let now = self.gateway.clock().monotonic();
        let wait = lock(&self.gateway.quotas.produced).charge(self.payer(), quota, bytes, now);
        self.throttle(PRODUCER_BYTE_RATE, wait, now)
    }

    /// Whether the client fetched too much before: the time that it is to wait and its connection is muted,
    /// in milliseconds, or 0.
    pub(crate) fn check_fetched(&self) -> i32 {
        let Some(quota) = self.quota(CONSUMER_BYTE_RATE) else { return 0 };
        let now = self.gateway.clock().monotonic();
        let wait = lock(&self.gateway.quotas.fetched).wait(self.payer(), quota, now);
        self.throttle(CONSUMER_BYTE_RATE, wait, now)
    }

    /// Counts the bytes of a Fetch answer, as [`Self::charge_produced`] does those of a request.
    pub(crate) fn charge_fetched(&self, bytes: usize) -> i32 {
        let Some(quota) = self.quota(CONSUMER_BYTE_RATE).filter(|_| bytes > 0) else { return 0 };
        let now = self.gateway.clock().monotonic();
        let wait = lock(&self.gateway.quotas.fetched).charge(self.payer(), quota, bytes, now);
        self.throttle(CONSUMER_BYTE_RATE, wait, now)
    }

    /// The most bytes that a Fetch may answer with: who gets more at once has to wait for it.
    pub(crate) fn fetched_bytes_max(&self) -> usize {
        self.quota(CONSUMER_BYTE_RATE).map_or(usize::MAX, burst_bytes)
    }

    fn quota(&self, key: &str) -> Option<AppliedQuota> {
        let Payer { user, client_id } = self.payer();
        self.log().access().quotas.applied(key, user, client_id)
    }

    fn payer(&self) -> Payer<'_> {
        let client_id = self.client_id.as_deref().unwrap_or_default();
        Payer { user: &self.connection.principal.name, client_id }
    }

    fn throttle(&self, key: &'static str, wait: Duration, now: Duration) -> i32 {
        let wait_ms = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
        if wait_ms > 0 {
            telemetry::throttled(key);
            self.connection.mute.until(now + Duration::from_millis(u64::from(wait_ms.unsigned_abs())));
        }
        wait_ms
    }
}

fn lock(buckets: &Mutex<Buckets>) -> std::sync::MutexGuard<'_, Buckets> {
    buckets.lock().expect("no holder of the lock panics")
}
