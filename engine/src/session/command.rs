//! Runs the statements about the session itself: they give a tag, and SHOW gives rows.

use strandline_sql::{AccessMode, SetScope, Statement, Transaction, TransactionModes};

use crate::error::{EngineError, ErrorKind};

use super::prepared::{Execution, Notice, Prepared};
use super::shared::SessionCore;
use super::show;
use super::transaction::{TransactionEffect, TransactionStatus};

/// What needs no plan.
pub(super) fn execute(core: &SessionCore, prepared: &Prepared) -> Result<Execution, EngineError> {
    match prepared.statement() {
        Statement::Show { name } => show::execute(core, name),
        statement => command(core, statement),
    }
}

/// What a command tells the client.
struct Told {
    tag: String,
    notices: Vec<Notice>,
}

impl Told {
    fn tag(tag: impl Into<String>) -> Self {
        Self { tag: tag.into(), notices: Vec::new() }
    }
}

fn command(core: &SessionCore, statement: &Statement) -> Result<Execution, EngineError> {
    let before = core.settings.reported();
    let told = run(core, statement)?;
    let after = core.settings.reported();
    let changed = after.into_iter().filter(|setting| !before.contains(setting)).collect();
    Ok(Execution::Command { tag: told.tag, notices: told.notices, parameter_status: changed })
}

fn run(core: &SessionCore, statement: &Statement) -> Result<Told, EngineError> {
    match statement {
        Statement::Set { name, value, scope } => set(core, name, value, *scope),
        Statement::SetTransaction { modes, scope } => set_modes(core, modes, *scope),
        Statement::Reset { name } => {
            let mut settings = core.settings.lock();
            match name {
                Some(name) => settings.reset(name, SetScope::Session)?,
                None => settings.reset_all(),
            }
            Ok(Told::tag("RESET"))
        }
        Statement::Transaction(word) => transaction(core, word),
        Statement::DiscardAll => discard_all(core),
        Statement::DiscardNothing { what } => Ok(Told::tag(format!("DISCARD {what}"))),
        Statement::Deallocate { name: Some(_) } => Ok(Told::tag("DEALLOCATE")),
        Statement::Deallocate { name: None } => Ok(Told::tag("DEALLOCATE ALL")),
        Statement::Close { name: Some(_) } => Ok(Told::tag("CLOSE CURSOR")),
        Statement::Close { name: None } => Ok(Told::tag("CLOSE CURSOR ALL")),
        Statement::Unlisten => Ok(Told::tag("UNLISTEN")),
        Statement::Query(_) | Statement::Explain(_) | Statement::Show { .. } => {
            Err(EngineError::new(ErrorKind::Internal, "the statement was prepared without its plan"))
        }
    }
}

fn set(core: &SessionCore, name: &str, value: &[String], scope: SetScope) -> Result<Told, EngineError> {
    core.settings.lock().set(name, value, scope)?;
    let mut told = Told::tag("SET");
    let is_outside = core.transaction().status() == TransactionStatus::Idle;
    if scope == SetScope::Local && is_outside {
        told.notices.push(Notice::warning("SET LOCAL can only be used in transaction blocks"));
    }
    Ok(told)
}

/// The settings behind `SET TRANSACTION` and, for the session, those that new transactions take.
fn set_modes(core: &SessionCore, modes: &TransactionModes, scope: SetScope) -> Result<Told, EngineError> {
    let (isolation, access) = match scope {
        SetScope::Session => ("default_transaction_isolation", "default_transaction_read_only"),
        SetScope::Local => ("transaction_isolation", "transaction_read_only"),
    };
    let mut settings = core.settings.lock();
    if let Some(level) = &modes.isolation {
        settings.set(isolation, std::slice::from_ref(level), scope)?;
    }
    if let Some(mode) = modes.access {
        let is_read_only = if mode == AccessMode::ReadOnly { "on" } else { "off" };
        settings.set(access, &[is_read_only.to_owned()], scope)?;
    }
    Ok(Told::tag("SET"))
}

fn transaction(core: &SessionCore, word: &Transaction) -> Result<Told, EngineError> {
    let step = core.transaction().apply(word)?;
    match step.effect {
        TransactionEffect::Nothing => {}
        TransactionEffect::Began => core.settings.lock().begin(),
        TransactionEffect::Committed => core.settings.lock().commit(),
        TransactionEffect::RolledBack => core.settings.lock().roll_back(),
    }
    if let (TransactionEffect::Began, Transaction::Begin(modes)) = (step.effect, word) {
        set_modes(core, modes, SetScope::Local)?;
    }
    Ok(Told { tag: step.tag.to_owned(), notices: step.warning.map(Notice::warning).into_iter().collect() })
}

fn discard_all(core: &SessionCore) -> Result<Told, EngineError> {
    if core.transaction().status() != TransactionStatus::Idle {
        let message = "DISCARD ALL cannot run inside a transaction block";
        return Err(EngineError::new(ErrorKind::ActiveTransaction, message));
    }
    core.settings.lock().reset_all();
    Ok(Told::tag("DISCARD ALL"))
}
