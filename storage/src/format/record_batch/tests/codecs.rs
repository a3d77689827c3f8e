//! The codecs: framings that clients really send, bombs, and damage behind a CRC that fits.

use super::*;

/// Replaces the body of a one-record batch by compressed bytes.
fn batch_of(compression: Compression, body: &[u8], record_count: i32) -> Bytes {
    altered(&around(body, record_count), |bytes| bytes[22] = compression.id())
}

fn body(records: &[OwnedRecord]) -> Vec<u8> {
    plain(records)[BATCH_HEADER_LENGTH..].to_vec()
}

fn records() -> Vec<OwnedRecord> {
    (0..50).map(|index| record(0, format!("value {index} of a batch").as_bytes())).collect()
}

/// Snappy chunks in the framing of Java clients, with any version bytes.
fn xerial(body: &[u8], chunk_length: usize, versions: [u8; 8]) -> Vec<u8> {
    let mut framed = b"\x82SNAPPY\0".to_vec();
    framed.extend_from_slice(&versions);
    for chunk in body.chunks(chunk_length) {
        let compressed = snap::raw::Encoder::new().compress_vec(chunk).unwrap();
        framed.extend_from_slice(&(compressed.len() as u32).to_be_bytes());
        framed.extend_from_slice(&compressed);
    }
    framed
}

/// Reported as kafka-protocol-rs#79, flow#1651.
#[test]
fn xerial_snappy_is_read_whatever_its_version_bytes_and_chunks() {
    let body = body(&records());
    for (chunk_length, versions) in
        [(64, [0, 0, 0, 1, 0, 0, 0, 1]), (body.len(), [0; 8]), (body.len() - 1, [0xff; 8])]
    {
        let batch = batch_of(Compression::Snappy, &xerial(&body, chunk_length, versions), 50);
        assert_eq!(decoded(&batch).unwrap(), records());
        assert_eq!(inspected(&batch).unwrap().record_count, 50);
    }
}

#[test]
fn xerial_snappy_that_is_cut_off_is_corrupt() {
    let body = body(&records()[..2]);
    let framed = xerial(&body, 16, [0; 8]);
    let mut refused = 0;
    for length in 0..framed.len() {
        let error = inspected(&batch_of(Compression::Snappy, &framed[..length], 2)).unwrap_err();
        // A cut between two chunks leaves too few records; any other one is damage.
        refused += usize::from(error.kind() == BatchErrorKind::Corrupt);
    }
    assert!(refused > framed.len() / 2);
}

#[test]
fn gzip_members_are_concatenated() {
    let body = body(&records());
    let (first, second) = body.split_at(100);
    let mut members = super::super::compression::compress(Compression::Gzip, first.to_vec());
    members.extend(super::super::compression::compress(Compression::Gzip, second.to_vec()));
    assert_eq!(decoded(&batch_of(Compression::Gzip, &members, 50)).unwrap(), records());
}

/// Reported as kafka-protocol-rs#143, kafka-protocol-rs#149, platformatic#282 (KIP-57).
#[test]
fn lz4_with_linked_blocks_and_checksums_is_read() {
    use std::io::Write;
    let body = body(&records());
    let frame = lz4_flex::frame::FrameInfo::new()
        .block_mode(lz4_flex::frame::BlockMode::Linked)
        .block_checksums(true)
        .content_checksum(true);
    let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(frame, Vec::new());
    encoder.write_all(&body).unwrap();
    let framed = encoder.finish().unwrap();
    assert_eq!(decoded(&batch_of(Compression::Lz4, &framed, 50)).unwrap(), records());
}

#[test]
fn lz4_that_is_no_frame_or_more_than_one_is_corrupt() {
    let body = body(&records());
    let framed = super::super::compression::compress(Compression::Lz4, body);
    let twice = [&framed[..], &framed[..]].concat();
    let mut legacy = framed.clone();
    legacy[..4].copy_from_slice(&[0x02, 0x21, 0x4c, 0x18]);
    for bytes in [&twice[..], &legacy, b"", b"\x04\x22\x4d\x18"] {
        let error = inspected(&batch_of(Compression::Lz4, bytes, 50)).unwrap_err();
        assert!(matches!(error.kind(), BatchErrorKind::Corrupt | BatchErrorKind::Invalid), "{error}");
    }
}

#[test]
fn zstd_without_a_content_size_and_in_several_frames_is_read() {
    use std::io::Write;
    let records: Vec<_> = (0..200).map(|_| record(0, &[b'x'; 10_000])).collect();
    let body = body(&records);
    let (first, second) = body.split_at(body.len() / 3);
    let mut frames = Vec::new();
    for part in [first, second] {
        let mut encoder = zstd::Encoder::new(&mut frames, 19).unwrap();
        encoder.write_all(part).unwrap();
        encoder.finish().unwrap();
    }
    assert!(frames.len() * 64 < body.len(), "the output grows past the first guess");
    let batch = batch_of(Compression::Zstd, &frames, 200);
    assert_eq!(decoded(&batch).unwrap(), records);
}

