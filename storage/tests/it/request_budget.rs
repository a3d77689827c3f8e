//! How many requests the log makes of an object store, counted by an S3 server in memory. A budget
//! holds on any machine; a time does not.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use strandline_s3_mock::S3Mock;
use strandline_storage::format::{BatchBuilder, BatchOptions};
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::{
    CreateTopic, FetchOptions, FirstBatch, Isolation, Log, LogSettings, PartitionAppend, PartitionView,
};
use strandline_storage::seam::Seams;

use crate::s3;

const T: i64 = 1_700_000_000_000;
const MIB: usize = 1024 * 1024;

/// Opens the log with nothing in memory and little linger.
async fn open(mock: &S3Mock) -> Log {
    let settings =
        LogSettings { linger: Some(Duration::from_millis(5)), tail_bytes_max: 0, ..LogSettings::default() };
    Log::open(s3::open(mock, "s3://bucket/log"), settings, Seams::system()).await.expect("the log opens")
}

async fn create(log: &Log, partitions: i32) -> TopicPartition {
    let configs = BTreeMap::from([("max.message.bytes".to_owned(), "4194304".to_owned())]);
    let topic = log.create_topic(CreateTopic { name: "events".to_owned(), partitions, configs }).await;
    TopicPartition::new(topic.expect("the topic is created").id, 0)
}

fn batch(timestamp: i64, value: &[u8]) -> Bytes {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.append(Some(timestamp), None, Some(value), &[]).expect("the record fits");
    builder.finish()
}

async fn append(log: &Log, appends: Vec<PartitionAppend>) {
    for appended in log.append(appends).await {
        appended.expect("the batch is appended");
    }
}

fn view(log: &Log, topic_partition: TopicPartition) -> PartitionView {
    log.snapshot().partition(topic_partition).expect("the partition exists")
}

#[tokio::test]
async fn sixty_four_mebibytes_are_fetched_in_ten_requests_and_opened_in_few() {
    let mock = s3::start().await;
    let log = open(&mock).await;
    let id = create(&log, 1).await;
    let value = vec![b'x'; MIB - 1024];
    for number in 0..64 {
        append(&log, vec![PartitionAppend { topic_partition: id, batch: batch(T + number, &value) }]).await;
    }
    log.compact_now().await.expect("the log is compacted");
    log.close().await;

    mock.reset_counts();
    let log = open(&mock).await;
    let opened = mock.counts();
    assert!(opened.requests() <= 40 && opened.lists <= 10, "{opened:?}");
    assert!(opened.bytes_out < MIB as u64, "an open reads no records: {opened:?}");

    mock.reset_counts();
    let view = view(&log, id);
    let mut from = 0;
    while from < 64 {
        // As a consumer with max.partition.fetch.bytes of 1 MiB asks.
        let options = FetchOptions {
            from,
            bytes_max: MIB,
            isolation: Isolation::ReadCommitted,
            first_batch: FirstBatch::Whole,
        };
        let fetched = view.fetch(options).await.expect("the fetch succeeds");
        assert!(fetched.next_offset > from, "the fetch gets on");
        from = fetched.next_offset;
    }
    let fetched = mock.counts();
    assert!(fetched.requests() <= 10 && fetched.gets == fetched.requests(), "{fetched:?}");
}

#[tokio::test]
async fn a_cold_lookup_is_two_requests_and_a_repeated_one_none() {
    let mock = s3::start().await;
    let log = open(&mock).await;
    let id = create(&log, 1).await;
    for hundred in 0..200 {
        let one = |step| {
            let batch = batch(T + hundred * 500 + step, &[b'x'; 200]);
            PartitionAppend { topic_partition: id, batch }
        };
        append(&log, (0..500).map(one).collect()).await;
    }
    log.compact_now().await.expect("the log is compacted");
    log.close().await;
    let log = open(&mock).await;
    for (offset, budget) in [(77_777, 2), (77_777, 0), (12_345, 1), (99_999, 1)] {
        mock.reset_counts();
        let found = view(&log, id).lookup_time(T + offset, Isolation::ReadCommitted).await;
        assert_eq!(found.expect("the lookup succeeds").map(|found| found.offset), Some(offset));
        let counts = mock.counts();
        assert!(counts.requests() <= budget && counts.gets == counts.requests(), "{offset}: {counts:?}");
    }
}

#[tokio::test]
async fn a_thousand_partitions_with_a_record_each_second_are_compacted_with_few_puts() {
    let mock = s3::start().await;
    let log = open(&mock).await;
    let id = create(&log, 1000).await;
    for second in 0..60 {
        let one = |partition| {
            let topic_partition = TopicPartition::new(id.topic_id, partition);
            PartitionAppend { topic_partition, batch: batch(T + second, b"a reading") }
        };
        append(&log, (0..1000).map(one).collect()).await;
    }
    mock.reset_counts();
    log.compact_now().await.expect("the log is compacted");
    log.checkpoint_now().await.expect("the checkpoint is written");
    let counts = mock.counts();
    let written = counts.puts + counts.uploads_created + counts.parts + counts.uploads_completed;
    assert!(written <= 10, "{counts:?}");
    assert!(counts.gets <= 70, "each WAL object is read once: {counts:?}");
    let last = view(&log, TopicPartition::new(id.topic_id, 999));
    assert_eq!((last.record_count(), last.slices().len(), last.tail().len()), (60, 1, 0));
}
