//! Queries of a session: prepared at one snapshot, run at another.
//!
//! Invariant: a plan holds no data, so it runs at a later snapshot as it is while its topics live and
//! the session means the same by its literals; otherwise the statement is planned again, with the
//! columns that it had, and refused when its result would have other ones.

use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::scalar::ScalarValue;
use datafusion::sql::parser::Statement as DataFusionStatement;
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast;
use strandline_sql::{Explain, Statement, parse_instant};
use strandline_storage::log::{Snapshot, Topic};

use crate::catalog::{Asker, KnownColumns, SYSTEM_SCHEMA, StatementRelations};
use crate::error::{EngineError, ErrorKind};
use crate::infer::columns::ColumnsOrigin;
use crate::permissions::Grants;
use crate::statement::{
    Limits, PlannedQuery, RowJob, RowStream, StatementContext, bind, explain, plan_query, statement_state,
    stream_rows,
};

use super::introspection;
use super::prepared::{Execution, Notice, OutputColumn, Prepared, RowsTag};
use super::shared::SessionCore;

/// A query as it was planned, and what has to hold for the plan to be used again.
#[derive(Debug)]
pub(crate) struct PreparedQuery {
    pub planned: PlannedQuery,
    statement: ast::Statement,
    /// The columns of every topic that was looked up.
    known: KnownColumns,
    time_zone: String,
    notices: Vec<Notice>,
}

pub(super) async fn prepare(
    core: &SessionCore,
    statement: &ast::Statement,
) -> Result<PreparedQuery, EngineError> {
    let introspection = introspection::plannable(statement)?;
    let statement = introspection.as_ref().unwrap_or(statement);
    let (snapshot, grants) = (core.engine.log.snapshot(), core.grants());
    let mut topics = named_topics(statement, &snapshot);
    topics.retain(|topic| grants.shows_topic(&topic.name));
    core.engine.columns.catch_up(&snapshot, &topics, core.engine.clock().as_ref()).await;
    let context = context(core, snapshot, grants, KnownColumns::new())?;
    let planned = plan_query(&context, statement.clone(), &core.info()).await?;
    context.relations.grants().expect_readable(&planned.topics)?;
    Ok(PreparedQuery {
        planned,
        statement: statement.clone(),
        notices: notices(&context.relations, &topics),
        known: context.relations.known_columns(),
        time_zone: core.settings.time_zone(),
    })
}

fn context(
    core: &SessionCore,
    snapshot: Snapshot,
    grants: Grants,
    known: KnownColumns,
) -> Result<StatementContext, EngineError> {
    let asker = Asker { database: core.database.clone(), user: core.user.clone(), grants };
    let relations = StatementRelations::new(snapshot, core.engine.columns.clone(), asker, known);
    statement_state(core, Arc::new(relations))
}

/// The topics whose columns the statement may need: those that it names in any case, or all when it
/// reads a table about them.
fn named_topics(statement: &ast::Statement, snapshot: &Snapshot) -> Vec<Arc<Topic>> {
    let statement = DataFusionStatement::Statement(Box::new(statement.clone()));
    let Ok((tables, _)) = resolve_table_references(&statement, true) else { return Vec::new() };
    let is_about_topics = tables.iter().any(|table| {
        matches!(table.schema(), Some(SYSTEM_SCHEMA | "information_schema" | "pg_catalog"))
            || table.table().starts_with("pg_")
    });
    let is_named = |topic: &&Arc<Topic>| {
        is_about_topics || tables.iter().any(|table| table.table().eq_ignore_ascii_case(&topic.name))
    };
    snapshot.topics().filter(is_named).cloned().collect()
}

fn notices(relations: &StatementRelations, topics: &[Arc<Topic>]) -> Vec<Notice> {
    let is_provisional =
        |topic: &&Arc<Topic>| relations.topic_columns(topic).origin == ColumnsOrigin::Provisional;
    let provisional: Vec<_> =
        topics.iter().filter(is_provisional).map(|topic| format!("\"{}\"", topic.name)).collect();
    if provisional.is_empty() {
        return Vec::new();
    }
    let message = format!(
        "columns of {} were inferred from at most {} records per partition and may change",
        provisional.join(", "),
        crate::infer::provisional::RECORDS_PER_PARTITION_MAX,
    );
    vec![Notice::informational(message)]
}

