//! A run: neighbouring slices and blocks of one partition that are written anew into one slice, or into
//! as few as its topic lets them be.

use crate::format::Slice;
use crate::ids::TopicPartition;
use crate::log::state::{Block, PartitionState};

/// What a run reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Slice(Slice),
    /// A block of a WAL object.
    Block(Block),
}

impl Input {
    fn base_offset(&self) -> i64 {
        match self {
            Self::Slice(slice) => slice.base_offset,
            Self::Block(block) => block.base_offset,
        }
    }

    pub(super) fn next_offset(&self) -> i64 {
        match self {
            Self::Slice(slice) => slice.next_offset,
            Self::Block(block) => block.next_offset,
        }
    }

    pub(super) fn data_length(&self) -> u64 {
        match self {
            Self::Slice(slice) => slice.data_length(),
            Self::Block(block) => u64::from(block.length),
        }
    }
}

/// All slices and blocks of a partition that cover `base_offset..next_offset`.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) topic_partition: TopicPartition,
    pub(super) base_offset: i64,
    pub(super) next_offset: i64,
    /// Records below are not copied, as far as their batches end below.
    pub(super) log_start_offset: i64,
    /// A slice of the result is ended before it is larger, unless one block is.
    pub(super) slice_bytes_max: u64,
    pub(super) inputs: Vec<Input>,
}

impl Run {
    /// The slices `first..end` of a partition.
    pub(super) fn of_slices(
        topic_partition: TopicPartition,
        state: &PartitionState,
        slices: std::ops::Range<usize>,
        slice_bytes_max: u64,
    ) -> Self {
        let slices: Vec<_> = slices.map(|index| state.slices[index].slice.clone()).collect();
        let base_offset = slices.first().map_or(0, |slice| slice.base_offset);
        let next_offset = slices.last().map_or(0, |slice| slice.next_offset);
        Self {
            topic_partition,
            base_offset,
            next_offset,
            log_start_offset: state.log_start_offset,
            slice_bytes_max,
            inputs: slices.into_iter().map(Input::Slice).collect(),
        }
    }

    /// When the tombstones of its slices are due to go.
    pub(super) fn delete_horizon_ms(&self) -> Option<i64> {
        let horizon = |input: &Input| match input {
            Input::Slice(slice) => slice.delete_horizon_ms,
            Input::Block(_) => None,
        };
        self.inputs.iter().filter_map(horizon).max()
    }

    /// Leaves away the inputs that begin at or after an offset.
    pub(super) fn truncate(&mut self, offset: i64) {
        self.inputs.retain(|input| input.base_offset() < offset);
        self.next_offset = self.inputs.last().map_or(self.base_offset, Input::next_offset);
    }

    pub(super) fn data_length(&self) -> u64 {
        self.inputs.iter().map(Input::data_length).sum()
    }

    /// What of the inputs must still be there for the run's result to take their place.
    pub(super) fn live_inputs(&self, log_start_offset: i64) -> impl Iterator<Item = &Input> {
        self.inputs.iter().filter(move |input| input.next_offset() > log_start_offset)
    }

    /// Whether the partition still consists of the inputs where the run was.
    pub(super) fn is_current(&self, state: &PartitionState) -> bool {
        let first = state.first_slice_where(|slice| slice.slice.next_offset > self.base_offset);
        let slices = state.slices.iter().skip(first).map(|slice| &slice.slice);
        let slices = slices.take_while(|slice| slice.base_offset < self.next_offset);
        let blocks = state.blocks.iter().take_while(|block| block.base_offset < self.next_offset);
        let current = slices.cloned().map(Input::Slice).chain(blocks.copied().map(Input::Block));
        self.live_inputs(state.log_start_offset).cloned().map(comparable).eq(current.map(comparable))
    }
}

/// The running maximum of a block depends on those before it, which may have been deleted.
fn comparable(input: Input) -> Input {
    match input {
        Input::Block(block) => Input::Block(Block { running_max_timestamp: -1, ..block }),
        slice @ Input::Slice(_) => slice,
    }
}
