//! Objects: where everything durable is kept, behind the few operations that the log needs.
//!
//! An object is written once, whole, under a key that nobody has used before (put-if-absent), and is
//! never changed. That one condition is all that the log asks of a store, so a local directory, a
//! store in memory and the cloud stores serve alike.
//!
//! Invariant: a `create` that answered `Ok` survives a crash of the machine, with these very bytes.
//! Invariant: no object is ever seen in part.
//! Invariant: nothing here knows what the bytes mean.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::join_all;

pub mod block_cache;
mod counting;
mod durable_local;
mod error;
pub mod fault;
pub mod file_system;
mod key;
mod large_object;
mod location;
mod object_store_backend;
mod probe;
mod remote;
pub mod sim_file_system;
mod store_settings;

pub use block_cache::{BlockCache, BlockKey};
pub use counting::{CountingStore, RequestCounts};
pub use durable_local::{DurableLocal, LocalOptions};
pub use error::{OpenError, StoreError, StoreErrorKind};
pub use large_object::LargeObject;
pub use location::DataLocation;
pub use object_store_backend::ObjectStoreBackend;
pub use probe::{ProbeError, probe};
pub use remote::{RemoteKind, RemoteLocation};
pub use store_settings::{
    Addressing, AzureSettings, GcsSettings, S3Settings, Secret, StoreSettings, Transport,
};

/// The operations that the log needs of a store. Put-if-absent is the only conditional one.
///
/// A key is a path of components joined by `/`, without a leading or trailing one.
#[async_trait]
pub trait LogStore: Send + Sync + fmt::Debug {
    /// Puts an object if its key is absent.
    ///
    /// The request goes on when the future is dropped, so whoever drops it no longer knows whether
    /// the object is there.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] if the key is taken; that may be by an earlier try of the same
    /// caller, and on some remote stores it is said of a conflict after which nothing is there. Only
    /// reading the key tells.
    async fn create(&self, key: &str, bytes: Bytes) -> Result<(), StoreError>;

    /// Begins an object that is too large to be held in memory. Its key must be one that nobody else
    /// uses (a fresh ULID): there is no put-if-absent here.
    async fn create_large(&self, key: &str) -> Result<Box<dyn LargeObject>, StoreError>;

    /// Reads a whole object.
    async fn get(&self, key: &str) -> Result<Bytes, StoreError>;

    /// Reads the bytes of `range` (end exclusive), clipped at the object's end.
    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes, StoreError>;

    /// Reads ranges that follow each other from `position` on, clipped at the object's end, in one
    /// request. Each has memory of its own, so that keeping one does not keep the others.
    async fn get_adjacent(
        &self,
        key: &str,
        position: u64,
        lengths: &[u64],
    ) -> Result<Vec<Bytes>, StoreError> {
        let end = lengths.iter().fold(position, |end, length| end.saturating_add(*length));
        let mut rest = self.get_range(key, position..end).await?;
        if lengths.len() == 1 {
            return Ok(vec![rest]);
        }
        let mut next = |length: &u64| {
            let length = usize::try_from(*length).unwrap_or(usize::MAX).min(rest.len());
            Bytes::copy_from_slice(&rest.split_to(length))
        };
        Ok(lengths.iter().map(&mut next).collect())
    }

    /// Reads the first `length` bytes (fewer if the object is shorter) and the length of the whole
    /// object, in one request.
    async fn get_prefix(&self, key: &str, length: u64) -> Result<ObjectPrefix, StoreError>;

    /// [`LogStore::get_prefix`] of several objects, an answer for each.
    async fn get_prefixes(&self, keys: &[String], length: u64) -> Vec<Result<ObjectPrefix, StoreError>> {
        join_all(keys.iter().map(|key| self.get_prefix(key, length))).await
    }

    /// All objects below `prefix`, at any depth, sorted by key. The prefix is a whole number of
    /// components: `a/b` and `a/b/` are one, and neither finds `a/bc`. An empty prefix finds all.
    async fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>, StoreError>;

    /// Deletes an object. One that is not there is deleted already.
    async fn delete(&self, key: &str) -> Result<(), StoreError>;

    /// Makes sure that an object that was read will also be there after a crash. A local file may
    /// be visible before it is durable; objects of remote stores never are.
    async fn sync(&self, key: &str) -> Result<(), StoreError>;

    /// Gives back the space that is held back for a full store, so that what gives back more can be
    /// written. True if there was any; most stores hold back nothing.
    async fn release_reserve(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Holds space back again. True if all is held back that should be, false if there is no space.
    async fn restore_reserve(&self) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// How long a commit should wait for company by default: the price and the duration of a
    /// request decide.
    fn linger_default(&self) -> Duration;

    /// The path or URL, for messages.
    fn location(&self) -> &str;
}

/// A listed object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectMeta {
    pub key: String,
    /// In bytes.
    pub length: u64,
}

/// The first bytes of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectPrefix {
    pub bytes: Bytes,
    /// The length of the whole object in bytes.
    pub object_length: u64,
}
