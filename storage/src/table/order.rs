//! Orders that a scan can give its rows in, or help to give them in. Pure.
//!
//! Invariant: an order that is declared holds in every output partition, for every row.

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};

use super::assignment::{Assignment, Direction, Origin, Weight};
use super::blocks::TopicBlocks;
use super::columns::SystemColumn;
use super::run::BlockRun;
use super::unit::{NO_TIMESTAMP, Unit};
use crate::log::Block;

/// A column of the table, and how it is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SortKey {
    pub(super) column: usize,
    pub(super) options: SortOptions,
}

/// What a scan does for an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScanOrder {
    /// Rows come in this order.
    Sorted { keys: Vec<SortKey>, offsets: Direction },
    /// Blocks are read in an order in which the first rows by time come early.
    Hinted { time: SortOptions },
}

/// The order in which a scan reads the blocks of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadOrder {
    ByOffset(Direction),
    /// Those first that may hold the first rows by time.
    ByTime(SortOptions),
}

impl ReadOrder {
    pub(super) fn of(order: Option<&ScanOrder>) -> Self {
        match order {
            Some(ScanOrder::Sorted { offsets, .. }) => Self::ByOffset(*offsets),
            Some(ScanOrder::Hinted { time }) => Self::ByTime(*time),
            None => Self::ByOffset(Direction::Ascending),
        }
    }

    /// The order of the rows of a block.
    pub(super) fn direction(self) -> Direction {
        match self {
            Self::ByOffset(direction) => direction,
            Self::ByTime(_) => Direction::Ascending,
        }
    }

    /// Puts blocks that ascend by offset into this order.
    pub(super) fn arrange(self, blocks: &mut [Block]) {
        match self {
            Self::ByOffset(Direction::Ascending) => {}
            Self::ByOffset(Direction::Descending) => blocks.reverse(),
            Self::ByTime(time) => blocks.sort_by_cached_key(|block| time_rank(&Unit::of_block(block), time)),
        }
    }
}

/// The keys of an order over the columns that a scan gives out, `None` if there are others.
pub(super) fn sort_keys(order: &[PhysicalSortExpr], projection: &[usize]) -> Option<Vec<SortKey>> {
    order
        .iter()
        .map(|key| {
            let position = key.expr.downcast_ref::<Column>()?.index();
            Some(SortKey { column: *projection.get(position)?, options: key.options })
        })
        .collect()
}

/// The blocks in the order that gives rows sorted by `keys`, or `None` if no order of blocks does.
///
/// Offsets are unique within a partition of the topic, so keys after the offset change nothing; the
/// partition changes nothing either where there is only one.
pub(super) fn sorted(keys: &[SortKey], assignment: &Assignment) -> Option<(ScanOrder, Assignment)> {
    let (first, rest) = keys.split_first()?;
    let column = |key: &SortKey| SystemColumn::from_index(key.column);
    let (partitions, offsets) = match (column(first)?, rest.first()) {
        (SystemColumn::Offset, _) if is_single(assignment) => (Direction::Ascending, first.options.into()),
        (SystemColumn::Partition, Some(second)) if column(second) == Some(SystemColumn::Offset) => {
            (first.options.into(), second.options.into())
        }
        (SystemColumn::Partition, None) => (first.options.into(), Direction::Ascending),
        _ => return None,
    };
    let order = ScanOrder::Sorted { keys: keys.to_vec(), offsets };
    Some((order, assignment.sorted(partitions, offsets)))
}

/// No output partition reads more than one partition of the topic.
pub(super) fn is_single(assignment: &Assignment) -> bool {
    assignment.origins().all(|origin| origin != Origin::Mixed)
}

/// The blocks in an order in which the first rows by time come early, if time is the first key.
pub(super) fn hinted(
    keys: &[SortKey],
    assignment: &Assignment,
    blocks: &TopicBlocks,
) -> Option<(ScanOrder, Assignment)> {
    let first = keys.first().filter(|key| key.column == SystemColumn::Timestamp.index())?;
    let time = first.options;
    let rank = |run: &BlockRun| time_rank(&blocks.unit(run), time);
    let weight = |run: &BlockRun| Weight { bytes: blocks.bytes(run), pieces_max: blocks.pieces_max(run) };
    let assignment = assignment.dealt(rank, weight);
    Some((ScanOrder::Hinted { time }, assignment))
}

/// Ranks a unit by the first of its rows in the order of time.
fn time_rank(unit: &Unit, options: SortOptions) -> (i8, i128) {
    let (rows, nulls) = (unit.data_count, unit.null_timestamps);
    let has_first_null = if options.nulls_first { nulls > 0 } else { nulls == rows };
    let null_rank = match (has_first_null, options.nulls_first) {
        (false, _) => 0,
        (true, true) => -1,
        (true, false) => 1,
    };
    let (min, max) = unit.timestamps.unwrap_or((NO_TIMESTAMP, NO_TIMESTAMP));
    let time = match Direction::from(options) {
        Direction::Ascending => i128::from(min),
        Direction::Descending => -i128::from(max),
    };
    (null_rank, time)
}

/// The declared order of the columns that are given out: as many keys as are among them.
pub(super) fn declared(order: &ScanOrder, projection: &[usize], schema: &SchemaRef) -> Option<LexOrdering> {
    let ScanOrder::Sorted { keys, .. } = order else { return None };
    let declare = |key: &SortKey| {
        let position = projection.iter().position(|column| *column == key.column)?;
        let column = Column::new(schema.field(position).name(), position);
        Some(PhysicalSortExpr::new(Arc::new(column), key.options))
    };
    LexOrdering::new(keys.iter().map_while(declare))
}
