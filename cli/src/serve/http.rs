//! The HTTP port: `/healthz`, `/readyz` and `/metrics`.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;

use super::readiness::Readiness;
use super::shutdown::Stop;

const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4";

#[derive(Clone)]
struct Shared {
    readiness: Readiness,
    metrics: PrometheusHandle,
}

/// Answers until the server stops.
pub async fn serve(listener: TcpListener, readiness: Readiness, metrics: PrometheusHandle, stop: Stop) {
    let router = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(render))
        .with_state(Shared { readiness, metrics });
    let served = axum::serve(listener, router).with_graceful_shutdown(async move { stop.requested().await });
    if let Err(error) = served.await {
        tracing::error!("the HTTP port failed: {error}");
    }
}

/// The process is alive; whether it serves is `/readyz`.
async fn healthz() -> &'static str {
    "ok\n"
}

async fn readyz(State(shared): State<Shared>) -> impl IntoResponse {
    match shared.readiness.check() {
        Ok(()) => (StatusCode::OK, "ready\n".to_owned()),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")),
    }
}

async fn render(State(shared): State<Shared>) -> impl IntoResponse {
    record_gauges(&shared.readiness);
    ([(header::CONTENT_TYPE, PROMETHEUS_TEXT)], shared.metrics.render())
}

/// Values that are looked up when somebody asks, rather than counted as they change.
fn record_gauges(readiness: &Readiness) {
    metrics::gauge!("strandline_ready").set(if readiness.check().is_ok() { 1.0 } else { 0.0 });
    if let Some(bytes) = resident_bytes() {
        metrics::gauge!("strandline_process_resident_bytes").set(bytes as f64);
    }
    let Some(log) = readiness.log() else { return };
    metrics::gauge!("strandline_topics").set(log.snapshot().topics().count() as f64);
    let stats = log.stats();
    for (name, value) in [
        ("strandline_wal_objects", stats.wal_objects),
        ("strandline_wal_bytes", stats.wal_bytes),
        ("strandline_tail_bytes", stats.tail_bytes),
        ("strandline_cache_bytes", stats.cache_bytes),
        ("strandline_cache_hits", stats.cache_hits),
        ("strandline_cache_misses", stats.cache_misses),
        ("strandline_pending_bytes", stats.pending_bytes),
    ] {
        metrics::gauge!(name).set(value as f64);
    }
}

/// Memory of this process in use, where the system tells.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kibibytes * 1024)
}
