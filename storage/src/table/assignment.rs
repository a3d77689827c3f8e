//! Which output partition of a scan reads which blocks, and in which order. Pure.
//!
//! Invariant: every block is in exactly one output partition.
//! Invariant: as long as a topic has few partitions, an output partition reads blocks of one of them
//! only, in offset order, so that an order by offset costs nothing.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;

use super::run::{BlockRun, coalesce};

/// Above this many partitions with data, several share an output partition.
const OUTPUT_PARTITIONS_MAX: usize = 64;
/// Blocks that follow each other by time often stand side by side in one object: as many bytes of
/// them go to one output partition, which can read them together.
const HAND_BYTES_MAX: u64 = 1024 * 1024;

/// Runs of blocks by output partition, in the order in which they are read.
#[derive(Clone, Debug)]
pub(super) struct Assignment {
    pub(super) outputs: Vec<Arc<[BlockRun]>>,
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

/// What a run adds to the work of an output partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Weight {
    pub(super) bytes: u64,
    /// Into how many pieces the run can be cut: its blocks, or 1.
    pub(super) pieces_max: u32,
}

impl Assignment {
    /// Spreads `runs`, which are in the order of partition and offset, by their bytes.
    ///
    /// There are at least `target` output partitions as soon as there is a block, if need be empty
    /// ones: with fewer, the query engine would deal rows out again and lose their order.
    pub(super) fn spread(runs: &[BlockRun], target: usize, weight_of: impl Fn(&BlockRun) -> Weight) -> Self {
        if runs.is_empty() {
            return Self { outputs: vec![Arc::from([])] };
        }
        let weighed: Vec<(BlockRun, Weight)> = runs.iter().map(|run| (*run, weight_of(run))).collect();
        let shares: Vec<Share<'_>> = weighed.chunk_by(|a, b| a.0.slot == b.0.slot).map(Share::new).collect();
        let mut outputs = if shares.len() > target.max(OUTPUT_PARTITIONS_MAX) {
            group(shares, target.max(OUTPUT_PARTITIONS_MAX))
        } else {
            split(shares, target)
        };
        if outputs.len() < target {
            outputs.resize(target, Arc::from([]));
        }
        Self { outputs }
    }

    pub(super) fn origins(&self) -> impl Iterator<Item = Origin> {
        self.outputs.iter().map(|runs| match runs.first() {
            None => Origin::Nothing,
            Some(first) if runs.iter().all(|run| run.slot == first.slot) => Origin::Partition(first.slot),
            Some(_) => Origin::Mixed,
        })
    }

    /// Sorts each output partition by partition and offset, each in its direction.
    pub(super) fn sorted(&self, partitions: Direction, offsets: Direction) -> Self {
        let sort = |runs: &Arc<[BlockRun]>| {
            let mut runs = runs.to_vec();
            runs.sort_unstable_by(|a, b| {
                let slots = partitions.apply(a.slot.cmp(&b.slot));
                slots.then(offsets.apply(a.place().cmp(&b.place())))
            });
            runs.into()
        };
        Self { outputs: self.outputs.iter().map(sort).collect() }
    }

    /// Deals all runs out again in the order of a rank, so that every output partition begins with
    /// what comes first: slices in as many pieces as there are output partitions, other blocks and
    /// slices that cannot be cut some at a time.
    pub(super) fn dealt<K: Ord>(
        &self,
        rank: impl Fn(&BlockRun) -> K,
        weight_of: impl Fn(&BlockRun) -> Weight,
    ) -> Self {
        let mut runs: Vec<BlockRun> = self.outputs.iter().flat_map(|runs| runs.iter().copied()).collect();
        runs.sort_unstable_by_key(|run| (run.slot, run.place()));
        let mut runs = coalesce(runs);
        runs.sort_by_cached_key(&rank);
        let mut outputs: Vec<Vec<BlockRun>> = vec![Vec::new(); self.outputs.len()];
        let count = outputs.len();
        let runs: Vec<(BlockRun, Weight)> = runs.into_iter().map(|run| (run, weight_of(&run))).collect();
        let whole = runs.iter().map(|(_, weight)| weight).filter(|weight| weight.pieces_max == 1);
        let bytes: u64 = whole.map(|weight| weight.bytes).sum();
        let hand_bytes = (bytes / count as u64).clamp(1, HAND_BYTES_MAX);
        let (mut turn, mut hand) = (0, 0);
        for (run, weight) in runs {
            if weight.pieces_max > 1 {
                outputs.iter_mut().zip(run.pieces(count)).for_each(|(output, piece)| output.extend(piece));
                continue;
            }
            outputs[turn].push(run);
            hand += weight.bytes;
            if hand >= hand_bytes {
                (turn, hand) = ((turn + 1) % count, 0);
            }
        }
        Self { outputs: outputs.into_iter().map(Arc::from).collect() }
    }

