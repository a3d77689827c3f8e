//! Opening a log whose state is large, from a checkpoint on an S3 server that takes its time.
//!
//! The state is made by the log itself: each round appends one batch of each of some producers to each
//! partition, and compacts, which gives each partition a slice. Nothing is merged, so the slices are as
//! many as merges would leave in a log of any age.
//!
//! Asserted: the number of requests, and that a producer is still known.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use serde_json::{Value, json};
use strandline_storage::format::{BatchBuilder, BatchOptions, ProducerIdentity};
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::{Log, LogSettings, MaintenanceSettings, PartitionAppend};

use super::RecoveryArgs;
use crate::bucket::{Bucket, gets};
use crate::measure::{Stopwatch, median_value, rounded};
use crate::server::{by_hand, create_topic, open_log};
use crate::workload::FIRST_TIMESTAMP;

const GETS_MAX: u64 = 300;
const SECONDS_MAX: f64 = 5.0;
/// A topic has this many partitions.
const TOPIC_PARTITIONS: i32 = 1000;
const APPENDS_PER_REQUEST: usize = 10_000;

pub(super) async fn measure(args: &RecoveryArgs) -> Result<Value> {
    let bucket = Bucket::start(Duration::ZERO).await?;
    let log = open_log(bucket.store.clone(), settings()).await?;
    let partitions = create_topics(&log, args.partitions).await?;
    let rounds = i64::from(args.slices.max(1));
    let per_partition = args.producers / (rounds * partitions.len().max(1) as i64);
    for round in 0..rounds {
        append_round(&log, &partitions, round, per_partition).await?;
        log.compact_now().await.context("compacting the log")?;
    }
    log.checkpoint_now().await.context("writing a checkpoint")?;
    drop(log);

    bucket.set_latency(Duration::from_millis(args.latency_ms));
    let (mut seconds, mut counts) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds.max(1) {
        bucket.take_counts();
        let watch = Stopwatch::default();
        let log = open_log(bucket.store.clone(), settings()).await?;
        seconds.push(watch.elapsed().as_secs_f64());
        counts.push(bucket.take_counts());
        check(&log, &partitions, rounds, per_partition).await?;
    }
    let most = counts.iter().map(gets).max().unwrap_or_default();
    ensure!(most <= GETS_MAX, "the open took {most} GETs, more than {GETS_MAX}");
    let seconds = median_value(seconds.into_iter());
    Ok(json!({
        "partitions": partitions.len(),
        "slices": rounds * partitions.len() as i64,
        "producers": rounds * per_partition * partitions.len() as i64,
        "latency_ms": args.latency_ms,
        "gets": most,
        "lists": counts[0].lists,
        "megabytes_read": rounded(counts[0].bytes_out as f64 / 1e6),
        "open_seconds": rounded(seconds),
        "limits": { "gets": GETS_MAX, "seconds": SECONDS_MAX },
        "ratio": rounded(seconds / SECONDS_MAX),
    }))
}

fn settings() -> LogSettings {
    LogSettings {
        linger: Some(Duration::ZERO),
        // One large commit takes its time on a busy machine.
        put_timeout: Duration::from_secs(60),
        maintenance: MaintenanceSettings { merge_slices: usize::MAX, ..by_hand() },
        ..LogSettings::default()
    }
}

async fn create_topics(log: &Log, partitions: i32) -> Result<Vec<TopicPartition>> {
    let mut created = Vec::new();
    for first in (0..partitions).step_by(TOPIC_PARTITIONS as usize) {
        let count = TOPIC_PARTITIONS.min(partitions - first);
        let topic = create_topic(log, &format!("large-{first}"), count).await?;
        created.extend((0..count).map(|partition| TopicPartition::new(topic.topic_id, partition)));
    }
    Ok(created)
}

/// One batch of each of `producers` new producers, to each partition.
async fn append_round(log: &Log, partitions: &[TopicPartition], round: i64, producers: i64) -> Result<()> {
    let mut pending = Vec::new();
    let appends = partitions.iter().flat_map(|partition| (0..producers).map(move |index| (partition, index)));
    let appends: Vec<_> = appends
        .map(|(partition, index)| {
            let batch = batch(round * producers + index)?;
            Ok(PartitionAppend { topic_partition: *partition, batch })
        })
        .collect::<Result<_>>()?;
    for request in appends.chunks(APPENDS_PER_REQUEST) {
        pending.push(log.submit(request.to_vec()).await);
    }
    for append in pending {
        for result in append.await {
            result.context("appending the batch of a producer")?;
        }
    }
    Ok(())
}

fn batch(producer_id: i64) -> Result<Bytes> {
    let producer = Some(ProducerIdentity { producer_id, producer_epoch: 0, base_sequence: 0 });
    let mut builder = BatchBuilder::new(BatchOptions { producer, ..BatchOptions::default() });
    builder.append(Some(FIRST_TIMESTAMP), None, Some(b"value"), &[])?;
    Ok(builder.finish())
}

/// The last partition has its slices, and knows its first producer.
async fn check(log: &Log, partitions: &[TopicPartition], slices: i64, producers: i64) -> Result<()> {
    let Some(last) = partitions.last().copied().filter(|_| producers > 0) else { return Ok(()) };
    let view = log.snapshot().partition(last).context("the partition is there")?;
    ensure!(view.slices().len() as i64 == slices, "{} of {slices} slices are there", view.slices().len());
    let again = PartitionAppend { topic_partition: last, batch: batch(0)? };
    let appended = log.append(vec![again]).await.remove(0).context("appending a batch again")?;
    ensure!(appended.is_duplicate, "the log has forgotten a producer");
    Ok(())
}
