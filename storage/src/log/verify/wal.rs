//! The walk of a verification through the fronts of the WAL. Other than an open's it goes on behind
//! what is damaged or missing, and notes which offsets that was.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use futures::stream::{self, StreamExt};

use super::report::{Damage, DamagedPart, DamagedRange, ObjectKind, VerifyReport};
use super::small_damage;
use super::survey::{Scope, reason_of};
use crate::format::page::CheckpointRoot;
use crate::format::{CommitObject, Event, WalObject};
use crate::ids::{TopicPartition, WalPosition};
use crate::log::error::OpenError;
use crate::log::keys::wal_position;
use crate::log::state::{Commit, ShardState};
use crate::log::walk::Walker;

/// Fronts are read so many at a time.
const READS_MAX: usize = 16;

pub(super) struct WalSurvey {
    walker: Walker,
    /// After the newest commit that follows from the ones before.
    pub(super) state: ShardState,
    pub(super) commits: Vec<CommitObject>,
    /// Objects beyond the end of their epoch.
    pub(super) void: BTreeSet<WalPosition>,
    /// Epochs that have objects.
    pub(super) epochs: BTreeSet<u64>,
    pub(super) report: VerifyReport,
    /// Where epochs ended, as far as anything says so.
    ends: BTreeMap<u64, u64>,
    /// The commits that readable checkpoints are the state after, and their header CRCs.
    roots: BTreeMap<WalPosition, u32>,
    /// The header CRC that the next commit must name; `None` after damage.
    chain: Option<u32>,
    /// Where the next block of a partition should begin.
    next_offsets: BTreeMap<TopicPartition, i64>,
    /// Damaged objects, with the places of their damages in the report.
    damaged: BTreeMap<WalPosition, String>,
    /// Where a partition had its newest block.
    seen: BTreeMap<TopicPartition, WalPosition>,
}

/// Where the walk begins.
pub(super) struct WalStart<'a> {
    pub(super) claimed: &'a BTreeSet<u64>,
    /// The checkpoints that can be read, the oldest first.
    pub(super) roots: &'a [CheckpointRoot],
    /// The oldest checkpoint that is kept.
    pub(super) oldest: Option<WalPosition>,
    /// Of the newest checkpoint that can be loaded.
    pub(super) state: ShardState,
}

/// What is at a place.
enum Front {
    Commit(Box<CommitObject>),
    Fence,
    Damaged(String),
}

impl WalSurvey {
    pub(super) async fn make(walker: Walker, scope: &Scope, start: WalStart<'_>) -> Result<Self, OpenError> {
        let WalStart { claimed, roots, oldest, state } = start;
        let chain = roots.first().filter(|root| Some(root.position) == oldest).map(|root| root.header_crc);
        let mut survey = Self {
            walker,
            commits: Vec::new(),
            void: BTreeSet::new(),
            epochs: BTreeSet::new(),
            report: VerifyReport::default(),
            ends: roots.iter().flat_map(|root| root.epoch_ends.iter().copied()).collect(),
            roots: roots.iter().map(|root| (root.position, root.header_crc)).collect(),
            // A first commit has none before it, and names 0.
            chain: if oldest.is_none() { Some(0) } else { chain },
            next_offsets: BTreeMap::new(),
            damaged: BTreeMap::new(),
            seen: BTreeMap::new(),
            state,
        };
        let listed = survey.walker.list(&survey.walker.keys.wal_prefix()).await?;
        let mut places: BTreeSet<_> = listed.iter().filter_map(|key| wal_position(key)).collect();
        if let Scope::Backup(backup) = scope {
            places.retain(|place| *place <= backup.end);
        }
        survey.epochs = places.iter().map(|place| place.writer_epoch).collect();
        let first_epoch = oldest.map_or(0, |oldest| oldest.writer_epoch);
        let epochs: BTreeSet<_> =
            survey.epochs.union(claimed).copied().filter(|epoch| *epoch >= first_epoch).collect();
        survey.read_ends(&places, &epochs).await?;
        for writer_epoch in epochs {
            let first = oldest
                .filter(|oldest| oldest.writer_epoch == writer_epoch)
                .map_or(0, |oldest| oldest.seq + 1);
            survey.walk_epoch(writer_epoch, first, &places).await?;
        }
        Ok(survey)
    }

