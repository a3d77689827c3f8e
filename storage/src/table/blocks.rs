//! The slices and blocks of a topic at one snapshot: what a scan is planned over and reads from.
//!
//! The blocks of the tail are at hand. Those of a slice are in the index of its segment, which is
//! loaded when it is needed; those that planning loaded are kept here.
//!
//! Invariant: a slice whose index may come from another segment when it is loaded again, where another
//! process owns the log, is cut only by an index that is kept here.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::{DataFusionError, Result, plan_datafusion_err};
use futures::StreamExt;
use futures::stream;

use super::error::{ScanError, external};
use super::run::{BlockRun, Coverage, RunSource};
use super::unit::Unit;
use super::visibility::Visibility;
use crate::format::BatchError;
use crate::format::slice::{LossAcceptance, SliceData};
use crate::ids::TopicPartition;
use crate::log::{Block, FetchError, InstalledSlice, PartitionView, Snapshot, Topic};

/// Indexes of slices are loaded this many at a time.
const INDEX_LOADS_MAX: usize = 16;

/// What a statement reads: the state of the log when it began. Put into the session configuration
/// as an extension once per statement, so that all scans of a statement see one state.
#[derive(Clone, Debug)]
pub struct TableSnapshot(pub Snapshot);

/// One partition of the topic, and what of it is rows.
#[derive(Clone, Debug)]
pub(super) struct PartitionBlocks {
    pub(super) partition: i32,
    pub(super) visibility: Visibility,
    view: PartitionView,
}

/// The partitions of a topic that are there at one snapshot, by number.
#[derive(Debug)]
pub(super) struct TopicBlocks {
    pub(super) topic_name: String,
    partitions: Vec<PartitionBlocks>,
    /// What planning loaded.
    indexes: HashMap<SlicePlace, Arc<[Block]>>,
}

/// A slice: positions in [`TopicBlocks`] and in the partition's slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SlicePlace {
    pub(super) slot: u32,
    pub(super) slice: u32,
}

impl TopicBlocks {
    /// # Errors
    /// A topic that the snapshot does not have.
    pub(super) fn resolve(snapshot: &Snapshot, topic: &Topic) -> Result<Self> {
        let topic = snapshot
            .topic_by_id(topic.id)
            .ok_or_else(|| plan_datafusion_err!("topic \"{}\" does not exist any more", topic.name))?;
        let partitions = topic
            .partitions()
            .filter_map(|place: TopicPartition| {
                let view = snapshot.partition(place)?;
                let bounds = view.bounds();
                let aborted = view.aborted_ranges(bounds.log_start_offset, bounds.last_stable_offset);
                let visibility = Visibility::new(&bounds, aborted);
                Some(PartitionBlocks { partition: place.partition, visibility, view })
            })
            .collect();
        Ok(Self { topic_name: topic.name.clone(), partitions, indexes: HashMap::new() })
    }

    /// Every slice as a whole and every block of the tail that has a visible offset, in the order of
    /// partition and offset.
    pub(super) fn candidates(&self) -> Vec<BlockRun> {
        let mut candidates = Vec::new();
        for (slot, partition) in self.partitions.iter().enumerate() {
            let slot = u32::try_from(slot).expect("partitions are numbered by i32");
            let run =
                |source, start, count| BlockRun { slot, source, start, count, coverage: Coverage::Unknown };
            for (index, installed) in partition.view.slices().enumerate() {
                let slice = &installed.slice;
                if has_rows(installed)
                    && partition.visibility.reaches(&(slice.base_offset..slice.next_offset))
                {
                    candidates.push(run(RunSource::Slice(position(index)), 0, block_count(installed)));
                }
            }
            for (index, block) in partition.view.tail().enumerate() {
                let has_rows = block.data_count > 0;
                if has_rows && partition.visibility.reaches(&(block.base_offset..block.next_offset)) {
                    candidates.push(run(RunSource::Tail, position(index), 1));
                }
            }
        }
        candidates
    }

    pub(super) fn partition(&self, slot: u32) -> &PartitionBlocks {
        &self.partitions[slot as usize]
    }

    fn slice(&self, place: SlicePlace) -> &InstalledSlice {
        let slice = self.partition(place.slot).view.slice(place.slice as usize);
        slice.expect("a place is made of a slice that is there")
    }

    /// The slice whose index has to be loaded before the blocks of the run are known.
    pub(super) fn unloaded(&self, run: &BlockRun) -> Option<SlicePlace> {
        let RunSource::Slice(slice) = run.source else { return None };
        let place = SlicePlace { slot: run.slot, slice };
        (!self.indexes.contains_key(&place)).then_some(place)
    }

    /// Whether other blocks than before may hold a slice when its index is loaded.
    pub(super) fn may_move(&self) -> bool {
        self.partitions.first().is_some_and(|partition| partition.view.may_move())
    }

