//! Roots and pages: round trip, damage, and any bytes.

use proptest::prelude::*;

use super::*;

fn page(entries: &[&str]) -> (PageRef, Bytes) {
    let id = ObjectId::new(1_767_225_600_000, [1; 16]);
    let entries = entries.iter().map(|entry| entry.as_bytes().to_vec()).collect();
    encode_page(PageKind::Slices, id, Bytes::from_static(b"key"), entries)
}

fn root() -> CheckpointRoot {
    CheckpointRoot {
        shard: ShardId(2),
        position: WalPosition { writer_epoch: 3, seq: 4 },
        header_crc: 5,
        append_time_ms: 6,
        next_producer_id: 7,
        wal_objects: 8,
        wal_bytes: 9,
        compacted_wal_objects: 10,
        epoch_ends: vec![(1, 20), (2, 0)],
        pages: vec![page(&["a", "b"]).0],
    }
}

#[test]
fn roots_and_pages_round_trip() {
    assert_eq!(decode_checkpoint(&encode_checkpoint(&root())), Ok(root()));
    let (reference, bytes) = page(&["a", "", "b"]);
    assert_eq!(decode_page(&reference, &bytes), Ok(vec![b"a".to_vec(), Vec::new(), b"b".to_vec()]));
}

#[test]
fn every_flipped_bit_and_every_truncation_is_detected() {
    let (reference, bytes) = page(&["a", "b"]);
    let root = encode_checkpoint(&root());
    for bit in 0..bytes.len().min(root.len()) * 8 {
        let flip = |bytes: &[u8]| {
            let mut damaged = bytes.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            damaged
        };
        assert!(decode_page(&reference, &flip(&bytes)).is_err(), "bit {bit}");
        assert!(decode_checkpoint(&flip(&root)).is_err(), "bit {bit}");
    }
    for length in 0..bytes.len() {
        assert!(decode_page(&reference, &bytes[..length]).is_err(), "length {length}");
    }
}

#[test]
fn another_page_is_refused_although_it_is_whole() {
    let (reference, _) = page(&["a"]);
    let (_, other) = page(&["b"]);
    assert!(decode_page(&reference, &other).is_err());
}

#[test]
fn entries_that_are_cut_differently_have_other_fingerprints() {
    let split =
        |parts: &[&str]| fingerprint(&parts.iter().map(|p| p.as_bytes().to_vec()).collect::<Vec<_>>());
    assert_ne!(split(&["ab", "c"]), split(&["a", "bc"]));
    assert_eq!(split(&["ab", "c"]), split(&["ab", "c"]));
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_checkpoint(&bytes);
        let _ = decode_page(&page(&["a"]).0, &bytes);
        let _ = decode_entry::<PartitionEntry>(&bytes);
        let _ = decode_entry::<SliceEntry>(&bytes).and_then(SliceEntry::into_slice);
        let _ = block_entry_of(&bytes);
    }
}
