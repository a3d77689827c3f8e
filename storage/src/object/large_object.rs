//! Objects that are too large to be held in memory: written in pieces, shown whole or not at all.

use async_trait::async_trait;
use bytes::Bytes;

use super::StoreError;

/// Remote stores take an object of at least this many bytes in parts of this size, each with a
/// request of its own.
pub(super) const PART_BYTES: usize = 8 << 20;

/// An object that is being written. Nobody sees it before it is finished, and nothing of it stays if
/// it is dropped before that (on the disk at the latest when the store is opened again; a remote store
/// whose server ends in the middle may keep parts that no key leads to).
#[async_trait]
pub trait LargeObject: Send {
    /// Appends bytes. After an error, and after a call that was dropped, the object can only be
    /// aborted.
    async fn write(&mut self, bytes: Bytes) -> Result<(), StoreError>;

    /// Makes the object visible and durable. After an error nothing, or the whole object, may be there.
    async fn finish(self: Box<Self>) -> Result<(), StoreError>;

    /// Gives back what was written.
    async fn abort(self: Box<Self>);
}

/// What a write or a finish answers after an earlier one failed or was dropped.
pub(super) fn broken(key: &str) -> StoreError {
    StoreError::unavailable(key, "an earlier write of this object did not succeed")
}
