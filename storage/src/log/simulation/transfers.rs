//! One transactional producer, and the coordinator that it has: it goes from transaction to transaction,
//! whatever happens to the processes. Now and then it stops in the middle of one, a new one with its
//! name takes over, and what the old one had still under way arrives late.

use std::collections::BTreeMap;

use super::operations::partition_of;
use super::records::{BatchOrder, TRANSFER_PRODUCER_ID, batch};
use super::run::{Process, World};
use crate::format::event::TransactionResult;
use crate::format::{
    PendingOffset, PendingOffsets, Producer, ProducerIdentity, ReplacedOffset, TransactionState,
    TransactionalId,
};
use crate::ids::TopicPartition;
use crate::log::{AppendError, Decision, Snapshot, TransactionalIdChange, TransactionalIdView, WriteError};

/// Two partitions that only transactions write to.
pub(super) const LEDGER: &str = "ledger";
/// The transactional id, and the group whose offset each transaction commits: its own number.
pub(super) const TRANSFERS: &str = "transfers";

/// Records of one transaction in one partition.
const RECORDS: u32 = 2;

/// Why a decision was not taken.
#[derive(Debug)]
enum Refusal {
    /// It may have been taken all the same.
    Unknown,
    /// The state is not one that this client has left behind.
    State(TransactionState),
}

impl From<WriteError> for Refusal {
    fn from(_error: WriteError) -> Self {
        Self::Unknown
    }
}

/// How far the end of a transaction has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Complete,
    Prepared,
}

/// The client in one of its lives.
struct Life {
    producer: Producer,
    /// The next one in each partition.
    sequences: BTreeMap<TopicPartition, i32>,
}

impl World {
    /// Transactions without end.
    pub(super) async fn transfer(self) {
        let mut number = 0;
        loop {
            let mut life = Life { producer: self.begin_life().await, sequences: BTreeMap::new() };
            loop {
                number += 1;
                let records = self.begin_transaction(&life, number).await;
                for (id, ids) in &records {
                    self.append_to_transaction(&mut life, *id, ids).await;
                }
                let result = match self.draw(10) {
                    0..6 => TransactionResult::Commit,
                    6..8 => TransactionResult::Abort,
                    _ => break,
                };
                self.end_transaction(&life, number, result).await;
                self.sleep_ms(1000).await;
            }
            number += 1;
            self.append_late(&life, number);
        }
    }

    /// Makes a decision until it is known to be taken.
    async fn decide<T: Send + 'static>(
        &self,
        decide: impl Fn(&TransactionalIdView<'_>) -> Result<Decision<T>, Refusal> + Clone + Send + 'static,
    ) -> (Process, T) {
        self.decide_by(|_| decide.clone()).await
    }

