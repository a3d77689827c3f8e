//! `produce`: how much a producer gets acknowledged per second when everything is durable, against
//! the lowest of three limits: a broker that does nothing, the loopback, and the disk.

mod generator;
mod librdkafka;
mod limits;
mod null_broker;

use std::net::SocketAddr;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};
use strandline_storage::log::LogSettings;

use crate::measure::{Rate, rounded};
use crate::place::{Place, PlaceArgs};
use crate::server::{Server, create_topic, open_log};
use crate::workload::{self, BATCH_BYTES_DEFAULT, BatchShape};
use generator::Load;
use limits::Limits;

const TOPIC: &str = "produced";

/// Produce with acks=all to a durable local directory, over loopback.
#[derive(Clone, Debug, Args)]
pub struct ProduceArgs {
    /// MB of record batches to produce, and to measure each limit with
    #[arg(long, default_value_t = 512)]
    megabytes: u64,

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

pub async fn run(args: &ProduceArgs) -> Result<Value> {
    let place = Place::new(&args.place)?;
    let shape = BatchShape { record_bytes: args.record_bytes, batch_bytes_max: args.batch_bytes };
    let batch = workload::batch(shape)?;
    let bytes = args.megabytes * 1_000_000;
    let load = Load::new(TOPIC, batch, args.connections, bytes);
    let limits = Limits::measure(&place, &load).await?;
    let produced = produce(&place, &load).await?;
    let librdkafka = produce_with_librdkafka(&place, args, bytes).await?;
    Ok(report(args, produced, librdkafka, &limits))
}

async fn produce(place: &Place, load: &Load) -> Result<Rate> {
    let server = start(place, "log", load.connections).await?;
    let (address, load) = (server.address, load.clone());
    let produced = tokio::task::spawn_blocking(move || generator::run(address, &load));
    let produced = produced.await.context("running the generator")??;
    server.stop().await?;
    Ok(produced)
}

async fn produce_with_librdkafka(place: &Place, args: &ProduceArgs, bytes: u64) -> Result<Rate> {
    let server = start(place, "log-librdkafka", args.connections).await?;
    let (address, record_bytes): (SocketAddr, usize) = (server.address, args.record_bytes);
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

fn report(args: &ProduceArgs, produced: Rate, librdkafka: Rate, limits: &Limits) -> Value {
    let (limit_name, limit) = limits.lowest();
    let puts = limits.puts.iter().map(|put| {
        json!({ "object_bytes": put.object_bytes, "mb_per_s": rounded(put.rate.megabytes_per_second()) })
    });
    json!({
        "measurement": "produce",
        "megabytes": args.megabytes,
        "record_bytes": args.record_bytes,
        "batch_bytes_max": args.batch_bytes,
        "connections": args.connections,
        "produce_mb_per_s": rounded(produced.megabytes_per_second()),
        "librdkafka_mb_per_s": rounded(librdkafka.megabytes_per_second()),
        "limits": {
            "null_broker_mb_per_s": rounded(limits.null_broker.megabytes_per_second()),
            "loopback_mb_per_s": rounded(limits.loopback.megabytes_per_second()),
            "put_mb_per_s": rounded(limits.best_put().megabytes_per_second()),
        },
        "puts": puts.collect::<Vec<_>>(),
        "lowest_limit": limit_name,
        "ratio": rounded(produced.megabytes_per_second() / limit.megabytes_per_second()),
        "librdkafka_ratio": rounded(librdkafka.megabytes_per_second() / limit.megabytes_per_second()),
    })
}
