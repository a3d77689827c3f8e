//! Transactions: markers, the last stable offset, what read committed sees, fencing, and a property
//! test against a model. What depends on where records are is looked at in memory, compacted, and
//! after a restart.

mod model;

use super::*;
use crate::format::event::TransactionResult::{self, Abort, Commit};
use crate::format::{BatchHeader, BatchKind, BlockFlags, PendingOffset};
use crate::ids::TopicId;
use crate::log::error::EndTransactionError;
use crate::log::{AbortedTransaction, EndTransaction, EndedTransaction, GroupOffsets};

fn producer(producer_id: i64, producer_epoch: i16, base_sequence: i32) -> Option<ProducerIdentity> {
    Some(ProducerIdentity { producer_id, producer_epoch, base_sequence })
}

/// A batch of a transaction, of two records.
fn transactional(producer_id: i64, producer_epoch: i16, base_sequence: i32) -> Bytes {
    let producer = producer(producer_id, producer_epoch, base_sequence);
    let kind = BatchKind::Transactional;
    batch_with(BatchOptions { producer, kind, ..BatchOptions::default() }, &[Some(T), Some(T + 1)])
}

fn end(producer_id: i64, result: TransactionResult, partitions: &[TopicPartition]) -> EndTransaction {
    EndTransaction {
        producer_id,
        producer_epoch: 0,
        coordinator_epoch: 0,
        result,
        partitions: partitions.to_vec(),
        offsets: Vec::new(),
    }
}

fn of_readers(partition: TopicPartition, offset: i64) -> GroupOffsets {
    let pending = PendingOffset { offset, leader_epoch: 0, metadata: None, replaces: None };
    GroupOffsets { group: "readers".to_owned(), offsets: BTreeMap::from([(partition, pending)]) }
}

/// Ends a transaction in one partition.
async fn end_in(
    log: &Log,
    partition: TopicPartition,
    transaction: EndTransaction,
) -> Result<i64, EndTransactionError> {
    let transaction = EndTransaction { partitions: vec![partition], ..transaction };
    log.end_transaction(transaction).await.expect("the log takes it").partitions.remove(0)
}

async fn fetch_committed(log: &Log, partition: TopicPartition, offset: i64) -> Fetched {
    let options = FetchOptions { isolation: Isolation::ReadCommitted, ..from(offset, usize::MAX) };
    view(log, partition).fetch(options).await.expect("the fetch succeeds")
}

/// The offsets that a client returns to its user: it skips markers, and under read committed what
/// belongs to a transaction on the list of aborted ones, as Kafka's consumer does.
fn visible(fetched: &Fetched) -> Vec<i64> {
    let mut aborted = fetched.aborted.iter().peekable();
    let mut skipped = std::collections::BTreeSet::new();
    let mut offsets = Vec::new();
    for batch in &fetched.batches {
        let header = BatchHeader::parse(batch).expect("a stored batch");
        while let Some(next) = aborted.next_if(|next| next.first_offset <= header.last_offset()) {
            skipped.insert(next.producer_id);
        }
        let decoded = Records::decode(batch, &mut DecompressionBudget::new(1 << 20)).expect("a stored batch");
        if header.is_control() {
            let marker = decoded.iter().next().expect("a marker is one record").expect("a record");
            if marker.key == Some(&[0, 0, 0, 0]) {
                skipped.remove(&header.producer_id);
            }
        } else if !(header.is_transactional() && skipped.contains(&header.producer_id)) {
            offsets.extend(decoded.iter().map(|record| record.expect("a record").offset));
        }
    }
    offsets
}

/// Looks at a log as it is, compacted, and opened again.
async fn three_ways(store: &Arc<CountingStore>, log: Log, check: impl AsyncFn(&Log)) -> Log {
    check(&log).await;
    log.compact_now().await.expect("the compaction succeeds");
    check(&log).await;
    let log = reopen(store, log).await;
    check(&log).await;
    log
}

