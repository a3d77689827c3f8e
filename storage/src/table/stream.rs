//! The rows of one output partition, as they are asked for: one group of blocks is in memory at a
//! time, and of it a few batches decoded.
//!
//! Invariant: nothing runs unless the stream is polled, so dropping it stops everything.
//! Invariant: a damaged block fails the stream only when the stream gets there.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use futures::stream::try_unfold;

use super::blocks::TopicBlocks;
use super::columns::TableLayout;
use super::counters::{ScanCounter, ScanMetrics};
use super::decode::{BlockBytes, DecodedBatch, PendingBatch, rows_of};
use super::filter::FilterProgram;
use super::order::ReadOrder;
use super::pruning::Judge;
use super::queue::{BlockQueue, Next, QueueOptions, QueuedBlock, Wanted};
use super::rows::{Row, RowSet};
use super::run::{BlockRun, Coverage};

/// Records are decoded until there are this many, and columns are built for as many at a time.
const ROWS_AT_A_TIME: usize = 8192;

/// What one output partition reads, and how.
pub(super) struct StreamOptions<'a> {
    pub(super) layout: Arc<TableLayout>,
    pub(super) blocks: Arc<TopicBlocks>,
    pub(super) output: Arc<[BlockRun]>,
    pub(super) projection: Vec<usize>,
    pub(super) schema: SchemaRef,
    pub(super) judge: Arc<Judge>,
    pub(super) planned_filters: &'a [Arc<dyn PhysicalExpr>],
    pub(super) late_filters: &'a [Arc<dyn PhysicalExpr>],
    pub(super) order: ReadOrder,
    pub(super) fetch: Option<usize>,
    pub(super) metrics: ScanMetrics,
    pub(super) memory: &'a Arc<dyn MemoryPool>,
    pub(super) partition: usize,
}

/// Opens the stream of one output partition.
pub(super) fn open_stream(options: StreamOptions<'_>) -> Result<SendableRecordBatchStream> {
    let schema = options.schema.clone();
    let scan = OutputScan::new(options)?;
    let batches =
        try_unfold(scan, |mut scan| async move { Ok(scan.next().await?.map(|batch| (batch, scan))) });
    Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(schema, batches.boxed()))))
}

struct OutputScan {
    layout: Arc<TableLayout>,
    blocks: Arc<TopicBlocks>,
    projection: Vec<usize>,
    schema: SchemaRef,
    order: ReadOrder,
    /// Rows that are still wanted, if there is a limit.
    rows_wanted: Option<usize>,
    metrics: ScanMetrics,
    memory: MemoryReservation,
    queue: BlockQueue,
    all_filters: FilterProgram,
    late_filters: FilterProgram,
    group: Group,
    ready: VecDeque<RecordBatch>,
}

/// What is left of the blocks that were read last.
#[derive(Default)]
struct Group {
    slot: u32,
    batches: VecDeque<PendingBatch>,
    filters: GroupFilters,
}

/// Which filters the rows of a group have to be held against.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum GroupFilters {
    #[default]
    All,
    /// Those that planning knew are known to pass.
    Late,
}

