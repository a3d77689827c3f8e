//! WAL objects: a golden one, round trip, damage at every byte, lies behind CRCs that fit, any bytes.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::format::event::tests::any_event;
use crate::format::event::{Event, EventError, ProducerIdsAllocated, TopicDeleted};
use crate::format::record_batch::{BatchBuilder, BatchOptions};
use crate::ids::{TopicId, TopicPartition};

fn header() -> WalHeader {
    WalHeader {
        shard: ShardId(3),
        position: WalPosition { writer_epoch: 7, seq: 9 },
        writer_nonce: std::array::from_fn(|at| at as u8),
        durable_seq: 8,
        previous_header_crc: 0xdead_beef,
        append_time_ms: 1_700_000_000_000,
    }
}

fn entry(partition: i32, base_offset: i64, count: u32) -> BlockEntry {
    BlockEntry {
        topic_partition: TopicPartition::new(TopicId::from_bytes([5; 16]), partition),
        base_offset,
        next_offset: base_offset + i64::from(count),
        position: 0,
        length: 0,
        data_count: count,
        control_count: 0,
        null_timestamp_count: 0,
        min_timestamp: 10,
        max_timestamp: 20,
        offset_of_max_timestamp: base_offset,
        append_time_ms: 1_700_000_000_000,
        leader_epoch: 0,
        flags: BlockFlags::COMPRESSED | BlockFlags::GAPS,
        crc: 0,
    }
}

fn batch(value: &[u8]) -> Bytes {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.append(Some(10), None, Some(value), &[]).unwrap();
    builder.finish()
}

fn events() -> Vec<Event> {
    vec![
        Event::ProducerIdsAllocated(ProducerIdsAllocated { next_producer_id: 1000 }),
        Event::TopicDeleted(TopicDeleted { topic_id: TopicId::from_bytes([6; 16]) }),
    ]
}

/// Two events and two blocks, the second of two batches.
fn sample() -> EncodedWalObject {
    let mut builder = WalObjectBuilder::new(header());
    builder.push_block(entry(0, 40, 1), vec![batch(b"a")]);
    for event in events() {
        builder.push_event(&event);
    }
    builder.push_block(entry(1, 0, 2), vec![batch(b"bb"), batch(b"ccc")]);
    let size = builder.size_bytes();
    let object = builder.finish();
    assert_eq!(object.bytes.len() as u64, size);
    object
}

#[test]
fn crcs_that_are_combined_are_those_of_the_bytes() {
    let large = batch(&vec![7; 300 * 1024]);
    let halves = vec![large.slice(..61), large.slice(61..)];
    let mut builder = WalObjectBuilder::new(header());
    builder.push_block(entry(0, 40, 1), vec![batch(b"a")]);
    builder.push_block(entry(1, 0, 1), halves);
    // Two batches name no CRC of both.
    builder.push_block(entry(2, 0, 2), vec![large.clone(), large]);
    builder.push_block(entry(3, 0, 1), vec![batch(b"b")]);
    let object = builder.finish();
    for block in &object.blocks {
        let start = block.position as usize;
        let bytes = &object.bytes[start..start + block.length as usize];
        assert_eq!(block.crc, crc32c::crc32c(bytes), "partition {}", block.topic_partition.partition);
    }
    let decoded = decode_wal_object(&object.bytes, object.bytes.len() as u64).unwrap();
    let WalObject::Commit(commit) = decoded else { panic!("it is a commit") };
    let batches = &object.bytes[commit.batches_position as usize..];
    assert_eq!(commit.batches_crc, crc32c::crc32c(batches));
}

fn fence() -> Fence {
    Fence {
        shard: ShardId(3),
        position: WalPosition { writer_epoch: 7, seq: 9 },
        by_epoch: 8,
        by_nonce: [0xab; 16],
    }
}

fn decode_all(bytes: &[u8]) -> Result<WalObject, WalObjectError> {
    decode_wal_object(bytes, bytes.len() as u64)
}

fn commit_of(bytes: &[u8]) -> CommitObject {
    match decode_all(bytes).unwrap() {
        WalObject::Commit(commit) => commit,
        WalObject::Fence(_) => panic!("a fence"),
    }
}

