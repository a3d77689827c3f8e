//! A store that takes nothing for now, because it is full or denies access: appends are refused,
//! reads go on, and what is on its way is put again until somebody has helped.
//!
//! Invariant: nothing that was assigned is taken back: the same bytes go under the same key.
//! Invariant: while the disk is full, its reserve is given out, so that what was accepted before and
//! deletions can commit. Appends are accepted again when the reserve is whole.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::health::Health;
use super::put::{Put, PutOutcome, Putter};
use super::retry::Backoff;
use super::shared::Shared;
use crate::object::{StoreError, StoreErrorKind};

/// How often it is looked whether there is space again.
const RESERVE_INTERVAL: Duration = Duration::from_secs(1);

/// Puts an object, however long the store takes nothing.
pub(super) async fn put_through(shared: &Arc<Shared>, putter: &Putter, put: &Put) -> PutOutcome {
    let mut backoff = Backoff::new(&*shared.seams.clock);
    loop {
        match putter.put(put).await {
            PutOutcome::Failed(error) if passes_with_help(&error) => {
                if begin(shared, &error).await == Space::Reserve {
                    continue;
                }
                backoff.wait().await;
            }
            PutOutcome::Durable => {
                end_unless_reserve_is_out(shared);
                return PutOutcome::Durable;
            }
            outcome => return outcome,
        }
    }
}

/// Whether people can mend it while the process runs.
fn passes_with_help(error: &StoreError) -> bool {
    match error.kind() {
        StoreErrorKind::NoSpace | StoreErrorKind::Denied | StoreErrorKind::Invalid => true,
        StoreErrorKind::LocalFailed
        | StoreErrorKind::Unavailable
        | StoreErrorKind::AlreadyExists
        | StoreErrorKind::NotFound => false,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    /// The reserve was given out just now.
    Reserve,
    None,
}

async fn begin(shared: &Arc<Shared>, error: &StoreError) -> Space {
    if shared.refuse_writes(error.to_string()) {
        tracing::error!(%error, "writes are refused until the store takes them again; reads go on");
    }
    let is_full = error.kind() == StoreErrorKind::NoSpace;
    if !is_full || shared.reserve_is_out.load(Ordering::Acquire) {
        return Space::None;
    }
    match shared.store.release_reserve().await {
        Ok(true) => {
            if !shared.reserve_is_out.swap(true, Ordering::AcqRel) {
                tokio::spawn(restore(shared.clone()));
            }
            Space::Reserve
        }
        Ok(false) => Space::None,
        Err(error) => {
            tracing::warn!(%error, "the reserve cannot be given out");
            Space::None
        }
    }
}

/// Fills the reserve as soon as there is space, and ends the trouble then.
async fn restore(shared: Arc<Shared>) {
    while !shared.is_stopped() {
        shared.seams.clock.sleep(RESERVE_INTERVAL).await;
        match shared.store.restore_reserve().await {
            Ok(true) => {
                shared.reserve_is_out.store(false, Ordering::Release);
                end(&shared);
                return;
            }
            Ok(false) => {}
            Err(error) => tracing::debug!(%error, "the reserve is not whole yet"),
        }
    }
}

fn end_unless_reserve_is_out(shared: &Shared) {
    if !shared.reserve_is_out.load(Ordering::Acquire) {
        end(shared);
    }
}

fn end(shared: &Shared) {
    if shared.accept_writes() {
        tracing::info!("the store takes writes again");
    }
}

impl Health {
    pub(super) fn is_refusing(&self) -> bool {
        matches!(self, Self::Refusing { .. })
    }
}
