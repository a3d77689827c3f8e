//! Checkpoints: an immutable root that says what the state was after one commit, and the immutable
//! pages that it points to. A page holds neighbouring entries of one kind, in the order of their
//! keys; pages that did not change are shared by the roots that follow each other.
//!
//! Invariants: a page is decoded only when length, CRC and kind are as the root says; an entry that
//! does not decode is refused. Nothing here knows what the entries mean together.

mod entries;

#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hasher};

use bytes::Bytes;
use prost::Message;

use super::envelope::{Envelope, EnvelopeError};
use super::slice::object_id_of;
use crate::ids::{ObjectId, ShardId, WalPosition};

pub use entries::{
    AbortedEntry, BatchEntry, ConfigEntry, GroupEntry, GroupEntryBody, GroupOffsetEntry,
    OpenTransactionEntry, PartitionEntry, ProducerEntry, SchemaEntry, SegmentEntry, SliceEntry,
    TailBlockEntry, TopicEntry, TransactionalIdEntry, block_entry_bytes, block_entry_of,
};

const ROOT: Envelope = Envelope { what: "checkpoint", magic: *b"STRDCKP\n", version: 2 };
const PAGE: Envelope = Envelope { what: "page", magic: *b"STRDPAG\n", version: 2 };

/// What the entries of a page are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PageKind {
    Topics,
    Partitions,
    Slices,
    Producers,
    GroupOffsets,
    Schemas,
    Segments,
    Groups,
    TransactionalIds,
    Users,
    Acls,
    Quotas,
}

impl PageKind {
    pub const ALL: [Self; 12] = [
        Self::Topics,
        Self::Partitions,
        Self::Slices,
        Self::Producers,
        Self::GroupOffsets,
        Self::Schemas,
        Self::Segments,
        Self::Groups,
        Self::TransactionalIds,
        Self::Users,
        Self::Acls,
        Self::Quotas,
    ];

    fn number(self) -> u32 {
        match self {
            Self::Topics => 1,
            Self::Partitions => 2,
            Self::Slices => 3,
            Self::Producers => 4,
            Self::GroupOffsets => 5,
            Self::Schemas => 6,
            Self::Segments => 7,
            Self::Groups => 8,
            Self::TransactionalIds => 9,
            Self::Users => 10,
            Self::Acls => 11,
            Self::Quotas => 12,
        }
    }

    fn of(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

/// Where a page is and what must be in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRef {
    pub kind: PageKind,
    pub page: ObjectId,
    /// The key of its first entry. Keys of a kind sort bytewise.
    pub first_key: Bytes,
    pub entry_count: u32,
    /// Bytes of the object.
    pub length: u32,
    /// CRC-32C of the object without its last four bytes.
    pub crc: u32,
    /// A hash of the entries, by which an unchanged page is recognised.
    pub fingerprint: u64,
}

/// The state of a shard after one commit, apart from what is in its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRoot {
    pub shard: ShardId,
    pub position: WalPosition,
    /// Of the commit at `position`.
    pub header_crc: u32,
    pub append_time_ms: i64,
    pub next_producer_id: i64,
    pub wal_objects: u64,
    pub wal_bytes: u64,
    pub compacted_wal_objects: u64,
    /// Writer epochs that are closed, and the seqs of their fences.
    pub epoch_ends: Vec<(u64, u64)>,
    /// In the order of kind and first key.
    pub pages: Vec<PageRef>,
}

/// The bytes of a root.
pub fn encode_checkpoint(root: &CheckpointRoot) -> Bytes {
    ROOT.encode(&RootMessage {
        shard: root.shard.0,
        writer_epoch: root.position.writer_epoch,
        seq: root.position.seq,
        header_crc: root.header_crc,
        append_time_ms: root.append_time_ms,
        next_producer_id: root.next_producer_id,
        wal_objects: root.wal_objects,
        wal_bytes: root.wal_bytes,
        compacted_wal_objects: root.compacted_wal_objects,
        epoch_ends: root
            .epoch_ends
            .iter()
            .map(|(writer_epoch, end_seq)| EpochEndMessage { writer_epoch: *writer_epoch, end_seq: *end_seq })
            .collect(),
        pages: root.pages.iter().map(page_ref_message).collect(),
    })
}

/// # Errors
/// Damage, or a version that this build does not read.
pub fn decode_checkpoint(bytes: &[u8]) -> Result<CheckpointRoot, EnvelopeError> {
    let message: RootMessage = ROOT.decode(bytes)?;
    let pages = message.pages.into_iter().map(page_ref_of).collect::<Result<_, _>>();
    Ok(CheckpointRoot {
        shard: ShardId(message.shard),
        position: WalPosition { writer_epoch: message.writer_epoch, seq: message.seq },
        header_crc: message.header_crc,
        append_time_ms: message.append_time_ms,
        next_producer_id: message.next_producer_id,
        wal_objects: message.wal_objects,
        wal_bytes: message.wal_bytes,
        compacted_wal_objects: message.compacted_wal_objects,
        epoch_ends: message.epoch_ends.iter().map(|end| (end.writer_epoch, end.end_seq)).collect(),
        pages: pages.map_err(|reason| ROOT.malformed(reason))?,
    })
}

