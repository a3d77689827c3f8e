//! A producer makes itself known: it gets the next epoch, which fences all before it, and a
//! transaction that its forerunner left open is aborted.
//!
//! A producer that goes on after an error names the epoch that it has (KIP-360), and is refused if
//! another one took its place meanwhile. It may ask again if it did not get the answer.

use std::collections::{BTreeMap, BTreeSet};

use strandline_storage::format::event::TransactionResult;
use strandline_storage::format::{Producer, TransactionState, TransactionalId};
use strandline_storage::log::{Decision, TransactionalIdView};

use super::end::{Ended, Ending, Fencing, ending};
use super::{Decided, TransactionError, TransactionLimits, put, without_transaction};

/// The producer after one with this epoch gets a new id: the one epoch above it is kept for a marker
/// that fences it.
const EPOCH_MAX: i16 = i16::MAX - 1;

/// A request for a producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Init {
    /// The producer that asks for the one after it; `None` for one that just started.
    pub(crate) expected: Option<Producer>,
    pub(crate) timeout_ms: i32,
    /// Used if the transactional id needs a new one.
    pub(crate) fresh_producer_id: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Initialized {
    Ready(Producer),
    /// The open transaction is aborted first. Who asked has to ask again.
    Aborted(Ended),
}

impl Init {
    pub(super) fn decide(
        &self,
        view: &TransactionalIdView<'_>,
        name: &str,
        limits: &TransactionLimits,
    ) -> Decided<Initialized> {
        if self.timeout_ms <= 0 || self.timeout_ms > limits.timeout_max_ms {
            return Err(TransactionError::InvalidTimeout);
        }
        let Some(current) = view.current else { return self.create(view, name, limits) };
        let is_current = self.expected.is_none_or(|expected| expected == current.producer);
        if !is_current && !self.is_repeated(current) {
            return Err(TransactionError::ProducerFenced);
        }
        match current.state {
            TransactionState::PrepareCommit | TransactionState::PrepareAbort => {
                Err(TransactionError::ConcurrentTransactions)
            }
            // The producer that was asked for works already.
            TransactionState::Ongoing if !is_current => Err(TransactionError::ProducerFenced),
            TransactionState::Ongoing => Ok(self.abort(view, current)),
            TransactionState::Empty | TransactionState::CompleteCommit | TransactionState::CompleteAbort => {
                Ok(self.follow(view, current))
            }
        }
    }

    /// Whether it is the same request as the one that led to the present producer.
    fn is_repeated(&self, current: &TransactionalId) -> bool {
        self.expected.is_some() && self.expected == current.previous
    }

    fn create(
        &self,
        view: &TransactionalIdView<'_>,
        name: &str,
        limits: &TransactionLimits,
    ) -> Decided<Initialized> {
        if view.count >= limits.ids_max {
            return Err(TransactionError::TooManyIds { max: limits.ids_max });
        }
        let producer = Producer { producer_id: self.fresh_producer_id, producer_epoch: 0 };
        let created = TransactionalId {
            name: name.to_owned(),
            producer,
            previous: self.expected,
            timeout_ms: self.timeout_ms,
            state: TransactionState::Empty,
            partitions: BTreeSet::new(),
            groups: BTreeMap::new(),
            started_at_ms: None,
            updated_at_ms: view.now_ms,
        };
        Ok(put(Initialized::Ready(producer), created))
    }

    /// Aborts the open transaction under the next epoch, which no producer gets but the one that asks
    /// by name.
    fn abort(&self, view: &TransactionalIdView<'_>, current: &TransactionalId) -> Decision<Initialized> {
        let fencing = Fencing::NextEpoch { asked_by: self.expected };
        let abort = Ending { result: TransactionResult::Abort, fencing };
        let Decision { answer, change } = ending(view, current, abort);
        Decision { answer: Initialized::Aborted(answer), change }
    }

    fn follow(&self, view: &TransactionalIdView<'_>, current: &TransactionalId) -> Decision<Initialized> {
        let (producer, previous) = self.next(current);
        let after = TransactionalId {
            producer,
            previous,
            timeout_ms: self.timeout_ms,
            state: TransactionState::Empty,
            updated_at_ms: view.now_ms,
            ..without_transaction(current)
        };
        put(Initialized::Ready(producer), after)
    }

    fn next(&self, current: &TransactionalId) -> (Producer, Option<Producer>) {
        let Producer { producer_id, producer_epoch } = current.producer;
        if producer_epoch >= EPOCH_MAX {
            return (Producer { producer_id: self.fresh_producer_id, producer_epoch: 0 }, self.expected);
        }
        if self.is_repeated(current) {
            return (current.producer, current.previous);
        }
        (Producer { producer_id, producer_epoch: producer_epoch + 1 }, self.expected)
    }
}
