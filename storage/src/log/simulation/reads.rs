//! Reading a snapshot whole: every record of every partition, and lookups held against a plain search.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::checker::{Promise, Seen, SeenPartition};
use super::groups::READERS;
use super::operations::{KEPT, LATEST};
use super::records::{committed_ids, first_at_or_after, greatest, ids_of, target_of};
use super::run::World;
use super::transfers::{LEDGER, TRANSFERS};
use crate::ids::TopicPartition;
use crate::log::{FetchError, FetchOptions, FirstBatch, Isolation, PartitionView, Snapshot};

const ANY: Isolation = Isolation::ReadUncommitted;

/// A store that is busy is asked so often.
const TRIES_MAX: u32 = 20;

/// Why a snapshot was not read.
#[derive(Debug)]
pub(super) enum ReadFailure {
    /// The store does not answer: nothing is wrong.
    Unavailable,
    /// Records that the snapshot has were deleted or cleaned since.
    Removed,
    /// Something counts as damaged or missing.
    Damaged(String),
    /// A wrong answer.
    Wrong(String),
}

impl From<FetchError> for ReadFailure {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::Unavailable { .. } => Self::Unavailable,
            FetchError::Removed { .. } => Self::Removed,
            FetchError::Damaged { .. } => Self::Damaged(error.to_string()),
            FetchError::OutOfRange { .. } => Self::Wrong(error.to_string()),
        }
    }
}

impl World {
    /// Reads all that a snapshot holds.
    pub(super) async fn read_snapshot(&self, snapshot: &Snapshot) -> Result<Seen, ReadFailure> {
        let mut seen = Seen::default();
        let topics: Vec<_> = snapshot.topics().cloned().collect();
        for topic in topics {
            seen.topics.insert(topic.id);
            for id in topic.partitions() {
                let view = snapshot.partition(id);
                let view = view.ok_or_else(|| ReadFailure::Wrong("a partition is not there".to_owned()))?;
                let read = self.read_partition(&topic.name, &view).await;
                let mut partition = read.map_err(|failure| unless_kept(&topic.name, failure))?;
                self.check_lookups(&view, &partition.records).await?;
                if topic.name == LEDGER {
                    partition.committed = self.read_committed(&view).await?;
                }
                seen.partitions.insert(id, partition);
            }
        }
        seen.transfers = committed_offset(snapshot, TRANSFERS, LEDGER);
        seen.group_offset = committed_offset(snapshot, READERS, KEPT);
        Ok(seen)
    }

    /// Ids of what is committed.
    async fn read_committed(&self, view: &PartitionView) -> Result<BTreeSet<u64>, ReadFailure> {
        let isolation = Isolation::ReadCommitted;
        let (mut from, end) = (view.bounds().log_start_offset, view.bounds().end(isolation));
        let bytes_max = if self.draw(4) == 0 { 1 + self.draw(2000) as usize } else { usize::MAX };
        let mut ids = BTreeSet::new();
        while from < end {
            let options = FetchOptions { from, bytes_max, isolation, first_batch: FirstBatch::Whole };
            let fetched = self.patiently(|| view.fetch(options)).await?;
            if fetched.next_offset <= from || fetched.next_offset > end {
                let next = fetched.next_offset;
                return Err(ReadFailure::Wrong(format!(
                    "a committed fetch from {from} of {end} goes on at {next}"
                )));
            }
            from = fetched.next_offset;
            ids.extend(committed_ids(&fetched));
        }
        Ok(ids)
    }

    async fn read_partition(&self, topic: &str, view: &PartitionView) -> Result<SeenPartition, ReadFailure> {
        let bounds = view.bounds();
        let (start, end) = (bounds.log_start_offset, bounds.high_watermark);
        let bytes_max = if self.draw(4) == 0 { 1 + self.draw(5000) as usize } else { usize::MAX };
        let first_batch = FirstBatch::Whole;
        let mut records = BTreeMap::new();
        let mut from = start;
        while from < end {
            let options = FetchOptions { from, bytes_max, isolation: ANY, first_batch };
            let fetched = self.patiently(|| view.fetch(options)).await?;
            if fetched.next_offset <= from || fetched.next_offset > end {
                let next = fetched.next_offset;
                return Err(ReadFailure::Wrong(format!("a fetch from {from} of {end} goes on at {next}")));
            }
            from = fetched.next_offset;
            records.extend(fetched.batches.iter().flat_map(ids_of).filter(|(offset, _)| *offset >= start));
        }
        let bounds = Promise { log_start_offset: start, high_watermark: end };
        let (topic, is_cleaned, committed) = (topic.to_owned(), topic == LATEST, BTreeSet::new());
        Ok(SeenPartition { topic, is_cleaned, bounds, records, committed })
    }

    /// Lookups of some times, and of the greatest.
    async fn check_lookups(
        &self,
        view: &PartitionView,
        records: &BTreeMap<i64, u64>,
    ) -> Result<(), ReadFailure> {
        for _ in 0..3 {
            let target = target_of(self.draw(1 << 20));
            let found = self.patiently(|| view.lookup_time(target, ANY)).await?;
            let (found, expected) = (found.map(|found| found.offset), first_at_or_after(records, target));
            if found != expected {
                return Err(ReadFailure::Wrong(format!(
                    "the first record at or after {target} is at {expected:?}, {found:?} was found"
                )));
            }
        }
        let found = self.patiently(|| view.max_timestamp(ANY)).await?;
        let (found, expected) = (found.map(|found| found.offset), greatest(records));
        if found != expected {
            return Err(ReadFailure::Wrong(format!(
                "the record with the greatest time is at {expected:?}, {found:?} was found"
            )));
        }
        self.count("lookups");
        Ok(())
    }

    /// Asks again while the store is busy.
    async fn patiently<T, F>(&self, ask: impl Fn() -> F) -> Result<T, ReadFailure>
    where
        F: Future<Output = Result<T, FetchError>>,
    {
        for _ in 0..TRIES_MAX {
            match ask().await {
                Err(FetchError::Unavailable { .. }) => {
                    self.seams.clock.sleep(Duration::from_millis(50)).await;
                }
                answer => return Ok(answer?),
            }
        }
        Err(ReadFailure::Unavailable)
    }
}

/// Nothing is ever removed from the ledger.
fn unless_kept(topic: &str, failure: ReadFailure) -> ReadFailure {
    match failure {
        ReadFailure::Removed if topic == LEDGER => {
            ReadFailure::Wrong("records of the ledger are said to be removed".to_owned())
        }
        failure => failure,
    }
}

/// What a group has committed for the first partition of a topic.
fn committed_offset(snapshot: &Snapshot, group: &str, topic: &str) -> Option<i64> {
    let id = TopicPartition::new(snapshot.topic(topic)?.id, 0);
    Some(snapshot.committed_offset(group, id)?.offset)
}