    /// Where the open records say that epochs before theirs ended.
    async fn read_ends(
        &mut self,
        places: &BTreeSet<WalPosition>,
        epochs: &BTreeSet<u64>,
    ) -> Result<(), OpenError> {
        for writer_epoch in epochs {
            let position = WalPosition { writer_epoch: *writer_epoch, seq: 0 };
            if !places.contains(&position) {
                continue;
            }
            let Some(Front::Commit(commit)) = read_front(&self.walker, position).await? else { continue };
            for event in &commit.events {
                if let Event::Opened(opened) = event {
                    self.ends.extend(opened.closed_epochs.iter().map(|end| (end.writer_epoch, end.end_seq)));
                }
            }
        }
        Ok(())
    }

    async fn walk_epoch(
        &mut self,
        writer_epoch: u64,
        first: u64,
        places: &BTreeSet<WalPosition>,
    ) -> Result<(), OpenError> {
        let from = WalPosition { writer_epoch, seq: first };
        let through = WalPosition { writer_epoch, seq: u64::MAX };
        let mut fronts = self.read_fronts(places.range(from..=through).copied().collect()).await?;
        let durable = fronts.values().filter_map(|front| match front {
            Front::Commit(commit) => u64::try_from(commit.header.durable_seq).ok(),
            Front::Fence | Front::Damaged(_) => None,
        });
        let end = self.ends.get(&writer_epoch).copied();
        let checkpoints =
            self.roots.keys().filter(|root| root.writer_epoch == writer_epoch).map(|root| root.seq);
        let proven = durable.chain(end.and_then(|end| end.checked_sub(1))).chain(checkpoints).max();
        let mut seq = first;
        loop {
            let position = WalPosition { writer_epoch, seq };
            let front = fronts.remove(&position);
            if end == Some(seq) && !matches!(front, Some(Front::Commit(_))) {
                // Whether the fence itself is whole, the survey checks.
                break;
            }
            match front {
                Some(Front::Commit(commit)) => self.take(*commit),
                Some(Front::Fence) => break,
                Some(Front::Damaged(what)) => self.note_damaged(position, DamagedPart::Front, what),
                // It may have come after the listing.
                None if proven.is_some_and(|proven| seq <= proven) => {
                    match read_front(&self.walker, position).await? {
                        Some(Front::Commit(commit)) => self.take(*commit),
                        Some(Front::Fence) => break,
                        Some(Front::Damaged(what)) => self.note_damaged(position, DamagedPart::Front, what),
                        None => self.note_missing(position),
                    }
                }
                None => break,
            }
            seq += 1;
        }
        self.void.extend(fronts.into_keys());
        Ok(())
    }

    async fn read_fronts(&self, places: Vec<WalPosition>) -> Result<BTreeMap<WalPosition, Front>, OpenError> {
        let walker = &self.walker;
        let mut reads = stream::iter(places)
            .map(|position| async move { (position, read_front(walker, position).await) })
            .buffered(READS_MAX);
        let mut fronts = BTreeMap::new();
        while let Some((position, front)) = reads.next().await {
            if let Some(front) = front? {
                fronts.insert(position, front);
            }
        }
        Ok(fronts)
    }

    fn note_missing(&mut self, position: WalPosition) {
        let what = "the object is missing although its contents were acknowledged".to_owned();
        self.note_damaged(position, DamagedPart::Missing, what);
    }

    fn note_damaged(&mut self, position: WalPosition, part: DamagedPart, what: String) {
        let key = self.walker.keys.wal(position);
        let what = format!("{what}; its offsets are not known beyond what the objects beside it say");
        self.report.damages.push(Damage { part, ..small_damage(&key, ObjectKind::Wal, what) });
        self.damaged.insert(position, key);
        self.chain = None;
    }

