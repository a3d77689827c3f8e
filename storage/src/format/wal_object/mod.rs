//! The WAL object: one commit of events and record batches, or the fence that ends a writer's epoch.
//!
//! Header, block index, events, batches, in that order: opening a log reads the front and leaves
//! the batches alone. The order of events and blocks is part of the format.
//!
//! Invariants: header, index and events are decoded only when their CRCs fit; blocks follow each
//! other from the end of the events to the end of the object; an object that a reader does not
//! understand as a whole is refused. Nothing here knows of keys, stores or the state that events
//! change.

mod block_index;
mod builder;
mod error;
mod fence;

#[cfg(test)]
mod tests;

pub(in crate::format) use block_index::NO_TIMESTAMP;
pub use block_index::{BLOCK_ENTRY_LENGTH, BlockEntry, BlockFlags};
pub use builder::{EncodedWalObject, WalObjectBuilder};
pub use error::WalObjectError;
pub use fence::{FENCE_LENGTH, Fence, encode_fence};

use super::FORMAT_VERSION;
use super::event::{self, Event};
use crate::ids::{ShardId, WalPosition};
pub(super) use block_index::decode_index;

/// How much of an object's front a reader asks for first: enough for all but the largest indexes.
pub const PREFIX_READ_LENGTH: u64 = 64 * 1024;

/// Bytes of the header of a commit, its CRC included.
pub const WAL_HEADER_LENGTH: usize = 104;

const MAGIC: [u8; 8] = *b"STRDWAL\n";
/// The format version since which the bytes are as they are now.
const WAL_VERSION: u16 = 1;
/// Bytes that commits and fences have in common: magic, version, kind, shard, position, nonce.
const COMMON_LENGTH: usize = 48;
const KIND_COMMIT: u16 = 1;
const KIND_FENCE: u16 = 2;

/// What a WAL object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalKind {
    Commit,
    Fence,
}

/// The header of a commit, without the lengths and CRCs that encoding fills in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalHeader {
    pub shard: ShardId,
    pub position: WalPosition,
    /// Drawn by the writer for this object: tells its own put from another one's.
    pub writer_nonce: [u8; 16],
    /// The last seq (inclusive) of the contiguous prefix that was durable when this object was
    /// sealed; -1 for none.
    pub durable_seq: i64,
    /// The header CRC of the object before; for seq 0, of the last one that was recovered.
    pub previous_header_crc: u32,
    /// Milliseconds since the Unix epoch.
    pub append_time_ms: i64,
}

/// A decoded WAL object.
#[derive(Clone, Debug, PartialEq)]
pub enum WalObject {
    Commit(CommitObject),
    Fence(Fence),
}

impl WalObject {
    /// The CRC that the next object's header names.
    pub fn header_crc(&self) -> u32 {
        match self {
            Self::Commit(commit) => commit.header_crc,
            Self::Fence(fence) => fence.header_crc(),
        }
    }

    pub fn shard(&self) -> ShardId {
        match self {
            Self::Commit(commit) => commit.header.shard,
            Self::Fence(fence) => fence.shard,
        }
    }

    pub fn position(&self) -> WalPosition {
        match self {
            Self::Commit(commit) => commit.header.position,
            Self::Fence(fence) => fence.position,
        }
    }
}

/// The front of a commit: everything but the batches.
#[derive(Clone, Debug, PartialEq)]
pub struct CommitObject {
    pub header: WalHeader,
    pub header_crc: u32,
    /// In the order of their bytes.
    pub blocks: Vec<BlockEntry>,
    /// In the order in which they apply.
    pub events: Vec<Event>,
    /// Where the first block begins, from the object's first byte.
    pub batches_position: u64,
    /// CRC-32C of all the bytes from there on.
    pub batches_crc: u32,
    pub object_length: u64,
}

/// The lengths and CRCs in the header of a commit.
#[derive(Clone, Copy, Debug)]
struct Sections {
    entry_length: u32,
    index_length: u32,
    index_crc: u32,
    events_length: u32,
    events_crc: u32,
    batches_length: u64,
    batches_crc: u32,
}

impl Sections {
    fn events_position(&self) -> u64 {
        WAL_HEADER_LENGTH as u64 + u64::from(self.index_length)
    }

    fn batches_position(&self) -> u64 {
        self.events_position() + u64::from(self.events_length)
    }
}

pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the slice has the length of the array")
}

fn put_common(out: &mut Vec<u8>, kind: u16, shard: ShardId, position: WalPosition, nonce: &[u8; 16]) {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&WAL_VERSION.to_le_bytes());
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&shard.0.to_le_bytes());
    out.extend_from_slice(&position.writer_epoch.to_le_bytes());
    out.extend_from_slice(&position.seq.to_le_bytes());
    out.extend_from_slice(nonce);
}

