//! The log: everything durable is an immutable object on an object store.
//!
//! `access` is who may do what, and pure; `format` is pure too (bytes in, bytes out), `object` puts and gets objects, `log` is the shard: one
//! writer that commits batches and events, recovery, reads and the time lookup. `table` shows
//! partitions as DataFusion tables.
//!
//! Invariant: nothing here knows of Kafka requests, wire error codes, SQL text or payload formats.

pub mod access;
pub mod format;
pub mod ids;
pub mod log;
pub mod object;
pub mod seam;
#[cfg(feature = "table")]
pub mod table;
pub mod telemetry;
