//! The one leaf of every plan over a topic: what it reads, in which order, with which filters.
//!
//! Invariant: filters are kept over the columns of the table, whatever columns are given out.
//! Invariant: every filter that is taken is evaluated exactly, so nobody above has to.
//! Invariant: a scan with a limit takes no more filters: it would drop rows that count.

use std::fmt::{self, Formatter};
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Result, Statistics, internal_datafusion_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::source::DataSource;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, SortOrderPushdownResult, apply_expression_roots};

use super::assignment::{Assignment, Direction, Weight};
use super::blocks::TopicBlocks;
use super::columns::TableLayout;
use super::counters::{ScanCounter, ScanCounters, ScanMetrics};
use super::filter::map_columns;
use super::order::{self, ReadOrder, ScanOrder};
use super::plan::{Indexes, PlannedRuns, PlanningWork, plan_runs};
use super::pruning::Judge;
use super::queue::Wanted;
use super::run::BlockRun;
use super::statistics::{Certainty, RowSummary};
use super::stream::{StreamOptions, open_stream};

/// So few rows are read faster by one output partition for each partition than by several that all
/// begin.
const FEW_ROWS: usize = 8192;

/// How to plan a scan.
#[derive(Debug)]
pub(super) struct ScanOptions {
    pub(super) layout: Arc<TableLayout>,
    pub(super) blocks: TopicBlocks,
    /// Positions in the table.
    pub(super) projection: Vec<usize>,
    /// Over the columns of the table.
    pub(super) filters: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) fetch: Option<usize>,
    pub(super) target_partitions: usize,
    pub(super) counters: Arc<ScanCounters>,
}

/// A scan of one topic at one snapshot.
#[derive(Clone, Debug)]
pub(super) struct LogScan {
    layout: Arc<TableLayout>,
    blocks: Arc<TopicBlocks>,
    /// Of the planned filters.
    judge: Arc<Judge>,
    planning: PlanningWork,
    assignment: Assignment,
    /// Of all runs as they were planned, before they were cut into pieces.
    total: RowSummary,
    /// By output partition.
    summaries: Arc<[RowSummary]>,
    projection: Vec<usize>,
    schema: SchemaRef,
    /// Known when the scan was planned: blocks were chosen and judged by them.
    planned_filters: Vec<Arc<dyn PhysicalExpr>>,
    /// Pushed down later; they may change while the scan runs.
    late_filters: Vec<Arc<dyn PhysicalExpr>>,
    order: Option<ScanOrder>,
    fetch: Option<usize>,
    metrics: ExecutionPlanMetricsSet,
    counters: Arc<ScanCounters>,
}

impl LogScan {
    pub(super) async fn plan(options: ScanOptions) -> Result<Self> {
        let ScanOptions { layout, mut blocks, projection, filters, fetch, target_partitions, counters } =
            options;
        let judge = Judge::new(&filters, &layout.schema);
        let indexes = if fetch.is_some() { Indexes::WhenReached } else { Indexes::Planned };
        let wanted = Wanted::of(&projection);
        let PlannedRuns { kept, work } = plan_runs(&mut blocks, &judge, wanted, indexes).await;
        counters.add(ScanCounter::SliceIndexesLoaded, work.indexes_loaded as u64);
        let mut assignment = Assignment::spread(&kept, target_partitions, |run| weight(&blocks, run, wanted));
        if filters.is_empty() && fetch.is_some_and(|rows| rows <= FEW_ROWS) {
            assignment = assignment.joined(Direction::Ascending);
        }
        Ok(Self {
            judge: Arc::new(judge),
            planning: work,
            total: RowSummary::of(&blocks, &kept),
            summaries: summaries(&blocks, &assignment),
            assignment,
            blocks: Arc::new(blocks),
            schema: Arc::new(layout.schema.project(&projection)?),
            layout,
            projection,
            planned_filters: filters,
            late_filters: Vec::new(),
            order: None,
            fetch,
            metrics: ExecutionPlanMetricsSet::new(),
            counters,
        })
    }

    fn with_assignment(self, assignment: Assignment) -> Self {
        Self { summaries: summaries(&self.blocks, &assignment), assignment, ..self }
    }

    /// What planning ruled out belongs to no output partition; the first one counts it.
    fn count_planned(&self, metrics: &ScanMetrics, partition: usize) {
        if partition == 0 {
            metrics.add(ScanCounter::SlicesPruned, self.planning.slices_pruned);
            metrics.add_own(ScanCounter::SliceIndexesLoaded, self.planning.indexes_loaded);
            metrics.add(ScanCounter::BlocksTotal, self.planning.blocks_total);
            metrics.add(ScanCounter::BlocksPruned, self.planning.blocks_pruned);
        }
    }

    /// An expression over the columns that are given out, over those of the table.
    fn to_table(&self, filter: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        map_columns(filter, |column| {
            let position = self.projection[column.index()];
            Column::new(self.layout.schema.field(position).name(), position)
        })
    }
}

impl DataSource for LogScan {
    fn open(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let output = self.assignment.outputs.get(partition);
        let output =
            output.ok_or_else(|| internal_datafusion_err!("there is no output partition {partition}"))?;
        let metrics = ScanMetrics::new(&self.metrics, partition, self.counters.clone());
        self.count_planned(&metrics, partition);
        open_stream(StreamOptions {
            layout: self.layout.clone(),
            blocks: self.blocks.clone(),
            output: output.clone(),
            projection: self.projection.clone(),
            schema: self.schema.clone(),
            judge: self.judge.clone(),
            planned_filters: &self.planned_filters,
            late_filters: &self.late_filters,
            order: ReadOrder::of(self.order.as_ref()),
            fetch: self.fetch,
            metrics,
            memory: &context.runtime_env().memory_pool,
            partition,
        })
    }

