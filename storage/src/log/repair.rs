//! What an operator can have done about damage: rebuild what follows from the batches, and give up
//! what is lost.

use super::error::MaintenanceError;
use super::handle::Log;
use super::keys::object_id;
use super::maintenance::{Repair, Request};
use super::verify::{Damage, DamagedPart, DamagedRange, ObjectKind, VerifyReport};
use crate::format::event::LostRange;

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
        let mut segments: Vec<_> = report
            .damages
            .iter()
            .filter(is_derivable)
            .filter_map(|damage| object_id(&damage.object))
            .collect();
        segments.dedup();
        self.maintain(|reply| Request::Repair(Repair::Index(segments), reply)).await
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
        self.maintain(|reply| Request::Repair(Repair::Loss { object: object.to_owned(), ranges }, reply))
            .await
    }
}
