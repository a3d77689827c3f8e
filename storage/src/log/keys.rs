//! The whole key space of a store, in one place (docs/formats.md). Numbers are zero-padded, so that
//! a sorted listing is in order. Pure.

use crate::ids::{ShardId, WalPosition};

/// The cluster's id and format version.
pub const CLUSTER: &str = "cluster";

/// WAL objects of one epoch are spread over directories of this many.
pub const WAL_DIRECTORY_OBJECTS: u64 = 1024;

/// The keys of one shard.
#[derive(Clone, Copy, Debug)]
pub struct ShardKeys {
    shard: ShardId,
}

impl ShardKeys {
    pub fn new(shard: ShardId) -> Self {
        Self { shard }
    }

    /// The prefix of all claims.
    pub fn epochs(&self) -> String {
        format!("shards/{}/epochs", self.shard)
    }

    /// The claim of one writer epoch.
    pub fn epoch(&self, writer_epoch: u64) -> String {
        format!("{}/{writer_epoch:020}", self.epochs())
    }

    /// The prefix of all checkpoints.
    pub fn checkpoints(&self) -> String {
        format!("shards/{}/checkpoints", self.shard)
    }

    /// The prefix of the WAL objects of one epoch.
    pub fn wal_epoch(&self, writer_epoch: u64) -> String {
        format!("shards/{}/wal/{writer_epoch:020}", self.shard)
    }

    /// A commit, or a fence.
    pub fn wal(&self, position: WalPosition) -> String {
        let directory = position.seq / WAL_DIRECTORY_OBJECTS;
        format!("{}/{directory:020}/{:020}", self.wal_epoch(position.writer_epoch), position.seq)
    }
}

/// The number at the end of a key of [`ShardKeys::epochs`] or [`ShardKeys::wal_epoch`]; `None` for a
/// key that this version did not make.
pub fn trailing_number(key: &str) -> Option<u64> {
    let name = key.rsplit('/').next()?;
    (name.len() == 20).then(|| name.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_their_numbers() {
        let keys = ShardKeys::new(ShardId(0));
        let key = |seq| keys.wal(WalPosition { writer_epoch: 7, seq });
        assert_eq!(key(1025), "shards/0/wal/00000000000000000007/00000000000000000001/00000000000000001025");
        assert!(key(9) < key(10) && key(1023) < key(1024));
        assert_eq!(trailing_number(&key(1025)), Some(1025));
        assert_eq!(trailing_number(&keys.epoch(3)), Some(3));
        assert_eq!(trailing_number("shards/0/epochs/readme"), None);
    }
}
