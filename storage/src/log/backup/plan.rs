//! What one state of the log needs.

use bytes::Bytes;
use std::collections::BTreeMap;

use super::BackupError;
use crate::format::backup::{Backup, ShardBackup};
use crate::format::page::{CheckpointRoot, decode_checkpoint};
use crate::format::{FORMAT_VERSION, WalObject};
use crate::ids::{ShardId, WalPosition};
use crate::log::checkpoint::load_newest;
use crate::log::error::OpenError;
use crate::log::keys::{CLUSTER, FORMATS, RESTORING, SHARDS, ShardKeys, trailing_number};
use crate::log::open;
use crate::log::settings::LogSettings;
use crate::log::state::{Commit, ShardState};
use crate::log::verify::{Reader, tail_objects};
use crate::log::walk::Walker;

/// What is copied.
#[derive(Clone, Debug)]
pub(super) enum PlanOf {
    /// A log, as it is now.
    Log,
    Backup(Backup),
}

/// The objects that a copy consists of.
#[derive(Debug)]
pub(super) struct Plan {
    /// With their lengths, where they are known.
    pub(super) objects: BTreeMap<String, Option<u64>>,
    /// Roots of checkpoints, which are put after all objects that they need.
    pub(super) roots: Vec<(String, Bytes)>,
    pub(super) cluster: Bytes,
    pub(super) shards: Vec<ShardBackup>,
}

/// A shard at one state.
struct ShardPlan {
    root: Option<(CheckpointRoot, Bytes)>,
    state: ShardState,
    end: WalPosition,
}

pub(super) async fn plan(source: &Reader, of: &PlanOf) -> Result<Plan, BackupError> {
    let missing = || OpenError::NoLog { location: source.location() };
    let cluster = source.get(CLUSTER).await?.ok_or_else(missing)?;
    let mut plan = Plan { objects: BTreeMap::new(), roots: Vec::new(), cluster, shards: Vec::new() };
    for object in source.list(FORMATS).await? {
        if let Some(found) = trailing_number(&object.key).filter(|found| *found > u64::from(FORMAT_VERSION)) {
            let (location, supported) = (source.location(), FORMAT_VERSION);
            return Err(OpenError::NewerFormat { location, found, supported }.into());
        }
        if object.key == RESTORING {
            return Err(OpenError::UnfinishedRestore { location: source.location() }.into());
        }
        plan.objects.insert(object.key, Some(object.length));
    }
    let shards = match of {
        PlanOf::Log => shards(source).await?.into_iter().map(|shard| (shard, None)).collect(),
        PlanOf::Backup(backup) => {
            backup.shards.iter().map(|shard| (shard.shard, Some(*shard))).collect::<Vec<_>>()
        }
    };
    // Shard 0 comes last: it says which topics there are, and the others then know all of them.
    for (shard, bounds) in shards.into_iter().rev() {
        let of_shard = match bounds {
            None => read_log(source, shard).await?,
            Some(bounds) => Some(read_backup(source, &bounds).await?),
        };
        if let Some(of_shard) = of_shard {
            plan.add(source, shard, of_shard).await?;
        }
    }
    Ok(plan)
}

/// The shards that were ever claimed.
async fn shards(source: &Reader) -> Result<Vec<ShardId>, OpenError> {
    let mut shards = Vec::new();
    loop {
        let shard = ShardId(shards.len() as u32);
        if source.list(&format!("{SHARDS}/{shard}/epochs")).await?.is_empty() {
            return Ok(shards);
        }
        shards.push(shard);
    }
}

/// A shard of a log as it is now; `None` if nothing was ever written.
async fn read_log(source: &Reader, shard: ShardId) -> Result<Option<ShardPlan>, OpenError> {
    // The checkpoint comes first: it is then before the state, or deleted, and that is noticed.
    let root = newest_root(source, shard).await?;
    let (_, state) = open::read_only(&source.store, shard, &LogSettings::default(), &source.seams).await?;
    Ok(state.position.map(|end| ShardPlan { root, state, end }))
}

/// The newest checkpoint whose root can be read.
async fn newest_root(source: &Reader, shard: ShardId) -> Result<Option<(CheckpointRoot, Bytes)>, OpenError> {
    let walker = source.walker(shard);
    for position in walker.checkpoints().await?.into_iter().rev() {
        let Some(bytes) = source.get(&walker.keys.checkpoint(position)).await? else { continue };
        if let Ok(root) = decode_checkpoint(&bytes) {
            return Ok(Some((root, bytes)));
        }
    }
    Ok(None)
}

