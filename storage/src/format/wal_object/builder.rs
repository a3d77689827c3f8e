//! Builds the bytes of a commit.
//!
//! Invariant: events and blocks stand in the object in the order in which they were pushed, and the
//! same pushes make the same bytes.

use bytes::Bytes;

use super::{
    BLOCK_ENTRY_LENGTH, BlockEntry, Sections, WAL_HEADER_LENGTH, WalHeader, check_blocks, encode_header,
};
use crate::format::event::Event;
use crate::format::record_batch::{BatchHeader, crc_of_whole};

/// From this size on, combining two CRCs is cheaper than reading the bytes again.
const COMBINED_BYTES_MIN: usize = 256 * 1024;

/// The bytes of a commit, ready to put, and what the log keeps of them.
#[derive(Clone, Debug)]
pub struct EncodedWalObject {
    pub bytes: Bytes,
    pub header_crc: u32,
    /// With their final positions, lengths and CRCs.
    pub blocks: Vec<BlockEntry>,
}

/// Collects the events and blocks of one commit.
#[derive(Debug)]
pub struct WalObjectBuilder {
    header: WalHeader,
    events: Vec<u8>,
    /// Positions count from the first block until the object is finished.
    blocks: Vec<BlockEntry>,
    batches: Vec<Bytes>,
    batches_length: u64,
    batches_crc: u32,
}

impl WalObjectBuilder {
    pub fn new(header: WalHeader) -> Self {
        Self {
            header,
            events: Vec::new(),
            blocks: Vec::new(),
            batches: Vec::new(),
            batches_length: 0,
            batches_crc: 0,
        }
    }

    pub fn push_event(&mut self, event: &Event) {
        event.encode(&mut self.events);
    }

    /// Adds one block of whole batches of one partition, whose own CRCs were checked. Position, length
    /// and CRC of `entry` are filled in here.
    pub fn push_block(&mut self, entry: BlockEntry, batches: Vec<Bytes>) {
        let length: usize = batches.iter().map(Bytes::len).sum();
        let crc = crc_of_block(&batches, length);
        self.batches_crc = match length {
            COMBINED_BYTES_MIN.. => crc32c::crc32c_combine(self.batches_crc, crc, length),
            _ => crc_of(self.batches_crc, &batches),
        };
        let length = u32::try_from(length).expect("a block is far below 4 GiB");
        self.blocks.push(BlockEntry { position: self.batches_length, length, crc, ..entry });
        self.batches.extend(batches);
        self.batches_length += u64::from(length);
    }

    /// The size of the object if it were finished now.
    pub fn size_bytes(&self) -> u64 {
        self.batches_position() as u64 + self.batches_length
    }

    fn batches_position(&self) -> usize {
        WAL_HEADER_LENGTH + self.blocks.len() * BLOCK_ENTRY_LENGTH + self.events.len()
    }

    pub fn finish(mut self) -> EncodedWalObject {
        let size = self.size_bytes();
        let batches_position = self.batches_position() as u64;
        for block in &mut self.blocks {
            block.position += batches_position;
        }
        debug_assert_eq!(check_blocks(&self.blocks, batches_position, size), Ok(()));
        let mut index = Vec::with_capacity(self.blocks.len() * BLOCK_ENTRY_LENGTH);
        for block in &self.blocks {
            block.encode(&mut index);
        }
        let sections = Sections {
            entry_length: BLOCK_ENTRY_LENGTH as u32,
            index_length: section_length(&index),
            index_crc: crc32c::crc32c(&index),
            events_length: section_length(&self.events),
            events_crc: crc32c::crc32c(&self.events),
            batches_length: self.batches_length,
            batches_crc: self.batches_crc,
        };
        let mut bytes = Vec::with_capacity(usize::try_from(size).expect("the parts are in memory"));
        let header_crc = encode_header(&mut bytes, &self.header, &sections);
        bytes.extend_from_slice(&index);
        bytes.extend_from_slice(&self.events);
        for batch in &self.batches {
            bytes.extend_from_slice(batch);
        }
        EncodedWalObject { bytes: bytes.into(), header_crc, blocks: self.blocks }
    }
}

fn section_length(section: &[u8]) -> u32 {
    u32::try_from(section.len()).expect("a commit is far below 4 GiB")
}

/// A large batch has a block of its own, and names the CRC of most of it.
fn crc_of_block(batches: &[Bytes], length: usize) -> u32 {
    if length >= COMBINED_BYTES_MIN
        && let Some(front) = batches.first()
        && let Ok(header) = BatchHeader::parse(front)
        && header.size_bytes() == length
    {
        let crc = crc_of_whole(front, &header);
        debug_assert_eq!(crc, crc_of(0, batches), "the CRC of the batch was checked");
        return crc;
    }
    crc_of(0, batches)
}

fn crc_of(crc: u32, batches: &[Bytes]) -> u32 {
    batches.iter().fold(crc, |crc, batch| crc32c::crc32c_append(crc, batch))
}
