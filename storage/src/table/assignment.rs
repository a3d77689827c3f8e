//! Which output partition of a scan reads which blocks, and in which order. Pure.
//!
//! Invariant: every block is in exactly one output partition.
//! Invariant: as long as a topic has few partitions, an output partition reads blocks of one of them
//! only, in offset order, so that an order by offset costs nothing.

use std::cmp::Reverse;
use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;

use super::blocks::{BlockRef, TopicBlocks};

/// Above this many partitions with data, several share an output partition.
const OUTPUT_PARTITIONS_MAX: usize = 64;

/// Blocks by output partition, in the order in which they are read.
#[derive(Clone, Debug)]
pub(super) struct Assignment {
    pub(super) outputs: Vec<Arc<[BlockRef]>>,
}

/// The partition of the topic that blocks belong to, or none or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Nothing,
    Partition(u32),
    Mixed,
}

/// The order in which blocks of a partition are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Ascending,
    Descending,
}

impl Assignment {
    /// Spreads `blocks`, which are in the order of partition and offset, by their bytes.
    ///
    /// There are at least `target` output partitions as soon as there is a block, if need be empty
    /// ones: with fewer, the query engine would deal rows out again and lose their order.
    pub(super) fn spread(blocks: &[BlockRef], target: usize, bytes_of: impl Fn(BlockRef) -> u64) -> Self {
        if blocks.is_empty() {
            return Self { outputs: vec![Arc::from([])] };
        }
        let runs: Vec<Run<'_>> = blocks
            .chunk_by(|a, b| a.slot == b.slot)
            .map(|blocks| Run { blocks, bytes: blocks.iter().map(|block| bytes_of(*block)).sum(), pieces: 1 })
            .collect();
        let mut outputs = if runs.len() > target.max(OUTPUT_PARTITIONS_MAX) {
            group(runs, target.max(OUTPUT_PARTITIONS_MAX))
        } else {
            split(runs, target, bytes_of)
        };
        if outputs.len() < target {
            outputs.resize(target, Arc::from([]));
        }
        Self { outputs }
    }

    pub(super) fn origins(&self) -> impl Iterator<Item = Origin> {
        self.outputs.iter().map(|blocks| match blocks.first() {
            None => Origin::Nothing,
            Some(first) if blocks.iter().all(|block| block.slot == first.slot) => {
                Origin::Partition(first.slot)
            }
            Some(_) => Origin::Mixed,
        })
    }

    /// Sorts each output partition by partition and offset, each in its direction.
    pub(super) fn sorted(&self, partitions: Direction, offsets: Direction) -> Self {
        let sort = |blocks: &Arc<[BlockRef]>| {
            let mut blocks = blocks.to_vec();
            blocks.sort_unstable_by(|a, b| {
                let slots = partitions.apply(a.slot.cmp(&b.slot));
                slots.then(offsets.apply(a.block.cmp(&b.block)))
            });
            blocks.into()
        };
        Self { outputs: self.outputs.iter().map(sort).collect() }
    }

    /// Sorts each output partition by a key of the block.
    pub(super) fn sorted_by_key<K: Ord>(&self, key: impl Fn(BlockRef) -> K) -> Self {
        let sort = |blocks: &Arc<[BlockRef]>| {
            let mut blocks = blocks.to_vec();
            blocks.sort_by_cached_key(|block| key(*block));
            blocks.into()
        };
        Self { outputs: self.outputs.iter().map(sort).collect() }
    }

    /// Puts the pieces of each partition together again, in one output partition of as many as
    /// before: whoever wants the first few rows in order should not read the head of every piece.
    pub(super) fn joined(&self, offsets: Direction) -> Self {
        let mut outputs: Vec<Vec<BlockRef>> = vec![Vec::new(); self.outputs.len()];
        for blocks in &self.outputs {
            let Some(first) = blocks.first() else { continue };
            let home = outputs
                .iter()
                .position(|other| other.first().is_none_or(|other| other.slot == first.slot))
                .expect("each piece needs at most one output partition");
            outputs[home].extend_from_slice(blocks);
        }
        Self { outputs: outputs.into_iter().map(Arc::from).collect() }.sorted(offsets, offsets)
    }
}

impl Direction {
    fn apply(self, ordering: std::cmp::Ordering) -> std::cmp::Ordering {
        match self {
            Self::Ascending => ordering,
            Self::Descending => ordering.reverse(),
        }
    }
}

impl From<SortOptions> for Direction {
    fn from(options: SortOptions) -> Self {
        if options.descending { Self::Descending } else { Self::Ascending }
    }
}

/// The blocks of one partition of the topic.
struct Run<'a> {
    blocks: &'a [BlockRef],
    bytes: u64,
    pieces: usize,
}

/// Gives each partition an output partition of its own, and cuts the greatest ones into pieces until
/// there are `target`.
fn split(mut runs: Vec<Run<'_>>, target: usize, bytes_of: impl Fn(BlockRef) -> u64) -> Vec<Arc<[BlockRef]>> {
    for _ in runs.len()..target {
        let divisible = runs.iter_mut().filter(|run| run.pieces < run.blocks.len());
        let Some(greatest) = divisible.max_by_key(|run| run.bytes / run.pieces as u64) else { break };
        greatest.pieces += 1;
    }
    runs.iter().flat_map(|run| cut(run, &bytes_of)).collect()
}

