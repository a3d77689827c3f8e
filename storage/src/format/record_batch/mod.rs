//! Kafka's record batch, magic 2: header, patching of the fields outside and inside the CRC, and
//! splitting of consecutive batches. Records, validation, codecs and building are in the submodules.
//!
//! Invariants: a parsed header has a length of at least the header, offsets that do not overflow,
//! and a record count that is not negative. Nothing here trusts a number before it is checked
//! against the bytes at hand, and nothing here knows of requests or of the log.
//!
//! The byte table is in docs/formats.md; the source is Kafka's `DefaultRecordBatch`.

mod builder;
mod compression;
mod error;
mod records;
mod retain;
mod validate;
mod varint;

#[cfg(test)]
mod tests;

use std::fmt;

use bytes::Bytes;

pub use builder::{BatchBuilder, BatchKind, BatchOptions, HeaderRef, ProducerIdentity};
pub use compression::{Compression, DecompressionBudget, UnknownCompression};
pub use error::{BatchError, BatchErrorKind};
pub use records::{Record, RecordHeaderIter, RecordHeaders, RecordIter, Records};
pub use retain::{Retained, TargetCompression, recompress, retain_records, without_records};
pub use validate::{BatchSummary, Inspected, RecordFacts, inspect};

/// Bytes before the records.
pub const BATCH_HEADER_LENGTH: usize = 61;

/// Bytes before and in the length field, which the length does not count.
const LENGTH_PREFIX: usize = 12;
/// The smallest length that the length field can hold: a header and no records.
const MIN_BATCH_LENGTH: i32 = (BATCH_HEADER_LENGTH - LENGTH_PREFIX) as i32;

/// The most bytes of uncompressed records in one batch that is written here: far below what the
/// 32-bit length field holds, so that no codec's worst case overflows it.
const MAX_BODY_LENGTH: usize = 1 << 30;

const LEADER_EPOCH_AT: usize = 12;
const MAGIC_AT: usize = 16;
const CRC_AT: usize = 17;
/// The CRC covers everything from here on.
const ATTRIBUTES_AT: usize = 21;
const MAX_TIMESTAMP_AT: usize = 35;
const RECORD_COUNT_AT: usize = 57;

const COMPRESSION_MASK: i16 = 0x07;
const LOG_APPEND_TIME_BIT: i16 = 1 << 3;
const TRANSACTIONAL_BIT: i16 = 1 << 4;
const CONTROL_BIT: i16 = 1 << 5;

/// The timestamp that stands for "none".
const NO_TIMESTAMP: i64 = -1;

/// Whose clock the timestamps of a batch are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    CreateTime,
    LogAppendTime,
}

impl fmt::Display for TimestampType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CreateTime => "CreateTime",
            Self::LogAppendTime => "LogAppendTime",
        })
    }
}

/// The fixed fields of a batch, as they stand in its bytes. Timestamps are milliseconds since the
/// Unix epoch, -1 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    pub base_offset: i64,
    /// Bytes after this field.
    pub batch_length: i32,
    pub leader_epoch: i32,
    pub magic: i8,
    pub crc: u32,
    pub attributes: i16,
    pub last_offset_delta: i32,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub record_count: i32,
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the slice has the length of the array")
}

