//! What those that have a quota have used of it. Pure.
//!
//! Invariant: at most [`BUCKETS_MAX`] buckets are kept. A full one is as good as a new one.

use std::collections::HashMap;
use std::time::Duration;

use strandline_storage::access::{AppliedQuota, QuotaScope};

use super::bucket::{Bucket, burst};

/// For so many users and clients at a time.
const BUCKETS_MAX: usize = 10_000;
/// Longer client ids share a bucket with those that begin alike.
const CLIENT_ID_BYTES_MAX: usize = 255;

/// Whose request it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payer<'a> {
    pub(super) user: &'a str,
    pub(super) client_id: &'a str,
}

/// Those who share a bucket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct BucketKey {
    user: Option<String>,
    client_id: Option<String>,
}

impl BucketKey {
    fn new(payer: Payer<'_>, scope: QuotaScope) -> Self {
        let has_user = scope != QuotaScope::Client;
        let has_client_id = scope != QuotaScope::User;
        Self {
            user: has_user.then(|| payer.user.to_owned()),
            client_id: has_client_id.then(|| shortened(payer.client_id).to_owned()),
        }
    }
}

fn shortened(client_id: &str) -> &str {
    &client_id[..client_id.floor_char_boundary(CLIENT_ID_BYTES_MAX)]
}

#[derive(Debug, Default)]
pub(super) struct Buckets {
    buckets: HashMap<BucketKey, Bucket>,
}

impl Buckets {
    /// Counts bytes, whatever their number; gives how long the client is to wait after them.
    pub(super) fn charge(
        &mut self,
        payer: Payer<'_>,
        quota: AppliedQuota,
        bytes: usize,
        now: Duration,
    ) -> Duration {
        let key = BucketKey::new(payer, quota.scope);
        if self.buckets.len() >= BUCKETS_MAX && !self.buckets.contains_key(&key) {
            self.make_room(now);
        }
        let bucket = self.buckets.entry(key).or_insert_with(|| Bucket::new(quota.limit, now));
        bucket.advance(quota.limit, now);
        bucket.take(bytes);
        bucket.wait()
    }

    /// How long a client is to wait for what was counted before; zero if it is not over its quota.
    pub(super) fn wait(&mut self, payer: Payer<'_>, quota: AppliedQuota, now: Duration) -> Duration {
        let bucket = self.buckets.get_mut(&BucketKey::new(payer, quota.scope));
        bucket.map_or(Duration::ZERO, |bucket| {
            bucket.advance(quota.limit, now);
            bucket.wait()
        })
    }

    /// Forgets the buckets that are full, or the one that was used last of all.
    fn make_room(&mut self, now: Duration) {
        self.buckets.retain(|_, bucket| !bucket.is_full(now));
        if self.buckets.len() < BUCKETS_MAX {
            return;
        }
        let oldest = self.buckets.iter().min_by_key(|(_, bucket)| bucket.last_used());
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.buckets.remove(&key);
        }
    }
}

/// The most bytes that can go out at once when none went out before.
pub(super) fn burst_bytes(quota: AppliedQuota) -> usize {
    // The conversion saturates.
    burst(quota.limit) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALICE: Payer<'_> = Payer { user: "alice", client_id: "a" };

    fn quota(limit: f64) -> AppliedQuota {
        AppliedQuota { limit, scope: QuotaScope::User }
    }

    #[test]
    fn those_in_one_scope_share_a_bucket_and_others_do_not() {
        let mut buckets = Buckets::default();
        let mut charge = |payer, scope| {
            let wait = buckets.charge(payer, AppliedQuota { limit: 10.0, scope }, 100, Duration::ZERO);
            !wait.is_zero()
        };
        let bob = Payer { user: "bob", client_id: "a" };
        let other_client = Payer { user: "alice", client_id: "b" };
        assert!(!charge(ALICE, QuotaScope::User) && charge(other_client, QuotaScope::User));
        assert!(!charge(bob, QuotaScope::User));
        assert!(!charge(ALICE, QuotaScope::Client) && charge(bob, QuotaScope::Client));
        assert!(
            !charge(ALICE, QuotaScope::UserAndClient) && !charge(other_client, QuotaScope::UserAndClient)
        );
    }

    #[test]
    fn who_is_over_the_quota_waits_and_who_was_not_counted_does_not() {
        let mut buckets = Buckets::default();
        assert!(buckets.wait(ALICE, quota(10.0), Duration::ZERO).is_zero());
        assert!(buckets.buckets.is_empty(), "to ask takes no memory");
        assert_eq!(buckets.charge(ALICE, quota(10.0), 150, Duration::ZERO), Duration::from_secs(5));
        assert_eq!(buckets.wait(ALICE, quota(10.0), Duration::ZERO), Duration::from_secs(5));
        assert!(buckets.wait(ALICE, quota(10.0), Duration::from_secs(5)).is_zero());
    }

    #[test]
    fn client_ids_without_end_do_not_take_memory_without_end() {
        let mut buckets = Buckets::default();
        for number in 0..BUCKETS_MAX + 100 {
            let client_id = format!("{number}{}", "é".repeat(1000));
            let payer = Payer { user: "", client_id: &client_id };
            let quota = AppliedQuota { limit: 1.0, scope: QuotaScope::Client };
            buckets.charge(payer, quota, 1, Duration::from_nanos(number as u64));
        }
        assert_eq!(buckets.buckets.len(), BUCKETS_MAX);
        let keys = buckets.buckets.keys().filter_map(|key| key.client_id.as_ref());
        assert!(keys.into_iter().all(|client_id| client_id.len() <= CLIENT_ID_BYTES_MAX));
        buckets.charge(ALICE, quota(1.0), 1, Duration::from_secs(1000));
        assert_eq!(buckets.buckets.len(), 1, "what is full goes first");
    }

    /// A client that sends as soon as it may, or fetches: the bytes that went through in a second.
    fn rate_of(limit: f64, sizes: &[usize], pauses_ms: &[u64], direction: Direction) -> f64 {
        let mut buckets = Buckets::default();
        let (mut now, mut sent) = (Duration::ZERO, 0.0);
        let mut turns = sizes.iter().cycle().zip(pauses_ms.iter().cycle());
        while now < Duration::from_secs(600) {
            let (size, pause_ms) = turns.next().expect("a cycle does not end");
            let over = match direction {
                Direction::In => Duration::ZERO,
                Direction::Out => buckets.wait(ALICE, quota(limit), now),
            };
            let wait = if over.is_zero() {
                sent += *size as f64;
                buckets.charge(ALICE, quota(limit), *size, now)
            } else {
                over
            };
            now += wait + Duration::from_millis(*pause_ms);
        }
        sent / now.as_secs_f64()
    }

    #[derive(Clone, Copy, Debug)]
    enum Direction {
        In,
        /// Who is over the quota gets nothing.
        Out,
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
        #[test]
        fn what_goes_through_is_within_ten_percent_of_the_quota(
            limit in 10_000.0..10_000_000.0,
            // In seconds of the quota: some are more than a burst.
            sizes in proptest::collection::vec(0.01..15.0, 1..20),
            // The client alone would be faster than the quota by far.
            pauses_ms in proptest::collection::vec(0_u64..3, 1..5),
            direction in prop_oneof![Just(Direction::In), Just(Direction::Out)],
        ) {
            let sizes: Vec<_> = sizes.iter().map(|size: &f64| (size * limit) as usize).collect();
            let rate = rate_of(limit, &sizes, &pauses_ms, direction);
            prop_assert!((0.9 * limit..1.1 * limit).contains(&rate), "{rate} is not about {limit}");
        }
    }
}
