//! The configuration of a topic: one table of names, types, defaults and bounds, through which both
//! fronts validate. Pure.
//!
//! A config without effect yet is accepted, kept and described, and says so (`effective`). A name
//! that is not in the table is refused.

use std::collections::BTreeMap;

use thiserror::Error;

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

#[derive(Clone, Copy)]
enum Check {
    Boolean,
    /// Inclusive bounds.
    Int(i64, i64),
    /// A number that stands for the default, or one within inclusive bounds.
    IntOr(i64, i64, i64),
    Long(i64, i64),
    Double(f64, f64),
    OneOf(&'static [&'static str]),
    /// A comma-separated list of these.
    ListOf(&'static [&'static str]),
    AnyList,
}

struct Spec {
    name: &'static str,
    default: &'static str,
    check: Check,
    effective: bool,
    documentation: &'static str,
}

const fn spec(name: &'static str, default: &'static str, check: Check, documentation: &'static str) -> Spec {
    Spec { name, default, check, effective: false, documentation }
}

const fn effective(
    name: &'static str,
    default: &'static str,
    check: Check,
    documentation: &'static str,
) -> Spec {
    Spec { name, default, check, effective: true, documentation }
}

const INT_MAX: i64 = i32::MAX as i64;
const LONG_MAX: i64 = i64::MAX;
const FORMATS: &[&str] = &["json", "text", "bytes"];

pub const KEY_FORMAT: &str = "key.format";
pub const VALUE_FORMAT: &str = "value.format";
const RETENTION_BYTES: &str = "retention.bytes";
const RETENTION_MS: &str = "retention.ms";
const RETENTION_REFERENCE: &str = "retention.reference";
const CLEANUP_POLICY: &str = "cleanup.policy";
const COMPRESSION_TYPE: &str = "compression.type";
const GZIP_LEVEL: &str = "compression.gzip.level";
const ZSTD_LEVEL: &str = "compression.zstd.level";
const DELETE_RETENTION_MS: &str = "delete.retention.ms";
const MAX_COMPACTION_LAG_MS: &str = "max.compaction.lag.ms";
const MIN_COMPACTION_LAG_MS: &str = "min.compaction.lag.ms";
const MIN_CLEANABLE_DIRTY_RATIO: &str = "min.cleanable.dirty.ratio";
const MAX_MESSAGE_BYTES: &str = "max.message.bytes";
const TIMESTAMP_TYPE: &str = "message.timestamp.type";
const TIMESTAMP_BEFORE_MAX_MS: &str = "message.timestamp.before.max.ms";
const TIMESTAMP_AFTER_MAX_MS: &str = "message.timestamp.after.max.ms";

