//! What goes on behind the appends: compaction of the WAL into segments, merges, retention,
//! checkpoints, and the deletion of what is not needed any more. One task per shard.
//!
//! Invariant: nothing here is on the way of a request. A failure here stops nothing but itself: it is
//! logged and tried again.
//! Invariant: an idle log asks nothing of its store: the task waits for commits, and for the times at
//! which something is due.

mod clean;
mod collector;
mod expire;
mod inputs;
mod install;
mod plan;
mod repair;
mod retention;
mod rewrite;
mod run;
mod runtime;
mod sink;

#[cfg(test)]
pub(super) mod fixture;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use self::collector::Collector;
use self::install::{Install, InstallError};
use self::plan::Plan;
pub(super) use self::repair::Repair;
use self::rewrite::{RewriteError, Rewritten, rewrite};
use self::run::{Input, Run};
pub use self::runtime::maintenance_runtime;
use super::change::{self, Change};
use super::checkpoint::{WrittenCheckpoint, write_checkpoint};
use super::committer::Command;
use super::error::{MaintenanceError, WriteError};
use super::health::Health;
use super::pinned::PinnedState;
use super::repair::RepairReport;
use super::settings::{MaintenanceSettings, StorePlace};
use super::shared::Shared;
use crate::format::page::CheckpointRoot;
use crate::ids::ObjectId;
use crate::telemetry;

/// A failure is tried again after this time.
const RETRY_DELAY: Duration = Duration::from_secs(5);
/// Who has been overtaken will most likely be fenced, and then ends.
const SUPERSEDED_DELAY: Duration = Duration::from_secs(60);
/// A commit alone makes the whole look for what is due no more often than this.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// A process that was just started has better things to do than to list its store.
const FIRST_SWEEP_DELAY: Duration = Duration::from_secs(3600);

/// What can be asked of the task.
#[derive(Debug)]
pub(super) enum Request {
    /// Compact all of the WAL, and merge what is due.
    Compact(Reply),
    Checkpoint(Reply),
    /// Delete all that may be deleted by now.
    Collect(Reply),
    Repair(Repair, oneshot::Sender<Result<RepairReport, MaintenanceError>>),
    /// End; a checkpoint is written first if anything was committed since the last one.
    Close(oneshot::Sender<()>),
}

pub(super) type Reply = oneshot::Sender<Result<(), MaintenanceError>>;

pub(super) struct Maintainer {
    shared: Arc<Shared>,
    settings: MaintenanceSettings,
    place: StorePlace,
    /// The committer ends when all strong senders are gone, so this one is weak.
    commands: mpsc::WeakSender<Command>,
    requests: mpsc::Receiver<Request>,
    collector: Collector,
    /// The newest checkpoint, if there is one.
    checkpoint: Option<CheckpointRoot>,
    /// Segments whose index cannot be read: they are left alone.
    damaged: HashSet<ObjectId>,
    due: Due,
}

/// Segments that were written, and what they are made of.
struct Made {
    runs: Vec<Run>,
    rewritten: Rewritten,
    /// As in [`Plan`].
    wal_objects: u64,
    started: Duration,
    what: &'static str,
}

/// When things were done last, on the monotonic clock.
struct Due {
    opened: Duration,
    merged: Duration,
    compacted: Duration,
    checkpointed: Duration,
    retained: Duration,
    expired: Duration,
    cleaned: Duration,
    swept: Option<Duration>,
    retry_at: Option<Duration>,
}

impl Maintainer {
    pub(super) fn new(
        shared: Arc<Shared>,
        commands: mpsc::WeakSender<Command>,
        requests: mpsc::Receiver<Request>,
        checkpoint: Option<CheckpointRoot>,
    ) -> Self {
        let settings = shared.settings.maintenance.clone();
        let place = StorePlace::of(shared.store.linger_default());
        let now = shared.seams.clock.monotonic();
        let collector = Collector::new(shared.clone(), checkpoint.as_ref());
        let due = Due {
            opened: now,
            merged: now,
            compacted: now,
            checkpointed: now,
            retained: now,
            expired: now,
            cleaned: now,
            swept: None,
            retry_at: None,
        };
        let damaged = HashSet::new();
        Self { shared, settings, place, commands, requests, collector, checkpoint, damaged, due }
    }

