//! Topics as tables of the query engine: one leaf in every plan, with filters, projection, limit and
//! order pushed down to the block index.
//!
//! A statement plans over the slices and the tail of a [`TableSnapshot`] (`blocks`, `plan`): slices
//! and blocks that their bounds rule out are dropped (`pruning`), and the others are spread over
//! output partitions (`assignment`). A stream (`stream`) loads the index of a slice when it gets
//! there (`queue`), decodes batches (`rows`), and runs filters over the cheapest columns first
//! (`filter`); only rows that are left get the columns that were asked for.
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
mod plan;
mod provider;
mod pruning;
mod queue;
mod rows;
mod run;
mod source;
mod statistics;
mod stream;
mod unit;
mod views;
mod visibility;

#[cfg(test)]
mod tests;

pub use blocks::TableSnapshot;
pub use columns::{ColumnFormat, HEADERS_TYPE, JSON_TYPE, SystemColumn, TYPE_METADATA_KEY, system_columns};
pub use counters::{ScanCounter, ScanCounters};
pub use decoder::{DecodeError, Decoded, ErrorColumn, PayloadDecoder};
pub use error::ScanError;
pub use provider::{TopicTable, TopicTableOptions};
