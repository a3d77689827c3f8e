//! Backup, restore, verify and repair as their users call them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::util::Timeout;
use serde_json::Value;

use crate::kafka::producer;
use crate::raw::{FetchLimits, RawClient, records};
use crate::server::{Server, command, run, run_ok};
use crate::sql::Sql;

const TOPIC: &str = "kept";

type Acked = Arc<Mutex<BTreeSet<String>>>;

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

async fn write(writer: usize, producer: FutureProducer, acked: Acked, is_over: Arc<AtomicBool>) {
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        let value = format!("{writer}-{number}");
        let record = FutureRecord::<str, str>::to(TOPIC).payload(&value);
        producer.send(record, Timeout::Never).await.expect("it is delivered");
        acked.lock().expect("no writer panics").insert(value);
        number += 1;
    }
}

async fn acknowledged(acked: &Acked, count: usize) {
    let reached = async {
        let mut pause = tokio::time::interval(Duration::from_millis(5));
        while acked.lock().expect("no writer panics").len() < count {
            pause.tick().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), reached).await.expect("records are acknowledged in time");
}

/// The values of all records of the topic.
fn stored(server: &Server) -> BTreeSet<String> {
    let mut client = RawClient::connect(server.kafka);
    let mut values = BTreeSet::new();
    let mut offset = 0;
    loop {
        let data = client.fetch(TOPIC, 0, FetchLimits::from(offset));
        let found = records(&data);
        let Some(last) = found.last() else { return values };
        offset = last.offset + 1;
        for record in found {
            let value = record.value.expect("it has a value");
            values.insert(String::from_utf8(value.to_vec()).expect("text"));
        }
    }
}

fn assert_all_in(acked: &BTreeSet<String>, stored: &BTreeSet<String>) {
    let lost: Vec<_> = acked.difference(stored).take(5).collect();
    assert!(lost.is_empty(), "{} acknowledged records, lost {lost:?}", acked.len());
}

fn counts(output: &str) -> u64 {
    let line = output.lines().find(|line| line.starts_with("copied")).expect("it says what was copied");
    let number = line.split(' ').nth(1).expect("it has a number");
    number.replace(',', "").parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_is_restored_with_every_record_acknowledged_before() {
    let environment = [
        ("STRANDLINE_MAINTENANCE_COMPACTION_INTERVAL", "300ms"),
        ("STRANDLINE_MAINTENANCE_CHECKPOINT_INTERVAL", "700ms"),
        ("STRANDLINE_MAINTENANCE_WAL_DELETE_DELAY", "100ms"),
        ("STRANDLINE_MAINTENANCE_SEGMENT_DELETE_DELAY", "100ms"),
    ];
    let server = Server::start_in(|_| command(), &environment);
    RawClient::connect(server.kafka).create_topic(TOPIC, 1, &[]);
    let producer = producer(&server.bootstrap(), &[("message.timeout.ms", "60000")]);
    let (acked, is_over) = (Acked::default(), Arc::new(AtomicBool::new(false)));
    let writers: Vec<_> = (0..4)
        .map(|writer| tokio::spawn(write(writer, producer.clone(), acked.clone(), is_over.clone())))
        .collect();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let place = directory.path().join("backups");
    let mut before = BTreeSet::new();
    let mut copied = Vec::new();
    for round in 1..=3 {
        acknowledged(&acked, round * 500).await;
        before = acked.lock().expect("no writer panics").clone();
        copied.push(counts(&run_ok(&["backup", "--data", text(&server.data()), "--to", text(&place)])));
    }
    let verified = run(&["verify", "--data", text(&server.data())]);
    assert_eq!(verified.status.code(), Some(0), "{}", String::from_utf8_lossy(&verified.stdout));
    is_over.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.expect("every record is acknowledged");
    }
    run_ok(&["verify", "--data", text(&place)]);
    let restored = directory.path().join("restored");
    run_ok(&["restore", "--from", text(&place), "--data", text(&restored)]);
    let again = run(&["restore", "--from", text(&place), "--data", text(&restored)]);
    assert_eq!(again.status.code(), Some(1), "it is not empty any more");
    assert_all_in(&acked.lock().expect("no writer panics"), &stored(&server));
    let copy = Server::start_on(text(&restored), &[]);
    assert_all_in(&before, &stored(&copy));
    assert!(copied.iter().all(|objects| *objects > 0), "{copied:?}");
}

/// The segments of a data directory.
fn segments(data: &Path) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(data.join("shards/0/data"));
    let listed = listed.map(|entries| entries.map(|entry| entry.expect("it can be listed").path()).collect());
    listed.unwrap_or_default()
}