/// Cuts a partition into pieces of about the same bytes, none of them empty.
fn cut(run: &Run<'_>, bytes_of: impl Fn(BlockRef) -> u64) -> Vec<Arc<[BlockRef]>> {
    let (mut pieces, mut rest, mut bytes_left) = (Vec::with_capacity(run.pieces), run.blocks, run.bytes);
    for pieces_left in (1..=run.pieces).rev() {
        let share = bytes_left / pieces_left as u64;
        let length_max = rest.len() - (pieces_left - 1);
        let (mut length, mut bytes) = (0, 0);
        while length < length_max && (length == 0 || bytes < share || pieces_left == 1) {
            bytes += bytes_of(rest[length]);
            length += 1;
        }
        let (piece, others) = rest.split_at(length);
        pieces.push(Arc::from(piece));
        (rest, bytes_left) = (others, bytes_left.saturating_sub(bytes));
    }
    pieces
}

/// Deals whole partitions out, the greatest first, each to the output partition with the least.
fn group(mut runs: Vec<Run<'_>>, count: usize) -> Vec<Arc<[BlockRef]>> {
    let mut groups: Vec<(u64, Vec<BlockRef>)> = vec![(0, Vec::new()); count];
    runs.sort_by_key(|run| Reverse(run.bytes));
    for run in runs {
        let least = groups.iter_mut().min_by_key(|(bytes, _)| *bytes).expect("there is an output partition");
        least.0 += run.bytes;
        least.1.extend_from_slice(run.blocks);
    }
    let sorted = |(_, mut blocks): (u64, Vec<BlockRef>)| {
        blocks.sort_unstable_by_key(|block| (block.slot, block.block));
        blocks.into()
    };
    groups.into_iter().map(sorted).collect()
}

/// The bytes of a block, for [`Assignment::spread`].
pub(super) fn block_bytes(blocks: &TopicBlocks) -> impl Fn(BlockRef) -> u64 {
    |place| u64::from(blocks.block(place).length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::blocks::Coverage;

    fn blocks(counts: &[u32]) -> Vec<BlockRef> {
        let partition = |(slot, count): (usize, &u32)| {
            let slot = slot as u32;
            (0..*count).map(move |block| BlockRef { slot, block, coverage: Coverage::Unknown })
        };
        counts.iter().enumerate().flat_map(partition).collect()
    }

    fn spread(counts: &[u32], target: usize) -> Assignment {
        Assignment::spread(&blocks(counts), target, |_| 10)
    }

    fn lengths(assignment: &Assignment) -> Vec<usize> {
        assignment.outputs.iter().map(|output| output.len()).collect()
    }

    #[test]
    fn every_block_is_read_once() {
        for counts in [&[1][..], &[7], &[0, 3, 100], &[1; 70], &[5; 200]] {
            for target in [1, 2, 8, 100] {
                let assignment = spread(counts, target);
                let mut all: Vec<_> = assignment.outputs.iter().flat_map(|output| output.to_vec()).collect();
                all.sort_unstable_by_key(|block| (block.slot, block.block));
                assert_eq!(all, blocks(counts));
                assert!(assignment.outputs.len() >= target);
            }
        }
    }

    #[test]
    fn no_block_gives_one_empty_output_partition() {
        assert_eq!(lengths(&spread(&[], 4)), [0]);
    }

    #[test]
    fn the_greatest_partition_is_cut_into_even_pieces() {
        assert_eq!(lengths(&spread(&[2, 9], 4)), [2, 3, 3, 3]);
        assert_eq!(lengths(&spread(&[2], 4)), [1, 1, 0, 0]);
    }

    #[test]
    fn a_few_partitions_never_share_an_output_partition() {
        let assignment = spread(&[3; 20], 2);
        assert_eq!(assignment.outputs.len(), 20);
        assert!(assignment.origins().all(|origin| matches!(origin, Origin::Partition(_))));
        assert_eq!(spread(&[1; 100], 2).outputs.len(), OUTPUT_PARTITIONS_MAX);
    }

    #[test]
    fn sorting_follows_both_directions() {
        let assignment = Assignment { outputs: vec![blocks(&[2, 2]).into()] };
        let places = |assignment: Assignment| -> Vec<_> {
            assignment.outputs[0].iter().map(|block| (block.slot, block.block)).collect()
        };
        let sorted = |partitions, offsets| places(assignment.sorted(partitions, offsets));
        use Direction::{Ascending, Descending};
        assert_eq!(sorted(Descending, Ascending), [(1, 0), (1, 1), (0, 0), (0, 1)]);
        assert_eq!(sorted(Ascending, Descending), [(0, 1), (0, 0), (1, 1), (1, 0)]);
    }

    #[test]
    fn joined_pieces_are_read_from_one_end() {
        let joined = spread(&[6, 1], 4).joined(Direction::Descending);
        assert_eq!(lengths(&joined), [6, 1, 0, 0]);
        let order: Vec<_> = joined.outputs[0].iter().map(|block| block.block).collect();
        assert_eq!(order, [5, 4, 3, 2, 1, 0]);
    }
}
