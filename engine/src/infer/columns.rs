//! What a statement sees of a topic's payload: its format, its columns and their decoder.
//!
//! Invariant: a value of this type never changes, so a prepared statement that holds one keeps its
//! columns while new ones are discovered.

use std::sync::Arc;

use strandline_storage::log::Topic;
use strandline_storage::table::{ColumnFormat, PayloadDecoder};

use crate::decode::{ColumnType, JsonDecoder};

use super::topic::{InferredColumn, Misfits, TopicInference};

/// One payload column, for `strandline.columns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadColumn {
    pub name: String,
    pub column_type: ColumnType,
    pub pin: Pin,
    pub misfits: Misfits,
}

/// Whether later values can still change a column's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    Pinned,
    Provisional,
}

/// Where the columns come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnsOrigin {
    /// From the log and from the owner's inference over all records.
    Owner,
    /// From a bounded number of records, read by a process that may not pin.
    Provisional,
}

/// The payload columns of one topic at one moment.
#[derive(Debug)]
pub struct TopicColumns {
    pub key_format: ColumnFormat,
    pub value_format: ColumnFormat,
    pub columns: Vec<PayloadColumn>,
    /// Members without a column because a system column has their name.
    pub shadowed: Vec<String>,
    /// Values that are no JSON object, in a topic of JSON.
    pub undecoded: Misfits,
    pub origin: ColumnsOrigin,
    pub decoder: Option<Arc<dyn PayloadDecoder>>,
}

impl TopicColumns {
    pub fn new(topic: &Topic, inference: &TopicInference, origin: ColumnsOrigin) -> Self {
        let value_format = value_format(topic, inference);
        let is_json = value_format == ColumnFormat::Json;
        let columns: Vec<_> = match is_json {
            true => inference.columns.iter().map(payload_column).collect(),
            false => Vec::new(),
        };
        let typed = columns.iter().map(|column| (column.name.as_str(), column.column_type));
        let decoder = is_json.then(|| Arc::new(JsonDecoder::new(typed)) as Arc<dyn PayloadDecoder>);
        Self {
            key_format: key_format(topic),
            value_format,
            shadowed: if is_json { inference.shadowed.clone() } else { Vec::new() },
            undecoded: if is_json { inference.undecoded } else { Misfits::default() },
            columns,
            origin,
            decoder,
        }
    }
}

fn payload_column(column: &InferredColumn) -> PayloadColumn {
    PayloadColumn {
        name: column.name.clone(),
        column_type: column.column_type(),
        pin: if column.pinned.is_some() { Pin::Pinned } else { Pin::Provisional },
        misfits: column.misfits,
    }
}

/// Whether the records of the topic have to be looked at: a declared format other than JSON says all.
pub fn needs_inference(topic: &Topic) -> bool {
    topic.config.value_format().is_none_or(|format| format == "json")
}

fn value_format(topic: &Topic, inference: &TopicInference) -> ColumnFormat {
    match topic.config.value_format() {
        None if inference.format.is_json() => ColumnFormat::Json,
        None | Some("text") => ColumnFormat::Text,
        Some("json") => ColumnFormat::Json,
        Some(_) => ColumnFormat::Bytes,
    }
}

fn key_format(topic: &Topic) -> ColumnFormat {
    match topic.config.key_format() {
        "text" => ColumnFormat::Text,
        "json" => ColumnFormat::Json,
        _ => ColumnFormat::Bytes,
    }
}
