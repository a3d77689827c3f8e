//! Deletes objects that nothing needs any more: compacted WAL objects, segments without references,
//! old checkpoints, and what processes left behind that ended before they referred to it.
//!
//! Invariant: an object goes only when no checkpoint that is kept, and no state that anybody holds,
//! refers to it, and the delay has passed since the last reference went. Claims and fences never go.
//! Invariant: of the WAL only what is below the oldest checkpoint that is kept goes: every kept
//! checkpoint can be opened.
//! Invariant: nothing that an owner before may have left goes before it was seen, after the newest
//! checkpoint was written, that nobody has claimed the shard since. Whoever claims it later begins
//! from that checkpoint or a newer one, and shares pages with no older one.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};

use crate::format::page::{CheckpointRoot, decode_checkpoint};
use crate::ids::{BlockObject, ObjectId, WalPosition};
use crate::log::error::MaintenanceError;
use crate::log::keys::{checkpoint_position, object_id, wal_position};
use crate::log::pinned::PinnedState;
use crate::log::settings::{MaintenanceSettings, StorePlace};
use crate::log::shared::Shared;
#[cfg(test)]
use crate::log::simulation::WrongRule;
use crate::log::state::ShardState;
use crate::object::{ObjectMeta, StoreError};
use crate::telemetry;

/// Objects are deleted so many at a time. More would only wait for each other in a local directory.
const DELETES_REMOTE: usize = 16;
const DELETES_LOCAL: usize = 4;

/// Objects of the WAL that go before compaction and the like get their turn.
const WAL_DELETES_MAX: usize = 4096;

/// The shortest time between two collections, if the first left nothing that it might have deleted.
const COLLECTION_PAUSE: Duration = Duration::from_secs(1);

/// A checkpoint that is in the store.
#[derive(Clone, Debug)]
struct Kept {
    position: WalPosition,
    wal_objects: u64,
    pages: Vec<ObjectId>,
    /// On the monotonic clock. One from before the open counts from the open.
    since: Duration,
}

pub(super) struct Collector {
    shared: Arc<Shared>,
    settings: MaintenanceSettings,
    place: StorePlace,
    /// The oldest first.
    checkpoints: VecDeque<Kept>,
    /// Whether the store was asked for checkpoints and WAL objects from before this process.
    listed: bool,
    /// WAL objects of which it is not known that they are deleted, in order, up to `known_through`.
    wal: VecDeque<WalPosition>,
    known_through: Option<WalPosition>,
    /// When the newest compactions were installed.
    installs: VecDeque<(Duration, WalPosition)>,
    /// When objects were deleted last.
    collected: Option<Duration>,
}

impl Collector {
    pub(super) fn new(shared: Arc<Shared>, checkpoint: Option<&CheckpointRoot>) -> Self {
        let settings = shared.settings.maintenance.clone();
        let place = StorePlace::of(shared.store.linger_default());
        let now = shared.seams.clock.monotonic();
        let mut collector = Self {
            shared,
            settings,
            place,
            checkpoints: VecDeque::new(),
            listed: false,
            wal: VecDeque::new(),
            known_through: None,
            installs: VecDeque::new(),
            collected: None,
        };
        if let Some(root) = checkpoint {
            collector.note_checkpoint(root, now);
            collector.note_install(now);
        }
        collector
    }

    pub(super) fn note_checkpoint(&mut self, root: &CheckpointRoot, now: Duration) {
        self.checkpoints.push_back(Kept {
            position: root.position,
            wal_objects: root.wal_objects,
            pages: root.pages.iter().map(|page| page.page).collect(),
            since: now,
        });
    }

    /// From now on nothing before the tail needs WAL objects.
    pub(super) fn note_install(&mut self, now: Duration) {
        if let Some(through) = compacted_through(&self.shared.durable()) {
            self.installs.push_back((now, through));
        }
    }

    /// Whether something may be deleted now.
    pub(super) fn is_due(&self, state: &ShardState, now: Duration) -> bool {
        self.time_left(state, now).is_some_and(|left| left.is_zero())
    }

