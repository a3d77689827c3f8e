//! The segment: what compaction makes of many commits. Slices of one or many partitions one after
//! the other, and a footer that holds their block indexes and says where they are.
//!
//! Header, blocks, index, directory, trailer, in that order. A reader that knows a slice reads the
//! slice's part of the index and then blocks; one that knows only the key reads the trailer first.
//!
//! Invariants: blocks follow each other from the header to the index, index entries stand in the
//! order of the blocks, and the entries of a slice are together; index and directory are decoded
//! only when their CRCs fit. Nothing here knows of keys or stores.

mod builder;
#[cfg(test)]
mod tests;

pub use builder::{SegmentBuilder, SegmentFooter, length_of};

use prost::Message;

use super::FORMAT_VERSION;
use super::slice::{Slice, SliceLocation, SliceMessage};
use super::wal_object::{BlockEntry, WalObjectError, array, check_crc, decode_index};
use crate::ids::{ObjectId, ShardId};

/// Bytes of the header, its CRC included.
pub const SEGMENT_HEADER_LENGTH: usize = 36;
/// Bytes of the trailer, which ends the object.
pub const SEGMENT_TRAILER_LENGTH: usize = 48;

/// The format version since which the bytes are as they are now.
const SEGMENT_VERSION: u16 = 2;
const MAGIC: [u8; 8] = *b"STRDSEG\n";
const TRAILER_MAGIC: [u8; 8] = *b"STRDEND\n";

