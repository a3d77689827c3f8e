//! Decisions about transactional ids: one commit holds all of one, what is not of the transaction is
//! refused, and all of it is there after a restart.

use super::*;
use crate::format::event::TransactionResult;
use crate::format::{BatchKind, PendingOffset, Producer, ReplacedOffset, TransactionState, TransactionalId};
use crate::ids::TopicId;
use crate::log::{
    CommittedOffset, Decision, EndTransaction, GroupOffsets, OffsetCommit, TransactionalIdChange,
    TransactionalIdView, WriteError,
};

const PRODUCER: Producer = Producer { producer_id: 7, producer_epoch: 0 };

fn transactional_id(state: TransactionState, partitions: &[TopicPartition]) -> TransactionalId {
    TransactionalId {
        name: "t".to_owned(),
        producer: PRODUCER,
        previous: None,
        timeout_ms: 60_000,
        state,
        partitions: partitions.iter().copied().collect(),
        groups: BTreeMap::new(),
        started_at_ms: Some(T),
        updated_at_ms: T,
    }
}

/// An open transaction that commits offset 5 of a group.
fn open_with_offset(partitions: &[TopicPartition]) -> TransactionalId {
    let pending =
        PendingOffset { offset: 5, leader_epoch: -1, metadata: Some("m".to_owned()), replaces: None };
    let groups = BTreeMap::from([("g".to_owned(), BTreeMap::from([(partitions[0], pending)]))]);
    TransactionalId { groups, ..transactional_id(TransactionState::Ongoing, partitions) }
}

async fn change(log: &Log, change: TransactionalIdChange) {
    let decide = |_: &TransactionalIdView<'_>| Ok::<_, WriteError>(Decision { answer: (), change });
    log.update_transactional_id("t", decide).await.expect("the log takes it");
}

async fn put(log: &Log, transactional_id: TransactionalId) {
    change(log, TransactionalIdChange::Put(transactional_id)).await;
}

async fn end(log: &Log, state: TransactionState) {
    change(log, TransactionalIdChange::End(transactional_id(state, &[]))).await;
}

/// A batch of one record of the producer.
fn transactional(producer: Producer, base_sequence: i32) -> Bytes {
    let Producer { producer_id, producer_epoch } = producer;
    let producer = Some(ProducerIdentity { producer_id, producer_epoch, base_sequence });
    let kind = BatchKind::Transactional;
    batch_with(BatchOptions { producer, kind, ..BatchOptions::default() }, &[Some(T)])
}

async fn two_partitions(log: &Log) -> [TopicPartition; 2] {
    let first = create(log, "events", 2, &[]).await;
    [first, TopicPartition::new(first.topic_id, 1)]
}

#[tokio::test]
async fn the_markers_the_offsets_and_the_state_of_an_end_are_in_one_commit() {
    for (state, offset) in
        [(TransactionState::CompleteCommit, Some(5)), (TransactionState::CompleteAbort, None)]
    {
        let store = memory();
        let log = open(&store).await;
        let partitions = two_partitions(&log).await;
        put(&log, open_with_offset(&partitions)).await;
        for partition in partitions {
            append(&log, partition, transactional(PRODUCER, 0)).await.unwrap();
        }
        assert!(log.snapshot().has_pending_offset("g", partitions[0]));
        assert!(!log.snapshot().has_pending_offset("g", partitions[1]));
        let before = log.snapshot().wal_size().0;
        end(&log, state).await;
        assert_eq!(log.snapshot().wal_size().0, before + 1);
        let check = |log: &Log| {
            let snapshot = log.snapshot();
            for partition in partitions {
                let view = snapshot.partition(partition).unwrap();
                assert_eq!(view.bounds().last_stable_offset, 2);
                let aborted = view.aborted_ranges(0, 2).len();
                assert_eq!(aborted == 1, state.result() == Some(TransactionResult::Abort));
            }
            assert_eq!(snapshot.committed_offset("g", partitions[0]).map(|found| found.offset), offset);
            assert!(!snapshot.has_pending_offset("g", partitions[0]));
            assert_eq!(snapshot.transactional_id("t").map(|found| found.state), Some(state));
        };
        check(&log);
        check(&reopen(&store, log).await);
    }
}

#[tokio::test]
async fn what_a_group_commits_while_an_offset_is_pending_stays() {
    let log = open(&memory()).await;
    let partitions = two_partitions(&log).await;
    let commit = async |offset| {
        let topic_partition = partitions[0];
        let offset = OffsetCommit { topic_partition, offset, leader_epoch: -1, metadata: None };
        log.commit_offsets("g", vec![offset]).await.unwrap().remove(0).unwrap();
    };
    let committed = || log.snapshot().committed_offset("g", partitions[0]).cloned().unwrap();
    let pending = |offset| {
        let CommittedOffset { offset: replaced, commit_time_ms, .. } = committed();
        let replaces = Some(ReplacedOffset { offset: replaced, commit_time_ms });
        let pending = PendingOffset { offset, leader_epoch: -1, metadata: None, replaces };
        GroupOffsets { group: "g".to_owned(), offsets: BTreeMap::from([(partitions[0], pending)]) }
    };
    let end = async |offsets: GroupOffsets| {
        let end = EndTransaction {
            producer_id: 7,
            producer_epoch: 0,
            coordinator_epoch: 0,
            result: TransactionResult::Commit,
            partitions: Vec::new(),
            offsets: vec![offsets],
        };
        assert_eq!(log.end_transaction(end).await.unwrap().offsets, [[Ok(())]]);
        committed().offset
    };
    commit(3).await;
    let first = pending(5);
    assert_eq!(end(first.clone()).await, 5);
    commit(9).await;
    assert_eq!(end(first).await, 9, "the end came again");
    let second = pending(11);
    commit(10).await;
    assert_eq!(end(second).await, 10, "the group went on by itself");
}

