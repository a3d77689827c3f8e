//! The HTTP port: `/healthz`, `/readyz` and `/metrics`.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;

use super::gauges;
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
    gauges::record(&shared.readiness);
    ([(header::CONTENT_TYPE, PROMETHEUS_TEXT)], shared.metrics.render())
}
