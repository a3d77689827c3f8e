//! A log on a store in memory with one topic, registered as table `t`: read from the tail in memory,
//! from WAL objects, or from segments.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{Int32Type, Int64Type, TimestampMillisecondType};
use datafusion::common::{DataFusionError, Result};
use datafusion::physical_plan::displayable;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::format::{BatchBuilder, BatchOptions, Compression};
use crate::ids::TopicPartition;
use crate::log::{CreateTopic, Log, LogSettings, PartitionAppend, Snapshot, Topic};
use crate::object::{LogStore, ObjectStoreBackend};
use crate::seam::Seams;
use crate::table::{
    ColumnFormat, PayloadDecoder, ScanCounter, ScanCounters, TableSnapshot, TopicTable, TopicTableOptions,
};

/// Where test timestamps begin.
pub(super) const T: i64 = 1_700_000_000_000;

pub(super) struct Fixture {
    pub(super) log: Log,
    /// What is queried; `None` for the state of now.
    pub(super) snapshot: Option<Snapshot>,
    pub(super) store: Arc<dyn LogStore>,
    pub(super) topic: Arc<Topic>,
    pub(super) counters: Arc<ScanCounters>,
    pub(super) target_partitions: usize,
    pub(super) key_format: ColumnFormat,
    pub(super) decoder: Option<Arc<dyn PayloadDecoder>>,
}

/// A record to append, and what a table shows of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TestRecord {
    pub(super) timestamp: Option<i64>,
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
}

pub(super) fn record(timestamp: i64, key: &str, value: &str) -> TestRecord {
    TestRecord { timestamp: Some(timestamp), key: Some(key.into()), value: Some(value.into()) }
}

impl Fixture {
    pub(super) async fn new(partitions: i32) -> Self {
        Self::with_configs(partitions, &[]).await
    }

    pub(super) async fn with_configs(partitions: i32, configs: &[(&str, &str)]) -> Self {
        Self::with_settings(partitions, configs, LogSettings::default()).await
    }

    pub(super) async fn with_settings(
        partitions: i32,
        configs: &[(&str, &str)],
        settings: LogSettings,
    ) -> Self {
        let store: Arc<dyn LogStore> = Arc::new(ObjectStoreBackend::memory());
        let log = Log::open(store.clone(), settings, Seams::simulated(1)).await.unwrap();
        let configs: BTreeMap<_, _> =
            configs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let topic =
            log.create_topic(CreateTopic { name: "t".to_owned(), partitions, configs }).await.unwrap();
        Self {
            log,
            snapshot: None,
            store,
            topic,
            counters: Arc::default(),
            target_partitions: 2,
            key_format: ColumnFormat::Text,
            decoder: None,
        }
    }

    /// The same data three times: in memory, read back from WAL objects, and from segments after a
    /// compaction. Each is read as it was, whatever became of the log.
    pub(super) async fn three_ways(&self) -> [Self; 3] {
        let in_memory = Self { snapshot: Some(self.log.snapshot()), ..self.over(self.log.clone()) };
        let from_wal = self.read_back().await;
        self.compact().await;
        [in_memory, from_wal, self.read_back().await]
    }

    pub(super) async fn compact(&self) {
        self.log.compact_now().await.unwrap();
    }

    /// The same data, read back from the store by a process that keeps none of it in memory.
    pub(super) async fn read_back(&self) -> Self {
        let settings = LogSettings { tail_bytes_max: 0, cache_bytes_max: 0, ..LogSettings::default() };
        let log = Log::open_read_only(self.store.clone(), settings, Seams::simulated(2)).await.unwrap();
        self.over(log)
    }

    /// A new writer over the same store, which keeps nothing in memory.
    pub(super) async fn reopen(&self) -> Self {
        let settings = LogSettings { tail_bytes_max: 0, cache_bytes_max: 0, ..LogSettings::default() };
        self.reopen_with(settings).await
    }

    pub(super) async fn reopen_with(&self, settings: LogSettings) -> Self {
        self.over(Log::open(self.store.clone(), settings, Seams::simulated(3)).await.unwrap())
    }

    fn over(&self, log: Log) -> Self {
        Self {
            log,
            snapshot: None,
            store: self.store.clone(),
            topic: self.topic.clone(),
            counters: Arc::default(),
            target_partitions: self.target_partitions,
            key_format: self.key_format,
            decoder: self.decoder.clone(),
        }
    }

    /// Appends one batch, which becomes one block.
    pub(super) async fn append(&self, partition: i32, compression: Compression, records: &[TestRecord]) {
        let mut batch = BatchBuilder::new(BatchOptions { compression, ..BatchOptions::default() });
        for record in records {
            batch.append(record.timestamp, record.key.as_deref(), record.value.as_deref(), &[]).unwrap();
        }
        self.append_batch(partition, batch.finish()).await;
    }