    /// How long until something may be deleted; `None` if only a checkpoint or a compaction can make
    /// it so.
    pub(super) fn time_left(&self, state: &ShardState, now: Duration) -> Option<Duration> {
        let oldest = self.checkpoints.front()?;
        let until = |since: Duration, delay: Duration| (since + delay).saturating_sub(now);
        let is_dead = |through: WalPosition| {
            let through = through.min(oldest.position);
            !self.listed || self.wal.front().is_some_and(|first| *first <= through)
        };
        let wal = self.installs.front().filter(|(_, through)| is_dead(*through));
        let wal = wal.map(|(since, _)| until(*since, self.settings.wal_delete_delay));
        let surplus = self.checkpoints.len() > self.settings.checkpoints_kept;
        let old = (self.checkpoints.len() > 1).then(|| until(oldest.since, self.settings.checkpoint_age_max));
        let checkpoints = if surplus { Some(Duration::ZERO) } else { old };
        let covered = |unreferenced_by: u64| unreferenced_by <= oldest.wal_objects;
        let garbage = state.segments.garbage.values().filter(|garbage| covered(garbage.unreferenced_by));
        let garbage = garbage.map(|garbage| self.delay_left(garbage.unreferenced_at_ms)).min();
        let soonest = [wal, checkpoints, garbage].into_iter().flatten().min()?;
        // What a reader still holds is looked at again after a while.
        let pause = self.collected.map_or(Duration::ZERO, |last| until(last, COLLECTION_PAUSE));
        Some(soonest.max(pause))
    }

    fn delay_left(&self, unreferenced_at_ms: i64) -> Duration {
        let age_ms = self.shared.seams.clock.now_ms().saturating_sub(unreferenced_at_ms);
        let age = Duration::from_millis(u64::try_from(age_ms).unwrap_or(0));
        self.settings.segment_delete_delay(self.place).saturating_sub(age)
    }

    /// Deletes what may be deleted by now, but not more of the WAL than a turn allows; gives the
    /// segments, which the log has to note.
    pub(super) async fn collect(&mut self, now: Duration) -> Result<Vec<ObjectId>, MaintenanceError> {
        self.collected = Some(now);
        self.list_once(now).await?;
        self.shared.seams.failpoint("collector.before_delete");
        self.drop_checkpoints(now).await?;
        let Some(oldest) = self.checkpoints.front().cloned() else { return Ok(Vec::new()) };
        self.delete_wal(&oldest, now).await?;
        let deleted = self.delete_segments(&oldest).await?;
        self.shared.seams.failpoint("collector.after_delete");
        Ok(deleted)
    }

    /// Finds what processes before this one left: once, when there is something to delete.
    async fn list_once(&mut self, now: Duration) -> Result<(), StoreError> {
        let Some(newest) = self.shared.durable().position else { return Ok(()) };
        // After a reopening in place nobody knows by heart what the epoch before holds.
        let same_epoch = self.known_through.is_some_and(|known| known.writer_epoch == newest.writer_epoch);
        if self.listed && same_epoch {
            self.note_wal_through(newest);
            return Ok(());
        }
        let (store, keys) = (&self.shared.store, &self.shared.keys);
        let own = self.checkpoints.front().map(|kept| kept.position);
        let mut older = VecDeque::new();
        for object in store.list(&keys.checkpoints()).await? {
            let position = checkpoint_position(&object.key);
            let Some(position) = position.filter(|position| own.is_some_and(|own| *position < own)) else {
                continue;
            };
            let root = decode_checkpoint(&store.get(&object.key).await?);
            // One that does not decode is of no use to anybody, and only its own object is known.
            let (wal_objects, pages) = root.map_or((0, Vec::new()), |root| {
                (root.wal_objects, root.pages.iter().map(|page| page.page).collect())
            });
            older.push_back(Kept { position, wal_objects, pages, since: now });
        }
        older.append(&mut self.checkpoints);
        self.checkpoints = older;
        let listed = store.list(&keys.wal_prefix()).await?;
        let mut wal: Vec<_> = listed.iter().filter_map(|object| wal_position(&object.key)).collect();
        wal.retain(|position| *position <= newest);
        wal.sort_unstable();
        self.wal = wal.into();
        self.known_through = Some(newest);
        self.listed = true;
        Ok(())
    }

    /// The objects of this process need no listing.
    fn note_wal_through(&mut self, newest: WalPosition) {
        let first = self.known_through.map_or(0, |known| known.seq + 1);
        self.wal.extend((first..=newest.seq).map(|seq| WalPosition { seq, ..newest }));
        self.known_through = Some(newest);
    }

    /// Whether this process is still the last that claimed the shard.
    async fn check_owner(&self) -> Result<(), MaintenanceError> {
        #[cfg(test)]
        if self.breaks(WrongRule::CollectUnowned) {
            return Ok(());
        }
        let Some(position) = self.shared.durable().position else { return Ok(()) };
        let writer_epoch = position.writer_epoch + 1;
        match self.shared.store.get_prefix(&self.shared.keys.epoch(writer_epoch), 1).await {
            Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => Err(MaintenanceError::Superseded { writer_epoch }),
        }
    }

    #[cfg(test)]
    fn breaks(&self, rule: WrongRule) -> bool {
        self.shared.settings.wrong_rule == Some(rule)
    }

