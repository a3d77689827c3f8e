//! Counts what a store is asked for, so that a request budget can be asserted and shown.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use metrics::counter;

use super::{LogStore, ObjectMeta, ObjectPrefix, StoreError};

/// A store that counts. Requests go to the one below unchanged.
#[derive(Debug)]
pub struct CountingStore {
    inner: Arc<dyn LogStore>,
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
        Self {
            inner,
            creates: AtomicU64::new(0),
            gets: AtomicU64::new(0),
            lists: AtomicU64::new(0),
            deletes: AtomicU64::new(0),
            bytes_created: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
        }
    }

    pub fn counts(&self) -> RequestCounts {
        RequestCounts {
            creates: self.creates.load(Ordering::Relaxed),
            gets: self.gets.load(Ordering::Relaxed),
            lists: self.lists.load(Ordering::Relaxed),
            deletes: self.deletes.load(Ordering::Relaxed),
            bytes_created: self.bytes_created.load(Ordering::Relaxed),
            bytes_read: self.bytes_read.load(Ordering::Relaxed),
        }
    }

    fn count_get<T>(&self, answer: &Result<T, StoreError>, length: impl FnOnce(&T) -> usize) {
        self.gets.fetch_add(1, Ordering::Relaxed);
        count_request("get", answer);
        if let Ok(answer) = answer {
            let length = length(answer) as u64;
            self.bytes_read.fetch_add(length, Ordering::Relaxed);
            counter!("strandline_object_bytes_total", "verb" => "get").increment(length);
        }
    }
}

fn count_request<T>(verb: &'static str, answer: &Result<T, StoreError>) {
    let status = answer.as_ref().map_or_else(|error| error.kind().as_str(), |_| "ok");
    counter!("strandline_object_requests_total", "verb" => verb, "status" => status).increment(1);
}

#[async_trait]
impl LogStore for CountingStore {
    async fn create(&self, key: &str, bytes: Bytes) -> Result<(), StoreError> {
        let length = bytes.len() as u64;
        self.creates.fetch_add(1, Ordering::Relaxed);
        let answer = self.inner.create(key, bytes).await;
        count_request("create", &answer);
        if answer.is_ok() {
            self.bytes_created.fetch_add(length, Ordering::Relaxed);
            counter!("strandline_object_bytes_total", "verb" => "create").increment(length);
        }
        answer
    }

    async fn get(&self, key: &str) -> Result<Bytes, StoreError> {
        let answer = self.inner.get(key).await;
        self.count_get(&answer, Bytes::len);
        answer
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes, StoreError> {
        let answer = self.inner.get_range(key, range).await;
        self.count_get(&answer, Bytes::len);
        answer
    }

    async fn get_prefix(&self, key: &str, length: u64) -> Result<ObjectPrefix, StoreError> {
        let answer = self.inner.get_prefix(key, length).await;
        self.count_get(&answer, |prefix| prefix.bytes.len());
        answer
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>, StoreError> {
        self.lists.fetch_add(1, Ordering::Relaxed);
        let answer = self.inner.list(prefix).await;
        count_request("list", &answer);
        answer
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.deletes.fetch_add(1, Ordering::Relaxed);
        let answer = self.inner.delete(key).await;
        count_request("delete", &answer);
        answer
    }

    async fn sync(&self, key: &str) -> Result<(), StoreError> {
        self.inner.sync(key).await
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
}
