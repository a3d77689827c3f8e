//! The life of the server: start the parts, wait for a reason to stop, drain.

#[cfg(debug_assertions)]
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use strandline_engine::Engine;
use strandline_storage::log::{Health, Log};
#[cfg(debug_assertions)]
use strandline_storage::seam::Failpoints;
use strandline_storage::seam::Seams;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::banner::{self, BoundPorts};
use super::kafka_ports::{self, gateway_listeners};
use super::listeners::Listeners;
use super::parts::{self, Parts};
use super::pg_port::pg_settings;
use super::readiness::Readiness;
use super::shutdown::{StopSignals, Stopper};
use super::{advertised, demo, first_user, open};
use crate::config::Config;
use crate::failure::Failure;
use crate::output;
use crate::tls::server_tls;

/// How long connections may take to finish what they began.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);

/// Runs until a signal, or until the log can serve no more.
pub async fn run(config: Config, metrics: PrometheusHandle, maintenance: Handle) -> Result<(), Failure> {
    let seams = seams()?;
    let tls = server_tls(&config, seams.clock.clone())?;
    let mut signals = StopSignals::install()?;
    let listeners = match Listeners::bind(&config).await {
        Ok(listeners) => listeners,
        Err(taken) => return Err(open::in_use(&config).await.unwrap_or(taken)),
    };
    let ports = bound_ports(&listeners)?;
    let (stopper, readiness) = (Stopper::new(), Readiness::default());
    let mut parts = Parts::default();
    parts.spawn_http(listeners.http, readiness.clone(), metrics.clone(), stopper.handle());
    let log = tokio::select! {
        log = open::open_log(&config, ports.kafka[0], &seams, maintenance) => log?,
        signal = signals.received() => {
            tracing::info!("{signal} while opening the log");
            return Ok(());
        }
    };
    first_user::ensure(&log, &config, &seams).await?;
    if config.demo {
        demo::prepare(&log).await?;
        parts.spawn_demo(log.clone(), stopper.handle());
    }
    parts.spawn_upkeep(metrics, seams, stopper.handle());
    parts.spawn_check(advertised::of_ports(&listeners.kafka), stopper.handle());
    let kafka = gateway_listeners(listeners.kafka, &config, tls.as_ref())?;
    parts.spawn_kafka(kafka, log.clone(), &config, &stopper.handle());
    let engine = Engine::start(log.clone(), parts::engine_settings(&config));
    parts.spawn_pg(listeners.pg, engine, pg_settings(&config, tls.as_ref()), &stopper.handle());
    readiness.serving(log.clone());
    output::print(&banner::text(&config, &ports))?;
    let reason = wait_for_end(&mut signals, &log, &mut parts).await;
    readiness.draining();
    stopper.stop();
    drain(&log, parts, &mut signals).await;
    reason
}

#[cfg(debug_assertions)]
fn seams() -> Result<Seams, Failure> {
    let failpoint = crate::config::failpoint()?;
    let failpoints = failpoint.map(|failpoint| Arc::new(failpoint) as Arc<dyn Failpoints>);
    Ok(Seams { failpoints, ..Seams::system() })
}

#[cfg(not(debug_assertions))]
fn seams() -> Result<Seams, Failure> {
    Ok(Seams::system())
}

fn bound_ports(listeners: &Listeners) -> Result<BoundPorts, Failure> {
    let address = |listener: &tokio::net::TcpListener| {
        listener.local_addr().map_err(|error| Failure::failed(format!("a port has no address: {error}")))
    };
    Ok(BoundPorts {
        kafka: kafka_ports::addresses(&listeners.kafka)?,
        pg: address(&listeners.pg)?,
        http: address(&listeners.http)?,
    })
}

/// Ok after a signal; otherwise why the server cannot go on.
async fn wait_for_end(signals: &mut StopSignals, log: &Log, parts: &mut Parts) -> Result<(), Failure> {
    tokio::select! {
        signal = signals.received() => {
            tracing::info!("{signal}: draining");
            Ok(())
        }
        health = log.stopped() => Err(Failure::failed(format!("the log stopped: {health}"))),
        failure = parts.first_failure() => Err(failure),
    }
}

/// Lets connections end, then commits what is pending. A second signal cuts it short.
async fn drain(log: &Log, parts: Parts, signals: &mut StopSignals) {
    let in_order = async {
        if timeout(DRAIN_TIMEOUT, parts.ended()).await.is_err() {
            tracing::warn!("connections were still busy after {} s", DRAIN_TIMEOUT.as_secs());
        }
        if !matches!(log.health(), Health::Failed { .. } | Health::Fenced { .. }) {
            log.close().await;
        }
    };
    tokio::select! {
        () = in_order => tracing::info!("stopped"),
        signal = signals.received() => tracing::warn!("{signal} again: not waiting any longer"),
    }
}
