//! The record batch against its own builder, against lies, damage and bombs, and against any bytes.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

mod codecs;

type OwnedHeader = (Vec<u8>, Option<Vec<u8>>);

#[derive(Clone, Debug, PartialEq)]
struct OwnedRecord {
    timestamp: Option<i64>,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<OwnedHeader>,
}

fn record(timestamp: i64, value: &[u8]) -> OwnedRecord {
    OwnedRecord {
        timestamp: Some(timestamp),
        key: Some(b"k".to_vec()),
        value: Some(value.to_vec()),
        headers: Vec::new(),
    }
}

fn build(options: BatchOptions, records: &[OwnedRecord]) -> Bytes {
    let mut builder = BatchBuilder::new(options);
    for record in records {
        let headers: Vec<HeaderRef<'_>> =
            record.headers.iter().map(|(key, value)| (key.as_slice(), value.as_deref())).collect();
        builder
            .append(record.timestamp, record.key.as_deref(), record.value.as_deref(), &headers)
            .expect("the records are small");
    }
    builder.finish()
}

fn compressed(compression: Compression, records: &[OwnedRecord]) -> Bytes {
    build(BatchOptions { compression, ..BatchOptions::default() }, records)
}

fn plain(records: &[OwnedRecord]) -> Bytes {
    build(BatchOptions::default(), records)
}

fn budget() -> DecompressionBudget {
    DecompressionBudget::new(16 << 20)
}

fn inspected(batch: &Bytes) -> Result<BatchSummary, BatchError> {
    inspect(batch, &mut budget())
}

fn decoded(batch: &Bytes) -> Result<Vec<OwnedRecord>, BatchError> {
    let records = Records::decode(batch, &mut budget())?;
    records
        .iter()
        .map(|record| {
            let record = record?;
            let headers = record.headers.iter();
            Ok(OwnedRecord {
                timestamp: record.timestamp,
                key: record.key.map(<[u8]>::to_vec),
                value: record.value.map(<[u8]>::to_vec),
                headers: headers.map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec))).collect(),
            })
        })
        .collect()
}

/// Changes bytes of a batch and makes its CRC fit again.
fn altered(batch: &Bytes, alter: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut bytes = batch.to_vec();
    alter(&mut bytes);
    let length = (bytes.len() - LENGTH_PREFIX) as i32;
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    set_crc(&mut bytes);
    bytes.into()
}

fn with_counts(batch: &Bytes, record_count: i32, last_offset_delta: i32) -> Bytes {
    altered(batch, |bytes| {
        bytes[23..27].copy_from_slice(&last_offset_delta.to_be_bytes());
        bytes[57..61].copy_from_slice(&record_count.to_be_bytes());
    })
}

/// A batch around the bytes of hand-made records.
fn around(body: &[u8], record_count: i32) -> Bytes {
    let one = plain(&[record(0, b"")]);
    let batch = altered(&one, |bytes| {
        bytes.truncate(BATCH_HEADER_LENGTH);
        bytes.extend_from_slice(body);
    });
    with_counts(&batch, record_count, record_count - 1)
}

#[test]
fn a_batch_has_the_bytes_of_the_protocol() {
    let records = [
        OwnedRecord {
            timestamp: Some(1_700_000_000_000),
            key: Some(b"key".to_vec()),
            value: Some(b"value".to_vec()),
            headers: vec![(b"h".to_vec(), None)],
        },
        OwnedRecord {
            timestamp: Some(1_699_999_999_999),
            key: None,
            value: Some(Vec::new()),
            headers: vec![],
        },
    ];
    let producer = ProducerIdentity { producer_id: 7, producer_epoch: 1, base_sequence: 40 };
    let batch = build(
        BatchOptions { producer: Some(producer), kind: BatchKind::Transactional, ..Default::default() },
        &records,
    );
    let mut expected = Vec::new();
    expected.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend_from_slice(&[0, 0, 0, 74]);
    expected.extend_from_slice(&[0xff, 0xff, 0xff, 0xff]);
    expected.push(2);
    expected.extend_from_slice(&batch[17..21]);
    expected.extend_from_slice(&[0, 0x10]);
    expected.extend_from_slice(&[0, 0, 0, 1]);
    expected.extend_from_slice(&1_700_000_000_000_i64.to_be_bytes());
    expected.extend_from_slice(&1_700_000_000_000_i64.to_be_bytes());
    expected.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 7]);
    expected.extend_from_slice(&[0, 1]);
    expected.extend_from_slice(&[0, 0, 0, 40]);
    expected.extend_from_slice(&[0, 0, 0, 2]);
    expected.extend_from_slice(&[34, 0, 0, 0, 6]);
    expected.extend_from_slice(b"key\x0avalue\x02\x02h\x01");
    expected.extend_from_slice(&[12, 0, 1, 2, 1, 0, 0]);
    assert_eq!(batch, expected);
    assert_eq!(verify_crc(&batch), Ok(()));
}

