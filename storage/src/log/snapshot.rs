//! One consistent state of the log: each shard after some whole WAL object.
//!
//! Invariant: nothing in a snapshot changes. A record acked before the snapshot was taken is in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use imbl::OrdMap;

use super::error::FetchError;
use super::pinned::PinnedState;
use super::placement::place_of;
use super::reader::BlockReader;
use super::relocate::Refresher;
use super::shard::Shard;
use super::shared::Shared;
use super::state::{
    AbortedRange, Block, CommittedOffset, GroupState, InstalledSlice, PartitionState, Schema, ShardState,
    Topic,
};
use crate::format::TransactionalId;
use crate::ids::{ShardId, TopicId, TopicPartition, WalPosition};

#[derive(Clone, Debug)]
pub struct Snapshot {
    /// By shard; at least one.
    shards: Vec<ShardSnapshot>,
}

#[derive(Clone, Debug)]
struct ShardSnapshot {
    state: Arc<PinnedState>,
    shared: Arc<Shared>,
}

impl Snapshot {
    /// Shard 0 comes last: of a topic that is deleted meanwhile, all partitions are here or the topic
    /// is not.
    pub(super) fn new(shards: &[Shard]) -> Self {
        let of =
            |shard: &Shard| ShardSnapshot { state: shard.shared.durable(), shared: shard.shared.clone() };
        let mut shards: Vec<_> = shards.iter().rev().map(of).collect();
        shards.reverse();
        Self { shards }
    }

    /// The state that decides which topics there are.
    fn first(&self) -> &ShardState {
        &self.shards[0].state
    }

