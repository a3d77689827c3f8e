//! The one pass over a produced batch: everything that the log wants to know of it, or why it is
//! refused.
//!
//! Invariant: a batch that passes can be decoded again without an error, and its summary comes from
//! its records, never from what its header claims about them.

use bytes::Bytes;

use super::compression::DecompressionBudget;
use super::error::BatchError;
use super::records::{body_of, parse_record};
use super::varint::Reader;
use super::{BatchHeader, NO_TIMESTAMP, verify_crc};

/// What the log keeps of a batch. Timestamps are milliseconds since the Unix epoch, -1 when no
/// record has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSummary {
    /// As the producer wrote it; its `max_timestamp` may lie.
    pub header: BatchHeader,
    pub record_count: i32,
    /// Records without a timestamp.
    pub null_timestamp_count: i32,
    pub min_timestamp: i64,
    pub max_timestamp: i64,
    /// The first record that has the greatest timestamp; 0 when none has one.
    pub max_timestamp_offset_delta: i32,
    pub has_null_key: bool,
}

/// A batch that passed, with its records as they are without compression.
#[derive(Clone, Debug)]
pub struct Inspected {
    pub summary: BatchSummary,
    pub(super) body: Bytes,
}

/// The time and the key of a record of an inspected batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordFacts {
    pub timestamp: Option<i64>,
    pub has_key: bool,
}

impl Inspected {
    /// Checks one produced batch as a whole: magic, length, CRC, counts, codec, and every record.
    ///
    /// # Errors
    /// The first rule that is broken: shape and CRC come before counts, counts before codec and records.
    pub fn new(batch: &Bytes, budget: &mut DecompressionBudget) -> Result<Self, BatchError> {
        verify_crc(batch)?;
        let header = BatchHeader::parse(batch)?;
        let BatchHeader { record_count, last_offset_delta, .. } = header;
        if record_count == 0 || i64::from(last_offset_delta) + 1 != i64::from(record_count) {
            return Err(BatchError::CountMismatch { record_count, last_offset_delta });
        }
        let body = body_of(batch, &header, budget)?;
        Ok(Self { summary: summarize(header, &body)?, body })
    }

    /// The numbers of the first records of which something is true, at most `count_max`.
    pub fn records_where(&self, count_max: usize, is_wanted: impl Fn(RecordFacts) -> bool) -> Vec<i32> {
        const PASSED: &str = "every record was read when the batch was inspected";
        let header = &self.summary.header;
        let mut reader = Reader::new(&self.body, 0);
        let mut facts = || {
            let record = parse_record(&self.body, &mut reader).expect(PASSED);
            let timestamp = header.timestamp(record.timestamp_delta).expect(PASSED);
            RecordFacts { timestamp, has_key: record.key.is_some() }
        };
        (0..self.summary.record_count).filter(|_| is_wanted(facts())).take(count_max).collect()
    }
}

/// [`Inspected::new`] for those who need the summary alone.
///
/// # Errors
/// The same.
pub fn inspect(batch: &Bytes, budget: &mut DecompressionBudget) -> Result<BatchSummary, BatchError> {
    Inspected::new(batch, budget).map(|inspected| inspected.summary)
}

fn summarize(header: BatchHeader, body: &[u8]) -> Result<BatchSummary, BatchError> {
    let stated = header.record_count;
    let mut reader = Reader::new(body, 0);
    let mut times = Times::default();
    let mut has_null_key = false;
    for index in 0..stated {
        if reader.is_empty() {
            return Err(BatchError::TooFewRecords { stated, found: index });
        }
        let malformed = |what| BatchError::Malformed { index, what };
        let record = parse_record(body, &mut reader).map_err(malformed)?;
        if record.offset_delta != index {
            return Err(BatchError::OffsetDelta { index, offset_delta: record.offset_delta });
        }
        times.add(index, header.timestamp(record.timestamp_delta).map_err(malformed)?);
        has_null_key |= record.key.is_none();
    }
    if !reader.is_empty() {
        return Err(BatchError::TrailingBytes { stated, trailing: reader.remaining() });
    }
    let (max_timestamp, max_timestamp_offset_delta) = times.max.unwrap_or((NO_TIMESTAMP, 0));
    Ok(BatchSummary {
        header,
        record_count: stated,
        null_timestamp_count: times.null_count,
        min_timestamp: times.min.unwrap_or(NO_TIMESTAMP),
        max_timestamp,
        max_timestamp_offset_delta,
        has_null_key,
    })
}

/// The bounds of the timestamps seen so far.
#[derive(Default)]
struct Times {
    null_count: i32,
    min: Option<i64>,
    /// The greatest timestamp and the first record that has it.
    max: Option<(i64, i32)>,
}

impl Times {
    fn add(&mut self, index: i32, timestamp: Option<i64>) {
        let Some(timestamp) = timestamp else {
            self.null_count += 1;
            return;
        };
        self.min = Some(self.min.map_or(timestamp, |min| min.min(timestamp)));
        if self.max.is_none_or(|(max, _)| timestamp > max) {
            self.max = Some((timestamp, index));
        }
    }
}
