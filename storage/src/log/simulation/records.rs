//! The records of the simulation. A record is told apart by an id that is used once, and everything
//! about it follows from the id.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::format::{
    BatchBuilder, BatchHeader, BatchKind, BatchOptions, Compression, DecompressionBudget, ProducerIdentity,
    Records, split_batches,
};
use crate::log::Fetched;

/// Of the one idempotent producer.
const PRODUCER_ID: i64 = 1_000_000;
/// Of the one transactional producer.
pub(super) const TRANSFER_PRODUCER_ID: i64 = 2_000_000;

/// Set in what stands for a marker, whose time is the rest.
const MARKER: u64 = 1 << 63;
/// The type in the key of a marker that commits.
const COMMIT: [u8; 2] = [0, 1];

/// Where simulated time begins.
const T: i64 = 1_767_225_600_000;

/// Records with larger values let blocks end.
const LARGE_EVERY: u64 = 50;
const LARGE_BYTES: usize = 9000;

/// Times are in no order; some records have none, and many share one.
pub(super) fn timestamp_of(id: u64) -> Option<i64> {
    if is_marker(id) {
        return i64::try_from(id & !MARKER).ok();
    }
    let mixed = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    (!mixed.is_multiple_of(8)).then(|| T - 500 + i64::try_from(mixed % 1000).unwrap_or(0))
}

/// Whether it stands for a marker, which has no id.
pub(super) fn is_marker(id: u64) -> bool {
    id & MARKER != 0
}

/// Where cleaning keeps the newest record of each key.
pub(super) fn key_of(id: u64) -> u64 {
    id % 5
}

/// A time to look up.
pub(super) fn target_of(draw: u32) -> i64 {
    T - 510 + i64::from(draw % 1030)
}

/// What kind of batch it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum BatchOrder {
    Plain,
    /// Each record has its key.
    Keyed,
    /// Of the idempotent producer, from this sequence on.
    Idempotent(i32),
    Transaction(ProducerIdentity),
}

/// A batch whose values are ids.
pub(super) fn batch(ids: &[u64], order: BatchOrder) -> Bytes {
    let producer = match order {
        BatchOrder::Plain | BatchOrder::Keyed => None,
        BatchOrder::Idempotent(base_sequence) => {
            Some(ProducerIdentity { producer_id: PRODUCER_ID, producer_epoch: 0, base_sequence })
        }
        BatchOrder::Transaction(producer) => Some(producer),
    };
    let kind = match order {
        BatchOrder::Transaction(_) => BatchKind::Transactional,
        _ => BatchKind::Plain,
    };
    let is_compressed = ids.first().is_some_and(|id| id % 7 == 0);
    let compression = if is_compressed { Compression::Snappy } else { Compression::None };
    let mut builder = BatchBuilder::new(BatchOptions { producer, compression, kind });
    for id in ids {
        let mut value = vec![7; if id % LARGE_EVERY == 0 { LARGE_BYTES } else { 8 }];
        value[..8].copy_from_slice(&id.to_be_bytes());
        let key = key_of(*id).to_be_bytes();
        let key = matches!(order, BatchOrder::Keyed).then_some(&key[..]);
        builder.append(timestamp_of(*id), key, Some(&value), &[]).expect("a small batch");
    }
    builder.finish()
}

/// Offsets and ids of a batch that was read back.
pub(super) fn ids_of(batch: &Bytes) -> Vec<(i64, u64)> {
    let (header, batch) = split(batch);
    let records = Records::decode(&batch, &mut DecompressionBudget::new(1 << 20)).expect("an own batch");
    let read = records.iter().map(|record| {
        let record = record.expect("an own record");
        if header.is_control() {
            let timestamp = record.timestamp.and_then(|timestamp| u64::try_from(timestamp).ok());
            return (record.offset, MARKER | timestamp.expect("a marker has the time of its commit"));
        }
        let value = record.value.expect("values are not null");
        let id = u64::from_be_bytes(value[..8].try_into().expect("values begin with ids"));
        assert_eq!(record.timestamp, timestamp_of(id), "a record keeps its time");
        (record.offset, id)
    });
    read.collect()
}

fn split(batch: &Bytes) -> (BatchHeader, Bytes) {
    split_batches(batch.clone()).next().expect("one batch").expect("a whole batch")
}

/// Ids of what a committed reader takes out of what it has fetched, as Kafka's consumers do.
pub(super) fn committed_ids(fetched: &Fetched) -> Vec<u64> {
    let mut aborted = fetched.aborted.iter().peekable();
    let mut aborting = BTreeSet::new();
    let mut ids = Vec::new();
    for batch in &fetched.batches {
        let (header, bytes) = split(batch);
        let last_offset = header.base_offset + i64::from(header.last_offset_delta);
        while let Some(transaction) = aborted.next_if(|transaction| transaction.first_offset <= last_offset) {
            aborting.insert(transaction.producer_id);
        }
        if header.is_control() {
            if !is_commit(&bytes) {
                aborting.remove(&header.producer_id);
            }
        } else if !(header.is_transactional() && aborting.contains(&header.producer_id)) {
            ids.extend(ids_of(batch).into_iter().map(|(_, id)| id));
        }
    }
    ids
}

fn is_commit(marker: &Bytes) -> bool {
    let records = Records::decode(marker, &mut DecompressionBudget::new(1 << 20)).expect("an own batch");
    let marker = records.iter().next().expect("one marker").expect("an own record");
    marker.key.is_some_and(|key| key[2..] == COMMIT)
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
