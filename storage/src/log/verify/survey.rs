//! The survey of a shard: its claims, checkpoints and fences, the fronts of its WAL, and the state
//! that they give together.

use std::collections::{BTreeMap, BTreeSet};

use super::report::{Damage, DamagedPart, ObjectKind, VerifyReport};
use super::wal::{WalStart, WalSurvey};
use super::{Reader, missing, small_damage};
use crate::format::backup::ShardBackup;
use crate::format::page::{CheckpointRoot, PageRef, decode_checkpoint, decode_page};
use crate::format::{CommitObject, WalObject, decode_claim};
use crate::ids::{BlockObject, ObjectId, ShardId, WalPosition};
use crate::log::checkpoint::load_newest;
use crate::log::error::OpenError;
use crate::log::keys::{ShardKeys, checkpoint_position, object_id, trailing_number, wal_position};
use crate::log::state::ShardState;
use crate::object::ObjectMeta;

/// What is looked at.
#[derive(Clone, Debug)]
pub(super) enum Scope {
    /// All that an open could need.
    Log,
    /// What one backup needs.
    Backup(ShardBackup),
}

/// What a survey found.
pub(super) struct Survey {
    /// After the newest commit that could be read and follows from the ones before.
    pub(super) state: ShardState,
    /// Without their events.
    pub(super) commits: Vec<CommitObject>,
    pub(super) report: VerifyReport,
    /// The pages that a readable root refers to.
    pages: BTreeSet<ObjectId>,
    /// The oldest checkpoint that is kept: the WAL after it is needed.
    oldest: Option<WalPosition>,
    /// Objects beyond the end of their epoch.
    void: BTreeSet<WalPosition>,
}

/// The checkpoints of a shard.
struct Checkpoints {
    /// Those that can be read, the oldest first.
    roots: Vec<CheckpointRoot>,
    oldest: Option<WalPosition>,
    /// Of the newest one that can be loaded.
    state: ShardState,
}

impl Survey {
    pub(super) async fn make(reader: &Reader, shard: ShardId, scope: &Scope) -> Result<Self, OpenError> {
        let keys = ShardKeys::new(shard);
        let mut report = VerifyReport::default();
        let claimed = check_claims(reader, &keys, &mut report).await?;
        let checkpoints = check_checkpoints(reader, shard, scope, &mut report).await?;
        let walk = WalStart {
            claimed: &claimed,
            roots: &checkpoints.roots,
            oldest: checkpoints.oldest,
            state: checkpoints.state,
        };
        let walked = WalSurvey::make(reader.walker(shard), scope, walk);
        let WalSurvey { state, mut commits, void, epochs, report: of_wal, .. } = walked.await?;
        report.absorb(of_wal);
        for epoch in epochs.iter().chain(state.epoch_ends.keys()).collect::<BTreeSet<_>>() {
            let key = keys.epoch(*epoch);
            let is_known =
                claimed.contains(epoch) || report.damages.iter().any(|damage| damage.object == key);
            // A claim that is new came after the listing.
            if !is_known && reader.get(&key).await?.is_none() {
                report.damages.push(missing(&key, ObjectKind::Claim));
            }
        }
        check_fences(reader, shard, &state, &mut report).await?;
        commits.extend(older_tail(reader, shard, &state, &commits, &mut report).await?);
        let pages = checkpoints.roots.iter().flat_map(|root| &root.pages).map(|page| page.page).collect();
        Ok(Self { state, commits, report, pages, oldest: checkpoints.oldest, void })
    }

    /// Whether an object that is missing has to be there.
    pub(super) fn needs(&self, key: &str, keys: &ShardKeys) -> bool {
        if let Some(id) = object_id(key) {
            return self.state.segments.live.contains_key(&id) || self.pages.contains(&id);
        }
        let Some(position) = wal_position(key) else { return true };
        self.oldest.is_none_or(|oldest| position > oldest)
            || tail_objects(&self.state).contains(&position)
            || self.report.damages.iter().any(|damage| damage.object == keys.wal(position))
    }