#[tokio::test]
async fn a_state_is_there_after_a_restart_from_the_wal_and_from_a_checkpoint() {
    let store = memory();
    let log = open(&store).await;
    let partitions = two_partitions(&log).await;
    let expected = open_with_offset(&partitions);
    put(&log, expected.clone()).await;
    for checkpoint in [false, true] {
        let log = open(&store).await;
        assert_eq!(log.snapshot().transactional_id("t").map(|found| &**found), Some(&expected));
        assert!(log.snapshot().has_pending_offset("g", partitions[0]));
        if checkpoint {
            log.checkpoint_now().await.unwrap();
        }
    }
    let log = open(&store).await;
    assert_eq!(log.snapshot().transactional_id("t").map(|found| &**found), Some(&expected));
    change(&log, TransactionalIdChange::Remove).await;
    assert_eq!(reopen(&store, log).await.snapshot().transactional_ids().count(), 0);
}

#[tokio::test]
async fn a_batch_that_is_not_of_the_open_transaction_is_refused() {
    let log = open(&memory()).await;
    let [added, other] = two_partitions(&log).await;
    let not_added = Err(AppendError::PartitionNotInTransaction { producer_id: 7 });
    put(&log, transactional_id(TransactionState::Empty, &[])).await;
    assert_eq!(append(&log, added, transactional(PRODUCER, 0)).await, not_added);
    put(&log, transactional_id(TransactionState::Ongoing, &[added])).await;
    assert_eq!(append(&log, other, transactional(PRODUCER, 0)).await, not_added);
    append(&log, added, transactional(PRODUCER, 0)).await.unwrap();
    end(&log, TransactionState::CompleteCommit).await;
    assert_eq!(append(&log, added, transactional(PRODUCER, 1)).await, not_added, "it comes too late");
    assert_eq!(view(&log, added).bounds().last_stable_offset, 2);
}

#[tokio::test]
async fn a_producer_of_an_older_epoch_is_fenced_also_where_it_never_wrote() {
    let log = open(&memory()).await;
    let [added, _] = two_partitions(&log).await;
    let newer = Producer { producer_epoch: 2, ..PRODUCER };
    let open = transactional_id(TransactionState::Ongoing, &[added]);
    put(&log, TransactionalId { producer: newer, ..open }).await;
    for batch in [transactional(PRODUCER, 0), idempotent(0, 0, 1)] {
        let stale = append(&log, added, batch).await;
        assert_eq!(stale, Err(AppendError::StaleProducerEpoch { producer_id: 7, current: 2, found: 0 }));
    }
    append(&log, added, transactional(newer, 0)).await.unwrap();
}

#[tokio::test]
async fn a_late_batch_in_the_commit_of_the_end_is_refused() {
    let log = open(&memory()).await;
    let [added, _] = two_partitions(&log).await;
    put(&log, transactional_id(TransactionState::Ongoing, &[added])).await;
    append(&log, added, transactional(PRODUCER, 0)).await.unwrap();
    let late = PartitionAppend { topic_partition: added, batch: transactional(PRODUCER, 1) };
    let (_, late) = tokio::join!(end(&log, TransactionState::CompleteAbort), log.append(vec![late]));
    assert_eq!(late, [Err(AppendError::PartitionNotInTransaction { producer_id: 7 })]);
}

#[tokio::test]
async fn a_decision_sees_the_ones_before_it_and_what_is_elsewhere() {
    let log = open(&memory()).await;
    let [here, _] = two_partitions(&log).await;
    let gone = TopicPartition::new(TopicId::from_bytes([9; 16]), 0);
    let count = |log: &Log| {
        let log = log.clone();
        async move {
            let decide = |view: &TransactionalIdView<'_>| {
                let current = view.current.cloned();
                let timeout_ms = current.as_ref().map_or(0, |current| current.timeout_ms) + 1;
                let put = TransactionalId { timeout_ms, ..transactional_id(TransactionState::Empty, &[]) };
                let change = TransactionalIdChange::Put(put);
                Ok::<_, WriteError>(Decision { answer: timeout_ms, change })
            };
            log.update_transactional_id("t", decide).await.unwrap()
        }
    };
    let mut counted = futures::future::join_all((0..20).map(|_| count(&log))).await;
    counted.sort_unstable();
    assert_eq!(counted, (1..=20).collect::<Vec<_>>(), "none is lost");
    put(&log, transactional_id(TransactionState::PrepareCommit, &[here, gone])).await;
    let decide = |view: &TransactionalIdView<'_>| {
        let answer = (view.elsewhere.clone(), view.count, view.coordinator_epoch);
        Ok::<_, WriteError>(Decision { answer, change: TransactionalIdChange::None })
    };
    assert_eq!(log.update_transactional_id("t", decide).await, Ok((vec![gone], 1, 1)));
}