/// Reported as redpanda#6630, kop#1283, brod PR#659.
#[tokio::test]
async fn aborted_records_are_hidden_from_read_committed_only() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[]).await;
    for (sequence, result) in [(0, Commit), (2, Abort), (4, Commit)] {
        append(&log, events, transactional(7, 0, sequence)).await.unwrap();
        end_in(&log, events, end(7, result, &[])).await.unwrap();
    }
    append(&log, events, batch(&[T])).await.unwrap();
    three_ways(&store, log, async |log| {
        let committed = fetch_committed(log, events, 0).await;
        assert_eq!(committed.aborted, [AbortedTransaction { producer_id: 7, first_offset: 3 }]);
        assert_eq!(visible(&committed), [0, 1, 6, 7, 9]);
        assert_eq!(visible(&fetch(log, events, 0).await), [0, 1, 3, 4, 6, 7, 9]);
        assert_eq!(fetch(log, events, 0).await.aborted, []);
        assert_eq!(fetch_committed(log, events, 6).await.aborted, [], "its marker is before");
        assert_eq!(fetch_committed(log, events, 5).await.aborted.len(), 1, "its marker is in the range");
        let view = view(log, events);
        assert_eq!(view.record_count(), 7, "markers are no records of users");
    })
    .await;
}

#[tokio::test]
async fn a_marker_is_the_control_batch_of_kafka() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[]).await;
    append(&log, events, transactional(7, 3, 0)).await.unwrap();
    let commit = EndTransaction { producer_epoch: 3, coordinator_epoch: 9, ..end(7, Commit, &[]) };
    assert_eq!(end_in(&log, events, commit).await, Ok(2));
    let view = view(&log, events);
    let flags = view.tail().last().unwrap().flags;
    assert!(flags.contains(BlockFlags::CONTROL | BlockFlags::TRANSACTIONAL));
    let marker = fetch(&log, events, 2).await.batches.remove(0);
    crate::format::verify_crc(&marker).unwrap();
    let header = BatchHeader::parse(&marker).unwrap();
    assert!(header.is_control() && header.is_transactional());
    assert_eq!((header.producer_id, header.producer_epoch, header.base_sequence), (7, 3, -1));
    let decoded = Records::decode(&marker, &mut DecompressionBudget::new(100)).unwrap();
    let record = decoded.iter().next().unwrap().unwrap();
    assert_eq!(record.key, Some(&[0, 0, 0, 1][..]));
    assert_eq!(record.value, Some(&[0, 0, 0, 0, 0, 9][..]));
}

#[tokio::test]
async fn an_open_transaction_holds_the_last_stable_offset_back() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[]).await;
    append(&log, events, batch(&[T])).await.unwrap();
    append(&log, events, transactional(7, 0, 0)).await.unwrap();
    append(&log, events, batch(&[T + 9])).await.unwrap();
    let mut changes = log.changes(&[events]);
    let log = three_ways(&store, log, async |log| {
        let view = view(log, events);
        assert_eq!((view.bounds().last_stable_offset, view.bounds().high_watermark), (1, 4));
        assert_eq!(visible(&fetch_committed(log, events, 0).await), [0]);
        assert_eq!(fetch_committed(log, events, 2).await, Fetched { next_offset: 2, ..Fetched::default() });
        assert_eq!(view.lookup_time(T + 1, Isolation::ReadCommitted).await.unwrap(), None);
        let uncommitted = view.lookup_time(T + 1, Isolation::ReadUncommitted).await.unwrap().unwrap();
        assert_eq!(uncommitted.offset, 2);
        assert_eq!(view.max_timestamp(Isolation::ReadCommitted).await.unwrap(), None);
    })
    .await;
    changes.changed().await;
    end_in(&log, events, end(7, Commit, &[])).await.unwrap();
    assert_eq!(view(&log, events).bounds().last_stable_offset, 5);
    assert_eq!(visible(&fetch_committed(&log, events, 0).await), [0, 1, 2, 3]);
}

