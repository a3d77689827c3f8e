//! How long a producer waits that sends one request at a time, and how much more it gets through with
//! five in flight.

use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use serde_json::{Value, json};
use strandline_storage::log::LogSettings;
use strandline_storage::object::LogStore;

use super::RemoteArgs;
use crate::bucket::Bucket;
use crate::generator::{self, IN_FLIGHT_MAX, Load};
use crate::measure::{Rate, Stopwatch, median, milliseconds, percentile, rounded};
use crate::server::{Server, create_topic, open_log};
use crate::workload::{self, BatchShape};

const TOPIC: &str = "produced";
const BATCH_BYTES: usize = 16 * 1024;
/// What an acknowledgement may take beside its put and the linger.
const EXTRA_MAX: Duration = Duration::from_millis(10);
const RATIO_MIN: f64 = 4.0;

pub(super) async fn measure(args: &RemoteArgs) -> Result<Value> {
    let bucket = Bucket::start(args.latency()).await?;
    let batch = workload::batch(BatchShape { record_bytes: 1024, batch_bytes_max: BATCH_BYTES })?;
    let put = put_time(bucket.store.as_ref(), &batch, args.requests).await?;
    let settings = LogSettings { linger: Some(args.linger()), ..LogSettings::default() };
    let log = open_log(bucket.store.clone(), settings).await?;
    create_topic(&log, TOPIC, 1).await?;
    let server = Server::start(log).await?;
    let load = Load::new(TOPIC, batch.clone(), 1, args.requests * batch.len() as u64);
    let (address, count) = (server.address, usize::try_from(args.requests)?);
    let single = load.clone();
    let samples = tokio::task::spawn_blocking(move || {
        generator::latencies(address, &single, Duration::ZERO, |sent| sent >= count)
    });
    let samples = samples.await.context("running the producer")??;
    let one = run(&server, load.clone().with_in_flight(1)).await?;
    let five = run(&server, load).await?;
    server.stop().await?;
    let produced = median(samples.clone());
    let limit = args.linger() + put + EXTRA_MAX;
    let ratio = five.megabytes_per_second() / one.megabytes_per_second();
    Ok(json!({
        "requests": args.requests,
        "batch_bytes_max": BATCH_BYTES,
        "produce_p50_ms": milliseconds(produced),
        "produce_p99_ms": milliseconds(percentile(samples, 0.99)),
        "limits": { "put_p50_ms": milliseconds(put), "linger_put_and_10_ms": milliseconds(limit) },
        "ratio": rounded(produced.div_duration_f64(limit)),
        "one_in_flight_mb_per_s": rounded(one.megabytes_per_second()),
        "in_flight": IN_FLIGHT_MAX,
        "some_in_flight_mb_per_s": rounded(five.megabytes_per_second()),
        "in_flight_ratio": rounded(ratio),
        "in_flight_ratio_min": RATIO_MIN,
    }))
}

async fn run(server: &Server, load: Load) -> Result<Rate> {
    let address = server.address;
    let produced = tokio::task::spawn_blocking(move || generator::run(address, &load));
    produced.await.context("running the generator")?
}

/// The median of puts through the store alone, one after the other.
async fn put_time(store: &dyn LogStore, batch: &Bytes, count: u64) -> Result<Duration> {
    let mut samples = Vec::new();
    for number in 0..count {
        let watch = Stopwatch::default();
        store.create(&format!("puts/{number:020}"), batch.clone()).await.context("putting an object")?;
        samples.push(watch.elapsed());
    }
    Ok(median(samples))
}
