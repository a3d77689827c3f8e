//! How long a producer waits for its acknowledgements while the log does nothing else, and while it
//! compacts without a pause. Both are measured in turns.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use strandline_storage::log::{Log, LogSettings, MaintenanceSettings};

use super::CompactionArgs;
use crate::generator::{self, Load};
use crate::measure::{median_value, milliseconds, percentile, rounded};
use crate::place::Place;
use crate::server::{Server, by_hand, create_topic, fill, open_log};
use crate::workload::{self, BATCH_BYTES_DEFAULT, BatchShape};

const TOPIC: &str = "produced";
const BATCH_BYTES: usize = 16 * 1024;
/// How long the producer is watched without compaction.
const QUIET_SECONDS: u32 = 4;
const RATIO_MAX: f64 = 1.5;

struct Round {
    quiet: Vec<Duration>,
    busy: Vec<Duration>,
}

pub(super) async fn measure(place: &Place, args: &CompactionArgs) -> Result<Value> {
    let maintenance =
        MaintenanceSettings { wal_delete_delay: Duration::ZERO, checkpoints_kept: 1, ..by_hand() };
    let settings = LogSettings { tail_bytes_max: 0, maintenance, ..LogSettings::default() };
    let log = open_log(place.store("latency")?, settings).await?;
    create_topic(&log, TOPIC, 1).await?;
    let server = Server::start(log.clone()).await?;
    let batch = workload::batch(BatchShape { record_bytes: 1024, batch_bytes_max: BATCH_BYTES })?;
    let producer = Producer {
        address: server.address,
        load: Load::new(TOPIC, batch, 1, 0),
        pace: Duration::from_secs(1) / args.batches_per_second.max(1),
        quiet_count: (args.batches_per_second * QUIET_SECONDS) as usize,
    };
    let backlog = workload::batch(BatchShape { record_bytes: 1024, batch_bytes_max: BATCH_BYTES_DEFAULT })?;
    let mut rounds = Vec::new();
    for number in 0..args.latency_rounds.max(1) {
        let name = format!("backlog-{number}");
        let topic = create_topic(&log, &name, 1).await?;
        let count = (args.backlog_megabytes * 1_000_000).div_ceil(backlog.len() as u64);
        fill(&log, topic, (0..count).map(|_| Ok(backlog.clone()))).await?;
        rounds.push(producer.round(&log).await?);
        log.delete_topic(topic.topic_id).await.context("deleting the backlog")?;
        // What was compacted makes room for the next round.
        log.checkpoint_now().await.context("writing a checkpoint")?;
        log.collect_now().await.context("deleting what is compacted")?;
    }
    server.stop().await?;
    Ok(report(args, &rounds))
}

struct Producer {
    address: SocketAddr,
    load: Load,
    pace: Duration,
    quiet_count: usize,
}

impl Producer {
    async fn round(&self, log: &Log) -> Result<Round> {
        let count = self.quiet_count;
        let quiet = self.produce(move |sent| sent >= count).await?;
        let compacted = Arc::new(AtomicBool::new(false));
        let ends = compacted.clone();
        let produce = self.produce(move |_| ends.load(Ordering::Relaxed));
        let compact = async {
            let result = log.compact_now().await;
            compacted.store(true, Ordering::Relaxed);
            result.context("compacting the backlog")
        };
        let (busy, compacted) = tokio::join!(produce, compact);
        compacted?;
        Ok(Round { quiet, busy: busy? })
    }

    async fn produce(&self, ends: impl Fn(usize) -> bool + Send + 'static) -> Result<Vec<Duration>> {
        let (address, load, pace) = (self.address, self.load.clone(), self.pace);
        let produce = tokio::task::spawn_blocking(move || generator::latencies(address, &load, pace, ends));
        produce.await.context("running the producer")?
    }
}

fn report(args: &CompactionArgs, rounds: &[Round]) -> Value {
    let of = |share: f64, samples: fn(&Round) -> &Vec<Duration>| {
        rounds.iter().map(move |round| percentile(samples(round).clone(), share)).collect::<Vec<_>>()
    };
    let (quiet, busy) = (of(0.99, |round| &round.quiet), of(0.99, |round| &round.busy));
    let ratios: Vec<_> = busy.iter().zip(&quiet).map(|(busy, quiet)| busy.div_duration_f64(*quiet)).collect();
    let middle = |values: &[Duration]| rounded(median_value(values.iter().copied().map(milliseconds)));
    json!({
        "rounds": rounds.len(),
        "batches_per_second": args.batches_per_second,
        "backlog_megabytes": args.backlog_megabytes,
        "samples": rounds.iter().map(|round| json!([round.quiet.len(), round.busy.len()])).collect::<Vec<_>>(),
        "quiet_p50_ms": middle(&of(0.5, |round| &round.quiet)),
        "compacting_p50_ms": middle(&of(0.5, |round| &round.busy)),
        "quiet_p99_ms": middle(&quiet),
        "compacting_p99_ms": middle(&busy),
        "ratios": ratios.iter().copied().map(rounded).collect::<Vec<_>>(),
        "ratio": rounded(median_value(ratios.into_iter())),
        "ratio_max": RATIO_MAX,
    })
}
