//! The system tables of schema `strandline`: what the log, the columns and the running queries are.
//!
//! Invariant: rows are made when a statement runs, from the snapshot and the columns that it carries.

mod columns;
mod offsets;
mod partitions;
mod queries;
mod segments;
mod settings;
mod topics;
mod wal;

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMillisecondArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::TableType;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;

use crate::catalog::StatementRelations;
use crate::error::{EngineError, ErrorKind};
use crate::queries::RunningQueries;
use crate::session::settings::SettingRow;

/// A table of schema `strandline`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemTable {
    Topics,
    Columns,
    Partitions,
    Segments,
    Wal,
    ConsumerOffsets,
    Settings,
    Queries,
}

/// What a statement carries for the system tables that it may read.
#[derive(Debug)]
pub struct SystemContext {
    pub relations: Arc<StatementRelations>,
    pub settings: Vec<SettingRow>,
    pub queries: Arc<RunningQueries>,
}

impl SystemTable {
    pub const ALL: [Self; 8] = [
        Self::Topics,
        Self::Columns,
        Self::Partitions,
        Self::Segments,
        Self::Wal,
        Self::ConsumerOffsets,
        Self::Settings,
        Self::Queries,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Topics => "topics",
            Self::Columns => "columns",
            Self::Partitions => "partitions",
            Self::Segments => "segments",
            Self::Wal => "wal",
            Self::ConsumerOffsets => "consumer_offsets",
            Self::Settings => "settings",
            Self::Queries => "queries",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    pub fn schema(self) -> SchemaRef {
        Arc::new(Schema::new(match self {
            Self::Topics => topics::fields(),
            Self::Columns => columns::fields(),
            Self::Partitions => partitions::fields(),
            Self::Segments => segments::fields(),
            Self::Wal => wal::fields(),
            Self::ConsumerOffsets => offsets::fields(),
            Self::Settings => settings::fields(),
            Self::Queries => queries::fields(),
        }))
    }

    fn rows(self, context: &SystemContext) -> Vec<ArrayRef> {
        match self {
            Self::Topics => topics::rows(context),
            Self::Columns => columns::rows(context),
            Self::Partitions => partitions::rows(context),
            Self::Segments => segments::rows(context),
            Self::Wal => wal::rows(context),
            Self::ConsumerOffsets => offsets::rows(context),
            Self::Settings => settings::rows(context),
            Self::Queries => queries::rows(context),
        }
    }
}

/// A system table as DataFusion reads it.
#[derive(Debug)]
pub struct SystemTableProvider {
    table: SystemTable,
    schema: SchemaRef,
}

impl SystemTableProvider {
    pub fn new(table: SystemTable) -> Self {
        Self { table, schema: table.schema() }
    }
}

#[async_trait]
impl TableProvider for SystemTableProvider {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let context = state.config().get_extension::<SystemContext>().ok_or_else(|| {
            let message = format!("the session carries nothing to read {} from", self.table.name());
            DataFusionError::External(Box::new(EngineError::new(ErrorKind::Internal, message)))
        })?;
        let batch = RecordBatch::try_new(self.schema.clone(), self.table.rows(&context))?;
        let plan =
            MemorySourceConfig::try_new_exec(&[vec![batch]], self.schema.clone(), projection.cloned())?;
        Ok(plan)
    }
}

fn text(name: &str) -> Field {
    Field::new(name, DataType::Utf8, false)
}

fn optional_text(name: &str) -> Field {
    Field::new(name, DataType::Utf8, true)
}

fn integer(name: &str) -> Field {
    Field::new(name, DataType::Int32, false)
}

fn bigint(name: &str) -> Field {
    Field::new(name, DataType::Int64, false)
}

fn time(name: &str) -> Field {
    Field::new(name, DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), false)
}

fn optional_bigint(name: &str) -> Field {
    bigint(name).with_nullable(true)
}

fn optional_time(name: &str) -> Field {
    time(name).with_nullable(true)
}

fn times(values: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(TimestampMillisecondArray::from_iter_values(values).with_timezone("UTC"))
}

fn optional_times(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(TimestampMillisecondArray::from_iter(values).with_timezone("UTC"))
}

fn counts(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values.map(count)))
}

fn optional_counts(values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    Arc::new(Int64Array::from_iter(values.map(|value| value.map(count))))
}

/// A count as SQL has it.
fn count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
