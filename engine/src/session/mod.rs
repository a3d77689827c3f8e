//! A connection's session: settings, a transaction block, and statements that are prepared and run.
//!
//! Invariants: each statement runs at a snapshot of its own, taken when it starts. A prepared
//! statement keeps its columns while its topics live. The session itself never blocks: planning and
//! running happen on the engine's runtime.

mod cancel;
mod command;
mod introspection;
mod prepared;
mod query;
mod setting_table;
pub mod settings;
mod shared;
mod show;
mod transaction;

use std::sync::Arc;

use datafusion::scalar::ScalarValue;
use strandline_sql::{Parsed, PgType};

use crate::engine::Engine;
use crate::error::{EngineError, ErrorKind};
use crate::permissions::Permissions;

pub use cancel::CancelHandle;
pub use prepared::{Execution, Notice, NoticeSeverity, OutputColumn, Prepared, RowsTag};
pub(crate) use shared::SessionCore;
pub use transaction::TransactionStatus;

/// Characters of one statement or of several sent together.
const TEXT_BYTES_MAX: usize = 16 << 20;

/// Who connects, and with which settings.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    pub user: String,
    pub database: String,
    pub application_name: String,
    /// Settings that the connection begins with, by name.
    pub settings: Vec<(String, String)>,
    /// What `pg_backend_pid()` answers.
    pub process_id: i32,
    /// What `SHOW ssl` answers.
    pub is_encrypted: bool,
    pub permissions: Permissions,
}

/// One connection's session.
#[derive(Debug)]
pub struct Session {
    core: Arc<SessionCore>,
}

impl Session {
    pub(crate) fn open(engine: Arc<Engine>, options: SessionOptions) -> Result<Self, EngineError> {
        Ok(Self { core: Arc::new(SessionCore::new(engine, options)?) })
    }

    /// The statements of a text; none for one that is empty or only comments.
    ///
    /// # Errors
    /// When the text is not SQL, holds a statement that is not supported, or takes too long to read.
    pub async fn parse(&self, text: &str) -> Result<Vec<Parsed>, EngineError> {
        if text.len() > TEXT_BYTES_MAX {
            let message = format!("statement has {} bytes, at most {TEXT_BYTES_MAX} are read", text.len());
            return Err(EngineError::new(ErrorKind::TooComplex, message));
        }
        let text = text.to_owned();
        let limits = self.core.limits();
        limits.run(on_runtime(&self.core.engine, async move { Ok(strandline_sql::parse(&text)?) })).await
    }

    /// Resolves and plans a statement. `parameter_types` are those that the client declared; the
    /// others follow from where the parameters stand.
    ///
    /// # Errors
    /// Whatever is wrong with the statement, and that the transaction block has failed.
    pub async fn prepare(
        &self,
        parsed: Parsed,
        parameter_types: Vec<Option<PgType>>,
    ) -> Result<Prepared, EngineError> {
        let core = self.core.clone();
        core.expect_acceptable(&parsed.statement)?;
        let engine = core.engine.clone();
        let limits = core.limits();
        let prepare = async move { prepared::prepare(&core, parsed, parameter_types).await };
        limits.run(on_runtime(&engine, prepare)).await
    }

    /// Runs a prepared statement at a snapshot taken now. Rows come while the query runs; an error
    /// may come instead of any of them.
    ///
    /// # Errors
    /// Whatever can be told before the first row.
    pub async fn execute(
        &self,
        prepared: &Prepared,
        parameters: Vec<ScalarValue>,
    ) -> Result<Execution, EngineError> {
        let core = self.core.clone();
        core.expect_acceptable(prepared.statement())?;
        let engine = core.engine.clone();
        let prepared = prepared.clone();
        if prepared.query().is_none() {
            return on_runtime(&engine, async move { command::execute(&core, &prepared) }).await;
        }
        // Whoever waits is answered from outside of the engine's threads, which may be busy.
        let limits = core.limits();
        let guard = limits.flag().guard();
        let begin = {
            let limits = limits.clone();
            async move { query::begin(&core, &prepared, parameters, limits).await }
        };
        let execution = limits.run(on_runtime(&engine, begin)).await;
        guard.disarm();
        execution
    }

    pub fn transaction_status(&self) -> TransactionStatus {
        self.core.transaction().status()
    }

    /// Tells the session that a statement failed, which fails its transaction block.
    pub fn fail_transaction(&self) {
        self.core.transaction().fail();
    }

    /// The value of a setting, whatever the case of its name.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.core.settings.get(name)
    }

    /// The settings that clients are told of, with their values.
    pub fn reported_settings(&self) -> Vec<(String, String)> {
        self.core.settings.reported()
    }

    /// The name of an IANA time zone, or an offset such as `+05:30`.
    pub fn time_zone(&self) -> String {
        self.core.settings.time_zone()
    }

    /// Stops whatever statement runs when it is used.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.core.cancel.handle()
    }
}

/// Runs a future on the engine's runtime; it is stopped when the caller goes away.
async fn on_runtime<T: Send + 'static>(
    engine: &Engine,
    work: impl Future<Output = Result<T, EngineError>> + Send + 'static,
) -> Result<T, EngineError> {
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn_on(work, engine.handle());
    match tasks.join_next().await {
        Some(Ok(outcome)) => outcome,
        Some(Err(error)) if error.is_panic() => {
            tracing::error!(%error, "a statement broke the planner");
            Err(EngineError::new(
                ErrorKind::Internal,
                "the statement broke the planner; see the server's log",
            ))
        }
        _ => Err(EngineError::shutting_down()),
    }
}
