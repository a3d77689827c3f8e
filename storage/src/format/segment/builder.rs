//! Builds a segment piece by piece, so that it need not be in memory as a whole.
//!
//! Invariant: the same pushes make the same bytes.

use bytes::Bytes;
use prost::Message;

use super::{
    DirectoryMessage, SEGMENT_HEADER_LENGTH, SEGMENT_TRAILER_LENGTH, SEGMENT_VERSION, SegmentHeader,
    TRAILER_MAGIC, encode_segment_header,
};
use crate::format::slice::{Slice, SliceData, SliceLocation};
use crate::format::wal_object::{BLOCK_ENTRY_LENGTH, BlockEntry};
use crate::ids::{ObjectId, TopicPartition};

/// The end of a segment.
#[derive(Debug)]
pub struct SegmentFooter {
    /// Index, directory and trailer.
    pub bytes: Bytes,
    /// With their final places.
    pub slices: Vec<Slice>,
    /// Bytes of the whole segment.
    pub object_length: u64,
}

/// Keeps the index of a segment whose blocks its caller writes.
#[derive(Debug)]
pub struct SegmentBuilder {
    object: ObjectId,
    position: u64,
    index: Vec<u8>,
    /// Index positions count from the start of the index until the segment is finished.
    slices: Vec<Slice>,
}

impl SegmentBuilder {
    /// Begins a segment; the bytes are its header, which comes first.
    pub fn new(header: SegmentHeader) -> (Self, Bytes) {
        let bytes = Bytes::copy_from_slice(&encode_segment_header(&header));
        let position = SEGMENT_HEADER_LENGTH as u64;
        (Self { object: header.object, position, index: Vec::new(), slices: Vec::new() }, bytes)
    }

    /// Begins the slice of a partition, which covers its offsets from `base_offset` on.
    pub fn begin_slice(&mut self, topic_partition: TopicPartition, base_offset: i64) {
        let location = SliceLocation {
            object: self.object,
            data_position: self.position,
            data_length: 0,
            index_position: self.index.len() as u64,
            index_length: 0,
            index_crc: 0,
            entry_length: BLOCK_ENTRY_LENGTH as u32,
        };
        self.slices.push(Slice::empty(topic_partition, base_offset, SliceData::Stored(location)));
    }

    /// Notes a block of the slice that was begun last; its bytes, of `entry.length`, come next in the
    /// segment. Position is filled in here.
    ///
    /// # Panics
    /// If no slice was begun.
    pub fn push_block(&mut self, entry: BlockEntry) {
        let entry = BlockEntry { position: self.position, ..entry };
        let start = self.index.len();
        entry.encode(&mut self.index);
        self.position += u64::from(entry.length);
        let slice = self.slices.last_mut().expect("a slice is begun before its blocks");
        slice.add(&entry);
        if let SliceData::Stored(location) = &mut slice.data {
            location.data_length += u64::from(entry.length);
            location.index_length += BLOCK_ENTRY_LENGTH as u32;
            location.index_crc = crc32c::crc32c_append(location.index_crc, &self.index[start..]);
        }
    }

    /// Ends the slice that was begun last: it covers all offsets below `next_offset`.
    pub fn end_slice(&mut self, next_offset: i64, delete_horizon_ms: Option<i64>) {
        let slice = self.slices.last_mut().expect("a slice is begun before it ends");
        slice.next_offset = next_offset;
        slice.delete_horizon_ms = delete_horizon_ms;
    }

    /// Bytes so far, without the footer.
    pub fn position(&self) -> u64 {
        self.position
    }

    pub fn finish(mut self) -> SegmentFooter {
        let index_position = self.position;
        for slice in &mut self.slices {
            if let SliceData::Stored(location) = &mut slice.data {
                location.index_position += index_position;
            }
        }
        let slices = self.slices.iter().map(Slice::to_message).collect();
        let directory = DirectoryMessage { slices }.encode_to_vec();
        let mut bytes = self.index;
        let index_length = bytes.len() as u64;
        bytes.extend_from_slice(&directory);
        let start = bytes.len();
        bytes.extend_from_slice(&index_position.to_le_bytes());
        bytes.extend_from_slice(&index_length.to_le_bytes());
        let directory_length = u32::try_from(directory.len()).expect("a directory is far below 4 GiB");
        bytes.extend_from_slice(&directory_length.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&directory).to_le_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&SEGMENT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        let crc = crc32c::crc32c(&bytes[start..]);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(&TRAILER_MAGIC);
        debug_assert_eq!(bytes.len() - start, SEGMENT_TRAILER_LENGTH);
        let object_length = index_position + bytes.len() as u64;
        SegmentFooter { bytes: bytes.into(), slices: self.slices, object_length }
    }
}

/// The length of a segment that holds these slices and nothing else.
pub fn length_of<'a>(slices: impl Iterator<Item = &'a Slice>) -> u64 {
    let (mut bytes, mut messages) = ((SEGMENT_HEADER_LENGTH + SEGMENT_TRAILER_LENGTH) as u64, Vec::new());
    for slice in slices {
        let index_length = slice.location().map_or(0, |location| u64::from(location.index_length));
        bytes += slice.data_length() + index_length;
        messages.push(slice.to_message());
    }
    bytes + DirectoryMessage { slices: messages }.encoded_len() as u64
}
