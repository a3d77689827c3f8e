//! An engine over a log in memory, and what tests ask of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::scalar::ScalarValue;
use futures::TryStreamExt;
use strandline_engine::{
    Engine, EngineError, EngineSettings, Execution, Inference, Notice, OutputColumn, Permissions, Session,
    SessionOptions,
};
use strandline_storage::format::{BatchBuilder, BatchOptions};
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::{CreateTopic, Log, LogSettings, PartitionAppend};
use strandline_storage::object::{LogStore, ObjectStoreBackend};
use strandline_storage::seam::Seams;

/// Where test timestamps begin: 2023-11-14 22:13:20 UTC.
pub const T: i64 = 1_700_000_000_000;

pub struct Fixture {
    pub store: Arc<dyn LogStore>,
    pub log: Log,
    pub engine: Arc<Engine>,
}

/// Rows as text; `None` is NULL.
pub type Rows = Vec<Vec<Option<String>>>;

/// What a statement gave.
#[derive(Debug)]
pub struct Answer {
    pub columns: Vec<OutputColumn>,
    pub rows: Rows,
    pub notices: Vec<Notice>,
}

impl Fixture {
    pub async fn new() -> Self {
        Self::with_settings(EngineSettings::default()).await
    }

    pub async fn with_settings(settings: EngineSettings) -> Self {
        let store: Arc<dyn LogStore> = Arc::new(ObjectStoreBackend::memory());
        let log = Log::open(store.clone(), LogSettings::default(), Seams::system()).await.unwrap();
        let engine = Engine::start(log.clone(), settings);
        Self { store, log, engine }
    }

    /// Ends this process' work and opens the log again, with nothing kept in memory.
    pub async fn restart(self) -> Self {
        self.engine.close().await;
        self.log.close().await;
        let settings = LogSettings { tail_bytes_max: 0, cache_bytes_max: 0, ..LogSettings::default() };
        let log = Log::open(self.store.clone(), settings, Seams::system()).await.unwrap();
        let engine = Engine::start(log.clone(), EngineSettings::default());
        Self { store: self.store, log, engine }
    }

    /// Another process that may only read.
    pub async fn reader(&self) -> Self {
        let log = Log::open_read_only(self.store.clone(), LogSettings::default(), Seams::system());
        let log = log.await.unwrap();
        let settings = EngineSettings { inference: Inference::Provisional, ..EngineSettings::default() };
        let engine = Engine::start(log.clone(), settings);
        Self { store: self.store.clone(), log, engine }
    }

    pub async fn create(&self, topic: &str) {
        self.create_with(topic, 1, &[]).await;
    }

    pub async fn create_with(&self, topic: &str, partitions: i32, configs: &[(&str, &str)]) {
        let configs: BTreeMap<_, _> =
            configs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        self.log.create_topic(CreateTopic { name: topic.to_owned(), partitions, configs }).await.unwrap();
    }

    /// Appends one batch; record i has timestamp T + i seconds and no key.
    pub async fn append<V: AsRef<[u8]>>(&self, topic: &str, values: impl IntoIterator<Item = V>) {
        let mut batch = BatchBuilder::new(BatchOptions::default());
        for (second, value) in (0..).zip(values) {
            batch.append(Some(T + second * 1_000), None, Some(value.as_ref()), &[]).unwrap();
        }
        self.append_batch(topic, 0, batch.finish()).await;
    }

    pub async fn append_batch(&self, topic: &str, partition: i32, batch: Bytes) {
        let topic_id = self.log.snapshot().topic(topic).unwrap().id;
        let topic_partition = TopicPartition::new(topic_id, partition);
        for appended in self.log.append(vec![PartitionAppend { topic_partition, batch }]).await {
            appended.unwrap();
        }
    }

    /// A topic of one partition with these values.
    pub async fn topic<V: AsRef<[u8]>>(&self, topic: &str, values: impl IntoIterator<Item = V>) {
        self.create(topic).await;
        self.append(topic, values).await;
    }

    pub fn session(&self) -> Session {
        self.session_with(&[])
    }

    pub fn session_with(&self, settings: &[(&str, &str)]) -> Session {
        self.engine.session(options(settings)).unwrap()
    }

    pub async fn query(&self, sql: &str) -> Rows {
        run(&self.session(), sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}")).rows
    }

    /// The one value of a statement's one row.
    pub async fn value(&self, sql: &str) -> Option<String> {
        let rows = self.query(sql).await;
        assert_eq!((rows.len(), rows[0].len()), (1, 1), "{sql}: {rows:?}");
        rows[0][0].clone()
    }

    pub async fn error(&self, sql: &str) -> EngineError {
        run(&self.session(), sql).await.map(|answer| answer.rows).expect_err(sql)
    }
}

pub fn options(settings: &[(&str, &str)]) -> SessionOptions {
    SessionOptions {
        user: "ada".to_owned(),
        database: "strandline".to_owned(),
        application_name: "tests".to_owned(),
        settings: settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        process_id: 7,
        is_encrypted: false,
        permissions: Permissions::All,
    }
}

/// Runs one statement to its end.
pub async fn run(session: &Session, sql: &str) -> Result<Answer, EngineError> {
    run_with(session, sql, Vec::new()).await
}

pub async fn run_with(
    session: &Session,
    sql: &str,
    parameters: Vec<ScalarValue>,
) -> Result<Answer, EngineError> {
    let mut parsed = session.parse(sql).await?;
    assert_eq!(parsed.len(), 1, "{sql}");
    let prepared = session.prepare(parsed.remove(0), Vec::new()).await?;
    answer(session.execute(&prepared, parameters).await?).await
}

pub async fn answer(execution: Execution) -> Result<Answer, EngineError> {
    match execution {
        Execution::Command { tag, notices, .. } => {
            Ok(Answer { columns: Vec::new(), rows: vec![vec![Some(tag)]], notices })
        }
        Execution::Rows { columns, stream, notices, .. } => {
            let batches: Vec<RecordBatch> = stream.try_collect().await?;
            Ok(Answer { columns, rows: batches.iter().flat_map(rows_of).collect(), notices })
        }
    }
}

fn rows_of(batch: &RecordBatch) -> Rows {
    let cell = |row: usize, column: usize| {
        let column = batch.column(column);
        column.is_valid(row).then(|| array_value_to_string(column, row).unwrap())
    };
    (0..batch.num_rows())
        .map(|row| (0..batch.num_columns()).map(|column| cell(row, column)).collect())
        .collect()
}

/// Rows as they are compared: `NULL` for NULL, cells joined by `|`.
pub fn lines(rows: &Rows) -> Vec<String> {
    let cell = |cell: &Option<String>| cell.clone().unwrap_or_else(|| "NULL".to_owned());
    rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join("|")).collect()
}
