//! The commands beside a running server, and what `serve` says when it cannot start.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Output, Stdio};

use strandline_storage::format::Compression;

use crate::raw::{RawClient, RawRecord, batch};
use crate::server::{Server, command, run, run_ok};
use crate::sql::Sql;

const ANY: &str = "127.0.0.1:0";

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn serve_on(data: &Path, kafka: &str) -> Output {
    let data = data.to_str().expect("temporary paths are UTF-8");
    run(&["serve", "--data", data, "--kafka-listen", kafka, "--pg-listen", ANY, "--http-listen", ANY])
}

fn files_below(path: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let mut open = vec![path.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).expect("it can be listed") {
            let path = entry.expect("it can be listed").path();
            if path.is_dir() {
                open.push(path);
            } else {
                files.push(path.display().to_string());
            }
        }
    }
    files.sort();
    files
}

#[test]
fn a_port_in_use_is_named_with_a_command_that_works() {
    let server = Server::start();
    let other = tempfile::tempdir().expect("a temporary directory");
    let output = serve_on(&other.path().join("data"), &server.bootstrap());
    assert_eq!(output.status.code(), Some(1));
    let message = stderr(&output);
    let port = server.kafka.port();
    assert!(message.contains(&format!("port {port} on 127.0.0.1 is in use")), "{message}");
    assert!(message.contains("serve") && message.contains("--kafka-listen 127.0.0.1:"), "{message}");
    assert!(!other.path().join("data").exists(), "nothing was created");
}

#[test]
fn a_data_directory_in_use_is_named_and_left_alone() {
    let server = Server::start();
    let before = files_below(&server.data());
    let output = serve_on(&server.data(), ANY);
    assert_eq!(output.status.code(), Some(1));
    let message = stderr(&output);
    assert!(
        message.contains("in use") && message.contains(&server.data().display().to_string()),
        "{message}"
    );
    assert_eq!(files_below(&server.data()), before);
}

#[test]
fn a_data_directory_that_is_none_is_named() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("data");
    fs::write(&file, "not a directory").expect("it is written");
    let output = serve_on(&file, ANY);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains(&format!("{} is not a directory", file.display())),
        "{}",
        stderr(&output)
    );
    assert_eq!(fs::read_to_string(&file).expect("it is still there"), "not a directory");
}