/// A statement that is bound and ready to run.
struct Ready {
    state: SessionState,
    plan: LogicalPlan,
    columns: Vec<OutputColumn>,
}

async fn ready(
    core: &SessionCore,
    query: &PreparedQuery,
    values: Vec<ScalarValue>,
) -> Result<Ready, EngineError> {
    let snapshot = core.engine.log.snapshot();
    let can_reuse = !query.planned.reads_catalogs
        && query.time_zone == core.settings.time_zone()
        && query.known.keys().all(|topic_id| snapshot.topic_by_id(*topic_id).is_some());
    let context = context(core, snapshot, core.grants(), query.known.clone())?;
    let replanned = match can_reuse {
        true => None,
        false => Some(plan_query(&context, query.statement.clone(), &core.info()).await?),
    };
    let planned = replanned.as_ref().unwrap_or(&query.planned);
    context.relations.grants().expect_readable(&planned.topics)?;
    expect_same_columns(&query.planned.columns, &planned.columns)?;
    let info = core.info();
    let plan = bind(planned, values, &|text| Ok(parse_instant(text, &info)?))?;
    Ok(Ready { state: context.state, plan, columns: query.planned.columns.clone() })
}

fn expect_same_columns(described: &[OutputColumn], found: &[OutputColumn]) -> Result<(), EngineError> {
    let shape = |columns: &[OutputColumn]| -> Vec<_> {
        columns.iter().map(|column| (column.name.clone(), column.pg_type)).collect()
    };
    if shape(described) != shape(found) {
        return Err(EngineError::new(ErrorKind::PlanChanged, "cached plan must not change result type"));
    }
    Ok(())
}

/// Runs a statement that has a plan; whoever calls stops it before the first row.
pub(super) async fn begin(
    core: &SessionCore,
    prepared: &Prepared,
    values: Vec<ScalarValue>,
    limits: Limits,
) -> Result<Execution, EngineError> {
    let query = prepared.query().expect("the caller looked for the plan");
    match prepared.statement() {
        Statement::Explain(explained) => {
            execute_explain(core, (prepared, explained), (query, values), &limits).await
        }
        _ => execute(core, prepared, (query, values), limits).await,
    }
}

async fn execute(
    core: &SessionCore,
    prepared: &Prepared,
    (query, values): (&PreparedQuery, Vec<ScalarValue>),
    limits: Limits,
) -> Result<Execution, EngineError> {
    let entry = core.start_query(prepared.text());
    let ready = ready(core, query, values).await?;
    let columns = ready.columns.clone();
    let job = RowJob { state: ready.state, plan: ready.plan, columns: ready.columns, limits, entry };
    let stream = stream_rows(&core.engine, job);
    Ok(Execution::Rows { columns, stream, tag: RowsTag::Select, notices: query.notices.clone() })
}

async fn execute_explain(
    core: &SessionCore,
    (prepared, explained): (&Prepared, &Explain),
    (query, values): (&PreparedQuery, Vec<ScalarValue>),
    limits: &Limits,
) -> Result<Execution, EngineError> {
    let _entry = core.start_query(prepared.text());
    let options = (explained.mode, explained.detail);
    let clock = core.engine.clock().clone();
    let _permit = core.engine.query_permit().await?;
    let ready = ready(core, query, values).await?;
    let lines = explain(&ready.state, &ready.plan, options, (clock.as_ref(), limits.flag())).await?;
    let stream = RowStream::of_batch(lines);
    let columns = vec![OutputColumn::text("QUERY PLAN")];
    Ok(Execution::Rows { columns, stream, tag: RowsTag::Explain, notices: query.notices.clone() })
}
