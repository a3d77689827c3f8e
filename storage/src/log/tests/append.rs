//! Appends: offsets, refusals, idempotence, and what is read back.

use super::*;
use crate::format::{BatchError, BatchHeader};
use crate::log::{FetchError, WriteError};

#[tokio::test]
async fn appended_batches_are_fetched_as_they_were_sent_with_their_offsets() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 2, &[]).await;
    for (index, codec) in Compression::ALL.into_iter().enumerate() {
        let sent = compressed(codec, &[T, T + 1, T + 2]);
        let appended = append(&log, events, sent).await.unwrap();
        assert_eq!((appended.base_offset, appended.last_offset), (3 * index as i64, 3 * index as i64 + 2));
    }
    let check = async |log: &Log| {
        let fetched = fetch(log, events, 0).await;
        let expected: Vec<_> = (0..15).map(|offset| (offset, Some(T + offset % 3))).collect();
        assert_eq!(records(&fetched), expected);
        assert_eq!(fetched.next_offset, 15);
        let sent = compressed(Compression::Zstd, &[T, T + 1, T + 2]);
        let stored = fetched.batches.last().unwrap();
        assert_eq!(stored[16..], sent[16..], "all but base offset and leader epoch is verbatim");
    };
    check(&log).await;
    check(&reopen(&store, log).await).await;
}

#[tokio::test]
async fn a_fetch_returns_whole_batches_within_its_budget_and_always_the_first() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[]).await;
    for _ in 0..10 {
        append(&log, events, batch(&[T, T, T])).await.unwrap();
    }
    let size = batch(&[T, T, T]).len();
    let log = reopen(&store, log).await;
    let fetch = async |offset, bytes_max| view(&log, events).fetch(from(offset, bytes_max)).await.unwrap();
    assert_eq!(fetch(0, 1).await.batches.len(), 1, "the first batch is whole whatever the budget");
    assert_eq!(fetch(0, 3 * size + 1).await.batches.len(), 3);
    let inside = fetch(4, 2 * size).await;
    assert_eq!(BatchHeader::parse(&inside.batches[0]).unwrap().base_offset, 3);
    assert_eq!(inside.next_offset, 9);
    let within = FetchOptions { first_batch: FirstBatch::WithinLimit, ..from(0, size - 1) };
    assert_eq!(view(&log, events).fetch(within).await.unwrap().batches.len(), 0);
    assert_eq!(fetch(30, usize::MAX).await, Fetched { next_offset: 30, ..Fetched::default() });
    let outside = view(&log, events).fetch(from(31, 1)).await;
    assert!(matches!(outside, Err(FetchError::OutOfRange { offset: 31, high_watermark: 30, .. })));
}

#[tokio::test]
async fn batches_that_break_a_rule_are_refused_and_take_no_offset() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[("max.message.bytes", "400")]).await;
    let refused = async |batch: Bytes| append(&log, events, batch).await.unwrap_err();
    let mut damaged = batch(&[T]).to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    assert!(matches!(refused(damaged.into()).await, AppendError::InvalidBatch(_)));
    let mut with_offset = batch(&[T]).to_vec();
    with_offset[7] = 1;
    assert!(matches!(refused(with_offset.into()).await, AppendError::NonZeroBaseOffset { found: 1 }));
    assert!(matches!(refused(batch(&[T; 100])).await, AppendError::TooLarge { max: 400, .. }));
    let future = Seams::system().clock.now_ms() + 2 * 3_600_000;
    assert!(matches!(refused(batch(&[T, future])).await, AppendError::InvalidTimestamp { .. }));
    let two: Bytes = [batch(&[T]), batch(&[T])].concat().into();
    assert!(matches!(refused(two).await, AppendError::InvalidBatch(_)));
    let unknown = TopicPartition::new(events.topic_id, 1);
    let to_unknown = append(&log, unknown, batch(&[T])).await;
    assert_eq!(to_unknown, Err(AppendError::UnknownTopicPartition(unknown)));
    assert_eq!(append(&log, events, batch(&[T])).await.unwrap().base_offset, 0);
}

