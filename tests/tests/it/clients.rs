//! The everyday use of librdkafka: produce, consume, seek by time, groups, commits.

use std::time::Duration;

use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::producer::FutureRecord;
use rdkafka::util::Timeout;
use rdkafka::{Message, Offset, TopicPartitionList};

use crate::kafka::{MESSAGE_BOUND, consumer, producer, take, values};
use crate::raw::RawClient;
use crate::server::{Server, from_memory_wal_and_segments};
use crate::sql::Sql;

const T: i64 = 1_700_000_000_000;
const POLL: Duration = Duration::from_millis(100);

async fn produce_numbered(server: &Server, topic: &str, count: i64, settings: &[(&str, &str)]) {
    let producer = producer(&server.bootstrap(), settings);
    let sends = (0..count).map(|number| {
        let producer = producer.clone();
        async move {
            let (key, value) = (format!("k{number}"), format!("v{number}"));
            let record = FutureRecord::to(topic).key(&key).payload(&value).partition(0).timestamp(T + number);
            producer.send(record, Timeout::After(MESSAGE_BOUND)).await.expect("it is acknowledged");
        }
    });
    futures::future::join_all(sends).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_produced_with_any_codec_is_consumed_in_order() {
    let mut server = Server::start();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        produce_numbered(&server, codec, 200, &[("compression.codec", codec)]).await;
    }
    from_memory_wal_and_segments(&mut server, async |server| {
        let sql = Sql::connect(server).await;
        for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
            let consumer = consumer(&server.bootstrap(), "codecs", &[]);
            let mut assignment = TopicPartitionList::new();
            assignment.add_partition_offset(codec, 0, Offset::Beginning).expect("a valid offset");
            consumer.assign(&assignment).expect("it can be assigned");
            let messages = take(&consumer, 200).await;
            let offsets: Vec<i64> = messages.iter().map(|message| message.offset()).collect();
            assert_eq!(offsets, (0..200).collect::<Vec<i64>>(), "{codec}");
            let table = format!("SELECT _value FROM \"{codec}\" ORDER BY _offset");
            let rows: Vec<String> = sql.column(&table).await.into_iter().flatten().collect();
            assert_eq!(values(&messages), rows, "{codec}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_seeks_by_time() {
    let mut server = Server::start();
    produce_numbered(&server, "timed", 100, &[("max.in.flight", "1")]).await;
    from_memory_wal_and_segments(&mut server, async |server| {
        let consumer = consumer(&server.bootstrap(), "seekers", &[]);
        let sql = Sql::connect(server).await;
        let statement = "SELECT min(_offset) FROM timed WHERE ts >= '2023-11-14 22:13:20.050Z'";
        let expected: i64 = sql.text(statement).await.parse().expect("an offset");
        let mut asked = TopicPartitionList::new();
        asked.add_partition_offset("timed", 0, Offset::Offset(T + 50)).expect("a valid time");
        let found = consumer.offsets_for_times(asked, MESSAGE_BOUND).expect("it is answered");
        assert_eq!(found.elements()[0].offset(), Offset::Offset(expected));
        consumer.assign(&found).expect("it can be assigned");
        let first = take(&consumer, 1).await.remove(0);
        assert_eq!(first.offset(), expected);
        assert!(first.timestamp().to_millis().is_some_and(|timestamp| timestamp >= T + 50));
    })
    .await;
}

/// Reported as kafkajs#1065, rust-rdkafka#460, kafka-python#2030.
#[tokio::test(flavor = "multi_thread")]
async fn a_time_later_than_everything_is_an_answer_not_an_error() {
    let mut server = Server::start();
    RawClient::connect(server.kafka).create_topic("late", 3, &[]);
    let producer = producer(&server.bootstrap(), &[]);
    for partition in [0, 2] {
        let record = FutureRecord::<str, str>::to("late").payload("v").partition(partition).timestamp(T);
        producer.send(record, Timeout::After(MESSAGE_BOUND)).await.expect("it is acknowledged");
    }
    from_memory_wal_and_segments(&mut server, async |server| {
        let consumer = consumer(&server.bootstrap(), "late", &[]);
        let mut asked = TopicPartitionList::new();
        for (partition, time) in [(0, T + 86_400_000), (1, T), (2, T)] {
            asked.add_partition_offset("late", partition, Offset::Offset(time)).expect("a valid time");
        }
        let found = consumer.offsets_for_times(asked, MESSAGE_BOUND).expect("it is answered");
        let offsets: Vec<Offset> = found.elements().iter().map(|element| element.offset()).collect();
        assert_eq!(offsets, [Offset::End, Offset::End, Offset::Offset(0)]);
        assert!(found.elements().iter().all(|element| element.error().is_ok()));
        let mut raw = RawClient::connect(server.kafka);
        assert_eq!(raw.list_offset("late", 0, T + 86_400_000), (-1, -1));
        assert_eq!(raw.list_offset("late", 1, T), (-1, -1));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_goes_on_where_it_committed_also_after_a_restart() {
    let mut server = Server::start();
    produce_numbered(&server, "grouped", 30, &[]).await;
    for round in 0..3 {
        let consumer = consumer(&server.bootstrap(), "readers", &[]);
        consumer.subscribe(&["grouped"]).expect("it can be subscribed");
        let messages = take(&consumer, 10).await;
        let offsets: Vec<i64> = messages.iter().map(|message| message.offset()).collect();
        assert_eq!(offsets, (round * 10..round * 10 + 10).collect::<Vec<i64>>());
        let mut position = TopicPartitionList::new();
        position.add_partition_offset("grouped", 0, Offset::Offset(round * 10 + 10)).expect("a valid offset");
        consumer.commit(&position, CommitMode::Sync).expect("it is committed");
        drop(consumer);
        if round == 1 {
            server.kill();
            server.start_again();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_shared_by_the_members_of_a_group() {
    let server = Server::start();
    RawClient::connect(server.kafka).create_topic("shared", 2, &[]);
    let members: Vec<_> = (0..2).map(|_| consumer(&server.bootstrap(), "sharers", &[])).collect();
    for member in &members {
        member.subscribe(&["shared"]).expect("it can be subscribed");
    }
    let is_shared =
        || members.iter().all(|member| member.assignment().is_ok_and(|assignment| assignment.count() == 1));
    let settled = tokio::time::timeout(MESSAGE_BOUND, async {
        while !is_shared() {
            // Only who asks for messages takes part in a rebalance; there are no messages yet.
            for member in &members {
                let _ = tokio::time::timeout(POLL, member.recv()).await;
            }
        }
    });
    settled.await.expect("each member gets a partition in time");
    let producer = producer(&server.bootstrap(), &[]);
    for partition in 0..2 {
        let record = FutureRecord::<str, str>::to("shared").payload("v").partition(partition);
        producer.send(record, Timeout::After(MESSAGE_BOUND)).await.expect("it is acknowledged");
    }
    let (first, second) = futures::future::join(take(&members[0], 1), take(&members[1], 1)).await;
    let mut partitions = [first[0].partition(), second[0].partition()];
    partitions.sort_unstable();
    assert_eq!(partitions, [0, 1]);
}
