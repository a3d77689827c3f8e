//! The blocks of one output partition that are still to be read: those that filters have ruled out
//! by now are skipped, the others come in groups.
//!
//! Invariant: a scan that may stop early is never given more blocks than the next rows need, as far
//! as that is known, and the index of a slice is asked for only when the scan gets there.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::physical_expr::{DynamicFilterTracking, PhysicalExpr, conjunction};

use super::blocks::{SlicePlace, TopicBlocks};
use super::counters::{ScanCounter, ScanMetrics};
use super::order::ReadOrder;
use super::plan::judge_blocks;
use super::pruning::{Judge, Pruner, UnitBounds};
use super::run::{BlockRun, Coverage};
use super::unit::Unit;
use crate::log::Block;

/// A group holds at most this many blocks.
const GROUP_BLOCKS_MAX: usize = 64;
/// A group holds at most this many bytes, or one block.
const GROUP_BYTES_MAX: u64 = 1024 * 1024;
/// Blocks are judged by filters that change this many at a time, so that a change costs little.
const WINDOW_BLOCKS: usize = 1024;

/// What comes next.
#[derive(Debug)]
pub(super) enum Next {
    /// That many rows pass, and nothing else is wanted of them.
    Count(usize),
    /// The index of a slice is needed to go on.
    Load(SlicePlace),
    /// Blocks of one partition with the same coverage, in the order of the scan.
    Read(Vec<QueuedBlock>),
    Done,
}

/// A block that may hold rows that pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedBlock {
    pub(super) slot: u32,
    pub(super) coverage: Coverage,
    pub(super) block: Block,
}

/// How the rows of the blocks are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Columns,
    /// No column at all: their number is enough where it is known.
    Count,
}

impl Wanted {
    pub(super) fn of(projection: &[usize]) -> Self {
        if projection.is_empty() { Self::Count } else { Self::Columns }
    }

    /// The number of the rows is enough, and known, if only the planned filters count.
    pub(super) fn is_counted(self, coverage: Coverage) -> bool {
        self == Self::Count && coverage == Coverage::Full
    }
}

#[derive(Debug)]
pub(super) struct BlockQueue {
    blocks: Arc<TopicBlocks>,
    output: Arc<[BlockRun]>,
    /// The run in `output` that comes after those in `known` and `window`.
    position: usize,
    order: ReadOrder,
    wanted: Wanted,
    judge: Arc<Judge>,
    late: Option<LateFilters>,
    /// Blocks of the slice whose index was loaded last, not looked at yet.
    known: VecDeque<QueuedBlock>,
    /// The next blocks, all of which may hold rows that pass.
    window: VecDeque<QueuedBlock>,
    group_blocks_max: usize,
}

/// Filters of which some were not known, or not complete, when the scan was planned.
#[derive(Debug)]
struct LateFilters {
    /// All filters, also the planned ones: together they may rule out more.
    filters: Vec<Arc<dyn PhysicalExpr>>,
    schema: SchemaRef,
    tracking: DynamicFilterTracking,
    /// `None` until the scan runs: they may need a subquery that runs only when the scan does.
    pruner: Option<Pruner>,
}

/// What to read, and what blocks are judged by.
pub(super) struct QueueOptions<'a> {
    pub(super) blocks: Arc<TopicBlocks>,
    pub(super) output: Arc<[BlockRun]>,
    pub(super) order: ReadOrder,
    pub(super) wanted: Wanted,
    pub(super) fetch: Option<usize>,
    pub(super) judge: Arc<Judge>,
    pub(super) planned_filters: &'a [Arc<dyn PhysicalExpr>],
    pub(super) late_filters: &'a [Arc<dyn PhysicalExpr>],
    pub(super) schema: &'a SchemaRef,
}

impl BlockQueue {
    pub(super) fn new(options: QueueOptions<'_>) -> Self {
        let QueueOptions { blocks, output, order, wanted, fetch, judge, .. } = options;
        let (planned_filters, late_filters) = (options.planned_filters, options.late_filters);
        let late = (!late_filters.is_empty()).then(|| {
            let filters: Vec<_> = planned_filters.iter().chain(late_filters).cloned().collect();
            let tracking = DynamicFilterTracking::classify(&conjunction(filters.iter().cloned()));
            LateFilters { filters, schema: options.schema.clone(), tracking, pruner: None }
        });
        // Where it is not known how many rows pass, and not all may be wanted, groups begin small.
        let group_blocks_max = if late.is_some() || fetch.is_some() { 1 } else { GROUP_BLOCKS_MAX };
        let (known, window) = (VecDeque::new(), VecDeque::new());
        Self { blocks, output, position: 0, order, wanted, judge, late, known, window, group_blocks_max }
    }

