//! The rate of a compaction that reads everything from the store.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::LogSettings;

use super::CompactionArgs;
use crate::measure::{Rate, Stopwatch, median_rate, rounded};
use crate::place::{Place, WAL_PREFIX};
use crate::sequential;
use crate::server::{by_hand, create_topic, fill, open_log};
use crate::workload::{self, BatchShape};

const TOPIC: &str = "compacted";
const NAME: &str = "compaction";
const RATIO_MIN: f64 = 0.5;

pub(super) async fn measure(place: &Place, args: &CompactionArgs) -> Result<Value> {
    let store = place.store(NAME)?;
    let settings = LogSettings { tail_bytes_max: 0, maintenance: by_hand(), ..LogSettings::default() };
    let log = open_log(store.clone(), settings).await?;
    let first = create_topic(&log, TOPIC, args.partitions).await?;
    let batch = workload::batch(BatchShape { record_bytes: 1024, batch_bytes_max: args.batch_bytes })?;
    let share = (args.megabytes * 1_000_000).div_ceil(batch.len() as u64 * args.partitions.max(1) as u64);
    let bytes = share * batch.len() as u64 * args.partitions.max(1) as u64;
    let mut seen = BTreeSet::new();
    let (mut rates, mut limits) = (Vec::new(), Vec::new());
    for round in 0..args.rounds.max(1) {
        for partition in 0..args.partitions {
            let partition = TopicPartition::new(first.topic_id, partition);
            fill(&log, partition, (0..share).map(|_| Ok(batch.clone()))).await?;
        }
        let files = place.files(NAME, store.as_ref(), WAL_PREFIX).await?;
        let new = files.iter().filter(|file| !seen.contains(*file)).cloned().collect();
        limits.push(sequential::copy(new, place.path(&format!("copy-{round}"))).await?);
        let watch = Stopwatch::default();
        log.compact_now().await.context("compacting the log")?;
        rates.push(Rate { bytes, elapsed: watch.elapsed() });
        seen.extend(files);
    }
    log.close().await;
    let (rate, limit) = (median_rate(rates.iter().copied()), median_rate(limits.into_iter()));
    let of_rounds = rates.iter().map(|rate| rounded(rate.megabytes_per_second()));
    Ok(json!({
        "megabytes": rounded(bytes as f64 / 1e6),
        "rounds": rates.len(),
        "partitions": args.partitions,
        "batch_bytes_max": args.batch_bytes,
        "compaction_mb_per_s": rounded(rate),
        "compaction_mb_per_s_of_rounds": of_rounds.collect::<Vec<_>>(),
        "limits": { "read_and_write_mb_per_s": rounded(limit) },
        "ratio": rounded(rate / limit),
        "ratio_min": RATIO_MIN,
    }))
}