    /// All topics, by name.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        let state = self.first();
        state.topic_ids.values().filter_map(|id| state.topics.get(id))
    }

    pub fn topic(&self, name: &str) -> Option<&Arc<Topic>> {
        self.first().topic(name)
    }

    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<Topic>> {
        self.first().topics.get(&id)
    }

    pub fn partition(&self, topic_partition: TopicPartition) -> Option<PartitionView> {
        let topic = self.topic_by_id(topic_partition.topic_id)?;
        let shard = self.shards.get(topic.shards.shard_of(topic_partition.partition).0 as usize)?;
        // A shard that does not know it yet is just being told of it: nothing can be in it.
        let new = || topic.has_partition(topic_partition.partition).then(Arc::default);
        let state = shard.state.partitions.get(&topic_partition).cloned().or_else(new)?;
        Some(PartitionView {
            topic_partition,
            state,
            reader: shard.shared.reader.clone(),
            refresher: shard.shared.refresher.clone(),
            decompressed_bytes_max: shard.shared.settings.decompressed_bytes_max,
            _pin: shard.state.clone(),
        })
    }

    pub fn committed_offset(&self, group: &str, topic_partition: TopicPartition) -> Option<&CommittedOffset> {
        self.offsets_of(group)?.get(&topic_partition)
    }

    /// Groups that committed an offset, by name.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        let names = self.shards.iter().flat_map(|shard| shard.state.groups.keys());
        names.map(String::as_str).collect::<BTreeSet<_>>().into_iter()
    }

    pub fn group_offsets(&self, group: &str) -> impl Iterator<Item = (TopicPartition, &CommittedOffset)> {
        let offsets = self.offsets_of(group).into_iter().flat_map(|offsets| offsets.iter());
        offsets.map(|(partition, offset)| (*partition, offset))
    }

    fn offsets_of(&self, group: &str) -> Option<&OrdMap<TopicPartition, CommittedOffset>> {
        self.group_shard(group).groups.get(group)
    }

    /// The shard of a group.
    fn group_shard(&self, group: &str) -> &ShardState {
        let knows = |shard: usize| self.shards[shard].state.knows_group(group);
        &self.shards[place_of(group, self.shards.len(), knows)].state
    }

    /// What is known of a group apart from its offsets.
    pub fn group(&self, group: &str) -> Option<&Arc<GroupState>> {
        self.group_shard(group).group_states.get(group)
    }

    /// The epoch of the writer of the group's shard.
    pub fn group_writer_epoch(&self, group: &str) -> u64 {
        self.group_shard(group).position.map_or(0, |position| position.writer_epoch)
    }

    /// Groups with members, or that had some, by name.
    pub fn group_states(&self) -> impl Iterator<Item = (&str, &Arc<GroupState>)> {
        let states = self.shards.iter().flat_map(|shard| shard.state.group_states.iter());
        states.map(|(group, state)| (group.as_str(), state)).collect::<BTreeMap<_, _>>().into_iter()
    }

    /// About how many groups there are: those with offsets, or those with members, whichever are more.
    pub fn group_count(&self) -> usize {
        let count = |shard: &ShardSnapshot| shard.state.groups.len().max(shard.state.group_states.len());
        self.shards.iter().map(count).sum()
    }

    /// Whether something of a group was not needed since a time.
    pub fn has_expired(&self, group: &str, since_ms: i64) -> bool {
        let state = self.group_shard(group);
        let expired = state.expired_offsets(group, since_ms).len();
        expired > 0 || state.is_group_expired(group, expired, since_ms)
    }

    pub fn transactional_id(&self, name: &str) -> Option<&Arc<TransactionalId>> {
        let knows = |shard: usize| self.shards[shard].state.transactional_ids.get(name).is_some();
        let shard = place_of(name, self.shards.len(), knows);
        self.shards[shard].state.transactional_ids.get(name)
    }

    /// All transactional ids, by name.
    pub fn transactional_ids(&self) -> impl Iterator<Item = &Arc<TransactionalId>> {
        let mut ids: Vec<_> =
            self.shards.iter().flat_map(|shard| shard.state.transactional_ids.iter()).collect();
        ids.sort_by(|a, b| a.name.cmp(&b.name));
        ids.into_iter()
    }

    /// Whether an open transaction will commit an offset of the group in the partition, if it is
    /// committed.
    pub fn has_pending_offset(&self, group: &str, topic_partition: TopicPartition) -> bool {
        let pending = |shard: &ShardSnapshot| {
            shard.state.transactional_ids.pending_offset(group, topic_partition).is_some()
        };
        self.shards.iter().any(pending)
    }

    pub fn schema(&self, topic_id: TopicId, kind: &str) -> Option<&Schema> {
        self.first().schemas.get(&(topic_id, kind.to_owned()))
    }

    /// Objects and bytes of the WAL up to here.
    pub fn wal_size(&self) -> (u64, u64) {
        let states = self.shards.iter().map(|shard| &shard.state);
        states.fold((0, 0), |(objects, bytes), state| (objects + state.wal_objects, bytes + state.wal_bytes))
    }

    /// What an operator looks at first, per shard.
    pub fn shard_stats(&self) -> Vec<ShardStats> {
        self.shards.iter().map(ShardSnapshot::stats).collect()
    }
}

impl ShardSnapshot {
    fn stats(&self) -> ShardStats {
        let state = &self.state;
        let (live, garbage) = (&state.segments.live, &state.segments.garbage);
        let (checkpoint, checkpoint_at_ms) = self.shared.checkpoint().unzip();
        ShardStats {
            shard: self.shared.shard,
            position: state.position,
            wal_objects: state.wal_objects,
            wal_bytes: state.wal_bytes,
            tail_bytes: state.tail_bytes,
            wal_objects_since_compaction: state.wal_objects.saturating_sub(state.compacted_wal_objects),
            segments: live.len() as u64,
            segment_bytes: live.values().map(|segment| segment.length).sum(),
            live_bytes: live.values().map(|segment| segment.live_bytes).sum(),
            garbage_segments: garbage.len() as u64,
            garbage_bytes: garbage.values().map(|garbage| garbage.length).sum(),
            checkpoint,
            checkpoint_at_ms,
        }
    }
}

/// The sizes of one shard at one snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardStats {
    pub shard: ShardId,
    /// The newest WAL object.
    pub position: Option<WalPosition>,
    /// Written since the shard began, deleted ones included.
    pub wal_objects: u64,
    pub wal_bytes: u64,
    /// Bytes of batches that are in no segment yet.
    pub tail_bytes: u64,
    pub wal_objects_since_compaction: u64,
    pub segments: u64,
    pub segment_bytes: u64,
    /// Bytes of the segments that slices refer to.
    pub live_bytes: u64,
    /// Segments that nothing refers to, and that are not deleted yet.
    pub garbage_segments: u64,
    pub garbage_bytes: u64,
    /// The newest checkpoint that this process knows of.
    pub checkpoint: Option<WalPosition>,
    pub checkpoint_at_ms: Option<i64>,
}

