//! When the log is compacted and checkpointed, and when what is not needed any more is deleted.

use serde::{Deserialize, Serialize};
use strandline_storage::log::MaintenanceSettings;

use crate::failure::Failure;
use crate::units::{ByteSize, HumanDuration};

/// The part of [`MaintenanceSettings`] that an operator may want to set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MaintenanceConfig {
    /// The WAL is compacted when it holds as many bytes that are in no segment yet,
    pub compaction_bytes: ByteSize,
    /// or as many objects; the kind of store decides if it is not set,
    pub compaction_objects: Option<u64>,
    /// or when this time has passed.
    pub compaction_interval: HumanDuration,
    /// Segments are merged up to this size.
    pub segment_bytes_max: ByteSize,
    pub checkpoint_interval: HumanDuration,
    pub checkpoint_wal_bytes: ByteSize,
    /// How long compacted WAL objects stay.
    pub wal_delete_delay: HumanDuration,
    /// How long segments stay that nothing refers to; the kind of store decides if it is not set.
    pub segment_delete_delay: Option<HumanDuration>,
    /// After this time, deleted records are in no object any more.
    pub erase_delay: HumanDuration,
    /// How often the retention of topics is looked at.
    pub retention_interval: HumanDuration,
    /// Producers wait while more bytes are in no segment yet.
    pub uncompacted_bytes_max: ByteSize,
}

impl Default for MaintenanceConfig {
    fn default() -> Self {
        let defaults = MaintenanceSettings::default();
        Self {
            compaction_bytes: ByteSize(defaults.compaction_bytes),
            compaction_objects: defaults.compaction_objects,
            compaction_interval: HumanDuration(defaults.compaction_interval),
            segment_bytes_max: ByteSize(defaults.segment_bytes_max),
            checkpoint_interval: HumanDuration(defaults.checkpoint_interval),
            checkpoint_wal_bytes: ByteSize(defaults.checkpoint_wal_bytes),
            wal_delete_delay: HumanDuration(defaults.wal_delete_delay),
            segment_delete_delay: defaults.segment_delete_delay.map(HumanDuration),
            erase_delay: HumanDuration(defaults.erase_delay),
            retention_interval: HumanDuration(defaults.retention_interval),
            uncompacted_bytes_max: ByteSize(defaults.uncompacted_bytes_max),
        }
    }
}

impl MaintenanceConfig {
    pub fn settings(&self) -> MaintenanceSettings {
        MaintenanceSettings {
            compaction_bytes: self.compaction_bytes.0,
            compaction_objects: self.compaction_objects,
            compaction_interval: self.compaction_interval.0,
            segment_bytes_max: self.segment_bytes_max.0,
            checkpoint_interval: self.checkpoint_interval.0,
            checkpoint_wal_bytes: self.checkpoint_wal_bytes.0,
            wal_delete_delay: self.wal_delete_delay.0,
            segment_delete_delay: self.segment_delete_delay.map(|delay| delay.0),
            erase_delay: self.erase_delay.0,
            retention_interval: self.retention_interval.0,
            uncompacted_bytes_max: self.uncompacted_bytes_max.0,
            ..MaintenanceSettings::default()
        }
    }

    /// # Errors
    /// A value with which the log would do nothing else, or hold up its producers for ever.
    pub(super) fn check(&self) -> Result<(), Failure> {
        for (name, duration) in [
            ("compaction_interval", self.compaction_interval),
            ("checkpoint_interval", self.checkpoint_interval),
            ("retention_interval", self.retention_interval),
        ] {
            if duration.0.is_zero() {
                return Err(Failure::Usage(format!("maintenance.{name} is 0; it has to be longer")));
            }
        }
        let (limit, trigger) = (self.uncompacted_bytes_max, self.compaction_bytes);
        if limit.0 < 2 * trigger.0 {
            return Err(Failure::Usage(format!(
                "maintenance.uncompacted_bytes_max is {limit}; it has to be at least twice \
                 maintenance.compaction_bytes, which is {trigger}"
            )));
        }
        Ok(())
    }
}
