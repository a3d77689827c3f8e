//! A server on a free port over a log in memory, with topics to read.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use strandline_engine::{Engine, EngineSettings};
use strandline_pgwire_server::{PgSettings, ServeError, serve};
use strandline_storage::access::{
    AccessChange, AclBinding, Operation, PatternKind, Permission, ResourceKind, SCRAM_ITERATIONS_DEFAULT,
    ScramCredential, ScramMechanism, User,
};
use strandline_storage::format::record_batch::{BatchBuilder, BatchOptions, HeaderRef};
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::{CreateTopic, Log, LogSettings, PartitionAppend};
use strandline_storage::object::ObjectStoreBackend;
use strandline_storage::seam::{Clock, Seams};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::raw::Raw;

/// Where test timestamps begin: 2023-11-14 22:13:20 UTC.
pub const T: i64 = 1_700_000_000_000;
/// No wait in these tests takes longer than this, or it has failed.
pub const BOUND: Duration = Duration::from_secs(60);
/// A statement that runs for hours on a topic of 2,000 records.
pub const ENDLESS: &str =
    "SELECT count(*) FROM big a, big b, big c WHERE a._offset + b._offset = -1 - c._offset";

pub struct Server {
    pub address: SocketAddr,
    log: Log,
    engine: Arc<Engine>,
    stop: watch::Sender<bool>,
    serving: JoinHandle<Result<(), ServeError>>,
}

impl Server {
    pub async fn start() -> Self {
        Self::start_with(PgSettings::default()).await
    }

    pub async fn start_with(settings: PgSettings) -> Self {
        let store = Arc::new(ObjectStoreBackend::memory());
        let log = Log::open(store, LogSettings::default(), Seams::system()).await.unwrap();
        let engine = Engine::start(log.clone(), EngineSettings::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let serving = tokio::spawn(serve(listener, engine.clone(), settings, stopped));
        Self { address, log, engine, stop, serving }
    }

    pub fn clock(&self) -> Arc<dyn Clock> {
        self.log.seams().clock.clone()
    }

    /// Three JSON records, a second apart.
    pub async fn with_events() -> Self {
        let server = Self::start().await;
        let values = [
            r#"{"n":1,"x":1.5,"name":"a","ok":true}"#,
            r#"{"n":2,"name":"b\u0000c"}"#,
            r#"{"n":3,"x":-2.25,"name":null,"ok":false,"deep":{"k":[1,2]}}"#,
        ];
        server.topic("events", values.into_iter().map(str::to_owned)).await;
        server
    }

    /// The topic that [`ENDLESS`] reads.
    pub async fn with_big() -> Self {
        let server = Self::start().await;
        server.topic("big", (0..2_000).map(|n| format!(r#"{{"n":{n},"text":"{}"}}"#, "x".repeat(100)))).await;
        server
    }

    pub async fn topic(&self, name: &str, values: impl Iterator<Item = String>) {
        let mut batch = BatchBuilder::new(BatchOptions::default());
        for (second, value) in (0..).zip(values) {
            batch.append(Some(T + second * 1_000), Some(b"key"), Some(value.as_bytes()), &[]).unwrap();
        }
        self.append(name, batch).await;
    }

    pub async fn topic_with_headers(&self, name: &str, headers: &[HeaderRef<'_>]) {
        let mut batch = BatchBuilder::new(BatchOptions::default());
        batch.append(Some(T), None, Some(b"{}"), headers).unwrap();
        self.append(name, batch).await;
    }

    async fn append(&self, name: &str, batch: BatchBuilder) {
        let create = CreateTopic { name: name.to_owned(), partitions: 1, configs: BTreeMap::new() };
        let topic = self.log.create_topic(create).await.unwrap();
        let topic_partition = TopicPartition::new(topic.id, 0);
        for appended in
            self.log.append(vec![PartitionAppend { topic_partition, batch: batch.finish() }]).await
        {
            appended.unwrap();
        }
    }

    pub async fn connect(&self) -> Client {
        self.connect_with("").await
    }

    /// `more` is in the form of a connection string.
    pub async fn connect_with(&self, more: &str) -> Client {
        let parameters =
            format!("host=127.0.0.1 port={} user=ada dbname=strandline {more}", self.address.port());
        let (client, connection) = tokio_postgres::connect(&parameters, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// A user of the log.
    pub async fn user(&self, name: &str, password: &str) {
        let salt = name.as_bytes().to_vec();
        let credential =
            ScramCredential::derive(ScramMechanism::Sha256, password, salt, SCRAM_ITERATIONS_DEFAULT);
        self.change(AccessChange::PutUser(User { name: name.to_owned(), credentials: vec![credential] }))
            .await;
    }

    pub async fn change(&self, change: AccessChange) {
        let changed: Result<(), Box<dyn std::error::Error + Send + Sync>> =
            self.log.change_access(|_| Ok((vec![change], ()))).await;
        changed.unwrap();
    }

    /// A client, or why there is none. `parameters` are in the form of a connection string.
    pub async fn try_connect(&self, parameters: &str) -> Result<Client, tokio_postgres::Error> {
        let parameters =
            format!("host=127.0.0.1 port={} dbname=strandline {parameters}", self.address.port());
        let (client, connection) = bounded(tokio_postgres::connect(&parameters, NoTls)).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    pub fn engine(&self) -> Arc<Engine> {
        self.engine.clone()
    }

    /// A connection that is past its startup.
    pub async fn raw(&self) -> Raw {
        let mut raw = Raw::connect(self.address).await;
        raw.startup(&[("user", "ada"), ("database", "strandline")]).await;
        raw.until(b'Z').await;
        raw
    }

    pub async fn stop(self) {
        self.stop.send_replace(true);
        bounded(self.serving).await.unwrap().unwrap();
    }
}

/// A rule that allows a user an operation on one topic.
pub fn allow(user: &str, operation: Operation, topic: &str) -> AclBinding {
    AclBinding {
        resource_kind: ResourceKind::Topic,
        pattern_kind: PatternKind::Literal,
        resource_name: topic.to_owned(),
        principal: format!("User:{user}"),
        host: "*".to_owned(),
        operation,
        permission: Permission::Allow,
    }
}

pub async fn bounded<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, work).await.expect("done within the bound")
}

/// The rows of a text of statements, as text, with `NULL` for NULL.
pub async fn rows(client: &Client, sql: &str) -> Vec<Vec<String>> {
    let messages = bounded(client.simple_query(sql)).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|at| row.get(at).unwrap_or("NULL").to_owned()).collect())
        }
        _ => None,
    };
    messages.into_iter().filter_map(row).collect()
}

/// The SQLSTATE that a statement fails with.
pub fn code(error: &tokio_postgres::Error) -> &str {
    error.code().map_or("none", tokio_postgres::error::SqlState::code)
}
