//! Builds record batches: for transaction markers, for clients in this workspace, and for tests.
//!
//! Invariant: a batch that was built passes [`inspect`](super::inspect), and its offsets are
//! 0..n-1 from base offset 0.

use bytes::Bytes;

use super::compression::{Compression, compress};
use super::error::BatchError;
use super::varint::{put_varint, put_varlong, varint_length};
use super::{
    BATCH_HEADER_LENGTH, CONTROL_BIT, LENGTH_PREFIX, MAX_BODY_LENGTH, NO_TIMESTAMP, TRANSACTIONAL_BIT,
    set_crc,
};

/// What the records of a batch are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchKind {
    /// Records of users outside a transaction.
    #[default]
    Plain,
    /// Records of users in a transaction.
    Transactional,
    /// The marker that ends a transaction.
    Control,
}

/// Who wrote a batch, for idempotence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerIdentity {
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
}

/// How to build a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchOptions {
    pub compression: Compression,
    pub producer: Option<ProducerIdentity>,
    pub kind: BatchKind,
}

/// Collects records into one batch.
#[derive(Debug)]
pub struct BatchBuilder {
    options: BatchOptions,
    body: Vec<u8>,
    record_count: i32,
    base_timestamp: i64,
    max_timestamp: Option<i64>,
}

/// A header key and its value, which may be null.
pub type HeaderRef<'a> = (&'a [u8], Option<&'a [u8]>);

impl BatchBuilder {
    pub fn new(options: BatchOptions) -> Self {
        Self { options, body: Vec::new(), record_count: 0, base_timestamp: NO_TIMESTAMP, max_timestamp: None }
    }

    /// Adds a record with the next offset. `timestamp` is in milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// A batch that would hold more than 1 GiB of records, or a timestamp too far from the first
    /// one; the record is not added.
    pub fn append(
        &mut self,
        timestamp: Option<i64>,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[HeaderRef<'_>],
    ) -> Result<(), BatchError> {
        let stored = timestamp.unwrap_or(NO_TIMESTAMP);
        let base_timestamp = if self.is_empty() { stored } else { self.base_timestamp };
        let timestamp_delta = stored
            .checked_sub(base_timestamp)
            .ok_or(BatchError::FieldOutOfRange { field: "timestamp", value: stored })?;
        let length = record_length(timestamp_delta, self.record_count, [key, value], headers);
        // The record's own length prefix takes at most 5 bytes.
        if self.body.len() + length + 5 > MAX_BODY_LENGTH {
            return Err(BatchError::BuilderFull { max: MAX_BODY_LENGTH });
        }
        self.base_timestamp = base_timestamp;
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.body.reserve(length + 5);
        put_length(&mut self.body, length);
        self.body.push(0);
        put_varlong(&mut self.body, timestamp_delta);
        put_varint(&mut self.body, self.record_count);
        put_nullable(&mut self.body, key);
        put_nullable(&mut self.body, value);
        put_length(&mut self.body, headers.len());
        for (header_key, header_value) in headers {
            put_nullable(&mut self.body, Some(header_key));
            put_nullable(&mut self.body, *header_value);
        }
        self.record_count += 1;
        Ok(())
    }

    /// The records so far.
    pub fn len(&self) -> usize {
        self.record_count as usize
    }

    pub fn is_empty(&self) -> bool {
        self.record_count == 0
    }

    /// The size of the batch in bytes if it were not compressed.
    pub fn size_estimate(&self) -> usize {
        BATCH_HEADER_LENGTH + self.body.len()
    }

    /// The batch, with base offset 0 and no leader epoch.
    ///
    /// # Panics
    /// When no record was appended: a batch without records is none.
    pub fn finish(self) -> Bytes {
        assert!(!self.is_empty(), "a batch has at least one record");
        let compression = self.options.compression;
        let producer = self.options.producer.unwrap_or(ProducerIdentity {
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
        });
        let body = compress(compression, self.body);
        let size = BATCH_HEADER_LENGTH + body.len();
        let length = i32::try_from(size - LENGTH_PREFIX).expect("the body is bounded");
        let mut batch = Vec::with_capacity(size);
        batch.extend_from_slice(&0_i64.to_be_bytes());
        batch.extend_from_slice(&length.to_be_bytes());
        batch.extend_from_slice(&(-1_i32).to_be_bytes());
        batch.push(2);
        batch.extend_from_slice(&[0; 4]);
        batch.extend_from_slice(&attributes(self.options).to_be_bytes());
        batch.extend_from_slice(&(self.record_count - 1).to_be_bytes());
        batch.extend_from_slice(&self.base_timestamp.to_be_bytes());
        batch.extend_from_slice(&self.max_timestamp.unwrap_or(NO_TIMESTAMP).to_be_bytes());
        batch.extend_from_slice(&producer.producer_id.to_be_bytes());
        batch.extend_from_slice(&producer.producer_epoch.to_be_bytes());
        batch.extend_from_slice(&producer.base_sequence.to_be_bytes());
        batch.extend_from_slice(&self.record_count.to_be_bytes());
        batch.extend_from_slice(&body);
        set_crc(&mut batch);
        batch.into()
    }
}

fn attributes(options: BatchOptions) -> i16 {
    let kind = match options.kind {
        BatchKind::Plain => 0,
        BatchKind::Transactional => TRANSACTIONAL_BIT,
        BatchKind::Control => TRANSACTIONAL_BIT | CONTROL_BIT,
    };
    i16::from(options.compression.id()) | kind
}

/// The bytes of a record after its length prefix. The sum saturates, so that it can be compared
/// with the bound.
fn record_length(
    timestamp_delta: i64,
    offset_delta: i32,
    fields: [Option<&[u8]>; 2],
    headers: &[HeaderRef<'_>],
) -> usize {
    let fixed = 1 + varint_length(timestamp_delta) + varint_length(i64::from(offset_delta));
    let fields = fields.into_iter().map(nullable_length);
    let headers_count = varint_length(headers.len() as i64);
    let headers = headers.iter().map(|(key, value)| nullable_length(Some(key)) + nullable_length(*value));
    fields.chain(headers).fold(fixed + headers_count, usize::saturating_add)
}

fn nullable_length(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |bytes| varint_length(bytes.len() as i64) + bytes.len())
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    put_varint(out, i32::try_from(length).expect("the record fits the bound of the body"));
}

fn put_nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => put_varint(out, -1),
        Some(bytes) => {
            put_length(out, bytes.len());
            out.extend_from_slice(bytes);
        }
    }
}
