//! Copies objects that the target does not have.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt};

use super::plan::Plan;
use super::{BackupError, BackupReport, CopyStores};
use crate::format::decode_cluster;
use crate::ids::ObjectId;
use crate::log::error::OpenError;
use crate::log::keys::{BACKUPS, CLUSTER, RESTORING, SHARDS, object_id, trailing_number};
use crate::log::retry::create_own;
use crate::log::verify::{Checked, Progress, Reader};
use crate::object::{LogStore, ObjectMeta, StoreError};
use crate::seam::Seams;

/// Objects are copied so many at a time.
const COPIES_MAX: usize = 8;
/// A larger object is copied in pieces of this many bytes.
const PIECE_BYTES: u64 = 4 * 1024 * 1024;
/// A copy of a large object that fails in the middle is begun again so often.
const TRIES_MAX: usize = 5;

pub(super) struct Copier<'a> {
    pub(super) source: Reader,
    pub(super) report: BackupReport,
    target: Reader,
    /// What the target has, with the lengths.
    there: HashMap<String, u64>,
    done: Progress,
    progress: &'a mut (dyn FnMut(Progress) + Send),
}

/// What became of the copy of one object.
enum Copied {
    Bytes(u64),
    /// The source does not have it any more.
    Vanished,
}

impl<'a> Copier<'a> {
    pub(super) async fn new(
        stores: &CopyStores,
        seams: &Seams,
        progress: &'a mut (dyn FnMut(Progress) + Send),
    ) -> Result<Self, BackupError> {
        let reader = |store: &Arc<dyn LogStore>| Reader { store: store.clone(), seams: seams.clone() };
        let (source, target) = (reader(&stores.from), reader(&stores.to));
        if source.location() == target.location() && !source.location().starts_with("memory") {
            return Err(BackupError::SamePlace { location: source.location() });
        }
        let listed = target.list("").await?;
        let there = listed.into_iter().map(|ObjectMeta { key, length }| (key, length)).collect();
        let report = BackupReport::default();
        Ok(Self { source, report, target, there, done: Progress::default(), progress })
    }

    pub(super) fn target_is_empty(&self) -> bool {
        self.there.is_empty() || self.there.contains_key(RESTORING)
    }

    /// The newest complete backup that is there.
    pub(super) fn newest_backup(&self) -> Option<ObjectId> {
        self.there.keys().filter(|key| key.starts_with(BACKUPS)).filter_map(|key| object_id(key)).max()
    }

    pub(super) fn target_failed(&self, source: StoreError) -> BackupError {
        BackupError::Target { location: self.target.location(), source }
    }

    pub(super) fn unreadable(&self, key: &str, reason: impl ToString) -> BackupError {
        let location = self.source.location();
        OpenError::Unreadable { location, key: key.to_owned(), reason: reason.to_string() }.into()
    }

    /// Refuses a target that holds anything but backups of the same log.
    pub(super) async fn check_target(&self) -> Result<(), BackupError> {
        let location = self.target.location();
        let is_ours = |key: &String| key == CLUSTER || key.starts_with(SHARDS) || key.starts_with(BACKUPS);
        if !self.there.is_empty() && !self.there.keys().any(is_ours) {
            return Err(BackupError::NoPlaceForBackups { location });
        }
        let Some(found) = self.target.get(CLUSTER).await? else { return Ok(()) };
        if self.source.get(CLUSTER).await?.as_ref() != Some(&found) {
            let found =
                decode_cluster(&found).map_or("unknown".to_owned(), |cluster| cluster.cluster_id.to_string());
            return Err(BackupError::OtherLog { location, found });
        }
        self.check_claims().await
    }

    /// A claim that the source does not have was put by a process that took the target for its log.
    async fn check_claims(&self) -> Result<(), BackupError> {
        let is_claim = |key: &&String| key.starts_with(SHARDS) && key.contains("/epochs/");
        for key in self.there.keys().filter(is_claim).filter(|key| trailing_number(key).is_some()) {
            if self.target.get(key).await? != self.source.get(key).await? {
                return Err(BackupError::Diverged { location: self.target.location(), key: key.clone() });
            }
        }
        Ok(())
    }

