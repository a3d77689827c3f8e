//! `strandline-bench`: measurements of the log and the Kafka port.
//!
//! Each command prints one JSON object: the figure, the limits that were measured in the same run
//! on the same machine, and the ratio of the two. docs/performance.md says what they mean.
//!
//! Invariant: nothing here is a test with a time in it. What must hold on any machine (how many requests
//! a store gets, that every record is acknowledged) ends a run with an error.

mod bucket;
mod compaction;
mod consumer;
mod crowd;
mod fetch;
mod generator;
mod idle;
mod measure;
mod memory;
mod partitions;
mod place;
mod process;
mod produce;
mod recovery;
mod remote;
mod seek;
mod sequential;
mod server;
mod steady;
mod wire;
mod workload;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use serde_json::Value;

/// Measurements, each with the limits taken in the same run. Build with --release.
#[derive(Debug, Parser)]
#[command(name = "strandline-bench")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Produce(produce::ProduceArgs),
    Fetch(fetch::FetchArgs),
    Seek(seek::SeekArgs),
    Recovery(recovery::RecoveryArgs),
    Compaction(compaction::CompactionArgs),
    Remote(remote::RemoteArgs),
    Steady(steady::SteadyArgs),
    Memory(memory::MemoryArgs),
    Idle(idle::IdleArgs),
    Partitions(partitions::PartitionsArgs),
}

fn main() -> Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
    let report = runtime.block_on(run(Cli::parse().command))?;
    println!("{}", serde_json::to_string_pretty(&report).context("writing the report")?);
    Ok(())
}

async fn run(command: Command) -> Result<Value> {
    match command {
        Command::Produce(args) => produce::run(&args).await,
        Command::Fetch(args) => fetch::run(&args).await,
        Command::Seek(args) => seek::run(&args).await,
        Command::Recovery(args) => recovery::run(&args).await,
        Command::Compaction(args) => compaction::run(&args).await,
        Command::Remote(args) => remote::run(&args).await,
        Command::Steady(args) => steady::run(&args).await,
        Command::Memory(args) => memory::run(&args).await,
        Command::Idle(args) => idle::run(&args).await,
        Command::Partitions(args) => partitions::run(&args).await,
    }
}