/// Reported as kafka-backup#156 (KIP-82).
#[test]
fn null_and_empty_keys_values_and_header_values_and_repeated_header_keys_are_kept() {
    let headers = vec![
        (b"a".to_vec(), Some(b"1".to_vec())),
        (b"a".to_vec(), None),
        (b"a".to_vec(), Some(Vec::new())),
        (Vec::new(), Some(b"2".to_vec())),
        (vec![0xff, 0xfe], None),
    ];
    let records = [
        OwnedRecord { timestamp: None, key: None, value: None, headers },
        OwnedRecord { timestamp: Some(0), key: Some(vec![]), value: Some(vec![]), headers: vec![] },
    ];
    for compression in Compression::ALL {
        let batch = compressed(compression, &records);
        assert_eq!(decoded(&batch).unwrap(), records, "{compression}");
        let summary = inspected(&batch).unwrap();
        assert!(summary.has_null_key);
        assert_eq!(summary.null_timestamp_count, 1);
    }
}

#[test]
fn ranges_point_into_the_buffer_which_is_the_batch_itself_when_not_compressed() {
    let records = [record(5, b"first"), record(6, b"second")];
    for compression in Compression::ALL {
        let batch = compressed(compression, &records);
        let decoded = Records::decode(&batch, &mut budget()).unwrap();
        for (record, expected) in decoded.iter().zip(&records) {
            let record = record.unwrap();
            let value = &decoded.buffer()[record.value_range().unwrap()];
            let key = &decoded.buffer()[record.key_range().unwrap()];
            assert_eq!((Some(key), Some(value)), (expected.key.as_deref(), expected.value.as_deref()));
        }
    }
    let batch = plain(&records);
    let decoded = Records::decode(&batch, &mut budget()).unwrap();
    assert_eq!(decoded.buffer().as_ptr(), batch[BATCH_HEADER_LENGTH..].as_ptr());
}

/// Reported as redpanda PR#25200, redpanda PR#27529.
#[test]
fn the_summary_comes_from_the_records_and_not_from_the_header() {
    let times = [Some(30), None, Some(-7), Some(90), Some(90), Some(10)];
    let records = times.map(|timestamp| OwnedRecord { timestamp, ..record(0, b"v") });
    let mut batch = plain(&records).to_vec();
    set_max_timestamp(&mut batch, 5_000);
    let summary = inspected(&batch.into()).unwrap();
    assert_eq!(summary.header.max_timestamp, 5_000);
    assert_eq!((summary.min_timestamp, summary.max_timestamp), (-7, 90));
    assert_eq!(summary.max_timestamp_offset_delta, 3);
    assert_eq!((summary.record_count, summary.null_timestamp_count), (6, 1));
    assert!(!summary.has_null_key);
}

#[test]
fn records_without_any_timestamp_have_no_bounds() {
    let records = [OwnedRecord { timestamp: None, ..record(0, b"v") }];
    let summary = inspected(&plain(&records)).unwrap();
    assert_eq!((summary.min_timestamp, summary.max_timestamp), (-1, -1));
    assert_eq!(summary.max_timestamp_offset_delta, 0);
}

#[test]
fn offsets_and_times_follow_what_the_log_patches() {
    let mut batch = plain(&[record(5, b"a"), record(6, b"b")]).to_vec();
    set_base_offset(&mut batch, 100);
    set_leader_epoch(&mut batch, 9);
    assert_eq!(verify_crc(&batch), Ok(()), "the CRC covers neither");
    set_log_append_time(&mut batch, 777);
    assert_eq!(verify_crc(&batch), Ok(()));
    let batch = Bytes::from(batch);
    let records = Records::decode(&batch, &mut budget()).unwrap();
    let header = records.header();
    assert_eq!((header.leader_epoch, header.timestamp_type()), (9, TimestampType::LogAppendTime));
    assert_eq!((header.last_offset(), header.next_offset()), (101, 102));
    let seen: Vec<_> =
        records.iter().map(|record| record.unwrap()).map(|r| (r.offset, r.timestamp)).collect();
    assert_eq!(seen, [(100, Some(777)), (101, Some(777))]);
    let summary = inspected(&batch).unwrap();
    assert_eq!(
        (summary.min_timestamp, summary.max_timestamp, summary.max_timestamp_offset_delta),
        (777, 777, 0)
    );
}

