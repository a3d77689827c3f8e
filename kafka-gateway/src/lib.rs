//! The Kafka protocol over the log: one file per API, and the coordinators of consumer groups and of
//! transactions.
//!
//! A frame goes from `frame` to `guard`, which walks its shape before anything is decoded, to its
//! API in `api`, and its answer back through `connection`. Groups are a pure state machine in
//! `group` with a shell around it, transactional ids the same in `transaction`.
//!
//! Invariant: nothing here knows of SQL, and nothing outside of here of the Kafka protocol. Wire
//! error codes are in `error_code` alone. Record batches pass through as bytes; the log checks them.

mod api;
mod authorize;
mod connection;
mod context;
mod error_code;
mod fetch_session;
mod frame;
mod group;
mod guard;
mod memory;
mod pattern;
mod quota;
mod server;
mod settings;
mod telemetry;
mod transaction;

pub use server::{ServeError, serve};
pub use settings::{AutoCreate, GatewaySettings};
