//! `idle`: what a server costs that nobody talks to. Reads /proc, so it runs on Linux alone.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::{Value, json};
use strandline_storage::seam::{Clock, SystemClock};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::measure::{Stopwatch, rounded};
use crate::place::{Place, PlaceArgs};

/// How the first line begins that a server prints when its ports answer.
const READY: &str = "strandline is ready";
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Ports of the server, by flag: free ones.
const LISTENERS: [&str; 3] = ["--kafka-listen", "--pg-listen", "--http-listen"];
/// The kernel counts CPU time for user space in hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;
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
    let clock = SystemClock::default();
    let mut server = start(args, &place)?;
    // Kept to the end: a server that prints into a closed pipe is not idle.
    let mut output = BufReader::new(server.stdout.take().context("the output is piped")?).lines();
    tokio::select! {
        ready = until_ready(&mut output) => ready?,
        () = clock.sleep(START_TIMEOUT) => {
            bail!("the server is not ready after {} s", START_TIMEOUT.as_secs())
        }
    }
    let pid = server.id().context("the server ended")?;
    let before = cpu_seconds(pid)?;
    let watch = Stopwatch::default();
    clock.sleep(Duration::from_secs(args.seconds)).await;
    let elapsed = watch.elapsed().as_secs_f64();
    let cpu = cpu_seconds(pid)? - before;
    let resident = resident_megabytes(pid)?;
    server.kill().await.context("ending the server")?;
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

fn start(args: &IdleArgs, place: &Place) -> Result<Child> {
    let mut command = Command::new(&args.binary);
    command.arg("serve").arg("--data").arg(place.path("data"));
    for flag in LISTENERS {
        command.args([flag, "127.0.0.1:0"]);
    }
    command.stdout(Stdio::piped()).stdin(Stdio::null()).kill_on_drop(true);
    command.spawn().with_context(|| format!("starting {}", args.binary.display()))
}

async fn until_ready(output: &mut Lines<BufReader<ChildStdout>>) -> Result<()> {
    while let Some(line) = output.next_line().await.context("reading the output of the server")? {
        if line.starts_with(READY) {
            return Ok(());
        }
    }
    bail!("the server ended before it was ready")
}

/// CPU time of a process in user space and in the kernel so far.
fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = read_proc(pid, "stat")?;
    let ticks = parse_cpu_ticks(&stat).with_context(|| format!("/proc/{pid}/stat has no CPU times"))?;
    Ok(ticks as f64 / TICKS_PER_SECOND)
}

/// The sum of utime and stime. They are counted from the name's closing parenthesis, because the
/// name may hold spaces.
fn parse_cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11);
    let user: u64 = times.next()?.parse().ok()?;
    let system: u64 = times.next()?.parse().ok()?;
    Some(user + system)
}

fn resident_megabytes(pid: u32) -> Result<f64> {
    let status = read_proc(pid, "status")?;
    let kibibytes =
        parse_resident_kibibytes(&status).with_context(|| format!("/proc/{pid}/status has no VmRSS"))?;
    Ok(kibibytes as f64 * 1024.0 / 1e6)
}

fn parse_resident_kibibytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn read_proc(pid: u32, name: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{name}");
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    ensure!(!text.is_empty(), "{path} is empty");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_times_are_found_behind_a_name_with_spaces() {
        let stat = "42 (a b) c) S 1 42 42 0 -1 4194560 500 0 0 0 17 5 0 0 20 0 3 0 100 1000 200";
        assert_eq!(parse_cpu_ticks(stat), Some(22));
        assert_eq!(parse_cpu_ticks("42 (a) S 1"), None);
    }

    #[test]
    fn resident_memory_is_in_kibibytes() {
        assert_eq!(parse_resident_kibibytes("VmSize:\t 9 kB\nVmRSS:\t  1234 kB\n"), Some(1234));
        assert_eq!(parse_resident_kibibytes("VmSize:\t 9 kB\n"), None);
    }
}
