//! Opening a log that is compacted and has a checkpoint, then reading all of it once: every index and
//! every block, each checked.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use serde_json::{Value, json};
use strandline_storage::log::{Block, LogSettings, PartitionView};

use crate::measure::{Rate, Stopwatch, median_rate, median_value, rounded};
use crate::place::{DATA_PREFIX, Place};
use crate::sequential;
use crate::server::{by_hand, create_topic, fill, open_log};

const TOPIC: &str = "recovered";
/// Blocks are asked for in groups of this many bytes.
const READ_BYTES: u64 = 8 * 1024 * 1024;

pub async fn measure(place: &Place, batch: &Bytes, count: u64, rounds: u32) -> Result<Value> {
    let name = "segments";
    let store = place.store(name)?;
    let settings = || LogSettings { tail_bytes_max: 0, maintenance: by_hand(), ..LogSettings::default() };
    let log = open_log(store.clone(), settings()).await?;
    let partition = create_topic(&log, TOPIC, 1).await?;
    fill(&log, partition, (0..count).map(|_| Ok(batch.clone()))).await?;
    log.compact_now().await.context("compacting the log")?;
    log.checkpoint_now().await.context("writing a checkpoint")?;
    log.close().await;
    drop(log);
    let files = place.files(name, store.as_ref(), DATA_PREFIX).await?;
    let (mut opens, mut rates, mut limits) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds.max(1) {
        limits.push(sequential::read(files.clone()).await?);
        let watch = Stopwatch::default();
        let log = open_log(Arc::clone(&store) as _, settings()).await?;
        opens.push(watch.elapsed().as_secs_f64());
        let view = log.snapshot().partition(partition).context("the partition is there")?;
        let bytes = read_all(&view).await?;
        ensure!(bytes == view.size_bytes(), "{bytes} of {} bytes were read", view.size_bytes());
        rates.push(Rate { bytes, elapsed: watch.elapsed() });
        log.close().await;
    }
    let (rate, limit) = (median_rate(rates.iter().copied()), median_rate(limits.into_iter()));
    Ok(json!({
        "segments": files.len(),
        "megabytes": rounded(rates[0].bytes as f64 / 1e6),
        "open_seconds": rounded(median_value(opens.into_iter())),
        "open_and_read_mb_per_s": rounded(rate),
        "limits": { "sequential_read_mb_per_s": rounded(limit) },
        "ratio": rounded(rate / limit),
    }))
}

async fn read_all(view: &PartitionView) -> Result<u64> {
    ensure!(view.tail().len() == 0, "all blocks are compacted");
    let mut bytes = 0;
    for slice in view.slices() {
        let blocks = view.slice_blocks(slice).await.context("reading the index of a slice")?;
        let mut rest = &blocks[..];
        while !rest.is_empty() {
            let (group, others) = rest.split_at(group_length(rest));
            let read = view.read_blocks(group).await.context("reading blocks")?;
            bytes += read.iter().map(|block| block.len() as u64).sum::<u64>();
            rest = others;
        }
    }
    Ok(bytes)
}

fn group_length(blocks: &[Block]) -> usize {
    let mut bytes = 0;
    let fits = blocks.iter().take_while(|block| {
        bytes += u64::from(block.length);
        bytes <= READ_BYTES
    });
    fits.count().max(1)
}
