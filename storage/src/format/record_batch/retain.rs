//! Writes a batch anew: without some of its records, as log cleaning does, or with another codec.
//!
//! Invariant: the records that are left keep their bytes, offsets and times, and the batch keeps its
//! base offset, its last offset delta and its producer; only counts, the greatest timestamp, lengths
//! and CRC change.

use bytes::{Bytes, BytesMut};

use super::compression::{Compression, DecompressionBudget, compress, compress_at};
use super::records::{Record, Records};
use super::validate::Inspected;
use super::{
    ATTRIBUTES_AT, BATCH_HEADER_LENGTH, BatchError, BatchHeader, COMPRESSION_MASK, LENGTH_PREFIX,
    MAX_BODY_LENGTH, MAX_TIMESTAMP_AT, NO_TIMESTAMP, RECORD_COUNT_AT, TimestampType, array, set_crc,
};

/// What is left of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Retained {
    All,
    Some(Bytes),
    None,
}

/// Keeps the records of one whole batch that `keep` wants.
///
/// # Errors
/// A batch that does not decode.
pub fn retain_records(
    batch: &Bytes,
    budget: &mut DecompressionBudget,
    mut keep: impl FnMut(&Record<'_>) -> bool,
) -> Result<Retained, BatchError> {
    let records = Records::decode(batch, budget)?;
    let header = *records.header();
    let mut body = Vec::new();
    let mut record_count = 0;
    let mut max_timestamp = NO_TIMESTAMP;
    let mut iter = records.iter();
    loop {
        let start = iter.position();
        let Some(record) = iter.next() else { break };
        let record = record?;
        if keep(&record) {
            body.extend_from_slice(&records.buffer()[start..iter.position()]);
            record_count += 1;
            max_timestamp = max_timestamp.max(record.timestamp.unwrap_or(NO_TIMESTAMP));
        }
    }
    if record_count == 0 {
        return Ok(Retained::None);
    }
    if record_count == header.record_count {
        return Ok(Retained::All);
    }
    if header.timestamp_type() == TimestampType::LogAppendTime {
        max_timestamp = header.max_timestamp;
    }
    let body = compress(header.compression()?, body);
    Ok(Retained::Some(with_body(batch, header.attributes, record_count, max_timestamp, &body)))
}

/// The codec of a batch, and its level; `None` is the codec's default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetCompression {
    pub compression: Compression,
    pub level: Option<i32>,
}

/// The same batch with another codec. Its greatest timestamp is that of its records.
///
/// # Errors
/// Records that are too large for one batch without their compression.
pub fn recompress(
    batch: &Bytes,
    inspected: &Inspected,
    target: TargetCompression,
) -> Result<Bytes, BatchError> {
    if inspected.body.len() > MAX_BODY_LENGTH {
        return Err(BatchError::BuilderFull { max: MAX_BODY_LENGTH });
    }
    let summary = &inspected.summary;
    let attributes = (summary.header.attributes & !COMPRESSION_MASK) | i16::from(target.compression.id());
    let body = compress_at(target.compression, target.level, &inspected.body);
    Ok(with_body(batch, attributes, summary.record_count, summary.max_timestamp, &body))
}

/// A batch with the place and the producer of this one, and no records (as Kafka's
/// `DefaultRecordBatch.writeEmptyHeader`). `batch` is one whole batch.
pub fn without_records(batch: &Bytes) -> Bytes {
    let attributes = i16::from_be_bytes(array(batch, ATTRIBUTES_AT)) & !COMPRESSION_MASK;
    with_body(batch, attributes, 0, NO_TIMESTAMP, &[])
}