fn encode_header(out: &mut Vec<u8>, header: &WalHeader, sections: &Sections) -> u32 {
    let start = out.len();
    put_common(out, KIND_COMMIT, header.shard, header.position, &header.writer_nonce);
    out.extend_from_slice(&header.durable_seq.to_le_bytes());
    out.extend_from_slice(&header.previous_header_crc.to_le_bytes());
    out.extend_from_slice(&sections.entry_length.to_le_bytes());
    out.extend_from_slice(&header.append_time_ms.to_le_bytes());
    out.extend_from_slice(&sections.index_length.to_le_bytes());
    out.extend_from_slice(&sections.index_crc.to_le_bytes());
    out.extend_from_slice(&sections.events_length.to_le_bytes());
    out.extend_from_slice(&sections.events_crc.to_le_bytes());
    out.extend_from_slice(&sections.batches_length.to_le_bytes());
    out.extend_from_slice(&sections.batches_crc.to_le_bytes());
    let crc = crc32c::crc32c(&out[start..]);
    out.extend_from_slice(&crc.to_le_bytes());
    crc
}

fn position_of(bytes: &[u8]) -> (ShardId, WalPosition) {
    let position = WalPosition {
        writer_epoch: u64::from_le_bytes(array(bytes, 16)),
        seq: u64::from_le_bytes(array(bytes, 24)),
    };
    (ShardId(u32::from_le_bytes(array(bytes, 12))), position)
}

fn decode_header(bytes: &[u8; WAL_HEADER_LENGTH]) -> (WalHeader, Sections) {
    let (shard, position) = position_of(bytes);
    let header = WalHeader {
        shard,
        position,
        writer_nonce: array(bytes, 32),
        durable_seq: i64::from_le_bytes(array(bytes, 48)),
        previous_header_crc: u32::from_le_bytes(array(bytes, 56)),
        append_time_ms: i64::from_le_bytes(array(bytes, 64)),
    };
    let sections = Sections {
        entry_length: u32::from_le_bytes(array(bytes, 60)),
        index_length: u32::from_le_bytes(array(bytes, 72)),
        index_crc: u32::from_le_bytes(array(bytes, 76)),
        events_length: u32::from_le_bytes(array(bytes, 80)),
        events_crc: u32::from_le_bytes(array(bytes, 84)),
        batches_length: u64::from_le_bytes(array(bytes, 88)),
        batches_crc: u32::from_le_bytes(array(bytes, 96)),
    };
    (header, sections)
}

/// The front of an object, as far as it was read.
#[derive(Clone, Copy)]
struct Prefix<'a> {
    bytes: &'a [u8],
    object_length: u64,
}

impl<'a> Prefix<'a> {
    /// The bytes `start..end`: an error tells whether the object or only the prefix ends before.
    fn range(&self, part: &'static str, start: u64, end: u64) -> Result<&'a [u8], WalObjectError> {
        if end > self.object_length {
            let object_length = self.object_length;
            return Err(WalObjectError::Truncated { part, needed: end, object_length });
        }
        if end > self.bytes.len() as u64 {
            return Err(WalObjectError::NeedMore { length: end });
        }
        Ok(&self.bytes[start as usize..end as usize])
    }

    fn front(&self, length: usize) -> Result<&'a [u8], WalObjectError> {
        self.range("header", 0, length as u64)
    }
}

pub(super) fn check_crc(part: &'static str, bytes: &[u8], stored: u32) -> Result<(), WalObjectError> {
    let computed = crc32c::crc32c(bytes);
    if stored == computed { Ok(()) } else { Err(WalObjectError::CrcMismatch { part, stored, computed }) }
}

/// Splits off the CRC that ends a header, and checks it.
fn check_header_crc(header: &[u8]) -> Result<u32, WalObjectError> {
    let (covered, crc) = header.split_at(header.len() - 4);
    let stored = u32::from_le_bytes(array(crc, 0));
    check_crc("header", covered, stored)?;
    Ok(stored)
}

/// Magic, version and kind: the part that every version has in the same place.
fn kind_of(prefix: Prefix<'_>) -> Result<WalKind, WalObjectError> {
    let front = prefix.front(COMMON_LENGTH)?;
    if front[..8] != MAGIC {
        return Err(WalObjectError::BadMagic);
    }
    let found = u16::from_le_bytes(array(front, 8));
    if found == 0 || found > FORMAT_VERSION {
        return Err(WalObjectError::UnsupportedVersion { found, supported: FORMAT_VERSION });
    }
    match u16::from_le_bytes(array(front, 10)) {
        KIND_COMMIT => Ok(WalKind::Commit),
        KIND_FENCE => Ok(WalKind::Fence),
        other => Err(WalObjectError::UnknownKind(other)),
    }
}

