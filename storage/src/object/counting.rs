//! Counts what a store is asked for, so that a request budget can be asserted and shown.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::{LargeObject, LogStore, ObjectMeta, ObjectPrefix, StoreError};
use crate::seam::Clock;
use crate::telemetry;

mod large;

use large::CountingLargeObject;

/// A store that counts. Requests go to the one below unchanged.
#[derive(Debug)]
pub struct CountingStore {
    inner: Arc<dyn LogStore>,
    counters: Arc<Counters>,
    /// Tells how long requests take, if anybody wants to know.
    clock: Option<Arc<dyn Clock>>,
}

#[derive(Debug, Default)]
struct Counters {
    creates: AtomicU64,
    gets: AtomicU64,
    lists: AtomicU64,
    deletes: AtomicU64,
    bytes_created: AtomicU64,
    bytes_read: AtomicU64,
}

/// What was asked for since the store was made, failed requests included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// A large object counts as the requests that a remote store would take for it.
    pub creates: u64,
    /// Reads of whole objects, ranges and prefixes.
    pub gets: u64,
    pub lists: u64,
    pub deletes: u64,
    pub bytes_created: u64,
    pub bytes_read: u64,
}

impl CountingStore {
    pub fn new(inner: Arc<dyn LogStore>) -> Self {
        Self { inner, counters: Arc::default(), clock: None }
    }

    /// One that also measures how long each request takes, large objects excepted.
    pub fn timed(inner: Arc<dyn LogStore>, clock: Arc<dyn Clock>) -> Self {
        Self { clock: Some(clock), ..Self::new(inner) }
    }

    async fn time<T>(&self, verb: &'static str, request: impl Future<Output = T>) -> T {
        let Some(clock) = &self.clock else { return request.await };
        let started = clock.monotonic();
        let answer = request.await;
        telemetry::object_request_took(verb, clock.monotonic().saturating_sub(started));
        answer
    }

    pub fn counts(&self) -> RequestCounts {
        let counters = &self.counters;
        RequestCounts {
            creates: counters.creates.load(Ordering::Relaxed),
            gets: counters.gets.load(Ordering::Relaxed),
            lists: counters.lists.load(Ordering::Relaxed),
            deletes: counters.deletes.load(Ordering::Relaxed),
            bytes_created: counters.bytes_created.load(Ordering::Relaxed),
            bytes_read: counters.bytes_read.load(Ordering::Relaxed),
        }
    }
}

impl Counters {
    fn count_create<T>(&self, answer: &Result<T, StoreError>, length: usize) {
        self.creates.fetch_add(1, Ordering::Relaxed);
        count_request("create", answer);
        if answer.is_ok() {
            self.bytes_created.fetch_add(length as u64, Ordering::Relaxed);
            telemetry::object_bytes("create", length as u64);
        }
    }

    fn count_get<T>(&self, answer: &Result<T, StoreError>, length: impl FnOnce(&T) -> usize) {
        self.gets.fetch_add(1, Ordering::Relaxed);
        count_request("get", answer);
        if let Ok(answer) = answer {
            let length = length(answer) as u64;
            self.bytes_read.fetch_add(length, Ordering::Relaxed);
            telemetry::object_bytes("get", length);
        }
    }
}

fn count_request<T>(verb: &'static str, answer: &Result<T, StoreError>) {
    let status = answer.as_ref().map_or_else(|error| error.kind().as_str(), |_| "ok");
    telemetry::object_requested(verb, status);
}

#[async_trait]
impl LogStore for CountingStore {
    async fn create(&self, key: &str, bytes: Bytes) -> Result<(), StoreError> {
        let length = bytes.len();
        let answer = self.time("create", self.inner.create(key, bytes)).await;
        self.counters.count_create(&answer, length);
        answer
    }

    async fn create_large(&self, key: &str) -> Result<Box<dyn LargeObject>, StoreError> {
        let inner = self.inner.create_large(key).await?;
        Ok(Box::new(CountingLargeObject::new(inner, Arc::clone(&self.counters))))
    }

