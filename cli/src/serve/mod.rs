//! `strandline serve`: puts the parts together, runs them until told to stop, and drains.
//!
//! Start-up goes from what is cheap to check to what is costly: settings, ports, data directory, log.
//! Nothing durable is touched before all ports are held, so that a second server on the same ports
//! leaves no trace.
//!
//! Invariant: the exit code is 0 only if all that was acknowledged had been committed and the log was
//! closed in order.

use std::io;

use strandline_storage::log::maintenance_runtime;

use crate::args::ServeArgs;
use crate::config;
use crate::failure::Failure;

mod advertised;
mod banner;
mod demo;
mod first_user;
mod gauges;
mod http;
mod kafka_ports;
mod listeners;
mod open;
mod parts;
mod pg_port;
mod readiness;
mod server;
mod shutdown;
mod telemetry;

pub use open::open_log_read_only;

/// `strandline serve`.
pub fn run(args: &ServeArgs) -> Result<(), Failure> {
    let config = config::load(args)?;
    let metrics = telemetry::start(&config)?;
    // Queries run on a runtime of the engine's own: a scan cannot starve the network or the commits.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("strandline-net")
        .build()
        .map_err(no_runtime)?;
    let maintenance = maintenance_runtime().map_err(no_runtime)?;
    let result = runtime.block_on(server::run(config, metrics, maintenance.handle().clone()));
    runtime.shutdown_background();
    maintenance.shutdown_background();
    result
}

fn no_runtime(error: io::Error) -> Failure {
    Failure::failed(format!("cannot start the runtime: {error}"))
}
