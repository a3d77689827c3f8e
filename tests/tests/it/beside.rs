//! `strandline sql --data` beside a server that compacts and deletes what it reads.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use strandline_storage::format::Compression;

use crate::raw::{RawClient, RawRecord, batch};
use crate::server::{Server, command};

const BATCHES: i64 = 200;
const RECORDS_PER_BATCH: i64 = 50;
/// All of it is much more than pipes and buffers hold, so that the statement waits for whoever takes its
/// rows.
const VALUE_BYTES: usize = 4000;

const NOTHING_BY_ITSELF: [(&str, &str); 1] = [("STRANDLINE_MAINTENANCE_COMPACTION_INTERVAL", "7d")];
const EVERYTHING_AT_ONCE: [(&str, &str); 4] = [
    ("STRANDLINE_MAINTENANCE_COMPACTION_INTERVAL", "20ms"),
    ("STRANDLINE_MAINTENANCE_CHECKPOINT_INTERVAL", "20ms"),
    ("STRANDLINE_MAINTENANCE_WAL_DELETE_DELAY", "1ms"),
    ("STRANDLINE_MAINTENANCE_SEGMENT_DELETE_DELAY", "1ms"),
];

/// A compaction, three checkpoints and a deletion take far fewer.
const PRODUCES_MAX: usize = 20_000;

fn produce(raw: &mut RawClient, count: i64) {
    let value = "v".repeat(VALUE_BYTES);
    let records: Vec<_> =
        (0..count).map(|number| RawRecord::at(1_700_000_000_000 + number, &value)).collect();
    raw.produce_ok("rows", 0, batch(Compression::None, &records));
}

/// The files of the WAL that hold batches.
fn large_wal_files(data: &Path) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    let mut open = vec![data.join("shards/0/wal")];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => open.push(entry.path()),
                Ok(metadata) if metadata.len() > VALUE_BYTES as u64 => {
                    files.insert(entry.path().display().to_string());
                }
                // It was deleted since it was listed, or holds no batch.
                _ => {}
            }
        }
    }
    files
}

#[test]
fn a_statement_gives_every_row_once_although_its_objects_are_deleted_in_the_middle() {
    let mut server = Server::start_in(|_| command(), &NOTHING_BY_ITSELF);
    let mut raw = RawClient::connect(server.kafka);
    raw.create_topic("rows", 1, &[]);
    (0..BATCHES).for_each(|_| produce(&mut raw, RECORDS_PER_BATCH));
    let data = server.data();
    let before = large_wal_files(&data);
    assert!(before.len() > 1, "{before:?}");

    let mut statement = command();
    let data_argument = data.to_str().expect("temporary paths are UTF-8");
    statement.args(["sql", "--data", data_argument, "--format", "csv", "SELECT _offset, _value FROM rows"]);
    let mut statement = statement.stdout(Stdio::piped()).spawn().expect("the binary runs");
    let mut lines = BufReader::new(statement.stdout.take().expect("it is piped")).lines();
    let mut next_line = || lines.next().map(|line| line.expect("the output is text"));
    assert_eq!(next_line().as_deref(), Some("_offset,_value"), "the statement has begun");

    server.terminate();
    server.start_again_with(&EVERYTHING_AT_ONCE);
    let mut raw = RawClient::connect(server.kafka);
    let mut produces = 0;
    while !before.is_disjoint(&large_wal_files(&data)) {
        assert!(produces < PRODUCES_MAX, "what the statement reads is not deleted");
        produce(&mut raw, 1);
        produces += 1;
    }

    let mut offsets: Vec<i64> = Vec::new();
    while let Some(line) = next_line() {
        let offset = line.split(',').next().and_then(|cell| cell.parse().ok());
        offsets.push(offset.unwrap_or_else(|| panic!("{line}")));
    }
    assert!(statement.wait().expect("it ends").success());
    offsets.sort_unstable();
    assert_eq!(offsets, Vec::from_iter(0..BATCHES * RECORDS_PER_BATCH));
}
