//! Transactions with real clients: all or nothing for consumers that read committed and for SQL, also
//! where a client or the server ends in the middle.

use std::time::Duration;

use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use rdkafka::{Message, Offset, TopicPartitionList};
use strandline_storage::format::Compression;

use crate::kafka::{MESSAGE_BOUND, consumer, drain, producer, take, values};
use crate::raw::{RawClient, RawRecord, batch, frame};
use crate::raw_producer::{RECORDS_PER_BATCH, RawProducer};
use crate::server::{Server, from_memory_wal_and_segments};
use crate::sql::Sql;

fn transactional(server: &Server, id: &str, settings: &[(&str, &str)]) -> FutureProducer {
    let all = [&[("transactional.id", id), ("reconnect.backoff.max.ms", "200")], settings].concat();
    let producer = producer(&server.bootstrap(), &all);
    producer.init_transactions(MESSAGE_BOUND).expect("the producer makes itself known");
    producer
}

/// Queues records in the open transaction. They are sent by the end of it at the latest.
fn send(producer: &FutureProducer, topic: &str, values: &[String]) {
    for value in values {
        let record = FutureRecord::<str, str>::to(topic).payload(value);
        drop(producer.send_result(record).expect("the queue has room"));
    }
}

fn numbered(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}-{number}")).collect()
}

/// What a consumer that reads committed gets from all partitions of a topic, to their ends.
async fn committed(server: &Server, topic: &str, partitions: i32) -> Vec<String> {
    let mut found = values(&drain(&server.bootstrap(), topic, partitions, "read_committed").await);
    found.sort();
    found
}

/// The same by SQL.
async fn selected(server: &Server, topic: &str) -> Vec<String> {
    let rows = Sql::connect(server).await.column(&format!("SELECT _value FROM \"{topic}\"")).await;
    let mut found: Vec<String> = rows.into_iter().flatten().collect();
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_seen_whole_or_not_at_all() {
    let mut server = Server::start();
    let mut raw = RawClient::connect(server.kafka);
    raw.create_topic("orders", 2, &[]);
    raw.create_topic("payments", 1, &[]);
    let producer = transactional(&server, "shop", &[]);
    let orders = numbered("kept", 10);
    for is_kept in [true, false, true] {
        let prefix = if is_kept { "kept" } else { "dropped" };
        producer.begin_transaction().expect("none is open");
        send(&producer, "orders", &numbered(prefix, 10));
        send(&producer, "payments", &numbered(prefix, 5));
        producer.flush(MESSAGE_BOUND).expect("all is written");
        let before = selected(&server, "payments").await;
        assert!(before.iter().all(|value| value.starts_with("kept")), "it is open: {before:?}");
        if is_kept {
            producer.commit_transaction(MESSAGE_BOUND).expect("it is committed");
        } else {
            producer.abort_transaction(MESSAGE_BOUND).expect("it is aborted");
        }
    }
    producer.begin_transaction().expect("none is open");
    send(&producer, "payments", &numbered("open", 5));
    producer.flush(MESSAGE_BOUND).expect("all is written");
    let mut twice = [orders.clone(), orders].concat();
    twice.sort();
    from_memory_wal_and_segments(&mut server, async |server| {
        assert_eq!(committed(server, "orders", 2).await, twice);
        assert_eq!(selected(server, "orders").await, twice);
        assert_eq!(committed(server, "payments", 1).await.len(), 10);
        assert_eq!(selected(server, "payments").await.len(), 10);
    })
    .await;
    producer.commit_transaction(MESSAGE_BOUND).expect("it outlives the restarts");
    assert_eq!(committed(&server, "payments", 1).await.len(), 15);
    assert_eq!(selected(&server, "payments").await.len(), 15);
}

/// Copies records in transactions of ten, with the position of the group. Every third is aborted and
/// done again, and one meets the end of the server. As in any such loop, what the group does not take
/// is aborted, and copied again from the committed position.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_reads_processes_and_writes_has_each_record_once() {
    const RECORDS: i64 = 60;
    let mut server = Server::start_with(&["--shards", "4"]);
    let mut raw = RawClient::connect(server.kafka);
    raw.create_topic("copy_from", 1, &[]);
    raw.create_topic("copy_to", 4, &[]);
    let mut expected = numbered("r", RECORDS as usize);
    let source = transactional(&server, "source", &[]);
    source.begin_transaction().expect("none is open");
    send(&source, "copy_from", &expected);
    source.commit_transaction(MESSAGE_BOUND).expect("it is committed");
    let copier = transactional(&server, "copier", &[]);
    let reader = consumer(&server.bootstrap(), "copiers", &[("isolation.level", "read_committed")]);
    reader.subscribe(&["copy_from"]).expect("it can be subscribed");
    let (mut next, mut attempt) = (0, 0);
    while next < RECORDS {
        attempt += 1;
        let messages = take(&reader, 10).await;
        // A rebalance may have come between them.
        let follow = messages.iter().map(Message::offset).eq(next..next + 10);
        copier.begin_transaction().expect("none is open");
        send(&copier, "copy_to", &values(&messages));
        let is_kept = follow && commit_position(&copier, &reader, next + 10).is_ok();
        if attempt == 4 {
            server.kill();
            server.start_again();
        }
        if is_kept && attempt % 3 != 0 {
            copier.commit_transaction(MESSAGE_BOUND).expect("it is committed");
            next += 10;
        } else {
            copier.abort_transaction(MESSAGE_BOUND).expect("it is aborted");
            // Without the partition there is nothing to go back in: it comes with the position.
            let _ = reader.seek("copy_from", 0, Offset::Offset(next), MESSAGE_BOUND);
        }
    }
    expected.sort();
    assert_eq!(committed(&server, "copy_to", 4).await, expected);
    assert_eq!(selected(&server, "copy_to").await, expected);
    let mut asked = TopicPartitionList::new();
    asked.add_partition("copy_from", 0);
    let position = reader.committed_offsets(asked, MESSAGE_BOUND).expect("it is answered");
    assert_eq!(position.elements()[0].offset(), Offset::Offset(RECORDS));
}

