//! What DataFusion knows while it plans and runs one statement.

use std::sync::Arc;

use chrono::DateTime;
use datafusion::config::Dialect;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{FunctionRegistry, SessionState, SessionStateBuilder};
use datafusion::prelude::SessionConfig;
use strandline_sql::{FunctionContext, register_functions};
use strandline_storage::table::TableSnapshot;

use crate::catalog::system_tables::SystemContext;
use crate::catalog::{DATABASE, PUBLIC_SCHEMA, StatementCatalogs, StatementRelations};
use crate::engine::EngineSettings;
use crate::error::EngineError;
use crate::json;
use crate::session::SessionCore;

/// Bytes that a partition may buffer where a sort was saved; the default is a gibibyte.
const SORT_BUFFER_BYTES: usize = 16 << 20;
/// The zone of sessions that set none.
const DEFAULT_TIME_ZONE: &str = "UTC";
/// Rows of one batch.
const BATCH_ROWS: usize = 8_192;

/// One statement's view: its relations at one snapshot.
pub(crate) struct StatementContext {
    pub relations: Arc<StatementRelations>,
    pub state: SessionState,
}

/// The state that plans and runs one statement at the relations' snapshot.
pub(crate) fn statement_state(
    core: &SessionCore,
    relations: Arc<StatementRelations>,
) -> Result<StatementContext, EngineError> {
    let mut state = core.engine.base_state.clone();
    state.register_catalog_list(Arc::new(StatementCatalogs::new(relations.clone())));
    register_functions(&mut state, &function_context(core, relations.clone()))?;
    set_time_zone(&mut state, core.settings.time_zone())?;
    let config = state.config_mut();
    config.set_extension(Arc::new(TableSnapshot(relations.snapshot.clone())));
    config.set_extension(core.engine.scan_counters.clone());
    config.set_extension(Arc::new(SystemContext {
        relations: relations.clone(),
        settings: core.settings.rows(),
        queries: core.engine.queries.clone(),
    }));
    state.mark_start_execution();
    state.execution_props_mut().query_execution_start_time =
        DateTime::from_timestamp_millis(core.engine.clock().now_ms());
    Ok(StatementContext { relations, state })
}

/// Some functions, such as `now`, hold the zone that they were made with.
fn set_time_zone(state: &mut SessionState, zone: String) -> Result<(), EngineError> {
    if zone == DEFAULT_TIME_ZONE {
        return Ok(());
    }
    state.config_mut().options_mut().execution.time_zone = Some(zone);
    let options = state.config_options().clone();
    let functions: Vec<_> = state
        .scalar_functions()
        .values()
        .filter_map(|function| function.inner().with_updated_config(&options))
        .collect();
    for function in functions {
        state.register_udf(Arc::new(function))?;
    }
    Ok(())
}

/// What every statement of an engine begins with: DataFusion's own functions and rules, and the JSON
/// operators.
pub(crate) fn base_state(settings: &EngineSettings, environment: Arc<RuntimeEnv>) -> SessionState {
    let mut state = SessionStateBuilder::new_with_default_features()
        .with_config(base_config(settings.target_partitions))
        .with_runtime_env(environment)
        .build();
    json::register(&mut state).expect("a session state takes functions");
    state
}

fn base_config(target_partitions: usize) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_target_partitions(target_partitions.max(1))
        .with_batch_size(BATCH_ROWS)
        .with_information_schema(false)
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema(DATABASE, PUBLIC_SCHEMA);
    let options = config.options_mut();
    options.execution.time_zone = Some(DEFAULT_TIME_ZONE.to_owned());
    options.sql_parser.dialect = Dialect::PostgreSQL;
    options.sql_parser.parse_float_as_decimal = true;
    options.execution.sort_pushdown_buffer_capacity = SORT_BUFFER_BYTES;
    // In DataFusion 55.2 the filter of `max(a), max(b)` leaves out a column that was NULL so far, so
    // the rows that would give it a first value are skipped.
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    config
}

fn function_context(core: &SessionCore, relations: Arc<StatementRelations>) -> FunctionContext {
    FunctionContext {
        version: core.version(),
        database: core.database.clone(),
        user: core.user.clone(),
        process_id: core.process_id,
        settings: core.settings.clone(),
        relations,
    }
}