/// Makes every CRC in the front of a commit fit its bytes again.
fn with_crcs(mut bytes: Vec<u8>) -> Vec<u8> {
    let (_, sections) = decode_header(&array(&bytes, 0));
    let (events, batches) = (sections.events_position() as usize, sections.batches_position() as usize);
    for (crc_at, range) in [(76, WAL_HEADER_LENGTH..events), (84, events..batches), (100, 0..100)] {
        if let Some(section) = bytes.get(range) {
            let crc = crc32c::crc32c(section);
            bytes[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
        }
    }
    bytes
}

fn altered(at: usize, value: &[u8]) -> Result<WalObject, WalObjectError> {
    let mut bytes = sample().bytes.to_vec();
    bytes[at..at + value.len()].copy_from_slice(value);
    decode_all(&with_crcs(bytes))
}

#[test]
fn a_commit_has_the_bytes_of_the_committed_golden_one() {
    let golden = include_bytes!("../../../tests/fixtures/format/commit-v1.wal");
    assert_eq!(sample().bytes, golden[..]);
    let golden = include_bytes!("../../../tests/fixtures/format/fence-v1.wal");
    assert_eq!(encode_fence(&fence()), golden[..]);
}

#[test]
fn a_commit_is_decoded_as_it_was_built() {
    let object = sample();
    let commit = commit_of(&object.bytes);
    assert_eq!(commit.header, header());
    assert_eq!(commit.header_crc, object.header_crc);
    assert_eq!(commit.events, events());
    assert_eq!(commit.blocks, object.blocks);
    assert_eq!(commit.object_length, object.bytes.len() as u64);
    assert_eq!(commit.blocks[0].flags, BlockFlags::COMPRESSED | BlockFlags::GAPS);
    let block = |index: usize| {
        let block = &commit.blocks[index];
        object.bytes.slice(block.position as usize..block.position as usize + block.length as usize)
    };
    assert_eq!(block(0), batch(b"a"));
    assert_eq!(block(1), [batch(b"bb"), batch(b"ccc")].concat());
    assert_eq!(verify_block(&commit.blocks[1], &block(1)), Ok(()));
    let batches = &object.bytes[commit.batches_position as usize..];
    assert_eq!(verify_batches(&commit, batches), Ok(()));
}

#[test]
fn a_commit_may_hold_nothing() {
    let object = WalObjectBuilder::new(header()).finish();
    let commit = commit_of(&object.bytes);
    assert_eq!((commit.blocks.len(), commit.events.len()), (0, 0));
    assert_eq!(commit.batches_position, commit.object_length);
    assert_eq!(verify_batches(&commit, &[]), Ok(()));
}

#[test]
fn the_batches_are_not_needed_to_decode_and_a_short_prefix_says_what_is() {
    let bytes = sample().bytes;
    let object_length = bytes.len() as u64;
    let batches_position = commit_of(&bytes).batches_position as usize;
    assert!(decode_wal_object(&bytes[..batches_position], object_length).is_ok());
    for available in 0..batches_position {
        let error = decode_wal_object(&bytes[..available], object_length).unwrap_err();
        let WalObjectError::NeedMore { length } = error else { panic!("{available}: {error}") };
        assert!(length > available as u64 && length <= batches_position as u64);
    }
}

#[test]
fn a_fence_is_decoded_as_it_was_built() {
    let bytes = encode_fence(&fence());
    let object = decode_all(&bytes).unwrap();
    assert_eq!(object, WalObject::Fence(fence()));
    assert_eq!((object.shard(), object.position()), (fence().shard, fence().position));
    assert_eq!(object.header_crc().to_le_bytes(), bytes[bytes.len() - 4..]);
}

#[test]
fn the_nonce_tells_whose_put_landed() {
    let commit = sample().bytes;
    assert_eq!(writer_nonce_of(&commit), Ok((WalKind::Commit, header().writer_nonce)));
    assert_eq!(writer_nonce_of(&commit[..WAL_HEADER_LENGTH]), Ok((WalKind::Commit, header().writer_nonce)));
    assert_eq!(writer_nonce_of(&encode_fence(&fence())), Ok((WalKind::Fence, [0xab; 16])));
    assert!(writer_nonce_of(&commit[..WAL_HEADER_LENGTH - 1]).is_err());
    let mut damaged = commit.to_vec();
    damaged[33] ^= 1;
    assert!(matches!(writer_nonce_of(&damaged), Err(WalObjectError::CrcMismatch { part: "header", .. })));
}

#[test]
fn every_flipped_bit_is_detected() {
    let bytes = sample().bytes;
    let intact = commit_of(&bytes);
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let batches_position = intact.batches_position as usize;
        if bit / 8 < batches_position {
            assert!(decode_all(&damaged).is_err(), "bit {bit}");
            continue;
        }
        assert!(verify_batches(&intact, &damaged[batches_position..]).is_err(), "bit {bit}");
        let verified = intact.blocks.iter().map(|block| {
            let start = block.position as usize;
            verify_block(block, &damaged[start..start + block.length as usize])
        });
        assert_eq!(verified.filter(Result::is_err).count(), 1, "bit {bit}");
    }
    let bytes = encode_fence(&fence());
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_all(&damaged).is_err(), "bit {bit}");
    }
}