    pub(super) async fn append_with_headers(&self, partition: i32, headers: &[(&[u8], Option<&[u8]>)]) {
        let mut batch = BatchBuilder::new(BatchOptions::default());
        batch.append(Some(T), None, Some(b"v"), headers).unwrap();
        self.append_batch(partition, batch.finish()).await;
    }

    /// Moves the log start to an offset, or to the end if that comes before it.
    pub(super) async fn delete_records(&self, partition: i32, before: i64) {
        let topic_partition = TopicPartition::new(self.topic.id, partition);
        let end = self.log.snapshot().partition(topic_partition).unwrap().bounds().high_watermark;
        let deleted = self.log.delete_records(vec![(topic_partition, before.min(end))]).await.unwrap();
        assert!(deleted.iter().all(Result::is_ok), "offsets up to the end can be deleted");
    }

    async fn append_batch(&self, partition: i32, batch: Bytes) {
        let topic_partition = TopicPartition::new(self.topic.id, partition);
        for appended in self.log.append(vec![PartitionAppend { topic_partition, batch }]).await {
            appended.unwrap();
        }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        self.snapshot.clone().unwrap_or_else(|| self.log.snapshot())
    }

    pub(super) fn session(&self) -> SessionContext {
        let mut config = SessionConfig::new()
            .with_target_partitions(self.target_partitions)
            .with_extension(Arc::new(TableSnapshot(self.snapshot())))
            .with_extension(self.counters.clone());
        config.options_mut().execution.sort_pushdown_buffer_capacity = 1024 * 1024;
        let context = SessionContext::new_with_config(config);
        context.register_table("t", self.table()).unwrap();
        context
    }

    pub(super) fn table(&self) -> Arc<TopicTable> {
        Arc::new(TopicTable::new(TopicTableOptions {
            topic: self.topic.clone(),
            key_format: self.key_format,
            value_format: ColumnFormat::Text,
            decoder: self.decoder.clone(),
        }))
    }

    pub(super) async fn try_query(&self, sql: &str) -> Result<Vec<RecordBatch>, DataFusionError> {
        self.session().sql(sql).await?.collect().await
    }

    pub(super) async fn query(&self, sql: &str) -> Vec<RecordBatch> {
        self.try_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The only value of the answer, an integer; `None` for null.
    pub(super) async fn integer(&self, sql: &str) -> Option<i64> {
        let rows = integers(&self.query(sql).await, 0);
        assert_eq!(rows.len(), 1, "{sql}");
        rows[0]
    }

    pub(super) async fn plan(&self, sql: &str) -> String {
        let plan = self.session().sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        displayable(plan.as_ref()).indent(false).to_string()
    }

    /// What the counters were raised by while `sql` ran.
    pub(super) async fn work(&self, sql: &str) -> Work {
        let before = ScanCounter::ALL.map(|counter| self.counters.get(counter));
        self.query(sql).await;
        let after = ScanCounter::ALL.map(|counter| self.counters.get(counter));
        Work(std::array::from_fn(|index| after[index] - before[index]))
    }
}

pub(super) struct Work([u64; ScanCounter::ALL.len()]);

impl Work {
    pub(super) fn of(&self, counter: ScanCounter) -> u64 {
        self.0[counter as usize]
    }
}

/// A column of integers or of timestamps.
pub(super) fn integers(batches: &[RecordBatch], column: usize) -> Vec<Option<i64>> {
    let values = |batch: &RecordBatch| -> Vec<Option<i64>> {
        let column = batch.column(column);
        if let Some(values) = column.as_primitive_opt::<Int64Type>() {
            return values.iter().collect();
        }
        if let Some(values) = column.as_primitive_opt::<Int32Type>() {
            return values.iter().map(|value| value.map(i64::from)).collect();
        }
        column.as_primitive::<TimestampMillisecondType>().iter().collect()
    };
    batches.iter().flat_map(values).collect()
}

/// A column of text.
pub(super) fn texts(batches: &[RecordBatch], column: usize) -> Vec<Option<String>> {
    let values = |batch: &RecordBatch| -> Vec<Option<String>> {
        let column = batch.column(column);
        match column.as_string_view_opt() {
            Some(values) => values.iter().map(|value| value.map(str::to_owned)).collect(),
            None => column.as_string::<i32>().iter().map(|value| value.map(str::to_owned)).collect(),
        }
    };
    batches.iter().flat_map(values).collect()
}

/// A column of bytes.
pub(super) fn bytes(batches: &[RecordBatch], column: usize) -> Vec<Option<Vec<u8>>> {
    let values = |batch: &RecordBatch| -> Vec<Option<Vec<u8>>> {
        batch.column(column).as_binary_view().iter().map(|value| value.map(<[u8]>::to_vec)).collect()
    };
    batches.iter().flat_map(values).collect()
}

pub(super) fn row_count(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}
