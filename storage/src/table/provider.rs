//! A topic as a table of the query engine.
//!
//! Invariant: a table holds no state of the log. Each statement brings the snapshot that it reads,
//! so that a table may outlive any of them (views, prepared statements).

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Result};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_expr::execution_props::ExecutionProps;
use datafusion::physical_plan::ExecutionPlan;

use super::blocks::{TableSnapshot, TopicBlocks};
use super::columns::{ColumnFormat, TableLayout};
use super::counters::ScanCounters;
use super::decoder::PayloadDecoder;
use super::error::{ScanError, external};
use super::source::{LogScan, ScanOptions};
use crate::log::Topic;

/// What a table shows, and how.
#[derive(Clone, Debug)]
pub struct TopicTableOptions {
    pub topic: Arc<Topic>,
    pub key_format: ColumnFormat,
    pub value_format: ColumnFormat,
    /// `None` for a topic without payload columns.
    pub decoder: Option<Arc<dyn PayloadDecoder>>,
}

/// A topic as a table. Statements must carry a [`TableSnapshot`] in their session configuration,
/// and may carry [`ScanCounters`].
#[derive(Debug)]
pub struct TopicTable {
    topic: Arc<Topic>,
    layout: Arc<TableLayout>,
}

impl TopicTable {
    pub fn new(options: TopicTableOptions) -> Self {
        let TopicTableOptions { topic, key_format, value_format, decoder } = options;
        Self { topic, layout: Arc::new(TableLayout::new(key_format, value_format, decoder)) }
    }

    pub fn topic(&self) -> &Arc<Topic> {
        &self.topic
    }

    fn columns(&self) -> Result<DFSchema> {
        DFSchema::try_from(self.layout.schema.as_ref().clone())
    }
}

#[async_trait]
impl TableProvider for TopicTable {
    fn schema(&self) -> SchemaRef {
        self.layout.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// The scan evaluates every filter that it can evaluate at all: subqueries, for one, it cannot.
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let columns = self.columns()?;
        let (properties, context) = (ExecutionProps::new(), PhysicalPlanningContext::default());
        let support = |filter: &&Expr| {
            let filter = unnormalize_col(Expr::clone(filter));
            match create_physical_expr(&filter, &columns, &properties, &context) {
                Ok(_) if !filter.is_volatile() => TableProviderFilterPushDown::Exact,
                _ => TableProviderFilterPushDown::Unsupported,
            }
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let topic = || self.topic.name.clone();
        let snapshot = state
            .config()
            .get_extension::<TableSnapshot>()
            .ok_or_else(|| external(ScanError::NoSnapshot { topic: topic() }))?;
        let columns = self.columns()?;
        let compile = |filter: &Expr| state.create_physical_expr(filter.clone(), &columns);
        let scan = LogScan::plan(ScanOptions {
            layout: self.layout.clone(),
            blocks: TopicBlocks::resolve(&snapshot.0, &self.topic)?,
            projection: projection.map_or_else(|| (0..columns.fields().len()).collect(), Vec::clone),
            filters: filters.iter().map(compile).collect::<Result<_>>()?,
            fetch: limit,
            target_partitions: state.config().target_partitions(),
            counters: state.config().get_extension::<ScanCounters>().unwrap_or_default(),
        })
        .await?;
        Ok(DataSourceExec::from_data_source(scan))
    }
}