#[test]
fn the_last_sequence_wraps_to_zero() {
    let producer = ProducerIdentity { producer_id: 1, producer_epoch: 0, base_sequence: i32::MAX - 1 };
    let options = BatchOptions { producer: Some(producer), ..Default::default() };
    let batch = build(options, &[record(0, b"a"), record(0, b"b"), record(0, b"c")]);
    assert_eq!(BatchHeader::parse(&batch).unwrap().last_sequence(), 0);
    let batch = build(options, &[record(0, b"a"), record(0, b"b")]);
    assert_eq!(BatchHeader::parse(&batch).unwrap().last_sequence(), i32::MAX);
    assert_eq!(BatchHeader::parse(&plain(&[record(0, b"a")])).unwrap().last_sequence(), -1);
}

#[test]
fn a_control_batch_is_inspected_and_decoded() {
    let marker = OwnedRecord {
        timestamp: Some(3),
        key: Some(vec![0, 0, 0, 1]),
        value: Some(vec![0; 6]),
        headers: vec![],
    };
    let batch = build(BatchOptions { kind: BatchKind::Control, ..Default::default() }, &[marker]);
    let summary = inspected(&batch).unwrap();
    assert!(summary.header.is_control() && summary.header.is_transactional());
    assert_eq!(summary.record_count, 1);
    assert_eq!(decoded(&batch).unwrap()[0].key.as_deref(), Some(&[0, 0, 0, 1][..]));
}

#[test]
fn a_cleaned_batch_with_missing_offsets_is_decoded_but_not_accepted_from_a_producer() {
    // Two records with offset deltas 1 and 4.
    let body = [16, 0, 0, 2, 2, b'k', 2, b'v', 0, 16, 0, 0, 8, 2, b'k', 2, b'w', 0];
    let batch = with_counts(&around(&body, 2), 2, 5);
    let records = Records::decode(&batch, &mut budget()).unwrap();
    let offsets: Vec<_> = records.iter().map(|record| record.unwrap().offset).collect();
    assert_eq!(offsets, [1, 4]);
    let kind = |batch| inspected(batch).unwrap_err().kind();
    assert_eq!(kind(&batch), BatchErrorKind::Invalid);
    assert_eq!(inspected(&around(&body, 2)), Err(BatchError::OffsetDelta { index: 0, offset_delta: 1 }));
}

#[test]
fn counts_that_lie_are_refused() {
    let batch = plain(&[record(0, b"a"), record(0, b"b")]);
    let error = |batch: &Bytes| inspected(batch).unwrap_err();
    assert!(matches!(error(&with_counts(&batch, 3, 2)), BatchError::TooFewRecords { stated: 3, found: 2 }));
    assert!(matches!(error(&with_counts(&batch, 1, 0)), BatchError::TrailingBytes { stated: 1, .. }));
    for (record_count, last_offset_delta) in [(0, 0), (0, 1), (2, 2), (1, 1), (i32::MAX, 1)] {
        let batch = with_counts(&batch, record_count, last_offset_delta);
        assert_eq!(error(&batch), BatchError::CountMismatch { record_count, last_offset_delta });
    }
    let lies = with_counts(&batch, i32::MAX, i32::MAX - 1);
    assert!(matches!(error(&lies), BatchError::TooFewRecords { found: 2, .. }));
    for (record_count, last_offset_delta) in [(-1, 0), (1, -1), (i32::MIN, i32::MIN)] {
        let batch = with_counts(&batch, record_count, last_offset_delta);
        assert!(matches!(error(&batch), BatchError::FieldOutOfRange { .. }));
        assert_eq!(error(&batch).kind(), BatchErrorKind::Invalid);
    }
    let decoding = decoded(&with_counts(&batch, 3, 2)).unwrap_err();
    assert!(matches!(decoding, BatchError::TooFewRecords { stated: 3, found: 2 }));
    let decoding = decoded(&with_counts(&batch, 1, 1)).unwrap_err();
    assert!(matches!(decoding, BatchError::TrailingBytes { stated: 1, .. }));
}

