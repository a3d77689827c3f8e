//! One function for each kind of bytes that the log reads: all of its decoders, as a reader calls them.
//!
//! Invariant: any bytes are decoded or refused. What fails is a panic (of a decoder, or of an
//! assertion here on what a decoder promises), or memory beyond the fuzzer's limit.
//! Bytes behind a CRC are tried twice: as they are, and with CRCs that fit them.

use bytes::Bytes;

use super::format::access::{AclMessage, QuotaMessage, UserMessage};
use super::format::event::Event;
use super::format::page::{
    GroupEntry, GroupOffsetEntry, PageKind, PageRef, PartitionEntry, ProducerEntry, SchemaEntry,
    SegmentEntry, SliceEntry, TopicEntry, TransactionalIdEntry, block_entry_of, decode_checkpoint,
    decode_entry, decode_page,
};
use super::format::segment::{
    SEGMENT_HEADER_LENGTH, SEGMENT_TRAILER_LENGTH, decode_directory, decode_segment_header,
    decode_segment_trailer, decode_slice_index,
};
use super::format::wal_object::{FENCE_LENGTH, WAL_HEADER_LENGTH};
use super::format::{
    BatchHeader, CommitObject, DecompressionBudget, Records, SliceLocation, WalObject, WalObjectError,
    decode_wal_object, inspect, set_max_timestamp, split_batches, verify_batches, verify_block,
    writer_nonce_of,
};
use super::ids::ObjectId;

/// What one batch may decompress to.
const DECOMPRESSED_BYTES_MAX: usize = 1 << 20;
/// As much of a WAL object as is read first.
const PREFIX_LENGTH: usize = 512;
/// Bytes of the frame of a small object before its message, and after it.
const FRAME_LENGTHS: (usize, usize) = (14, 4);

/// A batch as a producer sends it, and as a reader of stored bytes meets it.
pub fn record_batch(bytes: &[u8]) {
    let mut fitting = bytes.to_vec();
    if let Ok(header) = BatchHeader::parse(bytes)
        && header.size_bytes() == bytes.len()
    {
        set_max_timestamp(&mut fitting, header.max_timestamp);
    }
    for bytes in [Bytes::copy_from_slice(bytes), fitting.into()] {
        produce(&bytes);
        read_batches(bytes);
    }
}

/// Every record of a batch that passed inspection can be read.
fn produce(batch: &Bytes) {
    let Ok(summary) = inspect(batch, &mut budget()) else { return };
    let records = Records::decode(batch, &mut budget()).expect("the batch passed inspection");
    let offsets = records.iter().map(|record| record.expect("the batch passed inspection").offset);
    let base_offset = summary.header.base_offset;
    assert!(offsets.eq(base_offset..base_offset + i64::from(summary.record_count)));
}

fn read_batches(bytes: Bytes) {
    for batch in split_batches(bytes) {
        let Ok((header, batch)) = batch else { return };
        let Ok(records) = Records::decode(&batch, &mut budget()) else { continue };
        let mut before = header.base_offset - 1;
        for record in records.iter().map_while(Result::ok) {
            assert!(before < record.offset && record.offset <= header.last_offset());
            assert_eq!(record.headers.iter().count(), record.headers.len());
            before = record.offset;
        }
    }
}

fn budget() -> DecompressionBudget {
    DecompressionBudget::new(DECOMPRESSED_BYTES_MAX)
}

/// A commit or a fence, read from its front and then whole.
pub fn wal_object(bytes: &[u8]) {
    read_wal_object(bytes);
    read_wal_object(&with_wal_crcs(bytes));
}

fn read_wal_object(bytes: &[u8]) {
    let length = bytes.len() as u64;
    let front = &bytes[..bytes.len().min(PREFIX_LENGTH)];
    // A refusal is an answer as good as any.
    let _ = writer_nonce_of(front);
    if let Err(WalObjectError::NeedMore { length: needed }) = decode_wal_object(front, length) {
        assert!(front.len() as u64 <= needed && needed <= length, "a reader would ask for ever");
    }
    if let Ok(WalObject::Commit(commit)) = decode_wal_object(bytes, length) {
        read_blocks(&commit, bytes);
    }
}

/// The blocks of a commit whose front was decoded are inside of its object.
fn read_blocks(commit: &CommitObject, bytes: &[u8]) {
    let _ = verify_batches(commit, &bytes[commit.batches_position as usize..]);
    for block in &commit.blocks {
        let block_bytes = &bytes[block.position as usize..][..block.length as usize];
        if verify_block(block, block_bytes).is_ok() {
            read_batches(Bytes::copy_from_slice(block_bytes));
        }
    }
}

/// The same bytes with CRCs of header, index and events that fit.
fn with_wal_crcs(bytes: &[u8]) -> Vec<u8> {
    let number = |at: usize| bytes.get(at..at + 4).map_or(0, |four| le_u32(four) as usize);
    let index_end = WAL_HEADER_LENGTH.saturating_add(number(72));
    let events_end = index_end.saturating_add(number(80));
    let is_fence = bytes.get(10..12) == Some(&[2, 0]);
    let mut fitting = bytes.to_vec();
    if is_fence {
        set_crc(&mut fitting, FENCE_LENGTH - 4, 0..FENCE_LENGTH - 4);
    } else {
        set_crc(&mut fitting, 76, WAL_HEADER_LENGTH..index_end);
        set_crc(&mut fitting, 84, index_end..events_end);
        set_crc(&mut fitting, 100, 0..100);
    }
    fitting
}