#[tokio::test]
async fn a_log_start_past_an_open_transaction_is_the_last_stable_offset() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[]).await;
    append(&log, events, transactional(7, 0, 0)).await.unwrap();
    append(&log, events, batch(&[T, T])).await.unwrap();
    assert_eq!(log.delete_records(vec![(events, 3)]).await.unwrap(), [Ok(3)]);
    let log = three_ways(&store, log, async |log| {
        assert_eq!(view(log, events).bounds().last_stable_offset, 3);
    })
    .await;
    end_in(&log, events, end(7, Abort, &[])).await.unwrap();
    assert_eq!(view(&log, events).bounds().last_stable_offset, 5);
    assert_eq!(visible(&fetch_committed(&log, events, 3).await), [2, 3], "the whole batch is returned");
}

#[tokio::test]
async fn a_batch_outside_of_the_open_transaction_of_its_producer_is_refused() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[]).await;
    let unnamed = BatchOptions { kind: BatchKind::Transactional, ..BatchOptions::default() };
    let refused = append(&log, events, batch_with(unnamed, &[Some(T)])).await;
    assert_eq!(refused, Err(AppendError::TransactionWithoutProducer));
    let together = vec![
        PartitionAppend { topic_partition: events, batch: transactional(7, 0, 0) },
        PartitionAppend { topic_partition: events, batch: idempotent(0, 2, 1) },
    ];
    let results = log.append(together).await;
    assert_eq!(results[1], Err(AppendError::NonTransactionalBatch { producer_id: 7 }));
    let refused = append(&log, events, idempotent(0, 2, 1)).await;
    assert_eq!(refused, Err(AppendError::NonTransactionalBatch { producer_id: 7 }));
    end_in(&log, events, end(7, Commit, &[])).await.unwrap();
    let again = append(&log, events, transactional(7, 0, 0)).await.unwrap();
    assert_eq!((again.base_offset, again.is_duplicate), (0, true));
    assert_eq!(view(&log, events).bounds().last_stable_offset, 3, "a duplicate opens nothing");
    assert_eq!(append(&log, events, idempotent(0, 2, 1)).await.unwrap().base_offset, 3);
}

#[tokio::test]
async fn a_marker_of_a_higher_epoch_fences_the_producer() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[]).await;
    append(&log, events, transactional(7, 0, 0)).await.unwrap();
    end_in(&log, events, EndTransaction { producer_epoch: 1, ..end(7, Abort, &[]) }).await.unwrap();
    let log = three_ways(&store, log, async |log| {
        let stale = append(log, events, transactional(7, 0, 2)).await;
        assert_eq!(stale, Err(AppendError::StaleProducerEpoch { producer_id: 7, current: 1, found: 0 }));
        let stale = end_in(log, events, end(7, Commit, &[])).await;
        let expected = EndTransactionError::StaleProducerEpoch { producer_id: 7, current: 1, found: 0 };
        assert_eq!(stale, Err(expected));
        let out_of_order = append(log, events, transactional(7, 1, 2)).await;
        assert!(matches!(out_of_order, Err(AppendError::OutOfOrderSequence { expected: 0, .. })));
    })
    .await;
    assert_eq!(append(&log, events, transactional(7, 1, 0)).await.unwrap().base_offset, 3);
}

#[tokio::test]
async fn a_stale_coordinator_is_refused_per_partition_and_commits_no_offsets() {
    let store = memory();
    let log = open(&store).await;
    let first = create(&log, "events", 2, &[]).await;
    let second = TopicPartition::new(first.topic_id, 1);
    let newer = EndTransaction { coordinator_epoch: 5, ..end(7, Commit, &[]) };
    end_in(&log, first, newer).await.unwrap();
    let log = reopen(&store, log).await;
    let offsets = vec![of_readers(first, 1)];
    let gone = TopicPartition::new(TopicId::from_bytes([9; 16]), 0);
    let stale = EndTransaction {
        coordinator_epoch: 4,
        offsets: offsets.clone(),
        ..end(7, Commit, &[first, second, gone])
    };
    let EndedTransaction { partitions, offsets: committed } = log.end_transaction(stale).await.unwrap();
    let expected = EndTransactionError::StaleCoordinatorEpoch { producer_id: 7, current: 5, found: 4 };
    assert_eq!(partitions, [Err(expected), Ok(0), Err(EndTransactionError::UnknownTopicPartition(gone))]);
    assert_eq!(committed, [] as [Vec<_>; 0]);
    assert_eq!(log.snapshot().committed_offset("readers", first), None);

    let current = EndTransaction { coordinator_epoch: 5, offsets, ..end(7, Commit, &[first, gone]) };
    let ended = log.end_transaction(current).await.unwrap();
    assert_eq!(ended.partitions[0], Ok(1), "a marker is written again, as Kafka does");
    assert_eq!(ended.offsets, [[Ok(())]]);
    assert_eq!(log.snapshot().committed_offset("readers", first).unwrap().offset, 1);
}

