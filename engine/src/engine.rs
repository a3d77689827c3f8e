//! The engine: one log, one runtime for queries, the limits that all sessions share, and the
//! background inference of columns.
//!
//! Invariant: whatever plans, scans or infers runs on the engine's own runtime.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use datafusion::execution::SessionState;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use strandline_storage::access::Access;
use strandline_storage::log::Log;
use strandline_storage::seam::Clock;
use strandline_storage::table::ScanCounters;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::task::JoinHandle;

use crate::catalog::{DATABASE, DATABASE_NAMES};
use crate::error::{EngineError, ErrorKind};
use crate::infer::ColumnSource;
use crate::infer::owner::{OwnerInference, OwnerTask};
use crate::infer::provisional::ProvisionalInference;
use crate::queries::RunningQueries;
use crate::session::settings::SessionSettings;
use crate::session::{Session, SessionOptions};
use crate::statement::base_state;

/// Stack of a query thread: planning deep expressions takes more than the default.
const THREAD_STACK_BYTES: usize = 8 << 20;

/// Who finds out about columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inference {
    /// This process owns the log: it infers in the background and pins in the log.
    Owner,
    /// This process may only read: it infers from a bounded number of records, in memory.
    Provisional,
}

/// The values that an engine is started with.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// Memory of all running queries together; what needs more spills to disk or fails.
    pub query_memory_bytes: usize,
    /// Bytes of the files that queries spill to.
    pub spill_bytes_max: u64,
    /// Where queries spill to; the system's directory for temporary files when not given.
    pub spill_directory: Option<PathBuf>,
    /// Queries that run at the same time; others wait for their turn.
    pub concurrent_queries: usize,
    /// The `statement_timeout` that sessions begin with; 0 = none.
    pub statement_timeout_ms: u64,
    /// Tasks that one query is split into.
    pub target_partitions: usize,
    /// Threads that run queries.
    pub threads: usize,
    /// Statements that take this long are logged.
    pub slow_query: Duration,
    pub inference: Inference,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            query_memory_bytes: 512 << 20,
            spill_bytes_max: 10 << 30,
            spill_directory: None,
            concurrent_queries: 16,
            statement_timeout_ms: 0,
            target_partitions: 2,
            threads: 2,
            slow_query: Duration::from_secs(1),
            inference: Inference::Owner,
        }
    }
}

/// The query engine over one log.
pub struct Engine {
    pub(crate) log: Log,
    pub(crate) settings: EngineSettings,
    pub(crate) columns: Arc<ColumnSource>,
    pub(crate) queries: Arc<RunningQueries>,
    permits: Semaphore,
    /// What the state of every statement begins with.
    pub(crate) base_state: SessionState,
    pub(crate) scan_counters: Arc<ScanCounters>,
    runtime: Option<Runtime>,
    stop: watch::Sender<bool>,
    inference_task: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Engine {
    /// Starts the runtime for queries and, for the owner of the log, the inference of columns.
    pub fn start(log: Log, settings: EngineSettings) -> Arc<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(settings.threads.max(1))
            .thread_name("query")
            .thread_stack_size(THREAD_STACK_BYTES)
            .enable_all()
            .build()
            .expect("the operating system gives threads at start");
        let (stop, stopped) = watch::channel(false);
        let (columns, task) = match settings.inference {
            Inference::Provisional => (ColumnSource::Provisional(ProvisionalInference::default()), None),
            Inference::Owner => {
                let shared = Arc::new(OwnerInference::default());
                let task = OwnerTask::new(log.clone(), shared.clone(), stopped);
                (ColumnSource::Owner(shared), Some(runtime.spawn(task.run())))
            }
        };
        Arc::new(Self {
            columns: Arc::new(columns),
            queries: Arc::default(),
            permits: Semaphore::new(settings.concurrent_queries.max(1)),
            base_state: base_state(&settings, environment(&settings)),
            scan_counters: Arc::default(),
            runtime: Some(runtime),
            stop,
            inference_task: Mutex::new(task),
            log,
            settings,
        })
    }

    /// Opens a session for one connection.
    ///
    /// # Errors
    /// When there is no such database, or a start setting is not accepted.
    pub fn session(self: &Arc<Self>, options: SessionOptions) -> Result<Session, EngineError> {
        if !DATABASE_NAMES.contains(&options.database.as_str()) {
            let message = format!("database \"{}\" does not exist", options.database);
            let hint = format!("the database is \"{DATABASE}\"");
            return Err(EngineError::new(ErrorKind::UndefinedDatabase, message).with_hint(hint));
        }
        Session::open(self.clone(), options)
    }

    /// The settings that a new session reports, with their values.
    pub fn reported_settings(&self) -> Vec<(String, String)> {
        SessionSettings::new(&[], &[]).expect("no value is given that could be refused").reported()
    }

    /// What all scans of this engine have done.
    pub fn scan_counters(&self) -> &ScanCounters {
        &self.scan_counters
    }

    /// Users, rules and quotas as they are now.
    pub fn access(&self) -> Arc<Access> {
        self.log.access()
    }

    /// The clock of the log.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.log.seams().clock
    }

    /// Ends the background inference after it has stored what it knows. Sessions that are still open
    /// can go on reading.
    pub async fn close(&self) {
        self.stop.send_replace(true);
        let task = self.inference_task.lock().expect("no holder of the lock panics").take();
        if let Some(task) = task
            && let Err(error) = task.await
        {
            tracing::error!(%error, "the inference of columns broke");
        }
    }

    /// Waits until the query may run beside the others.
    pub(crate) async fn query_permit(&self) -> Result<SemaphorePermit<'_>, EngineError> {
        self.permits.acquire().await.map_err(|_| EngineError::shutting_down())
    }

    pub(crate) fn handle(&self) -> &tokio::runtime::Handle {
        self.runtime.as_ref().expect("the runtime lives as long as the engine").handle()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // A runtime must not be waited for inside of another one, which is where engines are dropped.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn environment(settings: &EngineSettings) -> Arc<RuntimeEnv> {
    let mode = match &settings.spill_directory {
        Some(directory) => DiskManagerMode::Directories(vec![directory.clone()]),
        None => DiskManagerMode::OsTmpDirectory,
    };
    let disk =
        DiskManagerBuilder::default().with_mode(mode).with_max_temp_directory_size(settings.spill_bytes_max);
    RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(FairSpillPool::new(settings.query_memory_bytes)))
        .with_disk_manager_builder(disk)
        .build_arc()
        .expect("an environment without object stores has nothing that could fail")
}
