//! A transaction ends: by its producer, by the next one, or because it took too long.
//!
//! Where one shard holds all of it, the end is one commit. Otherwise it is decided first, by a state
//! that says so; then the other shards get their markers, again and again until all have them; and
//! the commit that completes it is the one of the first case.

use strandline_storage::format::event::TransactionResult;
use strandline_storage::format::{Producer, TransactionState, TransactionalId};
use strandline_storage::log::{Decision, EndTransaction, TransactionalIdChange, TransactionalIdView};

use super::{Decided, TransactionError, keep, of_producer, put, without_transaction};

/// How far the end of a transaction has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All of it is written.
    Complete,
    /// It is decided; markers in other shards are missing.
    Prepared,
}

/// How a transaction is to end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    pub(super) result: TransactionResult,
    pub(super) fencing: Fencing,
}

/// Whether the end fences the producer of the transaction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fencing {
    None,
    /// By the next epoch. Who asked for it by name may go on with it.
    NextEpoch {
        asked_by: Option<Producer>,
    },
}

/// Ends the transaction as its producer wants. A repetition gets the same answer.
pub(super) fn end(
    view: &TransactionalIdView<'_>,
    producer: Producer,
    result: TransactionResult,
) -> Decided<Ended> {
    let current = of_producer(view, producer)?;
    match current.state {
        TransactionState::Ongoing => Ok(ending(view, current, Ending { result, fencing: Fencing::None })),
        state if state.result() != Some(result) => Err(TransactionError::InvalidState),
        state if state.is_prepared() => Err(TransactionError::ConcurrentTransactions),
        _ => Ok(keep(Ended::Complete)),
    }
}

/// Aborts a transaction that took too long, and fences its producer. `None`: none did.
pub(super) fn time_out(view: &TransactionalIdView<'_>) -> Decided<Option<Ended>> {
    let is_over = |current: &&TransactionalId| {
        current.deadline_ms().is_some_and(|deadline_ms| deadline_ms <= view.now_ms)
    };
    let Some(current) = view.current.filter(is_over) else { return Ok(keep(None)) };
    let fencing = Fencing::NextEpoch { asked_by: None };
    let abort = Ending { result: TransactionResult::Abort, fencing };
    let Decision { answer, change } = ending(view, current, abort);
    Ok(Decision { answer: Some(answer), change })
}

/// Forgets a transactional id that was not used for so long.
pub(super) fn expire(view: &TransactionalIdView<'_>, expiration_ms: i64) -> Decided<()> {
    let is_over = |current: &&TransactionalId| {
        expires_at_ms(current, expiration_ms).is_some_and(|expires_at_ms| expires_at_ms <= view.now_ms)
    };
    let change = match view.current.filter(is_over) {
        Some(_) => TransactionalIdChange::Remove,
        None => TransactionalIdChange::None,
    };
    Ok(Decision { answer: (), change })
}

/// When a transactional id is forgotten; `None` while it has a transaction.
pub(super) fn expires_at_ms(current: &TransactionalId, expiration_ms: i64) -> Option<i64> {
    match current.state {
        TransactionState::Empty | TransactionState::CompleteCommit | TransactionState::CompleteAbort => {
            Some(current.updated_at_ms.saturating_add(expiration_ms))
        }
        TransactionState::Ongoing | TransactionState::PrepareCommit | TransactionState::PrepareAbort => None,
    }
}

/// What a prepared transaction still needs in other shards. `None`: none is prepared.
pub(super) fn missing_markers(view: &TransactionalIdView<'_>) -> Decided<Option<EndTransaction>> {
    Ok(keep(view.missing_markers()))
}

/// Completes a transaction whose markers are in all other shards.
pub(super) fn complete(view: &TransactionalIdView<'_>) -> Decided<()> {
    let Some(current) = view.current.filter(|current| current.state.is_prepared()) else {
        return Ok(keep(()));
    };
    Ok(Decision { answer: (), change: completed(view, current) })
}

/// The end of an open transaction: at once where one shard holds all of it.
pub(super) fn ending(
    view: &TransactionalIdView<'_>,
    current: &TransactionalId,
    Ending { result, fencing }: Ending,
) -> Decision<Ended> {
    let mut prepared = TransactionalId {
        state: match result {
            TransactionResult::Commit => TransactionState::PrepareCommit,
            TransactionResult::Abort => TransactionState::PrepareAbort,
        },
        updated_at_ms: view.now_ms,
        ..current.clone()
    };
    if let Fencing::NextEpoch { asked_by } = fencing {
        // No producer has the last epoch, so there is one above its own.
        prepared.producer.producer_epoch = current.producer.producer_epoch.saturating_add(1);
        prepared.previous = asked_by;
    }
    if view.is_whole() {
        return Decision { answer: Ended::Complete, change: completed(view, &prepared) };
    }
    put(Ended::Prepared, prepared)
}

fn completed(view: &TransactionalIdView<'_>, prepared: &TransactionalId) -> TransactionalIdChange {
    let state = match prepared.state.result() {
        Some(TransactionResult::Commit) => TransactionState::CompleteCommit,
        Some(TransactionResult::Abort) | None => TransactionState::CompleteAbort,
    };
    let updated_at_ms = view.now_ms;
    TransactionalIdChange::End(TransactionalId { state, updated_at_ms, ..without_transaction(prepared) })
}