#[test]
fn every_truncation_and_every_added_byte_is_detected() {
    for bytes in [sample().bytes, encode_fence(&fence())] {
        for length in 0..bytes.len() {
            let error = decode_all(&bytes[..length]).unwrap_err();
            assert!(!matches!(error, WalObjectError::NeedMore { .. }), "{length}: all bytes are there");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(matches!(decode_all(&longer), Err(WalObjectError::LengthMismatch { .. })));
    }
}

#[test]
fn a_block_of_another_length_is_refused_before_its_crc() {
    let object = sample();
    let error = verify_block(&object.blocks[0], b"short").unwrap_err();
    assert!(matches!(error, WalObjectError::BlockLength { found: 5, .. }));
}

#[test]
fn a_newer_version_is_refused_by_number() {
    for bytes in [sample().bytes, encode_fence(&fence())] {
        let mut newer = bytes.to_vec();
        newer[8..10].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes());
        let error = decode_all(&newer).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "format version {} needs a newer strandline: this one reads versions up to {FORMAT_VERSION}",
                FORMAT_VERSION + 1
            )
        );
    }
    assert!(matches!(altered(10, &[9, 0]), Err(WalObjectError::UnknownKind(9))));
    assert!(matches!(altered(0, b"X"), Err(WalObjectError::BadMagic)));
}

#[test]
fn flags_that_must_be_understood_are_refused_and_others_ignored() {
    let flags_at = WAL_HEADER_LENGTH + 96;
    let error = altered(flags_at, &0x8001_u32.to_le_bytes()).unwrap_err();
    assert_eq!(error, WalObjectError::UnknownFlags { index: 0, flags: 0x8000 });
    assert!(altered(flags_at, &0x8000_0001_u32.to_le_bytes()).is_ok());
}

#[test]
fn entries_longer_than_known_are_read_by_their_front() {
    let bytes = sample().bytes.to_vec();
    let intact = commit_of(&bytes);
    let added = 2 * 8;
    let mut longer = bytes[..WAL_HEADER_LENGTH].to_vec();
    for (index, entry) in
        bytes[WAL_HEADER_LENGTH..][..2 * BLOCK_ENTRY_LENGTH].chunks(BLOCK_ENTRY_LENGTH).enumerate()
    {
        longer.extend_from_slice(entry);
        let position_at = longer.len() - BLOCK_ENTRY_LENGTH + 36;
        let position = intact.blocks[index].position + added;
        longer[position_at..position_at + 8].copy_from_slice(&position.to_le_bytes());
        longer.extend_from_slice(&[0xff; 8]);
    }
    longer.extend_from_slice(&bytes[WAL_HEADER_LENGTH + 2 * BLOCK_ENTRY_LENGTH..]);
    longer[60..64].copy_from_slice(&(BLOCK_ENTRY_LENGTH as u32 + 8).to_le_bytes());
    longer[72..76].copy_from_slice(&(2 * (BLOCK_ENTRY_LENGTH as u32 + 8)).to_le_bytes());
    let commit = commit_of(&with_crcs(longer));
    assert_eq!(commit.blocks[1].crc, intact.blocks[1].crc);
    assert_eq!(commit.events, intact.events);
}