    async fn get(&self, key: &str) -> Result<Bytes, StoreError> {
        let answer = self.time("get", self.inner.get(key)).await;
        self.counters.count_get(&answer, Bytes::len);
        answer
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes, StoreError> {
        let answer = self.time("get", self.inner.get_range(key, range)).await;
        self.counters.count_get(&answer, Bytes::len);
        answer
    }

    async fn get_adjacent(
        &self,
        key: &str,
        position: u64,
        lengths: &[u64],
    ) -> Result<Vec<Bytes>, StoreError> {
        let answer = self.time("get", self.inner.get_adjacent(key, position, lengths)).await;
        self.counters.count_get(&answer, |ranges| ranges.iter().map(Bytes::len).sum());
        answer
    }

    async fn get_prefix(&self, key: &str, length: u64) -> Result<ObjectPrefix, StoreError> {
        let answer = self.time("get", self.inner.get_prefix(key, length)).await;
        self.counters.count_get(&answer, |prefix| prefix.bytes.len());
        answer
    }

    async fn get_prefixes(&self, keys: &[String], length: u64) -> Vec<Result<ObjectPrefix, StoreError>> {
        // They run together, so their time is taken once.
        let answers = self.time("get", self.inner.get_prefixes(keys, length)).await;
        for answer in &answers {
            self.counters.count_get(answer, |prefix| prefix.bytes.len());
        }
        answers
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>, StoreError> {
        self.counters.lists.fetch_add(1, Ordering::Relaxed);
        let answer = self.time("list", self.inner.list(prefix)).await;
        count_request("list", &answer);
        answer
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.counters.deletes.fetch_add(1, Ordering::Relaxed);
        let answer = self.time("delete", self.inner.delete(key)).await;
        count_request("delete", &answer);
        answer
    }

    async fn sync(&self, key: &str) -> Result<(), StoreError> {
        self.inner.sync(key).await
    }

    async fn release_reserve(&self) -> Result<bool, StoreError> {
        self.inner.release_reserve().await
    }

    async fn restore_reserve(&self) -> Result<bool, StoreError> {
        self.inner.restore_reserve().await
    }

    fn linger_default(&self) -> Duration {
        self.inner.linger_default()
    }

    fn location(&self) -> &str {
        self.inner.location()
    }
}

#[cfg(test)]
mod tests {
    use super::super::ObjectStoreBackend;
    use super::super::large_object::PART_BYTES;
    use super::*;

    #[tokio::test]
    async fn each_request_is_counted_with_its_bytes() {
        let store = CountingStore::new(Arc::new(ObjectStoreBackend::memory()));
        store.create("a", Bytes::from_static(b"12345")).await.expect("the key is free");
        store.create("a", Bytes::from_static(b"12")).await.expect_err("the key is taken");
        store.get("a").await.expect("it is there");
        store.get_range("a", 1..3).await.expect("it is there");
        store.get_prefix("a", 1).await.expect("it is there");
        store.get("b").await.expect_err("it is not there");
        store.list("").await.expect("memory lists");
        store.delete("a").await.expect("memory deletes");
        let expected =
            RequestCounts { creates: 2, gets: 4, lists: 1, deletes: 1, bytes_created: 5, bytes_read: 8 };
        assert_eq!(store.counts(), expected);
    }

    #[tokio::test]
    async fn a_large_object_counts_as_the_requests_that_a_remote_store_takes() {
        // (length, requests): one put, or a begin, the parts and a completion.
        for (length, creates) in [(0, 1), (PART_BYTES - 1, 1), (PART_BYTES, 3), (PART_BYTES + 1, 4)] {
            let store = CountingStore::new(Arc::new(ObjectStoreBackend::memory()));
            let mut large = store.create_large("a").await.expect("memory takes large objects");
            for piece in vec![7; length].chunks(1 << 20) {
                large.write(Bytes::copy_from_slice(piece)).await.expect("memory takes bytes");
            }
            large.finish().await.expect("memory finishes");
            let counts = store.counts();
            assert_eq!((counts.creates, counts.bytes_created), (creates, length as u64));
        }
    }
}