#[tokio::test]
async fn a_refused_batch_does_not_harm_the_others_of_its_request() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 2, &[]).await;
    let second = TopicPartition::new(events.topic_id, 1);
    let appends = vec![
        PartitionAppend { topic_partition: events, batch: Bytes::from_static(b"no batch") },
        PartitionAppend { topic_partition: second, batch: batch(&[T, T]) },
    ];
    let results = log.append(appends).await;
    assert!(matches!(results[0], Err(AppendError::InvalidBatch(_))));
    assert_eq!(results[1].as_ref().unwrap().last_offset, 1);
}

#[tokio::test]
async fn the_batches_of_a_request_share_the_budget_of_decompressed_bytes() {
    let store = memory();
    let settings = LogSettings { decompressed_bytes_max: 60_000, ..LogSettings::default() };
    let log = open_with(&store, settings).await;
    let events = create(&log, "events", 1, &[]).await;
    let mut builder =
        BatchBuilder::new(BatchOptions { compression: Compression::Gzip, ..BatchOptions::default() });
    builder.append(Some(T), None, Some(&[0; 40_000]), &[]).unwrap();
    let append = PartitionAppend { topic_partition: events, batch: builder.finish() };
    let results = log.append(vec![append.clone(), append.clone()]).await;
    assert!(results[0].is_ok());
    assert!(matches!(results[1], Err(AppendError::InvalidBatch(BatchError::BudgetExceeded { .. }))));
    assert!(log.append(vec![append]).await[0].is_ok());
}

#[tokio::test]
async fn a_header_that_lies_about_its_greatest_timestamp_is_corrected() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[]).await;
    let mut lying = batch(&[T, T + 10, T + 5]).to_vec();
    crate::format::set_max_timestamp(&mut lying, -1);
    append(&log, events, lying.into()).await.unwrap();
    let stored = fetch(&log, events, 0).await.batches.remove(0);
    assert_eq!(BatchHeader::parse(&stored).unwrap().max_timestamp, T + 10);
    crate::format::verify_crc(&stored).unwrap();
    let found = view(&log, events).lookup_time(T + 6, Isolation::ReadUncommitted).await.unwrap().unwrap();
    assert_eq!((found.offset, found.timestamp), (1, T + 10));
}

#[tokio::test]
async fn log_append_time_is_the_time_of_all_records() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[("message.timestamp.type", "LogAppendTime")]).await;
    let sent = compressed(Compression::Gzip, &[2, 9, 5]);
    let time = append(&log, events, sent).await.unwrap().log_append_time.expect("the topic sets it");
    let log = reopen(&store, log).await;
    let fetched = fetch(&log, events, 0).await;
    assert_eq!(records(&fetched), [(0, Some(time)), (1, Some(time)), (2, Some(time))]);
    crate::format::verify_crc(&fetched.batches[0]).unwrap();
    assert_eq!(
        view(&log, events).max_timestamp(Isolation::ReadUncommitted).await.unwrap().unwrap().offset,
        0
    );
}

#[tokio::test]
async fn a_repeated_batch_gets_its_first_offset_also_after_a_restart() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[]).await;
    for sequence in [0, 2, 4] {
        append(&log, events, idempotent(0, sequence, 2)).await.unwrap();
    }
    let check = async |log: &Log| {
        let again = append(log, events, idempotent(0, 2, 2)).await.unwrap();
        assert_eq!((again.base_offset, again.is_duplicate), (2, true));
        let gap = append(log, events, idempotent(0, 9, 1)).await;
        assert_eq!(gap, Err(AppendError::OutOfOrderSequence { producer_id: 7, expected: 6, found: 9 }));
        assert_eq!(view(log, events).bounds().high_watermark, 6);
    };
    check(&log).await;
    let log = reopen(&store, log).await;
    check(&log).await;
    append(&log, events, idempotent(1, 0, 1)).await.unwrap();
    let stale = append(&log, events, idempotent(0, 6, 1)).await;
    assert_eq!(stale, Err(AppendError::StaleProducerEpoch { producer_id: 7, current: 1, found: 0 }));
}