#[test]
fn records_that_break_the_format_are_refused() {
    let cases: [(&str, &[u8]); 12] = [
        ("negative length", &[1]),
        ("length past the end", &[20, 0, 0]),
        ("no attributes", &[0]),
        ("key length past its record", &[12, 0, 0, 0, 20, 1, 0]),
        ("key length -2", &[12, 0, 0, 0, 3, 1, 0]),
        ("value length past its record", &[12, 0, 0, 0, 1, 20, 0]),
        ("negative header count", &[12, 0, 0, 0, 1, 1, 1]),
        ("header count beyond the bytes", &[20, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff]),
        ("null header key", &[16, 0, 0, 0, 1, 1, 2, 1, 1]),
        ("bytes after the headers", &[14, 0, 0, 0, 1, 1, 0, 0]),
        ("headers missing", &[10, 0, 0, 0, 1, 1]),
        ("varint too long", &[24, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x7f, 1, 1, 0, 0, 0]),
    ];
    for (what, body) in cases {
        let batch = around(body, 1);
        let error = inspected(&batch).expect_err(what);
        assert!(matches!(error, BatchError::Malformed { index: 0, .. }), "{what}: {error}");
        assert_eq!(error.kind(), BatchErrorKind::Invalid);
        assert_eq!(decoded(&batch).expect_err(what), error);
    }
}

#[test]
fn timestamps_and_offsets_that_overflow_are_refused() {
    let batch = altered(&plain(&[record(i64::MAX, b"a"), record(i64::MAX - 1, b"b")]), |bytes| {
        bytes[27..35].copy_from_slice(&i64::MIN.to_be_bytes());
    });
    assert!(matches!(inspected(&batch), Err(BatchError::Malformed { index: 1, .. })));
    for offset in [-1, i64::MAX, i64::MAX - 1] {
        let mut bytes = plain(&[record(0, b"a"), record(0, b"b")]).to_vec();
        set_base_offset(&mut bytes, offset);
        assert!(matches!(BatchHeader::parse(&bytes), Err(BatchError::FieldOutOfRange { .. })), "{offset}");
    }
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.append(Some(i64::MIN), None, None, &[]).unwrap();
    assert!(builder.append(Some(1), None, None, &[]).is_err());
    assert_eq!(builder.len(), 1);
}

#[test]
fn only_one_whole_batch_is_inspected() {
    let batch = plain(&[record(0, b"a")]);
    let two = Bytes::from([&batch[..], &batch[..]].concat());
    assert_eq!(inspected(&two), Err(BatchError::TooManyBatches { trailing: batch.len() }));
    for length in 0..batch.len() {
        let cut = batch.slice(..length);
        let error = inspected(&cut).unwrap_err();
        assert!(matches!(error, BatchError::Truncated { .. }), "{length}: {error}");
        assert!(Records::decode(&cut, &mut budget()).is_err());
    }
}

#[test]
fn old_magics_are_refused_even_when_shorter_than_a_header() {
    for magic in [0, 1, 3, -1] {
        let mut bytes = plain(&[record(0, b"a")]).to_vec();
        bytes[16] = magic as u8;
        let expected = BatchError::UnsupportedMagic(magic);
        let is_old = matches!(magic, 0 | 1);
        let kind = if is_old { BatchErrorKind::Invalid } else { BatchErrorKind::Corrupt };
        assert_eq!(expected.kind(), kind, "magic {magic}");
        assert_eq!(BatchHeader::parse(&bytes), Err(expected.clone()));
        assert_eq!(BatchHeader::parse(&bytes[..26]), Err(expected));
    }
}

#[test]
fn every_flipped_bit_is_detected() {
    let batch = plain(&[record(5, b"a"), record(6, b"b")]);
    for bit in 0..batch.len() * 8 {
        let byte = bit / 8;
        let mut damaged = batch.to_vec();
        damaged[byte] ^= 1 << (bit % 8);
        let outcome = inspected(&damaged.into());
        // Base offset and leader epoch are not covered: the CRC of a stored block covers them.
        let covered = !(0..8).contains(&byte) && !(12..16).contains(&byte);
        if covered {
            assert!(outcome.is_err(), "bit {bit}");
        }
    }
}