/// A whole segment: header, trailer, directory, and the index of each slice.
pub fn segment_footer(bytes: &[u8]) {
    read_segment(bytes);
    read_segment(&with_segment_crcs(bytes));
}

fn read_segment(bytes: &[u8]) -> Option<()> {
    let _ = decode_segment_header(bytes);
    let front = bytes.len().checked_sub(SEGMENT_TRAILER_LENGTH)?;
    let trailer = decode_segment_trailer(&bytes[front..], bytes.len() as u64).ok()?;
    // A trailer that was decoded fits the object.
    let directory = &bytes[trailer.directory_position() as usize..front];
    for slice in decode_directory(&trailer, directory).ok()? {
        let location = *slice.location().expect("a directory holds stored slices only");
        let index = &bytes[location.index_position as usize..][..location.index_length as usize];
        let fitting = SliceLocation { index_crc: crc32c::crc32c(index), ..location };
        for location in [location, fitting] {
            let Ok(blocks) = decode_slice_index(&slice, &location, index) else { continue };
            for block in blocks {
                let block_bytes = &bytes[block.position as usize..][..block.length as usize];
                let _ = verify_block(&block, block_bytes);
            }
        }
    }
    Some(())
}

/// The same bytes with CRCs of header, directory and trailer that fit.
fn with_segment_crcs(bytes: &[u8]) -> Vec<u8> {
    let mut fitting = bytes.to_vec();
    let Some(trailer_at) = bytes.len().checked_sub(SEGMENT_TRAILER_LENGTH) else { return fitting };
    let directory_length = le_u32(&bytes[trailer_at + 16..]) as usize;
    set_crc(&mut fitting, SEGMENT_HEADER_LENGTH - 4, 0..SEGMENT_HEADER_LENGTH - 4);
    set_crc(&mut fitting, trailer_at + 20, trailer_at.saturating_sub(directory_length)..trailer_at);
    set_crc(&mut fitting, trailer_at + 36, trailer_at..trailer_at + 36);
    fitting
}

/// The root of a checkpoint, a page of each kind, and an entry of each kind.
pub fn page(bytes: &[u8]) {
    let (front, back) = FRAME_LENGTHS;
    let message = bytes.get(front..bytes.len().saturating_sub(back)).unwrap_or(bytes);
    let _ = decode_checkpoint(bytes);
    let _ = decode_checkpoint(&framed(b"STRDCKP\n", message));
    for kind in PageKind::ALL {
        for page in [bytes, &framed(b"STRDPAG\n", message)] {
            for entry in decode_page(&reference_to(kind, page), page).unwrap_or_default() {
                read_entry(kind, &entry);
            }
        }
        read_entry(kind, bytes);
    }
}

/// What a root says of a page with these bytes.
fn reference_to(kind: PageKind, page: &[u8]) -> PageRef {
    PageRef {
        kind,
        page: ObjectId::from_bytes([1; 16]),
        first_key: Bytes::new(),
        entry_count: 0,
        length: page.len() as u32,
        crc: crc32c::crc32c(&page[..page.len().saturating_sub(4)]),
        fingerprint: 0,
    }
}

fn read_entry(kind: PageKind, entry: &[u8]) {
    match kind {
        PageKind::Topics => drop(decode_entry::<TopicEntry>(entry)),
        PageKind::Partitions => {
            for block in decode_entry::<PartitionEntry>(entry).into_iter().flat_map(|entry| entry.tail) {
                let _ = block_entry_of(&block.block);
            }
        }
        PageKind::Slices => drop(decode_entry(entry).and_then(SliceEntry::into_slice)),
        PageKind::Producers => drop(decode_entry::<ProducerEntry>(entry)),
        PageKind::GroupOffsets => drop(decode_entry::<GroupOffsetEntry>(entry)),
        PageKind::Schemas => drop(decode_entry::<SchemaEntry>(entry)),
        PageKind::Segments => drop(decode_entry::<SegmentEntry>(entry)),
        PageKind::Groups => drop(decode_entry(entry).and_then(GroupEntry::into_body)),
        PageKind::TransactionalIds => {
            drop(decode_entry(entry).and_then(TransactionalIdEntry::into_transactional_id))
        }
        PageKind::Users => drop(decode_entry(entry).and_then(UserMessage::into_change)),
        PageKind::Acls => drop(decode_entry(entry).and_then(AclMessage::into_change)),
        PageKind::Quotas => drop(decode_entry(entry).and_then(QuotaMessage::into_change)),
    }
}

/// A message in the frame of a small object.
fn framed(magic: &[u8; 8], message: &[u8]) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.extend_from_slice(&2_u16.to_le_bytes());
    bytes.extend_from_slice(&(message.len() as u32).to_le_bytes());
    bytes.extend_from_slice(message);
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// Frames of events. What was decoded is the same after it was encoded again.
pub fn events(bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let Ok((event, after)) = Event::decode(rest) else { return };
        assert!(after.len() < rest.len(), "decoding would never end");
        let mut encoded = Vec::new();
        event.encode(&mut encoded);
        assert_eq!(Event::decode(&encoded), Ok((event, &[][..])));
        rest = after;
    }
}

fn le_u32(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |four| u32::from_le_bytes(*four))
}

/// Puts the CRC of a range in its place, if both are there.
fn set_crc(bytes: &mut [u8], at: usize, covered: std::ops::Range<usize>) {
    let Some(crc) = bytes.get(covered).map(crc32c::crc32c) else { return };
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&crc.to_le_bytes());
    }
}
