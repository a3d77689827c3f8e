//! `produce`: how much a producer gets acknowledged per second when everything is durable, against
//! the lowest of three limits: a broker that does nothing, the loopback, and the disk.
//!
//! Disks and neighbours change from second to second, so figure and limits are taken in turns, and
//! the medians are compared.

mod librdkafka;
mod limits;
mod null_broker;
mod report;

use std::net::SocketAddr;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::Value;
use strandline_storage::log::LogSettings;

use crate::generator::{self, Load};
use crate::measure::Rate;
use crate::place::{Place, PlaceArgs};
use crate::server::{Server, create_topic, open_log};
use crate::workload::{self, BATCH_BYTES_DEFAULT, BatchShape};
use limits::Limits;

const TOPIC: &str = "produced";

/// Produce with acks=all to a durable local directory, over loopback.
#[derive(Clone, Debug, Args)]
pub struct ProduceArgs {
    /// MB of record batches to produce in each round, and to measure each limit with
    #[arg(long, default_value_t = 256)]
    megabytes: u64,

    /// How often everything is measured; the medians are reported
    #[arg(long, default_value_t = 5)]
    rounds: u32,

    /// Bytes of each record's value
    #[arg(long, default_value_t = 1024)]
    record_bytes: usize,

    /// Bytes of each batch, at most
    #[arg(long, default_value_t = BATCH_BYTES_DEFAULT)]
    batch_bytes: usize,

    /// Connections, each to a partition of its own with 5 requests in flight
    #[arg(long, default_value_t = 1)]
    connections: u16,

    #[command(flatten)]
    place: PlaceArgs,
}

/// What one round measured.
struct Round {
    limits: Limits,
    produced: Rate,
    librdkafka: Rate,
}

pub async fn run(args: &ProduceArgs) -> Result<Value> {
    let shape = BatchShape { record_bytes: args.record_bytes, batch_bytes_max: args.batch_bytes };
    let load = Load::new(TOPIC, workload::batch(shape)?, args.connections, args.megabytes * 1_000_000);
    let mut rounds = Vec::new();
    for _ in 0..args.rounds.max(1) {
        let place = Place::new(&args.place)?;
        rounds.push(Round {
            limits: Limits::measure(&place, &load).await?,
            produced: produce(&place, &load).await?,
            librdkafka: produce_with_librdkafka(&place, args).await?,
        });
    }
    Ok(report::report(args, &rounds))
}

async fn produce(place: &Place, load: &Load) -> Result<Rate> {
    let server = start(place, "log", load.connections).await?;
    let (address, load) = (server.address, load.clone());
    let produced = tokio::task::spawn_blocking(move || generator::run(address, &load));
    let produced = produced.await.context("running the generator")??;
    server.stop().await?;
    Ok(produced)
}

async fn produce_with_librdkafka(place: &Place, args: &ProduceArgs) -> Result<Rate> {
    let server = start(place, "log-librdkafka", args.connections).await?;
    let (address, record_bytes): (SocketAddr, usize) = (server.address, args.record_bytes);
    let bytes = args.megabytes * 1_000_000;
    let produced =
        tokio::task::spawn_blocking(move || librdkafka::produce(address, TOPIC, record_bytes, bytes));
    let produced = produced.await.context("running librdkafka")??;
    server.stop().await?;
    Ok(produced)
}

async fn start(place: &Place, name: &str, partitions: u16) -> Result<Server> {
    let log = open_log(place.store(name)?, LogSettings::default()).await?;
    create_topic(&log, TOPIC, i32::from(partitions)).await?;
    Server::start(log).await
}