    /// Rules out blocks and batches by the filters as they are now.
    pub(super) fn pruner(&self) -> &Pruner {
        let late = self.late.as_ref().and_then(|late| late.pruner.as_ref());
        late.unwrap_or_else(|| self.judge.pruner())
    }

    pub(super) fn bounds(&self, queued: &QueuedBlock) -> UnitBounds {
        self.unit_bounds(queued.slot, &Unit::of_block(&queued.block))
    }

    fn unit_bounds(&self, slot: u32, unit: &Unit) -> UnitBounds {
        UnitBounds::new(self.blocks.partition(slot).partition, unit)
    }

    /// Every row of blocks of this coverage passes every filter, also the late ones.
    pub(super) fn is_covered(&self, coverage: Coverage) -> bool {
        coverage == Coverage::Full && self.late.is_none()
    }

    /// The next blocks, if at most `rows_wanted` rows are wanted.
    pub(super) fn next(&mut self, rows_wanted: Option<usize>, metrics: &ScanMetrics) -> Next {
        self.refresh(metrics);
        loop {
            if let Some(first) = self.window.front() {
                return match self.wanted {
                    Wanted::Count if self.is_covered(first.coverage) => {
                        Next::Count(self.count_blocks(rows_wanted, metrics))
                    }
                    _ => Next::Read(self.group(rows_wanted)),
                };
            }
            if !self.known.is_empty() {
                self.fill_from_known(metrics);
                continue;
            }
            let Some(run) = self.output.get(self.position).copied() else {
                return Next::Done;
            };
            match self.blocks.unloaded(&run) {
                None => self.fill_from_runs(metrics),
                Some(_) if self.is_ruled_out(&run) => self.skip(&run, metrics),
                Some(_) if self.is_countable(&run) => {
                    return Next::Count(self.count_slice(&run, rows_wanted, metrics));
                }
                Some(place) => return Next::Load(place),
            }
        }
    }

    /// Gives the blocks of the slice that [`Next::Load`] named.
    pub(super) fn take_index(&mut self, index: &[Block], metrics: &ScanMetrics) {
        let Some(run) = self.output.get(self.position).copied() else { return };
        self.position += 1;
        metrics.add(ScanCounter::SliceIndexesLoaded, 1);
        let piece = if self.blocks.is_whole_slice(&run) {
            index
        } else {
            index.get(run.start as usize..(run.start + run.count) as usize).unwrap_or_default()
        };
        let mut blocks = piece.to_vec();
        self.order.arrange(&mut blocks);
        let queued = |block| QueuedBlock { slot: run.slot, coverage: run.coverage, block };
        self.known.extend(blocks.into_iter().map(queued));
    }

    /// Judges the blocks of the window anew when filters have changed.
    fn refresh(&mut self, metrics: &ScanMetrics) {
        let Some(late) = &mut self.late else { return };
        let has_changed = late.tracking.watcher().is_some_and(|watcher| watcher.changed());
        if has_changed || late.pruner.is_none() {
            late.pruner = Some(Pruner::new(&late.filters, &late.schema));
            self.prune_window(metrics);
        }
    }

    /// Drops the blocks of the window that filters rule out as they are now.
    fn prune_window(&mut self, metrics: &ScanMetrics) {
        let units: Vec<_> = self.window.iter().map(|queued| self.bounds(queued)).collect();
        let mut keep = self.pruner().keep(&units).into_iter();
        let before = self.window.len();
        self.window.retain(|_| keep.next().unwrap_or(true));
        metrics.add(ScanCounter::BlocksPruned, before - self.window.len());
    }