    /// Into how many pieces a run can be cut.
    pub(super) fn pieces_max(&self, run: &BlockRun) -> u32 {
        if self.may_move() && self.unloaded(run).is_some() { 1 } else { run.count }
    }

    /// The run of all blocks of the slice, as its index has them if it is at hand.
    pub(super) fn whole_slice(&self, run: &BlockRun) -> BlockRun {
        let RunSource::Slice(slice) = run.source else { return *run };
        let index = self.indexes.get(&SlicePlace { slot: run.slot, slice });
        index.map_or(*run, |index| BlockRun { start: 0, count: position(index.len()), ..*run })
    }

    /// The run has all blocks of its slice.
    pub(super) fn is_whole_slice(&self, run: &BlockRun) -> bool {
        let RunSource::Slice(slice) = run.source else { return false };
        let place = SlicePlace { slot: run.slot, slice };
        run.start == 0 && run.count == block_count(self.slice(place))
    }

    /// The blocks of a run in ascending order, none if they are not known yet.
    pub(super) fn blocks(&self, run: &BlockRun) -> impl Iterator<Item = &Block> {
        let range = run.start as usize..(run.start + run.count) as usize;
        let (tail, index) = match run.source {
            RunSource::Tail => (range, &[][..]),
            RunSource::Slice(slice) => {
                let index = self.indexes.get(&SlicePlace { slot: run.slot, slice });
                (0..0, index.and_then(|index| index.get(range)).unwrap_or_default())
            }
        };
        let view = &self.partition(run.slot).view;
        tail.filter_map(|index| view.tail_block(index)).chain(index)
    }

    /// What is known of the records of a run: of its blocks, or of the slice that it is a part of.
    pub(super) fn unit(&self, run: &BlockRun) -> Unit {
        if let Some(place) = self.unloaded(run) {
            return Unit::of_slice(&self.slice(place).slice);
        }
        let units = self.blocks(run).map(Unit::of_block);
        units.reduce(|all, block| all.and(&block)).expect("a run has a block")
    }

    /// Bytes of the run's blocks: an even share if it is a part of a slice that is not loaded.
    pub(super) fn bytes(&self, run: &BlockRun) -> u64 {
        match self.unloaded(run) {
            Some(place) => self.share(run, self.slice(place).slice.data_length()),
            None => self.blocks(run).map(|block| u64::from(block.length)).sum(),
        }
    }

    /// The part of a figure of the whole slice that falls to the run, if its blocks are all alike.
    pub(super) fn share(&self, run: &BlockRun, of_slice: u64) -> u64 {
        let RunSource::Slice(slice) = run.source else { return of_slice };
        let blocks = block_count(self.slice(SlicePlace { slot: run.slot, slice }));
        of_slice / u64::from(blocks) * u64::from(run.count)
    }

    /// Every record of a user in the run is a row. Nothing is promised of a slice that is lost.
    pub(super) fn is_whole(&self, run: &BlockRun, unit: &Unit) -> bool {
        let is_lost = self.unloaded(run).is_some_and(|place| self.slice(place).slice.location().is_none());
        !is_lost && self.partition(run.slot).visibility.is_whole(&unit.offsets)
    }

    /// Loads the indexes of slices and keeps them, and says how many. One that fails is left out: the
    /// scan will say why if it gets there.
    pub(super) async fn load_indexes(&mut self, places: &[SlicePlace]) -> usize {
        let blocks = &*self;
        let load = |place: SlicePlace| async move { Some((place, blocks.index(place).await.ok()?)) };
        let loads = stream::iter(places.to_vec()).map(load).buffered(INDEX_LOADS_MAX);
        let loaded: Vec<_> = loads.filter_map(std::future::ready).collect().await;
        let count = loaded.len();
        self.indexes.extend(loaded);
        count
    }

    /// The blocks of a slice, checked against what is known of it.
    pub(super) async fn index(&self, place: SlicePlace) -> Result<Arc<[Block]>> {
        let read = self.partition(place.slot).view.slice_blocks(self.slice(place)).await;
        read.map_err(|error| self.failed(place.slot, error))
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
    /// What one batch may decompress to.
    pub(super) fn decompressed_bytes_max(&self) -> usize {
        self.view.decompressed_bytes_max()
    }
}

/// Readers skip a slice whose loss was accepted.
fn has_rows(installed: &InstalledSlice) -> bool {
    let is_given_up =
        matches!(installed.slice.data, SliceData::Lost { acceptance: LossAcceptance::Accepted, .. });
    installed.slice.data_count > 0 && !is_given_up
}

/// Known without the index. A slice that is lost counts as one block.
fn block_count(installed: &InstalledSlice) -> u32 {
    installed.slice.location().map_or(1, |location| location.block_count().max(1))
}

fn position(index: usize) -> u32 {
    u32::try_from(index).expect("a block takes more memory than its number")
}
