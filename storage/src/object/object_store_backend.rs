//! Objects in a store of the `object_store` crate: memory and the cloud stores.
//!
//! Invariant: the store below sends no create a second time by itself. A create that was sent again
//! reports `AlreadyExists` for the caller's own object.
//! Invariant: all keys are below the prefix.

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
use super::{LargeObject, LogStore, ObjectMeta, ObjectPrefix, StoreError};

mod failure;
mod large;

use failure::{put_error, store_error};
use large::RemoteLargeObject;

/// Servers take no larger position in a range.
const POSITION_MAX: u64 = i64::MAX as u64;

/// A [`LogStore`] over an [`ObjectStore`].
#[derive(Clone, Debug)]
pub struct ObjectStoreBackend {
    /// Sends each request once.
    pub(super) once: Arc<dyn ObjectStore>,
    /// May send a request again.
    pub(super) patient: Arc<dyn ObjectStore>,
    /// Without slashes at its ends; empty for none.
    pub(super) prefix: String,
    pub(super) location: String,
    pub(super) linger_default: Duration,
    pub(super) access: Access,
}

/// What a store was opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    ReadWrite,
    ReadOnly,
}

impl ObjectStoreBackend {
    /// A new, empty store in memory. It ends with its last clone.
    pub fn memory() -> Self {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        Self {
            once: Arc::clone(&store),
            patient: store,
            prefix: String::new(),
            location: "memory://".to_owned(),
            linger_default: Duration::ZERO,
            access: Access::ReadWrite,
        }
    }

    fn path_of(&self, key: &str) -> Result<Path, StoreError> {
        check_key(key)?;
        let full = if self.prefix.is_empty() { key.to_owned() } else { format!("{}/{key}", self.prefix) };
        Path::parse(full).map_err(|error| StoreError::invalid(key, error))
    }

    /// The path of a key that is going to be changed.
    fn writable_path_of(&self, key: &str) -> Result<Path, StoreError> {
        match self.access {
            Access::ReadWrite => self.path_of(key),
            Access::ReadOnly => {
                let reason = format!("{} is open for reading only", self.location);
                Err(StoreError::Denied { key: key.to_owned(), reason })
            }
        }
    }

    fn key_of(&self, path: &Path) -> String {
        let path = path.as_ref();
        let below = path.strip_prefix(self.prefix.as_str()).unwrap_or(path);
        below.strip_prefix('/').unwrap_or(below).to_owned()
    }

    async fn get_clipped(&self, key: &str, range: Range<u64>) -> Result<ObjectPrefix, StoreError> {
        let path = self.path_of(key)?;
        let sent = range.start..range.end.min(POSITION_MAX);
        if sent.is_empty() {
            return self.read_nothing(key, &path).await;
        }
        let options = GetOptions { range: Some(GetRange::Bounded(sent)), ..GetOptions::default() };
        match self.patient.get_opts(&path, options).await {
            Ok(result) => read(key, result).await,
            // Stores refuse a range without any byte of the object; for the log that is an empty one.
            Err(error) if failure::may_be_range(&error) => match self.read_nothing(key, &path).await {
                Ok(nothing) if range.start >= nothing.object_length => Ok(nothing),
                _ => Err(store_error(key, error)),
            },
            Err(error) => Err(store_error(key, error)),
        }
    }

    async fn read_nothing(&self, key: &str, path: &Path) -> Result<ObjectPrefix, StoreError> {
        let meta = self.patient.head(path).await.map_err(|error| store_error(key, error))?;
        Ok(ObjectPrefix { bytes: Bytes::new(), object_length: meta.size })
    }
}

#[async_trait]
impl LogStore for ObjectStoreBackend {
    async fn create(&self, key: &str, bytes: Bytes) -> Result<(), StoreError> {
        let path = self.writable_path_of(key)?;
        let put = self.once.put_opts(&path, bytes.into(), PutMode::Create.into()).await;
        put.map(drop).map_err(|error| put_error(key, error))
    }

    async fn create_large(&self, key: &str) -> Result<Box<dyn LargeObject>, StoreError> {
        Ok(Box::new(RemoteLargeObject::new(Arc::clone(&self.patient), key, self.writable_path_of(key)?)))
    }

    async fn get(&self, key: &str) -> Result<Bytes, StoreError> {
        let result = self.patient.get(&self.path_of(key)?).await;
        Ok(read(key, result.map_err(|error| store_error(key, error))?).await?.bytes)
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes, StoreError> {
        Ok(self.get_clipped(key, range).await?.bytes)
    }

    async fn get_prefix(&self, key: &str, length: u64) -> Result<ObjectPrefix, StoreError> {
        self.get_clipped(key, 0..length).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>, StoreError> {
        let below = match check_prefix(prefix)? {
            "" if self.prefix.is_empty() => None,
            "" => Some(Path::from(self.prefix.as_str())),
            trimmed => Some(self.path_of(trimmed)?),
        };
        let listed = self
            .patient
            .list(below.as_ref())
            .map_ok(|meta| ObjectMeta { key: self.key_of(&meta.location), length: meta.size });
        let mut objects: Vec<_> = listed.try_collect().await.map_err(|error| store_error(prefix, error))?;
        objects.sort_unstable();
        Ok(objects)
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        match self.patient.delete(&self.writable_path_of(key)?).await {
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
        let pieces = store.get_adjacent("a/b", 5, &[2, 0, 1, 9, 3]).await.expect("it is there");
        assert_eq!(pieces, ["56", "", "7", "89", ""]);
        let prefix = store.get_prefix("a/b", 4).await.expect("it is there");
        assert_eq!(prefix, ObjectPrefix { bytes: Bytes::from_static(b"0123"), object_length: 10 });
        let absent = || StoreError::NotFound { key: "a".to_owned() };
        let keys = ["a/b".to_owned(), "a".to_owned()];
        assert_eq!(store.get_prefixes(&keys, 4).await, [Ok(prefix), Err(absent())]);
        assert_eq!(store.get_range("a", 0..1).await, Err(absent()));
        assert_eq!(store.get_adjacent("a", 0, &[1]).await, Err(absent()));
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
