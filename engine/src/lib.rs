//! The embedded query engine: topics as tables, payload decoders, sessions and their limits.
//!
//! A [`Session`] takes text, prepares statements and runs them on a runtime of the engine's own, so
//! that scans cannot starve the log. `decode` turns values into columns, `infer` finds out which
//! columns there are, `catalog` says what names mean at one snapshot, `session` is what a connection
//! talks to, `statement` plans and runs one statement.
//!
//! Invariant: this crate knows no wire format and no SQLSTATE. A statement reads one snapshot, taken
//! when it starts.

mod catalog;
mod decode;
mod engine;
mod error;
mod infer;
mod json;
mod permissions;
mod queries;
mod session;
mod statement;
mod telemetry;

pub use engine::{Engine, EngineSettings, Inference};
pub use error::{EngineError, ErrorKind};
pub use permissions::{Permissions, Principal};
pub use session::{
    CancelHandle, Execution, Notice, NoticeSeverity, OutputColumn, Prepared, RowsTag, Session,
    SessionOptions, TransactionStatus,
};
pub use statement::RowStream;
pub use strandline_sql::{Parsed, PgType, Statement};
pub use strandline_storage::{access, seam};
pub use telemetry::register as register_metrics;