fn with_body(batch: &Bytes, attributes: i16, record_count: i32, max_timestamp: i64, body: &[u8]) -> Bytes {
    let size = BATCH_HEADER_LENGTH + body.len();
    let length = i32::try_from(size - LENGTH_PREFIX).expect("the body is bounded far below 2 GiB");
    let mut rebuilt = BytesMut::with_capacity(size);
    rebuilt.extend_from_slice(&batch[..BATCH_HEADER_LENGTH]);
    rebuilt.extend_from_slice(body);
    rebuilt[8..LENGTH_PREFIX].copy_from_slice(&length.to_be_bytes());
    rebuilt[ATTRIBUTES_AT..ATTRIBUTES_AT + 2].copy_from_slice(&attributes.to_be_bytes());
    rebuilt[MAX_TIMESTAMP_AT..MAX_TIMESTAMP_AT + 8].copy_from_slice(&max_timestamp.to_be_bytes());
    rebuilt[RECORD_COUNT_AT..BATCH_HEADER_LENGTH].copy_from_slice(&record_count.to_be_bytes());
    set_crc(&mut rebuilt);
    debug_assert!(BatchHeader::parse(&rebuilt).is_ok());
    rebuilt.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record_batch::{BatchBuilder, BatchKind, BatchOptions, Compression, ProducerIdentity};
    use crate::format::{set_base_offset, verify_crc};

    fn batch(compression: Compression) -> Bytes {
        let producer = Some(ProducerIdentity { producer_id: 7, producer_epoch: 1, base_sequence: 30 });
        let options = BatchOptions { compression, producer, kind: BatchKind::Transactional };
        let mut builder = BatchBuilder::new(options);
        for number in 0..5_i64 {
            let value = format!("value {number}");
            let header: (&[u8], Option<&[u8]>) = (b"h", None);
            builder.append(Some(100 - number), Some(b"k"), Some(value.as_bytes()), &[header]).unwrap();
        }
        let mut batch = BytesMut::from(&builder.finish()[..]);
        set_base_offset(&mut batch, 40);
        batch.freeze()
    }

    fn budget() -> DecompressionBudget {
        DecompressionBudget::new(1 << 20)
    }

    #[test]
    fn what_is_left_keeps_its_offsets_and_times_with_every_codec() {
        for codec in Compression::ALL {
            let batch = batch(codec);
            let retained = retain_records(&batch, &mut budget(), |record| record.offset % 2 == 1).unwrap();
            let Retained::Some(left) = retained else { panic!("two of five are left") };
            verify_crc(&left).unwrap();
            let records = Records::decode(&left, &mut budget()).unwrap();
            let found: Vec<_> = records.iter().map(|record| record.unwrap()).collect();
            assert_eq!(found.iter().map(|record| record.offset).collect::<Vec<_>>(), [41, 43]);
            assert_eq!(found[1].timestamp, Some(97));
            assert_eq!(found[1].value, Some(&b"value 3"[..]));
            assert_eq!(found[1].headers.len(), 1);
            let header = records.header();
            assert_eq!((header.base_offset, header.last_offset(), header.max_timestamp), (40, 44, 99));
            assert_eq!((header.producer_id, header.base_sequence, header.last_sequence()), (7, 30, 34));
            assert!(header.is_transactional());
        }
    }

    #[test]
    fn all_and_none_are_told_apart() {
        let batch = batch(Compression::None);
        assert_eq!(retain_records(&batch, &mut budget(), |_| true).unwrap(), Retained::All);
        assert_eq!(retain_records(&batch, &mut budget(), |_| false).unwrap(), Retained::None);
    }

    #[test]
    fn a_batch_without_records_keeps_its_place() {
        let empty = without_records(&batch(Compression::Zstd));
        verify_crc(&empty).unwrap();
        let records = Records::decode(&empty, &mut budget()).unwrap();
        assert_eq!(records.iter().count(), 0);
        let header = records.header();
        assert_eq!((header.base_offset, header.last_offset(), header.record_count), (40, 44, 0));
        assert_eq!((header.producer_id, header.max_timestamp), (7, -1));
        assert!(header.is_transactional());
    }

    #[test]
    fn another_codec_changes_nothing_but_the_bytes_of_the_records() {
        for from in Compression::ALL {
            let mut batch = BytesMut::from(&batch(from)[..]);
            set_base_offset(&mut batch, 0);
            let batch = batch.freeze();
            let inspected = Inspected::new(&batch, &mut budget()).unwrap();
            for (compression, level) in
                Compression::ALL.into_iter().flat_map(|to| [(to, None), (to, Some(1))])
            {
                let target = TargetCompression { compression, level };
                let rewritten = recompress(&batch, &inspected, target).unwrap();
                let again = Inspected::new(&rewritten, &mut budget()).unwrap();
                assert_eq!(again.summary.header.compression(), Ok(compression));
                assert_eq!(again.body, inspected.body);
                let expected = BatchHeader {
                    batch_length: again.summary.header.batch_length,
                    crc: again.summary.header.crc,
                    attributes: again.summary.header.attributes,
                    ..inspected.summary.header
                };
                assert_eq!(again.summary.header, expected, "{from} to {compression}");
                assert!(again.summary.header.is_transactional());
            }
        }
    }

    #[test]
    fn records_are_found_by_their_time_and_key() {
        let mut builder = BatchBuilder::new(BatchOptions::default());
        for (timestamp, key) in [(Some(5), None), (None, Some(&b"k"[..])), (Some(9), None)] {
            builder.append(timestamp, key, None, &[]).unwrap();
        }
        let inspected = Inspected::new(&builder.finish(), &mut budget()).unwrap();
        assert_eq!(inspected.records_where(10, |record| !record.has_key), [0, 2]);
        assert_eq!(inspected.records_where(1, |record| !record.has_key), [0]);
        assert_eq!(inspected.records_where(10, |record| record.timestamp == Some(9)), [2]);
    }
}
