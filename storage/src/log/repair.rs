//! What an operator can have done about damage: rebuild what follows from the batches, and give up
//! what is lost.

use std::collections::{BTreeMap, BTreeSet};

use super::error::MaintenanceError;
use super::handle::Log;
use super::keys::{object_id, shard_of};
use super::maintenance::{Repair, Request};
use super::shard::Shard;
use super::verify::{Damage, DamagedPart, DamagedRange, ObjectKind, VerifyReport};
use crate::format::event::LostRange;
use crate::ids::ShardId;

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Slices that were written anew.
    pub rewritten: u64,
    /// Offsets that readers skip from now on.
    pub lost: Vec<LostRange>,
}

impl Log {
    /// Writes segments anew whose batches are whole and whose index, header, directory or trailer is
    /// damaged, as a verification found.
    ///
    /// # Errors
    /// Batches that are damaged as well, and whatever keeps a segment from being written.
    pub async fn repair_index(&self, report: &VerifyReport) -> Result<RepairReport, MaintenanceError> {
        let is_derivable = |damage: &&Damage| {
            damage.kind == ObjectKind::Segment
                && matches!(damage.part, DamagedPart::Index | DamagedPart::Frame)
        };
        let damaged = report.damages.iter().filter(is_derivable);
        let mut segments = BTreeMap::<_, BTreeSet<_>>::new();
        for object in damaged.map(|damage| damage.object.as_str()) {
            if let Some(id) = object_id(object) {
                segments.entry(shard_of(object)).or_default().insert(id);
            }
        }
        let mut whole = RepairReport::default();
        for (shard, segments) in segments {
            let repair = Repair::Index(segments.into_iter().collect());
            let repaired = self.repairable(shard)?.maintain(|reply| Request::Repair(repair, reply)).await?;
            whole.rewritten += repaired.rewritten;
            whole.lost.extend(repaired.lost);
        }
        Ok(whole)
    }

    /// Gives up the records that a verification found damaged in one object, or in no object any more:
    /// readers skip them from then on. Other records of the object are kept.
    ///
    /// # Errors
    /// Nothing that is damaged there, and whatever keeps it from being noted.
    pub async fn accept_loss(
        &self,
        object: &str,
        ranges: &[DamagedRange],
    ) -> Result<RepairReport, MaintenanceError> {
        let range = |range: &DamagedRange| LostRange {
            topic_id: range.topic_partition.topic_id,
            partition: range.topic_partition.partition,
            base_offset: range.base_offset,
            next_offset: range.next_offset,
        };
        let ranges = ranges.iter().map(range).collect();
        let loss = Repair::Loss { object: object.to_owned(), ranges };
        self.repairable(shard_of(object))?.maintain(|reply| Request::Repair(loss, reply)).await
    }

    fn repairable(&self, shard: Option<ShardId>) -> Result<&Shard, MaintenanceError> {
        let unknown = || MaintenanceError::Refused { reason: "the object is in no shard".to_owned() };
        shard.and_then(|shard| self.shard(shard)).ok_or_else(unknown)
    }
}
