//! The configuration of a topic, through which both fronts validate. Pure.
//!
//! A config without effect is accepted, kept and described, and says so (`effective`). A name that is
//! not in the table of `specs` is refused.

mod specs;

use std::collections::BTreeMap;

use thiserror::Error;

use self::specs::*;
pub use self::specs::{KEY_FORMAT, VALUE_FORMAT};
use crate::format::{Compression, TargetCompression, TimestampType};

/// What a value looks like, by the words of Kafka's `ConfigDef.Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigKind {
    Boolean,
    Int,
    Long,
    Double,
    String,
    List,
}

/// One config of a topic, as it is described to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    pub name: &'static str,
    pub value: String,
    pub is_default: bool,
    /// The value that it has when it is not set.
    pub default: &'static str,
    pub kind: ConfigKind,
    pub documentation: &'static str,
    /// False for a config that is accepted and kept, but changes nothing yet.
    pub effective: bool,
}

/// Why a config was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    #[error("unknown topic config {key}")]
    Unknown { key: String },
    #[error("invalid value {value} for topic config {key}: {reason}")]
    Invalid { key: String, value: String, reason: String },
    #[error("topic config {key} is not a list, so nothing can be added to it or taken from it")]
    NotAList { key: String },
}

/// What the age of a record counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetentionReference {
    /// The record's own timestamp.
    Record,
    /// When it was appended.
    Append,
}

/// The configuration of one topic: what was set, checked, with the defaults behind it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TopicConfig {
    set: BTreeMap<String, String>,
}

impl TopicConfig {
    /// Checks what a client asks for.
    ///
    /// # Errors
    /// The first config, by name, that is unknown or has a value out of its bounds.
    pub fn parse(configs: &BTreeMap<String, String>) -> Result<Self, ConfigError> {
        for (key, value) in configs {
            let spec = find(key).ok_or_else(|| ConfigError::Unknown { key: key.clone() })?;
            check(&spec.check, value).map_err(|reason| ConfigError::Invalid {
                key: key.clone(),
                value: value.clone(),
                reason,
            })?;
        }
        Ok(Self { set: configs.clone() })
    }

    /// The configuration after some changes; `None` resets a config to its default.
    pub fn with_changes(&self, changes: &[(String, Option<String>)]) -> Result<Self, ConfigError> {
        let mut set = self.set.clone();
        for (key, value) in changes {
            match value {
                Some(value) => set.insert(key.clone(), value.clone()),
                None if find(key).is_none() => return Err(ConfigError::Unknown { key: key.clone() }),
                None => set.remove(key),
            };
        }
        Self::parse(&set)
    }

    /// What was read back from the log, where it was checked before it was written.
    pub(crate) fn from_log(set: BTreeMap<String, String>) -> Self {
        Self { set }
    }

    /// What was set, without the defaults.
    pub fn explicit(&self) -> &BTreeMap<String, String> {
        &self.set
    }

    /// All configs, with defaults, by name.
    pub fn entries(&self) -> Vec<ConfigEntry> {
        let mut entries: Vec<_> = SPECS.iter().map(|spec| self.entry(spec)).collect();
        entries.sort_by_key(|entry| entry.name);
        entries
    }

    /// One config by its name; `None` if there is no such config.
    pub fn entry_of(&self, name: &str) -> Option<ConfigEntry> {
        find(name).map(|spec| self.entry(spec))
    }

    fn entry(&self, spec: &Spec) -> ConfigEntry {
        let set = self.set.get(spec.name);
        ConfigEntry {
            name: spec.name,
            value: set.map_or(spec.default, String::as_str).to_owned(),
            is_default: set.is_none(),
            default: spec.default,
            kind: kind(&spec.check),
            documentation: spec.documentation,
            effective: spec.effective,
        }
    }

    /// The value of a config of the table: what was set, or its default.
    fn get(&self, name: &str) -> &str {
        let default = || find(name).map_or("", |spec| spec.default);
        self.set.get(name).map_or_else(default, String::as_str)
    }

    fn integer(&self, name: &str) -> i64 {
        self.get(name).parse().expect("integers are checked before they are set")
    }

    /// The largest batch that is accepted, in bytes as produced.
    pub fn max_message_bytes(&self) -> usize {
        usize::try_from(self.integer(MAX_MESSAGE_BYTES)).expect("the bounds of the config are 0 and i32::MAX")
    }

    /// The codec that batches are kept with; `None`: as the producer compressed them.
    pub fn compression(&self) -> Option<TargetCompression> {
        let level = |name| i32::try_from(self.integer(name)).ok();
        let (compression, level) = match self.get(COMPRESSION_TYPE) {
            "uncompressed" => (Compression::None, None),
            "gzip" => (Compression::Gzip, level(GZIP_LEVEL).filter(|level| *level >= 0)),
            "snappy" => (Compression::Snappy, None),
            "lz4" => (Compression::Lz4, None),
            "zstd" => (Compression::Zstd, level(ZSTD_LEVEL)),
            _ => return None,
        };
        Some(TargetCompression { compression, level })
    }

    pub fn message_timestamp_type(&self) -> TimestampType {
        match self.get(TIMESTAMP_TYPE) {
            "LogAppendTime" => TimestampType::LogAppendTime,
            _ => TimestampType::CreateTime,
        }
    }