    /// Notes listed objects of the shard that nothing needs.
    pub(super) fn note_unneeded(
        &mut self,
        listed: &[ObjectMeta],
        keys: &ShardKeys,
        report: &mut VerifyReport,
    ) {
        let tail = tail_objects(&self.state);
        let segments = &self.state.segments;
        for object in listed {
            let key = &object.key;
            let is_below =
                |prefix: String| key.strip_prefix(&prefix).is_some_and(|rest| rest.starts_with('/'));
            if is_below(keys.data()) || is_below(keys.pages()) {
                match object_id(key) {
                    Some(id) if segments.live.contains_key(&id) || self.pages.contains(&id) => {}
                    Some(id) if segments.garbage.contains_key(&id) => report.awaiting_deletion += 1,
                    _ => report.unreferenced.push(key.clone()),
                }
            } else if is_below(keys.wal_prefix()) {
                match wal_position(key) {
                    Some(position) if self.void.contains(&position) => report.unreferenced.push(key.clone()),
                    Some(position) => {
                        let is_fence =
                            self.state.epoch_ends.get(&position.writer_epoch) == Some(&position.seq);
                        let is_old = self.oldest.is_some_and(|oldest| position <= oldest);
                        report.awaiting_deletion +=
                            u64::from(is_old && !is_fence && !tail.contains(&position));
                    }
                    None => report.unreferenced.push(key.clone()),
                }
            }
        }
    }
}

/// The WAL objects that hold blocks of the tail.
pub(in crate::log) fn tail_objects(state: &ShardState) -> BTreeSet<WalPosition> {
    let blocks = state.partitions.values().flat_map(|partition| &partition.blocks);
    let position = |object| match object {
        BlockObject::Wal(position) => Some(position),
        BlockObject::Segment(_) => None,
    };
    blocks.filter_map(|block| position(block.object)).collect()
}

/// The epochs whose claims can be read.
async fn check_claims(
    reader: &Reader,
    keys: &ShardKeys,
    report: &mut VerifyReport,
) -> Result<BTreeSet<u64>, OpenError> {
    let mut claimed = BTreeSet::new();
    for ObjectMeta { key, .. } in reader.list(&keys.epochs()).await? {
        let Some(writer_epoch) = trailing_number(&key) else {
            report.unreferenced.push(key);
            continue;
        };
        claimed.insert(writer_epoch);
        let Some(bytes) = reader.get(&key).await? else {
            report.damages.push(missing(&key, ObjectKind::Claim));
            continue;
        };
        report.count(ObjectKind::Claim, bytes.len() as u64);
        let what = match decode_claim(&bytes) {
            Ok(claim) if claim.writer_epoch == writer_epoch => continue,
            Ok(claim) => format!("it says that it is the claim of epoch {}", claim.writer_epoch),
            Err(error) => error.to_string(),
        };
        report.damages.push(small_damage(&key, ObjectKind::Claim, what));
    }
    Ok(claimed)
}

async fn check_checkpoints(
    reader: &Reader,
    shard: ShardId,
    scope: &Scope,
    report: &mut VerifyReport,
) -> Result<Checkpoints, OpenError> {
    let keys = ShardKeys::new(shard);
    let listed = match scope {
        Scope::Log => reader.list(&keys.checkpoints()).await?.into_iter().map(|object| object.key).collect(),
        Scope::Backup(backup) => {
            backup.checkpoint.map(|position| keys.checkpoint(position)).into_iter().collect::<Vec<_>>()
        }
    };
    let (mut roots, mut pages, mut oldest) = (Vec::new(), BTreeMap::new(), None);
    for key in listed {
        let Some(position) = checkpoint_position(&key) else {
            report.unreferenced.push(key);
            continue;
        };
        oldest.get_or_insert(position);
        let Some(bytes) = reader.get(&key).await? else {
            report.damages.push(missing(&key, ObjectKind::Checkpoint));
            continue;
        };
        report.count(ObjectKind::Checkpoint, bytes.len() as u64);
        match decode_checkpoint(&bytes) {
            Ok(root) if root.position == position && root.shard == shard => {
                pages.extend(root.pages.iter().map(|page| (page.page, page.clone())));
                roots.push(root);
            }
            Ok(root) => {
                let what =
                    format!("it says that it is the state after {} of shard {}", root.position, root.shard);
                report.damages.push(small_damage(&key, ObjectKind::Checkpoint, what));
            }
            Err(error) => report.damages.push(small_damage(&key, ObjectKind::Checkpoint, error.to_string())),
        }
    }
    let damaged = check_pages(reader, &keys, pages, report).await?;
    let state = load_states(reader, shard, &roots, &damaged, report).await?;
    Ok(Checkpoints { roots, oldest, state })
}

/// Gives the pages that are damaged.
async fn check_pages(
    reader: &Reader,
    keys: &ShardKeys,
    pages: BTreeMap<ObjectId, PageRef>,
    report: &mut VerifyReport,
) -> Result<BTreeSet<ObjectId>, OpenError> {
    let mut damaged = BTreeSet::new();
    for (id, page) in pages {
        let key = keys.page(id);
        let Some(bytes) = reader.get(&key).await? else {
            report.damages.push(missing(&key, ObjectKind::Page));
            damaged.insert(id);
            continue;
        };
        report.count(ObjectKind::Page, bytes.len() as u64);
        if let Err(error) = decode_page(&page, &bytes) {
            report.damages.push(small_damage(&key, ObjectKind::Page, error.to_string()));
            damaged.insert(id);
        }
    }
    Ok(damaged)
}

