//! Plans a query: names and dialect by the sql crate, the rest by DataFusion.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::execution::SessionState;
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as DataFusionStatement;
use datafusion::sql::sqlparser::ast;
use strandline_sql::{PgType, SessionInfo, rewrite};
use strandline_storage::table::TopicTable;

use crate::catalog::pg_type;
use crate::error::{EngineError, ErrorKind};
use crate::session::OutputColumn;

use super::context::StatementContext;

/// Parameters of one statement, as in the wire protocol, which counts them in 16 bits.
const PARAMETERS_MAX: usize = 65_535;

/// A query that can be run, at this snapshot or a later one.
#[derive(Clone, Debug)]
pub(crate) struct PlannedQuery {
    pub plan: LogicalPlan,
    pub columns: Vec<OutputColumn>,
    /// What each parameter stands for; `None` where nothing says it.
    pub parameters: Vec<ParameterPlace>,
    /// Catalog tables are filled when planned, so such a plan is good for its snapshot only.
    pub reads_catalogs: bool,
    /// The topics whose records it reads.
    pub topics: BTreeSet<String>,
}

/// What a parameter stands for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ParameterPlace {
    /// By the text of the statement.
    pub pg_type: Option<PgType>,
    /// By the plan.
    pub data_type: Option<DataType>,
}

/// # Errors
/// Whatever is wrong with the statement.
pub(crate) async fn plan_query(
    context: &StatementContext,
    query: ast::Statement,
    session: &SessionInfo,
) -> Result<PlannedQuery, EngineError> {
    let rewritten = rewrite(query, context.relations.as_ref(), session)?;
    let statement = DataFusionStatement::Statement(Box::new(rewritten.statement));
    let plan = context.state.statement_to_plan(statement).await?;
    let reads_only =
        SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    reads_only.verify_plan(&plan)?;
    Ok(PlannedQuery {
        columns: output_columns(&context.state, &plan, &rewritten.output_names),
        parameters: parameters(&plan, &rewritten.parameter_types)?,
        reads_catalogs: rewritten.touches_catalog,
        topics: topics_read(&plan)?,
        plan,
    })
}

/// The topics that a plan reads, in subqueries too.
fn topics_read(plan: &LogicalPlan) -> Result<BTreeSet<String>, EngineError> {
    let mut topics = BTreeSet::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(table) = source_as_provider(&scan.source)?.downcast_ref::<TopicTable>()
        {
            topics.insert(table.topic().name.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(topics)
}

/// The columns that clients see. Types are those after the analysis, where it can be made without
/// knowing the parameters.
fn output_columns(state: &SessionState, plan: &LogicalPlan, names: &[String]) -> Vec<OutputColumn> {
    let options = state.config_options();
    let analyzed = state.analyzer().execute_and_check(plan.clone(), options, |_, _| {});
    let schema = analyzed.as_ref().map_or(plan.schema(), LogicalPlan::schema);
    let column = |(index, field): (usize, &Arc<Field>)| {
        let name = names.get(index).unwrap_or_else(|| field.name()).clone();
        OutputColumn { name, pg_type: pg_type(field), field: shown_field(field) }
    };
    schema.fields().iter().enumerate().map(column).collect()
}

/// A column of NULLs is text, as in PostgreSQL.
fn shown_field(field: &Arc<Field>) -> Arc<Field> {
    match field.data_type() {
        DataType::Null => Arc::new(Field::new(field.name(), DataType::Utf8View, true)),
        _ => field.clone(),
    }
}

fn parameters(
    plan: &LogicalPlan,
    by_text: &BTreeMap<usize, PgType>,
) -> Result<Vec<ParameterPlace>, EngineError> {
    let mut parameters = Vec::new();
    for (id, data_type) in plan.get_parameter_types()? {
        let place = parameter_place(&id)?;
        if parameters.len() < place {
            parameters.resize(place, ParameterPlace::default());
        }
        parameters[place - 1].data_type = data_type.filter(|data_type| !data_type.is_null());
        parameters[place - 1].pg_type = by_text.get(&place).copied();
    }
    Ok(parameters)
}

/// The number in `$1`, from 1.
fn parameter_place(id: &str) -> Result<usize, EngineError> {
    let place = id.strip_prefix('$').and_then(|number| number.parse().ok());
    place
        .filter(|place| (1..=PARAMETERS_MAX).contains(place))
        .ok_or_else(|| EngineError::new(ErrorKind::UndefinedParameter, format!("there is no parameter {id}")))
}

impl PlannedQuery {
    /// The types of the parameters: what the client said, else what the plan says, else text.
    pub(crate) fn parameter_types(&self, declared: &[Option<PgType>]) -> Vec<PgType> {
        let count = self.parameters.len().max(declared.len());
        let one = |index: usize| {
            let declared = declared.get(index).copied().flatten().filter(|it| *it != PgType::Unknown);
            let inferred = || {
                let place = self.parameters.get(index)?;
                place.pg_type.or_else(|| place.data_type.as_ref().map(PgType::of_arrow))
            };
            declared.or_else(inferred).unwrap_or(PgType::Text)
        };
        (0..count).map(one).collect()
    }
}
