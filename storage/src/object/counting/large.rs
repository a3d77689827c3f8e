//! Counts the requests of a large object, by the parts in which a remote store takes it.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::Counters;
use crate::object::large_object::PART_BYTES;
use crate::object::{LargeObject, StoreError};

pub(super) struct CountingLargeObject {
    inner: Box<dyn LargeObject>,
    counters: Arc<Counters>,
    /// Bytes that no counted request carries yet.
    pending: usize,
    parts: u64,
}

impl CountingLargeObject {
    pub(super) fn new(inner: Box<dyn LargeObject>, counters: Arc<Counters>) -> Self {
        Self { inner, counters, pending: 0, parts: 0 }
    }

    fn count_part(&mut self, answer: &Result<(), StoreError>) {
        if self.parts == 0 {
            // The request that begins an upload in parts.
            self.counters.count_create(answer, 0);
        }
        self.parts += 1;
        self.counters.count_create(answer, PART_BYTES);
        self.pending -= PART_BYTES;
    }
}

#[async_trait]
impl LargeObject for CountingLargeObject {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        self.pending += bytes.len();
        let answer = self.inner.write(bytes).await;
        while self.pending >= PART_BYTES {
            self.count_part(&answer);
        }
        answer
    }

    async fn finish(self: Box<Self>) -> Result<(), StoreError> {
        let answer = self.inner.finish().await;
        if self.parts == 0 || self.pending > 0 {
            self.counters.count_create(&answer, self.pending);
        }
        if self.parts > 0 {
            // The request that joins the parts.
            self.counters.count_create(&answer, 0);
        }
        answer
    }

    async fn abort(self: Box<Self>) {
        self.inner.abort().await;
    }
}
