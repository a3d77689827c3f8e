//! The values that a log is opened with, each with its bound. Components (store, clock) are passed
//! beside them.

use std::time::Duration;

use tokio::runtime::Handle;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

#[derive(Clone, Debug)]
pub struct LogSettings {
    /// How many shards a new log has. One that has more already keeps them; one that has fewer gets
    /// the others.
    pub shards: u32,
    /// Names this process in the claim of its epoch, for the message of whoever is fenced by it.
    pub node: String,
    /// Where this process can be reached, for the same message.
    pub address: String,
    /// How long a commit waits for company. `None` takes the store's own default.
    pub linger: Option<Duration>,
    pub puts_in_flight_max: usize,
    /// A commit takes pending appends up to this many bytes of batches, and at least one append.
    pub commit_bytes_max: usize,
    /// Appends that are not yet durable may hold this many bytes; then producers wait.
    pub pending_bytes_max: usize,
    /// The newest WAL objects are kept in memory up to this many bytes.
    pub tail_bytes_max: usize,
    /// Blocks read back from the store are cached up to this many bytes.
    pub cache_bytes_max: usize,
    /// A put that has not answered by then is resolved by reading its key.
    pub put_timeout: Duration,
    /// The batches of one request may decompress to this many bytes together.
    pub decompressed_bytes_max: usize,
    pub topics_max: usize,
    /// Over all topics.
    pub partitions_max: usize,
    pub maintenance: MaintenanceSettings,
    /// Where maintenance runs. `None` is where the log is opened, among the requests.
    pub maintenance_runtime: Option<Handle>,
    /// WAL objects (their keys) that an open passes over if they are damaged or missing. What they held
    /// is lost then.
    pub accept_loss: Vec<String>,
    #[cfg(test)]
    pub(crate) wrong_rule: Option<super::simulation::WrongRule>,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            shards: 1,
            node: String::new(),
            address: String::new(),
            linger: None,
            puts_in_flight_max: 4,
            commit_bytes_max: 8 * MIB,
            pending_bytes_max: 256 * MIB,
            tail_bytes_max: 64 * MIB,
            cache_bytes_max: 64 * MIB,
            put_timeout: Duration::from_secs(5),
            decompressed_bytes_max: 256 * MIB,
            topics_max: 100_000,
            partitions_max: 200_000,
            maintenance: MaintenanceSettings::default(),
            maintenance_runtime: None,
            accept_loss: Vec::new(),
            #[cfg(test)]
            wrong_rule: None,
        }
    }
}

impl LogSettings {
    /// What each of so many shards may use, where it has something of its own.
    pub(super) fn for_each_of(mut self, shards: u32) -> Self {
        let count = shards.max(1);
        self.tail_bytes_max /= count as usize;
        self.maintenance.clean_keys_max /= count as usize;
        self.maintenance.uncompacted_bytes_max /= u64::from(count);
        self
    }
}

#[cfg(test)]
impl LogSettings {
    /// Whether a rule is broken on purpose.
    pub(super) fn breaks(&self, rule: super::simulation::WrongRule) -> bool {
        self.wrong_rule == Some(rule)
    }
}

