//! The values that a log is opened with, each with its bound. Components (store, clock) are passed
//! beside them.

use std::time::Duration;

use crate::ids::ShardId;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

#[derive(Clone, Debug)]
pub struct LogSettings {
    pub shard: ShardId,
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
    #[cfg(test)]
    pub(crate) wrong_rule: Option<super::simulation::WrongRule>,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            shard: ShardId::default(),
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
            #[cfg(test)]
            wrong_rule: None,
        }
    }
}