#[tokio::test]
async fn a_duplicate_of_a_batch_in_flight_gets_the_same_offset() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[]).await;
    let one = |sequence| vec![PartitionAppend { topic_partition: events, batch: idempotent(0, sequence, 1) }];
    let first = log.submit(one(0)).await;
    let again = log.submit(one(0)).await;
    let next = log.submit(one(1)).await;
    assert_eq!(first.await[0].as_ref().unwrap().base_offset, 0);
    assert_eq!(again.await[0].as_ref().unwrap().base_offset, 0);
    assert_eq!(next.await[0].as_ref().unwrap().base_offset, 1);
}

#[tokio::test]
async fn a_closed_log_commits_what_was_pending_and_refuses_more() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[]).await;
    let pending = log.submit(vec![PartitionAppend { topic_partition: events, batch: batch(&[T]) }]).await;
    log.close().await;
    assert!(pending.await[0].is_ok());
    assert_eq!(append(&log, events, batch(&[T])).await, Err(AppendError::Write(WriteError::Closed)));
}

#[tokio::test]
async fn small_appends_of_many_callers_share_commits() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[]).await;
    let before = store.counts().creates;
    let appends = (0..200).map(|_| append(&log, events, batch(&[T])));
    let results = futures::future::join_all(appends).await;
    let mut offsets: Vec<_> = results.into_iter().map(|result| result.unwrap().base_offset).collect();
    offsets.sort_unstable();
    assert_eq!(offsets, (0..200).collect::<Vec<_>>());
    let commits = store.counts().creates - before;
    assert!(commits < 100, "{commits} commits for 200 appends");
}

#[tokio::test]
async fn a_waiting_reader_is_woken_by_an_append_to_its_partition() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 2, &[]).await;
    let mut changes = log.changes(&[events]);
    append(&log, events, batch(&[T])).await.unwrap();
    changes.changed().await;
    assert_eq!(view(&log, events).bounds().high_watermark, 1);
}

#[tokio::test]
async fn batches_are_kept_with_the_codec_of_their_topic() {
    let store = memory();
    let log = open(&store).await;
    for (topic, codec) in
        [("uncompressed", Compression::None), ("gzip", Compression::Gzip), ("zstd", Compression::Zstd)]
    {
        let events = create(&log, topic, 1, &[("compression.type", topic)]).await;
        for from in Compression::ALL {
            append(&log, events, compressed(from, &[T, T + 5, T + 1])).await.unwrap();
        }
        let fetched = fetch(&log, events, 0).await;
        let expected: Vec<_> =
            (0..15).map(|offset| (offset, Some(T + [0, 5, 1][offset as usize % 3]))).collect();
        assert_eq!(records(&fetched), expected);
        for batch in &fetched.batches {
            assert_eq!(BatchHeader::parse(batch).unwrap().compression(), Ok(codec));
            crate::format::verify_crc(batch).unwrap();
        }
    }
}

#[tokio::test]
async fn a_batch_that_is_too_large_with_the_codec_of_its_topic_is_refused() {
    let store = memory();
    let log = open(&store).await;
    let limits = [("compression.type", "uncompressed"), ("max.message.bytes", "5000")];
    let events = create(&log, "events", 1, &limits).await;
    let mut builder =
        BatchBuilder::new(BatchOptions { compression: Compression::Zstd, ..BatchOptions::default() });
    builder.append(Some(T), None, Some(&[0; 40_000]), &[]).unwrap();
    let refused = append(&log, events, builder.finish()).await;
    assert!(matches!(refused, Err(AppendError::TooLarge { max: 5000, .. })), "{refused:?}");
}

#[tokio::test]
async fn records_out_of_the_bounds_of_time_are_named() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[("message.timestamp.before.max.ms", "1000")]).await;
    let now = Seams::system().clock.now_ms();
    let refused = append(&log, events, batch(&[now, T, now, T + 1])).await;
    let Err(AppendError::InvalidTimestamp { records, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(records, [1, 3]);
}
