//! The settings of the server: what flags, environment, file and defaults say, as one typed value.
//!
//! Invariant: settings are read once, here, and are complete and checked afterwards. No other module
//! reads the environment for them.

use serde::{Deserialize, Serialize};
use strandline_storage::log::SHARDS_MAX;

use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::output;
use crate::units::{ByteSize, HostPort, HumanDuration};

mod load;
mod maintenance;
mod show;
mod stores;

#[cfg(debug_assertions)]
pub use load::failpoint;
pub use load::{load, load_store_settings};
use maintenance::MaintenanceConfig;
pub use show::{masked_entries, to_toml};
use stores::{AzureConfig, GcsConfig, S3Config};

/// Everything that `strandline serve` can be told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// A directory or a URL.
    pub data: String,
    pub auth: Auth,
    pub demo: bool,
    /// What is logged: `error`, `warn`, `info`, `debug`, `trace`, or directives for single parts.
    pub log: String,
    pub kafka: KafkaConfig,
    pub pg: PgConfig,
    pub http: HttpConfig,
    pub storage: StorageConfig,
    pub maintenance: MaintenanceConfig,
    pub query: QueryConfig,
    pub s3: S3Config,
    pub gcs: GcsConfig,
    pub azure: AzureConfig,
}

/// Who may come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    /// Any user name, but from this machine only: the ports have to be on loopback addresses.
    Loopback,
    /// Anyone who reaches the ports.
    None,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KafkaConfig {
    pub listen: HostPort,
    pub advertise: Option<HostPort>,
    pub auto_create_topics: bool,
    pub default_partitions: i32,
    pub group_initial_rebalance_delay: HumanDuration,
    /// What a group without members committed is forgotten after this time.
    pub offsets_retention: HumanDuration,
    pub connections_max: usize,
    pub frame_bytes_max: ByteSize,
    pub idle_timeout: HumanDuration,
    /// The longest timeout that a transactional producer may ask for.
    pub transaction_timeout_max: HumanDuration,
    /// A transactional id that was not used for so long is forgotten.
    pub transactional_id_expiration: HumanDuration,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PgConfig {
    pub listen: HostPort,
    pub connections_max: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    pub listen: HostPort,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StorageConfig {
    /// How many shards a new store gets, and a store with fewer; each has its WAL and its writer.
    pub shards: u32,
    /// How long a commit waits for company; the kind of store decides if it is not set.
    pub linger: Option<HumanDuration>,
    /// How long a request to an object store may take.
    pub request_timeout: HumanDuration,
    pub commit_bytes_max: ByteSize,
    pub pending_bytes_max: ByteSize,
    pub tail_bytes_max: ByteSize,
    pub cache_bytes_max: ByteSize,
    /// How much space a data directory holds back for a full disk; 0 = none.
    pub reserve_bytes: ByteSize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueryConfig {
    pub memory_bytes_max: ByteSize,
    pub concurrent_max: usize,
    /// 0 = no limit.
    pub statement_timeout: HumanDuration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data: "./strandline-data".to_owned(),
            auth: Auth::Loopback,
            demo: false,
            log: "info".to_owned(),
            kafka: KafkaConfig::default(),
            pg: PgConfig::default(),
            http: HttpConfig::default(),
            storage: StorageConfig::default(),
            maintenance: MaintenanceConfig::default(),
            query: QueryConfig::default(),
            s3: S3Config::default(),
            gcs: GcsConfig::default(),
            azure: AzureConfig::default(),
        }
    }
}

impl Default for KafkaConfig {
    fn default() -> Self {
        Self {
            listen: HostPort::loopback(9092),
            advertise: None,
            auto_create_topics: true,
            default_partitions: 1,
            group_initial_rebalance_delay: HumanDuration::seconds(3),
            offsets_retention: HumanDuration::seconds(7 * 24 * 3600),
            connections_max: 1000,
            frame_bytes_max: ByteSize::mebibytes(100),
            idle_timeout: HumanDuration::seconds(600),
            transaction_timeout_max: HumanDuration::seconds(900),
            transactional_id_expiration: HumanDuration::seconds(7 * 86_400),
        }
    }
}

impl Default for PgConfig {
    fn default() -> Self {
        Self { listen: HostPort::loopback(5432), connections_max: 100 }
    }
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self { listen: HostPort::loopback(8080) }
    }
}

impl Default for StorageConfig {
    fn default() -> Self {
        Self {
            shards: 1,
            linger: None,
            request_timeout: HumanDuration::seconds(25),
            commit_bytes_max: ByteSize::mebibytes(8),
            pending_bytes_max: ByteSize::mebibytes(256),
            tail_bytes_max: ByteSize::mebibytes(64),
            cache_bytes_max: ByteSize::mebibytes(64),
            reserve_bytes: ByteSize::mebibytes(64),
        }
    }
}

impl Default for QueryConfig {
    fn default() -> Self {
        Self {
            memory_bytes_max: ByteSize::mebibytes(1024),
            concurrent_max: 16,
            statement_timeout: HumanDuration::seconds(0),
        }
    }
}

impl Config {
    /// Refuses what would be unsafe or could not work, naming the setting.
    fn check(&self) -> Result<(), Failure> {
        self.check_exposure()?;
        self.s3.check()?;
        self.maintenance.check()?;
        if self.storage.request_timeout.as_millis() == 0 {
            return Err(Failure::Usage("storage.request_timeout is 0; it has to be longer".to_owned()));
        }
        if !(1..=SHARDS_MAX).contains(&self.storage.shards) {
            let found = self.storage.shards;
            return Err(Failure::Usage(format!(
                "storage.shards is {found}; it has to be from 1 to {SHARDS_MAX}"
            )));
        }
        if self.kafka.default_partitions < 1 {
            let found = self.kafka.default_partitions;
            return Err(Failure::Usage(format!(
                "kafka.default_partitions is {found}; it has to be at least 1"
            )));
        }
        let least = [
            ("kafka.connections_max", self.kafka.connections_max),
            ("pg.connections_max", self.pg.connections_max),
            ("query.concurrent_max", self.query.concurrent_max),
        ];
        match least.iter().find(|(_, value)| *value == 0) {
            Some((name, _)) => Err(Failure::Usage(format!("{name} is 0; it has to be at least 1"))),
            None => Ok(()),
        }
    }

    fn check_exposure(&self) -> Result<(), Failure> {
        let ports = [("kafka", &self.kafka.listen), ("pg", &self.pg.listen), ("http", &self.http.listen)];
        match ports.iter().find(|(_, address)| !address.is_loopback()) {
            Some((name, address)) if self.auth == Auth::Loopback => Err(Failure::Usage(format!(
                "{name}.listen is {address}, which other machines can reach, and nothing asks them who they are; \
                 listen on 127.0.0.1, or add --no-auth to let anyone in"
            ))),
            _ => Ok(()),
        }
    }
}

/// `strandline config check`.
pub fn check(args: &ServeArgs) -> Result<(), Failure> {
    let config = load(args)?;
    output::print(&to_toml(&config))
}
