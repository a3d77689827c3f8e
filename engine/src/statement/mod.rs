//! One statement: from syntax tree to plan, and from plan to rows.
//!
//! Invariant: whatever is planned here only reads: DDL, DML and file access are refused by the plan.

mod bind;
mod context;
mod explain;
mod fine_times;
mod interruptible;
mod limits;
mod plan;
mod rows;

pub(crate) use bind::bind;
pub(crate) use context::{StatementContext, base_state, statement_state};
pub(crate) use explain::explain;
pub(crate) use limits::Limits;
pub(crate) use plan::{PlannedQuery, plan_query};
pub use rows::RowStream;
pub(crate) use rows::{RowJob, stream_rows};
