//! A store that is slow, or away for a while: producers wait, nothing is lost or reordered, and all
//! goes on by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use strandline_s3_mock::{Fault, Operation, S3Mock};
use strandline_storage::format::{BatchBuilder, BatchOptions};
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::{CreateTopic, Health, Log, LogSettings, PartitionAppend};
use strandline_storage::seam::Seams;

use crate::s3;

async fn start() -> (S3Mock, Log, TopicPartition) {
    let mock = s3::start().await;
    let store = s3::open(&mock, "s3://bucket/log");
    let settings = LogSettings { linger: Some(Duration::from_millis(5)), ..LogSettings::default() };
    let log = Log::open(store, settings, Seams::system()).await.expect("the log opens");
    let topic = CreateTopic { name: "events".to_owned(), partitions: 1, configs: BTreeMap::new() };
    let topic = log.create_topic(topic).await.expect("the topic is created");
    let id = TopicPartition::new(topic.id, 0);
    (mock, log, id)
}

fn batch(number: i64) -> Bytes {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.append(Some(1_700_000_000_000 + number), None, Some(b"v"), &[]).expect("the record fits");
    builder.finish()
}

/// Appends one batch after the other without waiting for the answers, and then takes all of them.
async fn append_all(log: &Log, id: TopicPartition, numbers: std::ops::Range<i64>) {
    let mut pending = Vec::new();
    let mut pause = tokio::time::interval(Duration::from_millis(10));
    for number in numbers.clone() {
        pending.push(log.submit(vec![PartitionAppend { topic_partition: id, batch: batch(number) }]).await);
        // Each gets an object of its own.
        pause.tick().await;
    }
    for (number, answer) in numbers.zip(pending) {
        let appended = answer.await.remove(0).expect("the batch is appended in the end");
        assert_eq!(appended.base_offset, number, "in the order of the appends");
    }
}

#[tokio::test]
async fn appends_wait_for_a_store_that_is_away_and_go_on_by_themselves() {
    let (mock, log, id) = start().await;
    append_all(&log, id, 0..3).await;
    mock.set_fault(Some(Fault::Refuse(503)));
    let mut waiting = tokio::spawn({
        let log = log.clone();
        async move { append_all(&log, id, 3..20).await }
    });
    let outage = Duration::from_secs(3);
    tokio::time::timeout(outage, &mut waiting).await.expect_err("nothing is acknowledged that is not stored");
    assert_eq!(log.health(), Health::Serving, "an outage refuses nothing");
    mock.set_fault(None);
    let bound = Duration::from_secs(30);
    tokio::time::timeout(bound, waiting).await.expect("it goes on by itself").expect("the appends succeed");
    assert_eq!(log.snapshot().partition(id).expect("it exists").bounds().high_watermark, 20);
}

#[tokio::test]
async fn one_slow_put_does_not_hold_up_the_others_for_longer_than_its_timeout() {
    let (mock, log, id) = start().await;
    append_all(&log, id, 0..3).await;
    mock.fault_next(1, Operation::PutObject, Fault::Delay(Duration::from_secs(30)));
    let bound = Duration::from_secs(15);
    tokio::time::timeout(bound, append_all(&log, id, 3..6)).await.expect("the put is sent again");
}