    /// Puts the pieces of each partition together again, in one output partition of as many as
    /// before: whoever wants the first few rows in order should not read the head of every piece.
    pub(super) fn joined(&self, offsets: Direction) -> Self {
        let mut outputs: Vec<Vec<BlockRun>> = vec![Vec::new(); self.outputs.len()];
        for runs in &self.outputs {
            let Some(first) = runs.first() else { continue };
            let home = outputs
                .iter()
                .position(|other| other.first().is_none_or(|other| other.slot == first.slot))
                .expect("each piece needs at most one output partition");
            outputs[home].extend_from_slice(runs);
        }
        let whole = |mut runs: Vec<BlockRun>| {
            runs.sort_unstable_by_key(BlockRun::place);
            Arc::from(coalesce(runs))
        };
        Self { outputs: outputs.into_iter().map(whole).collect() }.sorted(offsets, offsets)
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

/// The runs of one partition of the topic.
struct Share<'a> {
    runs: &'a [(BlockRun, Weight)],
    bytes: u64,
    pieces: usize,
    pieces_max: usize,
}

impl<'a> Share<'a> {
    fn new(runs: &'a [(BlockRun, Weight)]) -> Self {
        Self {
            runs,
            bytes: runs.iter().map(|(_, weight)| weight.bytes).sum(),
            pieces: 1,
            pieces_max: runs.iter().map(|(_, weight)| weight.pieces_max as usize).sum(),
        }
    }
}

/// Gives each partition an output partition of its own, and cuts the greatest ones into pieces until
/// there are `target`.
fn split(mut shares: Vec<Share<'_>>, target: usize) -> Vec<Arc<[BlockRun]>> {
    for _ in shares.len()..target {
        let divisible = shares.iter_mut().filter(|share| share.pieces < share.pieces_max);
        let Some(greatest) = divisible.max_by_key(|share| share.bytes / share.pieces as u64) else { break };
        greatest.pieces += 1;
    }
    shares.iter().flat_map(cut).collect()
}

/// Cuts a partition into pieces of about the same bytes, none of them empty.
fn cut(share: &Share<'_>) -> Vec<Arc<[BlockRun]>> {
    let mut rest: VecDeque<(BlockRun, Weight)> = share.runs.iter().copied().collect();
    let (mut bytes_left, mut parts_left) = (share.bytes, share.pieces_max);
    let mut pieces = Vec::with_capacity(share.pieces);
    for pieces_left in (1..=share.pieces).rev() {
        let bytes_wanted = if pieces_left == 1 { u64::MAX } else { bytes_left / pieces_left as u64 };
        let parts_max = parts_left - (pieces_left - 1);
        let (mut piece, mut bytes, mut parts) = (Vec::new(), 0, 0);
        while parts < parts_max && (parts == 0 || bytes < bytes_wanted) {
            let Some((run, weight)) = rest.pop_front() else { break };
            let wanted = parts_for(weight, bytes_wanted - bytes).min(parts_max - parts);
            let (taken, left) = cut_run(run, weight, wanted as u32);
            bytes += taken.1.bytes;
            parts += taken.1.pieces_max as usize;
            piece.push(taken.0);
            if let Some(left) = left {
                rest.push_front(left);
            }
        }
        (bytes_left, parts_left) = (bytes_left.saturating_sub(bytes), parts_left - parts);
        pieces.push(Arc::from(piece));
    }
    pieces
}

/// How many parts of a run have that many bytes together, at least one.
fn parts_for(weight: Weight, bytes: u64) -> usize {
    let of_one = (weight.bytes / u64::from(weight.pieces_max)).max(1);
    bytes.div_ceil(of_one).clamp(1, u64::from(weight.pieces_max)) as usize
}

/// Takes that many parts from the front of a run.
fn cut_run(run: BlockRun, weight: Weight, parts: u32) -> ((BlockRun, Weight), Option<(BlockRun, Weight)>) {
    if parts == weight.pieces_max {
        return ((run, weight), None);
    }
    let (taken, left) = run.split_at(parts);
    let bytes = weight.bytes / u64::from(weight.pieces_max) * u64::from(parts);
    let weight_left = Weight { bytes: weight.bytes - bytes, pieces_max: weight.pieces_max - parts };
    ((taken, Weight { bytes, pieces_max: parts }), Some((left, weight_left)))
}

/// Deals whole partitions out, the greatest first, each to the output partition with the least.
fn group(mut shares: Vec<Share<'_>>, count: usize) -> Vec<Arc<[BlockRun]>> {
    let mut groups: Vec<(u64, Vec<BlockRun>)> = vec![(0, Vec::new()); count];
    shares.sort_by_key(|share| Reverse(share.bytes));
    for share in shares {
        let least = groups.iter_mut().min_by_key(|(bytes, _)| *bytes).expect("there is an output partition");
        least.0 += share.bytes;
        least.1.extend(share.runs.iter().map(|(run, _)| *run));
    }
    let sorted = |(_, mut runs): (u64, Vec<BlockRun>)| {
        runs.sort_unstable_by_key(|run| (run.slot, run.place()));
        runs.into()
    };
    groups.into_iter().map(sorted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::run::{Coverage, RunSource};

    fn run(slot: u32, source: RunSource, start: u32, count: u32) -> BlockRun {
        BlockRun { slot, source, start, count, coverage: Coverage::Unknown }
    }

    /// A partition for each number, with as many blocks in its tail.
    fn tails(counts: &[u32]) -> Vec<BlockRun> {
        let partition = |(slot, count): (u32, &u32)| {
            (0..*count).map(move |block| run(slot, RunSource::Tail, block, 1)).collect::<Vec<_>>()
        };
        (0..).zip(counts).flat_map(partition).collect()
    }

    /// A partition for each number, with a slice of as many blocks before a tail of one.
    fn slices(counts: &[u32]) -> Vec<BlockRun> {
        let partition = |(slot, count): (u32, &u32)| {
            [run(slot, RunSource::Slice(0), 0, *count), run(slot, RunSource::Tail, 0, 1)]
        };
        (0..).zip(counts).flat_map(partition).collect()
    }

    fn weight(run: &BlockRun) -> Weight {
        Weight { bytes: 10 * u64::from(run.count), pieces_max: run.count }
    }

    fn lengths(assignment: &Assignment) -> Vec<u32> {
        assignment.outputs.iter().map(|output| output.iter().map(|run| run.count).sum()).collect()
    }

    /// Each block of the runs as a run of its own, in order.
    fn singles<'a>(runs: impl IntoIterator<Item = &'a BlockRun>) -> Vec<BlockRun> {
        let single = |run: &BlockRun| {
            let run = *run;
            (0..run.count).map(move |index| BlockRun { start: run.start + index, count: 1, ..run })
        };
        let mut all: Vec<_> = runs.into_iter().flat_map(single).collect();
        all.sort_unstable_by_key(|run| (run.slot, run.place()));
        all
    }

    #[test]
    fn every_block_is_read_once() {
        for counts in [&[1][..], &[7], &[3, 100], &[1; 70], &[5; 200]] {
            for runs in [tails(counts), slices(counts)] {
                for target in [1, 2, 8, 100] {
                    let assignment = Assignment::spread(&runs, target, weight);
                    let all = assignment.outputs.iter().flat_map(|output| output.iter());
                    assert_eq!(singles(all), singles(&runs));
                    assert!(assignment.outputs.len() >= target);
                }
            }
        }
    }

    #[test]
    fn no_block_gives_one_empty_output_partition() {
        assert_eq!(lengths(&Assignment::spread(&[], 4, weight)), [0]);
    }

    #[test]
    fn the_greatest_partition_is_cut_into_even_pieces() {
        assert_eq!(lengths(&Assignment::spread(&tails(&[2, 9]), 4, weight)), [2, 3, 3, 3]);
        assert_eq!(lengths(&Assignment::spread(&tails(&[2]), 4, weight)), [1, 1, 0, 0]);
        assert_eq!(lengths(&Assignment::spread(&slices(&[11]), 4, weight)), [3, 3, 3, 3]);
    }

    #[test]
    fn a_run_that_is_only_counted_stays_whole() {
        let counted = |_: &BlockRun| Weight { bytes: 0, pieces_max: 1 };
        assert_eq!(lengths(&Assignment::spread(&slices(&[100]), 4, counted)), [100, 1, 0, 0]);
    }

    #[test]
    fn a_few_partitions_never_share_an_output_partition() {
        let assignment = Assignment::spread(&tails(&[3; 20]), 2, weight);
        assert_eq!(assignment.outputs.len(), 20);
        assert!(assignment.origins().all(|origin| matches!(origin, Origin::Partition(_))));
        let many = Assignment::spread(&tails(&[1; 100]), 2, weight);
        assert_eq!(many.outputs.len(), OUTPUT_PARTITIONS_MAX);
    }

    #[test]
    fn sorting_follows_both_directions() {
        use Direction::{Ascending, Descending};
        use RunSource::{Slice, Tail};

        let runs = [run(0, Slice(1), 0, 9), run(0, Tail, 0, 1), run(1, Tail, 0, 1), run(1, Tail, 1, 1)];
        let assignment = Assignment { outputs: vec![runs.into()] };
        let sorted = |partitions, offsets| -> Vec<_> {
            let sorted = assignment.sorted(partitions, offsets);
            sorted.outputs[0].iter().map(|run| (run.slot, run.source, run.start)).collect()
        };
        let expected = [(1, Tail, 0), (1, Tail, 1), (0, Slice(1), 0), (0, Tail, 0)];
        assert_eq!(sorted(Descending, Ascending), expected);
        let expected = [(0, Tail, 0), (0, Slice(1), 0), (1, Tail, 1), (1, Tail, 0)];
        assert_eq!(sorted(Ascending, Descending), expected);
    }

    #[test]
    fn joined_pieces_are_read_from_one_end() {
        let joined = Assignment::spread(&tails(&[6, 1]), 4, weight).joined(Direction::Descending);
        assert_eq!(lengths(&joined), [6, 1, 0, 0]);
        let order: Vec<_> = joined.outputs[0].iter().map(|run| run.start).collect();
        assert_eq!(order, [5, 4, 3, 2, 1, 0]);
        let runs = slices(&[6]);
        let joined = Assignment::spread(&runs, 4, weight).joined(Direction::Descending);
        assert_eq!(joined.outputs[0][..], [runs[1], runs[0]], "a slice is whole again");
    }

    #[test]
    fn every_output_partition_is_dealt_the_first_ranks_and_every_block_once() {
        let runs = [slices(&[7, 9]), tails(&[0, 0, 40])].concat();
        let newest = |run: &BlockRun| std::cmp::Reverse((run.source, run.start));
        for target in [1, 3, 5] {
            let spread = Assignment::spread(&runs, target, weight);
            let dealt = spread.dealt(newest, weight);
            let all = dealt.outputs.iter().flat_map(|output| output.iter());
            assert_eq!(singles(all), singles(&runs));
            assert_eq!(dealt.outputs.len(), spread.outputs.len());
            for output in &dealt.outputs {
                assert_eq!(output[0].source, RunSource::Tail, "all begin with the tail");
                assert!(output.iter().any(|run| run.source != RunSource::Tail), "all have a part of a slice");
            }
        }
    }
}
