//! How the inference of a topic is stored in the log, as the topic's schema of kind `columns`.
//!
//! The bytes are one protobuf message, `StoredTopic` below. `encoding` is `ENCODING_VERSION`; a
//! reader that finds another number refuses the schema and names it, and fields that it does not know
//! may only be added when ignoring them is right. A column's `pinned` is 0 while its type is
//! provisional, else 1 bool, 2 bigint, 3 double, 4 numeric (with `scale`), 5 timestamptz, 6 json,
//! 7 text. A misfit's `first_partition` and `first_offset` have a meaning when `count` is not 0.
//!
//! Invariant: decoding the bytes of `encode` gives the same inference back, so a restart observes no
//! record twice.

use prost::Message;

use crate::decode::column_type::ColumnType;

use super::sample::{ColumnSample, FormatSample};
use super::topic::{InferredColumn, Misfits, TopicInference};

/// The kind under which the log keeps these bytes.
pub const SCHEMA_KIND: &str = "columns";
/// The encoding that this version writes and reads.
pub const ENCODING_VERSION: u32 = 1;

/// Why stored columns cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoredColumnsError {
    #[error("stored columns have encoding {found}, this version reads {ENCODING_VERSION}")]
    UnsupportedEncoding { found: u32 },
    #[error("stored columns are damaged: {0}")]
    Damaged(#[from] prost::DecodeError),
    #[error("stored column \"{column}\" has the unknown type {found}")]
    UnknownType { column: String, found: u32 },
}

#[derive(Clone, PartialEq, Message)]
struct StoredTopic {
    #[prost(uint32, tag = "1")]
    encoding: u32,
    #[prost(uint32, tag = "2")]
    format_values: u32,
    #[prost(uint32, tag = "3")]
    format_objects: u32,
    #[prost(message, repeated, tag = "4")]
    columns: Vec<StoredColumn>,
    #[prost(message, repeated, tag = "5")]
    progress: Vec<StoredProgress>,
    #[prost(uint64, tag = "6")]
    records: u64,
    #[prost(message, optional, tag = "7")]
    undecoded: Option<StoredMisfits>,
    #[prost(string, repeated, tag = "8")]
    shadowed: Vec<String>,
    #[prost(uint64, tag = "9")]
    beyond_columns_max: u64,
}