    /// Drops checkpoints beyond the number that is kept, and old ones, but never the newest.
    async fn drop_checkpoints(&mut self, now: Duration) -> Result<(), MaintenanceError> {
        loop {
            let surplus = self.checkpoints.len() > self.settings.checkpoints_kept;
            let is_old = |kept: &Kept| now.saturating_sub(kept.since) >= self.settings.checkpoint_age_max;
            let old = self.checkpoints.len() > 1 && self.checkpoints.front().is_some_and(is_old);
            if !surplus && !old {
                return Ok(());
            }
            let Some(dropped) = self.checkpoints.front().cloned() else { return Ok(()) };
            #[cfg(test)]
            if self.shared.settings.wrong_rule.is_some_and(WrongRule::forgets_to_ask) {
                self.shared.store.delete(&self.shared.keys.checkpoint(dropped.position)).await?;
                self.checkpoints.pop_front();
                continue;
            }
            self.check_owner().await?;
            // The root goes first: a root without its pages is damage, pages without one are not.
            self.delete_all(vec![self.shared.keys.checkpoint(dropped.position)]).await?;
            self.checkpoints.pop_front();
            let kept: HashSet<_> = self.checkpoints.iter().flat_map(|kept| &kept.pages).copied().collect();
            let pages = dropped.pages.iter().filter(|page| !kept.contains(page));
            self.delete_all(pages.map(|page| self.shared.keys.page(*page)).collect()).await?;
        }
    }

    async fn delete_wal(&mut self, oldest: &Kept, now: Duration) -> Result<(), MaintenanceError> {
        while let Some((since, _)) = self.installs.get(1)
            && now.saturating_sub(*since) >= self.settings.wal_delete_delay
        {
            self.installs.pop_front();
        }
        let Some((since, compacted)) = self.installs.front().copied() else { return Ok(()) };
        if now.saturating_sub(since) < self.settings.wal_delete_delay {
            return Ok(());
        }
        let state = self.shared.durable();
        let held = compacted_through(&self.oldest_held());
        let covered = Some(oldest.position);
        #[cfg(test)]
        let covered = covered.filter(|_| !self.breaks(WrongRule::CollectAboveCheckpoint));
        let through = [Some(compacted), held, covered].into_iter().flatten().min();
        // A held state without a position of its own refers to everything.
        let Some(through) = through.filter(|_| held.is_some()) else { return Ok(()) };
        let mut dead = Vec::new();
        while let Some(position) = self.wal.front().copied().filter(|position| *position <= through) {
            if dead.len() == WAL_DELETES_MAX {
                self.collected = None;
                break;
            }
            self.wal.pop_front();
            if !is_fence(&state, position) {
                dead.push(position);
            }
        }
        let keys = dead.iter().map(|position| self.shared.keys.wal(*position)).collect();
        #[cfg(test)]
        if self.shared.settings.wrong_rule.is_some_and(WrongRule::forgets_to_ask) {
            return Ok(self.delete_all(keys).await?);
        }
        if let Err(error) = self.delete_owned(keys).await {
            dead.into_iter().rev().for_each(|position| self.wal.push_front(position));
            return Err(error);
        }
        Ok(())
    }

    /// The oldest state that anybody in this process reads.
    fn oldest_held(&self) -> Arc<PinnedState> {
        #[cfg(test)]
        if self.breaks(WrongRule::CollectHeld) {
            return self.shared.durable();
        }
        self.shared.pins.oldest().unwrap_or_else(|| self.shared.durable())
    }

    async fn delete_segments(&mut self, oldest: &Kept) -> Result<Vec<ObjectId>, MaintenanceError> {
        let state = self.shared.durable();
        let held = self.oldest_held().wal_objects;
        let dead = state.segments.garbage.iter().filter(|(_, garbage)| {
            let unreferenced_by = garbage.unreferenced_by;
            unreferenced_by <= oldest.wal_objects
                && unreferenced_by <= held
                && self.delay_left(garbage.unreferenced_at_ms).is_zero()
        });
        let dead: Vec<_> = dead.map(|(object, _)| *object).collect();
        self.delete_owned(dead.iter().map(|object| self.shared.keys.segment(*object)).collect()).await?;
        Ok(dead)
    }

    /// Deletes segments that were never referred to, as far as the store lets it.
    pub(super) async fn delete_unused(&self, segments: &[ObjectId]) {
        let keys = segments.iter().map(|object| self.shared.keys.segment(*object)).collect();
        if let Err(error) = self.delete_all(keys).await {
            tracing::debug!(%error, "unused segments are left to the sweep");
        }
    }

