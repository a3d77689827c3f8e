//! The blocks of a topic at one snapshot: what a scan is planned over and reads from.
//!
//! Invariant: nothing below the log start or at and past the last stable offset is a row. A block
//! that reaches over one of these bounds is never taken as a whole.

use std::ops::Range;

use bytes::Bytes;
use datafusion::common::{DataFusionError, Result, plan_datafusion_err};

use super::error::{ScanError, external};
use crate::format::BatchError;
use crate::ids::TopicPartition;
use crate::log::{Block, FetchError, PartitionView, Snapshot, Topic};

/// What a statement reads: the state of the log when it began. Put into the session configuration
/// as an extension once per statement, so that all scans of a statement see one state.
#[derive(Clone, Debug)]
pub struct TableSnapshot(pub Snapshot);

/// One partition of the topic, and the offsets of it that are rows.
#[derive(Clone, Debug)]
pub(super) struct PartitionBlocks {
    pub(super) partition: i32,
    view: PartitionView,
    /// From the log start to the last stable offset, exclusive.
    visible: Range<i64>,
}

/// The partitions of a topic that are there at one snapshot, by number.
#[derive(Debug)]
pub(super) struct TopicBlocks {
    pub(super) topic_name: String,
    partitions: Vec<PartitionBlocks>,
}

/// A block by its place: a position in [`TopicBlocks`] and one in the partition's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockRef {
    pub(super) slot: u32,
    pub(super) block: u32,
    pub(super) coverage: Coverage,
}

/// What is known of the rows of a block before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coverage {
    /// Each has to be looked at.
    Unknown,
    /// All of them are visible and pass the filters that the scan was planned with.
    Full,
}

impl TopicBlocks {
    /// # Errors
    /// A topic that the snapshot does not have.
    pub(super) fn resolve(snapshot: &Snapshot, topic: &Topic) -> Result<Self> {
        let topic = snapshot
            .topic_by_id(topic.id)
            .ok_or_else(|| plan_datafusion_err!("topic \"{}\" does not exist any more", topic.name))?;
        let partitions = (0..topic.partition_count)
            .filter_map(|partition| {
                let view = snapshot.partition(TopicPartition::new(topic.id, partition))?;
                let bounds = view.bounds();
                let visible = bounds.log_start_offset..bounds.last_stable_offset;
                Some(PartitionBlocks { partition, view, visible })
            })
            .collect();
        Ok(Self { topic_name: topic.name.clone(), partitions })
    }

    /// Every block that has a visible offset, in the order of partition and offset.
    pub(super) fn candidates(&self) -> Vec<BlockRef> {
        let mut candidates = Vec::new();
        for (slot, partition) in self.partitions.iter().enumerate() {
            let slot = u32::try_from(slot).expect("partitions are numbered by i32");
            for (index, block) in partition.view.blocks().enumerate() {
                if partition.reaches(block.base_offset..block.next_offset) {
                    let block = u32::try_from(index).expect("a block takes more memory than its number");
                    candidates.push(BlockRef { slot, block, coverage: Coverage::Unknown });
                }
            }
        }
        candidates
    }

    pub(super) fn partition(&self, slot: u32) -> &PartitionBlocks {
        &self.partitions[slot as usize]
    }

    pub(super) fn block(&self, place: BlockRef) -> &Block {
        let block = self.partition(place.slot).view.block(place.block as usize);
        block.expect("a place is made of a block that is there")
    }

    /// Reads blocks of one partition, checked against the index.
    pub(super) async fn read(&self, slot: u32, blocks: &[Block]) -> Result<Vec<Bytes>> {
        let read = self.partition(slot).view.read_blocks(blocks).await;
        read.map_err(|error| self.failed(slot, error))
    }

    /// The error of a block whose records do not decode, although its bytes are as the index says.
    pub(super) fn undecodable(&self, slot: u32, block: &Block, error: &BatchError) -> DataFusionError {
        self.failed(slot, self.partition(slot).view.damaged(block, error))
    }

    fn failed(&self, slot: u32, source: FetchError) -> DataFusionError {
        let (topic, partition) = (self.topic_name.clone(), self.partition(slot).partition);
        external(ScanError::Fetch { topic, partition, source })
    }
}

impl PartitionBlocks {
    /// All records of the block are visible.
    pub(super) fn is_whole(&self, block: &Block) -> bool {
        block.base_offset >= self.visible.start && block.next_offset <= self.visible.end
    }

    /// Some of the offsets may be visible.
    pub(super) fn reaches(&self, offsets: Range<i64>) -> bool {
        offsets.start < self.visible.end && offsets.end > self.visible.start
    }

    pub(super) fn is_visible(&self, offset: i64) -> bool {
        self.visible.contains(&offset)
    }
}
