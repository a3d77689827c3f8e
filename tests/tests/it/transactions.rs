//! Transactions with real clients: all or nothing for consumers that read committed and for SQL, also
//! where a client or the server ends in the middle.

use std::time::Duration;

use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest, ProduceRequest, TransactionalId,
};
use kafka_protocol::protocol::StrBytes;
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use rdkafka::{Message, Offset, TopicPartitionList};
use strandline_storage::format::{BatchBuilder, BatchKind, BatchOptions, ProducerIdentity};

use crate::kafka::{MESSAGE_BOUND, consumer, producer, take, values};
use crate::raw::{RawClient, frame, topic_name};
use crate::server::{Server, from_memory_wal_and_segments};
use crate::sql::Sql;

const CONCURRENT_TRANSACTIONS: i16 = 51;

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
    let settings = [("isolation.level", "read_committed"), ("enable.partition.eof", "true")];
    let consumer = consumer(&server.bootstrap(), "readers", &settings);
    let mut assignment = TopicPartitionList::new();
    for partition in 0..partitions {
        assignment.add_partition_offset(topic, partition, Offset::Beginning).expect("a valid offset");
    }
    consumer.assign(&assignment).expect("it can be assigned");
    let (mut found, mut ends) = (Vec::new(), 0);
    while ends < partitions {
        let message = tokio::time::timeout(MESSAGE_BOUND, consumer.recv()).await.expect("something comes");
        match message {
            Ok(message) => found.extend(values(&[message.detach()])),
            Err(KafkaError::PartitionEOF(_)) => ends += 1,
            // What librdkafka reports else it gets over by itself; the bound holds all the same.
            Err(_) => {}
        }
    }
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
    RawClient::connect(server.kafka).produce_ok("left", 0, plain("after"));
    until_visible(&server, "left", 1).await;
    assert_eq!(committed(&server, "left", 1).await, ["after"]);
    assert_eq!(selected(&server, "left").await, ["after"]);
    let refused = producer.commit_transaction(MESSAGE_BOUND).expect_err("it was aborted");
    assert!(is_fenced(&refused), "{refused:?}");
}

fn plain(value: &str) -> bytes::Bytes {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.append(Some(1), None, Some(value.as_bytes()), &[]).expect("a small record");
    builder.finish()
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

/// A producer that speaks single frames, so that each request is where the test wants it.
#[derive(Clone, Copy)]
struct RawProducer {
    producer_id: i64,
    producer_epoch: i16,
}

fn name(name: &str) -> TransactionalId {
    TransactionalId(StrBytes::from_string(name.to_owned()))
}

impl RawProducer {
    const NAME: &str = "raw";

    fn init(raw: &mut RawClient) -> Self {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(name(Self::NAME)))
            .with_transaction_timeout_ms(60_000)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1);
        let answer = raw.call(4, &request);
        assert_eq!(answer.error_code, 0);
        Self { producer_id: answer.producer_id.0, producer_epoch: answer.producer_epoch }
    }

    /// Adds all partitions of a topic to the transaction, and three records to each.
    fn produce(&self, raw: &mut RawClient, topic: &str, partitions: i32) {
        let added = AddPartitionsToTxnTopic::default()
            .with_name(topic_name(topic))
            .with_partitions((0..partitions).collect());
        let add = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(name(Self::NAME))
            .with_v3_and_below_producer_id(self.producer_id.into())
            .with_v3_and_below_producer_epoch(self.producer_epoch)
            .with_v3_and_below_topics(vec![added]);
        let added = raw.call(3, &add);
        let results = &added.results_by_topic_v3_and_below[0].results_by_partition;
        assert!(results.iter().all(|result| result.partition_error_code == 0), "{results:?}");
        let data = (0..partitions).map(|partition| {
            PartitionProduceData::default().with_index(partition).with_records(Some(self.batch()))
        });
        let topic =
            TopicProduceData::default().with_name(topic_name(topic)).with_partition_data(data.collect());
        let produce = ProduceRequest::default()
            .with_transactional_id(Some(name(Self::NAME)))
            .with_acks(-1)
            .with_timeout_ms(30_000)
            .with_topic_data(vec![topic]);
        let results = &raw.call(9, &produce).responses[0].partition_responses;
        assert!(results.iter().all(|result| result.error_code == 0), "{results:?}");
    }

    fn batch(&self) -> bytes::Bytes {
        let RawProducer { producer_id, producer_epoch } = *self;
        let producer = Some(ProducerIdentity { producer_id, producer_epoch, base_sequence: 0 });
        let options = BatchOptions { producer, kind: BatchKind::Transactional, ..BatchOptions::default() };
        let mut builder = BatchBuilder::new(options);
        for value in numbered("v", 3) {
            builder.append(Some(1), None, Some(value.as_bytes()), &[]).expect("a small record");
        }
        builder.finish()
    }

    fn end_request(&self, committed: bool) -> EndTxnRequest {
        EndTxnRequest::default()
            .with_transactional_id(name(Self::NAME))
            .with_producer_id(self.producer_id.into())
            .with_producer_epoch(self.producer_epoch)
            .with_committed(committed)
    }

    /// Ends the transaction as a client does: again while it is told to.
    fn end(&self, raw: &mut RawClient, committed: bool) -> i16 {
        loop {
            match raw.call(3, &self.end_request(committed)).error_code {
                CONCURRENT_TRANSACTIONS => {}
                code => return code,
            }
        }
    }
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
    let count = partitions as usize * 3;
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
