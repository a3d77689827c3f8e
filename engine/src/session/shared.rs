//! What all statements of a session share.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use strandline_sql::{SessionInfo, SetScope, Statement, Transaction};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::permissions::{Grants, Permissions};
use crate::queries::{QueryDescription, QueryEntry};
use crate::statement::Limits;

use super::SessionOptions;
use super::cancel::CancelSource;
use super::setting_table::SERVER_VERSION;
use super::settings::{SessionSettings, SettingRow, milliseconds};
use super::transaction::TransactionBlock;

/// The state of one session.
#[derive(Debug)]
pub(crate) struct SessionCore {
    pub engine: Arc<Engine>,
    pub user: String,
    pub database: String,
    pub process_id: i32,
    permissions: Permissions,
    pub settings: Arc<SharedSettings>,
    pub cancel: CancelSource,
    transaction: Mutex<TransactionBlock>,
}

impl SessionCore {
    pub(crate) fn new(engine: Arc<Engine>, options: SessionOptions) -> Result<Self, EngineError> {
        // Settings count milliseconds in 31 bits, as PostgreSQL does: about 25 days.
        let timeout =
            format!("{}ms", engine.settings.statement_timeout_ms.min(u64::from(i32::MAX.unsigned_abs())));
        let ssl = if options.is_encrypted { "on" } else { "off" };
        let fixed = [("session_authorization", options.user.clone()), ("ssl", ssl.to_owned())];
        let mut start = vec![
            ("application_name".to_owned(), options.application_name),
            ("statement_timeout".to_owned(), timeout),
        ];
        start.extend(options.settings);
        Ok(Self {
            settings: Arc::new(SharedSettings(Mutex::new(SessionSettings::new(&fixed, &start)?))),
            engine,
            user: options.user,
            database: options.database,
            process_id: options.process_id,
            permissions: options.permissions,
            cancel: CancelSource::default(),
            transaction: Mutex::default(),
        })
    }

    /// What a statement that begins now may do.
    pub(crate) fn grants(&self) -> Grants {
        Grants::new(self.permissions.clone(), self.engine.access())
    }

    pub(crate) fn transaction(&self) -> MutexGuard<'_, TransactionBlock> {
        self.transaction.lock().expect("no holder of the lock panics")
    }

    /// A failed block takes nothing but the words that end it.
    pub(crate) fn expect_acceptable(&self, statement: &Statement) -> Result<(), EngineError> {
        match statement {
            Statement::Transaction(
                Transaction::Commit | Transaction::Rollback | Transaction::RollbackTo { .. },
            ) => Ok(()),
            _ => self.transaction().expect_not_failed(),
        }
    }

    /// The limits of a statement that begins now.
    pub(crate) fn limits(&self) -> Limits {
        let timeout = self.settings.statement_timeout();
        Limits::new(self.cancel.subscribe(), self.engine.clock().clone(), timeout)
    }

    pub(crate) fn info(&self) -> SessionInfo {
        let now_us = self.engine.clock().now_ms().saturating_mul(1_000);
        SessionInfo { time_zone: self.settings.time_zone(), now_us }
    }

    /// Lists a statement as running.
    pub(crate) fn start_query(&self, text: &str) -> QueryEntry {
        self.engine.queries.start(QueryDescription {
            process_id: self.process_id,
            user: self.user.clone(),
            application_name: self.settings.get("application_name").unwrap_or_default(),
            text: text.to_owned(),
            started_at_ms: self.engine.clock().now_ms(),
        })
    }

    /// What `version()` answers; drivers read the number after `PostgreSQL`.
    pub(crate) fn version(&self) -> String {
        let own = env!("CARGO_PKG_VERSION");
        let architecture = std::env::consts::ARCH;
        format!("PostgreSQL {SERVER_VERSION} (Strandline {own}) on {architecture}, 64-bit")
    }
}

/// Settings that statements, functions and the connection share.
#[derive(Debug)]
pub(crate) struct SharedSettings(Mutex<SessionSettings>);

impl SharedSettings {
    pub(crate) fn lock(&self) -> MutexGuard<'_, SessionSettings> {
        self.0.lock().expect("no holder of the lock panics")
    }

    pub(crate) fn get(&self, name: &str) -> Option<String> {
        self.lock().get(name)
    }

    pub(crate) fn rows(&self) -> Vec<SettingRow> {
        self.lock().rows()
    }

    pub(crate) fn reported(&self) -> Vec<(String, String)> {
        self.lock().reported()
    }

    pub(crate) fn time_zone(&self) -> String {
        self.get("TimeZone").unwrap_or_else(|| "UTC".to_owned())
    }

    fn statement_timeout(&self) -> Option<Duration> {
        let value = milliseconds(&self.get("statement_timeout")?)?;
        u64::try_from(value).ok().filter(|value| *value > 0).map(Duration::from_millis)
    }
}

impl strandline_sql::Settings for SharedSettings {
    fn setting(&self, name: &str) -> Option<String> {
        self.get(name)
    }

    fn set(&self, name: &str, value: &str, scope: SetScope) -> Result<String, String> {
        let mut settings = self.lock();
        settings.set(name, &[value.to_owned()], scope).map_err(|error| error.to_string())?;
        Ok(settings.get(name).unwrap_or_default())
    }
}