    /// Deletes segments and pages that no state and no checkpoint refers to and that are old. The
    /// listing comes first: what is referred to later was written later, by this process or by one
    /// that has claimed the shard since.
    pub(super) async fn sweep(&mut self, newest: Option<&CheckpointRoot>) -> Result<(), MaintenanceError> {
        if newest.is_none() {
            return Ok(());
        }
        self.list_once(self.shared.seams.clock.monotonic()).await?;
        #[cfg(test)]
        if self.breaks(WrongRule::SweepListsLast) {
            self.check_owner().await?;
            let state = self.shared.durable();
            let (listed, pages) = (self.list_swept().await?, self.pages_in_use().await?);
            return Ok(self.delete_all(self.orphans(listed, &state, &pages)).await?);
        }
        let listed = self.list_swept().await?;
        let pages = self.pages_in_use().await?;
        self.check_owner().await?;
        let orphans = self.orphans(listed, &self.shared.durable(), &pages);
        if !orphans.is_empty() {
            tracing::info!(objects = orphans.len(), "objects that nothing refers to are deleted");
        }
        Ok(self.delete_all(orphans).await?)
    }

    async fn list_swept(&self) -> Result<Vec<ObjectMeta>, StoreError> {
        let (store, keys) = (&self.shared.store, &self.shared.keys);
        Ok([store.list(&keys.data()).await?, store.list(&keys.pages()).await?].concat())
    }

    /// The pages of all checkpoints: the ones that this process keeps, and one that the owner before
    /// may have written while it was fenced.
    async fn pages_in_use(&self) -> Result<BTreeSet<ObjectId>, StoreError> {
        let (store, keys) = (&self.shared.store, &self.shared.keys);
        let mut pages: BTreeSet<_> = self.checkpoints.iter().flat_map(|kept| &kept.pages).copied().collect();
        for object in store.list(&keys.checkpoints()).await? {
            let position = checkpoint_position(&object.key);
            if self.checkpoints.iter().any(|kept| Some(kept.position) == position) {
                continue;
            }
            if let Ok(root) = decode_checkpoint(&store.get(&object.key).await?) {
                pages.extend(root.pages.iter().map(|page| page.page));
            }
        }
        Ok(pages)
    }

    fn orphans(
        &self,
        listed: Vec<ObjectMeta>,
        state: &ShardState,
        pages: &BTreeSet<ObjectId>,
    ) -> Vec<String> {
        let now_ms = self.shared.seams.clock.now_ms();
        let age_ms = i64::try_from(self.settings.orphan_age.as_millis()).unwrap_or(i64::MAX);
        let is_orphan = |key: &str| {
            object_id(key).is_some_and(|id| {
                let is_known = state.segments.live.contains_key(&id)
                    || state.segments.garbage.contains_key(&id)
                    || pages.contains(&id);
                !is_known && now_ms.saturating_sub(id.created_at_ms()) >= age_ms
            })
        };
        listed.into_iter().map(|object| object.key).filter(|key| is_orphan(key)).collect()
    }

    async fn delete_owned(&self, keys: Vec<String>) -> Result<(), MaintenanceError> {
        if keys.is_empty() {
            return Ok(());
        }
        self.check_owner().await?;
        Ok(self.delete_all(keys).await?)
    }

    async fn delete_all(&self, keys: Vec<String>) -> Result<(), StoreError> {
        let store = &self.shared.store;
        let delete = |key: String| async move {
            store.delete(&key).await?;
            telemetry::object_deleted(&key);
            Ok::<_, StoreError>(())
        };
        let at_a_time = match self.place {
            StorePlace::Local => DELETES_LOCAL,
            StorePlace::Remote => DELETES_REMOTE,
        };
        stream::iter(keys).map(delete).buffer_unordered(at_a_time).try_collect().await
    }
}

/// The newest WAL object that no block of the tail is in or comes before; all up to it only matter
/// to a replay.
fn compacted_through(state: &ShardState) -> Option<WalPosition> {
    let tails = state.partitions.values().filter_map(|partition| partition.blocks.front());
    let first = tails.map(|block| block.object).min();
    match first {
        Some(BlockObject::Wal(position)) => Some(match position.seq.checked_sub(1) {
            Some(seq) => WalPosition { seq, ..position },
            // Everything of older epochs, whatever their number.
            None => WalPosition { writer_epoch: position.writer_epoch.saturating_sub(1), seq: u64::MAX },
        }),
        Some(BlockObject::Segment(_)) => unreachable!("the blocks of the tail are in WAL objects"),
        None => state.position,
    }
}

/// Whether the object at a place is, or may be, the fence of its epoch.
fn is_fence(state: &ShardState, position: WalPosition) -> bool {
    let current = state.position.is_some_and(|newest| newest.writer_epoch == position.writer_epoch);
    match state.epoch_ends.get(&position.writer_epoch) {
        Some(end_seq) => position.seq == *end_seq,
        None => !current,
    }
}
