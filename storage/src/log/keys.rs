//! The whole key space of a store, in one place (docs/formats.md). Numbers are zero-padded, so that
//! a sorted listing is in order. Pure.

use crate::ids::{BlockObject, ObjectId, ShardId, WalPosition};

/// The cluster's id and format version.
pub const CLUSTER: &str = "cluster";

/// The prefix of objects that say which versions a store needs beyond the one it was made by.
pub const FORMATS: &str = "formats";

/// There while a restore is under way: what is there is not a log yet.
pub const RESTORING: &str = "formats/restoring";

/// The prefix of all shards.
pub const SHARDS: &str = "shards";

/// The prefix of objects that say that a backup is complete.
pub const BACKUPS: &str = "backups";

/// Says that a backup is complete.
pub fn backup_key(backup: ObjectId) -> String {
    format!("{BACKUPS}/{backup}")
}

/// Says that a store has objects of a version.
pub fn format_key(version: u16) -> String {
    format!("{FORMATS}/{version:020}")
}

/// WAL objects of one epoch are spread over directories of this many.
pub const WAL_DIRECTORY_OBJECTS: u64 = 1024;

/// The shard that an object belongs to.
pub fn shard_of(key: &str) -> Option<ShardId> {
    let (shard, _) = key.strip_prefix(SHARDS)?.strip_prefix('/')?.split_once('/')?;
    shard.parse().ok().map(ShardId)
}

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

    /// The state after a commit.
    pub fn checkpoint(&self, position: WalPosition) -> String {
        format!("{}/{:020}-{:020}", self.checkpoints(), position.writer_epoch, position.seq)
    }

    /// The prefix of all pages of checkpoints.
    pub fn pages(&self) -> String {
        format!("shards/{}/pages", self.shard)
    }

    /// A page of checkpoints.
    pub fn page(&self, page: ObjectId) -> String {
        format!("{}/{page}", self.pages())
    }

    /// The prefix of all segments.
    pub fn data(&self) -> String {
        format!("shards/{}/data", self.shard)
    }

    pub fn segment(&self, segment: ObjectId) -> String {
        format!("{}/{segment}.seg", self.data())
    }

    /// The object that holds a block.
    pub fn block_object(&self, object: BlockObject) -> String {
        match object {
            BlockObject::Wal(position) => self.wal(position),
            BlockObject::Segment(segment) => self.segment(segment),
        }
    }

    /// The prefix of all WAL objects.
    pub fn wal_prefix(&self) -> String {
        format!("shards/{}/wal", self.shard)
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

/// The position in a key of [`ShardKeys::checkpoint`].
pub fn checkpoint_position(key: &str) -> Option<WalPosition> {
    let name = key.rsplit('/').next()?;
    let (writer_epoch, seq) = name.split_once('-')?;
    let number = |text: &str| (text.len() == 20).then(|| text.parse().ok())?;
    Some(WalPosition { writer_epoch: number(writer_epoch)?, seq: number(seq)? })
}

/// The position in a key of [`ShardKeys::wal`].
pub fn wal_position(key: &str) -> Option<WalPosition> {
    let mut components = key.rsplit('/');
    let seq = components.next().and_then(trailing_number)?;
    let writer_epoch = components.nth(1).and_then(trailing_number)?;
    Some(WalPosition { writer_epoch, seq })
}

/// The id in a key of [`ShardKeys::page`] or [`ShardKeys::segment`].
pub fn object_id(key: &str) -> Option<ObjectId> {
    let name = key.rsplit('/').next()?;
    ObjectId::parse(name.strip_suffix(".seg").unwrap_or(name))
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
        let position = WalPosition { writer_epoch: 7, seq: 1025 };
        assert_eq!(wal_position(&keys.wal(position)), Some(position));
        assert_eq!(checkpoint_position(&keys.checkpoint(position)), Some(position));
        let id = ObjectId::new(1_767_225_600_000, [3; 16]);
        assert_eq!(object_id(&keys.page(id)), Some(id));
        assert_eq!(object_id(&keys.segment(id)), Some(id));
        assert_eq!(object_id("shards/0/data/readme.txt"), None);
    }
}
