//! Record batches to write, made ahead of the measurement.

use anyhow::Result;
use bytes::Bytes;
use strandline_storage::format::{BatchBuilder, BatchOptions};
use strandline_storage::seam::{Rng, SeededRng};

/// 2024-01-01T00:00:00Z: the past, which a topic takes without limit.
pub const FIRST_TIMESTAMP: i64 = 1_704_067_200_000;

/// Below Kafka's default of `max.message.bytes`.
pub const BATCH_BYTES_DEFAULT: usize = 1024 * 1024;

/// More than a record costs beside its value.
const RECORD_OVERHEAD_MAX: usize = 32;

/// What a batch is to look like.
#[derive(Clone, Copy, Debug)]
pub struct BatchShape {
    pub record_bytes: usize,
    /// The batch gets as many records as fit, and at least one.
    pub batch_bytes_max: usize,
}

/// A batch without compression, of random values. All records have the same timestamp.
pub fn batch(shape: BatchShape) -> Result<Bytes> {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    let rng = SeededRng::new(1);
    let mut value = vec![0; shape.record_bytes];
    let record_bytes_max = shape.record_bytes + RECORD_OVERHEAD_MAX;
    while builder.is_empty() || builder.size_estimate() + record_bytes_max <= shape.batch_bytes_max {
        rng.fill(&mut value);
        builder.append(Some(FIRST_TIMESTAMP), None, Some(&value), &[])?;
    }
    Ok(builder.finish())
}

/// A batch whose record at offset `n` of the partition has timestamp `FIRST_TIMESTAMP + n`.
pub fn timed_batch(base_offset: i64, records: i64, value: &[u8]) -> Result<Bytes> {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    for offset in base_offset..base_offset + records {
        builder.append(Some(FIRST_TIMESTAMP + offset), None, Some(value), &[])?;
    }
    Ok(builder.finish())
}