fn page_ref_message(page: &PageRef) -> PageRefMessage {
    PageRefMessage {
        kind: page.kind.number(),
        page: page.page.to_bytes().to_vec(),
        first_key: page.first_key.to_vec(),
        entry_count: page.entry_count,
        length: page.length,
        crc: page.crc,
        fingerprint: page.fingerprint,
    }
}

fn page_ref_of(message: PageRefMessage) -> Result<PageRef, String> {
    let kind =
        PageKind::of(message.kind).ok_or_else(|| format!("page kind {} is not known", message.kind))?;
    Ok(PageRef {
        kind,
        page: object_id_of(&message.page)?,
        first_key: message.first_key.into(),
        entry_count: message.entry_count,
        length: message.length,
        crc: message.crc,
        fingerprint: message.fingerprint,
    })
}

/// The bytes of a page, and what a root says of it.
pub fn encode_page(
    kind: PageKind,
    page: ObjectId,
    first_key: Bytes,
    entries: Vec<Vec<u8>>,
) -> (PageRef, Bytes) {
    let entry_count = u32::try_from(entries.len()).expect("a page holds far fewer than 2^32 entries");
    let fingerprint = fingerprint(&entries);
    let bytes = PAGE.encode(&PageMessage { kind: kind.number(), entries });
    let length = u32::try_from(bytes.len()).expect("a page is far below 4 GiB");
    let crc = content_crc(&bytes);
    (PageRef { kind, page, first_key, entry_count, length, crc, fingerprint }, bytes)
}

/// The CRC of a page without its own last four bytes: over a CRC of the rest, it would be the same
/// for every page.
fn content_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(&bytes[..bytes.len().saturating_sub(4)])
}

/// A hash of the entries of a page, the same as long as they are. It need not be the same in every
/// build: pages are then written once more.
pub fn fingerprint(entries: &[Vec<u8>]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for entry in entries {
        hasher.write_usize(entry.len());
        hasher.write(entry);
    }
    hasher.finish()
}

/// The entries of a page, undecoded.
///
/// # Errors
/// Damage, a version that this build does not read, or another page than the root says.
pub fn decode_page(page: &PageRef, bytes: &[u8]) -> Result<Vec<Vec<u8>>, EnvelopeError> {
    let computed = content_crc(bytes);
    if computed != page.crc || bytes.len() as u64 != u64::from(page.length) {
        return Err(EnvelopeError::CrcMismatch { what: "page", stored: page.crc, computed });
    }
    let message: PageMessage = PAGE.decode(bytes)?;
    if PageKind::of(message.kind) != Some(page.kind) {
        return Err(PAGE.malformed(format!("it has kind {}, not {}", message.kind, page.kind.number())));
    }
    Ok(message.entries)
}

/// Decodes one entry of a page.
///
/// # Errors
/// Bytes that are not such an entry.
pub fn decode_entry<M: Message + Default>(bytes: &[u8]) -> Result<M, String> {
    M::decode(bytes).map_err(|error| error.to_string())
}

#[derive(Clone, PartialEq, Message)]
struct RootMessage {
    #[prost(uint32, tag = "1")]
    shard: u32,
    #[prost(uint64, tag = "2")]
    writer_epoch: u64,
    #[prost(uint64, tag = "3")]
    seq: u64,
    #[prost(fixed32, tag = "4")]
    header_crc: u32,
    #[prost(int64, tag = "5")]
    append_time_ms: i64,
    #[prost(int64, tag = "6")]
    next_producer_id: i64,
    #[prost(uint64, tag = "7")]
    wal_objects: u64,
    #[prost(uint64, tag = "8")]
    wal_bytes: u64,
    #[prost(uint64, tag = "9")]
    compacted_wal_objects: u64,
    #[prost(message, repeated, tag = "10")]
    epoch_ends: Vec<EpochEndMessage>,
    #[prost(message, repeated, tag = "11")]
    pages: Vec<PageRefMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct EpochEndMessage {
    #[prost(uint64, tag = "1")]
    writer_epoch: u64,
    #[prost(uint64, tag = "2")]
    end_seq: u64,
}

#[derive(Clone, PartialEq, Message)]
struct PageRefMessage {
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(bytes = "vec", tag = "2")]
    page: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    first_key: Vec<u8>,
    #[prost(uint32, tag = "4")]
    entry_count: u32,
    #[prost(uint32, tag = "5")]
    length: u32,
    #[prost(fixed32, tag = "6")]
    crc: u32,
    #[prost(fixed64, tag = "7")]
    fingerprint: u64,
}

#[derive(Clone, PartialEq, Message)]
struct PageMessage {
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(bytes = "vec", repeated, tag = "2")]
    entries: Vec<Vec<u8>>,
}
