//! The real binary as a child process: started on free ports, waited for, killed, started again.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use tempfile::TempDir;

use crate::sql::Sql;

/// How long a start may take, also on a busy machine.
const READY_BOUND: Duration = Duration::from_secs(120);
const ANY_PORT: &str = "127.0.0.1:0";
/// The file in a server's directory for its standard error.
const ERRORS: &str = "errors.log";

/// The path of the binary under test.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = std::env::var_os("STRANDLINE_TEST_BINARY") {
            return path.into();
        }
        let test = std::env::current_exe().expect("a test knows its own path");
        let target = test.ancestors().nth(2).expect("tests are built below the target directory");
        let path = target.join("strandline");
        if !path.exists() {
            build();
        }
        assert!(path.exists(), "{} was not built", path.display());
        path
    })
}

/// `cargo test --workspace` builds the binary for the command line's own tests; a run of this package
/// alone does not.
fn build() {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--workspace", "--bin", "strandline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the binary does not build");
}

/// The binary with no settings from this process's environment.
pub fn command() -> Command {
    let mut command = Command::new(binary());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("STRANDLINE_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs the binary to its end.
pub fn run(args: &[&str]) -> Output {
    command().args(args).stdin(Stdio::null()).output().expect("the binary runs")
}

/// Standard output of a run that has to succeed.
pub fn run_ok(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the output is UTF-8")
}

/// A running server and its data directory, which goes when the server is dropped.
pub struct Server {
    child: Child,
    directory: TempDir,
    extra: Vec<String>,
    pub kafka: SocketAddr,
    pub pg: SocketAddr,
    pub http: SocketAddr,
}

impl Server {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(extra: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let extra: Vec<String> = extra.iter().map(|arg| (*arg).to_owned()).collect();
        let ports = [ANY_PORT, ANY_PORT, ANY_PORT].map(str::to_owned);
        let (child, [kafka, pg, http]) = spawn(&data_of(&directory), &ports, &extra);
        Self { child, directory, extra, kafka, pg, http }
    }

    pub fn data(&self) -> PathBuf {
        data_of(&self.directory)
    }

    /// Starts on an object store, with settings from the environment.
    pub fn start_on(url: &str, environment: &[(&str, String)]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let errors = File::create(directory.path().join(ERRORS)).expect("a file for what is said");
        let mut command = command();
        command.envs(environment.iter().map(|(name, value)| (name, value))).stderr(errors);
        Self::start_as(command, PathBuf::from(url), directory)
    }

    /// Starts by a command that runs the binary with the rest of its arguments; it gets the directory
    /// of the server.
    pub fn start_in(wrap: impl FnOnce(&str) -> Command, environment: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut command = wrap(directory.path().to_str().expect("the path is text"));
        command.envs(environment.iter().copied());
        let data = data_of(&directory);
        Self::start_as(command, data, directory)
    }

    fn start_as(mut command: Command, data: PathBuf, directory: TempDir) -> Self {
        let ports = [ANY_PORT, ANY_PORT, ANY_PORT].map(str::to_owned);
        command.stdout(Stdio::piped());
        let (child, [kafka, pg, http]) = wait_until_ready(serve(command, &data, &ports, &[]));
        Self { child, directory, extra: Vec::new(), kafka, pg, http }
    }

    /// The directory that goes when the server is dropped.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// What a server on an object store said on standard error.
    pub fn error_output(&self) -> String {
        std::fs::read_to_string(self.directory.path().join(ERRORS)).expect("the file is there")
    }

    /// Status and text of a page of the HTTP port.
    pub fn http_get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.http).expect("the HTTP port listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers with text");
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.expect("the answer has a status"), answer)
    }

    /// SIGKILL: nothing is drained.
    pub fn kill(&mut self) {
        self.child.kill().expect("the server is ours to kill");
        self.child.wait().expect("a killed process ends");
    }

    /// Starts on the same data and the same ports.
    pub fn start_again(&mut self) {
        self.start_again_with(&[]);
    }

    /// The same, with settings from the environment.
    pub fn start_again_with(&mut self, environment: &[(&str, &str)]) {
        let ports = [self.kafka, self.pg, self.http].map(|address| address.to_string());
        let mut command = command();
        command.stdout(Stdio::piped()).envs(environment.iter().copied());
        let (child, _) = wait_until_ready(serve(command, &self.data(), &ports, &self.extra));
        self.child = child;
    }

    /// The same, but the server ends by itself at a failpoint.
    pub fn start_again_until(&mut self, failpoint: &str) {
        let ports = [self.kafka, self.pg, self.http].map(|address| address.to_string());
        let mut command = command();
        command.env("STRANDLINE_FAILPOINT", failpoint).stdout(Stdio::null());
        self.child = serve(command, &self.data(), &ports, &self.extra);
    }

    /// Whether the process has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("the child is ours to wait for").is_some()
    }

    /// SIGTERM, and what the server made of it.
    pub fn terminate(&mut self) -> ExitStatus {
        let status = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
        self.child.wait().expect("the server ends")
    }

    pub fn bootstrap(&self) -> String {
        self.kafka.to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn data_of(directory: &TempDir) -> PathBuf {
    directory.path().join("data")
}

fn serve(mut command: Command, data: &Path, ports: &[String; 3], extra: &[String]) -> Child {
    let [kafka, pg, http] = ports;
    command
        .args(["serve", "--kafka-listen", kafka, "--pg-listen", pg, "--http-listen", http, "--data"])
        .arg(data)
        .args(extra)
        .env("STRANDLINE_KAFKA_GROUP_INITIAL_REBALANCE_DELAY", "0")
        .env("STRANDLINE_LOG", "warn")
        .stdin(Stdio::null())
        .spawn()
        .expect("the binary runs")
}

fn spawn(data: &Path, ports: &[String; 3], extra: &[String]) -> (Child, [SocketAddr; 3]) {
    let mut command = command();
    command.stdout(Stdio::piped());
    wait_until_ready(serve(command, data, ports, extra))
}

fn wait_until_ready(mut child: Child) -> (Child, [SocketAddr; 3]) {
    let output = child.stdout.take().expect("standard output is piped");
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // Only the first line is waited for.
            let _ = sender.send(line);
        }
    });
    match receiver.recv_timeout(READY_BOUND) {
        Ok(line) => (child, addresses(&line)),
        Err(error) => {
            let _ = child.kill();
            panic!("the server did not become ready: {error}, {:?}", child.wait());
        }
    }
}