/// Which records a reader sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// All that is durable.
    ReadUncommitted,
    /// No record of a transaction that is open or was aborted.
    ReadCommitted,
}

/// The bounds of a partition. Offsets from `log_start_offset` (inclusive) to `high_watermark`
/// (exclusive) can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub log_start_offset: i64,
    /// The first offset of the first open transaction, else the high watermark.
    pub last_stable_offset: i64,
    /// The end of the durable prefix, exclusive.
    pub high_watermark: i64,
    /// In a snapshot the same as the high watermark: what is not durable is in none.
    pub log_end_offset: i64,
    pub leader_epoch: i32,
}

impl Bounds {
    /// The first offset that a reader may not see.
    pub fn end(&self, isolation: Isolation) -> i64 {
        match isolation {
            Isolation::ReadUncommitted => self.high_watermark,
            Isolation::ReadCommitted => self.last_stable_offset,
        }
    }
}

/// An idempotent producer in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveProducer {
    pub producer_id: i64,
    pub producer_epoch: i16,
    /// Of its newest batch in this epoch; -1 if there is none.
    pub last_sequence: i32,
    /// When its newest batch or marker was appended.
    pub updated_at_ms: i64,
    /// Of its newest transaction marker; -1 before the first.
    pub coordinator_epoch: i32,
    /// The first offset of its open transaction.
    pub transaction_start: Option<i64>,
}

/// A run of blocks of a partition: those of one slice, or the tail.
#[derive(Clone, Debug)]
pub(super) enum BlockList {
    Slice(Arc<[Block]>),
    Tail,
}

/// One partition in one snapshot.
#[derive(Clone, Debug)]
pub struct PartitionView {
    pub(super) topic_partition: TopicPartition,
    pub(super) state: Arc<PartitionState>,
    pub(super) reader: Arc<BlockReader>,
    pub(super) refresher: Option<Arc<Refresher>>,
    pub(super) decompressed_bytes_max: usize,
    /// Keeps what the view refers to in the store.
    _pin: Arc<PinnedState>,
}

impl PartitionView {
    pub fn topic_partition(&self) -> TopicPartition {
        self.topic_partition
    }

    pub fn bounds(&self) -> Bounds {
        let end = self.state.next_offset;
        Bounds {
            log_start_offset: self.state.log_start_offset,
            last_stable_offset: self.state.last_stable_offset(),
            high_watermark: end,
            log_end_offset: end,
            leader_epoch: self.state.leader_epoch,
        }
    }

    /// The newest leader epoch that is not above the one asked for, and the offset at which it ends
    /// (exclusive); `None` if there is no such epoch (KIP-101).
    pub fn epoch_end_offset(&self, leader_epoch: i32) -> Option<(i32, i64)> {
        let current = self.state.leader_epoch;
        (leader_epoch >= current).then_some((current, self.state.next_offset))
    }

    /// What the batches of one read may decompress to.
    pub fn decompressed_bytes_max(&self) -> usize {
        self.decompressed_bytes_max
    }

    /// Bytes of all batches.
    pub fn size_bytes(&self) -> u64 {
        self.state.size_bytes
    }

    /// Records of users, those below the log start that share a block with later ones included.
    pub fn record_count(&self) -> u64 {
        let slices = self.state.slices.iter().map(|slice| slice.slice.data_count);
        let tail = self.state.blocks.iter().map(|block| u64::from(block.data_count));
        slices.chain(tail).sum()
    }

    /// What was compacted, in ascending order of offsets: all of it comes before the tail.
    pub fn slices(&self) -> impl DoubleEndedIterator<Item = &InstalledSlice> + ExactSizeIterator {
        self.state.slices.iter()
    }

    pub fn slice(&self, index: usize) -> Option<&InstalledSlice> {
        self.state.slices.get(index)
    }

