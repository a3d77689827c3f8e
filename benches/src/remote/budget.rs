//! What the server is asked for, whatever the time it takes. All of it is asserted.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::{
    Isolation, Log, LogSettings, MaintenanceSettings, PartitionAppend, PartitionView,
};
use strandline_storage::seam::{Clock, Seams, SystemClock};

use super::RemoteArgs;
use crate::bucket::{Bucket, gets, puts};
use crate::consumer::{self, Plan};
use crate::server::{Server, by_hand, create_topic, fill, open_log};
use crate::workload::{self, BATCH_BYTES_DEFAULT, BatchShape, FIRST_TIMESTAMP, timed_batch};

const COMPACTION_PUTS_MAX: u64 = 10;
const LOOKUP_GETS_MAX: u64 = 2;
const FETCH_GETS_MAX: u64 = 10;
const FETCH_BYTES: u64 = 64 * 1024 * 1024;
const PARTITIONS: i32 = 1000;
/// Each partition gets one record a second, for a minute.
const SECONDS: i64 = 60;
/// So many times are looked up, each in a log that was just opened.
const LOOKUPS: i64 = 5;

pub(super) async fn check(args: &RemoteArgs) -> Result<Value> {
    let (compaction_puts, idle) = many_partitions(args).await?;
    let (cold, repeated) = lookups(args).await?;
    let (fetch_bytes, fetch_gets) = sequential_fetch(args).await?;
    Ok(json!({
        "compaction_of_1000_partitions": { "puts": compaction_puts, "puts_max": COMPACTION_PUTS_MAX },
        "idle": { "seconds": args.idle_seconds, "requests": idle, "requests_max": 0 },
        "cold_time_lookup": { "batches": args.batches, "gets": cold, "gets_max": LOOKUP_GETS_MAX },
        "repeated_time_lookup": { "gets": repeated, "gets_max": 0 },
        "sequential_fetch": { "bytes": fetch_bytes, "gets": fetch_gets, "gets_max": FETCH_GETS_MAX },
    }))
}

/// Everything is asked for by hand, and nothing of it is in memory.
fn settings(args: &RemoteArgs) -> LogSettings {
    let maintenance = MaintenanceSettings { wal_delete_delay: Duration::ZERO, ..by_hand() };
    LogSettings { linger: Some(args.linger()), tail_bytes_max: 0, maintenance, ..LogSettings::default() }
}

/// Puts of the compaction of a minute of 1,000 partitions, and all requests of an idle time after it.
async fn many_partitions(args: &RemoteArgs) -> Result<(u64, u64)> {
    let bucket = Bucket::start(args.latency()).await?;
    let log = open_log(bucket.store.clone(), settings(args)).await?;
    let topic = create_topic(&log, "many", PARTITIONS).await?;
    for second in 0..SECONDS {
        let append = |partition| {
            let topic_partition = TopicPartition::new(topic.topic_id, partition);
            Ok(PartitionAppend { topic_partition, batch: timed_batch(second, 1, &[b'x'; 256])? })
        };
        let appends = (0..PARTITIONS).map(append).collect::<Result<_>>()?;
        for result in log.append(appends).await {
            result.context("appending a record")?;
        }
    }
    bucket.take_counts();
    log.compact_now().await.context("compacting the log")?;
    let compaction = puts(&bucket.take_counts());
    ensure!(
        compaction <= COMPACTION_PUTS_MAX,
        "a compaction took {compaction} PUTs, more than {COMPACTION_PUTS_MAX}"
    );
    log.checkpoint_now().await.context("writing a checkpoint")?;
    log.collect_now().await.context("deleting what is compacted")?;
    bucket.take_counts();
    SystemClock::default().sleep(Duration::from_secs(args.idle_seconds)).await;
    let idle = bucket.take_counts().requests();
    ensure!(idle == 0, "an idle log made {idle} requests in {} s", args.idle_seconds);
    log.close().await;
    Ok((compaction, idle))
}

/// The most GETs of a cold and of a repeated time lookup.
async fn lookups(args: &RemoteArgs) -> Result<(u64, u64)> {
    let bucket = Bucket::start(Duration::ZERO).await?;
    let log = open_log(bucket.store.clone(), settings(args)).await?;
    let partition = create_topic(&log, "sought", 1).await?;
    fill(&log, partition, (0..args.batches).map(|offset| timed_batch(offset, 1, &[b'x'; 256]))).await?;
    log.compact_now().await.context("compacting the log")?;
    let (mut cold, mut repeated) = (0, 0);
    for lookup in 0..LOOKUPS {
        let offset = args.batches * (2 * lookup + 1) / (2 * LOOKUPS);
        let reader = Log::open_read_only(bucket.store.clone(), settings(args), Seams::system());
        let reader = reader.await.context("opening the log for reading")?;
        let view = reader.snapshot().partition(partition).context("the partition is there")?;
        cold = cold.max(lookup_gets(&bucket, &view, offset).await?);
        repeated = repeated.max(lookup_gets(&bucket, &view, offset).await?);
    }
    log.close().await;
    ensure!(cold <= LOOKUP_GETS_MAX, "a cold lookup took {cold} GETs, more than {LOOKUP_GETS_MAX}");
    ensure!(repeated == 0, "a repeated lookup took {repeated} GETs");
    Ok((cold, repeated))
}

async fn lookup_gets(bucket: &Bucket, view: &PartitionView, offset: i64) -> Result<u64> {
    bucket.take_counts();
    let found = view.lookup_time(FIRST_TIMESTAMP + offset, Isolation::ReadCommitted).await;
    let found = found.context("looking up a time")?.context("the time has a record")?;
    ensure!(found.offset == offset, "the lookup found offset {}, not {offset}", found.offset);
    Ok(bucket.take_counts().requests())
}

/// Bytes and GETs of a consumer that reads segments from front to end.
async fn sequential_fetch(args: &RemoteArgs) -> Result<(u64, u64)> {
    let bucket = Bucket::start(Duration::ZERO).await?;
    let log = open_log(bucket.store.clone(), settings(args)).await?;
    let partition = create_topic(&log, "fetched", 1).await?;
    let batch = workload::batch(BatchShape { record_bytes: 1024, batch_bytes_max: BATCH_BYTES_DEFAULT })?;
    let batches = FETCH_BYTES / batch.len() as u64;
    fill(&log, partition, (0..batches).map(|_| Ok(batch.clone()))).await?;
    log.compact_now().await.context("compacting the log")?;
    let view = log.snapshot().partition(partition).context("the partition is there")?;
    let end = view.bounds().high_watermark;
    drop(view);
    let server = Server::start(log).await?;
    let plan = Plan { address: server.address, topic: "fetched", max_bytes: 16 * 1024 * 1024, from: 0, end };
    bucket.take_counts();
    let fetched = tokio::task::spawn_blocking(move || consumer::fetch_all(&plan));
    let fetched = fetched.await.context("running the consumer")??;
    let asked = gets(&bucket.take_counts());
    server.stop().await?;
    ensure!(
        asked <= FETCH_GETS_MAX,
        "a fetch of {} bytes took {asked} GETs, more than {FETCH_GETS_MAX}",
        fetched.rate.bytes
    );
    Ok((fetched.rate.bytes, asked))
}
