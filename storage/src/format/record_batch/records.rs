//! The records inside a batch: decoding of the body and iteration without an allocation per record.
//!
//! Invariant: keys and values are slices of one buffer, the batch's own bytes when it is not
//! compressed; null is never the same as empty; headers keep their order and repeats.

use std::ops::Range;

use bytes::Bytes;

use super::compression::{Compression, DecompressionBudget, decompress};
use super::error::BatchError;
use super::varint::{Problem, Reader};
use super::{BATCH_HEADER_LENGTH, BatchHeader, parse_single};

/// A record as it stands in the body, before base offset and base timestamp are added.
pub(super) struct RawRecord<'a> {
    pub(super) timestamp_delta: i64,
    pub(super) offset_delta: i32,
    pub(super) key: Option<&'a [u8]>,
    key_position: usize,
    pub(super) value: Option<&'a [u8]>,
    value_position: usize,
    headers: RecordHeaders<'a>,
}

/// Reads the record at the reader, and moves the reader behind it. The record must take exactly
/// the bytes that it names.
pub(super) fn parse_record<'a>(body: &'a [u8], reader: &mut Reader<'a>) -> Result<RawRecord<'a>, Problem> {
    let length = usize::try_from(reader.varint()?).map_err(|_| "its length is negative")?;
    let start = reader.position();
    reader.take(length)?;
    let mut fields = Reader::new(&body[..start + length], start);
    // The attributes of a record have no meaning so far.
    fields.byte()?;
    let timestamp_delta = fields.varlong()?;
    let offset_delta = fields.varint()?;
    let key = fields.nullable_bytes()?;
    let key_position = fields.position() - key.map_or(0, <[u8]>::len);
    let value = fields.nullable_bytes()?;
    let value_position = fields.position() - value.map_or(0, <[u8]>::len);
    let headers = parse_headers(&mut fields)?;
    Ok(RawRecord { timestamp_delta, offset_delta, key, key_position, value, value_position, headers })
}

/// Walks the headers to the end of the record, where they must end too.
fn parse_headers<'a>(fields: &mut Reader<'a>) -> Result<RecordHeaders<'a>, Problem> {
    let count = usize::try_from(fields.varint()?).map_err(|_| "its header count is negative")?;
    // The smallest header has two bytes: an empty key and a null value.
    if count > fields.remaining() / 2 {
        return Err("its header count does not fit its bytes");
    }
    let headers = RecordHeaders { reader: *fields, count };
    for _ in 0..count {
        parse_header(fields)?;
    }
    if !fields.is_empty() {
        return Err("bytes follow its headers");
    }
    Ok(headers)
}

fn parse_header<'a>(fields: &mut Reader<'a>) -> Result<(&'a [u8], Option<&'a [u8]>), Problem> {
    let key = fields.nullable_bytes()?.ok_or("a header key is null")?;
    Ok((key, fields.nullable_bytes()?))
}

/// The uncompressed body of a batch that is one whole batch.
pub(super) fn body_of(
    batch: &Bytes,
    header: &BatchHeader,
    budget: &mut DecompressionBudget,
) -> Result<Bytes, BatchError> {
    let body = batch.slice(BATCH_HEADER_LENGTH..);
    match header.compression()? {
        Compression::None => Ok(body),
        compression => decompress(compression, &body, budget).map(Bytes::from),
    }
}

/// The decoded body of one batch.
#[derive(Clone, Debug)]
pub struct Records {
    header: BatchHeader,
    buffer: Bytes,
}

impl Records {
    /// Decompresses the body of one whole batch; an uncompressed one is shared, not copied. The
    /// CRC is not checked: stored blocks have one of their own.
    ///
    /// # Errors
    /// Bytes that are not one whole batch, an unknown codec, data that does not decompress, or a
    /// spent budget.
    pub fn decode(batch: &Bytes, budget: &mut DecompressionBudget) -> Result<Self, BatchError> {
        let header = parse_single(batch)?;
        let buffer = body_of(batch, &header, budget)?;
        Ok(Self { header, buffer })
    }

    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The bytes that the ranges of the records point into.
    pub fn buffer(&self) -> &Bytes {
        &self.buffer
    }