#[derive(Clone, PartialEq, Message)]
struct StoredColumn {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(uint32, tag = "2")]
    pinned: u32,
    #[prost(uint32, tag = "3")]
    scale: u32,
    #[prost(message, optional, tag = "4")]
    misfits: Option<StoredMisfits>,
    #[prost(message, optional, tag = "5")]
    sample: Option<StoredSample>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct StoredMisfits {
    #[prost(uint64, tag = "1")]
    count: u64,
    #[prost(int32, tag = "2")]
    first_partition: i32,
    #[prost(int64, tag = "3")]
    first_offset: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct StoredSample {
    #[prost(uint32, tag = "1")]
    bools: u32,
    #[prost(uint32, tag = "2")]
    integers: u32,
    #[prost(uint32, tag = "3")]
    wide_integers: u32,
    #[prost(uint32, tag = "4")]
    huge_integers: u32,
    #[prost(uint32, tag = "5")]
    fractions: u32,
    #[prost(uint32, tag = "6")]
    times: u32,
    #[prost(uint32, tag = "7")]
    strings: u32,
    #[prost(uint32, tag = "8")]
    nested: u32,
    #[prost(uint32, tag = "9")]
    scale: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct StoredProgress {
    #[prost(int32, tag = "1")]
    partition: i32,
    #[prost(int64, tag = "2")]
    next_offset: i64,
}

pub fn encode(topic: &TopicInference) -> Vec<u8> {
    let stored = StoredTopic {
        encoding: ENCODING_VERSION,
        format_values: topic.format.values,
        format_objects: topic.format.objects,
        columns: topic.columns.iter().map(store_column).collect(),
        progress: topic.progress.iter().map(store_progress).collect(),
        records: topic.records,
        undecoded: store_misfits(topic.undecoded),
        shadowed: topic.shadowed.clone(),
        beyond_columns_max: topic.beyond_columns_max,
    };
    stored.encode_to_vec()
}

/// # Errors
/// When the bytes are damaged or of an encoding that this version does not know.
pub fn decode(bytes: &[u8]) -> Result<TopicInference, StoredColumnsError> {
    let stored = StoredTopic::decode(bytes)?;
    if stored.encoding != ENCODING_VERSION {
        return Err(StoredColumnsError::UnsupportedEncoding { found: stored.encoding });
    }
    let columns: Vec<_> = stored.columns.into_iter().map(load_column).collect::<Result<_, _>>()?;
    let mut topic = TopicInference::with_columns(columns);
    topic.format = FormatSample { values: stored.format_values, objects: stored.format_objects };
    topic.progress = stored.progress.iter().map(|entry| (entry.partition, entry.next_offset)).collect();
    topic.records = stored.records;
    topic.undecoded = load_misfits(stored.undecoded);
    topic.shadowed = stored.shadowed;
    topic.beyond_columns_max = stored.beyond_columns_max;
    Ok(topic)
}

fn store_progress((partition, next_offset): (&i32, &i64)) -> StoredProgress {
    StoredProgress { partition: *partition, next_offset: *next_offset }
}

fn store_misfits(misfits: Misfits) -> Option<StoredMisfits> {
    let (first_partition, first_offset) = misfits.first?;
    Some(StoredMisfits { count: misfits.count, first_partition, first_offset })
}

fn load_misfits(stored: Option<StoredMisfits>) -> Misfits {
    stored.map_or(Misfits::default(), |stored| Misfits {
        count: stored.count,
        first: Some((stored.first_partition, stored.first_offset)),
    })
}

fn store_column(column: &InferredColumn) -> StoredColumn {
    let (pinned, scale) = column.pinned.map_or((0, 0), type_number);
    let sample = &column.sample;
    StoredColumn {
        name: column.name.clone(),
        pinned,
        scale,
        misfits: store_misfits(column.misfits),
        sample: Some(StoredSample {
            bools: sample.bools,
            integers: sample.integers,
            wide_integers: sample.wide_integers,
            huge_integers: sample.huge_integers,
            fractions: sample.fractions,
            times: sample.times,
            strings: sample.strings,
            nested: sample.nested,
            scale: sample.scale,
        }),
    }
}

fn load_column(stored: StoredColumn) -> Result<InferredColumn, StoredColumnsError> {
    let pinned = numbered_type(&stored)?;
    let sample = stored.sample.unwrap_or_default();
    Ok(InferredColumn {
        name: stored.name,
        pinned,
        misfits: load_misfits(stored.misfits),
        sample: ColumnSample {
            bools: sample.bools,
            integers: sample.integers,
            wide_integers: sample.wide_integers,
            huge_integers: sample.huge_integers,
            fractions: sample.fractions,
            times: sample.times,
            strings: sample.strings,
            nested: sample.nested,
            scale: sample.scale,
        },
    })
}

fn type_number(column_type: ColumnType) -> (u32, u32) {
    match column_type {
        ColumnType::Bool => (1, 0),
        ColumnType::Bigint => (2, 0),
        ColumnType::Double => (3, 0),
        ColumnType::Numeric { scale } => (4, scale),
        ColumnType::Timestamptz => (5, 0),
        ColumnType::Json => (6, 0),
        ColumnType::Text => (7, 0),
    }
}

fn numbered_type(stored: &StoredColumn) -> Result<Option<ColumnType>, StoredColumnsError> {
    Ok(Some(match stored.pinned {
        0 => return Ok(None),
        1 => ColumnType::Bool,
        2 => ColumnType::Bigint,
        3 => ColumnType::Double,
        4 => ColumnType::Numeric { scale: stored.scale },
        5 => ColumnType::Timestamptz,
        6 => ColumnType::Json,
        7 => ColumnType::Text,
        found => return Err(StoredColumnsError::UnknownType { column: stored.name.clone(), found }),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inference_comes_back_as_it_was() {
        let mut topic = TopicInference::default();
        for offset in 0..1_500 {
            let value = format!(
                r#"{{"id":{offset},"ts":1,"price":{offset}.5,"big":18446744073709551615,"o":{{}},"s":"x","b":true,"t":"2015-09-12T00:46:58.771Z","late{offset}":1}}"#
            );
            topic.observe(0, offset, Some(value.as_bytes()));
        }
        topic.observe(3, 7, Some(b"no json"));
        topic.progress.insert(3, 8);
        assert_eq!(decode(&encode(&topic)).unwrap(), topic);
    }

    #[test]
    fn another_encoding_and_damage_are_refused() {
        let stored = StoredTopic { encoding: 2, ..StoredTopic::default() }.encode_to_vec();
        let error = decode(&stored).unwrap_err();
        assert_eq!(error.to_string(), "stored columns have encoding 2, this version reads 1");
        assert!(matches!(decode(&[0xff, 0xff]), Err(StoredColumnsError::Damaged(_))));
    }
}
