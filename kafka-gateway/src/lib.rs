//! The Kafka protocol over the log: one file per API, and the coordinators of consumer groups and of
//! transactions.
//!
//! A connection to a port of `server` goes through `tls` and `authentication`, as its `listener` asks,
//! before its requests are served. A frame goes from `frame` to `guard`, which walks its shape before anything is decoded, to its
//! API in `api`, and its answer back through `connection`. Groups are a pure state machine in
//! `group` with a shell around it, transactional ids the same in `transaction`.
//!
//! Invariant: nothing here knows of SQL, and nothing outside of here of the Kafka protocol. Wire
//! error codes are in `error_code` alone. Record batches pass through as bytes; the log checks them.

mod api;
mod authentication;
mod authorize;
mod connection;
mod context;
mod error_code;
mod fetch_session;
mod frame;
mod group;
mod guard;
mod listener;
mod memory;
mod pattern;
mod quota;
mod server;
mod settings;
mod telemetry;
mod tls;
mod transaction;

pub use listener::{Authentication, Listener, ListenerSettings, SaslMechanism, TlsSource};
pub use server::{ServeError, serve};
pub use settings::{AutoCreate, GatewaySettings};
pub use telemetry::register as register_metrics;
