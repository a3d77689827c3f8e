//! Requests for each GB written and read back, and what they cost in a month, beside an object for
//! each batch.
//!
//! A log with default settings is written to at a steady rate, through compaction, checkpoints, merges
//! and deletion. To see all of them in a minute, time is pressed: the rate is a multiple of the one that
//! is asked about, and the linger, all delays and all intervals are as much shorter, so that each GB
//! takes the same requests.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use strandline_s3_mock::Counts;
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::{Log, LogSettings, MaintenanceSettings, PartitionAppend};
use strandline_storage::seam::{Clock, SystemClock};

use super::RemoteArgs;
use crate::bucket::{Bucket, gets, puts};
use crate::consumer::{self, Plan};
use crate::measure::rounded;
use crate::server::{Server, create_topic, finish, open_log};
use crate::workload::{self, BatchShape};

/// S3 Standard in us-east-1, in US dollars.
const USD_PER_PUT: f64 = 0.005 / 1000.0;
const USD_PER_GET: f64 = 0.0004 / 1000.0;
const USD_PER_GB_MONTH: f64 = 0.023;
const MONTH_SECONDS: f64 = 30.0 * 24.0 * 3600.0;

const TOPIC: &str = "written";
const BATCH_BYTES: usize = 16 * 1024;
/// How long a commit waits for company on a remote store.
const LINGER: Duration = Duration::from_millis(250);
const SEGMENT_DELETE_DELAY: Duration = Duration::from_secs(3600);
/// Batches that are due are appended together, this often.
const TICK: Duration = Duration::from_millis(5);
const APPENDS_IN_FLIGHT_MAX: usize = 4000;
const FETCH_MAX_BYTES: i32 = 16 * 1024 * 1024;

/// A rate that is asked about.
struct Case {
    megabytes_per_second: f64,
    /// How much faster than in life everything goes.
    pressed: u32,
}

const CASES: [Case; 2] =
    [Case { megabytes_per_second: 1.0, pressed: 10 }, Case { megabytes_per_second: 10.0, pressed: 5 }];

pub(super) async fn measure(args: &RemoteArgs) -> Result<Value> {
    let mut reports = Vec::new();
    for case in &CASES {
        reports.push(case.measure(args).await?);
    }
    Ok(Value::Array(reports))
}

impl Case {
    async fn measure(&self, args: &RemoteArgs) -> Result<Value> {
        let bucket = Bucket::start(args.latency() / self.pressed).await?;
        let log = open_log(bucket.store.clone(), self.settings()).await?;
        let partition = create_topic(&log, TOPIC, 1).await?;
        bucket.take_counts();
        let written = self.write(&log, partition, Duration::from_secs(args.cost_seconds)).await?;
        log.compact_now().await.context("compacting the rest")?;
        log.checkpoint_now().await.context("writing the last checkpoint")?;
        let writing = bucket.take_counts();
        let stored = bucket.stored_bytes();
        let end = log.snapshot().partition(partition).map_or(0, |view| view.bounds().high_watermark);
        let server = Server::start(log).await?;
        let plan = Plan { address: server.address, topic: TOPIC, max_bytes: FETCH_MAX_BYTES, from: 0, end };
        let read = tokio::task::spawn_blocking(move || consumer::fetch_all(&plan));
        let read = read.await.context("running the consumer")??.rate.bytes;
        let reading = bucket.take_counts();
        server.stop().await?;
        Ok(self.report(&Traffic { written, writing, stored, read, reading }))
    }

    fn settings(&self) -> LogSettings {
        let defaults = MaintenanceSettings::default();
        let maintenance = MaintenanceSettings {
            compaction_interval: defaults.compaction_interval / self.pressed,
            checkpoint_interval: defaults.checkpoint_interval / self.pressed,
            checkpoint_age_max: defaults.checkpoint_age_max / self.pressed,
            wal_delete_delay: defaults.wal_delete_delay / self.pressed,
            segment_delete_delay: Some(SEGMENT_DELETE_DELAY / self.pressed),
            ..defaults
        };
        LogSettings { linger: Some(LINGER / self.pressed), maintenance, ..LogSettings::default() }
    }

    /// Appends batches at the rate; gives the bytes.
    async fn write(&self, log: &Log, topic_partition: TopicPartition, time: Duration) -> Result<u64> {
        let batch = workload::batch(BatchShape { record_bytes: 1024, batch_bytes_max: BATCH_BYTES })?;
        let clock = SystemClock::default();
        let bytes_per_second = self.megabytes_per_second * 1e6 * f64::from(self.pressed);
        let mut pending = VecDeque::new();
        let mut written = 0;
        while clock.monotonic() < time {
            let due = clock.monotonic().as_secs_f64() * bytes_per_second;
            while (written as f64) < due {
                if pending.len() >= APPENDS_IN_FLIGHT_MAX {
                    finish(pending.pop_front()).await?;
                }
                let append = PartitionAppend { topic_partition, batch: batch.clone() };
                pending.push_back(log.submit(vec![append]).await);
                written += batch.len() as u64;
            }
            clock.sleep(TICK).await;
        }
        while !pending.is_empty() {
            finish(pending.pop_front()).await?;
        }
        Ok(written)
    }

    fn report(&self, traffic: &Traffic) -> Value {
        let gigabytes = traffic.written as f64 / 1e9;
        let gigabytes_a_month = self.megabytes_per_second * MONTH_SECONDS / 1e3;
        let usd = requests_usd(&traffic.writing) / gigabytes * gigabytes_a_month;
        let read_usd = requests_usd(&traffic.reading) / (traffic.read as f64 / 1e9) * gigabytes_a_month;
        let batches = gigabytes_a_month * 1e9 / BATCH_BYTES as f64;
        json!({
            "mb_per_s": self.megabytes_per_second,
            "pressed": self.pressed,
            "megabytes_written": rounded(traffic.written as f64 / 1e6),
            "written_per_gb": per_gigabyte(&traffic.writing, traffic.written),
            "read_per_gb": per_gigabyte(&traffic.reading, traffic.read),
            "stored_bytes_per_byte_at_the_end": rounded(traffic.stored as f64 / traffic.written as f64),
            "requests_usd_per_month": rounded(usd),
            "reading_once_usd_per_month": rounded(read_usd),
            "usd_per_month_for_each_month_kept": rounded(gigabytes_a_month * USD_PER_GB_MONTH),
            "limits": { "object_per_batch_requests_usd_per_month": rounded(batches * USD_PER_PUT) },
            "ratio": rounded(usd / (batches * USD_PER_PUT)),
        })
    }
}

/// What one case wrote and read, and what the server was asked for meanwhile.
struct Traffic {
    written: u64,
    writing: Counts,
    stored: u64,
    read: u64,
    reading: Counts,
}

/// Deletions cost nothing.
fn requests_usd(counts: &Counts) -> f64 {
    puts(counts) as f64 * USD_PER_PUT + gets(counts) as f64 * USD_PER_GET
}

fn per_gigabyte(counts: &Counts, bytes: u64) -> Value {
    let per = |count: u64| (count as f64 / (bytes as f64 / 1e9)).round();
    json!({
        "puts": per(counts.puts),
        "upload_requests": per(counts.uploads_created + counts.parts + counts.uploads_completed),
        "gets": per(counts.gets),
        "heads": per(counts.heads),
        "lists": per(counts.lists),
        "deletes": per(counts.deletes),
        "gb_in": rounded(counts.bytes_in as f64 / bytes as f64),
        "gb_out": rounded(counts.bytes_out as f64 / bytes as f64),
    })
}