/// The three addresses in "strandline is ready: Kafka on A, Postgres on B, HTTP on C, data in D".
fn addresses(line: &str) -> [SocketAddr; 3] {
    let address = |name: &str| {
        let (_, rest) = line.split_once(name).unwrap_or_else(|| panic!("no {name}in \"{line}\""));
        let text = rest.split(',').next().unwrap_or_default();
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    };
    [address("Kafka on "), address("Postgres on "), address("HTTP on ")]
}

/// Checks the same where a record may be: in the memory of a running server; in the WAL, after a kill
/// and a restart; in segments; and in segments after a restart.
pub async fn from_memory_wal_and_segments(server: &mut Server, check: impl AsyncFn(&Server)) {
    check(server).await;
    server.kill();
    server.start_again();
    check(server).await;
    server.kill();
    server.start_again_with(&[("STRANDLINE_MAINTENANCE_COMPACTION_INTERVAL", "50ms")]);
    compacted(server).await;
    check(server).await;
    server.kill();
    server.start_again();
    check(server).await;
}

/// Waits until all that is stored is in segments.
pub async fn compacted(server: &Server) {
    let sql = Sql::connect(server).await;
    let compacted = async {
        let mut pause = tokio::time::interval(Duration::from_millis(20));
        while sql.text("SELECT coalesce(sum(tail_blocks), 0) FROM strandline.partitions").await != "0" {
            pause.tick().await;
        }
    };
    tokio::time::timeout(READY_BOUND, compacted).await.expect("the WAL is compacted in time");
}