/// A shard of a backup: what comes after its end is of another one.
async fn read_backup(source: &Reader, bounds: &ShardBackup) -> Result<ShardPlan, OpenError> {
    let mut walker = source.walker(bounds.shard);
    let mut root = None;
    if let Some(position) = bounds.checkpoint {
        let key = walker.keys.checkpoint(position);
        let bytes = source.get(&key).await?.ok_or_else(|| missing(source, key))?;
        let loaded = load_newest(&source.store, bounds.shard, &source.seams, position).await?;
        (root, walker.state) = (Some((loaded.root, bytes)), loaded.state);
    }
    for writer_epoch in walker.claimed_epochs().await? {
        if !walker.is_behind(writer_epoch) && writer_epoch <= bounds.end.writer_epoch {
            replay_epoch(&mut walker, writer_epoch, bounds.end).await?;
        }
    }
    if walker.state.position != Some(bounds.end) {
        return Err(missing(source, walker.keys.wal(bounds.end)));
    }
    Ok(ShardPlan { root, state: walker.state, end: bounds.end })
}

async fn replay_epoch(walker: &mut Walker, writer_epoch: u64, end: WalPosition) -> Result<(), OpenError> {
    for seq in walker.first_seq(writer_epoch).. {
        let position = WalPosition { writer_epoch, seq };
        if position > end {
            return Ok(());
        }
        let Some(WalObject::Commit(commit)) = walker.try_read(position).await? else { return Ok(()) };
        let applied = walker.state.apply(&Commit {
            header: &commit.header,
            header_crc: commit.header_crc,
            object_length: commit.object_length,
            events: &commit.events,
            blocks: &commit.blocks,
        });
        let key = walker.keys.wal(position);
        applied.map_err(|reason| OpenError::Contradiction { location: walker.location(), key, reason })?;
    }
    Ok(())
}

fn missing(source: &Reader, key: String) -> OpenError {
    OpenError::MissingObject { location: source.location(), key }
}

impl Plan {
    async fn add(&mut self, source: &Reader, shard: ShardId, of: ShardPlan) -> Result<(), OpenError> {
        let keys = ShardKeys::new(shard);
        let state = &of.state;
        for (object, segment) in &state.segments.live {
            self.objects.insert(keys.segment(*object), Some(segment.length));
        }
        for position in tail_objects(state) {
            self.objects.insert(keys.wal(position), None);
        }
        for (writer_epoch, end_seq) in &state.epoch_ends {
            let fence = WalPosition { writer_epoch: *writer_epoch, seq: *end_seq };
            self.objects.insert(keys.wal(fence), None);
        }
        let root = of.root.as_ref().map(|(root, _)| root);
        for position in wal_after(root.map(|root| root.position), state, of.end) {
            self.objects.insert(keys.wal(position), None);
        }
        for page in root.iter().flat_map(|root| &root.pages) {
            self.objects.insert(keys.page(page.page), Some(u64::from(page.length)));
        }
        for claim in source.list(&keys.epochs()).await? {
            self.objects.insert(claim.key, Some(claim.length));
        }
        self.shards.push(ShardBackup { shard, checkpoint: root.map(|root| root.position), end: of.end });
        self.roots.extend(of.root.map(|(root, bytes)| (keys.checkpoint(root.position), bytes)));
        Ok(())
    }
}

/// The commits after a checkpoint up to the end of a state.
fn wal_after(checkpoint: Option<WalPosition>, state: &ShardState, end: WalPosition) -> Vec<WalPosition> {
    let first_epoch = checkpoint.map_or(0, |checkpoint| checkpoint.writer_epoch);
    let closed =
        state.epoch_ends.range(first_epoch..end.writer_epoch).map(|(epoch, end_seq)| (*epoch, *end_seq));
    let epochs = closed.chain([(end.writer_epoch, end.seq + 1)]);
    let commits = epochs.flat_map(|(writer_epoch, end_seq)| {
        let walked = checkpoint.filter(|checkpoint| checkpoint.writer_epoch == writer_epoch);
        let first = walked.map_or(0, |checkpoint| checkpoint.seq + 1);
        (first..end_seq).map(move |seq| WalPosition { writer_epoch, seq })
    });
    commits.collect()
}