    /// The same for a decision that depends on what a process shows.
    async fn decide_by<T: Send + 'static, D>(&self, prepare: impl Fn(&Snapshot) -> D) -> (Process, T)
    where
        D: FnOnce(&TransactionalIdView<'_>) -> Result<Decision<T>, Refusal> + Send + 'static,
    {
        loop {
            if let Some(process) = self.current() {
                self.count("operations");
                let decide = prepare(&process.log.snapshot());
                match self.within(process.log.update_transactional_id(TRANSFERS, decide)).await {
                    Some(Ok(answer)) => return (process, answer),
                    Some(Err(Refusal::State(state))) if process.store.is_newest_claimant() => {
                        self.violate(format!("a transactional id is {} unasked", state.name()));
                    }
                    Some(Err(Refusal::State(_) | Refusal::Unknown)) | None => {}
                }
            }
            self.sleep_ms(500).await;
        }
    }

    /// A new producer of the transactional id; what the one before left open is aborted.
    pub(super) async fn begin_life(&self) -> Producer {
        loop {
            let (_, begun) = self.decide(|view| Ok(begin(view))).await;
            match begun {
                Begun::Ready(producer) => return producer,
                Begun::Ended(Ended::Complete) => {}
                Begun::Ended(Ended::Prepared) => self.complete().await,
            }
        }
    }

    /// Adds some partitions, and the offset of the group; gives the records to append.
    async fn begin_transaction(&self, life: &Life, number: u64) -> Vec<(TopicPartition, Vec<u64>)> {
        let partitions = match self.draw(4) {
            0 => vec![0],
            1 => vec![1],
            _ => vec![0, 1],
        };
        let ids = loop {
            let process = self.current();
            let found = |process: Process| {
                let ids = partitions.iter().map(|number| partition_of(&process.log, LEDGER, *number));
                Some((ids.collect::<Option<Vec<_>>>()?, partition_of(&process.log, LEDGER, 0)?))
            };
            match process.and_then(found) {
                Some(ids) => break ids,
                None => self.sleep_ms(500).await,
            }
        };
        let (ids, group_partition) = ids;
        let records: Vec<_> = ids.iter().map(|id| (*id, self.new_ids(RECORDS))).collect();
        self.with(|shared| shared.history.transactions.begun(number, &records));
        let (producer, offset) = (life.producer, number as i64);
        let prepare = |snapshot: &Snapshot| {
            let replaces = snapshot.committed_offset(TRANSFERS, group_partition).map(|committed| {
                ReplacedOffset { offset: committed.offset, commit_time_ms: committed.commit_time_ms }
            });
            let pending = PendingOffset { offset, leader_epoch: -1, metadata: None, replaces };
            let (ids, groups) = (ids.clone(), BTreeMap::from([(group_partition, pending)]));
            move |view: &TransactionalIdView<'_>| add(view, producer, &ids, groups)
        };
        self.decide_by(prepare).await;
        records
    }

    async fn append_to_transaction(&self, life: &mut Life, id: TopicPartition, ids: &[u64]) {
        let sequence = life.sequences.entry(id).or_default();
        let batch = batch(ids, BatchOrder::Transaction(identity(life.producer, *sequence)));
        *sequence += ids.len() as i32;
        loop {
            if let Some(process) = self.current() {
                match self.within(self.append(&process, id, batch.clone(), ids)).await {
                    Some(Ok(_)) => return,
                    // The shard of the partition may not have heard of the topic yet.
                    Some(Err(AppendError::Write(_) | AppendError::UnknownTopicPartition(_))) | None => {}
                    Some(Err(error)) if process.store.is_newest_claimant() => {
                        self.violate(format!("a batch of an open transaction is refused: {error}"));
                    }
                    Some(Err(_)) => {}
                }
            }
            self.sleep_ms(500).await;
        }
    }

    async fn end_transaction(&self, life: &Life, number: u64, result: TransactionResult) {
        if result == TransactionResult::Commit {
            self.with(|shared| shared.history.transactions.commit_requested(number));
        }
        let producer = life.producer;
        let (process, ended) = self.decide(move |view| end(view, producer, result)).await;
        if ended == Ended::Prepared {
            self.complete().await;
        }
        if result == TransactionResult::Commit {
            self.with(|shared| {
                shared.history.transactions.committed(number);
                shared.history.raise_transfers(number);
                // Over several processes it is complete only for whoever completed it.
                if ended == Ended::Complete {
                    shared.promises_of(process.number).raise_transfers(number);
                }
                shared.count("transactions committed");
            });
        } else {
            self.count("transactions aborted");
        }
    }

    /// Writes what other shards miss of an end that is decided, and then that it is complete.
    async fn complete(&self) {
        loop {
            let (process, missing) = self.decide(|view| Ok(keep(view.missing_markers()))).await;
            let Some(missing) = missing else { return };
            if let Some(Ok(_)) = self.within(process.log.end_transaction(missing)).await {
                self.decide(|view| Ok(complete(view))).await;
                self.count("transactions over several shards");
                return;
            }
            self.sleep_ms(500).await;
        }
    }

    /// A batch of a life that is over, which may arrive before or after the next one has begun.
    fn append_late(&self, life: &Life, number: u64) {
        let Some(process) = self.current() else { return };
        let Some(id) = partition_of(&process.log, LEDGER, self.draw(2) as i32) else { return };
        let (world, ids) = (self.clone(), self.new_ids(1));
        self.with(|shared| shared.history.transactions.begun(number, &[(id, ids.clone())]));
        let sequence = life.sequences.get(&id).copied().unwrap_or(0);
        let batch = batch(&ids, BatchOrder::Transaction(identity(life.producer, sequence)));
        tokio::spawn(async move {
            world.sleep_ms(3000).await;
            // It is refused, or it is part of what the next life aborts.
            let _ = world.append(&process, id, batch, &ids).await;
            world.count("late batches");
        });
    }
}

fn identity(producer: Producer, base_sequence: i32) -> ProducerIdentity {
    let Producer { producer_id, producer_epoch } = producer;
    ProducerIdentity { producer_id, producer_epoch, base_sequence }
}

fn put<T>(answer: T, after: TransactionalId) -> Decision<T> {
    Decision { answer, change: TransactionalIdChange::Put(after) }
}

fn keep<T>(answer: T) -> Decision<T> {
    Decision { answer, change: TransactionalIdChange::None }
}

enum Begun {
    Ready(Producer),
    /// The transaction before has ended; the next decision makes the producer.
    Ended(Ended),
}

fn begin(view: &TransactionalIdView<'_>) -> Decision<Begun> {
    let producer = |producer_epoch| Producer { producer_id: TRANSFER_PRODUCER_ID, producer_epoch };
    let Some(current) = view.current else {
        let first = producer(0);
        return put(Begun::Ready(first), without_transaction(first, TransactionState::Empty, view.now_ms));
    };
    let next = producer(current.producer.producer_epoch + 1);
    match current.state {
        TransactionState::Ongoing => {
            let fenced = TransactionalId { producer: next, ..current.clone() };
            let Decision { answer, change } = ending(view, &fenced, TransactionResult::Abort);
            Decision { answer: Begun::Ended(answer), change }
        }
        state if state.is_prepared() => keep(Begun::Ended(Ended::Prepared)),
        _ => put(Begun::Ready(next), without_transaction(next, TransactionState::Empty, view.now_ms)),
    }
}

fn add(
    view: &TransactionalIdView<'_>,
    producer: Producer,
    partitions: &[TopicPartition],
    offsets: PendingOffsets,
) -> Result<Decision<()>, Refusal> {
    let current = of_producer(view, producer)?;
    if current.state.is_prepared() {
        return Err(Refusal::State(current.state));
    }
    let after = TransactionalId {
        state: TransactionState::Ongoing,
        partitions: partitions.iter().copied().collect(),
        groups: BTreeMap::from([(TRANSFERS.to_owned(), offsets)]),
        started_at_ms: Some(view.now_ms),
        updated_at_ms: view.now_ms,
        ..current.clone()
    };
    Ok(put((), after))
}

fn of_producer<'a>(
    view: &TransactionalIdView<'a>,
    producer: Producer,
) -> Result<&'a TransactionalId, Refusal> {
    let current = view.current.ok_or(Refusal::State(TransactionState::Empty))?;
    match current.producer == producer {
        true => Ok(current),
        false => Err(Refusal::State(current.state)),
    }
}

