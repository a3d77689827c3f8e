//! `remote`: a log on an S3 server that takes its time: how long producers wait, what the server is
//! asked for, and what that costs.
//!
//! The server is in memory, in this process, and is reached over HTTP.

mod budget;
mod cost;
mod latency;

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

/// Produce to a bucket and read back from it.
#[derive(Clone, Debug, Args)]
pub struct RemoteArgs {
    /// How long each request takes at least, in milliseconds
    #[arg(long, default_value_t = 30)]
    latency_ms: u64,

    /// How long a commit waits for company, in milliseconds
    #[arg(long, default_value_t = 25)]
    linger_ms: u64,

    /// Requests of each kind of producer
    #[arg(long, default_value_t = 200)]
    requests: u64,

    /// How long the idle log is watched, in seconds
    #[arg(long, default_value_t = 60)]
    idle_seconds: u64,

    /// Batches of the partition on which times are looked up
    #[arg(long, default_value_t = 100_000)]
    batches: i64,

    /// How long each rate is produced, in seconds
    #[arg(long, default_value_t = 40)]
    cost_seconds: u64,
}

impl RemoteArgs {
    fn latency(&self) -> Duration {
        Duration::from_millis(self.latency_ms)
    }

    fn linger(&self) -> Duration {
        Duration::from_millis(self.linger_ms)
    }
}

pub async fn run(args: &RemoteArgs) -> Result<Value> {
    let latency = latency::measure(args).await?;
    let budgets = budget::check(args).await?;
    let costs = cost::measure(args).await?;
    Ok(json!({
        "measurement": "remote",
        "latency_ms": args.latency_ms,
        "linger_ms": args.linger_ms,
        "produce": latency,
        "requests": budgets,
        "costs": costs,
    }))
}