/// Sorted by name. Names, defaults and bounds are those of Kafka 4.1's `TopicConfig` and
/// `LogConfig`, except where docs/compatibility.md says otherwise; the last group is ours.
const SPECS: &[Spec] = &[
    effective(
        CLEANUP_POLICY,
        "delete",
        Check::ListOf(&["compact", "delete"]),
        "delete old records by retention, keep the newest record of each key, or both",
    ),
    effective(
        GZIP_LEVEL,
        "-1",
        Check::IntOr(-1, 1, 9),
        "level for compression.type=gzip; -1 is the codec's default",
    ),
    spec("compression.lz4.level", "9", Check::Int(1, 17), "lz4 is written at its one level"),
    effective(
        COMPRESSION_TYPE,
        "producer",
        Check::OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]),
        "the codec that batches are kept with; producer keeps them as they came",
    ),
    effective(ZSTD_LEVEL, "3", Check::Int(-131_072, 22), "level for compression.type=zstd"),
    effective(
        DELETE_RETENTION_MS,
        "86400000",
        Check::Long(0, LONG_MAX),
        "how long log cleaning keeps tombstones and transaction markers",
    ),
    spec("file.delete.delay.ms", "60000", Check::Long(0, LONG_MAX), "delay before deleted data is removed"),
    spec("flush.messages", "9223372036854775807", Check::Long(1, LONG_MAX), "every ack is durable already"),
    spec("flush.ms", "9223372036854775807", Check::Long(0, LONG_MAX), "every ack is durable already"),
    spec("follower.replication.throttled.replicas", "", Check::AnyList, "there are no followers"),
    spec("index.interval.bytes", "4096", Check::Int(0, INT_MAX), "the index has an entry per block"),
    spec("leader.replication.throttled.replicas", "", Check::AnyList, "there are no followers"),
    spec("local.retention.bytes", "-2", Check::Long(-2, LONG_MAX), "there is no second tier"),
    spec("local.retention.ms", "-2", Check::Long(-2, LONG_MAX), "there is no second tier"),
    effective(
        MAX_COMPACTION_LAG_MS,
        "9223372036854775807",
        Check::Long(1, LONG_MAX),
        "records older than this are cleaned even if few are dirty",
    ),
    effective(MAX_MESSAGE_BYTES, "1048588", Check::Int(0, INT_MAX), "largest batch in bytes, as produced"),
    effective(
        TIMESTAMP_AFTER_MAX_MS,
        "3600000",
        Check::Long(0, LONG_MAX),
        "how far a record's time may be in the future",
    ),
    effective(
        TIMESTAMP_BEFORE_MAX_MS,
        "9223372036854775807",
        Check::Long(0, LONG_MAX),
        "how far a record's time may be in the past",
    ),
    effective(
        TIMESTAMP_TYPE,
        "CreateTime",
        Check::OneOf(&["CreateTime", "LogAppendTime"]),
        "whether a record's time is the producer's or that of the append",
    ),
    effective(
        MIN_CLEANABLE_DIRTY_RATIO,
        "0.5",
        Check::Double(0.0, 1.0),
        "a partition is cleaned when a larger part of its bytes was never cleaned",
    ),
    effective(
        MIN_COMPACTION_LAG_MS,
        "0",
        Check::Long(0, LONG_MAX),
        "records younger than this are not cleaned",
    ),
    spec("min.insync.replicas", "1", Check::Int(1, INT_MAX), "the object store replicates"),
    spec("preallocate", "false", Check::Boolean, "there are no files to preallocate"),
    spec("remote.log.copy.disable", "false", Check::Boolean, "there is no second tier"),
    spec("remote.log.delete.on.disable", "false", Check::Boolean, "there is no second tier"),
    spec("remote.storage.enable", "false", Check::Boolean, "there is no second tier"),
    effective(
        RETENTION_BYTES,
        "-1",
        Check::Long(-1, LONG_MAX),
        "the oldest records of a partition are deleted beyond this size; -1 keeps all",
    ),
    effective(
        RETENTION_MS,
        "-1",
        Check::Long(-1, LONG_MAX),
        "records older than this are deleted; -1 keeps all",
    ),
    spec("segment.bytes", "1073741824", Check::Int(1024 * 1024, INT_MAX), "segments roll by their own rules"),
    spec("segment.index.bytes", "10485760", Check::Int(4, INT_MAX), "segments roll by their own rules"),
    spec("segment.jitter.ms", "0", Check::Long(0, LONG_MAX), "segments roll by their own rules"),
    spec("segment.ms", "604800000", Check::Long(1, LONG_MAX), "segments roll by their own rules"),
    spec("unclean.leader.election.enable", "false", Check::Boolean, "there are no elections"),
    effective(
        RETENTION_REFERENCE,
        "record",
        Check::OneOf(&["record", "append"]),
        "what retention.ms counts from: the record's time, or when it was appended",
    ),
    effective(KEY_FORMAT, "text", Check::OneOf(FORMATS), "how SQL reads keys: json, text or bytes"),
    effective(
        VALUE_FORMAT,
        "",
        Check::OneOf(&["json", "text", "bytes", ""]),
        "how SQL reads values: json, text or bytes; empty: found out from the first records",
    ),
];

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

fn find(name: &str) -> Option<&'static Spec> {
    SPECS.iter().find(|spec| spec.name == name)
}

fn kind(check: &Check) -> ConfigKind {
    match check {
        Check::Boolean => ConfigKind::Boolean,
        Check::Int(..) | Check::IntOr(..) => ConfigKind::Int,
        Check::Long(..) => ConfigKind::Long,
        Check::Double(..) => ConfigKind::Double,
        Check::OneOf(_) => ConfigKind::String,
        Check::ListOf(_) | Check::AnyList => ConfigKind::List,
    }
}

fn check(check: &Check, value: &str) -> Result<(), String> {
    match check {
        Check::Boolean => one_of(value, &["true", "false"]),
        Check::Int(low, high) | Check::Long(low, high) => match value.parse::<i64>() {
            Ok(number) if (*low..=*high).contains(&number) => Ok(()),
            _ => Err(format!("must be an integer from {low} to {high}")),
        },
        Check::IntOr(default, low, high) => match value.parse::<i64>() {
            Ok(number) if number == *default || (*low..=*high).contains(&number) => Ok(()),
            _ => Err(format!("must be {default}, or an integer from {low} to {high}")),
        },
        Check::Double(low, high) => match value.parse::<f64>() {
            Ok(number) if (*low..=*high).contains(&number) => Ok(()),
            _ => Err(format!("must be a number from {low} to {high}")),
        },
        Check::OneOf(allowed) => one_of(value, allowed),
        Check::ListOf(allowed) => value.split(',').try_for_each(|item| one_of(item.trim(), allowed)),
        Check::AnyList => Ok(()),
    }
}

fn one_of(value: &str, allowed: &[&str]) -> Result<(), String> {
    if allowed.contains(&value) { Ok(()) } else { Err(format!("must be one of: {}", allowed.join(", "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn every_default_passes_its_own_check() {
        for spec in SPECS {
            assert_eq!(check(&spec.check, spec.default), Ok(()), "{}", spec.name);
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = SPECS.iter().map(|spec| spec.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SPECS.len());
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
        let entry = entries.iter().find(|entry| entry.name == "max.message.bytes").unwrap();
        assert!(!entry.is_default && entry.effective && entry.value == "2000");
        assert_eq!(entries.len(), SPECS.len());
        let reset = config.with_changes(&[("max.message.bytes".into(), None)]).unwrap();
        assert_eq!(reset.max_message_bytes(), 1_048_588);
    }
}