    /// Checks a commit against the ones before and replays it.
    fn take(&mut self, commit: CommitObject) {
        let position = commit.header.position;
        let key = self.walker.keys.wal(position);
        if self.chain.is_some_and(|crc| crc != commit.header.previous_header_crc) {
            let what = "it does not follow the object before it".to_owned();
            self.report.damages.push(small_damage(&key, ObjectKind::Wal, what));
        }
        if self.roots.get(&position).is_some_and(|crc| *crc != commit.header_crc) {
            let what = "it is another commit than the one that a checkpoint is the state after".to_owned();
            self.report.damages.push(small_damage(&key, ObjectKind::Wal, what));
        }
        self.chain = Some(commit.header_crc);
        self.note_offsets(&commit);
        if self.state.position.is_none_or(|newest| position > newest) {
            self.replay(&key, &commit);
        }
        self.report.count(ObjectKind::Wal, 0);
        self.commits.push(CommitObject { events: Vec::new(), ..commit });
    }

    fn replay(&mut self, key: &str, commit: &CommitObject) {
        let mut state = self.state.clone();
        let applied = state.apply(&Commit {
            header: &commit.header,
            header_crc: commit.header_crc,
            object_length: commit.object_length,
            events: &commit.events,
            blocks: &commit.blocks,
        });
        match applied {
            Ok(()) => self.state = state,
            // What is damaged before it is the reason, and is named already.
            Err(_) if !self.damaged.is_empty() => {}
            Err(reason) => {
                let what = format!("it contradicts the objects before it: {reason}");
                self.report.damages.push(small_damage(key, ObjectKind::Wal, what));
            }
        }
    }

    /// Offsets that a partition misses between its blocks were in the damaged objects in between.
    fn note_offsets(&mut self, commit: &CommitObject) {
        let position = commit.header.position;
        for block in &commit.blocks {
            let id = block.topic_partition;
            let before = self.next_offsets.insert(id, block.next_offset);
            let seen = self.seen.insert(id, position);
            let known = self.state.partitions.get(&id).map(|partition| partition.next_offset);
            let expected = before.or(known.filter(|_| self.is_replaying(position)));
            let Some(expected) = expected.filter(|expected| *expected < block.base_offset) else { continue };
            let between = self.damaged.iter().filter(|(damaged, _)| seen.is_none_or(|seen| **damaged > seen));
            let lost = range(&self.state, id, expected..block.base_offset);
            let damages = between.map(|(_, key)| Damage {
                part: DamagedPart::Lost,
                range: Some(lost.clone()),
                ..small_damage(key, ObjectKind::Wal, "it held these offsets".to_owned())
            });
            self.report.damages.extend(damages);
        }
    }

    /// Whether the state is the one right before a commit.
    fn is_replaying(&self, position: WalPosition) -> bool {
        self.state.position.is_none_or(|newest| position > newest)
    }
}

async fn read_front(walker: &Walker, position: WalPosition) -> Result<Option<Front>, OpenError> {
    match walker.try_read(position).await {
        Ok(Some(WalObject::Commit(commit))) => Ok(Some(Front::Commit(Box::new(commit)))),
        Ok(Some(WalObject::Fence(_))) => Ok(Some(Front::Fence)),
        Ok(None) => Ok(None),
        Err(error @ OpenError::Store { .. }) => Err(error),
        Err(error) => Ok(Some(Front::Damaged(reason_of(error)))),
    }
}

/// Offsets of a partition, with the name of its topic.
pub(in crate::log) fn range(
    state: &ShardState,
    topic_partition: TopicPartition,
    offsets: Range<i64>,
) -> DamagedRange {
    DamagedRange {
        topic: state.topics.get(&topic_partition.topic_id).map(|topic| topic.name.clone()),
        topic_partition,
        base_offset: offsets.start,
        next_offset: offsets.end,
    }
}
