//! Puts one object under one key until it is known what became of it.
//!
//! A put that does not answer Ok may or may not have landed, and a store may even answer
//! "already exists" to its own retry of our request, or to a conflict after which nothing is there.
//! So every other answer is resolved by reading the key: our own nonce is success, another one is
//! not ours, and if nothing is there the same bytes are put under the same key again.
//!
//! Invariant: the request runs in a task of its own and is never dropped; a timeout only stops the
//! waiting for it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::retry::Backoff;
use crate::format::writer_nonce_of;
use crate::object::{LogStore, StoreError, StoreErrorKind};
use crate::seam::Seams;

/// As much of an object as its kind and nonce take.
const NONCE_READ_LENGTH: u64 = 512;

/// One object to put.
#[derive(Clone, Debug)]
pub(super) struct Put {
    pub(super) key: String,
    pub(super) bytes: Bytes,
    pub(super) writer_nonce: [u8; 16],
}

/// What became of a put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PutOutcome {
    /// The object is there, and it is ours.
    Durable,
    /// Somebody else's object has the key.
    Foreign,
    /// The store failed for good.
    Failed(StoreError),
}

enum Resolved {
    Ours,
    Foreign,
    Absent,
}

pub(super) struct Putter {
    pub(super) store: Arc<dyn LogStore>,
    pub(super) seams: Seams,
    pub(super) timeout: Duration,
}

impl Putter {
    /// Puts the object; transient failures are retried for ever.
    pub(super) async fn put(&self, put: &Put) -> PutOutcome {
        let mut backoff = Backoff::new(&*self.seams.clock);
        loop {
            match self.try_create(put).await {
                Ok(()) => return PutOutcome::Durable,
                Err(error) if is_permanent(&error) => return PutOutcome::Failed(error),
                Err(error) => tracing::debug!(key = put.key, %error, "put has to be resolved"),
            }
            match self.resolve(put, &mut backoff).await {
                Ok(Resolved::Ours) => return PutOutcome::Durable,
                Ok(Resolved::Foreign) => return PutOutcome::Foreign,
                Ok(Resolved::Absent) => backoff.wait().await,
                Err(error) => return PutOutcome::Failed(error),
            }
        }
    }

    async fn try_create(&self, put: &Put) -> Result<(), StoreError> {
        let (store, Put { key, bytes, .. }) = (self.store.clone(), put.clone());
        let request = tokio::spawn(async move { store.create(&key, bytes).await });
        tokio::select! {
            biased;
            answer = request => match answer {
                Ok(answer) => answer,
                Err(stopped) => Err(unavailable(put, stopped)),
            },
            () = self.seams.clock.sleep(self.timeout) => Err(unavailable(put, "no answer in time")),
        }
    }

    /// Reads the key until the store answers.
    async fn resolve(&self, put: &Put, backoff: &mut Backoff<'_>) -> Result<Resolved, StoreError> {
        loop {
            match self.store.get_prefix(&put.key, NONCE_READ_LENGTH).await {
                Ok(prefix) => return Ok(owner(&prefix.bytes, put)),
                Err(StoreError::NotFound { .. }) => return Ok(Resolved::Absent),
                Err(error) if is_permanent(&error) => return Err(error),
                Err(error) => tracing::debug!(key = put.key, %error, "put is not resolved yet"),
            }
            backoff.wait().await;
        }
    }
}

/// An object that cannot be read at all is certainly not the one that was put.
fn owner(prefix: &[u8], put: &Put) -> Resolved {
    match writer_nonce_of(prefix) {
        Ok((_, nonce)) if nonce == put.writer_nonce => Resolved::Ours,
        _ => Resolved::Foreign,
    }
}

fn is_permanent(error: &StoreError) -> bool {
    match error.kind() {
        StoreErrorKind::Unavailable | StoreErrorKind::AlreadyExists | StoreErrorKind::NotFound => false,
        StoreErrorKind::Denied
        | StoreErrorKind::NoSpace
        | StoreErrorKind::LocalFailed
        | StoreErrorKind::Invalid => true,
    }
}

fn unavailable(put: &Put, reason: impl ToString) -> StoreError {
    StoreError::Unavailable { key: put.key.clone(), reason: reason.to_string() }
}
