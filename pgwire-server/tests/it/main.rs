//! The Postgres port over a log in memory: real clients and raw frames.

mod authentication;
mod cancel;
mod encryption;
mod extended;
mod fixture;
mod limits;
mod raw;
mod simple;
mod startup;
mod types;
