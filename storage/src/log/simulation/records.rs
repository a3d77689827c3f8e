//! The records of the simulation. A record is told apart by an id that is used once, and everything
//! about it follows from the id.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::format::{
    BatchBuilder, BatchOptions, Compression, DecompressionBudget, ProducerIdentity, Records, split_batches,
};

/// Of the one idempotent producer.
pub(super) const PRODUCER_ID: i64 = 1_000_000;

/// Where simulated time begins.
const T: i64 = 1_767_225_600_000;

/// Records with larger values let blocks end.
const LARGE_EVERY: u64 = 50;
const LARGE_BYTES: usize = 9000;

/// Times are in no order; some records have none, and many share one.
pub(super) fn timestamp_of(id: u64) -> Option<i64> {
    let mixed = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    (!mixed.is_multiple_of(8)).then(|| T - 500 + i64::try_from(mixed % 1000).unwrap_or(0))
}

/// A time to look up.
pub(super) fn target_of(draw: u32) -> i64 {
    T - 510 + i64::from(draw % 1030)
}

/// A batch whose values are ids.
pub(super) fn batch(ids: &[u64], base_sequence: Option<i32>) -> Bytes {
    let producer = base_sequence.map(|base_sequence| ProducerIdentity {
        producer_id: PRODUCER_ID,
        producer_epoch: 0,
        base_sequence,
    });
    let is_compressed = ids.first().is_some_and(|id| id % 7 == 0);
    let compression = if is_compressed { Compression::Snappy } else { Compression::None };
    let mut builder = BatchBuilder::new(BatchOptions { producer, compression, ..BatchOptions::default() });
    for id in ids {
        let mut value = vec![7; if id % LARGE_EVERY == 0 { LARGE_BYTES } else { 8 }];
        value[..8].copy_from_slice(&id.to_be_bytes());
        builder.append(timestamp_of(*id), None, Some(&value), &[]).expect("a small batch");
    }
    builder.finish()
}

/// Offsets and ids of a batch that was read back.
pub(super) fn ids_of(batch: &Bytes) -> Vec<(i64, u64)> {
    let (_, batch) = split_batches(batch.clone()).next().expect("one batch").expect("a whole batch");
    let records = Records::decode(&batch, &mut DecompressionBudget::new(1 << 20)).expect("an own batch");
    let read = records.iter().map(|record| {
        let record = record.expect("an own record");
        let value = record.value.expect("values are not null");
        let id = u64::from_be_bytes(value[..8].try_into().expect("values begin with ids"));
        assert_eq!(record.timestamp, timestamp_of(id), "a record keeps its time");
        (record.offset, id)
    });
    read.collect()
}

/// What a plain search finds: the first record at or after a time.
pub(super) fn first_at_or_after(records: &BTreeMap<i64, u64>, target_ms: i64) -> Option<i64> {
    let is_found = |id: &u64| timestamp_of(*id).is_some_and(|timestamp| timestamp >= target_ms);
    records.iter().find(|(_, id)| is_found(id)).map(|(offset, _)| *offset)
}

/// What a plain search finds: the first record of those with the greatest time.
pub(super) fn greatest(records: &BTreeMap<i64, u64>) -> Option<i64> {
    let greatest = records.values().filter_map(|id| timestamp_of(*id)).max()?;
    first_at_or_after(records, greatest)
}
