//! kill -9 at any moment: what was acknowledged is there, once, at its offset.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::util::Timeout;

use crate::kafka::producer;
use crate::raw::{FetchLimits, RawClient, records};
use crate::server::Server;
use crate::sql::Sql;

const TOPIC: &str = "killed";
/// Records acknowledged in a round before the server is killed under the rest.
const ACKED_PER_ROUND: usize = 200;
const WRITERS: usize = 8;

/// Compaction, checkpoints and deletions go on all the time.
const SETTINGS: &str = r#"
[maintenance]
compaction_objects = 40
compaction_interval = "1s"
checkpoint_interval = "1s"
wal_delete_delay = "1s"
segment_delete_delay = "1s"
"#;

/// How the server ends in each round: killed under load, or by itself at a named place that was
/// passed so many times.
const ROUNDS: [Option<&str>; 30] = [
    None,
    Some("commit.before_put:3"),
    Some("commit.after_put:5"),
    Some("compaction.before_install"),
    None,
    Some("compaction.after_install"),
    Some("checkpoint.before_root"),
    Some("checkpoint.after_root"),
    None,
    Some("collector.before_delete"),
    Some("collector.after_delete"),
    Some("commit.after_put:40"),
    None,
    Some("compaction.before_install:1"),
    Some("checkpoint.before_root:1"),
    Some("collector.after_delete:1"),
    None,
    Some("commit.before_put:60"),
    Some("compaction.after_install:2"),
    Some("checkpoint.after_root:1"),
    None,
    Some("collector.before_delete:1"),
    Some("commit.seal:30"),
    Some("compaction.before_install:3"),
    None,
    Some("collector.after_delete:2"),
    Some("checkpoint.before_root:2"),
    Some("commit.after_put"),
    None,
    Some("commit.before_put"),
];

/// Partition and offset.
type Place = (i32, i64);

/// The place that each acknowledged value got, written down outside of the server.
type Acked = Arc<Mutex<BTreeMap<String, Place>>>;

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_record_is_lost_doubled_or_moved_wherever_the_server_ends() {
    end_anywhere(&ROUNDS[..15], "1", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_record_of_several_shards_is_lost_doubled_or_moved_either() {
    end_anywhere(&ROUNDS[15..], "4", 4).await;
}

async fn end_anywhere(rounds: &[Option<&str>], shards: &str, partitions: i32) {
    let mut settings = tempfile::NamedTempFile::new().expect("a temporary file");
    settings.write_all(SETTINGS.as_bytes()).expect("the settings are written");
    let path = settings.path().to_str().expect("the path is text").to_owned();
    let mut server = Server::start_with(&["--config", &path, "--shards", shards]);
    RawClient::connect(server.kafka).create_topic(TOPIC, partitions, &[]);
    let settings = [
        ("enable.idempotence", "true"),
        ("message.timeout.ms", "120000"),
        ("reconnect.backoff.max.ms", "200"),
    ];
    let producer = producer(&server.bootstrap(), &settings);
    let acked = Acked::default();
    let is_over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            tokio::spawn(write(writer, partitions, producer.clone(), acked.clone(), is_over.clone()))
        })
        .collect();
    let mut seen = BTreeMap::new();
    for failpoint in rounds {
        match failpoint {
            None => {
                let so_far = acked.lock().expect("no writer panics").len();
                acknowledged(&acked, so_far + ACKED_PER_ROUND).await;
                server.kill();
            }
            Some(failpoint) => {
                server.kill();
                server.start_again_until(failpoint);
                ended(&mut server, failpoint).await;
            }
        }
        // All acknowledgements of the ended process; the next one cannot have given any yet.
        let acked = acked.lock().expect("no writer panics").clone();
        server.start_again();
        let stored = stored(&server, partitions);
        check_acked(&stored, &acked);
        check_not_reissued(&stored, &mut seen);
    }
    is_over.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.expect("every record is acknowledged in the end");
    }
    let stored = stored(&server, partitions);
    check_acked(&stored, &acked.lock().expect("no writer panics"));
    check_not_reissued(&stored, &mut seen);
    let sql = Sql::connect(&server).await;
    let counts = sql.rows(&format!("SELECT count(*), count(DISTINCT _value) FROM {TOPIC}")).await;
    assert_eq!(counts[0], [Some(stored.len().to_string()), Some(stored.len().to_string())]);
}

async fn write(
    writer: usize,
    partitions: i32,
    producer: FutureProducer,
    acked: Acked,
    is_over: Arc<AtomicBool>,
) {
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        let value = format!("{writer}-{number}");
        let partition = (writer + number) as i32 % partitions;
        let record = FutureRecord::<str, str>::to(TOPIC).payload(&value).partition(partition);
        let delivery = producer.send(record, Timeout::Never).await.expect("it is delivered in the end");
        acked.lock().expect("no writer panics").insert(value, (delivery.partition, delivery.offset));
        number += 1;
    }
}

/// Waits until the server has ended by itself.
async fn ended(server: &mut Server, failpoint: &str) {
    let reached = async {
        let mut pause = tokio::time::interval(Duration::from_millis(10));
        while !server.has_ended() {
            pause.tick().await;
        }
    };
    let bound = Duration::from_secs(120);
    tokio::time::timeout(bound, reached).await.unwrap_or_else(|_| panic!("{failpoint} is not reached"));
}

/// Waits until so many records are acknowledged.
async fn acknowledged(acked: &Acked, count: usize) {
    let reached = async {
        let mut pause = tokio::time::interval(Duration::from_millis(5));
        while acked.lock().expect("no writer panics").len() < count {
            pause.tick().await;
        }
    };
    let bound = Duration::from_secs(120);
    tokio::time::timeout(bound, reached).await.expect("records are acknowledged in time");
}

/// Value by place, of everything that is stored.
fn stored(server: &Server, partitions: i32) -> BTreeMap<Place, String> {
    let mut client = RawClient::connect(server.kafka);
    let mut stored = BTreeMap::new();
    for partition in 0..partitions {
        let end = client.list_offset(TOPIC, partition, -1).0;
        let mut next = 0;
        while next < end {
            let fetched = records(&client.fetch(TOPIC, partition, FetchLimits::from(next)));
            assert!(!fetched.is_empty(), "nothing at offset {next} of {end} in partition {partition}");
            for record in fetched {
                next = record.offset + 1;
                let value = String::from_utf8(record.value.unwrap_or_default()).expect("values are text");
                stored.insert((partition, record.offset), value);
            }
        }
    }
    stored
}

fn check_acked(stored: &BTreeMap<Place, String>, acked: &BTreeMap<String, Place>) {
    for (value, place) in acked {
        assert_eq!(stored.get(place), Some(value), "{place:?}");
    }
    let values: BTreeSet<&String> = stored.values().collect();
    assert_eq!(values.len(), stored.len(), "no value is stored twice");
}

/// What was seen at an offset once stays there.
fn check_not_reissued(stored: &BTreeMap<Place, String>, seen: &mut BTreeMap<Place, String>) {
    for (place, value) in seen.iter() {
        assert_eq!(stored.get(place), Some(value), "{place:?} was given out twice");
    }
    seen.extend(stored.iter().map(|(place, value)| (*place, value.clone())));
}