/// Decodes the front of a WAL object of `object_length` bytes; `prefix` is its first bytes, at best
/// [`PREFIX_READ_LENGTH`] of them or all.
///
/// # Errors
/// [`WalObjectError::NeedMore`] when the prefix is too short: it names how many bytes to read, at
/// most `object_length`. Anything else is damage, or a version that this build does not read.
pub fn decode_wal_object(prefix: &[u8], object_length: u64) -> Result<WalObject, WalObjectError> {
    let prefix = Prefix { bytes: prefix, object_length };
    match kind_of(prefix)? {
        WalKind::Commit => decode_commit(prefix).map(WalObject::Commit),
        WalKind::Fence => fence::decode_fence(prefix).map(WalObject::Fence),
    }
}

fn decode_commit(prefix: Prefix<'_>) -> Result<CommitObject, WalObjectError> {
    let front = prefix.front(WAL_HEADER_LENGTH)?;
    let header_crc = check_header_crc(front)?;
    let (header, sections) = decode_header(&array(front, 0));
    let batches_position = sections.batches_position();
    let object_length = prefix.object_length;
    let blocks_end = batches_position.saturating_add(sections.batches_length);
    if blocks_end != object_length {
        return Err(WalObjectError::LengthMismatch { blocks_end, object_length });
    }
    let events = prefix.range("events", sections.events_position(), batches_position)?;
    let index = prefix.range("index", WAL_HEADER_LENGTH as u64, sections.events_position())?;
    check_crc("index", index, sections.index_crc)?;
    check_crc("events", events, sections.events_crc)?;
    let blocks = decode_index(index, sections.entry_length)?;
    check_blocks(&blocks, batches_position, object_length)?;
    let events =
        event::decode_events(events).map_err(|(index, source)| WalObjectError::Event { index, source })?;
    Ok(CommitObject {
        header,
        header_crc,
        blocks,
        events,
        batches_position,
        batches_crc: sections.batches_crc,
        object_length,
    })
}

/// Blocks follow each other without a gap from the end of the events to the end of the object.
fn check_blocks(
    blocks: &[BlockEntry],
    batches_position: u64,
    object_length: u64,
) -> Result<(), WalObjectError> {
    let mut blocks_end = batches_position;
    for (index, block) in blocks.iter().enumerate() {
        if block.position != blocks_end {
            return Err(WalObjectError::BadEntry { index, what: "its block does not follow the one before" });
        }
        blocks_end = blocks_end.saturating_add(u64::from(block.length));
    }
    if blocks_end != object_length {
        return Err(WalObjectError::LengthMismatch { blocks_end, object_length });
    }
    Ok(())
}

/// Checks the bytes of one block against its index entry.
///
/// # Errors
/// Another length or another CRC.
pub fn verify_block(entry: &BlockEntry, bytes: &[u8]) -> Result<(), WalObjectError> {
    let expected = u64::from(entry.length);
    if bytes.len() as u64 != expected {
        return Err(WalObjectError::BlockLength { found: bytes.len(), expected });
    }
    check_crc("block", bytes, entry.crc)
}

/// Checks all the bytes from [`CommitObject::batches_position`] on.
///
/// # Errors
/// Another length or another CRC.
pub fn verify_batches(commit: &CommitObject, batches: &[u8]) -> Result<(), WalObjectError> {
    let expected = commit.object_length - commit.batches_position;
    if batches.len() as u64 != expected {
        return Err(WalObjectError::BlockLength { found: batches.len(), expected });
    }
    check_crc("batches", batches, commit.batches_crc)
}

/// What an object is and the nonce of who put it: a writer that does not know whether its put
/// landed compares the nonce with its own. `prefix` is the first [`PREFIX_READ_LENGTH`] bytes or
/// all; the CRC of the header is checked.
///
/// # Errors
/// As [`decode_wal_object`].
pub fn writer_nonce_of(prefix: &[u8]) -> Result<(WalKind, [u8; 16]), WalObjectError> {
    let read = Prefix { bytes: prefix, object_length: prefix.len() as u64 };
    let kind = kind_of(read)?;
    let header = match kind {
        WalKind::Commit => read.front(WAL_HEADER_LENGTH)?,
        WalKind::Fence => read.front(FENCE_LENGTH)?,
    };
    check_header_crc(header)?;
    Ok((kind, array(header, 32)))
}
