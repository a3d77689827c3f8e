//! The end of a transaction: its markers in all partitions, and the offsets that it commits, in one
//! commit, so that all of it becomes visible together.
//!
//! Invariant: a marker of a coordinator or of a producer that was replaced by a newer one is refused.
//! As in Kafka, a marker is written also where the producer has no open transaction: a coordinator
//! that got no answer sends it again.
//! Nothing here knows which partitions a transaction has: its coordinator does.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use tokio::sync::oneshot;

use super::assign::Assignment;
use super::change::{answer_when_durable, checked_offsets};
use super::committer::{ChangeJob, ChangeOrder};
use super::error::{CommitOffsetError, EndTransactionError, WriteError};
use super::handle::OffsetCommit;
use super::placement::by_shard;
use super::state::CommittedOffset;
use crate::format::event::TransactionResult;
use crate::format::{
    BatchBuilder, BatchKind, BatchOptions, Compression, PendingOffset, PendingOffsets, ProducerIdentity,
    ReplacedOffset, set_base_offset, set_leader_epoch,
};
use crate::ids::{ShardId, TopicPartition};

/// The version of key and value of a marker (Kafka's `ControlRecordType` and `EndTransactionMarker`).
const MARKER_VERSION: i16 = 0;
/// A control batch has no sequence.
const NO_SEQUENCE: i32 = -1;

/// A transaction to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndTransaction {
    pub producer_id: i64,
    /// One above that of the transaction's batches fences them from now on (KIP-890).
    pub producer_epoch: i16,
    pub coordinator_epoch: i32,
    pub result: TransactionResult,
    pub partitions: Vec<TopicPartition>,
    /// What is committed with the transaction; nothing of it if that is aborted.
    pub offsets: Vec<GroupOffsets>,
}

/// Offsets of one consumer group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupOffsets {
    pub group: String,
    pub offsets: PendingOffsets,
}

/// What became of each part, in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedTransaction {
    /// The offset of each marker.
    pub partitions: Vec<Result<i64, EndTransactionError>>,
    /// Per group, in the order of its partitions; none when the transaction was aborted, or fenced in
    /// any partition.
    pub offsets: Vec<Vec<Result<(), CommitOffsetError>>>,
}

/// What the markers of one transaction have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marker {
    pub(super) producer_id: i64,
    pub(super) producer_epoch: i16,
    pub(super) coordinator_epoch: i32,
    pub(super) result: TransactionResult,
}

impl Marker {
    /// The control batch at an offset.
    pub(super) fn batch(&self, offset: i64, leader_epoch: i32, timestamp: i64) -> Bytes {
        let kind: i16 = match self.result {
            TransactionResult::Abort => 0,
            TransactionResult::Commit => 1,
        };
        let key = [MARKER_VERSION.to_be_bytes(), kind.to_be_bytes()].concat();
        let mut value = MARKER_VERSION.to_be_bytes().to_vec();
        value.extend_from_slice(&self.coordinator_epoch.to_be_bytes());
        let producer = ProducerIdentity {
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            base_sequence: NO_SEQUENCE,
        };
        let options = BatchOptions {
            compression: Compression::None,
            producer: Some(producer),
            kind: BatchKind::Control,
        };
        let mut builder = BatchBuilder::new(options);
        builder
            .append(Some(timestamp), Some(&key), Some(&value), &[])
            .expect("one small record fits a batch");
        let mut batch = BytesMut::from(&builder.finish()[..]);
        set_base_offset(&mut batch, offset);
        set_leader_epoch(&mut batch, leader_epoch);
        batch.freeze()
    }
}

/// What of a transaction is in one shard, with the places of its parts in the request.
#[derive(Debug)]
pub(super) struct TransactionPart {
    pub(super) transaction: EndTransaction,
    pub(super) places: Places,
}

#[derive(Debug, Default)]
pub(super) struct Places {
    partitions: Vec<usize>,
    groups: Vec<usize>,
}

/// The answers of several shards, by their places in the request.
#[derive(Debug, Default)]
pub(super) struct EndedParts {
    partitions: BTreeMap<usize, Result<i64, EndTransactionError>>,
    offsets: BTreeMap<usize, Vec<Result<(), CommitOffsetError>>>,
}

impl EndedParts {
    pub(super) fn add(&mut self, places: Places, ended: EndedTransaction) {
        self.partitions.extend(places.partitions.into_iter().zip(ended.partitions));
        self.offsets.extend(places.groups.into_iter().zip(ended.offsets));
    }

