//! Which runs of blocks a scan has to read, told from slices first and from blocks where that may
//! rule more out.
//!
//! Invariant: an index is loaded only when filters cut through its slice, or where the slice could not be
//! cut into pieces without it. What filters rule out as a whole needs none.

use super::blocks::{SlicePlace, TopicBlocks};
use super::pruning::{Judge, UnitBounds};
use super::queue::Wanted;
use super::run::{BlockRun, Coverage, RunSource, block_count, coalesce};
use super::unit::Unit;
use crate::log::Block;

/// Runs are judged this many at a time, which bounds the memory of planning.
const UNITS_AT_A_TIME: usize = 64 * 1024;
/// Planning loads no more indexes when it has this many blocks from them: about 35 MiB. The others
/// are loaded by the running scan.
const INDEXED_BLOCKS_MAX: usize = 256 * 1024;

/// Whether planning may load indexes of slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Indexes {
    /// A scan that may stop early does not need all of them.
    WhenReached,
    Planned,
}

/// What is left to read, and what was done to know it.
#[derive(Debug)]
pub(super) struct PlannedRuns {
    /// In the order of partition and offset.
    pub(super) kept: Vec<BlockRun>,
    pub(super) work: PlanningWork,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PlanningWork {
    pub(super) blocks_total: usize,
    pub(super) blocks_pruned: usize,
    pub(super) slices_total: usize,
    pub(super) slices_pruned: usize,
    pub(super) indexes_loaded: usize,
}

/// Chooses the runs that may hold rows that pass, each with what is known of its rows.
pub(super) async fn plan_runs(
    blocks: &mut TopicBlocks,
    judge: &Judge,
    wanted: Wanted,
    indexes: Indexes,
) -> PlannedRuns {
    let candidates = blocks.candidates();
    let mut kept = judge_runs(blocks, judge, &candidates);
    let slices_total = slice_count(&candidates);
    let slices_pruned = slices_total - slice_count(&kept);
    let mut indexes_loaded = 0;
    if indexes == Indexes::Planned {
        let cut = cut_slices(blocks, judge, wanted, &kept);
        indexes_loaded = blocks.load_indexes(&cut).await;
        kept = narrow(blocks, judge, kept);
    }
    let blocks_total = block_count(&candidates);
    // The index of a slice that was moved may have more blocks than the slice had.
    let blocks_pruned = blocks_total.saturating_sub(block_count(&kept));
    let work = PlanningWork { blocks_total, blocks_pruned, slices_total, slices_pruned, indexes_loaded };
    PlannedRuns { kept, work }
}

fn judge_runs(blocks: &TopicBlocks, judge: &Judge, candidates: &[BlockRun]) -> Vec<BlockRun> {
    let mut kept = Vec::new();
    for runs in candidates.chunks(UNITS_AT_A_TIME) {
        let units: Vec<_> = runs.iter().map(|run| blocks.unit(run)).collect();
        for ((run, unit), verdict) in runs.iter().zip(&units).zip(judge.judge(&bounds(blocks, runs, &units)))
        {
            let Some(coverage) = verdict else { continue };
            let coverage = if blocks.is_whole(run, unit) { coverage } else { Coverage::Unknown };
            kept.push(BlockRun { coverage, ..*run });
        }
    }
    kept
}

fn bounds(blocks: &TopicBlocks, runs: &[BlockRun], units: &[Unit]) -> Vec<UnitBounds> {
    let partition = |run: &BlockRun| blocks.partition(run.slot).partition;
    runs.iter().zip(units).map(|(run, unit)| UnitBounds::new(partition(run), unit)).collect()
}

/// The slices of which filters may rule out a part, and those that can be cut into pieces only if their
/// index is at hand, as far as there is memory for their indexes.
fn cut_slices(blocks: &TopicBlocks, judge: &Judge, wanted: Wanted, kept: &[BlockRun]) -> Vec<SlicePlace> {
    let slices: Vec<_> = kept.iter().filter(|run| run.source != RunSource::Tail).copied().collect();
    let units: Vec<_> = slices.iter().map(|run| blocks.unit(run)).collect();
    let cuts = judge.cuts(&bounds(blocks, &slices, &units));
    let may_move = blocks.may_move();
    let is_cut = |run: &BlockRun, cut: bool| cut || (may_move && !wanted.is_counted(run.coverage));
    let mut block_count = 0;
    let places = slices.iter().zip(cuts).filter(|(run, cut)| is_cut(run, *cut)).map_while(|(run, _)| {
        block_count += run.count as usize;
        (block_count <= INDEXED_BLOCKS_MAX).then(|| blocks.unloaded(run))?
    });
    places.collect()
}

/// Puts the blocks that may hold rows that pass in the place of the slices whose index is at hand.
fn narrow(blocks: &TopicBlocks, judge: &Judge, kept: Vec<BlockRun>) -> Vec<BlockRun> {
    let mut narrowed = Vec::with_capacity(kept.len());
    for run in kept {
        if run.source == RunSource::Tail || blocks.unloaded(&run).is_some() {
            narrowed.push(run);
            continue;
        }
        let run = blocks.whole_slice(&run);
        let known: Vec<Block> = blocks.blocks(&run).copied().collect();
        let single = |(index, coverage): (u32, Option<Coverage>)| {
            Some(BlockRun { start: run.start + index, count: 1, coverage: coverage?, ..run })
        };
        let verdicts = judge_blocks(blocks, judge, run.slot, &known);
        narrowed.extend(coalesce((0..).zip(verdicts).filter_map(single)));
    }
    narrowed
}

/// For each block of a partition, what is known of its rows; `None` when none of them is wanted.
pub(super) fn judge_blocks(
    blocks: &TopicBlocks,
    judge: &Judge,
    slot: u32,
    known: &[Block],
) -> Vec<Option<Coverage>> {
    let partition = blocks.partition(slot);
    let units: Vec<_> = known.iter().map(Unit::of_block).collect();
    let bounds: Vec<_> = units.iter().map(|unit| UnitBounds::new(partition.partition, unit)).collect();
    let verdict = |(unit, verdict): (&Unit, Option<Coverage>)| {
        let visibility = &partition.visibility;
        let coverage = verdict.filter(|_| unit.data_count > 0 && visibility.reaches(&unit.offsets))?;
        Some(if visibility.is_whole(&unit.offsets) { coverage } else { Coverage::Unknown })
    };
    units.iter().zip(judge.judge(&bounds)).map(verdict).collect()
}

/// Slices that at least one run is of.
fn slice_count(runs: &[BlockRun]) -> usize {
    let slices = runs.iter().filter(|run| run.source != RunSource::Tail);
    let mut last = None;
    slices.filter(|run| last.replace((run.slot, run.source)) != Some((run.slot, run.source))).count()
}
