//! Forgets producers that were silent for long, so that what is kept of them is bounded.
//!
//! Invariant: expiry is an event, so a replay reads no clock; a producer with an open transaction
//! stays.

use std::time::Duration;

use super::Maintainer;
use crate::format::event::ExpiredProducers;
use crate::log::change;
use crate::log::error::MaintenanceError;
use crate::log::state::ShardState;

/// One commit forgets so many at most.
const PRODUCERS_MAX: usize = 10_000;

impl Maintainer {
    /// How long until producers are looked through; `None` if there are none.
    pub(super) fn time_to_expiry(&self) -> Option<Duration> {
        let at = self.due.expired + self.settings.producer_expiry_interval;
        (self.shared.durable().producer_count > 0).then(|| at.saturating_sub(self.now()))
    }

    pub(super) async fn expire_producers(&mut self) -> Result<(), MaintenanceError> {
        self.due.expired = self.now();
        let age_ms = i64::try_from(self.settings.producer_expiration.as_millis()).unwrap_or(i64::MAX);
        let since_ms = self.shared.seams.clock.now_ms().saturating_sub(age_ms);
        loop {
            let silent = silent_since(&self.shared.durable(), since_ms);
            if silent.is_empty() {
                return Ok(());
            }
            self.change(change::expire_producers(silent, since_ms)).await?;
        }
    }
}

/// Producers that were silent since a time, as many as one commit forgets.
fn silent_since(state: &ShardState, since_ms: i64) -> Vec<ExpiredProducers> {
    let mut silent = Vec::new();
    let mut left = PRODUCERS_MAX;
    for (id, partition) in state.partitions.iter().filter(|(_, partition)| !partition.producers.is_empty()) {
        let ids = partition.producers.keys().copied();
        let ids = ids.filter(|producer_id| partition.is_silent_since(*producer_id, since_ms));
        let producer_ids: Vec<_> = ids.take(left).collect();
        if !producer_ids.is_empty() {
            left -= producer_ids.len();
            silent.push(ExpiredProducers { topic_id: id.topic_id, partition: id.partition, producer_ids });
        }
        if left == 0 {
            break;
        }
    }
    silent
}