impl BatchHeader {
    /// Reads the header at the front of `bytes`, which may go on after it.
    ///
    /// # Errors
    /// Fewer than 61 bytes, a magic other than 2, or a field that no batch can have.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        // The magic stands at the same place in every version, and old ones can be shorter.
        if let Some(&magic) = bytes.get(MAGIC_AT)
            && magic != 2
        {
            return Err(BatchError::UnsupportedMagic(magic as i8));
        }
        if bytes.len() < BATCH_HEADER_LENGTH {
            return Err(BatchError::Truncated { needed: BATCH_HEADER_LENGTH, available: bytes.len() });
        }
        let header = Self {
            base_offset: i64::from_be_bytes(array(bytes, 0)),
            batch_length: i32::from_be_bytes(array(bytes, 8)),
            leader_epoch: i32::from_be_bytes(array(bytes, LEADER_EPOCH_AT)),
            magic: bytes[MAGIC_AT] as i8,
            crc: u32::from_be_bytes(array(bytes, CRC_AT)),
            attributes: i16::from_be_bytes(array(bytes, ATTRIBUTES_AT)),
            last_offset_delta: i32::from_be_bytes(array(bytes, 23)),
            base_timestamp: i64::from_be_bytes(array(bytes, 27)),
            max_timestamp: i64::from_be_bytes(array(bytes, MAX_TIMESTAMP_AT)),
            producer_id: i64::from_be_bytes(array(bytes, 43)),
            producer_epoch: i16::from_be_bytes(array(bytes, 51)),
            base_sequence: i32::from_be_bytes(array(bytes, 53)),
            record_count: i32::from_be_bytes(array(bytes, RECORD_COUNT_AT)),
        };
        header.check()?;
        Ok(header)
    }

    fn check(&self) -> Result<(), BatchError> {
        if self.batch_length < MIN_BATCH_LENGTH {
            return Err(BatchError::LengthTooSmall { length: self.batch_length, min: MIN_BATCH_LENGTH });
        }
        let out_of_range = |field, value| Err(BatchError::FieldOutOfRange { field, value });
        if self.last_offset_delta < 0 {
            return out_of_range("last offset delta", i64::from(self.last_offset_delta));
        }
        if self.record_count < 0 {
            return out_of_range("record count", i64::from(self.record_count));
        }
        let room = i64::MAX - i64::from(self.last_offset_delta) - 1;
        if self.base_offset < 0 || self.base_offset > room {
            return out_of_range("base offset", self.base_offset);
        }
        Ok(())
    }

    /// The whole batch in bytes.
    pub fn size_bytes(&self) -> usize {
        LENGTH_PREFIX + self.batch_length as usize
    }

    /// The offset of the last record (inclusive).
    pub fn last_offset(&self) -> i64 {
        self.base_offset + i64::from(self.last_offset_delta)
    }

    /// The offset after the last record (exclusive).
    pub fn next_offset(&self) -> i64 {
        self.last_offset() + 1
    }

    /// # Errors
    /// A codec that is not known.
    pub fn compression(&self) -> Result<Compression, BatchError> {
        Compression::from_id((self.attributes & COMPRESSION_MASK) as u8)
    }

    pub fn timestamp_type(&self) -> TimestampType {
        if self.attributes & LOG_APPEND_TIME_BIT == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL_BIT != 0
    }

    /// Whether the batch holds transaction markers instead of records of users.
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL_BIT != 0
    }

    /// The sequence number of the last record; after `i32::MAX` comes 0. -1 without a producer.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return self.base_sequence;
        }
        let last = i64::from(self.base_sequence) + i64::from(self.last_offset_delta);
        (last % (i64::from(i32::MAX) + 1)) as i32
    }

    /// The time of a record that stands `delta` after the base; `None` for a record without one.
    fn timestamp(&self, delta: i64) -> Result<Option<i64>, &'static str> {
        let timestamp = match self.timestamp_type() {
            TimestampType::LogAppendTime => self.max_timestamp,
            TimestampType::CreateTime => {
                self.base_timestamp.checked_add(delta).ok_or("its timestamp overflows")?
            }
        };
        Ok((timestamp != NO_TIMESTAMP).then_some(timestamp))
    }
}

/// Splits bytes that hold whole batches, one after the other, without copying. Ends after the
/// first error.
pub fn split_batches(bytes: Bytes) -> impl Iterator<Item = Result<(BatchHeader, Bytes), BatchError>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let split = split_one(&mut rest);
        if split.is_err() {
            rest.clear();
        }
        Some(split)
    })
}