    pub(super) fn into_whole(self) -> EndedTransaction {
        EndedTransaction {
            partitions: self.partitions.into_values().collect(),
            offsets: self.offsets.into_values().collect(),
        }
    }
}

impl EndTransaction {
    /// The parts of a transaction by the shards of its partitions and groups.
    pub(super) fn split(
        self,
        shard_of_partition: impl Fn(TopicPartition) -> ShardId,
        shard_of_group: impl Fn(&str) -> ShardId,
    ) -> BTreeMap<ShardId, TransactionPart> {
        let Self { partitions, offsets, .. } = self;
        let empty = Self { partitions: Vec::new(), offsets: Vec::new(), ..self };
        let new = || TransactionPart { transaction: empty.clone(), places: Places::default() };
        let mut parts = BTreeMap::new();
        for (shard, sorted) in by_shard(partitions.into_iter().enumerate(), |id| shard_of_partition(*id)) {
            let part: &mut TransactionPart = parts.entry(shard).or_insert_with(new);
            (part.places.partitions, part.transaction.partitions) = (sorted.places, sorted.items);
        }
        for (shard, sorted) in
            by_shard(offsets.into_iter().enumerate(), |offsets| shard_of_group(&offsets.group))
        {
            let part = parts.entry(shard).or_insert_with(new);
            (part.places.groups, part.transaction.offsets) = (sorted.places, sorted.items);
        }
        parts
    }

    /// The job for the committer. Markers take offsets of their own, so it may share an object with
    /// batches before it.
    pub(super) fn into_job(self, answer: oneshot::Sender<Result<EndedTransaction, WriteError>>) -> ChangeJob {
        let make = move |assignment: &mut Assignment| {
            let ended = self.assign(assignment);
            answer_when_durable(answer, Ok(ended))
        };
        ChangeJob { order: ChangeOrder::AnyPlace, make: Box::new(make) }
    }

    fn assign(self, assignment: &mut Assignment) -> EndedTransaction {
        let marker = Marker {
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            coordinator_epoch: self.coordinator_epoch,
            result: self.result,
        };
        let append = |id: TopicPartition| assignment.append_marker(id, &marker);
        let partitions: Vec<_> = self.partitions.into_iter().map(append).collect();
        // A partition that is gone keeps nothing back; a newer coordinator or producer does.
        let is_fenced = partitions.iter().any(|ended| {
            matches!(
                ended,
                Err(EndTransactionError::StaleProducerEpoch { .. }
                    | EndTransactionError::StaleCoordinatorEpoch { .. })
            )
        });
        let mut offsets = Vec::new();
        if self.result == TransactionResult::Commit && !is_fenced {
            offsets.extend(self.offsets.into_iter().map(|group| commit_pending(assignment, group)));
        }
        EndedTransaction { partitions, offsets }
    }
}

/// Commits offsets that were pending. What the group committed since they became pending stays; so does
/// what this very end committed, if it comes again.
pub(super) fn commit_pending(
    assignment: &mut Assignment,
    GroupOffsets { group, offsets }: GroupOffsets,
) -> Vec<Result<(), CommitOffsetError>> {
    let committed = assignment.state().groups.get(&group).cloned().unwrap_or_default();
    let is_due = |id: &TopicPartition, pending: &PendingOffset| {
        let replaced = |found: &CommittedOffset| {
            let CommittedOffset { offset, commit_time_ms, .. } = *found;
            pending.replaces == Some(ReplacedOffset { offset, commit_time_ms })
        };
        committed.get(id).is_none_or(replaced)
    };
    let dues: Vec<_> = offsets.iter().map(|(id, pending)| is_due(id, pending)).collect();
    let due = offsets.into_iter().zip(&dues).filter(|(_, is_due)| **is_due);
    let commits = due.map(|((topic_partition, pending), _)| OffsetCommit {
        topic_partition,
        offset: pending.offset,
        leader_epoch: pending.leader_epoch,
        metadata: pending.metadata,
    });
    let commits = commits.collect();
    let (event, results) = checked_offsets(group, commits, assignment.state(), assignment.append_time_ms);
    assignment.push_events(event.into_iter().collect());
    let mut results = results.into_iter();
    let result = |is_due: &bool| if *is_due { results.next() } else { Some(Ok(())) };
    dues.iter().map_while(result).collect()
}
