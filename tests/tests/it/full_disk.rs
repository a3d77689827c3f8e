//! A small volume that fills up: producers are told to come again, readers go on, and writes are taken
//! again as soon as there is space, without a restart.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::raw::{FetchLimits, RawClient, RawRecord, batch, records};
use crate::server::{Server, binary};
use crate::sql::Sql;
use strandline_storage::format::Compression;

const TOPIC: &str = "events";
const KAFKA_STORAGE_ERROR: i16 = 56;
const VALUE_BYTES: usize = 100_000;
const BOUND: Duration = Duration::from_secs(120);

/// The server in a mount namespace of its own, with a volume of 48 MiB at its directory, of which a
/// file takes 16 MiB.
fn on_small_volume(directory: &str) -> Command {
    let script = "mount -t tmpfs -o size=48m tmpfs \"$DIRECTORY\" && \
                  head -c 16M /dev/zero > \"$DIRECTORY/ballast\" && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
    command.arg(binary()).env("DIRECTORY", directory);
    command
}

/// A file of the volume, as it is seen from outside of the namespace.
fn ballast(server: &Server) -> PathBuf {
    let inside = server.directory().join("ballast");
    PathBuf::from(format!("/proc/{}/root{}", server.process_id(), inside.display()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_appends_until_there_is_space_and_loses_nothing() {
    let server = Server::start_in(on_small_volume, &[("STRANDLINE_STORAGE_RESERVE_BYTES", "4MiB")]);
    let mut client = RawClient::connect(server.kafka);
    client.create_topic(TOPIC, 1, &[]);
    let mut acked = Vec::new();
    let refused = fill(&mut client, &mut acked);
    assert_eq!(refused, KAFKA_STORAGE_ERROR, "a client tries again after this error");
    assert!(acked.len() > 50, "{} records fit", acked.len());
    assert_eq!(stored(&mut client), acked, "a consumer reads on");
    let sql = Sql::connect(&server).await;
    assert_eq!(sql.value(&format!("SELECT count(*) FROM {TOPIC}")).await, Some(acked.len().to_string()));
    assert_eq!(readiness(&server).0, 503);
    assert!(readiness(&server).1.contains("space"), "{}", readiness(&server).1);

    std::fs::remove_file(ballast(&server)).expect("the test may make room");
    let taken_again = async {
        let mut pause = tokio::time::interval(Duration::from_millis(50));
        while readiness(&server).0 != 200 {
            pause.tick().await;
        }
    };
    tokio::time::timeout(BOUND, taken_again).await.expect("the server takes writes again");
    let before = acked.len();
    for number in before..before + 20 {
        let response = client.produce(TOPIC, 0, value(number));
        assert_eq!((response.error_code, response.base_offset), (0, number as i64));
        acked.push(text(number));
    }
    assert_eq!(stored(&mut client), acked);
}

/// Produces until the first refusal, and gives its code.
fn fill(client: &mut RawClient, acked: &mut Vec<String>) -> i16 {
    // The volume has room for a few hundred.
    for _ in 0..5000 {
        let number = acked.len();
        let response = client.produce(TOPIC, 0, value(number));
        if response.error_code != 0 {
            return response.error_code;
        }
        assert_eq!(response.base_offset, number as i64);
        acked.push(text(number));
    }
    panic!("the volume does not fill up");
}

fn text(number: usize) -> String {
    format!("{number:08}").repeat(VALUE_BYTES / 8)
}

fn value(number: usize) -> bytes::Bytes {
    batch(Compression::None, &[RawRecord::at(1_700_000_000_000 + number as i64, &text(number))])
}

fn stored(client: &mut RawClient) -> Vec<String> {
    let end = client.list_offset(TOPIC, 0, -1).0;
    let mut stored = Vec::new();
    while (stored.len() as i64) < end {
        let fetched = records(&client.fetch(TOPIC, 0, FetchLimits::from(stored.len() as i64)));
        assert!(!fetched.is_empty(), "nothing at offset {} of {end}", stored.len());
        for record in fetched {
            assert_eq!(record.offset, stored.len() as i64);
            stored.push(String::from_utf8(record.value.unwrap_or_default()).expect("values are text"));
        }
    }
    stored
}

/// Status and text of /readyz.
fn readiness(server: &Server) -> (u16, String) {
    server.http_get("/readyz")
}