/// Splits whole batches before the first one that begins at or after an offset. What does not decode
/// stays with the front.
pub fn split_batches_at(bytes: Bytes, offset: i64) -> (Bytes, Bytes) {
    let mut front = 0;
    for batch in split_batches(bytes.clone()) {
        match batch {
            Ok((header, batch)) if header.base_offset < offset => front += batch.len(),
            Ok(_) => return (bytes.slice(..front), bytes.slice(front..)),
            Err(_) => break,
        }
    }
    (bytes, Bytes::new())
}

fn split_one(rest: &mut Bytes) -> Result<(BatchHeader, Bytes), BatchError> {
    let header = BatchHeader::parse(rest)?;
    let needed = header.size_bytes();
    if needed > rest.len() {
        return Err(BatchError::Truncated { needed, available: rest.len() });
    }
    Ok((header, rest.split_to(needed)))
}

/// The header of bytes that must be one whole batch and nothing else.
fn parse_single(batch: &[u8]) -> Result<BatchHeader, BatchError> {
    let header = BatchHeader::parse(batch)?;
    let needed = header.size_bytes();
    if needed > batch.len() {
        return Err(BatchError::Truncated { needed, available: batch.len() });
    }
    if needed < batch.len() {
        return Err(BatchError::TooManyBatches { trailing: batch.len() - needed });
    }
    Ok(header)
}

/// Checks the CRC-32C of one whole batch.
///
/// # Errors
/// Bytes that are not one whole batch, or a CRC that differs.
pub fn verify_crc(batch: &[u8]) -> Result<(), BatchError> {
    let header = parse_single(batch)?;
    let computed = crc32c::crc32c(&batch[ATTRIBUTES_AT..]);
    if header.crc != computed {
        return Err(BatchError::CrcMismatch { stored: header.crc, computed });
    }
    Ok(())
}

/// The CRC-32C of all bytes of a batch, of which `front` has the header, without reading those that its
/// own CRC covers.
pub(super) fn crc_of_whole(front: &[u8], header: &BatchHeader) -> u32 {
    let covered = header.size_bytes() - ATTRIBUTES_AT;
    crc32c::crc32c_combine(crc32c::crc32c(&front[..ATTRIBUTES_AT]), header.crc, covered)
}

/// Sets the base offset, which the CRC does not cover. `batch` is one whole batch.
pub fn set_base_offset(batch: &mut [u8], offset: i64) {
    batch[..8].copy_from_slice(&offset.to_be_bytes());
}

/// Sets the leader epoch, which the CRC does not cover. `batch` is one whole batch.
pub fn set_leader_epoch(batch: &mut [u8], epoch: i32) {
    batch[LEADER_EPOCH_AT..MAGIC_AT].copy_from_slice(&epoch.to_be_bytes());
}

/// Sets the greatest timestamp and computes the CRC again. `batch` is one whole batch.
pub fn set_max_timestamp(batch: &mut [u8], max_timestamp: i64) {
    batch[MAX_TIMESTAMP_AT..MAX_TIMESTAMP_AT + 8].copy_from_slice(&max_timestamp.to_be_bytes());
    set_crc(batch);
}

/// Makes `append_time` the time of every record, and computes the CRC again. `batch` is one whole
/// batch.
pub fn set_log_append_time(batch: &mut [u8], append_time: i64) {
    let attributes = i16::from_be_bytes(array(batch, ATTRIBUTES_AT)) | LOG_APPEND_TIME_BIT;
    batch[ATTRIBUTES_AT..ATTRIBUTES_AT + 2].copy_from_slice(&attributes.to_be_bytes());
    set_max_timestamp(batch, append_time);
}

fn set_crc(batch: &mut [u8]) {
    let crc = crc32c::crc32c(&batch[ATTRIBUTES_AT..]);
    batch[CRC_AT..ATTRIBUTES_AT].copy_from_slice(&crc.to_be_bytes());
}
