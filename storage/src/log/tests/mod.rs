//! Tests of the log as a whole, over the memory store. What depends on where a block is read from
//! runs in memory, and again after a restart without a tail.

mod access;
mod append;
mod damage;
mod failures;
mod golden;
mod groups;
mod lookup;
mod owners;
mod properties;
mod relocate;
mod shards;
mod topics;
mod transactional_ids;
mod transactions;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::{
    AppendError, Appended, ConfigChanges, ConfigOperation, CreateTopic, FetchOptions, Fetched, FirstBatch,
    Isolation, Log, LogSettings, PartitionAppend, PartitionView, TopicError,
};
use crate::format::{
    BatchBuilder, BatchOptions, Compression, DecompressionBudget, ProducerIdentity, Records,
};
use crate::ids::{TopicId, TopicPartition};
use crate::object::{CountingStore, LogStore, ObjectStoreBackend};
use crate::seam::Seams;

/// What timestamps in the tests count from; it is in the past of the system's clock.
const T: i64 = 1_700_000_000_000;

fn memory() -> Arc<CountingStore> {
    Arc::new(CountingStore::new(Arc::new(ObjectStoreBackend::memory())))
}

async fn open(store: &Arc<CountingStore>) -> Log {
    open_with(store, LogSettings::default()).await
}

async fn open_with(store: &Arc<CountingStore>, settings: LogSettings) -> Log {
    let store: Arc<dyn LogStore> = store.clone();
    Log::open(store, settings, Seams::system()).await.expect("the log opens")
}

/// Opens the store again with nothing in memory.
async fn reopen(store: &Arc<CountingStore>, log: Log) -> Log {
    log.close().await;
    open_with(store, LogSettings { tail_bytes_max: 0, ..LogSettings::default() }).await
}

pub(super) async fn create(
    log: &Log,
    name: &str,
    partitions: i32,
    configs: &[(&str, &str)],
) -> TopicPartition {
    let configs: BTreeMap<_, _> =
        configs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let topic = log.create_topic(CreateTopic { name: name.to_owned(), partitions, configs }).await;
    TopicPartition::new(topic.expect("the topic is created").id, 0)
}

/// Sets a config of a topic, or resets it to its default.
pub(super) async fn set_config(
    log: &Log,
    id: TopicId,
    key: &str,
    value: Option<&str>,
) -> Result<(), TopicError> {
    let operation = value.map_or(ConfigOperation::Reset, |value| ConfigOperation::Set(value.to_owned()));
    log.alter_topic_config(id, ConfigChanges::Each(vec![(key.to_owned(), operation)])).await
}

/// A batch with one record per timestamp, whose value is its number.
fn batch_with(options: BatchOptions, timestamps: &[Option<i64>]) -> Bytes {
    let mut builder = BatchBuilder::new(options);
    for (number, timestamp) in timestamps.iter().enumerate() {
        let value = format!("value {number}");
        builder.append(*timestamp, Some(b"key"), Some(value.as_bytes()), &[]).expect("a small record");
    }
    builder.finish()
}

fn batch(timestamps: &[i64]) -> Bytes {
    compressed(Compression::None, timestamps)
}

fn compressed(compression: Compression, timestamps: &[i64]) -> Bytes {
    let timestamps: Vec<_> = timestamps.iter().copied().map(Some).collect();
    batch_with(BatchOptions { compression, ..BatchOptions::default() }, &timestamps)
}

fn idempotent(producer_epoch: i16, base_sequence: i32, count: usize) -> Bytes {
    let producer = Some(ProducerIdentity { producer_id: 7, producer_epoch, base_sequence });
    batch_with(BatchOptions { producer, ..BatchOptions::default() }, &vec![Some(T); count])
}

async fn append(log: &Log, topic_partition: TopicPartition, batch: Bytes) -> Result<Appended, AppendError> {
    log.append(vec![PartitionAppend { topic_partition, batch }]).await.remove(0)
}

fn view(log: &Log, topic_partition: TopicPartition) -> PartitionView {
    log.snapshot().partition(topic_partition).expect("the partition exists")
}

fn from(from: i64, bytes_max: usize) -> FetchOptions {
    FetchOptions { from, bytes_max, isolation: Isolation::ReadUncommitted, first_batch: FirstBatch::Whole }
}

async fn fetch(log: &Log, topic_partition: TopicPartition, offset: i64) -> Fetched {
    view(log, topic_partition).fetch(from(offset, usize::MAX)).await.expect("the fetch succeeds")
}

/// Offset and timestamp of each record.
fn records(fetched: &Fetched) -> Vec<(i64, Option<i64>)> {
    let mut records = Vec::new();
    for batch in &fetched.batches {
        let decoded = Records::decode(batch, &mut DecompressionBudget::new(1 << 20)).expect("a stored batch");
        records
            .extend(decoded.iter().map(|record| record.map(|r| (r.offset, r.timestamp)).expect("a record")));
    }
    records
}