async fn compacted(data: &Path) -> PathBuf {
    let found = async {
        let mut pause = tokio::time::interval(Duration::from_millis(20));
        loop {
            if let Some(segment) = segments(data).pop() {
                return segment;
            }
            pause.tick().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), found).await.expect("the WAL is compacted in time")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_is_named_contained_and_given_up_when_asked() {
    let environment = [("STRANDLINE_MAINTENANCE_COMPACTION_INTERVAL", "200ms")];
    let mut server = Server::start_in(|_| command(), &environment);
    let mut client = RawClient::connect(server.kafka);
    client.create_topic(TOPIC, 1, &[]);
    let batch = crate::raw::batch(
        strandline_storage::format::Compression::None,
        &[
            crate::raw::RawRecord::at(1_767_225_600_000, "damaged"),
            crate::raw::RawRecord::at(1_767_225_600_001, "too"),
        ],
    );
    client.produce_ok(TOPIC, 0, batch);
    let data = server.data();
    let segment = compacted(&data).await;
    assert!(server.terminate().success());
    let output = run_ok(&["verify", "--data", text(&data)]);
    assert!(output.contains("no damage") && output.contains("records read: 2"), "{output}");
    let whole = std::fs::read(&segment).expect("it can be read");
    let mut bytes = whole.clone();
    // In the first batch, behind the header of 36 bytes and that of the batch.
    bytes[36 + 70] ^= 1;
    std::fs::write(&segment, &bytes).expect("it can be written");
    let name = segment.file_name().and_then(|name| name.to_str()).expect("it has a name");
    let object = format!("shards/0/data/{name}");

    let verified = run(&["verify", "--data", text(&data), "--format", "json"]);
    assert_eq!(verified.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&verified.stdout).expect("one JSON object");
    let damage = &report["damages"][0];
    assert_eq!((&damage["object"], &damage["topic"]), (&object.clone().into(), &TOPIC.into()), "{report}");
    assert_eq!((&damage["base_offset"], &damage["next_offset"]), (&0.into(), &2.into()), "{report}");

    server.start_again();
    let mut client = RawClient::connect(server.kafka);
    let after = crate::raw::batch(
        strandline_storage::format::Compression::None,
        &[crate::raw::RawRecord::at(1_767_225_600_005, "after")],
    );
    assert_eq!(client.produce_ok(TOPIC, 0, after), 2);
    const STORAGE_ERROR: i16 = 56;
    assert_eq!(client.fetch(TOPIC, 0, FetchLimits::from(0)).error_code, STORAGE_ERROR);
    assert_eq!(records(&client.fetch(TOPIC, 0, FetchLimits::from(2))).len(), 1);
    let sql = Sql::connect(&server).await;
    let refused =
        sql.client().simple_query(&format!("SELECT _value FROM {TOPIC}")).await.expect_err("it is damaged");
    let message = refused.as_db_error().expect("the server says so").message().to_owned();
    assert!(message.contains(&object) && message.contains("offsets 0 to 1"), "{message}");
    let rows = sql.rows(&format!("SELECT _value FROM {TOPIC} WHERE _offset >= 2")).await;
    assert_eq!(rows, [[Some("after".to_owned())]]);
    drop(sql);
    assert!(server.terminate().success());

    let asked = run(&["repair", "--data", text(&data), "--accept-loss", &object]);
    assert_eq!(asked.status.code(), Some(2), "it asks first");
    let said = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert!(said.contains("topic \"kept\" partition 0 offsets 0 to 1"), "{said}");
    assert_eq!(run(&["verify", "--data", text(&data)]).status.code(), Some(1), "nothing was done");
    run_ok(&["repair", "--data", text(&data), "--accept-loss", &object, "--yes"]);
    run_ok(&["verify", "--data", text(&data)]);
    let refused = run(&["repair", "--data", text(&data), "--accept-loss", &object, "--yes"]);
    assert_eq!(refused.status.code(), Some(2), "nothing is damaged any more");
    assert_eq!(std::fs::read(&segment).expect("it is still there"), bytes, "nothing is overwritten");
    server.start_again();
    let values: Vec<_> = stored(&server).into_iter().collect();
    assert_eq!(values, ["after"]);
}

#[test]
fn a_place_without_a_log_cannot_be_verified_backed_up_or_restored() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (empty, target) = (text(directory.path()), directory.path().join("target"));
    for args in [
        vec!["verify", "--data", empty],
        vec!["backup", "--data", empty, "--to", text(&target)],
        vec!["verify", "--data", "/does/not/exist"],
    ] {
        assert_eq!(run(&args).status.code(), Some(3), "{args:?}");
    }
    let restored = directory.path().join("restored");
    assert_eq!(run(&["restore", "--from", empty, "--data", text(&restored)]).status.code(), Some(1));
    assert_eq!(run(&["verify", "--data", "hdfs://x"]).status.code(), Some(2));
}