    /// The index of the first slice that ends after an offset; the number of slices if none does.
    pub fn slice_index_at(&self, offset: i64) -> usize {
        self.state.first_slice_where(|slice| slice.slice.next_offset > offset)
    }

    /// The blocks of a slice in ascending order of offsets, from the cache or the segment's footer.
    /// None for a slice whose loss was accepted. Where objects may move ([`Self::may_move`]), they may
    /// be others than the slice had, with the same records.
    ///
    /// # Errors
    /// A footer that cannot be read or is damaged, and a slice that is lost.
    pub async fn slice_blocks(&self, slice: &InstalledSlice) -> Result<Arc<[Block]>, FetchError> {
        self.find_slice_blocks(&slice.slice).await
    }

    /// Whether another process may compact what the view refers to, and delete it: records are then
    /// read from where they are by now.
    pub fn may_move(&self) -> bool {
        self.refresher.is_some()
    }

    /// The key of the object that holds a slice, or held it.
    pub fn slice_object(&self, slice: &InstalledSlice) -> String {
        self.reader.slice_object(&slice.slice)
    }

    /// The aborted transactions that have a record in the offsets `from..end`, each with the offset of
    /// its marker.
    pub fn aborted_ranges(&self, from: i64, end: i64) -> Vec<AbortedRange> {
        let overlapping = self.state.aborted_from(from).filter(|range| range.first_offset < end);
        overlapping.copied().collect()
    }

    /// The blocks that are not compacted yet, in ascending order of offsets.
    pub fn tail(&self) -> impl DoubleEndedIterator<Item = &Block> + ExactSizeIterator {
        self.state.blocks.iter()
    }

    pub fn tail_block(&self, index: usize) -> Option<&Block> {
        self.state.blocks.get(index)
    }

    /// The index of the first block of the tail that ends after an offset; the number of blocks if
    /// none does.
    pub fn tail_index_at(&self, offset: i64) -> usize {
        self.state.first_block_where(|block| block.next_offset > offset)
    }

    /// A block of a list, by its index.
    pub(super) fn block_of(&self, list: &BlockList, index: usize) -> Option<Block> {
        match list {
            BlockList::Slice(blocks) => blocks.get(index).copied(),
            BlockList::Tail => self.state.blocks.get(index).copied(),
        }
    }

    /// Bytes of the slices and blocks that hold the offsets `from..end`, counted no further than
    /// `bytes_max`: at least what a fetch of them returns.
    pub fn bytes_between(&self, from: i64, end: i64, bytes_max: usize) -> usize {
        let limit = bytes_max.max(1) as u64;
        let mut bytes = 0;
        let slices = self.state.slices.focus().narrow(self.slice_index_at(from)..);
        for slice in slices.into_iter().take_while(|slice| slice.slice.base_offset < end) {
            bytes += slice.slice.data_length();
            if bytes >= limit {
                return usize::try_from(bytes).unwrap_or(usize::MAX);
            }
        }
        let tail = self.state.blocks.focus().narrow(self.tail_index_at(from)..);
        for block in tail.into_iter().take_while(|block| block.base_offset < end) {
            bytes += u64::from(block.length);
            if bytes >= limit {
                break;
            }
        }
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// The idempotent producers that the partition remembers, by their id.
    pub fn producers(&self) -> impl Iterator<Item = ActiveProducer> {
        self.state.producers.iter().map(|(producer_id, state)| ActiveProducer {
            producer_id: *producer_id,
            producer_epoch: state.producer_epoch,
            last_sequence: state.batches.back().map_or(-1, |batch| batch.last_sequence),
            updated_at_ms: state.updated_at_ms,
            coordinator_epoch: state.coordinator_epoch,
            transaction_start: self.state.open_transactions.get(producer_id).copied(),
        })
    }

    /// The bytes of some blocks: whole batches, one after the other.
    pub async fn read_blocks(&self, blocks: &[Block]) -> Result<Vec<Bytes>, FetchError> {
        self.find_blocks(blocks, blocks.len()).await
    }

    /// The error of a block whose batches do not decode.
    pub fn damaged(&self, block: &Block, reason: impl ToString) -> FetchError {
        self.reader.damaged(block, reason.to_string())
    }
}
