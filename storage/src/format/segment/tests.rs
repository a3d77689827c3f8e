//! Segments: round trip, damage, and any bytes.

use proptest::prelude::*;

use super::*;
use crate::format::wal_object::{BLOCK_ENTRY_LENGTH, BlockFlags};
use crate::ids::{TopicId, TopicPartition};

fn header() -> SegmentHeader {
    SegmentHeader { shard: ShardId(3), object: ObjectId::new(1_767_225_600_000, [7; 16]) }
}

fn entry(topic_partition: TopicPartition, base_offset: i64, timestamp: i64, bytes: &[u8]) -> BlockEntry {
    BlockEntry {
        topic_partition,
        base_offset,
        next_offset: base_offset + 2,
        position: 0,
        length: bytes.len() as u32,
        data_count: 2,
        control_count: 0,
        null_timestamp_count: u32::from(timestamp < 0) * 2,
        min_timestamp: timestamp,
        max_timestamp: timestamp,
        offset_of_max_timestamp: if timestamp < 0 { -1 } else { base_offset },
        append_time_ms: 1000 + base_offset,
        leader_epoch: 0,
        flags: BlockFlags::COMPRESSED,
        crc: crc32c::crc32c(bytes),
    }
}

fn partition(partition: i32) -> TopicPartition {
    TopicPartition::new(TopicId::from_bytes([1; 16]), partition)
}

/// Two partitions: the first with a gap before, between and after its two blocks.
fn segment() -> (Vec<u8>, SegmentFooter) {
    let (mut builder, front) = SegmentBuilder::new(header());
    let mut bytes = front.to_vec();
    builder.begin_slice(partition(0), 5);
    for (base_offset, timestamp) in [(10, 500), (20, 400)] {
        builder.push_block(entry(partition(0), base_offset, timestamp, b"block"));
        bytes.extend_from_slice(b"block");
    }
    builder.end_slice(30, Some(77));
    builder.begin_slice(partition(1), 0);
    builder.push_block(entry(partition(1), 0, -1, b"other"));
    bytes.extend_from_slice(b"other");
    builder.end_slice(2, None);
    let footer = builder.finish();
    bytes.extend_from_slice(&footer.bytes);
    (bytes, footer)
}

fn decode(bytes: &[u8]) -> Result<Vec<(Slice, Vec<BlockEntry>)>, SegmentError> {
    decode_segment_header(bytes)?;
    let start = bytes.len().saturating_sub(SEGMENT_TRAILER_LENGTH);
    let trailer = decode_segment_trailer(&bytes[start..], bytes.len() as u64)?;
    let slices = decode_directory(&trailer, &bytes[trailer.directory_position() as usize..start])?;
    slices
        .into_iter()
        .map(|slice| {
            let location = *slice.location().expect("a directory holds stored slices only");
            let range = location.index_position as usize..;
            let entries =
                decode_slice_index(&slice, &location, &bytes[range][..location.index_length as usize])?;
            for entry in &entries {
                let block = &bytes[entry.position as usize..][..entry.length as usize];
                crate::format::verify_block(entry, block)?;
            }
            Ok((slice, entries))
        })
        .collect()
}

#[test]
fn a_segment_round_trips() {
    let (bytes, footer) = segment();
    assert_eq!(bytes.len() as u64, footer.object_length);
    let decoded = decode(&bytes).expect("a built segment decodes");
    assert_eq!(decoded.iter().map(|(slice, _)| slice.clone()).collect::<Vec<_>>(), footer.slices);
    let (first, entries) = &decoded[0];
    assert_eq!((first.base_offset, first.next_offset, first.delete_horizon_ms), (5, 30, Some(77)));
    assert_eq!((first.min_timestamp, first.max_timestamp, first.offset_of_max_timestamp), (400, 500, 10));
    assert_eq!((first.min_append_time_ms, first.max_append_time_ms, first.data_count), (1010, 1020, 4));
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[1].position, (SEGMENT_HEADER_LENGTH + 5) as u64);
    let (second, _) = &decoded[1];
    assert_eq!((second.max_timestamp, second.null_timestamp_count), (-1, 2));
    assert_eq!(second.location().map(SliceLocation::block_count), Some(1));
}

#[test]
fn every_flipped_bit_and_every_truncation_is_detected() {
    let (bytes, _) = segment();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(decode(&damaged).is_err(), "bit {bit}");
    }
    for length in 0..bytes.len() {
        assert!(decode(&bytes[..length]).is_err(), "length {length}");
    }
}

#[test]
fn a_newer_version_is_refused_by_number() {
    let (mut bytes, _) = segment();
    bytes[8] = (FORMAT_VERSION + 1) as u8;
    let error = decode(&bytes).unwrap_err();
    assert_eq!(
        error,
        SegmentError::UnsupportedVersion { found: FORMAT_VERSION + 1, supported: FORMAT_VERSION }
    );
}

#[test]
fn an_index_of_another_slice_is_refused() {
    let (bytes, footer) = segment();
    let [first, second] = &footer.slices[..] else { panic!("two slices") };
    let location = *second.location().expect("it is stored");
    let index = &bytes[location.index_position as usize..][..BLOCK_ENTRY_LENGTH];
    assert!(decode_slice_index(first, &location, index).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
        // Behind a directory CRC that fits, the message itself is arbitrary.
        let trailer = SegmentTrailer {
            index_position: 36,
            index_length: 0,
            directory_length: bytes.len() as u32,
            directory_crc: crc32c::crc32c(&bytes),
        };
        let _ = decode_directory(&trailer, &bytes);
    }
}