    pub fn message_timestamp_before_max_ms(&self) -> i64 {
        self.integer(TIMESTAMP_BEFORE_MAX_MS)
    }

    pub fn message_timestamp_after_max_ms(&self) -> i64 {
        self.integer(TIMESTAMP_AFTER_MAX_MS)
    }

    /// Whether the cleanup policy lets retention delete records.
    pub fn deletes_by_retention(&self) -> bool {
        self.get(CLEANUP_POLICY).split(',').any(|policy| policy.trim() == "delete")
    }

    /// Whether the cleanup policy keeps only the newest record of each key.
    pub fn compacts(&self) -> bool {
        self.get(CLEANUP_POLICY).split(',').any(|policy| policy.trim() == "compact")
    }

    /// How long log cleaning keeps tombstones and transaction markers.
    pub fn delete_retention_ms(&self) -> i64 {
        self.integer(DELETE_RETENTION_MS)
    }

    /// Records younger than this are not cleaned.
    pub fn min_compaction_lag_ms(&self) -> i64 {
        self.integer(MIN_COMPACTION_LAG_MS)
    }

    /// Records older than this are cleaned even if few are dirty.
    pub fn max_compaction_lag_ms(&self) -> i64 {
        self.integer(MAX_COMPACTION_LAG_MS)
    }

    /// A partition is cleaned when a larger part of its bytes was never cleaned.
    pub fn min_cleanable_dirty_ratio(&self) -> f64 {
        self.get(MIN_CLEANABLE_DIRTY_RATIO).parse().expect("numbers are checked before they are set")
    }

    /// The size beyond which the oldest records of a partition are deleted.
    pub fn retention_bytes(&self) -> Option<u64> {
        u64::try_from(self.integer(RETENTION_BYTES)).ok()
    }

    /// The most bytes of one slice, which retention deletes whole.
    pub fn segment_bytes(&self) -> u64 {
        u64::try_from(self.integer(SEGMENT_BYTES)).expect("the lower bound of the config is positive")
    }

    /// The age beyond which records are deleted.
    pub fn retention_ms(&self) -> Option<i64> {
        Some(self.integer(RETENTION_MS)).filter(|ms| *ms >= 0)
    }

    pub fn retention_reference(&self) -> RetentionReference {
        match self.get(RETENTION_REFERENCE) {
            "append" => RetentionReference::Append,
            _ => RetentionReference::Record,
        }
    }

    /// How SQL reads keys.
    pub fn key_format(&self) -> &str {
        self.get(KEY_FORMAT)
    }

    /// How SQL reads values; `None` until somebody set it.
    pub fn value_format(&self) -> Option<&str> {
        Some(self.get(VALUE_FORMAT)).filter(|format| !format.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn unknown_and_out_of_bounds_configs_are_refused() {
        let parse = |pairs: &[(&str, &str)]| TopicConfig::parse(&configs(pairs));
        assert!(matches!(parse(&[("no.such", "1")]), Err(ConfigError::Unknown { .. })));
        assert!(matches!(parse(&[("max.message.bytes", "-1")]), Err(ConfigError::Invalid { .. })));
        assert!(matches!(parse(&[("cleanup.policy", "compact,keep")]), Err(ConfigError::Invalid { .. })));
        assert!(matches!(parse(&[("preallocate", "yes")]), Err(ConfigError::Invalid { .. })));
    }

    #[test]
    fn a_topic_can_be_cleaned_deleted_from_or_both() {
        let policies = |value: &str| {
            let config = TopicConfig::parse(&configs(&[("cleanup.policy", value)])).unwrap();
            (config.compacts(), config.deletes_by_retention())
        };
        assert_eq!(policies("compact"), (true, false));
        assert_eq!(policies("compact, delete"), (true, true));
        assert_eq!(policies("delete"), (false, true));
    }

    #[test]
    fn a_topic_may_ask_for_a_codec_and_its_level() {
        let target = |pairs: &[(&str, &str)]| TopicConfig::parse(&configs(pairs)).unwrap().compression();
        let expected = |compression, level| Some(TargetCompression { compression, level });
        assert_eq!(target(&[]), None);
        assert_eq!(target(&[("compression.type", "uncompressed")]), expected(Compression::None, None));
        assert_eq!(target(&[("compression.type", "gzip")]), expected(Compression::Gzip, None));
        assert_eq!(target(&[("compression.type", "zstd")]), expected(Compression::Zstd, Some(3)));
        let level = [("compression.type", "gzip"), ("compression.gzip.level", "9")];
        assert_eq!(target(&level), expected(Compression::Gzip, Some(9)));
        assert!(TopicConfig::parse(&configs(&[("compression.gzip.level", "0")])).is_err());
    }

    #[test]
    fn what_was_set_is_described_as_set() {
        let config = TopicConfig::parse(&configs(&[("max.message.bytes", "2000")])).unwrap();
        assert_eq!(config.max_message_bytes(), 2000);
        let entries = config.entries();
        assert_eq!(config.segment_bytes(), 1 << 30);
        let entry = entries.iter().find(|entry| entry.name == "max.message.bytes").unwrap();
        assert!(!entry.is_default && entry.effective && entry.value == "2000");
        assert_eq!(entries.len(), SPECS.len());
        let reset = config.with_changes(&[("max.message.bytes".into(), None)]).unwrap();
        assert_eq!(reset.max_message_bytes(), 1_048_588);
    }
}