#[tokio::test]
async fn markers_and_offsets_of_a_transaction_are_in_one_object() {
    let store = memory();
    let log = open(&store).await;
    let first = create(&log, "events", 2, &[]).await;
    let second = TopicPartition::new(first.topic_id, 1);
    for partition in [first, second] {
        append(&log, partition, transactional(7, 0, 0)).await.unwrap();
    }
    let offsets = vec![of_readers(second, 9)];
    let creates = store.counts().creates;
    let aborted = EndTransaction { offsets: offsets.clone(), ..end(7, Abort, &[first, second]) };
    assert_eq!(log.end_transaction(aborted).await.unwrap().offsets, [] as [Vec<_>; 0]);
    assert_eq!(log.snapshot().committed_offset("readers", second), None);
    let committed = EndTransaction { offsets, ..end(7, Commit, &[first, second]) };
    assert_eq!(log.end_transaction(committed).await.unwrap().partitions, [Ok(3), Ok(3)]);
    assert_eq!(store.counts().creates - creates, 2);
    assert_eq!(log.snapshot().committed_offset("readers", second).unwrap().offset, 9);
    for partition in [first, second] {
        assert_eq!(view(&log, partition).bounds().last_stable_offset, 4);
    }
}

#[tokio::test]
async fn a_deleted_topic_takes_its_transactions_along() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[]).await;
    append(&log, events, transactional(7, 0, 0)).await.unwrap();
    log.delete_topic(events.topic_id).await.unwrap();
    let again = create(&log, "events", 1, &[]).await;
    append(&log, again, batch(&[T])).await.unwrap();
    assert_eq!(view(&log, again).bounds().last_stable_offset, 1);
    let ended = end_in(&log, events, end(7, Abort, &[])).await;
    assert_eq!(ended, Err(EndTransactionError::UnknownTopicPartition(events)));
    let log = reopen(&store, log).await;
    assert_eq!(view(&log, again).bounds().last_stable_offset, 1);
}

#[tokio::test(start_paused = true)]
async fn silent_producers_are_forgotten_but_not_those_with_an_open_transaction() {
    let store = memory();
    let seams = Seams::simulated(3);
    let log = Log::open(store.clone(), LogSettings::default(), seams.clone()).await.unwrap();
    let events = create(&log, "events", 1, &[]).await;
    append(&log, events, transactional(8, 0, 0)).await.unwrap();
    append(&log, events, idempotent(0, 0, 2)).await.unwrap();
    let out_of_order = async |log: &Log| {
        let refused = append(log, events, idempotent(0, 9, 1)).await;
        matches!(refused, Err(AppendError::OutOfOrderSequence { .. }))
    };
    seams.clock.sleep(std::time::Duration::from_secs(23 * 3600)).await;
    assert!(out_of_order(&log).await);
    seams.clock.sleep(std::time::Duration::from_secs(2 * 3600)).await;
    log.close().await;
    let log = Log::open(store.clone(), LogSettings::default(), seams.clone()).await.unwrap();
    assert!(!out_of_order(&log).await, "the sequence of a forgotten producer may be any");
    assert_eq!(view(&log, events).bounds().last_stable_offset, 0);
    let duplicate = append(&log, events, transactional(8, 0, 0)).await.unwrap();
    assert!(duplicate.is_duplicate);
}
