//! A gateway over a log, in this process, on a free port of loopback; and a way to fill the log
//! without it.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use strandline_kafka_gateway::{GatewaySettings, Listener, ListenerSettings, ServeError, serve};
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::{
    CreateTopic, Log, LogSettings, MaintenanceSettings, PartitionAppend, PendingAppend, maintenance_runtime,
};
use strandline_storage::object::LogStore;
use strandline_storage::seam::Seams;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Appends that [`fill`] has under way.
const APPENDS_IN_FLIGHT_MAX: usize = 1000;

/// Opens a log whose newest objects are not kept in memory when `settings` say so.
pub async fn open_log(store: Arc<dyn LogStore>, settings: LogSettings) -> Result<Log> {
    static MAINTENANCE: LazyLock<Runtime> =
        LazyLock::new(|| maintenance_runtime().expect("the operating system gives threads"));
    let settings = LogSettings { maintenance_runtime: Some(MAINTENANCE.handle().clone()), ..settings };
    Log::open(store, settings, Seams::system()).await.context("opening the log")
}

/// Settings under which everything is beyond the tail: it is read back from the store.
pub fn without_tail() -> LogSettings {
    LogSettings { tail_bytes_max: 0, ..LogSettings::default() }
}

/// Settings under which nothing is compacted, written to a checkpoint or deleted unless it is asked for.
pub fn by_hand() -> MaintenanceSettings {
    const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);
    MaintenanceSettings {
        compaction_bytes: u64::MAX,
        compaction_objects: Some(u64::MAX),
        compaction_interval: NEVER,
        checkpoint_interval: NEVER,
        checkpoint_wal_bytes: u64::MAX,
        checkpoint_wal_objects: Some(u64::MAX),
        wal_delete_delay: NEVER,
        uncompacted_bytes_max: u64::MAX,
        ..MaintenanceSettings::default()
    }
}

/// Creates a topic; gives its first partition.
pub async fn create_topic(log: &Log, name: &str, partitions: i32) -> Result<TopicPartition> {
    let topic = CreateTopic { name: name.to_owned(), partitions, configs: BTreeMap::new() };
    let created = log.create_topic(topic).await.with_context(|| format!("creating topic {name}"))?;
    Ok(TopicPartition::new(created.id, 0))
}

/// Appends batches in their order; ends when all are durable.
pub async fn fill(
    log: &Log,
    topic_partition: TopicPartition,
    batches: impl Iterator<Item = Result<Bytes>>,
) -> Result<()> {
    let mut pending = VecDeque::new();
    for batch in batches {
        if pending.len() >= APPENDS_IN_FLIGHT_MAX {
            finish(pending.pop_front()).await?;
        }
        pending.push_back(log.submit(vec![PartitionAppend { topic_partition, batch: batch? }]).await);
    }
    while !pending.is_empty() {
        finish(pending.pop_front()).await?;
    }
    Ok(())
}

/// Waits for an append, if there is one.
pub async fn finish(append: Option<PendingAppend>) -> Result<()> {
    if let Some(append) = append {
        for result in append.await {
            result.context("appending a batch")?;
        }
    }
    Ok(())
}

/// A gateway that serves until it is stopped.
pub struct Server {
    pub address: SocketAddr,
    log: Log,
    shutdown: oneshot::Sender<()>,
    served: JoinHandle<Result<(), ServeError>>,
}

impl Server {
    pub async fn start(log: Log) -> Result<Self> {
        let socket = TcpListener::bind("127.0.0.1:0").await.context("listening on loopback")?;
        let address = socket.local_addr().context("reading the address of the listener")?;
        let listeners = vec![Listener { socket, settings: ListenerSettings::default() }];
        let (shutdown, stop) = oneshot::channel();
        let stopped = async move { stop.await.unwrap_or(()) };
        let served = tokio::spawn(serve(listeners, log.clone(), GatewaySettings::default(), stopped));
        Ok(Self { address, log, shutdown, served })
    }

    pub async fn stop(self) -> Result<()> {
        // An error means that the gateway has ended, and the next line says why.
        let _ = self.shutdown.send(());
        self.served.await.context("stopping the gateway")?.context("serving the kafka protocol")?;
        self.log.close().await;
        Ok(())
    }
}
