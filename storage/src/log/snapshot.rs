//! One consistent state of the log: the shard after some whole WAL object.
//!
//! Invariant: nothing in a snapshot changes. A record acked before the snapshot was taken is in it.

use std::sync::Arc;

use bytes::Bytes;

use super::error::FetchError;
use super::reader::BlockReader;
use super::shared::Shared;
use super::state::{Block, CommittedOffset, PartitionState, Schema, ShardState, Topic};
use crate::ids::{TopicId, TopicPartition, WalPosition};

#[derive(Clone, Debug)]
pub struct Snapshot {
    state: Arc<ShardState>,
    shared: Arc<Shared>,
}

impl Snapshot {
    pub(super) fn new(state: Arc<ShardState>, shared: Arc<Shared>) -> Self {
        Self { state, shared }
    }

    /// All topics, by name.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.state.topic_ids.values().filter_map(|id| self.state.topics.get(id))
    }

    pub fn topic(&self, name: &str) -> Option<&Arc<Topic>> {
        self.state.topic(name)
    }

    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<Topic>> {
        self.state.topics.get(&id)
    }

    pub fn partition(&self, topic_partition: TopicPartition) -> Option<PartitionView> {
        let state = self.state.partitions.get(&topic_partition)?.clone();
        let (reader, settings) = (self.shared.reader.clone(), &self.shared.settings);
        Some(PartitionView {
            topic_partition,
            state,
            reader,
            decompressed_bytes_max: settings.decompressed_bytes_max,
        })
    }

    pub fn committed_offset(&self, group: &str, topic_partition: TopicPartition) -> Option<&CommittedOffset> {
        self.state.groups.get(group)?.get(&topic_partition)
    }

    /// Groups that committed an offset, by name.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.state.groups.keys().map(String::as_str)
    }

    pub fn group_offsets(&self, group: &str) -> impl Iterator<Item = (TopicPartition, &CommittedOffset)> {
        let offsets = self.state.groups.get(group).into_iter().flat_map(|offsets| offsets.iter());
        offsets.map(|(partition, offset)| (*partition, offset))
    }

    pub fn schema(&self, topic_id: TopicId, kind: &str) -> Option<&Schema> {
        self.state.schemas.get(&(topic_id, kind.to_owned()))
    }

    /// The newest WAL object of this state; `None` in a log that was never written.
    pub fn wal_position(&self) -> Option<WalPosition> {
        self.state.position
    }

    /// Objects and bytes of the WAL up to here.
    pub fn wal_size(&self) -> (u64, u64) {
        (self.state.wal_objects, self.state.wal_bytes)
    }
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

/// One partition in one snapshot.
#[derive(Clone, Debug)]
pub struct PartitionView {
    pub(super) topic_partition: TopicPartition,
    pub(super) state: Arc<PartitionState>,
    pub(super) reader: Arc<BlockReader>,
    pub(super) decompressed_bytes_max: usize,
}

impl PartitionView {
    pub fn topic_partition(&self) -> TopicPartition {
        self.topic_partition
    }

    pub fn bounds(&self) -> Bounds {
        let end = self.state.next_offset;
        Bounds {
            log_start_offset: self.state.log_start_offset,
            last_stable_offset: end,
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

    /// Bytes of all batches.
    pub fn size_bytes(&self) -> u64 {
        self.state.size_bytes
    }

    pub fn block_count(&self) -> usize {
        self.state.blocks.len()
    }

    /// The blocks in ascending order of offsets.
    pub fn blocks(&self) -> impl DoubleEndedIterator<Item = &Block> + ExactSizeIterator {
        self.state.blocks.iter()
    }

    pub fn block(&self, index: usize) -> Option<&Block> {
        self.state.blocks.get(index)
    }

    /// The index of the first block that ends after an offset; the number of blocks if none does.
    pub fn block_index_at(&self, offset: i64) -> usize {
        self.state.first_block_where(|block| block.next_offset > offset)
    }

    /// Whether a block is in memory without the cache.
    pub fn in_memory(&self, block: &Block) -> bool {
        self.reader.in_tail(block)
    }

    /// The bytes of some blocks: whole batches, one after the other.
    pub async fn read_blocks(&self, blocks: &[Block]) -> Result<Vec<Bytes>, FetchError> {
        self.reader.read(blocks).await
    }

    /// The error of a block whose batches do not decode.
    pub fn damaged(&self, block: &Block, reason: impl ToString) -> FetchError {
        self.reader.damaged(block, reason.to_string())
    }
}
