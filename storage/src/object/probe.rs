//! Asks a store at start whether it keeps put-if-absent at all.
//!
//! A store that takes the condition and ignores it would let two writers overwrite each other. A
//! probe finds such a store; that a store is free of races under load it cannot prove.

use std::fmt::Write;

use bytes::Bytes;
use futures::future::join_all;
use thiserror::Error;

use super::{LogStore, StoreError, StoreErrorKind};
use crate::seam::Rng;

const RACERS: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProbeError {
    #[error(
        "store {location} overwrites an object on a put-if-absent, so two servers could destroy each \
         other's data; strandline needs a store that supports conditional puts"
    )]
    Overwrites { location: String },
    #[error(
        "store {location} let {winners} of {RACERS} racing put-if-absent requests for one key succeed \
         (exactly 1 must); strandline needs a store with atomic conditional puts"
    )]
    Race { location: String, winners: usize },
    #[error("store {location} gave back other bytes than were put")]
    OtherBytes { location: String },
    #[error("store {location} cannot be used: {source}")]
    Store { location: String, source: StoreError },
}

/// Tries put-if-absent under keys of its own, and deletes what it made.
///
/// # Errors
/// [`ProbeError`] if the store fails or does not keep the condition.
pub async fn probe(store: &dyn LogStore, rng: &dyn Rng) -> Result<(), ProbeError> {
    let prefix = rng.bytes16().iter().fold(String::from("probe/"), |mut key, byte| {
        write!(key, "{byte:02x}").expect("writing to a string never fails");
        key
    });
    let keys = [format!("{prefix}-twice"), format!("{prefix}-race")];
    let mut answer = put_twice(store, &keys[0]).await;
    if answer.is_ok() {
        answer = race(store, &keys[1]).await;
    }
    for key in &keys {
        // What stays behind is a few bytes under a key that nobody reads.
        let _ = store.delete(key).await;
    }
    answer
}

async fn put_twice(store: &dyn LogStore, key: &str) -> Result<(), ProbeError> {
    let (first, second) = (Bytes::from_static(b"first"), Bytes::from_static(b"second"));
    store.create(key, first.clone()).await.map_err(|source| failed(store, source))?;
    if create_wins(store, key, second).await? {
        return Err(ProbeError::Overwrites { location: store.location().to_owned() });
    }
    expect_bytes(store, key, &first).await
}

async fn race(store: &dyn LogStore, key: &str) -> Result<(), ProbeError> {
    let contents: Vec<Bytes> = (0..RACERS).map(|racer| Bytes::from(racer.to_string())).collect();
    let racers = contents.iter().map(|bytes| create_wins(store, key, bytes.clone()));
    let won: Vec<bool> = join_all(racers).await.into_iter().collect::<Result<_, _>>()?;
    let mut winners = contents.iter().zip(won).filter_map(|(bytes, won)| won.then_some(bytes));
    match (winners.next(), winners.count()) {
        (Some(winner), 0) => expect_bytes(store, key, winner).await,
        (first, others) => {
            let winners = others + usize::from(first.is_some());
            Err(ProbeError::Race { location: store.location().to_owned(), winners })
        }
    }
}

async fn create_wins(store: &dyn LogStore, key: &str, bytes: Bytes) -> Result<bool, ProbeError> {
    match store.create(key, bytes).await {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == StoreErrorKind::AlreadyExists => Ok(false),
        Err(source) => Err(failed(store, source)),
    }
}

async fn expect_bytes(store: &dyn LogStore, key: &str, expected: &Bytes) -> Result<(), ProbeError> {
    match store.get(key).await {
        Ok(bytes) if bytes == expected => Ok(()),
        Ok(_) => Err(ProbeError::OtherBytes { location: store.location().to_owned() }),
        Err(source) => Err(failed(store, source)),
    }
}

fn failed(store: &dyn LogStore, source: StoreError) -> ProbeError {
    ProbeError::Store { location: store.location().to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use async_trait::async_trait;

    use super::super::{LargeObject, ObjectMeta, ObjectPrefix, ObjectStoreBackend};
    use super::*;
    use crate::seam::SeededRng;

    /// Keeps the condition for the first `honest` creates only, as if checks were not atomic.
    #[derive(Debug)]
    struct Overwriting {
        inner: ObjectStoreBackend,
        honest: AtomicU64,
    }

    #[async_trait]
    impl LogStore for Overwriting {
        async fn create(&self, key: &str, bytes: Bytes) -> Result<(), StoreError> {
            let spend = |left: u64| left.checked_sub(1);
            if self.honest.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_err() {
                self.inner.delete(key).await?;
            }
            self.inner.create(key, bytes).await
        }

        async fn create_large(&self, key: &str) -> Result<Box<dyn LargeObject>, StoreError> {
            self.inner.create_large(key).await
        }

        async fn get(&self, key: &str) -> Result<Bytes, StoreError> {
            self.inner.get(key).await
        }

        async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes, StoreError> {
            self.inner.get_range(key, range).await
        }

        async fn get_prefix(&self, key: &str, length: u64) -> Result<ObjectPrefix, StoreError> {
            self.inner.get_prefix(key, length).await
        }

        async fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>, StoreError> {
            self.inner.list(prefix).await
        }

        async fn delete(&self, key: &str) -> Result<(), StoreError> {
            self.inner.delete(key).await
        }

        async fn sync(&self, key: &str) -> Result<(), StoreError> {
            self.inner.sync(key).await
        }

        fn linger_default(&self) -> Duration {
            self.inner.linger_default()
        }

        fn location(&self) -> &str {
            "s3://careless"
        }
    }

    async fn probe_overwriting_after(honest: u64) -> ProbeError {
        let store = Overwriting { inner: ObjectStoreBackend::memory(), honest: AtomicU64::new(honest) };
        probe(&store, &SeededRng::new(1)).await.expect_err("the store overwrites")
    }

    #[tokio::test]
    async fn a_store_that_overwrites_is_refused_by_name() {
        let error = probe_overwriting_after(0).await;
        assert_eq!(error, ProbeError::Overwrites { location: "s3://careless".to_owned() });
        assert!(error.to_string().contains("s3://careless"), "{error}");
    }

    #[tokio::test]
    async fn a_store_where_every_racer_wins_is_refused() {
        let error = probe_overwriting_after(2).await;
        assert_eq!(error, ProbeError::Race { location: "s3://careless".to_owned(), winners: RACERS });
    }

    #[tokio::test]
    async fn a_store_that_keeps_the_condition_passes_and_is_left_empty() {
        let store = ObjectStoreBackend::memory();
        probe(&store, &SeededRng::new(1)).await.expect("memory keeps the condition");
        assert_eq!(store.list("").await.expect("memory lists"), []);
    }
}
