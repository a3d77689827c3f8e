//! Opening after a crash: nothing is compacted, there is no checkpoint, and the whole WAL is walked.

use std::sync::Arc;

use anyhow::{Result, ensure};
use bytes::Bytes;
use serde_json::{Value, json};
use strandline_storage::log::LogSettings;
use strandline_storage::object::CountingStore;

use crate::measure::{Stopwatch, median_rate, median_value, rounded};
use crate::place::{Place, WAL_PREFIX};
use crate::sequential;
use crate::server::{by_hand, create_topic, fill, open_log};

const TOPIC: &str = "recovered";

/// Whether batches share commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    AsTheyCome,
    OneEach,
}

#[derive(Clone, Debug)]
pub struct Commits {
    pub batch: Bytes,
    pub count: u64,
    pub packing: Packing,
}

pub async fn measure(place: &Place, name: &str, commits: &Commits, rounds: u32) -> Result<Value> {
    let store = Arc::new(CountingStore::new(place.store(name)?));
    let log = open_log(store.clone(), settings(commits.packing)).await?;
    let partition = create_topic(&log, TOPIC, 1).await?;
    fill(&log, partition, (0..commits.count).map(|_| Ok(commits.batch.clone()))).await?;
    let (objects, bytes) = log.snapshot().wal_size();
    let end = |log: &strandline_storage::log::Log| {
        log.snapshot().partition(partition).map(|view| view.bounds().high_watermark)
    };
    let expected = end(&log);
    // Not closed: the next open finds what a crash would have left.
    drop(log);
    let files = place.files(name, store.as_ref(), WAL_PREFIX).await?;
    let (mut opens, mut limits, mut read) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds.max(1) {
        limits.push(sequential::read(files.clone()).await?);
        let before = store.counts();
        let watch = Stopwatch::default();
        let log = open_log(store.clone(), settings(commits.packing)).await?;
        opens.push(watch.elapsed().as_secs_f64());
        let counts = store.counts();
        read.push((counts.bytes_read - before.bytes_read, counts.gets - before.gets));
        ensure!(end(&log) == expected, "the log does not end where it ended before the crash");
    }
    let seconds = median_value(opens.into_iter());
    let rate = bytes as f64 / 1e6 / seconds;
    let limit = median_rate(limits.into_iter());
    let (bytes_read, gets) = read[0];
    Ok(json!({
        "objects": objects,
        "megabytes": rounded(bytes as f64 / 1e6),
        "megabytes_read": rounded(bytes_read as f64 / 1e6),
        "gets": gets,
        "open_seconds": rounded(seconds),
        "open_mb_per_s": rounded(rate),
        "open_objects_per_s": (objects as f64 / seconds).round(),
        "limits": { "sequential_read_mb_per_s": rounded(limit) },
        "ratio": rounded(rate / limit),
    }))
}

fn settings(packing: Packing) -> LogSettings {
    let defaults = LogSettings::default();
    let commit_bytes_max = match packing {
        Packing::AsTheyCome => defaults.commit_bytes_max,
        Packing::OneEach => 1,
    };
    LogSettings { commit_bytes_max, maintenance: by_hand(), ..defaults }
}
