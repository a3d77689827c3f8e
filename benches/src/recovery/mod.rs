//! `recovery`: how fast a log opens, after a crash and from a checkpoint, against reading the same
//! files from front to end; and what it takes to open a large one that is far away.

mod checkpoint;
mod segments;
mod wal;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use crate::place::{Place, PlaceArgs};
use crate::workload::{self, BATCH_BYTES_DEFAULT, BatchShape};

/// The least share of the rate of reading the same bytes.
const RATIO_MIN: f64 = 0.5;
const RECORD_BYTES: usize = 1024;

/// Open logs: many bytes of WAL, many small commits, segments, and a checkpoint of a large state.
#[derive(Clone, Debug, Args)]
pub struct RecoveryArgs {
    /// MB of record batches of 1 MiB in the WAL, and in segments
    #[arg(long, default_value_t = 512)]
    megabytes: u64,

    /// Commits of one batch of 16 KiB each
    #[arg(long, default_value_t = 20_000)]
    small_commits: u64,

    /// Partitions of the large state
    #[arg(long, default_value_t = 10_000)]
    partitions: i32,

    /// Slices of each of them
    #[arg(long, default_value_t = 20)]
    slices: i32,

    /// Producers that the large state knows, in all
    #[arg(long, default_value_t = 1_000_000)]
    producers: i64,

    /// How long each request for the large state takes at least, in milliseconds
    #[arg(long, default_value_t = 30)]
    latency_ms: u64,

    /// How often each log is opened; the medians are reported
    #[arg(long, default_value_t = 3)]
    rounds: u32,

    #[command(flatten)]
    place: PlaceArgs,
}

pub async fn run(args: &RecoveryArgs) -> Result<Value> {
    let place = Place::new(&args.place)?;
    let batch = |batch_bytes_max| workload::batch(BatchShape { record_bytes: RECORD_BYTES, batch_bytes_max });
    let (large, small) = (batch(BATCH_BYTES_DEFAULT)?, batch(16 * 1024)?);
    let count = (args.megabytes * 1_000_000).div_ceil(large.len() as u64);
    let commits = wal::Commits { batch: large.clone(), count, packing: wal::Packing::AsTheyCome };
    let wal_large = wal::measure(&place, "wal-large", &commits, args.rounds).await?;
    let commits = wal::Commits { batch: small, count: args.small_commits, packing: wal::Packing::OneEach };
    let wal_small = wal::measure(&place, "wal-small", &commits, args.rounds).await?;
    let segments = segments::measure(&place, &large, count, args.rounds).await?;
    let checkpoint = checkpoint::measure(args).await?;
    Ok(json!({
        "measurement": "recovery",
        "rounds": args.rounds,
        "ratio_min": RATIO_MIN,
        "wal_of_large_batches": wal_large,
        "wal_of_small_commits": wal_small,
        "segments": segments,
        "large_state": checkpoint,
    }))
}
