//! The Postgres protocol: one session of the engine per connection.
//!
//! Bytes come in through `wire` (frames within bounds, messages without trust), a `session` answers
//! them with the engine, `encode` and `parameter` turn Arrow values into Postgres values and back.
//!
//! Invariant: SQLSTATE codes are in `sqlstate` and nowhere else.
//! Invariant: this crate knows nothing of storage; what it needs of it the engine re-exports.
//! Invariant: nothing that a client sends panics, or allocates by a number that it names.

// The futures of a session hold those of every layer below it, down to the store.
#![recursion_limit = "256"]

mod cancel;
mod encode;
mod error;
mod parameter;
mod server;
mod session;
mod settings;
mod sqlstate;
mod telemetry;
mod wire;

pub use server::{ServeError, serve, serve_stream};
pub use settings::{Authentication, PgSettings, PgTls, TLS_PROTOCOL, TlsMode};
pub use telemetry::register as register_metrics;
