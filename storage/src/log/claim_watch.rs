//! Looks for a newer claim of a shard that commits. Its claimant closes the epoch with a fence behind the
//! last object, and a writer that commits without a pause could move that place on for ever.
//!
//! A shard that commits nothing is not watched: it would cost requests, and its next put meets the fence.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::shared::Shared;

const INTERVAL: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct ClaimWatch {
    looked_at: Option<Duration>,
    /// At most one; it gives the epoch if that is claimed.
    looks: JoinSet<Option<u64>>,
}

impl ClaimWatch {
    /// Looks for the claim after this epoch, if it is time to. To be called at each commit.
    pub(super) fn look(&mut self, shared: &Arc<Shared>, writer_epoch: u64) {
        let now = shared.seams.clock.monotonic();
        let looked_at = *self.looked_at.get_or_insert(now);
        if now.saturating_sub(looked_at) < INTERVAL || !self.looks.is_empty() {
            return;
        }
        self.looked_at = Some(now);
        let (shared, next) = (shared.clone(), writer_epoch + 1);
        self.looks.spawn(async move {
            // What cannot be read now is looked for again.
            let found = shared.store.get_prefix(&shared.keys.epoch(next), 1).await;
            found.is_ok().then_some(next)
        });
    }

    /// The epoch whose claim is found. May be dropped and asked for again.
    pub(super) async fn claimed(&mut self) -> u64 {
        loop {
            match self.looks.join_next().await {
                Some(Ok(Some(claimed))) => return claimed,
                Some(_) => {}
                None => pending().await,
            }
        }
    }
}