    fn fmt_as(&self, _: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let PlanningWork { blocks_total, blocks_pruned, slices_total, slices_pruned, .. } = self.planning;
        write!(f, "LogScan: topic={}", self.blocks.topic_name)?;
        if slices_total > 0 {
            write!(f, ", slices={}/{slices_total}", slices_total - slices_pruned)?;
        }
        write!(f, ", blocks={}/{blocks_total}", blocks_total - blocks_pruned)?;
        write!(f, ", columns=[{}]", names(self.schema.fields()))?;
        let filters: Vec<_> =
            self.planned_filters.iter().chain(&self.late_filters).map(ToString::to_string).collect();
        if !filters.is_empty() {
            write!(f, ", filters=[{}]", filters.join(" AND "))?;
        }
        match &self.order {
            Some(ScanOrder::Hinted { .. }) => write!(f, ", blocks_by=ts")?,
            Some(order) => {
                if let Some(order) = order::declared(order, &self.projection, &self.schema) {
                    write!(f, ", order=[{order}]")?;
                }
            }
            None => {}
        }
        match self.fetch {
            Some(fetch) => write!(f, ", fetch={fetch}"),
            None => Ok(()),
        }
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.assignment.outputs.len())
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        let order = self.order.as_ref();
        match order.and_then(|order| order::declared(order, &self.projection, &self.schema)) {
            Some(order) => EquivalenceProperties::new_with_orderings(self.schema.clone(), [order]),
            None => EquivalenceProperties::new(self.schema.clone()),
        }
    }

    fn scheduling_type(&self) -> SchedulingType {
        SchedulingType::Cooperative
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let limited = |summary: &RowSummary| summary.clone().limited(self.fetch);
        let summary = match partition {
            Some(partition) => self
                .summaries
                .get(partition)
                .map(limited)
                .ok_or_else(|| internal_datafusion_err!("there is no output partition {partition}"))?,
            None if self.fetch.is_none() => self.total.clone(),
            None => RowSummary::merge(&self.summaries.iter().map(limited).collect::<Vec<_>>()),
        };
        let certainty = if self.late_filters.is_empty() { Certainty::Exact } else { Certainty::Estimate };
        let mut statistics = summary.statistics(&self.layout.schema, certainty);
        let columns: Vec<ColumnStatistics> =
            self.projection.iter().map(|position| statistics.column_statistics[*position].clone()).collect();
        statistics.column_statistics = columns;
        Ok(Arc::new(statistics))
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn DataSource>> {
        let scan = Self { fetch, ..self.clone() };
        let is_single = order::is_single(&self.assignment);
        Some(Arc::new(match (&self.order, fetch) {
            (Some(ScanOrder::Sorted { offsets, .. }), Some(_)) if is_single => {
                scan.with_assignment(self.assignment.joined(*offsets))
            }
            _ => scan,
        }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.metrics.clone()
    }

    /// Takes a projection over that is made of columns alone.
    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        let (mut positions, mut fields): (Vec<usize>, Vec<Field>) = (Vec::new(), Vec::new());
        for expression in projection.iter() {
            let Some(column) = expression.expr.downcast_ref::<Column>() else {
                return Ok(None);
            };
            positions.push(self.projection[column.index()]);
            fields.push(self.schema.field(column.index()).clone().with_name(&expression.alias));
        }
        let schema = Arc::new(Schema::new(fields));
        Ok(Some(Arc::new(Self { projection: positions, schema, ..self.clone() })))
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn DataSource>>> {
        if filters.is_empty() || self.fetch.is_some() {
            let refused = vec![PushedDown::No; filters.len()];
            return Ok(FilterPushdownPropagation::with_parent_pushdown_result(refused));
        }
        let mut scan = self.clone();
        for filter in &filters {
            scan.late_filters.push(self.to_table(filter)?);
        }
        let taken = vec![PushedDown::Yes; filters.len()];
        Ok(FilterPushdownPropagation::with_parent_pushdown_result(taken).with_updated_node(Arc::new(scan)))
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn DataSource>>> {
        let Some(keys) = order::sort_keys(order, &self.projection).filter(|_| self.fetch.is_none()) else {
            return Ok(SortOrderPushdownResult::Unsupported);
        };
        if let Some((order, assignment)) = order::sorted(&keys, &self.assignment) {
            let scan = Self { order: Some(order), ..self.clone() }.with_assignment(assignment);
            return Ok(SortOrderPushdownResult::Exact { inner: Arc::new(scan) });
        }
        Ok(match order::hinted(&keys, &self.assignment, &self.blocks) {
            Some((order, assignment)) => {
                let scan = Self { order: Some(order), ..self.clone() };
                SortOrderPushdownResult::Inexact { inner: Arc::new(scan.with_assignment(assignment)) }
            }
            None => SortOrderPushdownResult::Unsupported,
        })
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.planned_filters.iter().chain(&self.late_filters), f)
    }
}

/// A slice that is only counted, and needs no index for it, is no work and stays whole.
fn weight(blocks: &TopicBlocks, run: &BlockRun, wanted: Wanted) -> Weight {
    if wanted.is_counted(run.coverage) && blocks.unloaded(run).is_some() {
        return Weight { bytes: 0, pieces_max: 1 };
    }
    Weight { bytes: blocks.bytes(run), pieces_max: blocks.pieces_max(run) }
}

fn summaries(blocks: &TopicBlocks, assignment: &Assignment) -> Arc<[RowSummary]> {
    assignment.outputs.iter().map(|output| RowSummary::of(blocks, output)).collect()
}

fn names<'a>(fields: impl IntoIterator<Item = &'a Arc<Field>>) -> String {
    fields.into_iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ")
}
