//! What a statement is, once it is parsed: queries keep their syntax tree, everything that concerns
//! the session is reduced to plain values.

use datafusion::sql::sqlparser::ast;

/// One statement with the text that it was parsed from.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    pub statement: Statement,
    /// Without the closing semicolon.
    pub text: String,
}

/// A statement that is supported.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// SELECT, VALUES, TABLE, WITH ... SELECT.
    Query(Box<ast::Statement>),
    /// EXPLAIN of a query.
    Explain(Explain),
    /// SHOW of one setting, or of `all`; the name is in lower case.
    Show { name: String },
    /// SET of one setting; an empty value means the default. The name is in lower case.
    Set { name: String, value: Vec<String>, scope: SetScope },
    /// SET TRANSACTION, or SET SESSION CHARACTERISTICS AS TRANSACTION with scope `Session`.
    SetTransaction { modes: TransactionModes, scope: SetScope },
    /// RESET of one setting or, without a name, of all.
    Reset { name: Option<String> },
    /// BEGIN, COMMIT, ROLLBACK and savepoints.
    Transaction(Transaction),
    /// DISCARD ALL: settings, prepared statements, portals.
    DiscardAll,
    /// DISCARD PLANS, SEQUENCES or TEMP: nothing to do; the word for the command tag.
    DiscardNothing { what: &'static str },
    /// DEALLOCATE of one prepared statement or, without a name, of all.
    Deallocate { name: Option<String> },
    /// CLOSE of one cursor or, without a name, of all.
    Close { name: Option<String> },
    /// UNLISTEN: nothing was listened to.
    Unlisten,
}

/// EXPLAIN and its options.
#[derive(Debug, Clone, PartialEq)]
pub struct Explain {
    pub mode: ExplainMode,
    pub detail: ExplainDetail,
    pub inner: Box<ast::Statement>,
}

/// Whether EXPLAIN runs the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplainMode {
    Plan,
    Analyze,
}

/// How much EXPLAIN shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplainDetail {
    Normal,
    Verbose,
}

/// How long a SET holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetScope {
    Session,
    /// Until the end of the transaction.
    Local,
}

/// Transaction control.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transaction {
    Begin(TransactionModes),
    Commit,
    Rollback,
    Savepoint { name: String },
    Release { name: String },
    RollbackTo { name: String },
}

/// The modes of BEGIN and SET TRANSACTION; `None` leaves the mode as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransactionModes {
    /// In lower case: `read committed`.
    pub isolation: Option<String>,
    pub access: Option<AccessMode>,
}

/// What a transaction may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessMode {
    ReadOnly,
    ReadWrite,
}
