//! The table of the configs of topics: names, types, defaults and bounds. Pure.

use super::ConfigKind;

#[derive(Clone, Copy)]
pub(super) enum Check {
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

pub(super) struct Spec {
    pub(super) name: &'static str,
    pub(super) default: &'static str,
    pub(super) check: Check,
    pub(super) effective: bool,
    pub(super) documentation: &'static str,
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
pub(super) const SEGMENT_BYTES: &str = "segment.bytes";
pub(super) const RETENTION_BYTES: &str = "retention.bytes";
pub(super) const RETENTION_MS: &str = "retention.ms";
pub(super) const RETENTION_REFERENCE: &str = "retention.reference";
pub(super) const CLEANUP_POLICY: &str = "cleanup.policy";
pub(super) const COMPRESSION_TYPE: &str = "compression.type";
pub(super) const GZIP_LEVEL: &str = "compression.gzip.level";
pub(super) const ZSTD_LEVEL: &str = "compression.zstd.level";
pub(super) const DELETE_RETENTION_MS: &str = "delete.retention.ms";
pub(super) const MAX_COMPACTION_LAG_MS: &str = "max.compaction.lag.ms";
pub(super) const MIN_COMPACTION_LAG_MS: &str = "min.compaction.lag.ms";
pub(super) const MIN_CLEANABLE_DIRTY_RATIO: &str = "min.cleanable.dirty.ratio";
pub(super) const MAX_MESSAGE_BYTES: &str = "max.message.bytes";
pub(super) const TIMESTAMP_TYPE: &str = "message.timestamp.type";
pub(super) const TIMESTAMP_BEFORE_MAX_MS: &str = "message.timestamp.before.max.ms";
pub(super) const TIMESTAMP_AFTER_MAX_MS: &str = "message.timestamp.after.max.ms";

/// Sorted by name. Names, defaults and bounds are those of Kafka 4.1's `TopicConfig` and
/// `LogConfig`, except where docs/compatibility.md says otherwise; the last group is ours.
pub(super) const SPECS: &[Spec] = &[
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
    effective(
        SEGMENT_BYTES,
        "1073741824",
        Check::Int(1024 * 1024, INT_MAX),
        "compaction and log cleaning put no more bytes than this into one unit, which retention deletes whole",
    ),
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

pub(super) fn find(name: &str) -> Option<&'static Spec> {
    SPECS.iter().find(|spec| spec.name == name)
}

pub(super) fn kind(check: &Check) -> ConfigKind {
    match check {
        Check::Boolean => ConfigKind::Boolean,
        Check::Int(..) | Check::IntOr(..) => ConfigKind::Int,
        Check::Long(..) => ConfigKind::Long,
        Check::Double(..) => ConfigKind::Double,
        Check::OneOf(_) => ConfigKind::String,
        Check::ListOf(_) | Check::AnyList => ConfigKind::List,
    }
}

pub(super) fn check(check: &Check, value: &str) -> Result<(), String> {
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
}
