//! An S3 server in memory, for tests and measurements.
//!
//! It keeps what the log relies on (an atomic put-if-absent, reads that see every write), counts each
//! request, and is slow or fails when it is told to. It stands in for a store, not for access control:
//! any credentials are good.
//!
//! Invariant: conditions are checked and objects are put under one lock.

mod counts;
mod faults;
mod objects;
mod server;
mod service;

pub use counts::Counts;
pub use faults::{Fault, Operation};
pub use objects::Conditions;
pub use server::{MockOptions, S3Mock};
