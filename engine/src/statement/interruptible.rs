//! Makes joins stop when their statement does.
//!
//! DataFusion's joins can work for a long time without coming back to the runtime: a join by a
//! condition goes through all pairs of a batch, and a cross join makes batches out of one. Here a
//! condition looks at the statement's flag each time it is evaluated, and a join comes back to the
//! runtime after a number of batches. What cannot be stopped is one evaluation over one batch.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder,
};

use crate::error::EngineError;

use super::limits::StopFlag;

/// The plan with joins that stop when the flag is set.
pub(crate) fn interruptible(plan: Arc<dyn ExecutionPlan>, flag: &StopFlag) -> Result<Arc<dyn ExecutionPlan>> {
    let changed = plan.transform_up(|node| {
        Ok(match interruptible_join(&node, flag)? {
            Some(join) => Transformed::yes(Arc::new(CooperativeExec::new(join)) as Arc<dyn ExecutionPlan>),
            None => Transformed::no(node),
        })
    })?;
    Ok(changed.data)
}

/// `None` for what is no join.
fn interruptible_join(
    node: &Arc<dyn ExecutionPlan>,
    flag: &StopFlag,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        let Some(filter) = join.filter() else { return Ok(Some(node.clone())) };
        let filter = interruptible_filter(filter, flag);
        let join = NestedLoopJoinExecBuilder::from(join).with_filter(Some(filter)).build()?;
        return Ok(Some(Arc::new(join)));
    }
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        let Some(filter) = join.filter() else { return Ok(Some(node.clone())) };
        let filter = interruptible_filter(filter, flag);
        return Ok(Some(join.builder().with_filter(Some(filter)).build_exec()?));
    }
    Ok(node.downcast_ref::<CrossJoinExec>().map(|_| node.clone()))
}

fn interruptible_filter(filter: &JoinFilter, flag: &StopFlag) -> JoinFilter {
    let expression = Interruptible { inner: filter.expression().clone(), flag: flag.clone() };
    JoinFilter::new(Arc::new(expression), filter.column_indices().to_vec(), filter.schema().clone())
}

/// An expression that fails once the flag is set.
#[derive(Debug)]
struct Interruptible {
    inner: Arc<dyn PhysicalExpr>,
    flag: StopFlag,
}

impl PartialEq for Interruptible {
    fn eq(&self, other: &Self) -> bool {
        self.inner.as_ref() == other.inner.as_ref()
    }
}

impl Eq for Interruptible {}

impl Hash for Interruptible {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl fmt::Display for Interruptible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PhysicalExpr for Interruptible {
    fn data_type(&self, input_schema: &Schema) -> Result<DataType> {
        self.inner.data_type(input_schema)
    }

    fn nullable(&self, input_schema: &Schema) -> Result<bool> {
        self.inner.nullable(input_schema)
    }

    fn return_field(&self, input_schema: &Schema) -> Result<FieldRef> {
        self.inner.return_field(input_schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        match self.flag.reason() {
            Some(reason) => Err(DataFusionError::External(Box::new(EngineError::from(reason)))),
            None => self.inner.evaluate(batch),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let inner = children.pop().unwrap_or_else(|| self.inner.clone());
        Ok(Arc::new(Self { inner, flag: self.flag.clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}
