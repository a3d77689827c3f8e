//! One consumer group: its offsets, committed one after the other, and the generations that it is given.

use super::operations::{KEPT, partition_of};
use super::run::{Process, World};
use crate::log::{ChangeGroupError, GroupChange, OffsetCommit};

/// The group, whose committed offset counts commits.
pub(super) const READERS: &str = "readers";

impl World {
    /// Commits and rebalances without end.
    pub(super) async fn consume_in_a_group(self) {
        let mut offset = 0;
        loop {
            offset += 1;
            let process = self.commit_offset(offset).await;
            self.with(|shared| {
                shared.history.raise_group_offset(offset);
                shared.promises_of(process.number).raise_group_offset(offset);
                shared.count("offsets committed");
            });
            if self.draw(3) == 0 {
                self.reserve_generation().await;
            }
            self.sleep_ms(2000).await;
        }
    }

    /// Commits until it is known to be done; gives the process that did it.
    async fn commit_offset(&self, offset: i64) -> Process {
        loop {
            if let Some(process) = self.current()
                && let Some(topic_partition) = partition_of(&process.log, KEPT, 0)
            {
                self.count("operations");
                let commit = OffsetCommit { topic_partition, offset, leader_epoch: -1, metadata: None };
                let committed = process.log.commit_offsets(READERS, vec![commit]);
                if let Some(Ok([Ok(())])) = self.within(committed).await.as_ref().map(|done| done.as_deref())
                {
                    return process;
                }
            }
            self.sleep_ms(500).await;
        }
    }

    /// Takes the next generation, if nobody else does: no generation is given twice.
    async fn reserve_generation(&self) {
        let Some(process) = self.current() else { return };
        let (revision, last) = match process.log.snapshot().group(READERS) {
            Some(group) => (group.revision, group.generations_reserved),
            None => (0, 0),
        };
        let reserve = GroupChange::ReserveGenerations { last: last + 1 };
        match self.within(process.log.change_group(READERS, revision, reserve)).await {
            Some(Ok(_)) => self.with(|shared| {
                shared.history.reserved_generation(last + 1);
                shared.count("generations reserved");
            }),
            None | Some(Err(ChangeGroupError::RevisionMismatch { .. } | ChangeGroupError::Write(_))) => {}
        }
    }
}