    /// Runs until it is asked to end, or the log can write no more.
    pub(super) async fn run(mut self) {
        let mut commits = self.shared.commits();
        let mut health = self.shared.health();
        let mut looked = self.now();
        // On the monotonic clock.
        let mut next_look = self.time_left().map(|left| looked + left);
        loop {
            let wait = next_look.map(|at| at.saturating_sub(self.now()));
            tokio::select! {
                biased;
                // An error means that the log is gone.
                () = async { drop(health.wait_for(Health::is_stopped).await) } => return,
                request = self.requests.recv() => match request {
                    Some(Request::Close(reply)) => {
                        self.close().await;
                        // Whoever asked may have gone away.
                        let _ = reply.send(());
                        return;
                    }
                    Some(request) => self.answer(request).await,
                    None => return,
                },
                changed = commits.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    if !self.is_compaction_due() && !self.is_checkpoint_due() {
                        let soon = looked + LOOK_INTERVAL;
                        next_look = Some(next_look.map_or(soon, |at| at.min(soon)));
                        if self.now() < soon {
                            continue;
                        }
                    }
                }
                () = self.shared.seams.clock.sleep(wait.unwrap_or_default()), if wait.is_some() => {}
            }
            self.run_due().await;
            looked = self.now();
            next_look = self.time_left().map(|left| looked + left);
        }
    }

    async fn answer(&mut self, request: Request) {
        let (reply, result) = match request {
            Request::Compact(reply) => (reply, self.compact_all().await),
            Request::Checkpoint(reply) => (reply, self.write_checkpoint().await),
            Request::Collect(reply) => (reply, self.collect_all().await),
            Request::Repair(repair, reply) => {
                // Whoever asked may have gone away.
                let _ = reply.send(self.repair(repair).await);
                return;
            }
            Request::Close(_) => unreachable!("the loop ends with it"),
        };
        // Whoever asked may have gone away.
        let _ = reply.send(result);
    }

    async fn close(&mut self) {
        let state = self.shared.durable();
        let is_new = self.checkpoint.as_ref().is_none_or(|root| root.wal_objects + 1 < state.wal_objects);
        drop(state);
        if is_new && let Err(error) = self.write_checkpoint().await {
            tracing::warn!(%error, "the last checkpoint was not written: the next start takes longer");
        }
    }

    /// Does what is due, one thing after the other.
    async fn run_due(&mut self) {
        let now = self.now();
        if self.due.retry_at.is_some_and(|at| at > now) {
            return;
        }
        self.due.retry_at = None;
        if let Err(error) = self.try_due().await {
            telemetry::maintenance_failed();
            let delay = match &error {
                MaintenanceError::Superseded { .. } => SUPERSEDED_DELAY,
                _ => RETRY_DELAY,
            };
            match error {
                // The log says so itself.
                MaintenanceError::Write(_) => {}
                error => tracing::warn!(%error, "maintenance is tried again in a while"),
            }
            self.due.retry_at = Some(self.now() + delay);
        }
    }

    async fn try_due(&mut self) -> Result<(), MaintenanceError> {
        if self.is_retention_due() {
            self.due.retained = self.now();
            self.retain().await?;
        }
        if self.time_to_expiry().is_some_and(|left| left.is_zero()) {
            self.expire_producers().await?;
        }
        while self.is_compaction_due() {
            self.due.compacted = self.now();
            self.compact().await?;
            self.merge().await?;
            self.clean().await?;
        }
        if self.time_to_rewrite().is_some_and(|left| left.is_zero()) {
            self.merge().await?;
        }
        if self.time_to_cleaning().is_some_and(|left| left.is_zero()) {
            self.clean().await?;
        }
        if self.is_checkpoint_due() {
            self.write_checkpoint().await?;
        }
        if self.collector.is_due(&self.shared.durable(), self.now()) {
            self.collect().await?;
        }
        if self.is_sweep_due() {
            self.due.swept = Some(self.now());
            self.collector.sweep(self.checkpoint.as_ref()).await?;
        }
        Ok(())
    }

    fn now(&self) -> Duration {
        self.shared.seams.clock.monotonic()
    }

    fn is_compaction_due(&self) -> bool {
        let state = self.shared.durable();
        let objects = state.wal_objects.saturating_sub(state.compacted_wal_objects);
        let waited = self.now().saturating_sub(self.due.compacted);
        state.tail_bytes > 0
            && (state.tail_bytes >= self.settings.compaction_bytes
                || objects >= self.settings.compaction_objects(self.place)
                || waited >= self.settings.compaction_interval)
    }

    /// The newest open record alone is no reason for a checkpoint.
    fn is_checkpoint_due(&self) -> bool {
        let state = self.shared.durable();
        let (objects, bytes) =
            self.checkpoint.as_ref().map_or((1, 0), |root| (root.wal_objects, root.wal_bytes));
        let new_objects = state.wal_objects.saturating_sub(objects);
        let new_bytes = state.wal_bytes.saturating_sub(bytes);
        let waited = self.now().saturating_sub(self.due.checkpointed);
        new_objects > 0
            && (new_bytes >= self.settings.checkpoint_wal_bytes
                || new_objects >= self.settings.checkpoint_wal_objects(self.place)
                || waited >= self.settings.checkpoint_interval)
    }

    fn is_retention_due(&self) -> bool {
        self.now().saturating_sub(self.due.retained) >= self.settings.retention_interval
            && self.has_retention()
    }

    fn has_retention(&self) -> bool {
        self.shared.durable().topics.values().any(|topic| {
            let config = &topic.config;
            config.deletes_by_retention()
                && (config.retention_ms().is_some() || config.retention_bytes().is_some())
        })
    }

    fn is_sweep_due(&self) -> bool {
        let interval = self.settings.sweep_interval;
        let (last, wait) = match self.due.swept {
            Some(swept) => (swept, interval),
            None => (self.due.opened, interval.min(FIRST_SWEEP_DELAY)),
        };
        self.checkpoint.is_some() && self.now().saturating_sub(last) >= wait
    }

    /// How long until something is due; `None` if only a commit can make it so.
    fn time_left(&self) -> Option<Duration> {
        let now = self.now();
        if let Some(at) = self.due.retry_at {
            return Some(at.saturating_sub(now));
        }
        let state = self.shared.durable();
        let until = |last: Duration, interval: Duration| (last + interval).saturating_sub(now);
        let compaction =
            (state.tail_bytes > 0).then(|| until(self.due.compacted, self.settings.compaction_interval));
        let objects = self.checkpoint.as_ref().map_or(1, |root| root.wal_objects);
        let checkpoint = (state.wal_objects > objects)
            .then(|| until(self.due.checkpointed, self.settings.checkpoint_interval));
        let retention =
            self.has_retention().then(|| until(self.due.retained, self.settings.retention_interval));
        let collection = self.collector.time_left(&state, now);
        let (expiry, cleaning) = (self.time_to_expiry(), self.time_to_cleaning());
        let rewrite = self.time_to_rewrite();
        let times = [compaction, checkpoint, retention, collection, expiry, cleaning, rewrite];
        times.into_iter().flatten().min()
    }

    /// How long until dead records have to be written out of a segment; never sooner after the last
    /// merge than compactions follow each other.
    fn time_to_rewrite(&self) -> Option<Duration> {
        let now_ms = self.shared.seams.clock.now_ms();
        let is_excluded = |object| self.damaged.contains(&object);
        let left = plan::time_to_rewrite(&self.shared.durable(), &self.settings, now_ms, is_excluded)?;
        let pause = (self.due.merged + self.settings.compaction_interval).saturating_sub(self.now());
        Some(left.max(pause))
    }

    async fn retain(&mut self) -> Result<(), MaintenanceError> {
        let state = self.shared.durable();
        let starts = retention::expired(&state, self.shared.seams.clock.now_ms());
        if starts.is_empty() {
            return Ok(());
        }
        let offsets = retention::offsets_below(&state, &starts);
        drop(state);
        tracing::info!(partitions = starts.len(), offsets, "retention deletes records");
        self.change(change::move_log_starts(starts)).await?;
        telemetry::retention_deleted(offsets);
        Ok(())
    }

    async fn compact_all(&mut self) -> Result<(), MaintenanceError> {
        while self.shared.durable().tail_bytes > 0 {
            self.compact().await?;
        }
        self.due.compacted = self.now();
        self.merge().await?;
        self.clean().await
    }

    async fn compact(&mut self) -> Result<(), MaintenanceError> {
        let state = self.shared.durable();
        match plan::plan_compaction(&state, &self.settings) {
            Some(plan) => self.carry_out(plan, state, "compacted").await,
            None => Ok(()),
        }
    }

    /// Merges until nothing more is due.
    async fn merge(&mut self) -> Result<(), MaintenanceError> {
        self.due.merged = self.now();
        loop {
            let state = self.shared.durable();
            let now_ms = self.shared.seams.clock.now_ms();
            let is_excluded = |object| self.damaged.contains(&object);
            let Some(plan) = plan::plan_merges(&state, &self.settings, now_ms, is_excluded) else {
                return Ok(());
            };
            self.carry_out(plan, state, "merged").await?;
        }
    }

    /// Rewrites and installs. The state is held so that its objects stay.
    async fn carry_out(
        &mut self,
        plan: Plan,
        state: Arc<PinnedState>,
        what: &'static str,
    ) -> Result<(), MaintenanceError> {
        let Plan { runs, wal_objects } = plan;
        let started = self.now();
        let rewritten = match rewrite(&self.shared, &runs).await {
            Ok(rewritten) => rewritten,
            Err(RewriteError::Store(source)) => return Err(source.into()),
            Err(RewriteError::DamagedIndex { run, reason }) => {
                self.leave_alone(&run.inputs, &reason);
                return Ok(());
            }
        };
        let installed = self.install(Made { runs, rewritten, wal_objects, started, what }).await;
        drop(state);
        installed
    }

    /// Installs what was written. Whoever calls it holds the state that the inputs are from.
    async fn install(&mut self, made: Made) -> Result<(), MaintenanceError> {
        let Made { runs, rewritten, wal_objects, started, what } = made;
        let (bytes, partitions, segments) = (rewritten.bytes_read, runs.len(), rewritten.segments.len());
        let created: Vec<_> = rewritten.segments.iter().map(|segment| segment.object.object).collect();
        self.shared.seams.failpoint("compaction.before_install");
        let age_max = self.settings.orphan_age / 2;
        let install = Install {
            runs,
            rewritten,
            wal_objects,
            age_max,
            #[cfg(test)]
            wrong_rule: self.shared.settings.wrong_rule,
        };
        let installed = self.change(install.into_change()).await;
        self.shared.seams.failpoint("compaction.after_install");
        match installed {
            Ok(()) => {}
            Err(InstallError::Write(error)) => return Err(error.into()),
            Err(refused) => {
                self.shared.seams.failpoint("compaction.refused");
                // Nothing refers to them. What is left here, the sweep finds.
                self.collector.delete_unused(&created).await;
                tracing::info!(%refused, "segments are not installed");
                return match refused {
                    InstallError::AllDeleted => Ok(()),
                    refused => Err(MaintenanceError::Refused { reason: refused.to_string() }),
                };
            }
        }
        self.shared.seams.failpoint("compaction.installed");
        self.collector.note_install(self.now());
        telemetry::segments_installed(what, bytes, self.now().saturating_sub(started));
        tracing::debug!(what, bytes, partitions, segments, "segments are installed");
        Ok(())
    }

    fn leave_alone(&mut self, inputs: &[Input], reason: &str) {
        for input in inputs {
            if let Input::Slice(slice) = input
                && let Some(location) = slice.location()
            {
                self.damaged.insert(location.object);
            }
        }
        tracing::error!(reason, "a segment is damaged and is left as it is; run strandline verify");
    }

    async fn write_checkpoint(&mut self) -> Result<(), MaintenanceError> {
        let state = self.shared.durable();
        let before = self.checkpoint.as_ref().map_or(&[][..], |root| &root.pages[..]);
        let (store, shard, seams) = (&self.shared.store, self.shared.shard, &self.shared.seams);
        let is_same = self.checkpoint.as_ref().is_some_and(|root| Some(root.position) == state.position);
        if is_same {
            return Ok(());
        }
        let started = self.now();
        let written = write_checkpoint(store, shard, seams, &state, before).await?;
        let WrittenCheckpoint { root, pages_written, bytes_written } = written;
        seams.failpoint("checkpoint.after_root");
        tracing::debug!(position = %root.position, pages_written, bytes_written, "checkpoint is written");
        telemetry::checkpoint_written(bytes_written);
        self.collector.note_checkpoint(&root, self.now());
        self.shared.set_checkpoint(root.position, self.shared.seams.clock.now_ms());
        self.checkpoint = Some(root);
        self.due.checkpointed = started;
        Ok(())
    }

    async fn collect_all(&mut self) -> Result<(), MaintenanceError> {
        self.collect().await?;
        while self.collector.is_due(&self.shared.durable(), self.now()) {
            self.collect().await?;
        }
        Ok(())
    }

    async fn collect(&mut self) -> Result<(), MaintenanceError> {
        let deleted = self.collector.collect(self.now()).await?;
        if !deleted.is_empty() {
            self.change(change::objects_deleted(deleted)).await?;
        }
        Ok(())
    }

    async fn change<T, E>(&self, change: Change<T, E>) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<WriteError> + Send + 'static,
    {
        let closed = || self.shared.write_error();
        let commands = self.commands.upgrade().ok_or_else(closed)?;
        let (answer, answered) = oneshot::channel();
        commands.send(Command::Change(change.into_job(answer))).await.map_err(|_| closed())?;
        drop(commands);
        answered.await.map_err(|_| closed())?
    }
}