    /// The records in offset order. Offsets may be missing (a cleaned batch). Ends after the first
    /// error; a body that holds fewer or more records than the header says is one.
    pub fn iter(&self) -> RecordIter<'_> {
        RecordIter {
            header: &self.header,
            body: &self.buffer,
            reader: Reader::new(&self.buffer, 0),
            index: 0,
            previous_delta: -1,
            done: false,
        }
    }
}

impl<'a> IntoIterator for &'a Records {
    type Item = Result<Record<'a>, BatchError>;
    type IntoIter = RecordIter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Iterates over the records of a batch.
#[derive(Clone, Debug)]
pub struct RecordIter<'a> {
    header: &'a BatchHeader,
    body: &'a [u8],
    reader: Reader<'a>,
    index: i32,
    previous_delta: i32,
    done: bool,
}

impl<'a> Iterator for RecordIter<'a> {
    type Item = Result<Record<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let step = self.step();
        self.done = !matches!(step, Ok(Some(_)));
        step.transpose()
    }
}

impl<'a> RecordIter<'a> {
    /// Where the next record begins in the buffer.
    pub(super) fn position(&self) -> usize {
        self.reader.position()
    }

    fn step(&mut self) -> Result<Option<Record<'a>>, BatchError> {
        let stated = self.header.record_count;
        if self.index == stated {
            return match self.reader.remaining() {
                0 => Ok(None),
                trailing => Err(BatchError::TrailingBytes { stated, trailing }),
            };
        }
        if self.reader.is_empty() {
            return Err(BatchError::TooFewRecords { stated, found: self.index });
        }
        let index = self.index;
        let raw = parse_record(self.body, &mut self.reader)
            .map_err(|what| BatchError::Malformed { index, what })?;
        if raw.offset_delta <= self.previous_delta || raw.offset_delta > self.header.last_offset_delta {
            return Err(BatchError::OffsetDelta { index, offset_delta: raw.offset_delta });
        }
        self.previous_delta = raw.offset_delta;
        self.index += 1;
        Record::new(self.header, &raw).map(Some).map_err(|what| BatchError::Malformed { index, what })
    }
}

/// One record. Its bytes are slices of [`Records::buffer`].
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    pub offset: i64,
    /// Milliseconds since the Unix epoch: of the record, or of the append when the batch says so.
    pub timestamp: Option<i64>,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: RecordHeaders<'a>,
    key_position: usize,
    value_position: usize,
}

impl<'a> Record<'a> {
    fn new(header: &BatchHeader, raw: &RawRecord<'a>) -> Result<Self, Problem> {
        Ok(Self {
            offset: header.base_offset + i64::from(raw.offset_delta),
            timestamp: header.timestamp(raw.timestamp_delta)?,
            key: raw.key,
            value: raw.value,
            headers: raw.headers,
            key_position: raw.key_position,
            value_position: raw.value_position,
        })
    }

    /// Where the key stands in [`Records::buffer`].
    pub fn key_range(&self) -> Option<Range<usize>> {
        self.key.map(|key| self.key_position..self.key_position + key.len())
    }

    /// Where the value stands in [`Records::buffer`].
    pub fn value_range(&self) -> Option<Range<usize>> {
        self.value.map(|value| self.value_position..self.value_position + value.len())
    }
}

/// The headers of a record, in order, repeated keys kept.
#[derive(Clone, Copy, Debug)]
pub struct RecordHeaders<'a> {
    reader: Reader<'a>,
    count: usize,
}

impl<'a> RecordHeaders<'a> {
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn iter(&self) -> RecordHeaderIter<'a> {
        RecordHeaderIter { reader: self.reader, remaining: self.count }
    }
}

impl<'a> IntoIterator for RecordHeaders<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);
    type IntoIter = RecordHeaderIter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Iterates over the headers of a record: the key, and the value, which may be null.
#[derive(Clone, Debug)]
pub struct RecordHeaderIter<'a> {
    reader: Reader<'a>,
    remaining: usize,
}

impl<'a> Iterator for RecordHeaderIter<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        self.remaining = self.remaining.checked_sub(1)?;
        Some(parse_header(&mut self.reader).expect("the headers were walked when the record was parsed"))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }
}

impl ExactSizeIterator for RecordHeaderIter<'_> {}