#[test]
fn an_index_that_lies_behind_a_crc_that_fits_is_refused() {
    let first = WAL_HEADER_LENGTH;
    let is_bad_entry = |at, value: &[u8]| matches!(altered(at, value), Err(WalObjectError::BadEntry { .. }));
    assert!(is_bad_entry(first + 16, &(-1_i32).to_le_bytes()), "partition");
    assert!(is_bad_entry(first + 20, &(-1_i64).to_le_bytes()), "base offset");
    assert!(is_bad_entry(first + 28, &40_i64.to_le_bytes()), "next offset");
    assert!(is_bad_entry(first + 36, &0_u64.to_le_bytes()), "position");
    assert!(is_bad_entry(first + 44, &0_u32.to_le_bytes()), "length");
    assert!(is_bad_entry(first + 44, &1_u32.to_le_bytes()), "the next block follows");
    let last_length = first + BLOCK_ENTRY_LENGTH + 44;
    assert!(matches!(
        altered(last_length, &u32::MAX.to_le_bytes()),
        Err(WalObjectError::LengthMismatch { .. })
    ));
    for entry_length in [0_u32, 1, 103] {
        let refused = altered(60, &entry_length.to_le_bytes());
        assert!(matches!(refused, Err(WalObjectError::EntryLength { min: 104, .. })));
    }
    assert!(matches!(altered(60, &105_u32.to_le_bytes()), Err(WalObjectError::IndexLength { .. })));
    for length_at in [72, 80] {
        assert!(matches!(
            altered(length_at, &u32::MAX.to_le_bytes()),
            Err(WalObjectError::LengthMismatch { .. })
        ));
    }
    assert!(matches!(altered(88, &u64::MAX.to_le_bytes()), Err(WalObjectError::LengthMismatch { .. })));
}

#[test]
fn an_event_that_is_not_known_refuses_the_object() {
    let events_at = WAL_HEADER_LENGTH + 2 * BLOCK_ENTRY_LENGTH;
    let error = altered(events_at, &[99, 0]).unwrap_err();
    let source = EventError::UnknownKind { kind: 99, min_reader_version: 1 };
    assert_eq!(error, WalObjectError::Event { index: 0, source });
    let newer = FORMAT_VERSION + 1;
    let error = altered(events_at + 2, &newer.to_le_bytes()).unwrap_err();
    let supported = FORMAT_VERSION;
    let kind = u16::from_le_bytes([sample().bytes[events_at], sample().bytes[events_at + 1]]);
    let source = EventError::UnsupportedVersion { kind, min_reader_version: newer, supported };
    assert_eq!(error, WalObjectError::Event { index: 0, source });
}

proptest! {
    #[test]
    fn commits_round_trip(
        events in vec(any_event(), 0..5),
        blocks in vec((0_i32..4, 0_i64..1_000_000, 1_u32..50, vec(vec(any::<u8>(), 1..30), 1..4)), 0..6),
        seq: u64,
        durable_seq: i64,
        writer_nonce: [u8; 16],
    ) {
        let position = WalPosition { writer_epoch: 1, seq };
        let header = WalHeader { position, durable_seq, writer_nonce, ..header() };
        let mut builder = WalObjectBuilder::new(header);
        for event in &events {
            builder.push_event(event);
        }
        for (partition, base_offset, count, batches) in &blocks {
            let batches = batches.iter().map(|batch| Bytes::copy_from_slice(batch)).collect();
            builder.push_block(entry(*partition, *base_offset, *count), batches);
        }
        let object = builder.finish();
        let commit = commit_of(&object.bytes);
        prop_assert_eq!(commit.header, header);
        prop_assert_eq!(&commit.events, &events);
        prop_assert_eq!(&commit.blocks, &object.blocks);
        for (block, (_, _, _, batches)) in commit.blocks.iter().zip(&blocks) {
            let start = block.position as usize;
            let bytes = &object.bytes[start..start + block.length as usize];
            prop_assert_eq!(bytes, batches.concat());
            prop_assert_eq!(verify_block(block, bytes), Ok(()));
        }
        prop_assert_eq!(verify_batches(&commit, &object.bytes[commit.batches_position as usize..]), Ok(()));
    }

    #[test]
    fn fences_round_trip(shard: u32, writer_epoch: u64, seq: u64, by_epoch: u64, by_nonce: [u8; 16]) {
        let position = WalPosition { writer_epoch, seq };
        let fence = Fence { shard: ShardId(shard), position, by_epoch, by_nonce };
        prop_assert_eq!(decode_all(&encode_fence(&fence)), Ok(WalObject::Fence(fence)));
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in vec(any::<u8>(), 0..300), object_length: u64) {
        let _ = decode_wal_object(&bytes, object_length);
        let _ = writer_nonce_of(&bytes);
        let mut framed = bytes;
        let front = sample().bytes.slice(..12);
        let common = framed.len().min(front.len());
        framed[..common].copy_from_slice(&front[..common]);
        let _ = decode_wal_object(&framed, object_length);
    }

    #[test]
    fn damage_behind_crcs_that_fit_is_decoded_or_refused(
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let mut bytes = sample().bytes.to_vec();
        for (position, value) in damage {
            let at = position.index(bytes.len());
            bytes[at] = value;
        }
        let _ = decode_all(&with_crcs(bytes));
    }
}