    /// Copies objects; gives the key of one that the source deleted meanwhile.
    pub(super) async fn copy(
        &mut self,
        objects: &BTreeMap<String, Option<u64>>,
    ) -> Result<Option<String>, BackupError> {
        let mut wanted = Vec::new();
        self.report.present = Checked::default();
        for (key, length) in objects {
            match (self.there.get(key).copied(), *length) {
                (Some(found), Some(expected)) if found != expected => {
                    let location = self.target.location();
                    return Err(BackupError::OtherLength { location, key: key.clone(), found, expected });
                }
                (Some(found), _) => {
                    self.report.present.objects += 1;
                    self.report.present.bytes += found;
                }
                (None, _) => wanted.push((key.clone(), *length)),
            }
        }
        self.done.bytes_total =
            self.done.bytes + wanted.iter().filter_map(|(_, length)| *length).sum::<u64>();
        let (source, target) = (self.source.clone(), self.target.clone());
        let mut copies = stream::iter(wanted)
            .map(|(key, length)| {
                let (source, target) = (source.clone(), target.clone());
                async move {
                    let copied = copy_object(&source, &target, &key, length).await;
                    (key, length, copied)
                }
            })
            .buffer_unordered(COPIES_MAX);
        let mut vanished = None;
        while let Some((key, length, copied)) = copies.next().await {
            match copied? {
                Copied::Vanished => vanished = Some(key),
                Copied::Bytes(bytes) => {
                    self.report.copied.objects += 1;
                    self.report.copied.bytes += bytes;
                    self.there.insert(key, bytes);
                    self.done.bytes += bytes;
                    // The lengths of WAL objects are known only now.
                    self.done.bytes_total += bytes - length.unwrap_or(0).min(bytes);
                    (self.progress)(self.done);
                }
            }
        }
        Ok(vanished)
    }

    /// Puts the roots, and then the object without which the target is no log.
    pub(super) async fn copy_last(&mut self, plan: &Plan) -> Result<(), BackupError> {
        for (key, bytes) in &plan.roots {
            self.create(key, bytes.clone()).await?;
        }
        self.create(CLUSTER, plan.cluster.clone()).await
    }

    pub(super) async fn create(&mut self, key: &str, bytes: Bytes) -> Result<(), BackupError> {
        let length = bytes.len() as u64;
        let counted = match self.there.contains_key(key) {
            true => &mut self.report.present,
            false => &mut self.report.copied,
        };
        counted.objects += 1;
        counted.bytes += length;
        let created = create_own(&*self.target.store, &self.target.seams, key, bytes).await;
        created.map_err(|error| self.target_failed(error))
    }
}

async fn copy_object(
    source: &Reader,
    target: &Reader,
    key: &str,
    length: Option<u64>,
) -> Result<Copied, BackupError> {
    let failed = |error| BackupError::Target { location: target.location(), source: error };
    if length.is_some_and(|length| length > PIECE_BYTES) {
        for _ in 1..TRIES_MAX {
            match copy_large(source, target, key).await {
                Err(BackupError::Target { source, .. }) if source.is_transient() => {}
                copied => return copied,
            }
        }
        return copy_large(source, target, key).await;
    }
    let Some(bytes) = source.get(key).await? else { return Ok(Copied::Vanished) };
    let copied = bytes.len() as u64;
    match length.filter(|expected| *expected != copied) {
        Some(expected) => {
            let location = source.location();
            Err(BackupError::OtherLength { location, key: key.to_owned(), found: copied, expected })
        }
        None => {
            create_own(&*target.store, &target.seams, key, bytes).await.map_err(failed)?;
            Ok(Copied::Bytes(copied))
        }
    }
}

/// Copies an object in pieces.
async fn copy_large(source: &Reader, target: &Reader, key: &str) -> Result<Copied, BackupError> {
    let failed = |error| BackupError::Target { location: target.location(), source: error };
    let mut writer = target.store.create_large(key).await.map_err(failed)?;
    let mut position = 0;
    loop {
        let Some(bytes) = source.get_range(key, position..position + PIECE_BYTES).await? else {
            writer.abort().await;
            return Ok(Copied::Vanished);
        };
        let length = bytes.len() as u64;
        position += length;
        if length > 0 {
            writer.write(bytes).await.map_err(failed)?;
        }
        if length < PIECE_BYTES {
            break;
        }
    }
    writer.finish().await.map_err(failed)?;
    let there = target.front(key, 1).await?.map(|(_, length)| length);
    match there.filter(|length| *length == position) {
        Some(_) => Ok(Copied::Bytes(position)),
        None => {
            let (location, found) = (target.location(), there.unwrap_or(0));
            Err(BackupError::OtherLength { location, key: key.to_owned(), found, expected: position })
        }
    }
}
