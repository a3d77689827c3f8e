//! Verification: reads every object that the log needs and says what is damaged or missing, and which
//! offsets that concerns. Writes nothing, and works beside a server that goes on.
//!
//! First a survey of each shard (claims, checkpoints, the fronts of the WAL, the state that they
//! give), then the data of the WAL and of all segments.
//!
//! Invariant: one damaged object hides no other: what can still be checked is checked.
//! Invariant: what a server deleted while this went on is no damage: a survey begins again when the
//! checkpoints changed under it, and what is missing later is held against a new survey.
//! Invariant: memory is bounded: batches are read in pieces.

mod block;
mod data;
mod report;
mod segment;
mod survey;
mod wal;

#[cfg(test)]
pub(in crate::log) mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

pub use report::{Checked, Damage, DamagedPart, DamagedRange, ObjectKind, Progress, VerifyReport};

pub(in crate::log) use block::{check_block, entry_of_batches};
pub(in crate::log) use survey::tail_objects;

use self::data::DataChecker;
use self::survey::{Scope, Survey};
use super::backup;
use super::error::OpenError;
use super::keys::{CLUSTER, FORMATS, SHARDS, ShardKeys, shard_of, trailing_number};
use super::loss::Losses;
use super::retry::retry_read;
use super::settings::LogSettings;
use super::state::ShardState;
use super::walk::Walker;
use crate::format::{Cluster, FORMAT_VERSION, decode_cluster};
use crate::ids::ShardId;
use crate::object::{LogStore, ObjectMeta, StoreError};
use crate::seam::Seams;