fn commit_position(copier: &FutureProducer, reader: &StreamConsumer, next: i64) -> Result<(), KafkaError> {
    let mut position = TopicPartitionList::new();
    position.add_partition_offset("copy_from", 0, Offset::Offset(next)).expect("a valid offset");
    let group = reader.group_metadata().expect("the consumer is in a group");
    copier.send_offsets_to_transaction(&position, &group, MESSAGE_BOUND)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombie_cannot_commit_what_its_successor_aborted() {
    let server = Server::start();
    RawClient::connect(server.kafka).create_topic("fenced", 1, &[]);
    let zombie = transactional(&server, "worker", &[]);
    zombie.begin_transaction().expect("none is open");
    send(&zombie, "fenced", &numbered("zombie", 3));
    zombie.flush(MESSAGE_BOUND).expect("all is written");
    let successor = transactional(&server, "worker", &[]);
    successor.begin_transaction().expect("none is open");
    send(&successor, "fenced", &numbered("successor", 3));
    successor.commit_transaction(MESSAGE_BOUND).expect("it is committed");
    let refused = zombie.commit_transaction(MESSAGE_BOUND).expect_err("the zombie is fenced");
    assert!(is_fenced(&refused), "{refused:?}");
    assert_eq!(committed(&server, "fenced", 1).await, numbered("successor", 3));
    assert_eq!(selected(&server, "fenced").await, numbered("successor", 3));
}

fn is_fenced(error: &KafkaError) -> bool {
    let codes = [
        RDKafkaErrorCode::Fenced,
        RDKafkaErrorCode::ProducerFenced,
        RDKafkaErrorCode::InvalidProducerEpoch,
        RDKafkaErrorCode::Fatal,
    ];
    error.rdkafka_error_code().is_some_and(|code| codes.contains(&code))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_transaction_of_a_client_that_is_gone_is_aborted_also_over_a_restart() {
    let mut server = Server::start();
    RawClient::connect(server.kafka).create_topic("left", 1, &[]);
    let producer = transactional(&server, "leaver", &[("transaction.timeout.ms", "1500")]);
    producer.begin_transaction().expect("none is open");
    send(&producer, "left", &numbered("left", 3));
    producer.flush(MESSAGE_BOUND).expect("all is written");
    server.kill();
    server.start_again();
    RawClient::connect(server.kafka).produce_ok(
        "left",
        0,
        batch(Compression::None, &[RawRecord::at(1, "after")]),
    );
    until_visible(&server, "left", 1).await;
    assert_eq!(committed(&server, "left", 1).await, ["after"]);
    assert_eq!(selected(&server, "left").await, ["after"]);
    let refused = producer.commit_transaction(MESSAGE_BOUND).expect_err("it was aborted");
    assert!(is_fenced(&refused), "{refused:?}");
}

/// Waits until SQL sees so many rows.
async fn until_visible(server: &Server, topic: &str, rows: usize) {
    let sql = Sql::connect(server).await;
    let statement = format!("SELECT count(*) FROM \"{topic}\"");
    let visible = async {
        let mut pause = tokio::time::interval(Duration::from_millis(20));
        while sql.text(&statement).await != rows.to_string() {
            pause.tick().await;
        }
    };
    tokio::time::timeout(MESSAGE_BOUND, visible).await.expect("the transaction ends in time");
}

/// A server that ends at a place, and whether the transaction is committed.
type Round = (&'static str, bool);

/// One shard holds all of the transaction: it has ended, or it has not.
const IN_ONE_SHARD: [Round; 3] =
    [("transaction.before_end", true), ("transaction.ended", true), ("transaction.ended", false)];

/// Over several shards there is more between: it is decided, and before or after the markers.
const OVER_SEVERAL_SHARDS: [Round; 4] = [
    ("transaction.ended", true),
    ("transaction.prepared", true),
    ("transaction.prepared", false),
    ("transaction.marked", true),
];

#[tokio::test(flavor = "multi_thread")]
async fn wherever_the_server_ends_a_transaction_in_one_shard_ends_in_one_way() {
    let mut server = Server::start();
    for round in IN_ONE_SHARD {
        end_server_in_transaction(&mut server, 1, round).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wherever_the_server_ends_a_transaction_over_several_shards_ends_in_one_way() {
    let mut server = Server::start_with(&["--shards", "4"]);
    for round in OVER_SEVERAL_SHARDS {
        end_server_in_transaction(&mut server, 4, round).await;
    }
}

async fn end_server_in_transaction(server: &mut Server, partitions: i32, (failpoint, is_committed): Round) {
    let end = if is_committed { "commit" } else { "abort" };
    let topics = ["first", "second"].map(|topic| format!("{topic}-{failpoint}-{end}"));
    server.kill();
    server.start_again_until(failpoint);
    let mut raw = connected(server).await;
    topics.iter().for_each(|topic| raw.create_topic(topic, partitions, &[]));
    let producer = RawProducer::init(&mut raw);
    topics.iter().for_each(|topic| producer.produce(&mut raw, topic, partitions));
    raw.send_bytes(&frame(3, &producer.end_request(is_committed)));
    raw.expect_closed();
    ended(server, failpoint).await;
    server.start_again();
    let count = (partitions * RECORDS_PER_BATCH) as usize;
    if failpoint == "transaction.before_end" {
        assert_eq!(selected(server, &topics[0]).await, [""; 0], "nothing is decided");
    } else if is_committed {
        // Nobody asks for it.
        until_visible(server, &topics[0], count).await;
    }
    let mut raw = RawClient::connect(server.kafka);
    assert_eq!(producer.end(&mut raw, is_committed), 0, "{failpoint}");
    let expected = if is_committed { count } else { 0 };
    assert_eq!(committed(server, &topics[0], partitions).await.len(), expected, "{failpoint}");
    for topic in &topics {
        assert_eq!(selected(server, topic).await.len(), expected, "{failpoint} {topic}");
        for partition in 0..partitions {
            // Behind the three records there is a marker, or more where it was sent again.
            let last_stable = raw.list_committed_end(topic, partition);
            assert!(last_stable >= 4, "{failpoint} {topic} {partition}: {last_stable}");
        }
    }
}

/// Waits until a server that is not waited for takes connections and serves them.
async fn connected(server: &Server) -> RawClient {
    let connects = async {
        let mut pause = tokio::time::interval(Duration::from_millis(20));
        while std::net::TcpStream::connect(server.kafka).is_err() {
            pause.tick().await;
        }
    };
    tokio::time::timeout(MESSAGE_BOUND, connects).await.expect("the server listens in time");
    RawClient::connect(server.kafka)
}

async fn ended(server: &mut Server, failpoint: &str) {
    let reached = async {
        let mut pause = tokio::time::interval(Duration::from_millis(10));
        while !server.has_ended() {
            pause.tick().await;
        }
    };
    tokio::time::timeout(MESSAGE_BOUND, reached)
        .await
        .unwrap_or_else(|_| panic!("{failpoint} is not reached"));
}
