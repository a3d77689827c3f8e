//! Backup and restore: copies of the immutable objects that one state of the log needs, from one
//! store to another.
//!
//! A backup is all that an open needs of the state at its begin: a checkpoint with its pages, the
//! segments and the WAL objects that the state refers to, the WAL after the checkpoint, claims and
//! fences. Its last object says that it is complete. What the target has already is not copied again.
//!
//! Invariant: the source is only read. Nothing in the target is overwritten or deleted.
//! Invariant: an interrupted backup changes nothing of the complete ones before it: what belongs to
//! one is what its last object says, not what else is there.
//! Invariant: a log whose restore was interrupted does not open.

mod copy;
mod error;
mod plan;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use error::BackupError;

use self::copy::Copier;
use self::plan::{Plan, PlanOf, plan};
use super::error::OpenError;
use super::keys::{BACKUPS, CLUSTER, RESTORING, backup_key, object_id};
use super::retry::create_own;
use super::verify::{Checked, ObjectKind, Progress, Reader, VerifyReport, small_damage};
use crate::format::backup::{Backup, decode_backup, encode_backup};
use crate::format::decode_cluster;
use crate::ids::ObjectId;
use crate::object::LogStore;
use crate::seam::Seams;

/// What a backup or restore did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupReport {
    pub cluster_id: String,
    /// Everything that was acknowledged before this time is in it.
    pub begun_at_ms: i64,
    /// Objects that were copied.
    pub copied: Checked,
    /// Objects that the target had already.
    pub present: Checked,
}

/// The two ends of a copy.
#[derive(Clone, Debug)]
pub struct CopyStores {
    pub from: Arc<dyn LogStore>,
    pub to: Arc<dyn LogStore>,
}

/// Copies the log as it is now to a place for backups, which may hold older ones of the same log.
/// Works beside a running server.
///
/// # Errors
/// A store that fails, damage in the source that stops the copy, or a target that holds something
/// else.
pub async fn backup(
    stores: &CopyStores,
    seams: &Seams,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<BackupReport, BackupError> {
    let begun_at_ms = seams.clock.now_ms();
    let mut copier = Copier::new(stores, seams, progress).await?;
    copier.check_target().await?;
    let plan = copy_all(&mut copier, PlanOf::Log).await?;
    copier.copy_last(&plan).await?;
    let cluster = decode_cluster(&plan.cluster).map_err(|error| copier.unreadable(CLUSTER, error))?;
    let backup = Backup { cluster_id: cluster.cluster_id, begun_at_ms, shards: plan.shards };
    // Behind the backups that are there, whatever the clock of who made them said.
    let after =
        copier.newest_backup().map_or(begun_at_ms, |newest| begun_at_ms.max(newest.created_at_ms() + 1));
    let key = backup_key(ObjectId::new(after, seams.rng.bytes16()));
    copier.create(&key, encode_backup(&backup)).await?;
    Ok(BackupReport { cluster_id: cluster.cluster_id.to_string(), begun_at_ms, ..copier.report })
}

/// Copies the newest complete backup, or a log that nobody serves, to an empty place, where it then
/// opens as any log does. Goes on with a restore that was interrupted.
///
/// # Errors
/// As [`backup`], and a target that is not empty.
pub async fn restore(
    stores: &CopyStores,
    seams: &Seams,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<BackupReport, BackupError> {
    let source = Reader { store: stores.from.clone(), seams: seams.clone() };
    if source.get(CLUSTER).await?.is_none() {
        return Err(BackupError::NoBackup { location: source.location() });
    }
    let newest = newest(&stores.from, seams, &mut VerifyReport::default()).await?;
    let mut copier = Copier::new(stores, seams, progress).await?;
    if !copier.target_is_empty() {
        return Err(BackupError::NotEmpty { location: stores.to.location().to_owned() });
    }
    let guard = source.get(CLUSTER).await?.unwrap_or_default();
    create_own(&*stores.to, seams, RESTORING, guard).await.map_err(|error| copier.target_failed(error))?;
    let begun_at_ms = newest.as_ref().map_or_else(|| seams.clock.now_ms(), |backup| backup.begun_at_ms);
    let of = newest.map_or(PlanOf::Log, PlanOf::Backup);
    let plan = copy_all(&mut copier, of).await?;
    copier.copy_last(&plan).await?;
    stores.to.delete(RESTORING).await.map_err(|error| copier.target_failed(error))?;
    let cluster = decode_cluster(&plan.cluster).map_err(|error| copier.unreadable(CLUSTER, error))?;
    Ok(BackupReport { cluster_id: cluster.cluster_id.to_string(), begun_at_ms, ..copier.report })
}

/// Copies all but the last objects. When the source deletes something meanwhile, a new plan is made:
/// what was copied already stays of use.
async fn copy_all(copier: &mut Copier<'_>, of: PlanOf) -> Result<Plan, BackupError> {
    let mut vanished: Option<String> = None;
    loop {
        let plan = plan(&copier.source, &of).await?;
        if let Some(key) = vanished.filter(|key| plan.objects.contains_key(key)) {
            return Err(BackupError::Missing { location: copier.source.location(), key });
        }
        vanished = copier.copy(&plan.objects).await?;
        if vanished.is_none() {
            return Ok(plan);
        }
    }
}

/// The newest complete backup in a store; `None` in a store that holds none. One that does not decode
/// is noted, and the one before it is taken.
///
/// # Errors
/// A store that cannot be read.
pub(super) async fn newest(
    store: &Arc<dyn LogStore>,
    seams: &Seams,
    report: &mut VerifyReport,
) -> Result<Option<Backup>, OpenError> {
    let reader = Reader { store: store.clone(), seams: seams.clone() };
    let listed = reader.list(BACKUPS).await?;
    let by_time: BTreeMap<_, _> =
        listed.into_iter().filter_map(|object| Some((object_id(&object.key)?, object.key))).collect();
    for key in by_time.into_values().rev() {
        let Some(bytes) = reader.get(&key).await? else { continue };
        report.count(ObjectKind::Backup, bytes.len() as u64);
        match decode_backup(&bytes) {
            Ok(backup) => return Ok(Some(backup)),
            Err(error) => report.damages.push(small_damage(&key, ObjectKind::Backup, error.to_string())),
        }
    }
    Ok(None)
}