/// When the WAL is compacted, checkpoints are written, and what is not needed any more is deleted.
/// `None` takes what suits the store: a local directory or a remote one.
#[derive(Clone, Debug)]
pub struct MaintenanceSettings {
    /// The WAL is compacted when it holds this many bytes of batches that are in no segment yet,
    pub compaction_bytes: u64,
    /// or this many objects (local 16,384, remote 256),
    pub compaction_objects: Option<u64>,
    /// or when this time has passed since the last compaction and there is anything to compact.
    pub compaction_interval: Duration,
    /// One compaction reads this many bytes of the WAL at most.
    pub compaction_input_bytes_max: u64,
    /// A partition with as many bytes in one compaction gets a segment of its own.
    pub own_segment_bytes: u64,
    /// A segment of several partitions is not filled further than this.
    pub shared_segment_bytes: u64,
    /// Slices are merged up to this many bytes.
    pub segment_bytes_max: u64,
    /// A partition with as many small slices gets them merged.
    pub merge_slices: usize,
    /// A slice from this many bytes on is not small.
    pub small_slice_bytes: u64,
    /// A checkpoint is written after this time, if anything was committed,
    pub checkpoint_interval: Duration,
    /// or after this many bytes of WAL,
    pub checkpoint_wal_bytes: u64,
    /// or after this many objects (local 49,152, remote 4,096).
    pub checkpoint_wal_objects: Option<u64>,
    pub checkpoints_kept: usize,
    /// Older checkpoints than the newest are kept no longer than this.
    pub checkpoint_age_max: Duration,
    /// WAL objects are deleted when they have been compacted for this time.
    pub wal_delete_delay: Duration,
    /// Segments are deleted when nothing has referred to them for this time (local 60 s, remote 1 h).
    pub segment_delete_delay: Option<Duration>,
    /// What was deleted from a partition is in no object any more after this time.
    pub erase_delay: Duration,
    /// An object that nothing refers to is swept from this age on. An install refuses segments of
    /// half that age.
    pub orphan_age: Duration,
    pub sweep_interval: Duration,
    pub retention_interval: Duration,
    /// What is known of a producer of a partition is forgotten when it was silent for this time
    /// (Kafka's `producer.id.expiration.ms`).
    pub producer_expiration: Duration,
    pub producer_expiry_interval: Duration,
    /// Partitions are looked through for what log cleaning is due after this time, and after each
    /// compaction.
    pub clean_interval: Duration,
    /// One cleaning of a partition keeps so many keys in memory at most, about 128 MiB; what comes
    /// after is cleaned the next time.
    pub clean_keys_max: usize,
    /// Producers wait while the WAL holds more bytes of batches that are in no segment yet.
    pub uncompacted_bytes_max: u64,
}

impl Default for MaintenanceSettings {
    fn default() -> Self {
        const GIB: u64 = 1024 * MIB as u64;
        Self {
            compaction_bytes: 64 * MIB as u64,
            compaction_objects: None,
            compaction_interval: Duration::from_secs(60),
            compaction_input_bytes_max: 128 * MIB as u64,
            own_segment_bytes: 8 * MIB as u64,
            shared_segment_bytes: 64 * MIB as u64,
            segment_bytes_max: GIB,
            merge_slices: 16,
            small_slice_bytes: 64 * MIB as u64,
            checkpoint_interval: Duration::from_secs(5 * 60),
            checkpoint_wal_bytes: GIB,
            checkpoint_wal_objects: None,
            checkpoints_kept: 3,
            checkpoint_age_max: Duration::from_secs(3600),
            wal_delete_delay: Duration::from_secs(60),
            segment_delete_delay: None,
            erase_delay: Duration::from_secs(24 * 3600),
            orphan_age: Duration::from_secs(24 * 3600),
            sweep_interval: Duration::from_secs(24 * 3600),
            retention_interval: Duration::from_secs(5 * 60),
            producer_expiration: Duration::from_secs(24 * 3600),
            producer_expiry_interval: Duration::from_secs(10 * 60),
            clean_interval: Duration::from_secs(5 * 60),
            clean_keys_max: 3_500_000,
            uncompacted_bytes_max: 4 * GIB,
        }
    }
}

impl MaintenanceSettings {
    pub(super) fn compaction_objects(&self, place: StorePlace) -> u64 {
        self.compaction_objects.unwrap_or(match place {
            StorePlace::Local => 16_384,
            StorePlace::Remote => 256,
        })
    }

    pub(super) fn checkpoint_wal_objects(&self, place: StorePlace) -> u64 {
        self.checkpoint_wal_objects.unwrap_or(match place {
            StorePlace::Local => 49_152,
            StorePlace::Remote => 4_096,
        })
    }

    pub(super) fn segment_delete_delay(&self, place: StorePlace) -> Duration {
        self.segment_delete_delay.unwrap_or(match place {
            StorePlace::Local => Duration::from_secs(60),
            StorePlace::Remote => Duration::from_secs(3600),
        })
    }
}

/// What a request costs decides how many objects may wait for compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StorePlace {
    Local,
    Remote,
}

impl StorePlace {
    /// A store whose commits wait for company is a remote one.
    pub(super) fn of(linger_default: Duration) -> Self {
        if linger_default.is_zero() { Self::Local } else { Self::Remote }
    }
}
