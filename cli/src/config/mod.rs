//! The settings of the server: what flags, environment, file and defaults say, as one typed value.
//!
//! Invariant: settings are read once, here, and are complete and checked afterwards. No other module
//! reads the environment for them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strandline_storage::log::SHARDS_MAX;
use strandline_storage::seam::Seams;

use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::output;
use crate::tls;
use crate::units::{ByteSize, HostPort, HumanDuration};

mod load;
mod maintenance;
mod security;
mod show;
mod stores;

#[cfg(debug_assertions)]
pub use load::failpoint;
pub use load::{client_password, load, load_store_settings};
use maintenance::MaintenanceConfig;
pub use security::{Auth, ClientCertificate, KafkaTls, ListenerConfig, Names, PgTls, TlsConfig};
pub use show::{masked_entries, to_toml};
pub use stores::SecretText;
use stores::{AzureConfig, GcsConfig, S3Config};

/// The first user, whom every rule lets pass unless the settings say otherwise.
pub const ADMIN: &str = "admin";

/// Everything that `strandline serve` can be told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// A directory or a URL.
    pub data: String,
    pub auth: Auth,
    /// Users that every rule lets pass.
    pub auth_super_users: Names,
    /// Whether anyone may do what no rule is about.
    pub auth_allow_without_rules: bool,
    /// Of the first user, if there is none yet.
    pub admin_password: Option<SecretText>,
    pub demo: bool,
    /// What is logged: `error`, `warn`, `info`, `debug`, `trace`, or directives for single parts.
    pub log: String,
    pub tls: TlsConfig,
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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KafkaConfig {
    pub listen: HostPort,
    pub advertise: Option<HostPort>,
    pub tls: KafkaTls,
    pub client_certificate: ClientCertificate,
    /// Further ports.
    pub listeners: Vec<ListenerConfig>,
    /// Whether passwords may travel readable to a port that other machines reach.
    pub plain_without_tls: bool,
    /// Clients have to prove again who they are before this time is over; 0 = never.
    pub reauthentication: HumanDuration,
    /// How long a client, also one of the Postgres port, waits to hear that it did not prove who it is.
    pub failed_authentication_delay: HumanDuration,
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
    /// If it is not set: optional if there is a certificate, else off.
    pub tls: Option<PgTls>,
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
            auth_super_users: Names(vec![ADMIN.to_owned()]),
            auth_allow_without_rules: false,
            admin_password: None,
            demo: false,
            log: "info".to_owned(),
            tls: TlsConfig::default(),
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
            tls: KafkaTls::Off,
            client_certificate: ClientCertificate::None,
            listeners: Vec::new(),
            plain_without_tls: false,
            reauthentication: HumanDuration::seconds(0),
            failed_authentication_delay: HumanDuration(Duration::from_millis(100)),
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
        Self { listen: HostPort::loopback(5432), tls: None, connections_max: 100 }
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
        self.check_security()?;
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
}

/// `strandline config check`.
pub fn check(args: &ServeArgs) -> Result<(), Failure> {
    let config = load(args)?;
    tls::server_tls(&config, Seams::system().clock)?;
    output::print(&to_toml(&config))
}
