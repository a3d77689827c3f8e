//! `compaction`: how fast the WAL becomes segments, against reading and writing the same bytes; and
//! how much longer producers wait while that goes on.

mod latency;
mod rate;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use crate::place::{Place, PlaceArgs};

/// Compact what is not in memory any more.
#[derive(Clone, Debug, Args)]
pub struct CompactionArgs {
    /// MB of record batches that each round compacts
    #[arg(long, default_value_t = 64)]
    megabytes: u64,

    /// Partitions that they are spread over
    #[arg(long, default_value_t = 1)]
    partitions: i32,

    /// Bytes of each batch, at most
    #[arg(long, default_value_t = 64 * 1024)]
    batch_bytes: usize,

    /// How often the rate is measured; the medians are reported
    #[arg(long, default_value_t = 9)]
    rounds: u32,

    /// How often producers are measured with and without compaction
    #[arg(long, default_value_t = 5)]
    latency_rounds: u32,

    /// MB of record batches that are compacted while producers are measured
    #[arg(long, default_value_t = 2000)]
    backlog_megabytes: u64,

    /// Batches of 16 KiB that are produced each second meanwhile
    #[arg(long, default_value_t = 200)]
    batches_per_second: u32,

    #[command(flatten)]
    place: PlaceArgs,
}

pub async fn run(args: &CompactionArgs) -> Result<Value> {
    let place = Place::new(&args.place)?;
    let rate = rate::measure(&place, args).await?;
    let latency = latency::measure(&place, args).await?;
    Ok(json!({ "measurement": "compaction", "rate": rate, "produce": latency }))
}
