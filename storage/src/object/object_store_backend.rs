//! Objects in a store of the `object_store` crate: memory now, the cloud stores later.
//!
//! Invariant: the store below sends no create a second time by itself. A create that was sent again
//! reports `AlreadyExists` for the caller's own object.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, GetResult, ObjectStore, ObjectStoreExt, PutMode};

use super::key::{check_key, check_prefix};
use super::{LogStore, ObjectMeta, ObjectPrefix, StoreError};

/// A [`LogStore`] over an [`ObjectStore`].
#[derive(Clone, Debug)]
pub struct ObjectStoreBackend {
    store: Arc<dyn ObjectStore>,
    location: String,
    linger_default: Duration,
}

impl ObjectStoreBackend {
    /// A new, empty store in memory. It ends with its last clone.
    pub fn memory() -> Self {
        Self {
            store: Arc::new(InMemory::new()),
            location: "memory://".to_owned(),
            linger_default: Duration::ZERO,
        }
    }

    async fn get_clipped(&self, key: &str, range: Range<u64>) -> Result<ObjectPrefix, StoreError> {
        let path = path_of(key)?;
        let options = GetOptions { range: Some(GetRange::Bounded(range.clone())), ..GetOptions::default() };
        match self.store.get_opts(&path, options).await {
            Ok(result) => read(key, result).await,
            // Stores refuse a range without any byte of the object; for the log that is an empty one.
            Err(error) => match self.store.head(&path).await {
                Ok(meta) if range.start >= meta.size || range.is_empty() => {
                    Ok(ObjectPrefix { bytes: Bytes::new(), object_length: meta.size })
                }
                _ => Err(store_error(key, error)),
            },
        }
    }
}

#[async_trait]
impl LogStore for ObjectStoreBackend {
    async fn create(&self, key: &str, bytes: Bytes) -> Result<(), StoreError> {
        let path = path_of(key)?;
        let put = self.store.put_opts(&path, bytes.into(), PutMode::Create.into()).await;
        put.map(drop).map_err(|error| store_error(key, error))
    }

    async fn get(&self, key: &str) -> Result<Bytes, StoreError> {
        let result = self.store.get(&path_of(key)?).await;
        Ok(read(key, result.map_err(|error| store_error(key, error))?).await?.bytes)
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes, StoreError> {
        Ok(self.get_clipped(key, range).await?.bytes)
    }

    async fn get_prefix(&self, key: &str, length: u64) -> Result<ObjectPrefix, StoreError> {
        self.get_clipped(key, 0..length).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>, StoreError> {
        let trimmed = check_prefix(prefix)?;
        let path = if trimmed.is_empty() { None } else { Some(path_of(trimmed)?) };
        let listed = self
            .store
            .list(path.as_ref())
            .map_ok(|meta| ObjectMeta { key: meta.location.to_string(), length: meta.size });
        let mut objects: Vec<_> = listed.try_collect().await.map_err(|error| store_error(prefix, error))?;
        objects.sort_unstable();
        Ok(objects)
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        match self.store.delete(&path_of(key)?).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(store_error(key, error)),
        }
    }

    /// An object that such a store shows is durable already.
    async fn sync(&self, _key: &str) -> Result<(), StoreError> {
        Ok(())
    }

    fn linger_default(&self) -> Duration {
        self.linger_default
    }

    fn location(&self) -> &str {
        &self.location
    }
}

async fn read(key: &str, result: GetResult) -> Result<ObjectPrefix, StoreError> {
    let object_length = result.meta.size;
    let bytes = result.bytes().await.map_err(|error| store_error(key, error))?;
    Ok(ObjectPrefix { bytes, object_length })
}

fn path_of(key: &str) -> Result<Path, StoreError> {
    check_key(key)?;
    Path::parse(key).map_err(|error| StoreError::invalid(key, error))
}

fn store_error(key: &str, error: Error) -> StoreError {
    let key = key.to_owned();
    let reason = error.to_string();
    match error {
        // Some stores answer a failed put-if-absent as a failed precondition.
        Error::AlreadyExists { .. } | Error::Precondition { .. } => StoreError::AlreadyExists { key },
        Error::NotFound { .. } => StoreError::NotFound { key },
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => StoreError::Denied { key, reason },
        Error::InvalidPath { .. }
        | Error::NotSupported { .. }
        | Error::NotImplemented { .. }
        | Error::UnknownConfigurationKey { .. } => StoreError::Invalid { key, reason },
        _ => StoreError::Unavailable { key, reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn memory_keeps_put_if_absent_and_clips_ranges() {
        let store = ObjectStoreBackend::memory();
        store.create("a/b", Bytes::from_static(b"0123456789")).await.expect("the key is free");
        let taken = store.create("a/b", Bytes::new()).await;
        assert_eq!(taken, Err(StoreError::AlreadyExists { key: "a/b".to_owned() }));
        assert_eq!(store.get("a/b").await.expect("it is there"), "0123456789");
        for (range, expected) in [(0..3, "012"), (8..20, "89"), (10..11, ""), (99..u64::MAX, ""), (5..5, "")]
        {
            assert_eq!(store.get_range("a/b", range).await.expect("it is there"), expected);
        }
        let prefix = store.get_prefix("a/b", 4).await.expect("it is there");
        assert_eq!(prefix, ObjectPrefix { bytes: Bytes::from_static(b"0123"), object_length: 10 });
        let absent = Err(StoreError::NotFound { key: "a".to_owned() });
        assert_eq!(store.get_range("a", 0..1).await, absent);
        store.delete("a").await.expect("an absent object is deleted already");
    }

    #[tokio::test]
    async fn a_listing_is_sorted_and_keeps_to_whole_components() {
        let store = ObjectStoreBackend::memory();
        for key in ["x/b/2", "x/b/10", "xy/1", "x/b0"] {
            store.create(key, Bytes::from_static(b"1")).await.expect("the key is free");
        }
        let listed = store.list("x/b/").await.expect("memory lists");
        let keys: Vec<&str> = listed.iter().map(|meta| meta.key.as_str()).collect();
        assert_eq!(keys, ["x/b/10", "x/b/2"]);
    }
}
