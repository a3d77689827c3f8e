//! The tasks of the server: each has a name, an owner that awaits it, and a way to be stopped.

use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use strandline_engine::{Engine, EngineSettings, Inference};
use strandline_kafka_gateway::{AutoCreate, GatewaySettings, Listener};
use strandline_pgwire_server::PgSettings;
use strandline_storage::log::Log;
use strandline_storage::seam::Seams;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::advertised::{self, Advertised};
use super::readiness::Readiness;
use super::shutdown::Stop;
use super::{demo, http};
use crate::config::Config;
use crate::failure::Failure;

/// Histograms are folded this often when nobody asks for them.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub struct Parts(JoinSet<Result<(), String>>);

impl Parts {
    fn spawn(&mut self, part: impl Future<Output = Result<(), String>> + Send + 'static) {
        self.0.spawn(part);
    }

    pub fn spawn_http(
        &mut self,
        listener: TcpListener,
        readiness: Readiness,
        metrics: PrometheusHandle,
        stop: Stop,
    ) {
        self.spawn(async move {
            http::serve(listener, readiness, metrics, stop).await;
            Ok(())
        });
    }

    pub fn spawn_upkeep(&mut self, metrics: PrometheusHandle, seams: Seams, stop: Stop) {
        let upkeep = async move {
            loop {
                seams.clock.sleep(UPKEEP_INTERVAL).await;
                metrics.run_upkeep();
            }
        };
        self.spawn_until(upkeep, stop);
    }

    /// Looks at the addresses that Kafka clients are told.
    pub fn spawn_check(&mut self, addresses: Vec<Advertised>, stop: Stop) {
        self.spawn_until(advertised::warn(addresses), stop);
    }

    pub fn spawn_demo(&mut self, log: Log, stop: Stop) {
        self.spawn_until(demo::run(log), stop);
    }

    /// For parts that hold nothing that has to be finished.
    fn spawn_until(&mut self, part: impl Future<Output = ()> + Send + 'static, stop: Stop) {
        self.spawn(async move {
            tokio::select! {
                () = part => {}
                () = stop.requested() => {}
            }
            Ok(())
        });
    }

    pub fn spawn_kafka(&mut self, listeners: Vec<Listener>, log: Log, config: &Config, stop: &Stop) {
        let settings = gateway_settings(config);
        let served = strandline_kafka_gateway::serve(listeners, log, settings, stop.clone().requested());
        self.spawn(async move { served.await.map_err(|error| format!("the Kafka port failed: {error}")) });
    }

    pub fn spawn_pg(
        &mut self,
        listener: TcpListener,
        engine: Arc<Engine>,
        settings: PgSettings,
        stop: &Stop,
    ) {
        let served = strandline_pgwire_server::serve(listener, engine.clone(), settings, stop.receiver());
        self.spawn(async move {
            let served = served.await.map_err(|error| format!("the Postgres port failed: {error}"));
            // While the log still takes writes: what was learnt of columns is stored.
            engine.close().await;
            served
        });
    }

    /// Resolves when a part fails; parts that end in order are let go.
    pub async fn first_failure(&mut self) -> Failure {
        loop {
            match self.0.join_next().await {
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(reason))) => return Failure::failed(reason),
                Some(Err(error)) => return Failure::failed(format!("a part of the server broke: {error}")),
                None => std::future::pending().await,
            }
        }
    }

    /// Resolves when all have ended.
    pub async fn ended(mut self) {
        while let Some(ended) = self.0.join_next().await {
            match ended {
                Ok(Ok(())) => {}
                Ok(Err(reason)) => tracing::error!("{reason}"),
                Err(error) => tracing::error!("a part of the server broke: {error}"),
            }
        }
    }
}

fn gateway_settings(config: &Config) -> GatewaySettings {
    let kafka = &config.kafka;
    let auto_create = if kafka.auto_create_topics { AutoCreate::Enabled } else { AutoCreate::Disabled };
    GatewaySettings {
        authorizer: config.authorizer(),
        auto_create_topics: auto_create,
        num_partitions_default: kafka.default_partitions,
        group_initial_rebalance_delay: kafka.group_initial_rebalance_delay.0,
        offsets_retention: kafka.offsets_retention.0,
        connections_max: kafka.connections_max,
        frame_bytes_max: kafka.frame_bytes_max.as_usize(),
        idle_timeout: kafka.idle_timeout.0,
        failed_authentication_delay: kafka.failed_authentication_delay.0,
        reauthentication: Some(kafka.reauthentication.0).filter(|interval| !interval.is_zero()),
        transaction_timeout_max: kafka.transaction_timeout_max.0,
        transactional_id_expiration: kafka.transactional_id_expiration.0,
        ..GatewaySettings::default()
    }
}

/// What queries may take.
pub fn engine_settings(config: &Config) -> EngineSettings {
    EngineSettings {
        query_memory_bytes: config.query.memory_bytes_max.as_usize(),
        concurrent_queries: config.query.concurrent_max,
        statement_timeout_ms: config.query.statement_timeout.as_millis().unsigned_abs(),
        inference: Inference::Owner,
        ..EngineSettings::default()
    }
}