/// Why the bytes of a segment were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    #[error("the bytes do not {at} as a segment does")]
    BadMagic { at: &'static str },
    #[error("format version {found} needs a newer strandline: this one reads versions up to {supported}")]
    UnsupportedVersion { found: u16, supported: u16 },
    #[error("segment of {object_length} bytes ends inside its {part}")]
    Truncated { part: &'static str, object_length: u64 },
    #[error("it says that it is segment {found}")]
    OtherObject { found: ObjectId },
    #[error("the directory does not decode: {reason}")]
    Directory { reason: String },
    #[error("slice {index}: {what}")]
    BadSlice { index: usize, what: &'static str },
    #[error(transparent)]
    Index(#[from] WalObjectError),
}

/// What a segment says about itself in its front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    pub shard: ShardId,
    pub object: ObjectId,
}

/// Where the parts of the footer are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentTrailer {
    /// From the first byte of the segment.
    pub index_position: u64,
    pub index_length: u64,
    pub directory_length: u32,
    directory_crc: u32,
}

impl SegmentTrailer {
    pub fn directory_position(&self) -> u64 {
        self.index_position + self.index_length
    }
}

#[derive(Clone, PartialEq, Message)]
struct DirectoryMessage {
    #[prost(message, repeated, tag = "1")]
    slices: Vec<SliceMessage>,
}

fn encode_segment_header(header: &SegmentHeader) -> [u8; SEGMENT_HEADER_LENGTH] {
    let mut out = [0; SEGMENT_HEADER_LENGTH];
    out[..8].copy_from_slice(&MAGIC);
    out[8..10].copy_from_slice(&SEGMENT_VERSION.to_le_bytes());
    out[12..16].copy_from_slice(&header.shard.0.to_le_bytes());
    out[16..32].copy_from_slice(&header.object.to_bytes());
    let crc = crc32c::crc32c(&out[..32]);
    out[32..].copy_from_slice(&crc.to_le_bytes());
    out
}

/// Decodes the first [`SEGMENT_HEADER_LENGTH`] bytes of a segment.
///
/// # Errors
/// Damage, or a version that this build does not read.
pub fn decode_segment_header(bytes: &[u8]) -> Result<SegmentHeader, SegmentError> {
    let truncated = SegmentError::Truncated { part: "header", object_length: bytes.len() as u64 };
    let bytes = bytes.get(..SEGMENT_HEADER_LENGTH).ok_or(truncated)?;
    if bytes[..8] != MAGIC {
        return Err(SegmentError::BadMagic { at: "begin" });
    }
    let found = u16::from_le_bytes(array(bytes, 8));
    if found == 0 || found > FORMAT_VERSION {
        return Err(SegmentError::UnsupportedVersion { found, supported: FORMAT_VERSION });
    }
    check_crc("header", &bytes[..32], u32::from_le_bytes(array(bytes, 32)))?;
    Ok(SegmentHeader {
        shard: ShardId(u32::from_le_bytes(array(bytes, 12))),
        object: ObjectId::from_bytes(array(bytes, 16)),
    })
}

/// Decodes the last [`SEGMENT_TRAILER_LENGTH`] bytes of a segment of `object_length` bytes.
///
/// # Errors
/// Damage, or a version that this build does not read.
pub fn decode_segment_trailer(bytes: &[u8], object_length: u64) -> Result<SegmentTrailer, SegmentError> {
    let truncated = SegmentError::Truncated { part: "trailer", object_length };
    if bytes.len() != SEGMENT_TRAILER_LENGTH {
        return Err(truncated);
    }
    if bytes[40..] != TRAILER_MAGIC {
        return Err(SegmentError::BadMagic { at: "end" });
    }
    let found = u16::from_le_bytes(array(bytes, 32));
    if found == 0 || found > FORMAT_VERSION {
        return Err(SegmentError::UnsupportedVersion { found, supported: FORMAT_VERSION });
    }
    check_crc("trailer", &bytes[..36], u32::from_le_bytes(array(bytes, 36)))?;
    let trailer = SegmentTrailer {
        index_position: u64::from_le_bytes(array(bytes, 0)),
        index_length: u64::from_le_bytes(array(bytes, 8)),
        directory_length: u32::from_le_bytes(array(bytes, 16)),
        directory_crc: u32::from_le_bytes(array(bytes, 20)),
    };
    let footer = trailer.index_length.saturating_add(u64::from(trailer.directory_length));
    let end = trailer.index_position.saturating_add(footer);
    if end.saturating_add(SEGMENT_TRAILER_LENGTH as u64) != object_length {
        return Err(truncated);
    }
    Ok(trailer)
}

/// Decodes the directory: the bytes from [`SegmentTrailer::directory_position`] to the trailer.
///
/// # Errors
/// Damage.
pub fn decode_directory(trailer: &SegmentTrailer, bytes: &[u8]) -> Result<Vec<Slice>, SegmentError> {
    if bytes.len() as u64 != u64::from(trailer.directory_length) {
        let object_length = trailer.directory_position() + bytes.len() as u64;
        return Err(SegmentError::Truncated { part: "directory", object_length });
    }
    check_crc("directory", bytes, trailer.directory_crc)?;
    let directory = |reason: String| SegmentError::Directory { reason };
    let message = DirectoryMessage::decode(bytes).map_err(|error| directory(error.to_string()))?;
    let slices = message.slices.into_iter().map(|slice| Slice::from_message(slice).map_err(directory));
    let slices = slices.collect::<Result<Vec<_>, _>>()?;
    check_slices(trailer, &slices)?;
    Ok(slices)
}

/// The parts of the slices follow each other, in the data and in the index.
fn check_slices(trailer: &SegmentTrailer, slices: &[Slice]) -> Result<(), SegmentError> {
    let (mut data_end, mut index_end) = (SEGMENT_HEADER_LENGTH as u64, trailer.index_position);
    for (index, slice) in slices.iter().enumerate() {
        let bad = |what| SegmentError::BadSlice { index, what };
        let location = slice.location().ok_or(bad("it is in no object"))?;
        if location.data_position != data_end || location.index_position != index_end {
            return Err(bad("it does not follow the one before"));
        }
        data_end = data_end.saturating_add(location.data_length);
        index_end = index_end.saturating_add(u64::from(location.index_length));
    }
    if data_end != trailer.index_position || index_end != trailer.directory_position() {
        return Err(SegmentError::BadSlice {
            index: slices.len(),
            what: "the last one does not end at the index",
        });
    }
    Ok(())
}

/// Decodes the index of one slice and checks it against what is known of the slice.
///
/// # Errors
/// Damage.
pub fn decode_slice_index(
    slice: &Slice,
    location: &SliceLocation,
    bytes: &[u8],
) -> Result<Vec<BlockEntry>, SegmentError> {
    if bytes.len() != location.index_length as usize {
        let object_length = location.index_position + bytes.len() as u64;
        return Err(SegmentError::Truncated { part: "index", object_length });
    }
    check_crc("index", bytes, location.index_crc)?;
    let entries = decode_index(bytes, location.entry_length)?;
    let mut position = location.data_position;
    let mut next_offset = slice.base_offset;
    for (index, entry) in entries.iter().enumerate() {
        let bad = |what| WalObjectError::BadEntry { index, what };
        if entry.topic_partition != slice.topic_partition {
            return Err(bad("it is of another partition").into());
        }
        if entry.position != position {
            return Err(bad("its block does not follow the one before").into());
        }
        if entry.base_offset < next_offset || entry.next_offset > slice.next_offset {
            return Err(bad("its offsets are outside of the slice, or not in order").into());
        }
        position = position.saturating_add(u64::from(entry.length));
        next_offset = entry.next_offset;
    }
    if position != location.data_position + location.data_length {
        return Err(SegmentError::BadSlice { index: 0, what: "its blocks do not fill it" });
    }
    Ok(entries)
}
