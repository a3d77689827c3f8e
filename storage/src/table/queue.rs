//! The blocks of one output partition that are still to be read: those that filters have ruled out
//! by now are skipped, the others come in groups.
//!
//! Invariant: a scan that may stop early is never given more blocks than the next rows need, as far
//! as that is known.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::physical_expr::{DynamicFilterTracking, PhysicalExpr, conjunction};

use super::blocks::{BlockRef, Coverage, TopicBlocks};
use super::counters::{ScanCounter, ScanMetrics};
use super::pruning::{Pruner, UnitBounds, block_bounds};

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
    /// Blocks of one partition with the same coverage, in the order of the scan.
    Read(Vec<BlockRef>),
    Done,
}

/// How the rows of the blocks are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Columns,
    /// No column at all: their number is enough where it is known.
    Count,
}

#[derive(Debug)]
pub(super) struct BlockQueue {
    blocks: Arc<TopicBlocks>,
    output: Arc<[BlockRef]>,
    position: usize,
    wanted: Wanted,
    late: Option<LateFilters>,
    pruner: Pruner,
    /// For the blocks from `window_start` on, whether they may hold rows that pass.
    window: Vec<bool>,
    window_start: usize,
    group_blocks_max: usize,
}

/// Filters of which some were not known, or not complete, when the scan was planned.
#[derive(Debug)]
struct LateFilters {
    /// All filters, also the planned ones: together they may rule out more.
    filters: Vec<Arc<dyn PhysicalExpr>>,
    schema: SchemaRef,
    tracking: DynamicFilterTracking,
    state: LateState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LateState {
    /// They may need a subquery that runs only when the scan does.
    Untouched,
    InUse,
}

/// What to read, and what blocks are judged by.
pub(super) struct QueueOptions<'a> {
    pub(super) blocks: Arc<TopicBlocks>,
    pub(super) output: Arc<[BlockRef]>,
    pub(super) wanted: Wanted,
    pub(super) fetch: Option<usize>,
    pub(super) planned_filters: &'a [Arc<dyn PhysicalExpr>],
    pub(super) late_filters: &'a [Arc<dyn PhysicalExpr>],
    pub(super) schema: &'a SchemaRef,
}

impl BlockQueue {
    pub(super) fn new(options: QueueOptions<'_>) -> Self {
        let QueueOptions { blocks, output, wanted, fetch, planned_filters, late_filters, schema } = options;
        let late = (!late_filters.is_empty()).then(|| {
            let filters: Vec<_> = planned_filters.iter().chain(late_filters).cloned().collect();
            let tracking = DynamicFilterTracking::classify(&conjunction(filters.iter().cloned()));
            LateFilters { filters, schema: schema.clone(), tracking, state: LateState::Untouched }
        });
        // Where it is not known how many rows pass, and not all may be wanted, groups begin small.
        let group_blocks_max = if late.is_some() || fetch.is_some() { 1 } else { GROUP_BLOCKS_MAX };
        let window_start = 0;
        let pruner = Pruner::new(planned_filters, schema);
        Self {
            blocks,
            output,
            position: 0,
            wanted,
            late,
            pruner,
            window: Vec::new(),
            window_start,
            group_blocks_max,
        }
    }

    /// Rules out batches by the filters as they are now.
    pub(super) fn pruner(&self) -> &Pruner {
        &self.pruner
    }

    pub(super) fn bounds(&self, place: BlockRef) -> UnitBounds {
        block_bounds(&self.blocks, place)
    }

    /// Every row of the block passes every filter, also the late ones.
    pub(super) fn is_covered(&self, place: BlockRef) -> bool {
        place.coverage == Coverage::Full && self.late.is_none()
    }

    /// The next blocks, if at most `rows_wanted` rows are wanted.
    pub(super) fn next(&mut self, rows_wanted: Option<usize>, metrics: &ScanMetrics) -> Next {
        self.skip_pruned(metrics);
        let Some(first) = self.output.get(self.position).copied() else {
            return Next::Done;
        };
        if self.wanted == Wanted::Count && self.is_covered(first) {
            return Next::Count(self.count(rows_wanted, metrics));
        }
        let group = self.group(first, rows_wanted);
        self.position += group.len();
        Next::Read(group)
    }

    fn skip_pruned(&mut self, metrics: &ScanMetrics) {
        if self.late.is_none() {
            return;
        }
        let start = self.position;
        self.refresh();
        while self.position < self.output.len() {
            match self.window.get(self.position - self.window_start) {
                Some(true) => break,
                Some(false) => self.position += 1,
                None => self.judge_window(),
            }
        }
        metrics.add(ScanCounter::BlocksPruned, self.position - start);
    }

    /// Judges the next blocks anew when filters have changed.
    fn refresh(&mut self) {
        let Some(late) = &mut self.late else { return };
        let has_changed = late.tracking.watcher().is_some_and(|watcher| watcher.changed());
        if has_changed || late.state == LateState::Untouched {
            late.state = LateState::InUse;
            self.pruner = Pruner::new(&late.filters, &late.schema);
            self.judge_window();
        }
    }

    fn judge_window(&mut self) {
        let end = self.output.len().min(self.position + WINDOW_BLOCKS);
        let places = &self.output[self.position..end];
        let units: Vec<_> = places.iter().map(|place| block_bounds(&self.blocks, *place)).collect();
        self.window = self.pruner.keep(&units);
        self.window_start = self.position;
    }

    /// Takes the run of covered blocks at the front, as many as are wanted, and counts their rows.
    fn count(&mut self, rows_wanted: Option<usize>, metrics: &ScanMetrics) -> usize {
        let (start, mut rows) = (self.position, 0);
        let wanted = rows_wanted.unwrap_or(usize::MAX);
        while let Some(place) = self.output.get(self.position).filter(|place| self.is_covered(**place)) {
            if rows >= wanted {
                break;
            }
            rows += self.blocks.block(*place).data_count as usize;
            self.position += 1;
        }
        metrics.add(ScanCounter::BlocksCounted, self.position - start);
        rows.min(wanted)
    }

    fn group(&mut self, first: BlockRef, rows_wanted: Option<usize>) -> Vec<BlockRef> {
        // The rows of a covered block are known, so that they can bound the group.
        let rows_max = rows_wanted.filter(|_| self.is_covered(first));
        let blocks_max = if rows_max.is_some() { GROUP_BLOCKS_MAX } else { self.group_blocks_max };
        self.group_blocks_max = (self.group_blocks_max * 2).min(GROUP_BLOCKS_MAX);
        let (mut group, mut bytes, mut rows) = (Vec::new(), 0, 0);
        for (index, place) in self.output[self.position..].iter().enumerate() {
            let block = self.blocks.block(*place);
            bytes += u64::from(block.length);
            let fits =
                index < blocks_max && bytes <= GROUP_BYTES_MAX && rows < rows_max.unwrap_or(usize::MAX);
            let is_alike = place.slot == first.slot && place.coverage == first.coverage;
            if index > 0 && !(fits && is_alike && self.may_pass(self.position + index)) {
                break;
            }
            rows += block.data_count as usize;
            group.push(*place);
        }
        group
    }

    fn may_pass(&self, position: usize) -> bool {
        self.late.is_none() || self.window.get(position - self.window_start).copied().unwrap_or(false)
    }
}