fn end(
    view: &TransactionalIdView<'_>,
    producer: Producer,
    result: TransactionResult,
) -> Result<Decision<Ended>, Refusal> {
    let current = of_producer(view, producer)?;
    match current.state {
        TransactionState::Ongoing => Ok(ending(view, current, result)),
        state if state.result() != Some(result) => Err(Refusal::State(state)),
        state if state.is_prepared() => Ok(keep(Ended::Prepared)),
        _ => Ok(keep(Ended::Complete)),
    }
}

/// The end of an open transaction: at once where one shard holds all of it.
fn ending(
    view: &TransactionalIdView<'_>,
    current: &TransactionalId,
    result: TransactionResult,
) -> Decision<Ended> {
    let (prepared, complete) = match result {
        TransactionResult::Commit => (TransactionState::PrepareCommit, TransactionState::CompleteCommit),
        TransactionResult::Abort => (TransactionState::PrepareAbort, TransactionState::CompleteAbort),
    };
    if view.is_whole() {
        let after = without_transaction(current.producer, complete, view.now_ms);
        return Decision { answer: Ended::Complete, change: TransactionalIdChange::End(after) };
    }
    put(Ended::Prepared, TransactionalId { state: prepared, updated_at_ms: view.now_ms, ..current.clone() })
}

fn complete(view: &TransactionalIdView<'_>) -> Decision<()> {
    let state = match view.current.map(|current| current.state) {
        Some(TransactionState::PrepareCommit) => TransactionState::CompleteCommit,
        Some(TransactionState::PrepareAbort) => TransactionState::CompleteAbort,
        _ => return keep(()),
    };
    let producer = view.current.expect("it was just looked at").producer;
    let after = without_transaction(producer, state, view.now_ms);
    Decision { answer: (), change: TransactionalIdChange::End(after) }
}

fn without_transaction(producer: Producer, state: TransactionState, now_ms: i64) -> TransactionalId {
    TransactionalId {
        name: TRANSFERS.to_owned(),
        producer,
        previous: None,
        timeout_ms: i32::MAX,
        state,
        partitions: Default::default(),
        groups: Default::default(),
        started_at_ms: None,
        updated_at_ms: now_ms,
    }
}