impl OutputScan {
    fn new(options: StreamOptions<'_>) -> Result<Self> {
        let StreamOptions { layout, blocks, output, projection, fetch, order, judge, .. } = options;
        let (planned_filters, late_filters) = (options.planned_filters, options.late_filters);
        let all: Vec<_> = planned_filters.iter().chain(late_filters).cloned().collect();
        let queue = BlockQueue::new(QueueOptions {
            blocks: blocks.clone(),
            output,
            order,
            wanted: Wanted::of(&projection),
            fetch,
            judge,
            planned_filters,
            late_filters,
            schema: &layout.schema,
        });
        let consumer = MemoryConsumer::new(format!("LogScan[{}]", options.partition));
        Ok(Self {
            all_filters: FilterProgram::new(&all, &layout.schema)?,
            late_filters: FilterProgram::new(late_filters, &layout.schema)?,
            layout,
            blocks,
            projection,
            schema: options.schema,
            order,
            rows_wanted: fetch,
            metrics: options.metrics,
            memory: consumer.register(options.memory),
            queue,
            group: Group::default(),
            ready: VecDeque::new(),
        })
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                self.metrics.add(ScanCounter::RowsEmitted, batch.num_rows());
                return Ok(Some(batch));
            }
            if self.rows_wanted == Some(0) {
                return Ok(None);
            }
            if !self.group.batches.is_empty() {
                self.decode_some()?;
                // Where filters drop everything, no row gives the runtime a chance to do other work.
                tokio::task::consume_budget().await;
                continue;
            }
            match self.queue.next(self.rows_wanted, &self.metrics) {
                Next::Count(rows) => self.push(Vec::new(), rows)?,
                Next::Load(place) => {
                    let index = self.blocks.index(place).await?;
                    self.queue.take_index(&index, &self.metrics);
                }
                Next::Read(queued) => self.read(queued).await?,
                Next::Done => return Ok(None),
            }
        }
    }

    /// Reads blocks and lines up the batches that are worth decoding.
    async fn read(&mut self, queued: Vec<QueuedBlock>) -> Result<()> {
        let Some(QueuedBlock { slot, coverage, .. }) = queued.first().copied() else { return Ok(()) };
        let bytes = self.read_bytes(slot, &queued).await?;
        self.metrics.add(ScanCounter::BlocksRead, queued.len());
        self.metrics.add(ScanCounter::BytesScanned, bytes.iter().map(|bytes| bytes.len()).sum());
        let filters = match coverage {
            Coverage::Full => GroupFilters::Late,
            Coverage::Unknown => GroupFilters::All,
        };
        self.group = Group { slot, batches: VecDeque::new(), filters };
        for (queued, bytes) in queued.into_iter().zip(bytes) {
            let block = BlockBytes {
                blocks: &self.blocks,
                slot,
                block: queued.block,
                bytes,
                bounds: self.queue.bounds(&queued),
                pruner: (!self.queue.is_covered(coverage)).then(|| self.queue.pruner()),
            };
            self.group.batches.extend(block.batches(self.order.direction(), &self.metrics)?);
        }
        Ok(())
    }

    /// The bytes of each block. The reader joins blocks that stand side by side in one object when
    /// they come in ascending order.
    async fn read_bytes(&self, slot: u32, queued: &[QueuedBlock]) -> Result<Vec<Bytes>> {
        let mut ascending: Vec<usize> = (0..queued.len()).collect();
        ascending.sort_unstable_by_key(|index| queued[*index].block.base_offset);
        let blocks: Vec<_> = ascending.iter().map(|index| queued[*index].block).collect();
        let mut bytes = vec![Bytes::new(); queued.len()];
        for (index, read) in ascending.into_iter().zip(self.blocks.read(slot, &blocks).await?) {
            bytes[index] = read;
        }
        Ok(bytes)
    }

    /// Decodes the next batches of the group, and makes their rows ready.
    fn decode_some(&mut self) -> Result<()> {
        let elapsed = self.metrics.elapsed_compute().clone();
        let _timer = elapsed.timer();
        let decoded = self.decode_batches()?;
        self.memory.try_resize(decoded.iter().map(DecodedBatch::memory_bytes).sum())?;
        let rows = rows_of(&decoded, &self.blocks, self.group.slot, self.order.direction())?;
        self.metrics.add(ScanCounter::RecordsDecoded, rows.len());
        for rows in rows.chunks(ROWS_AT_A_TIME) {
            if self.rows_wanted == Some(0) {
                break;
            }
            self.make_ready(rows)?;
        }
        self.memory.free();
        Ok(())
    }

    fn decode_batches(&mut self) -> Result<Vec<DecodedBatch>> {
        // Without a filter, a row that is decoded is a row that is given out.
        let rows_max = match self.rows_wanted {
            Some(wanted) if self.filters().is_empty() => wanted.min(ROWS_AT_A_TIME),
            _ => ROWS_AT_A_TIME,
        };
        let (mut decoded, mut rows) = (Vec::new(), 0);
        while rows < rows_max {
            let Some(batch) = self.group.batches.pop_front() else { break };
            rows += usize::try_from(batch.header.record_count).unwrap_or(0);
            decoded.push(batch.decode(&self.blocks, self.group.slot, &self.metrics)?);
        }
        Ok(decoded)
    }

    fn filters(&self) -> &FilterProgram {
        match self.group.filters {
            GroupFilters::All => &self.all_filters,
            GroupFilters::Late => &self.late_filters,
        }
    }

    /// Filters rows, and builds the wanted columns of those that pass.
    fn make_ready(&mut self, rows: &[Row<'_>]) -> Result<()> {
        let layout = self.layout.clone();
        let partition = self.blocks.partition(self.group.slot).partition;
        let mut rows = RowSet::new(&layout, partition, rows.iter().collect());
        self.filters().retain(&mut rows)?;
        if let Some(wanted) = self.rows_wanted {
            rows.truncate(wanted);
        }
        if rows.is_empty() {
            return Ok(());
        }
        let columns = rows.columns(&self.projection)?;
        self.push(columns, rows.len())
    }

    fn push(&mut self, columns: Vec<ArrayRef>, rows: usize) -> Result<()> {
        if let Some(wanted) = &mut self.rows_wanted {
            *wanted = wanted.saturating_sub(rows);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        self.ready.push_back(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?);
        Ok(())
    }
}
