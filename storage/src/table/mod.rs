//! Topics as tables of the query engine: one leaf in every plan, with filters, projection, limit and
//! order pushed down to the block index.
//!
//! A statement plans over the blocks of a [`TableSnapshot`] (`blocks`), drops those that the index
//! rules out (`pruning`), spreads the others over output partitions (`assignment`), and streams
//! them (`stream`): batches are decoded (`rows`), filters run over the cheapest columns first
//! (`filter`), and only rows that are left get the columns that were asked for.
//!
//! Invariant: this is the only module of the crate that knows the query engine.
//! Invariant: it must not know any payload format; those come in through [`PayloadDecoder`].

mod assignment;
mod blocks;
mod columns;
mod counters;
mod decode;
mod decoder;
mod error;
mod filter;
mod headers;
mod order;
mod provider;
mod pruning;
mod queue;
mod rows;
mod source;
mod statistics;
mod stream;
mod views;

#[cfg(test)]
mod tests;

pub use blocks::TableSnapshot;
pub use columns::{ColumnFormat, HEADERS_TYPE, JSON_TYPE, SystemColumn, TYPE_METADATA_KEY, system_columns};
pub use counters::{ScanCounter, ScanCounters};
pub use decoder::{DecodeError, Decoded, ErrorColumn, PayloadDecoder};
pub use error::ScanError;
pub use provider::{TopicTable, TopicTableOptions};