#[test]
fn zstd_whose_first_frame_holds_nothing_is_read_to_its_end() {
    let frame = zstd::bulk::compress(&body(&records()), 3).unwrap();
    let empty = zstd::bulk::compress(b"", 3).unwrap();
    let skippable = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd".to_vec();
    for (first, second) in [(&empty, &frame), (&skippable, &frame), (&frame, &empty), (&frame, &skippable)] {
        let batch = batch_of(Compression::Zstd, &[first.as_slice(), second].concat(), records().len() as i32);
        assert_eq!(decoded(&batch).unwrap(), records());
    }
}

#[test]
fn a_codec_that_is_not_known_is_refused_by_its_number() {
    for codec in 5..8 {
        let batch = altered(&plain(&[record(0, b"a")]), |bytes| bytes[22] = codec);
        let error = inspected(&batch).unwrap_err();
        assert_eq!(error, BatchError::UnsupportedCompression(codec));
        assert_eq!(error.kind(), BatchErrorKind::UnsupportedCompression);
    }
}

#[test]
fn damage_behind_a_crc_that_fits_is_corrupt() {
    for compression in &Compression::ALL[1..] {
        let batch = compressed(*compression, &records());
        let damaged = altered(&batch, |bytes| bytes.truncate(bytes.len() - 12));
        let error = inspected(&damaged).unwrap_err();
        assert_eq!(error.kind(), BatchErrorKind::Corrupt, "{compression}: {error}");
        let damaged = altered(&batch, |bytes| bytes[BATCH_HEADER_LENGTH..].fill(0xee));
        let error = inspected(&damaged).unwrap_err();
        assert_eq!(error.kind(), BatchErrorKind::Corrupt, "{compression}: {error}");
    }
}

#[test]
fn a_bomb_stops_at_the_budget() {
    let zeros = vec![0; 1 << 20];
    for compression in &Compression::ALL[1..] {
        let bomb = compressed(*compression, &[record(0, &zeros)]);
        for limit in [0, 1, 1000, 64 << 10, 1 << 20] {
            let error = inspect(&bomb, &mut DecompressionBudget::new(limit)).unwrap_err();
            assert_eq!(error, BatchError::BudgetExceeded { limit }, "{compression}");
            assert_eq!(error.kind(), BatchErrorKind::TooLarge);
        }
        assert!(inspect(&bomb, &mut DecompressionBudget::new((1 << 20) + 64)).is_ok(), "{compression}");
    }
}

#[test]
fn one_budget_covers_many_batches_and_only_what_is_decompressed() {
    let records = [record(0, &[7; 1000])];
    let needed = plain(&records).len() - BATCH_HEADER_LENGTH;
    for compression in &Compression::ALL[1..] {
        let batch = compressed(*compression, &records);
        let mut budget = DecompressionBudget::new(2 * needed);
        assert!(inspect(&batch, &mut budget).is_ok());
        assert_eq!(budget.remaining(), needed);
        assert!(Records::decode(&batch, &mut budget).is_ok());
        assert_eq!(budget.remaining(), 0);
        assert!(Records::decode(&batch, &mut budget).is_err());
        assert!(inspect(&plain(&records), &mut budget).is_ok(), "nothing is decompressed");
    }
}

#[test]
fn a_snappy_length_that_its_bytes_cannot_hold_is_refused_before_it_is_allocated() {
    let claims_4_gib = [0xff, 0xff, 0xff, 0xff, 0x0f, 0];
    let batch = batch_of(Compression::Snappy, &claims_4_gib, 1);
    let error = inspect(&batch, &mut DecompressionBudget::new(usize::MAX)).unwrap_err();
    assert_eq!(error.kind(), BatchErrorKind::Corrupt);
}

#[test]
fn names_are_those_of_kafka() {
    for (compression, name) in Compression::ALL.into_iter().zip(["none", "gzip", "snappy", "lz4", "zstd"]) {
        assert_eq!(compression.to_string(), name);
        assert_eq!(name.parse(), Ok(compression));
        assert_eq!(Compression::from_id(compression.id()), Ok(compression));
    }
    assert_eq!("GZIP".parse::<Compression>(), Err(UnknownCompression("GZIP".into())));
}

proptest! {
    #[test]
    fn any_compressed_body_is_decoded_or_refused(
        bytes in vec(any::<u8>(), 0..200),
        compression in any_compression(),
        framed: bool,
    ) {
        let front: &[u8] = match compression {
            Compression::Gzip => &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3],
            Compression::Snappy => b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01",
            Compression::Lz4 => &[0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82],
            Compression::Zstd => &[0x28, 0xb5, 0x2f, 0xfd],
            Compression::None => &[],
        };
        let body = if framed { [front, &bytes].concat() } else { bytes };
        let _ = inspected(&batch_of(compression, &body, 1));
    }

    #[test]
    fn damaged_compressed_bytes_never_exceed_the_budget(
        compression in any_compression(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let batch = compressed(compression, &records());
        let batch = altered(&batch, |bytes| {
            for (position, value) in damage {
                let at = BATCH_HEADER_LENGTH + position.index(bytes.len() - BATCH_HEADER_LENGTH);
                bytes[at] = value;
            }
        });
        let limit = 4096;
        if let Ok(records) = Records::decode(&batch, &mut DecompressionBudget::new(limit)) {
            prop_assert!(compression == Compression::None || records.buffer().len() <= limit);
        }
    }
}
