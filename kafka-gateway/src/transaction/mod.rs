//! Transactional ids: which producer may act for one, and where its transaction stands. Pure: the
//! state so far comes in with each request, and a decision about it comes out.
//!
//! The rules are those of Apache Kafka's `TransactionCoordinator` and `TransactionMetadata`. The state
//! is in the log and nowhere else, so there is nothing to load and nothing that could be stale.
//!
//! Invariants: a transaction ends in one way, wholly. Once it is prepared, its end can only be
//! completed. The epochs of a producer id only rise, and no two requests that are not repetitions
//! of each other get the same producer. A transactional id is never in use with its last epoch, so
//! that it can always be fenced.

mod add;
pub(crate) mod coordinator;
mod end;
mod init;
#[cfg(test)]
mod tests;
mod verify;

use strandline_storage::format::{Producer, TransactionState, TransactionalId};
use strandline_storage::log::{Decision, TransactionalIdChange, TransactionalIdView, WriteError};
use thiserror::Error;

pub(crate) use self::add::{AddGroup, AddPartitions, CommitOffsets};
pub(crate) use self::end::Ended;
pub(crate) use self::init::Init;
pub(crate) use self::verify::verify;

/// Why a request about a transactional id was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum TransactionError {
    #[error("transactional id has another producer id, or is not known")]
    InvalidProducerIdMapping,
    #[error("producer was replaced by a newer one")]
    ProducerFenced,
    #[error("the transaction before is still being completed")]
    ConcurrentTransactions,
    #[error("the transaction is not in a state that allows it")]
    InvalidState,
    #[error("transaction timeout is out of bounds")]
    InvalidTimeout,
    #[error("the transaction has more partitions than the {max} that are allowed")]
    TooManyPartitions { max: usize },
    #[error("the offsets of the transaction have more than the {max} bytes that are allowed")]
    OffsetsTooLarge { max: usize },
    #[error("there are already {max} transactional ids")]
    TooManyIds { max: usize },
    #[error("the log did not take the change in time")]
    TimedOut,
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl TransactionError {
    /// Whether the log may have taken the decision all the same.
    fn is_undecided(&self) -> bool {
        matches!(self, Self::TimedOut | Self::Write(_))
    }
}

/// Bounds of what one transactional id may hold, so that each of its events is bounded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransactionLimits {
    pub(crate) timeout_max_ms: i32,
    pub(crate) ids_max: usize,
    pub(crate) partitions_max: usize,
    /// Of group names and offsets with their metadata.
    pub(crate) offset_bytes_max: usize,
}

type Decided<T> = Result<Decision<T>, TransactionError>;

/// A decision that changes nothing.
fn keep<T>(answer: T) -> Decision<T> {
    Decision { answer, change: TransactionalIdChange::None }
}

fn put<T>(answer: T, after: TransactionalId) -> Decision<T> {
    Decision { answer, change: TransactionalIdChange::Put(after) }
}

/// The state of a transactional id on which its producer may act.
fn of_producer<'a>(
    view: &TransactionalIdView<'a>,
    producer: Producer,
) -> Result<&'a TransactionalId, TransactionError> {
    let current = view.current.ok_or(TransactionError::InvalidProducerIdMapping)?;
    if current.producer.producer_id != producer.producer_id {
        return Err(TransactionError::InvalidProducerIdMapping);
    }
    if current.producer.producer_epoch != producer.producer_epoch {
        return Err(TransactionError::ProducerFenced);
    }
    Ok(current)
}

/// The same state with an open transaction: the one that is open, else one that begins now.
fn opened(view: &TransactionalIdView<'_>, current: &TransactionalId) -> TransactionalId {
    let updated_at_ms = view.now_ms;
    if current.state == TransactionState::Ongoing {
        return TransactionalId { updated_at_ms, ..current.clone() };
    }
    TransactionalId {
        state: TransactionState::Ongoing,
        started_at_ms: Some(view.now_ms),
        updated_at_ms,
        ..without_transaction(current)
    }
}

/// The same state with nothing of its transaction.
fn without_transaction(current: &TransactionalId) -> TransactionalId {
    TransactionalId {
        name: current.name.clone(),
        partitions: Default::default(),
        groups: Default::default(),
        started_at_ms: None,
        ..*current
    }
}
