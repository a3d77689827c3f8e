//! What one client, or all that share a quota, may still send or fetch (a token bucket, as Kafka has one in
//! `TokenBucket`). Pure.
//!
//! Kafka counts bytes in 11 windows of a second. A bucket allows as much at once, waits for as long after it,
//! and is exact where requests are large: what Kafka's windows forget before it was waited for is not
//! forgotten here.

use std::time::Duration;

/// A client that comes after a pause may send at once what its quota allows in this time: all but one of
/// Kafka's windows (`quota.window.num`, `quota.window.size.seconds`).
const BURST_SECONDS: f64 = 10.0;

/// The bytes of a burst.
pub(super) fn burst(limit: f64) -> f64 {
    limit * BURST_SECONDS
}

/// What is left of a quota, at times that never go back.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bucket {
    /// Bytes that may go through at once; below 0 for those that went through too early.
    left: f64,
    /// Bytes in a second.
    limit: f64,
    at: Duration,
}

impl Bucket {
    /// One of which nothing was used.
    pub(super) fn new(limit: f64, now: Duration) -> Self {
        Self { left: burst(limit), limit, at: now }
    }

    /// Takes bytes out, whether there are as many or not.
    pub(super) fn take(&mut self, bytes: usize) {
        self.left -= bytes as f64;
    }

    /// Time has passed, and from now on the limit is this one.
    pub(super) fn advance(&mut self, limit: f64, now: Duration) {
        self.left = self.left_at(now).min(burst(limit));
        (self.limit, self.at) = (limit, now);
    }

    /// How long nothing may go through, so that what went through too early is waited for.
    pub(super) fn wait(&self) -> Duration {
        let seconds = (-self.left / self.limit).max(0.0);
        // A limit far below one byte a second gives a time that no clock has.
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// Whether it is as good as a new one.
    pub(super) fn is_full(&self, now: Duration) -> bool {
        self.left_at(now) >= burst(self.limit)
    }

    pub(super) fn last_used(&self) -> Duration {
        self.at
    }

    fn left_at(&self, now: Duration) -> f64 {
        self.left + now.saturating_sub(self.at).as_secs_f64() * self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_burst_of_ten_seconds_passes_and_more_waits_for_its_time() {
        let mut bucket = Bucket::new(100.0, seconds(5.0));
        bucket.take(1000);
        assert_eq!(bucket.wait(), Duration::ZERO);
        bucket.take(500);
        assert_eq!(bucket.wait(), seconds(5.0));
        bucket.advance(100.0, seconds(8.0));
        assert_eq!(bucket.wait(), seconds(2.0));
    }

    #[test]
    fn a_bucket_holds_no_more_than_a_burst_however_long_it_waits() {
        let mut bucket = Bucket::new(100.0, Duration::ZERO);
        bucket.take(10);
        assert!(!bucket.is_full(Duration::ZERO) && bucket.is_full(seconds(0.1)));
        bucket.advance(100.0, seconds(1e6));
        bucket.take(1100);
        assert_eq!(bucket.wait(), seconds(1.0));
    }

    #[test]
    fn another_limit_holds_from_now_on() {
        let mut bucket = Bucket::new(100.0, Duration::ZERO);
        bucket.advance(10.0, seconds(1.0));
        bucket.take(150);
        assert_eq!(bucket.wait(), seconds(5.0));
        bucket.advance(50.0, seconds(1.0));
        assert_eq!(bucket.wait(), seconds(1.0));
    }

    #[test]
    fn a_limit_of_next_to_nothing_waits_for_ever() {
        let mut bucket = Bucket::new(1e-300, Duration::ZERO);
        bucket.take(usize::MAX);
        assert_eq!(bucket.wait(), Duration::MAX);
    }
}
