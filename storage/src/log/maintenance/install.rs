//! Commits what a rewrite made: checked against the assigned state, because what the rewrite read may
//! have been deleted, trimmed or merged meanwhile.

use std::time::Duration;

use thiserror::Error;

use super::rewrite::Rewritten;
use super::run::Run;
use crate::format::Event;
use crate::format::event::{InstalledObject, LogStart, LogStartsMoved, PartitionInstall, SegmentsInstalled};
use crate::ids::TopicPartition;
use crate::log::change::Change;
use crate::log::error::WriteError;
#[cfg(test)]
use crate::log::simulation::WrongRule;
use crate::log::state::ShardState;

/// Why the segments were not installed. Nothing refers to them then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum InstallError {
    #[error("what was rewritten has changed meanwhile")]
    Changed,
    #[error("all of what was rewritten is deleted")]
    AllDeleted,
    #[error("the segments are {age_s} s old, at most {max_s} s are allowed")]
    TooOld { age_s: u64, max_s: u64 },
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// What is to be installed.
pub(super) struct Install {
    pub(super) runs: Vec<Run>,
    pub(super) rewritten: Rewritten,
    pub(super) wal_objects: u64,
    /// Segments that are older are refused: a sweep may have taken them for orphans.
    pub(super) age_max: Duration,
    /// A rule that is broken on purpose.
    #[cfg(test)]
    pub(super) wrong_rule: Option<WrongRule>,
}

impl Install {
    pub(super) fn into_change(self) -> Change<(), InstallError> {
        Change::any_place(move |state, now_ms| {
            let moved = self.moved_starts(state);
            let mut events = vec![Event::SegmentsInstalled(self.event(state, now_ms)?)];
            if !moved.is_empty() {
                events.push(Event::LogStartsMoved(LogStartsMoved { partitions: moved }));
            }
            Ok((events, ()))
        })
    }

    /// Log starts that moved into a run while it was written. They are said again after the install, so
    /// that the new segments count as partly dead.
    fn moved_starts(&self, state: &ShardState) -> Vec<LogStart> {
        let moved = self.runs.iter().filter_map(|run| {
            let partition = state.partitions.get(&run.topic_partition)?;
            let log_start_offset = partition.log_start_offset;
            let is_inside = log_start_offset > run.log_start_offset && log_start_offset < run.next_offset;
            let (topic_id, partition) = (run.topic_partition.topic_id, run.topic_partition.partition);
            is_inside.then_some(LogStart { topic_id, partition, log_start_offset })
        });
        moved.collect()
    }

    fn event(self, state: &ShardState, now_ms: i64) -> Result<SegmentsInstalled, InstallError> {
        self.check_age(now_ms)?;
        let mut partitions = Vec::with_capacity(self.runs.len());
        for (run, install) in self.runs.iter().zip(self.rewritten.installs) {
            #[cfg(test)]
            if self.wrong_rule == Some(WrongRule::InstallUnchecked) {
                partitions.push(install);
                continue;
            }
            partitions.extend(current(run, install, state)?);
        }
        if partitions.is_empty() {
            return Err(InstallError::AllDeleted);
        }
        let objects = self.rewritten.segments.iter().map(|segment| segment.object);
        let objects: Vec<InstalledObject> = objects.collect();
        Ok(SegmentsInstalled { objects, partitions, wal_objects: self.wal_objects })
    }

    fn check_age(&self, now_ms: i64) -> Result<(), InstallError> {
        let created = self.rewritten.segments.iter().map(|segment| segment.object.object.created_at_ms());
        let Some(oldest) = created.min() else { return Ok(()) };
        let age = Duration::from_millis(u64::try_from(now_ms.saturating_sub(oldest)).unwrap_or(0));
        if age <= self.age_max {
            return Ok(());
        }
        Err(InstallError::TooOld { age_s: age.as_secs(), max_s: self.age_max.as_secs() })
    }
}

/// The install as it applies to the state: none where the topic is deleted or all of it is below the
/// log start.
fn current(
    run: &Run,
    install: PartitionInstall,
    state: &ShardState,
) -> Result<Option<PartitionInstall>, InstallError> {
    let id = TopicPartition::new(install.topic_id, install.partition);
    let Some(partition) = state.partitions.get(&id) else { return Ok(None) };
    if install.next_offset <= partition.log_start_offset {
        return Ok(None);
    }
    if !run.is_current(partition) {
        return Err(InstallError::Changed);
    }
    Ok(Some(install))
}