#[test]
fn data_of_another_format_version_is_refused_and_left_alone() {
    let mut server = Server::start();
    server.terminate();
    let cluster = server.data().join("cluster");
    let mut bytes = fs::read(&cluster).expect("the cluster object is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(&cluster, &bytes).expect("it is written");
    let before = files_below(&server.data());
    let output = serve_on(&server.data(), ANY);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cluster"), "{}", stderr(&output));
    assert_eq!(files_below(&server.data()), before);
}

#[test]
fn sigterm_drains_and_ends_with_success() {
    let mut server = Server::start();
    let mut client = RawClient::connect(server.kafka);
    client.create_topic("drained", 1, &[]);
    client.produce_ok("drained", 0, batch(Compression::None, &[RawRecord::at(1, "v")]));
    assert!(server.terminate().success());
    let data = server.data();
    let output = run_ok(&[
        "sql",
        "--data",
        data.to_str().expect("UTF-8"),
        "--format",
        "csv",
        "SELECT count(*) AS n FROM drained",
    ]);
    assert_eq!(output, "n\n1\n");
}

#[test]
fn sql_reads_the_data_directory_beside_the_running_server() {
    let server = Server::start();
    let mut client = RawClient::connect(server.kafka);
    client.create_topic("beside", 1, &[]);
    let value = r#"{"n": 7, "big": 9007199254740993, "ok": true, "nested": {"a": 1}}"#;
    client.produce_ok("beside", 0, batch(Compression::None, &[RawRecord::at(1_700_000_000_000, value)]));
    let statement = "SELECT ts, n, big, ok, nested FROM beside";
    let pg = server.pg.to_string();
    let data = server.data();
    let data = data.to_str().expect("UTF-8");
    for format in ["table", "json", "csv"] {
        let from_server = run_ok(&["sql", "--server", &pg, "--format", format, statement]);
        let from_data = run_ok(&["sql", "--data", data, "--format", format, statement]);
        assert_eq!(from_server, from_data, "{format}");
        assert!(from_server.contains("9007199254740993"), "{from_server}");
    }
    let json = run_ok(&["sql", "--data", data, "--format", "json", statement]);
    let row: serde_json::Value = serde_json::from_str(&json).expect("a row is a JSON object");
    assert_eq!((&row["n"], &row["ok"], &row["nested"]["a"]), (&7.into(), &true.into(), &1.into()));
    assert_eq!(row["ts"], "2023-11-14 22:13:20+00");
}

#[test]
fn a_statement_that_fails_says_why_and_ends_with_1() {
    let server = Server::start();
    let output = run(&["sql", "--server", &server.pg.to_string(), "SELECT * FROM nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("42P01") && stderr(&output).contains("nowhere"), "{}", stderr(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn produce_names_rejected_lines_and_takes_the_others() {
    let server = Server::start();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("lines.ndjson");
    let lines = concat!(
        "{\"at\": \"2015-09-12T12:00:00+02:00\", \"user\": \"ann\"}\n",
        "\n",
        "not JSON\n",
        "{\"user\": \"bob\"}\n",
        "{\"at\": 1442052000001, \"user\": \"cid\"}\n",
    );
    fs::write(&file, lines).expect("it is written");
    let bootstrap = server.bootstrap();
    let file = file.to_str().expect("UTF-8");
    let args = [
        "produce",
        "picky",
        "--bootstrap",
        &bootstrap,
        "--file",
        file,
        "--timestamp-field",
        "at",
        "--key-field",
        "user",
        "--compression",
        "zstd",
    ];
    let output = run(&args);
    assert_eq!(output.status.code(), Some(1));
    let notes = stderr(&output);
    for note in
        ["line 3 rejected", "line 4 rejected", "first time, line 1: 2015-09-12T10:00:00.000Z", "+02:00"]
    {
        assert!(notes.contains(note), "{note}: {notes}");
    }
    let summary = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(summary.contains("2 records") && summary.contains("2 lines rejected"), "{summary}");
    let sql = Sql::connect(&server).await;
    let rows = sql.rows("SELECT _key, ts FROM picky ORDER BY _offset").await;
    let texts: Vec<String> = rows.into_iter().flatten().flatten().collect();
    assert_eq!(texts, ["ann", "2015-09-12 10:00:00+00", "cid", "2015-09-12 10:00:00.001+00"]);
}

#[test]
fn topics_are_created_listed_described_and_deleted() {
    let server = Server::start();
    let bootstrap = server.bootstrap();
    let topic = |args: &[&str]| run_ok(&[&["topic"], args, &["--bootstrap", &bootstrap]].concat());
    topic(&["create", "managed", "--partitions", "3", "--config", "max.message.bytes=2000"]);
    assert!(topic(&["list"]).contains("managed |          3 |       0"), "{}", topic(&["list"]));
    let described = topic(&["describe", "managed"]);
    assert!(described.contains("max.message.bytes | 2000"), "{described}");
    topic(&["delete", "managed"]);
    assert!(!topic(&["list"]).contains("managed"));
    let gone = run(&["topic", "describe", "managed", "--bootstrap", &bootstrap]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(stderr(&gone).contains("\"managed\" does not exist"), "{}", stderr(&gone));
}

#[test]
fn tail_prints_what_was_there_and_follows_what_comes() {
    let server = Server::start();
    let mut client = RawClient::connect(server.kafka);
    client.create_topic("followed", 1, &[]);
    client.produce_ok(
        "followed",
        0,
        batch(Compression::Lz4, &[RawRecord::at(1, "old"), RawRecord::at(2, "older")]),
    );
    let bootstrap = server.bootstrap();
    let mut tail = command()
        .args(["tail", "followed", "--from", "1", "--count", "2", "--bootstrap", &bootstrap])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut lines = BufReader::new(tail.stdout.take().expect("it is piped")).lines();
    assert_eq!(lines.next().expect("a line").expect("it is text"), "older");
    client.produce_ok("followed", 0, batch(Compression::None, &[RawRecord::at(3, "new")]));
    assert_eq!(lines.next().expect("a line").expect("it is text"), "new");
    assert!(tail.wait().expect("it ends").success());
}

#[test]
fn lines_come_through_a_pipe() {
    let server = Server::start();
    let mut child = command()
        .args(["produce", "piped", "--bootstrap", &server.bootstrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    child.stdin.take().expect("it is piped").write_all(b"one\ntwo\n").expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let printed =
        run_ok(&["tail", "piped", "--from", "beginning", "--count", "2", "--bootstrap", &server.bootstrap()]);
    assert_eq!(printed, "one\ntwo\n");
}

#[test]
fn a_server_that_is_not_there_is_exit_code_3() {
    for args in [
        vec!["topic", "list", "--bootstrap", "127.0.0.1:1"],
        vec!["sql", "--server", "127.0.0.1:1", "SELECT 1"],
        vec!["tail", "t", "--bootstrap", "127.0.0.1:1"],
    ] {
        let output = run(&args);
        assert_eq!(output.status.code(), Some(3), "{args:?}");
        assert!(stderr(&output).contains("127.0.0.1:1"), "{}", stderr(&output));
    }
}

#[test]
fn http_tells_health_readiness_and_metrics() {
    let server = Server::start();
    let mut client = RawClient::connect(server.kafka);
    client.create_topic("measured", 1, &[]);
    assert!(get(&server, "/healthz").ends_with("ok\n"));
    assert!(get(&server, "/readyz").ends_with("ready\n"));
    let metrics = get(&server, "/metrics");
    for name in
        ["strandline_kafka_requests_total", "strandline_object_requests_total", "strandline_wal_objects"]
    {
        assert!(metrics.contains(name), "{name} in {metrics}");
    }
}

fn get(server: &Server, path: &str) -> String {
    use std::io::Read;
    let mut stream = std::net::TcpStream::connect(server.http).expect("the server listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the server answers");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer
}

#[test]
fn the_demo_topic_has_rows_at_once() {
    let server = Server::start_with(&["--demo"]);
    let statement = "SELECT level, service, message FROM demo ORDER BY _offset LIMIT 3";
    let rows = run_ok(&["sql", "--server", &server.pg.to_string(), "--format", "json", statement]);
    assert_eq!(rows.lines().count(), 3, "{rows}");
    assert!(rows.lines().all(|row| row.contains("\"service\":\"")), "{rows}");
}
