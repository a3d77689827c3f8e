//! A server in a process of its own, and what the system says of it. Reads /proc, so it runs on Linux
//! alone.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use strandline_storage::seam::{Clock, SystemClock};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::crowd::Ports;

/// How the first line begins that a server prints when its ports answer.
const READY: &str = "strandline is ready";
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Ports of the server, by flag: free ones.
const LISTENERS: [&str; 3] = ["--kafka-listen", "--pg-listen", "--http-listen"];
/// The kernel counts CPU time for user space in hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running server. It ends when this is dropped.
pub struct ServerProcess {
    child: Child,
    pid: u32,
    pub kafka: SocketAddr,
    postgres: SocketAddr,
    http: SocketAddr,
    /// Kept to the end: a server that prints into a closed pipe is not itself.
    _output: Lines<BufReader<ChildStdout>>,
}

impl ServerProcess {
    /// Starts a server on a data directory with settings from environment variables, and waits until
    /// its ports answer.
    pub async fn start(binary: &Path, data: &Path, settings: &[(&str, &str)]) -> Result<Self> {
        let mut command = Command::new(binary);
        command.arg("serve").arg("--data").arg(data).envs(settings.iter().copied());
        for flag in LISTENERS {
            command.args([flag, "127.0.0.1:0"]);
        }
        command.stdout(Stdio::piped()).stdin(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().with_context(|| format!("starting {}", binary.display()))?;
        let mut output = BufReader::new(child.stdout.take().context("the output is piped")?).lines();
        let clock = SystemClock::default();
        let line = tokio::select! {
            ready = until_ready(&mut output) => ready?,
            () = clock.sleep(START_TIMEOUT) => {
                bail!("the server is not ready after {} s", START_TIMEOUT.as_secs())
            }
        };
        let pid = child.id().context("the server ended")?;
        let kafka = address(&line, "Kafka on ")?;
        let (postgres, http) = (address(&line, "Postgres on ")?, address(&line, "HTTP on ")?);
        Ok(Self { child, pid, kafka, postgres, http, _output: output })
    }

    pub fn ports(&self) -> Ports {
        Ports { kafka: self.kafka, postgres: self.postgres }
    }

    pub async fn kill(&mut self) -> Result<()> {
        self.child.kill().await.context("ending the server")
    }

    /// CPU time in user space and in the kernel so far.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let stat = self.read_proc("stat")?;
        let ticks = parse_cpu_ticks(&stat).context("the process has no CPU times")?;
        Ok(ticks as f64 / TICKS_PER_SECOND)
    }

    /// Resident memory now.
    pub fn resident_megabytes(&self) -> Result<f64> {
        self.status_megabytes("VmRSS:")
    }

    /// The most resident memory so far.
    pub fn peak_resident_megabytes(&self) -> Result<f64> {
        self.status_megabytes("VmHWM:")
    }

    /// The sum of a counter over all of its lines that have a label. Blocks.
    pub fn metric(&self, name: &str, label: &str) -> Result<f64> {
        let mut stream = TcpStream::connect(self.http).context("connecting to the HTTP port")?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text).context("reading the metrics")?;
        let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
        lines
            .map(|line| {
                line.rsplit(' ').next().unwrap_or_default().parse::<f64>().context("reading a metric")
            })
            .sum()
    }

    fn status_megabytes(&self, field: &str) -> Result<f64> {
        let status = self.read_proc("status")?;
        let kibibytes = parse_kibibytes(&status, field);
        let kibibytes = kibibytes.with_context(|| format!("/proc/{}/status has no {field}", self.pid))?;
        Ok(kibibytes as f64 * 1024.0 / 1e6)
    }

    fn read_proc(&self, name: &str) -> Result<String> {
        let path = format!("/proc/{}/{name}", self.pid);
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        ensure!(!text.is_empty(), "{path} is empty");
        Ok(text)
    }
}

async fn until_ready(output: &mut Lines<BufReader<ChildStdout>>) -> Result<String> {
    while let Some(line) = output.next_line().await.context("reading the output of the server")? {
        if line.starts_with(READY) {
            return Ok(line);
        }
    }
    bail!("the server ended before it was ready")
}

/// The address behind a name in "strandline is ready: Kafka on A, Postgres on B, HTTP on C, data in D".
fn address(line: &str, name: &str) -> Result<SocketAddr> {
    let (_, rest) = line.split_once(name).with_context(|| format!("no \"{name}\" in \"{line}\""))?;
    let text = rest.split(',').next().unwrap_or_default();
    text.parse().with_context(|| format!("reading the address \"{text}\""))
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

fn parse_kibibytes(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
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
    fn memory_is_in_kibibytes() {
        assert_eq!(parse_kibibytes("VmSize:\t 9 kB\nVmRSS:\t  1234 kB\n", "VmRSS:"), Some(1234));
        assert_eq!(parse_kibibytes("VmSize:\t 9 kB\n", "VmRSS:"), None);
    }

    #[test]
    fn addresses_are_read_from_the_first_line() {
        let line =
            "strandline is ready: Kafka on 127.0.0.1:1, Postgres on 127.0.0.1:2, HTTP on 127.0.0.1:3, data";
        assert_eq!(address(line, "Kafka on ").expect("it is there").port(), 1);
        assert_eq!(address(line, "HTTP on ").expect("it is there").port(), 3);
    }
}