/// Reads all of a store and says what is wrong with it. On a place that holds a backup, only what the
/// newest complete one needs is read.
///
/// # Errors
/// A store that cannot be read, holds no log, or has objects of a newer version.
pub async fn verify(
    store: &Arc<dyn LogStore>,
    settings: &LogSettings,
    seams: &Seams,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<VerifyReport, OpenError> {
    let reader = Reader { store: store.clone(), seams: seams.clone() };
    let listed = reader.list("").await?;
    let is_ours = |object: &ObjectMeta| object.key == CLUSTER || object.key.starts_with(SHARDS);
    if !listed.iter().any(is_ours) {
        return Err(OpenError::NoLog { location: reader.location() });
    }
    let mut report = VerifyReport { location: reader.location(), ..VerifyReport::default() };
    check_root(&reader, &listed, &mut report).await?;
    let newest_backup = backup::newest(&reader.store, &reader.seams, &mut report).await?;
    let mut done = Progress::default();
    for shard in shards(&listed) {
        let scope = match &newest_backup {
            None => Scope::Log,
            Some(backup) => match backup.shards.iter().find(|found| found.shard == shard) {
                Some(found) => Scope::Backup(*found),
                None => continue,
            },
        };
        let verifier =
            ShardVerifier { reader: reader.clone(), settings, scope, keys: ShardKeys::new(shard), shard };
        verifier.run(&listed, &mut report, &mut done, progress).await?;
    }
    report.damages.sort_by(|a, b| (&a.object, a.part).cmp(&(&b.object, b.part)));
    Ok(report)
}

/// The shards that have objects.
fn shards(listed: &[ObjectMeta]) -> BTreeSet<ShardId> {
    listed.iter().filter_map(|object| shard_of(&object.key)).collect()
}

/// The objects beside the shards.
async fn check_root(
    reader: &Reader,
    listed: &[ObjectMeta],
    report: &mut VerifyReport,
) -> Result<(), OpenError> {
    let formats = listed.iter().filter(|object| object.key.starts_with(&format!("{FORMATS}/")));
    let formats: Vec<_> = formats.map(|object| object.key.clone()).collect();
    let newest = formats.iter().filter_map(|key| trailing_number(key)).max();
    if let Some(found) = newest.filter(|found| *found > u64::from(FORMAT_VERSION)) {
        return Err(OpenError::NewerFormat { location: reader.location(), found, supported: FORMAT_VERSION });
    }
    let cluster = check_cluster(reader, CLUSTER, ObjectKind::Cluster, report).await?;
    report.cluster_id = cluster.map(|cluster| cluster.cluster_id.to_string());
    for key in formats.iter().filter(|key| trailing_number(key).is_some()) {
        let format = check_cluster(reader, key, ObjectKind::Format, report).await?;
        let agrees = format.is_none_or(|format| {
            let same_id = cluster.is_none_or(|cluster| cluster.cluster_id == format.cluster_id);
            same_id && trailing_number(key) == Some(u64::from(format.format_version))
        });
        if !agrees {
            let what = "it is of another store or version than its place says".to_owned();
            report.damages.push(small_damage(key, ObjectKind::Format, what));
        }
    }
    Ok(())
}

async fn check_cluster(
    reader: &Reader,
    key: &str,
    kind: ObjectKind,
    report: &mut VerifyReport,
) -> Result<Option<Cluster>, OpenError> {
    let Some(bytes) = reader.get(key).await? else {
        report.damages.push(missing(key, kind));
        return Ok(None);
    };
    report.count(kind, bytes.len() as u64);
    match decode_cluster(&bytes) {
        Ok(cluster) => Ok(Some(cluster)),
        Err(error) => {
            report.damages.push(small_damage(key, kind, error.to_string()));
            Ok(None)
        }
    }
}

/// Damage of an object that holds no records.
pub(in crate::log) fn small_damage(key: &str, kind: ObjectKind, what: String) -> Damage {
    Damage { object: key.to_owned(), kind, part: DamagedPart::Front, range: None, what }
}

pub(in crate::log) fn missing(key: &str, kind: ObjectKind) -> Damage {
    let what = "the object is missing".to_owned();
    Damage { object: key.to_owned(), kind, part: DamagedPart::Missing, range: None, what }
}

/// Reads that tell what is not there from what cannot be read now.
#[derive(Clone)]
pub(in crate::log) struct Reader {
    pub(in crate::log) store: Arc<dyn LogStore>,
    pub(in crate::log) seams: Seams,
}

impl Reader {
    pub(in crate::log) fn location(&self) -> String {
        self.store.location().to_owned()
    }

    /// `None` if there is no such object.
    pub(in crate::log) async fn get(&self, key: &str) -> Result<Option<Bytes>, OpenError> {
        self.found(retry_read(&*self.seams.clock, || self.store.get(key)).await)
    }

    pub(in crate::log) async fn get_range(
        &self,
        key: &str,
        range: std::ops::Range<u64>,
    ) -> Result<Option<Bytes>, OpenError> {
        self.found(retry_read(&*self.seams.clock, || self.store.get_range(key, range.clone())).await)
    }

    /// The first bytes and the length of an object.
    pub(in crate::log) async fn front(
        &self,
        key: &str,
        length: u64,
    ) -> Result<Option<(Bytes, u64)>, OpenError> {
        let read = retry_read(&*self.seams.clock, || self.store.get_prefix(key, length)).await;
        Ok(self.found(read)?.map(|prefix| (prefix.bytes, prefix.object_length)))
    }

    pub(in crate::log) async fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>, OpenError> {
        let listed = retry_read(&*self.seams.clock, || self.store.list(prefix)).await;
        listed.map_err(|source| OpenError::Store { location: self.location(), source })
    }

    fn found<T>(&self, read: Result<T, StoreError>) -> Result<Option<T>, OpenError> {
        match read {
            Ok(found) => Ok(Some(found)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(source) => Err(OpenError::Store { location: self.location(), source }),
        }
    }

    pub(in crate::log) fn walker(&self, shard: ShardId) -> Walker {
        Walker {
            store: self.store.clone(),
            shard,
            keys: ShardKeys::new(shard),
            seams: self.seams.clone(),
            state: ShardState::new(shard),
            unproven: Vec::new(),
            losses: Losses::default(),
        }
    }
}

/// Verifies one shard.
struct ShardVerifier<'a> {
    reader: Reader,
    settings: &'a LogSettings,
    scope: Scope,
    keys: ShardKeys,
    shard: ShardId,
}

impl ShardVerifier<'_> {
    async fn run(
        &self,
        listed: &[ObjectMeta],
        report: &mut VerifyReport,
        done: &mut Progress,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<(), OpenError> {
        let mut survey = self.survey().await?;
        let mut checker = DataChecker {
            reader: &self.reader,
            keys: self.keys,
            state: survey.state.clone(),
            decompressed_bytes_max: self.settings.decompressed_bytes_max,
            report: VerifyReport::default(),
            done,
            progress,
        };
        checker.note_total(&survey.commits);
        checker.check_wal(&survey.commits).await?;
        checker.check_segments().await?;
        checker.check_lost();
        let mut found = checker.report;
        if found.damages.iter().any(|damage| damage.part == DamagedPart::Missing) {
            let now = self.survey().await?;
            found.damages.retain(|damage| {
                damage.part != DamagedPart::Missing || now.needs(&damage.object, &self.keys)
            });
        }
        survey.note_unneeded(listed, &self.keys, report);
        report.absorb(survey.report);
        report.absorb(found);
        Ok(())
    }

    /// Surveys until nothing changed under it.
    async fn survey(&self) -> Result<Survey, OpenError> {
        let walker = self.reader.walker(self.shard);
        loop {
            let before = walker.checkpoints().await?;
            let survey = Survey::make(&self.reader, self.shard, &self.scope).await?;
            let after = walker.checkpoints().await?;
            let is_overtaken =
                after.last() != before.last() || (after != before && !survey.report.is_clean());
            if !is_overtaken {
                return Ok(survey);
            }
        }
    }
}