    /// Moves blocks of the slice that was loaded last into the window: only now they are judged, by
    /// the planned filters too.
    fn fill_from_known(&mut self, metrics: &ScanMetrics) {
        let count = self.known.len().min(WINDOW_BLOCKS);
        let mut next: Vec<QueuedBlock> = self.known.drain(..count).collect();
        let (slot, coverage) = (next[0].slot, next[0].coverage);
        if coverage == Coverage::Unknown {
            let blocks: Vec<Block> = next.iter().map(|queued| queued.block).collect();
            let verdicts = judge_blocks(&self.blocks, &self.judge, slot, &blocks);
            let judged = blocks.into_iter().zip(verdicts);
            next = judged
                .filter_map(|(block, coverage)| Some(QueuedBlock { slot, coverage: coverage?, block }))
                .collect();
            metrics.add(ScanCounter::BlocksPruned, count - next.len());
        }
        self.window.extend(next);
        if self.late.is_some() {
            self.prune_window(metrics);
        }
    }

    /// Moves blocks of runs that are at hand, which planning has judged, into the window.
    fn fill_from_runs(&mut self, metrics: &ScanMetrics) {
        while self.window.len() < WINDOW_BLOCKS {
            let Some(run) = self.output.get(self.position).filter(|run| self.blocks.unloaded(run).is_none())
            else {
                break;
            };
            let mut blocks: Vec<Block> = self.blocks.blocks(run).copied().collect();
            self.order.arrange(&mut blocks);
            let queued = |block| QueuedBlock { slot: run.slot, coverage: run.coverage, block };
            self.window.extend(blocks.into_iter().map(queued));
            self.position += 1;
        }
        if self.late.is_some() {
            self.prune_window(metrics);
        }
    }

    /// No row of the slice passes the filters as they are now. Planning has ruled out what it could.
    fn is_ruled_out(&self, run: &BlockRun) -> bool {
        let bounds = || self.unit_bounds(run.slot, &self.blocks.unit(run));
        self.late.is_some() && self.pruner().keep(&[bounds()]) == [false]
    }

    fn skip(&mut self, run: &BlockRun, metrics: &ScanMetrics) {
        self.position += 1;
        metrics.add(ScanCounter::BlocksPruned, run.count as usize);
        // Several output partitions may have a piece of the slice.
        if run.start == 0 {
            metrics.add(ScanCounter::SlicesPruned, 1);
        }
    }

    /// The number of the slice's rows is known and all that is wanted.
    fn is_countable(&self, run: &BlockRun) -> bool {
        self.wanted == Wanted::Count && self.is_covered(run.coverage) && self.blocks.is_whole_slice(run)
    }

    fn count_slice(&mut self, run: &BlockRun, rows_wanted: Option<usize>, metrics: &ScanMetrics) -> usize {
        self.position += 1;
        metrics.add(ScanCounter::BlocksCounted, run.count as usize);
        let rows = usize::try_from(self.blocks.unit(run).data_count).unwrap_or(usize::MAX);
        rows.min(rows_wanted.unwrap_or(usize::MAX))
    }

    /// Takes the covered blocks at the front, as many as are wanted, and counts their rows.
    fn count_blocks(&mut self, rows_wanted: Option<usize>, metrics: &ScanMetrics) -> usize {
        let (before, mut rows) = (self.window.len(), 0);
        let wanted = rows_wanted.unwrap_or(usize::MAX);
        while let Some(queued) = self.window.front().filter(|queued| self.is_covered(queued.coverage)) {
            if rows >= wanted {
                break;
            }
            rows += queued.block.data_count as usize;
            self.window.pop_front();
        }
        metrics.add(ScanCounter::BlocksCounted, before - self.window.len());
        rows.min(wanted)
    }

    /// Takes blocks from the front that are read together.
    fn group(&mut self, rows_wanted: Option<usize>) -> Vec<QueuedBlock> {
        let Some(first) = self.window.front().copied() else { return Vec::new() };
        // The rows of a covered block are known, so that they can bound the group.
        let rows_max = rows_wanted.filter(|_| self.is_covered(first.coverage));
        let blocks_max = if rows_max.is_some() { GROUP_BLOCKS_MAX } else { self.group_blocks_max };
        self.group_blocks_max = (self.group_blocks_max * 2).min(GROUP_BLOCKS_MAX);
        let (mut count, mut bytes, mut rows) = (0, 0, 0);
        for queued in &self.window {
            bytes += u64::from(queued.block.length);
            let fits =
                count < blocks_max && bytes <= GROUP_BYTES_MAX && rows < rows_max.unwrap_or(usize::MAX);
            let is_alike = queued.slot == first.slot && queued.coverage == first.coverage;
            if count > 0 && !(fits && is_alike) {
                break;
            }
            rows += queued.block.data_count as usize;
            count += 1;
        }
        self.window.drain(..count).collect()
    }
}
