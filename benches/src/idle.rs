//! `idle`: what a server costs that nobody talks to, alone or with many clients that are connected and say nothing.
//!
//! Asserted with clients: the memory of each, and that they cost no CPU. All of them are still served at the end.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};
use strandline_storage::seam::{Clock, SystemClock};

use crate::crowd::{self, Crowd};
use crate::measure::{Stopwatch, rounded};
use crate::place::{Place, PlaceArgs};
use crate::process::ServerProcess;

const CPU_PERCENT_MAX: f64 = 1.0;
const RESIDENT_MB_MAX: f64 = 100.0;
/// Of the server with its clients: nothing, but for the tick in which the kernel counts.
const CROWD_CPU_PERCENT_MAX: f64 = 0.2;
/// Resident memory of one client that says nothing.
const KAFKA_KIB_MAX: f64 = 32.0;
const PG_KIB_MAX: f64 = 128.0;

/// Start a server and measure what it costs to do nothing.
#[derive(Clone, Debug, Args)]
pub struct IdleArgs {
    /// The strandline binary
    binary: PathBuf,

    /// How long to watch it, in seconds
    #[arg(long, default_value_t = 20)]
    seconds: u64,

    /// Clients of the Kafka port, and as many of the Postgres port, that are connected and say nothing
    #[arg(long, default_value_t = 0)]
    connections: usize,

    #[command(flatten)]
    place: PlaceArgs,
}

pub async fn run(args: &IdleArgs) -> Result<Value> {
    if args.connections > 0 {
        return run_crowd(args).await;
    }
    let place = Place::new(&args.place)?;
    let mut server = ServerProcess::start(&args.binary, &place.path("data"), &[]).await?;
    let cpu = watch(&server, args.seconds).await?;
    let resident = server.resident_megabytes()?;
    server.kill().await?;
    Ok(json!({
        "measurement": "idle",
        "seconds": rounded(cpu.elapsed_seconds),
        "cpu_seconds": rounded(cpu.seconds),
        "cpu_percent": rounded(cpu.percent()),
        "resident_mb": rounded(resident),
        "limits": { "cpu_percent": CPU_PERCENT_MAX, "resident_mb": RESIDENT_MB_MAX },
        "ratios": {
            "cpu": rounded(cpu.percent() / CPU_PERCENT_MAX),
            "resident": rounded(resident / RESIDENT_MB_MAX),
        },
    }))
}

/// CPU time of a server in a time.
pub struct Cpu {
    pub seconds: f64,
    pub elapsed_seconds: f64,
}

impl Cpu {
    pub fn percent(&self) -> f64 {
        100.0 * self.seconds / self.elapsed_seconds
    }
}

/// Watches a server for so many seconds.
pub async fn watch(server: &ServerProcess, seconds: u64) -> Result<Cpu> {
    let before = server.cpu_seconds()?;
    let watch = Stopwatch::default();
    SystemClock::default().sleep(Duration::from_secs(seconds)).await;
    Ok(Cpu { seconds: server.cpu_seconds()? - before, elapsed_seconds: watch.elapsed().as_secs_f64() })
}

async fn run_crowd(args: &IdleArgs) -> Result<Value> {
    let place = Place::new(&args.place)?;
    // Two more for those that come first.
    let most = (args.connections + 2).to_string();
    let settings = [
        ("STRANDLINE_KAFKA_CONNECTIONS_MAX", most.as_str()),
        ("STRANDLINE_PG_CONNECTIONS_MAX", most.as_str()),
    ];
    let mut server = ServerProcess::start(&args.binary, &place.path("data"), &settings).await?;
    let ports = server.ports();
    let count = args.connections;
    let blocking = |work: fn(crowd::Ports, usize) -> Result<Crowd>, count| {
        tokio::task::spawn_blocking(move || work(ports, count))
    };
    // What the very first clients load stays, and is not theirs.
    let first = [
        blocking(crowd::kafka, 1).await.context("running a client")??,
        blocking(crowd::postgres, 1).await.context("running a client")??,
    ];
    let alone = server.resident_megabytes()?;
    let kafka = blocking(crowd::kafka, count).await.context("running the clients")??;
    let with_kafka = server.resident_megabytes()?;
    let postgres = blocking(crowd::postgres, count).await.context("running the clients")??;
    let with_all = server.resident_megabytes()?;
    let cpu = watch(&server, args.seconds).await?;
    for crowd in first.into_iter().chain([kafka, postgres]) {
        tokio::task::spawn_blocking(move || crowd.ask_each()).await.context("asking the clients")??;
    }
    server.kill().await?;
    let each_kib = |megabytes: f64| megabytes * 1e6 / 1024.0 / count as f64;
    let (kafka_kib, pg_kib) = (each_kib(with_kafka - alone), each_kib(with_all - with_kafka));
    let report = json!({
        "measurement": "idle with clients",
        "kafka_clients": count,
        "postgres_clients": count,
        "seconds": rounded(cpu.elapsed_seconds),
        "cpu_seconds": rounded(cpu.seconds),
        "cpu_percent": rounded(cpu.percent()),
        "resident_mb": rounded(with_all),
        "resident_mb_without_clients": rounded(alone),
        "kib_of_a_kafka_client": rounded(kafka_kib),
        "kib_of_a_postgres_client": rounded(pg_kib),
        "limits": {
            "cpu_percent": CROWD_CPU_PERCENT_MAX,
            "kib_of_a_kafka_client": KAFKA_KIB_MAX,
            "kib_of_a_postgres_client": PG_KIB_MAX,
        },
    });
    let is_within =
        cpu.percent() <= CROWD_CPU_PERCENT_MAX && kafka_kib <= KAFKA_KIB_MAX && pg_kib <= PG_KIB_MAX;
    ensure!(is_within, "clients that say nothing cost too much: {report:#}");
    Ok(report)
}
