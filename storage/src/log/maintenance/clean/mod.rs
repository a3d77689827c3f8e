//! Log cleaning: of topics with `cleanup.policy=compact` only the newest record of each key stays, at
//! its own offset.
//!
//! A cleaning reads what was not cleaned yet to learn the newest offset of each key (`scan`), and
//! writes everything from the log start to there anew (`writer`), without the records that newer ones
//! replaced (`filter`).
//!
//! Invariant: nothing at or past the last stable offset is cleaned, so that it is decided of every
//! record whether it was committed.
//! Invariant: the result is installed like that of a merge: if what was read was trimmed, deleted or
//! merged meanwhile, it is dropped.

mod filter;
mod key_map;
mod plan;
mod scan;
mod writer;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use self::key_map::KeyMap;
use self::plan::{CleanPlan, plan_cleaning};
use self::scan::{dirty_inputs, scan};
use self::writer::CleanWriter;
use super::inputs::Inputs;
use super::rewrite::{RewriteError, Rewritten, assemble};
use super::run::Run;
use super::{Made, Maintainer};
use crate::log::error::MaintenanceError;
use crate::log::shared::Shared;

impl Maintainer {
    /// How long until partitions are looked through for what is to be cleaned, apart from after each
    /// compaction; `None` if no topic is cleaned.
    pub(super) fn time_to_cleaning(&self) -> Option<Duration> {
        let cleans = self.shared.durable().topics.values().any(|topic| topic.config.compacts());
        let at = self.due.cleaned + self.settings.clean_interval;
        cleans.then(|| at.saturating_sub(self.now()))
    }

    /// Cleans until nothing more is due.
    pub(super) async fn clean(&mut self) -> Result<(), MaintenanceError> {
        self.due.cleaned = self.now();
        loop {
            // Held until the install, so that its objects stay.
            let state = self.shared.durable();
            let now_ms = self.shared.seams.clock.now_ms();
            let is_excluded = |object| self.damaged.contains(&object);
            let plans = plan_cleaning(&state, &self.settings, now_ms, is_excluded);
            if plans.is_empty() {
                return Ok(());
            }
            let started = self.now();
            match clean(&self.shared, plans, now_ms).await {
                Ok((runs, rewritten)) => {
                    let made = Made { runs, rewritten, wal_objects: 0, started, what: "cleaned" };
                    self.install(made).await?;
                }
                Err(RewriteError::Store(source)) => return Err(source.into()),
                Err(RewriteError::DamagedIndex { run, reason }) => self.leave_alone(&run.inputs, &reason),
            }
        }
    }
}

/// Cleans partitions one after the other, into shared segments.
async fn clean(
    shared: &Arc<Shared>,
    plans: Vec<CleanPlan>,
    now_ms: i64,
) -> Result<(Vec<Run>, Rewritten), RewriteError> {
    let mut writer = CleanWriter::new(shared);
    let (mut runs, mut placed, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for mut plan in plans {
        let mut inputs = Inputs::new(shared, dirty_inputs(&plan).chain(&plan.run.inputs));
        let keys = KeyMap::new(shared.seams.rng.bytes16(), shared.settings.maintenance.clean_keys_max);
        let scanned = scan(&mut inputs, &plan, keys, shared.settings.decompressed_bytes_max).await?;
        plan.run.truncate(scanned.end);
        placed.push(writer.write(&mut inputs, &plan, &scanned, now_ms).await?);
        ends.push(scanned.end);
        runs.push(plan.run);
    }
    let mut rewritten = assemble(&runs, placed, writer.finish().await?);
    for (install, end) in rewritten.installs.iter_mut().zip(ends) {
        install.cleaned_offset = Some(end);
    }
    Ok((runs, rewritten))
}