#[test]
fn consecutive_batches_are_split_without_copying() {
    let batches = [plain(&[record(0, b"a")]), compressed(Compression::Zstd, &[record(0, b"bb")])];
    let joined = Bytes::from(batches.concat());
    let split: Vec<_> = split_batches(joined.clone()).collect::<Result<_, _>>().unwrap();
    assert_eq!(split.iter().map(|(_, bytes)| bytes.clone()).collect::<Vec<_>>(), batches);
    assert_eq!(split[1].1.as_ptr(), joined[batches[0].len()..].as_ptr());
    assert_eq!(split_batches(Bytes::new()).count(), 0);

    let cut = joined.slice(..joined.len() - 1);
    let outcomes: Vec<_> = split_batches(cut).collect();
    assert_eq!(outcomes.len(), 2);
    assert!(outcomes[0].is_ok());
    assert!(matches!(outcomes[1], Err(BatchError::Truncated { .. })));
}

#[test]
fn a_length_below_the_header_is_corrupt() {
    let mut bytes = plain(&[record(0, b"a")]).to_vec();
    for length in [48, 0, -1, i32::MIN] {
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        let error = BatchHeader::parse(&bytes).unwrap_err();
        assert_eq!(error, BatchError::LengthTooSmall { length, min: 49 });
        assert_eq!(error.kind(), BatchErrorKind::Corrupt);
    }
}

fn any_record() -> impl Strategy<Value = OwnedRecord> {
    let bytes = || vec(any::<u8>(), 0..40);
    let header = (bytes(), option::of(bytes()));
    let timestamp = prop_oneof![
        Just(None),
        (-1_000_i64..2_000_000_000_000).prop_map(|timestamp| (timestamp != -1).then_some(timestamp))
    ];
    (timestamp, option::of(bytes()), option::of(bytes()), vec(header, 0..4))
        .prop_map(|(timestamp, key, value, headers)| OwnedRecord { timestamp, key, value, headers })
}

fn any_compression() -> impl Strategy<Value = Compression> {
    proptest::sample::select(Compression::ALL.to_vec())
}

proptest! {
    #[test]
    fn batches_round_trip(records in vec(any_record(), 1..20), compression in any_compression()) {
        let batch = compressed(compression, &records);
        prop_assert_eq!(decoded(&batch), Ok(records.clone()));
        let summary = inspected(&batch).unwrap();
        let times = || records.iter().filter_map(|record| record.timestamp);
        prop_assert_eq!(summary.record_count as usize, records.len());
        prop_assert_eq!(summary.null_timestamp_count as usize, records.len() - times().count());
        prop_assert_eq!(summary.min_timestamp, times().min().unwrap_or(-1));
        prop_assert_eq!(summary.max_timestamp, times().max().unwrap_or(-1));
        prop_assert_eq!(summary.header.max_timestamp, summary.max_timestamp);
        let first = records.iter().position(|record| record.timestamp == Some(summary.max_timestamp));
        prop_assert_eq!(summary.max_timestamp_offset_delta as usize, first.unwrap_or(0));
        prop_assert_eq!(summary.has_null_key, records.iter().any(|record| record.key.is_none()));
    }

    #[test]
    fn any_bytes_are_inspected_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        let bytes = Bytes::from(bytes);
        let _ = BatchHeader::parse(&bytes);
        let _ = inspected(&bytes);
        let _ = decoded(&bytes);
        let _ = split_batches(bytes).count();
    }

    #[test]
    fn any_body_behind_a_header_that_fits_is_decoded_or_refused(
        body in vec(any::<u8>(), 0..120),
        attributes in 0_u8..64,
        record_count in 1_i32..8,
    ) {
        let batch = altered(&around(&body, record_count), |bytes| bytes[22] = attributes);
        let inspected = inspected(&batch);
        let decoded = decoded(&batch);
        prop_assert!(inspected.is_err() || decoded.is_ok(), "what passes inspection decodes");
    }

    #[test]
    fn a_damaged_record_is_decoded_or_refused(
        records in vec(any_record(), 1..6),
        compression in any_compression(),
        position: prop::sample::Index,
        value: u8,
    ) {
        let batch = compressed(compression, &records);
        let batch = altered(&batch, |bytes| {
            let at = BATCH_HEADER_LENGTH + position.index(bytes.len() - BATCH_HEADER_LENGTH);
            bytes[at] = value;
        });
        let inspected = inspected(&batch);
        let decoded = decoded(&batch);
        prop_assert!(inspected.is_err() || decoded.is_ok(), "what passes inspection decodes");
    }
}
