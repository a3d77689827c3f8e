//! The backup object: what of the objects beside it makes up one complete backup. Put last, so that
//! a backup without one is not complete.

use bytes::Bytes;
use prost::Message;

use super::cluster::ClusterId;
use super::envelope::{Envelope, EnvelopeError};
use crate::ids::{ShardId, WalPosition};

const ENVELOPE: Envelope = Envelope { what: "backup", magic: *b"STRDBAK\n", version: 2 };

/// A complete backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    pub cluster_id: ClusterId,
    /// Everything that was acknowledged before is in it.
    pub begun_at_ms: i64,
    pub shards: Vec<ShardBackup>,
}

/// One shard of a backup: the state after `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardBackup {
    pub shard: ShardId,
    /// The checkpoint that a restored log opens from; `None` if the log had none.
    pub checkpoint: Option<WalPosition>,
    /// The newest commit.
    pub end: WalPosition,
}

#[derive(Clone, PartialEq, Message)]
struct BackupMessage {
    #[prost(bytes = "vec", tag = "1")]
    cluster_id: Vec<u8>,
    #[prost(int64, tag = "2")]
    begun_at_ms: i64,
    #[prost(message, repeated, tag = "3")]
    shards: Vec<ShardBackupMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct ShardBackupMessage {
    #[prost(uint32, tag = "1")]
    shard: u32,
    #[prost(message, optional, tag = "2")]
    checkpoint: Option<PositionMessage>,
    #[prost(message, optional, tag = "3")]
    end: Option<PositionMessage>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct PositionMessage {
    #[prost(uint64, tag = "1")]
    writer_epoch: u64,
    #[prost(uint64, tag = "2")]
    seq: u64,
}

impl PositionMessage {
    fn new(position: WalPosition) -> Self {
        Self { writer_epoch: position.writer_epoch, seq: position.seq }
    }

    fn position(self) -> WalPosition {
        WalPosition { writer_epoch: self.writer_epoch, seq: self.seq }
    }
}

/// The bytes of a backup object.
pub fn encode_backup(backup: &Backup) -> Bytes {
    let shard = |shard: &ShardBackup| ShardBackupMessage {
        shard: shard.shard.0,
        checkpoint: shard.checkpoint.map(PositionMessage::new),
        end: Some(PositionMessage::new(shard.end)),
    };
    ENVELOPE.encode(&BackupMessage {
        cluster_id: backup.cluster_id.0.to_vec(),
        begun_at_ms: backup.begun_at_ms,
        shards: backup.shards.iter().map(shard).collect(),
    })
}

/// # Errors
/// Damage, or a version that this build does not read.
pub fn decode_backup(bytes: &[u8]) -> Result<Backup, EnvelopeError> {
    let message: BackupMessage = ENVELOPE.decode(bytes)?;
    let cluster_id = message.cluster_id.as_slice().try_into().map_err(|_| {
        ENVELOPE.malformed(format!("its cluster id has {} bytes, not 16", message.cluster_id.len()))
    })?;
    let shard = |shard: ShardBackupMessage| {
        let end = shard.end.ok_or_else(|| ENVELOPE.malformed(format!("shard {} has no end", shard.shard)))?;
        let checkpoint = shard.checkpoint.map(PositionMessage::position);
        Ok(ShardBackup { shard: ShardId(shard.shard), checkpoint, end: end.position() })
    };
    let shards = message.shards.into_iter().map(shard).collect::<Result<_, _>>()?;
    Ok(Backup { cluster_id: ClusterId(cluster_id), begun_at_ms: message.begun_at_ms, shards })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn backup() -> Backup {
        let position = |seq| WalPosition { writer_epoch: 3, seq };
        let shard = |shard, checkpoint| ShardBackup { shard: ShardId(shard), checkpoint, end: position(90) };
        let shards = vec![shard(0, Some(position(70))), shard(1, None)];
        Backup { cluster_id: ClusterId([7; 16]), begun_at_ms: 5, shards }
    }

    #[test]
    fn every_flipped_bit_and_every_truncation_is_detected() {
        let bytes = encode_backup(&backup());
        assert_eq!(decode_backup(&bytes), Ok(backup()));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_backup(&damaged).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(decode_backup(&bytes[..length]).is_err(), "length {length}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode_backup(&bytes);
        }
    }
}
