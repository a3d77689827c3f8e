//! The data directory and the log in it: opened, probed, replayed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use strandline_storage::log::{Log, LogSettings};
use strandline_storage::object::{
    CountingStore, DataLocation, LocalOptions, LogStore, OpenError, StoreSettings, probe,
};
use strandline_storage::seam::Seams;
use tokio::runtime::Handle;

use crate::config::{self, Config};
use crate::failure::Failure;

/// Opens the log for writing: this process becomes its one writer. Where it listens for Kafka clients
/// is what a process is told that it takes the log from.
///
/// # Errors
/// One sentence that names the path and what is wrong; nothing has been changed then.
pub async fn open_log(
    config: &Config,
    listens_at: SocketAddr,
    seams: &Seams,
    maintenance: Handle,
) -> Result<Log, Failure> {
    let settings = config.store_settings();
    let open = move |location: &DataLocation| location.open(&settings);
    let store = open_store(parse_location(&config.data)?, open, seams).await?;
    probe(store.as_ref(), seams.rng.as_ref()).await.map_err(Failure::failed)?;
    let started = seams.clock.monotonic();
    let settings = LogSettings { maintenance_runtime: Some(maintenance), ..log_settings(config, listens_at) };
    let log = Log::open(store, settings, seams.clone()).await.map_err(Failure::failed)?;
    let elapsed: Duration = seams.clock.monotonic().saturating_sub(started);
    tracing::info!("opened the log in {} ms", elapsed.as_millis());
    Ok(log)
}

/// Why the data directory cannot be used, if another process has it; asked when a port is taken, because
/// another port would not help then.
pub async fn in_use(config: &Config) -> Option<Failure> {
    let exists = std::path::Path::new(&config.data).is_dir();
    let location: DataLocation = config.data.parse().ok().filter(|_| exists)?;
    let settings = StoreSettings { local: LocalOptions::NO_RESERVE, ..StoreSettings::default() };
    match tokio::task::spawn_blocking(move || location.open(&settings)).await {
        Ok(Err(error @ OpenError::InUse { .. })) => Some(Failure::failed(error)),
        _ => None,
    }
}

/// Opens the log for reading only, beside a server that may be writing to it.
pub async fn open_log_read_only(data: &str, seams: &Seams) -> Result<Log, Failure> {
    let location = parse_location(data)?;
    let settings = match location {
        DataLocation::Remote(_) => config::load_store_settings()?,
        DataLocation::Local(_) | DataLocation::Memory => StoreSettings::default(),
    };
    let store = open_store(location, move |location| location.open_read_only(&settings), seams).await?;
    Log::open_read_only(store, LogSettings::default(), seams.clone()).await.map_err(Failure::failed)
}

fn parse_location(data: &str) -> Result<DataLocation, Failure> {
    data.parse().map_err(|error: OpenError| Failure::Usage(error.to_string()))
}

async fn open_store(
    location: DataLocation,
    open: impl FnOnce(&DataLocation) -> Result<Arc<dyn LogStore>, OpenError> + Send + 'static,
    seams: &Seams,
) -> Result<Arc<dyn LogStore>, Failure> {
    let name = location.to_string();
    let store = tokio::task::spawn_blocking(move || open(&location))
        .await
        .map_err(|error| Failure::failed(format!("opening {name} was interrupted: {error}")))?
        .map_err(Failure::failed)?;
    Ok(Arc::new(CountingStore::timed(store, seams.clock.clone())))
}

fn log_settings(config: &Config, listens_at: SocketAddr) -> LogSettings {
    let address = config.kafka.advertise.as_ref().map_or(listens_at.to_string(), ToString::to_string);
    LogSettings {
        node: format!("process {}", std::process::id()),
        address,
        shards: config.storage.shards,
        linger: config.storage.linger.map(|linger| linger.0),
        commit_bytes_max: config.storage.commit_bytes_max.as_usize(),
        pending_bytes_max: config.storage.pending_bytes_max.as_usize(),
        tail_bytes_max: config.storage.tail_bytes_max.as_usize(),
        cache_bytes_max: config.storage.cache_bytes_max.as_usize(),
        maintenance: config.maintenance.settings(),
        ..LogSettings::default()
    }
}
