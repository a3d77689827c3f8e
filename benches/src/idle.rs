//! `idle`: what a server costs that nobody talks to.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use strandline_storage::seam::{Clock, SystemClock};

use crate::measure::{Stopwatch, rounded};
use crate::place::{Place, PlaceArgs};
use crate::process::ServerProcess;

const CPU_PERCENT_MAX: f64 = 1.0;
const RESIDENT_MB_MAX: f64 = 100.0;

/// Start a server and measure what it costs to do nothing.
#[derive(Clone, Debug, Args)]
pub struct IdleArgs {
    /// The strandline binary
    binary: PathBuf,

    /// How long to watch it, in seconds
    #[arg(long, default_value_t = 20)]
    seconds: u64,

    #[command(flatten)]
    place: PlaceArgs,
}

pub async fn run(args: &IdleArgs) -> Result<Value> {
    let place = Place::new(&args.place)?;
    let mut server = ServerProcess::start(&args.binary, &place.path("data"), &[]).await?;
    let before = server.cpu_seconds()?;
    let watch = Stopwatch::default();
    SystemClock::default().sleep(Duration::from_secs(args.seconds)).await;
    let elapsed = watch.elapsed().as_secs_f64();
    let cpu = server.cpu_seconds()? - before;
    let resident = server.resident_megabytes()?;
    server.kill().await?;
    let percent = 100.0 * cpu / elapsed;
    Ok(json!({
        "measurement": "idle",
        "seconds": rounded(elapsed),
        "cpu_seconds": rounded(cpu),
        "cpu_percent": rounded(percent),
        "resident_mb": rounded(resident),
        "limits": { "cpu_percent": CPU_PERCENT_MAX, "resident_mb": RESIDENT_MB_MAX },
        "ratios": {
            "cpu": rounded(percent / CPU_PERCENT_MAX),
            "resident": rounded(resident / RESIDENT_MB_MAX),
        },
    }))
}