/// Loads every checkpoint whose pages are whole; gives the state of the newest.
async fn load_states(
    reader: &Reader,
    shard: ShardId,
    roots: &[CheckpointRoot],
    damaged: &BTreeSet<ObjectId>,
    report: &mut VerifyReport,
) -> Result<ShardState, OpenError> {
    let mut newest = None;
    for root in roots.iter().rev() {
        if root.pages.iter().any(|page| damaged.contains(&page.page)) {
            continue;
        }
        match load_newest(&reader.store, shard, &reader.seams, root.position).await {
            Ok(loaded) => newest = newest.or(Some(loaded.state)),
            Err(error @ OpenError::Store { .. }) => return Err(error),
            Err(error) => {
                let key = ShardKeys::new(shard).checkpoint(root.position);
                report.damages.push(small_damage(&key, ObjectKind::Checkpoint, error.to_string()));
            }
        }
    }
    Ok(newest.unwrap_or_else(|| ShardState::new(shard)))
}

/// The fences of epochs that a later owner closed.
async fn check_fences(
    reader: &Reader,
    shard: ShardId,
    state: &ShardState,
    report: &mut VerifyReport,
) -> Result<(), OpenError> {
    let walker = reader.walker(shard);
    for (writer_epoch, end_seq) in &state.epoch_ends {
        let position = WalPosition { writer_epoch: *writer_epoch, seq: *end_seq };
        let key = walker.keys.wal(position);
        let damage = match walker.try_read(position).await {
            Ok(Some(WalObject::Fence(_))) => {
                report.count(ObjectKind::Fence, crate::format::wal_object::FENCE_LENGTH as u64);
                continue;
            }
            Ok(Some(WalObject::Commit(_))) => {
                small_damage(&key, ObjectKind::Fence, "a commit has the place of the fence".to_owned())
            }
            Ok(None) => missing(&key, ObjectKind::Fence),
            Err(error @ OpenError::Store { .. }) => return Err(error),
            Err(error) => small_damage(&key, ObjectKind::Fence, reason_of(error)),
        };
        report.damages.retain(|known| known.object != key);
        report.damages.push(damage);
    }
    Ok(())
}

/// The commits that hold blocks of the tail and come before the checkpoints.
async fn older_tail(
    reader: &Reader,
    shard: ShardId,
    state: &ShardState,
    known: &[CommitObject],
    report: &mut VerifyReport,
) -> Result<Vec<CommitObject>, OpenError> {
    let walker = reader.walker(shard);
    let known: BTreeSet<_> = known.iter().map(|commit| commit.header.position).collect();
    let mut commits = Vec::new();
    for position in tail_objects(state).difference(&known) {
        let key = walker.keys.wal(*position);
        if report.damages.iter().any(|damage| damage.object == key) {
            continue;
        }
        match walker.try_read(*position).await {
            Ok(Some(WalObject::Commit(commit))) => {
                commits.push(CommitObject { events: Vec::new(), ..commit })
            }
            Ok(Some(WalObject::Fence(_))) => {
                report.damages.push(small_damage(&key, ObjectKind::Wal, "a fence has its place".to_owned()));
            }
            Ok(None) => {
                report.damages.extend(tail_damages(state, *position, &missing(&key, ObjectKind::Wal)))
            }
            Err(error @ OpenError::Store { .. }) => return Err(error),
            Err(error) => {
                let damage = small_damage(&key, ObjectKind::Wal, reason_of(error));
                report.damages.extend(tail_damages(state, *position, &damage));
            }
        }
    }
    Ok(commits)
}

/// A damage for each block of the tail that an object held.
fn tail_damages(state: &ShardState, position: WalPosition, like: &Damage) -> Vec<Damage> {
    let mut damages = Vec::new();
    for (id, partition) in &state.partitions {
        for block in partition.blocks.iter().filter(|block| block.object == BlockObject::Wal(position)) {
            let range = super::wal::range(state, *id, block.base_offset..block.next_offset);
            // Its blocks are known from the checkpoint, so only reads fail.
            let part = if like.part == DamagedPart::Missing { like.part } else { DamagedPart::Data };
            damages.push(Damage { range: Some(range), part, ..like.clone() });
        }
    }
    damages
}

/// What is wrong, without the place and the key.
pub(super) fn reason_of(error: OpenError) -> String {
    match error {
        OpenError::Unreadable { reason, .. } | OpenError::Contradiction { reason, .. } => reason,
        OpenError::MissingObject { .. } => "the object is missing".to_owned(),
        other => other.to_string(),
    }
}
