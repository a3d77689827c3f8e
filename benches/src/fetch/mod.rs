//! `fetch`: how fast a consumer gets data that is compacted and not in memory, against what reading
//! the same files, checking them, copying them once and sending them over loopback takes.

mod limit;

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};
use strandline_storage::object::{CountingStore, LogStore};

use crate::consumer::{self, Consumed, Plan};
use crate::measure::{Rate, rounded};
use crate::place::{DATA_PREFIX, Place, PlaceArgs};
use crate::server::{Server, create_topic, fill, open_log, without_tail};
use crate::workload::{self, BATCH_BYTES_DEFAULT, BatchShape};

const TOPIC: &str = "fetched";

/// Fetch data that is not in memory any more, over loopback.
#[derive(Clone, Debug, Args)]
pub struct FetchArgs {
    /// MB of record batches to write and fetch
    #[arg(long, default_value_t = 512)]
    megabytes: u64,

    /// Bytes of each record's value
    #[arg(long, default_value_t = 1024)]
    record_bytes: usize,

    /// Bytes of each batch, at most
    #[arg(long, default_value_t = BATCH_BYTES_DEFAULT)]
    batch_bytes: usize,

    /// Bytes that one request asks for
    #[arg(long, default_value_t = 16 * 1024 * 1024)]
    max_bytes: i32,

    #[command(flatten)]
    place: PlaceArgs,
}

pub async fn run(args: &FetchArgs) -> Result<Value> {
    let place = Place::new(&args.place)?;
    let store = Arc::new(CountingStore::new(place.store("log")?));
    let log = open_log(store.clone(), without_tail()).await?;
    let partition = create_topic(&log, TOPIC, 1).await?;
    let shape = BatchShape { record_bytes: args.record_bytes, batch_bytes_max: args.batch_bytes };
    let batch = workload::batch(shape)?;
    let batches = (args.megabytes * 1_000_000).div_ceil(batch.len() as u64);
    fill(&log, partition, (0..batches).map(|_| Ok(batch.clone()))).await?;
    log.compact_now().await.context("compacting the log")?;
    let view = log.snapshot().partition(partition).context("the partition was created")?;
    let (bytes, end) = (view.size_bytes(), view.bounds().high_watermark);
    ensure!(view.tail().len() == 0, "all blocks are compacted");

    let limit = measure_limit(&place, store.as_ref()).await?;
    let before = store.counts();
    let server = Server::start(log).await?;
    let plan = Plan { address: server.address, topic: TOPIC, max_bytes: args.max_bytes, from: 0, end };
    let fetched = tokio::task::spawn_blocking(move || consumer::fetch_all(&plan));
    let fetched = fetched.await.context("running the consumer")??;
    server.stop().await?;
    ensure!(fetched.rate.bytes == bytes, "{} of {bytes} bytes were fetched", fetched.rate.bytes);
    let object_reads = store.counts().gets - before.gets;
    Ok(report(args, &fetched, limit, object_reads))
}

async fn measure_limit(place: &Place, store: &dyn LogStore) -> Result<Rate> {
    let files = place.files("log", store, DATA_PREFIX).await?;
    let limit = tokio::task::spawn_blocking(move || limit::measure(&files));
    limit.await.context("reading the files")?
}

fn report(args: &FetchArgs, fetched: &Consumed, limit: Rate, object_reads: u64) -> Value {
    let rate = fetched.rate.megabytes_per_second();
    json!({
        "measurement": "fetch",
        "megabytes": args.megabytes,
        "record_bytes": args.record_bytes,
        "batch_bytes_max": args.batch_bytes,
        "max_bytes": args.max_bytes,
        "requests": fetched.requests,
        "object_reads": object_reads,
        "fetch_mb_per_s": rounded(rate),
        "limits": { "pread_crc_copy_loopback_mb_per_s": rounded(limit.megabytes_per_second()) },
        "ratio": rounded(rate / limit.megabytes_per_second()),
    })
}
