//! The transaction block of a session. Pure.
//!
//! Isolation is read committed: every statement reads its own snapshot, and nothing is written, so a
//! block only has a status, settings to take back, and savepoints.

use strandline_sql::Transaction;

use crate::error::{EngineError, ErrorKind};

/// What the wire protocol reports after each statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    Idle,
    InTransaction,
    Failed,
}

/// What a transaction word did: what the settings have to follow, and what the client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionStep {
    pub effect: TransactionEffect,
    pub tag: &'static str,
    pub warning: Option<&'static str>,
}

/// What happened to the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionEffect {
    Nothing,
    Began,
    Committed,
    RolledBack,
}

/// A session's transaction block.
#[derive(Debug)]
pub struct TransactionBlock {
    status: TransactionStatus,
    savepoints: Vec<String>,
}

impl Default for TransactionBlock {
    fn default() -> Self {
        Self { status: TransactionStatus::Idle, savepoints: Vec::new() }
    }
}

/// Savepoints that one block may hold.
const SAVEPOINTS_MAX: usize = 10_000;

impl TransactionBlock {
    pub fn status(&self) -> TransactionStatus {
        self.status
    }

    /// A statement failed: a block accepts nothing but its end from here on.
    pub fn fail(&mut self) {
        if self.status == TransactionStatus::InTransaction {
            self.status = TransactionStatus::Failed;
        }
    }

    /// # Errors
    /// When the block is failed and the word does not end it, and for savepoints that do not exist.
    pub fn apply(&mut self, word: &Transaction) -> Result<TransactionStep, EngineError> {
        match word {
            Transaction::Begin(_) => self.begin(),
            Transaction::Commit => Ok(self.end(TransactionEffect::Committed)),
            Transaction::Rollback => Ok(self.end(TransactionEffect::RolledBack)),
            Transaction::Savepoint { name } => self.savepoint(name),
            Transaction::Release { name } => self.release(name),
            Transaction::RollbackTo { name } => self.roll_back_to(name),
        }
    }

    fn begin(&mut self) -> Result<TransactionStep, EngineError> {
        self.expect_not_failed()?;
        if self.status == TransactionStatus::InTransaction {
            let warning = Some("there is already a transaction in progress");
            return Ok(TransactionStep { effect: TransactionEffect::Nothing, tag: "BEGIN", warning });
        }
        self.status = TransactionStatus::InTransaction;
        Ok(TransactionStep { effect: TransactionEffect::Began, tag: "BEGIN", warning: None })
    }

    /// The end of a failed block is a rollback, whatever the word.
    fn end(&mut self, wanted: TransactionEffect) -> TransactionStep {
        let before = std::mem::take(self).status;
        let effect = match before {
            TransactionStatus::Idle => TransactionEffect::Nothing,
            TransactionStatus::InTransaction => wanted,
            TransactionStatus::Failed => TransactionEffect::RolledBack,
        };
        let is_commit = wanted == TransactionEffect::Committed && before != TransactionStatus::Failed;
        let tag = if is_commit { "COMMIT" } else { "ROLLBACK" };
        let warning = (before == TransactionStatus::Idle).then_some("there is no transaction in progress");
        TransactionStep { effect, tag, warning }
    }

    fn savepoint(&mut self, name: &str) -> Result<TransactionStep, EngineError> {
        self.expect_block("SAVEPOINT")?;
        self.expect_not_failed()?;
        if self.savepoints.len() >= SAVEPOINTS_MAX {
            let message = format!("limit of {SAVEPOINTS_MAX} savepoints reached");
            return Err(EngineError::new(ErrorKind::TooComplex, message));
        }
        self.savepoints.push(name.to_owned());
        Ok(nothing("SAVEPOINT"))
    }

    fn release(&mut self, name: &str) -> Result<TransactionStep, EngineError> {
        self.expect_block("RELEASE SAVEPOINT")?;
        self.expect_not_failed()?;
        let index = self.find_savepoint(name)?;
        self.savepoints.truncate(index);
        Ok(nothing("RELEASE"))
    }

    fn roll_back_to(&mut self, name: &str) -> Result<TransactionStep, EngineError> {
        self.expect_block("ROLLBACK TO SAVEPOINT")?;
        let index = self.find_savepoint(name)?;
        self.savepoints.truncate(index + 1);
        self.status = TransactionStatus::InTransaction;
        Ok(nothing("ROLLBACK"))
    }

    fn find_savepoint(&self, name: &str) -> Result<usize, EngineError> {
        self.savepoints.iter().rposition(|known| known == name).ok_or_else(|| {
            let message = format!("savepoint \"{name}\" does not exist");
            EngineError::new(ErrorKind::UndefinedSavepoint, message)
        })
    }

    fn expect_block(&self, word: &str) -> Result<(), EngineError> {
        match self.status {
            TransactionStatus::Idle => {
                let message = format!("{word} can only be used in transaction blocks");
                Err(EngineError::new(ErrorKind::NoTransaction, message))
            }
            _ => Ok(()),
        }
    }

    /// # Errors
    /// When the block is failed.
    pub fn expect_not_failed(&self) -> Result<(), EngineError> {
        match self.status {
            TransactionStatus::Failed => Err(EngineError::failed_transaction()),
            _ => Ok(()),
        }
    }
}

fn nothing(tag: &'static str) -> TransactionStep {
    TransactionStep { effect: TransactionEffect::Nothing, tag, warning: None }
}

#[cfg(test)]
mod tests {
    use strandline_sql::TransactionModes;

    use super::*;

    fn begin() -> Transaction {
        Transaction::Begin(TransactionModes::default())
    }

    #[test]
    fn a_failed_block_accepts_only_its_end() {
        let mut block = TransactionBlock::default();
        block.apply(&begin()).unwrap();
        block.fail();
        assert_eq!(block.apply(&begin()).unwrap_err().kind, ErrorKind::FailedTransaction);
        let step = block.apply(&Transaction::Commit).unwrap();
        assert_eq!((step.tag, step.effect), ("ROLLBACK", TransactionEffect::RolledBack));
        assert_eq!(block.status(), TransactionStatus::Idle);
    }

    #[test]
    fn a_savepoint_brings_a_failed_block_back() {
        let mut block = TransactionBlock::default();
        let name = "s".to_owned();
        let error = block.apply(&Transaction::Savepoint { name: name.clone() }).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NoTransaction);
        block.apply(&begin()).unwrap();
        block.apply(&Transaction::Savepoint { name: name.clone() }).unwrap();
        block.fail();
        block.apply(&Transaction::RollbackTo { name: name.clone() }).unwrap();
        assert_eq!(block.status(), TransactionStatus::InTransaction);
        block.apply(&Transaction::Release { name: name.clone() }).unwrap();
        let error = block.apply(&Transaction::Release { name }).unwrap_err();
        assert_eq!(error.kind, ErrorKind::UndefinedSavepoint);
    }

    #[test]
    fn a_failure_outside_of_a_block_leaves_no_mark() {
        let mut block = TransactionBlock::default();
        block.fail();
        assert_eq!(block.status(), TransactionStatus::Idle);
        let step = block.apply(&Transaction::Rollback).unwrap();
        assert_eq!(step.warning, Some("there is no transaction in progress"));
    }
}
