//! Partitions, groups and offsets become part of a transaction, which the first of them begins.

use std::collections::BTreeSet;

use strandline_storage::format::{PendingOffsets, Producer, TransactionState, TransactionalId};
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::TransactionalIdView;

use super::{Decided, TransactionError, TransactionLimits, keep, of_producer, opened, put};

/// What an offset and a group name take beside their texts, roughly.
const ENTRY_BYTES: usize = 48;

/// Adds partitions. The answer is when the transaction will have taken too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddPartitions {
    pub(crate) producer: Producer,
    pub(crate) partitions: BTreeSet<TopicPartition>,
}

impl AddPartitions {
    pub(super) fn decide(
        self,
        view: &TransactionalIdView<'_>,
        limits: &TransactionLimits,
    ) -> Decided<Option<i64>> {
        let current = to_be_added_to(view, self.producer)?;
        let is_open = current.state == TransactionState::Ongoing;
        if is_open && self.partitions.is_subset(&current.partitions) {
            return Ok(keep(current.deadline_ms()));
        }
        let mut after = opened(view, current);
        after.partitions.extend(self.partitions);
        if after.partitions.len() > limits.partitions_max {
            return Err(TransactionError::TooManyPartitions { max: limits.partitions_max });
        }
        Ok(put(after.deadline_ms(), after))
    }
}

/// Adds a group, whose offsets may be committed with the transaction from then on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddGroup {
    pub(crate) producer: Producer,
    pub(crate) group: String,
}

impl AddGroup {
    pub(super) fn decide(
        self,
        view: &TransactionalIdView<'_>,
        limits: &TransactionLimits,
    ) -> Decided<Option<i64>> {
        let current = to_be_added_to(view, self.producer)?;
        if current.state == TransactionState::Ongoing && current.groups.contains_key(&self.group) {
            return Ok(keep(current.deadline_ms()));
        }
        let mut after = opened(view, current);
        after.groups.entry(self.group).or_default();
        check_offsets(&after, limits)?;
        Ok(put(after.deadline_ms(), after))
    }
}

/// Keeps offsets that are committed if the transaction is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommitOffsets {
    pub(crate) producer: Producer,
    pub(crate) group: String,
    pub(crate) offsets: PendingOffsets,
}

impl CommitOffsets {
    pub(super) fn decide(self, view: &TransactionalIdView<'_>, limits: &TransactionLimits) -> Decided<()> {
        let current = to_be_added_to(view, self.producer)?;
        if current.state != TransactionState::Ongoing {
            return Err(TransactionError::InvalidState);
        }
        let mut after = opened(view, current);
        let pending = after.groups.get_mut(&self.group).ok_or(TransactionError::InvalidState)?;
        pending.extend(self.offsets);
        check_offsets(&after, limits)?;
        Ok(put((), after))
    }
}

fn to_be_added_to<'a>(
    view: &TransactionalIdView<'a>,
    producer: Producer,
) -> Result<&'a TransactionalId, TransactionError> {
    let current = of_producer(view, producer)?;
    if current.state.is_prepared() {
        return Err(TransactionError::ConcurrentTransactions);
    }
    Ok(current)
}

fn check_offsets(after: &TransactionalId, limits: &TransactionLimits) -> Result<(), TransactionError> {
    let of_group = |(group, offsets): (&String, &PendingOffsets)| {
        let metadata = |pending: &Option<String>| pending.as_ref().map_or(0, String::len);
        let offsets = offsets.values().map(|pending| ENTRY_BYTES + metadata(&pending.metadata));
        ENTRY_BYTES + group.len() + offsets.sum::<usize>()
    };
    let bytes: usize = after.groups.iter().map(of_group).sum();
    let max = limits.offset_bytes_max;
    if bytes > max { Err(TransactionError::OffsetsTooLarge { max }) } else { Ok(()) }
}
