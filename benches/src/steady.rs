//! `steady`: whether a log that is written to in many small commits stays as small as it should.
//!
//! A log of ten minutes does not fit a measurement of one, so time is pressed: the counts and the times
//! at which the log is compacted, checkpointed and cleared are a fraction of the default ones.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::{Log, LogSettings, MaintenanceSettings, PartitionAppend};
use strandline_storage::object::LogStore;
use strandline_storage::seam::{Clock, SystemClock};

use crate::measure::rounded;
use crate::place::{Place, PlaceArgs};
use crate::server::{create_topic, finish, open_log};
use crate::workload::{self, BatchShape};

const TOPIC: &str = "steady";
/// Defaults on a local directory.
const COMPACTION_OBJECTS: u64 = 16_384;
const CHECKPOINT_WAL_OBJECTS: u64 = 49_152;
const SEGMENT_DELETE_DELAY: Duration = Duration::from_secs(60);
const BYTES_PER_LIVE_BYTE_MAX: f64 = 3.0;
const TICK: Duration = Duration::from_millis(5);
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
const APPENDS_IN_FLIGHT_MAX: usize = 1000;

/// Write small commits, and watch how many objects and bytes there are.
#[derive(Clone, Debug, Args)]
pub struct SteadyArgs {
    /// How long to write, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,

    /// Commits each second, each of one batch
    #[arg(long, default_value_t = 2000)]
    commits_per_second: u32,

    /// Bytes of each batch, at most
    #[arg(long, default_value_t = 1200)]
    batch_bytes: usize,

    /// How much smaller thresholds and delays are than the default ones
    #[arg(long, default_value_t = 10)]
    pressed: u32,

    #[command(flatten)]
    place: PlaceArgs,
}

/// What was in the store at one moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    seconds: f64,
    objects: usize,
    bytes: u64,
    live_bytes: u64,
}

impl Sample {
    fn bytes_per_live_byte(&self) -> f64 {
        self.bytes as f64 / self.live_bytes.max(1) as f64
    }
}

pub async fn run(args: &SteadyArgs) -> Result<Value> {
    let place = Place::new(&args.place)?;
    let store: Arc<dyn LogStore> = place.store("log")?;
    let log = open_log(store.clone(), settings(args.pressed)).await?;
    let partition = create_topic(&log, TOPIC, 1).await?;
    let (written, samples) = tokio::join!(write(args, &log, partition), watch(args, &log, &*store));
    let (commits, seconds) = written?;
    let samples = samples?;
    log.close().await;
    Ok(report(args, commits as f64 / seconds, &samples))
}

fn settings(pressed: u32) -> LogSettings {
    let defaults = MaintenanceSettings::default();
    let maintenance = MaintenanceSettings {
        compaction_bytes: defaults.compaction_bytes / u64::from(pressed),
        compaction_objects: Some(COMPACTION_OBJECTS / u64::from(pressed)),
        compaction_interval: defaults.compaction_interval / pressed,
        small_slice_bytes: defaults.small_slice_bytes / u64::from(pressed),
        checkpoint_interval: defaults.checkpoint_interval / pressed,
        checkpoint_wal_bytes: defaults.checkpoint_wal_bytes / u64::from(pressed),
        checkpoint_wal_objects: Some(CHECKPOINT_WAL_OBJECTS / u64::from(pressed)),
        checkpoint_age_max: defaults.checkpoint_age_max / pressed,
        wal_delete_delay: defaults.wal_delete_delay / pressed,
        segment_delete_delay: Some(SEGMENT_DELETE_DELAY / pressed),
        ..defaults
    };
    // A commit takes at least one append, and no second one that goes beyond this.
    LogSettings { commit_bytes_max: 1, maintenance, ..LogSettings::default() }
}

/// Appends batches at the rate; gives how many, and the seconds it took.
async fn write(args: &SteadyArgs, log: &Log, topic_partition: TopicPartition) -> Result<(u64, f64)> {
    let shape = BatchShape { record_bytes: 1024, batch_bytes_max: args.batch_bytes };
    let batch = workload::batch(shape)?;
    let clock = SystemClock::default();
    let mut pending = VecDeque::new();
    let mut commits = 0;
    while clock.monotonic() < Duration::from_secs(args.seconds) {
        let due = (clock.monotonic().as_secs_f64() * f64::from(args.commits_per_second)) as u64;
        while commits < due {
            if pending.len() >= APPENDS_IN_FLIGHT_MAX {
                finish(pending.pop_front()).await?;
            }
            let append = PartitionAppend { topic_partition, batch: batch.clone() };
            pending.push_back(log.submit(vec![append]).await);
            commits += 1;
        }
        clock.sleep(TICK).await;
    }
    while !pending.is_empty() {
        finish(pending.pop_front()).await?;
    }
    Ok((commits, clock.monotonic().as_secs_f64()))
}

/// Looks at the store from time to time.
async fn watch(args: &SteadyArgs, log: &Log, store: &dyn LogStore) -> Result<Vec<Sample>> {
    let clock = SystemClock::default();
    let mut samples = Vec::new();
    while clock.monotonic() < Duration::from_secs(args.seconds) {
        clock.sleep(SAMPLE_INTERVAL).await;
        let listed = store.list("shards").await.context("listing the store")?;
        let shards = log.snapshot().shard_stats();
        samples.push(Sample {
            seconds: clock.monotonic().as_secs_f64(),
            objects: listed.len(),
            bytes: listed.iter().map(|object| object.length).sum(),
            live_bytes: shards.iter().map(|shard| shard.live_bytes + shard.tail_bytes).sum(),
        });
    }
    Ok(samples)
}

fn report(args: &SteadyArgs, commits_per_second: f64, samples: &[Sample]) -> Value {
    let ratio = samples.iter().map(Sample::bytes_per_live_byte).fold(0.0, f64::max);
    // In the first half everything begins with nothing to delete.
    let later = &samples[samples.len() / 2..];
    let later_ratio = later.iter().map(Sample::bytes_per_live_byte).fold(0.0, f64::max);
    let most = |samples: &[Sample]| samples.iter().map(|sample| sample.objects).max();
    let curve = samples.iter().map(|sample| {
        let megabytes = |bytes: u64| rounded(bytes as f64 / 1e6);
        json!([sample.seconds.round(), sample.objects, megabytes(sample.bytes), megabytes(sample.live_bytes)])
    });
    json!({
        "measurement": "steady",
        "seconds": args.seconds,
        "pressed": args.pressed,
        "batch_bytes_max": args.batch_bytes,
        "commits_per_second": rounded(commits_per_second),
        "objects_max": most(samples),
        "objects_max_of_first_half": most(&samples[..samples.len() / 2]),
        "bytes_per_live_byte_max": rounded(ratio),
        "bytes_per_live_byte_max_of_second_half": rounded(later_ratio),
        "limits": { "bytes_per_live_byte": BYTES_PER_LIVE_BYTE_MAX },
        "ratio": rounded(ratio / BYTES_PER_LIVE_BYTE_MAX),
        "curve_of_seconds_objects_mb_live_mb": curve.collect::<Vec<_>>(),
    })
}
