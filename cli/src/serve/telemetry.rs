//! Logs to standard error, and the recorder that `/metrics` shows.

use std::io::IsTerminal;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;

use crate::config::{Config, masked_entries};
use crate::failure::Failure;

/// Upper bounds of the buckets of every duration, in seconds.
const SECONDS_BUCKETS: [f64; 14] =
    [0.000_1, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// The same of every size, in bytes.
const BYTES_BUCKETS: [f64; 8] =
    [1024.0, 8192.0, 65_536.0, 262_144.0, 1_048_576.0, 4_194_304.0, 8_388_608.0, 67_108_864.0];

/// Histograms of sizes, by the unit in their names.
fn bytes() -> Matcher {
    Matcher::Suffix("_bytes".to_owned())
}

/// Begins to log and to count. Only the first call of a process succeeds.
pub fn start(config: &Config) -> Result<PrometheusHandle, Failure> {
    let filter = EnvFilter::try_new(&config.log)
        .map_err(|error| Failure::Usage(format!("log is \"{}\": {error}", config.log)))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .try_init()
        .map_err(|error| Failure::failed(format!("cannot start logging: {error}")))?;
    let settings: Vec<String> =
        masked_entries(config).into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    tracing::info!("settings: {}", settings.join(" "));
    let counting = PrometheusBuilder::new()
        .set_buckets(&SECONDS_BUCKETS)
        .and_then(|builder| builder.set_buckets_for_metric(bytes(), &BYTES_BUCKETS))
        .and_then(PrometheusBuilder::install_recorder)
        .map_err(|error| Failure::failed(format!("cannot start counting: {error}")))?;
    strandline_storage::telemetry::register();
    strandline_kafka_gateway::register_metrics();
    strandline_engine::register_metrics();
    strandline_pgwire_server::register_metrics();
    Ok(counting)
}
