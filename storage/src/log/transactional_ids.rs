//! A decision of a transaction coordinator about one transactional id, taken and written in one
//! commit: the state that it leads to, and where it ends a transaction that the shard holds as a
//! whole, the markers and the offsets of it.
//!
//! Invariant: a decision is taken on the state that all decisions before it lead to, and answered when
//! that state and its own are durable. So nobody has to keep a copy of it, and none can be stale.
//! Nothing here knows which state may follow which: who decides does.

use tokio::sync::oneshot;

use super::assign::Assignment;
use super::change::answer_when_durable;
use super::committer::{ChangeJob, ChangeOrder};
use super::error::{EndTransactionError, WriteError};
use super::transactions::{EndTransaction, GroupOffsets, Marker, commit_pending};
use crate::format::event::{TransactionResult, TransactionalIdPut, TransactionalIdRemoved};
use crate::format::{Event, TransactionalId};
use crate::ids::TopicPartition;

/// What a decision is taken on.
#[derive(Clone, Debug)]
pub struct TransactionalIdView<'a> {
    /// `None` if the transactional id is not known.
    pub current: Option<&'a TransactionalId>,
    /// How many transactional ids the shard has.
    pub count: usize,
    /// When the decision is committed.
    pub now_ms: i64,
    /// What a marker says of its coordinator: it rises with each owner of the shard.
    pub coordinator_epoch: i32,
    /// Partitions of the transaction that are not in this shard: in another one, or gone.
    pub elsewhere: Vec<TopicPartition>,
    /// Groups of the transaction that are in another shard.
    pub groups_elsewhere: Vec<String>,
}

impl TransactionalIdView<'_> {
    /// Whether one shard holds all of the transaction.
    pub fn is_whole(&self) -> bool {
        self.elsewhere.is_empty() && self.groups_elsewhere.is_empty()
    }

    /// The markers and offsets that a prepared transaction still needs in other shards. `None`: none is
    /// prepared.
    pub fn missing_markers(&self) -> Option<EndTransaction> {
        let prepared = self.current.filter(|current| current.state.is_prepared())?;
        Some(EndTransaction {
            producer_id: prepared.producer.producer_id,
            producer_epoch: prepared.producer.producer_epoch,
            coordinator_epoch: self.coordinator_epoch,
            result: prepared.state.result()?,
            partitions: self.elsewhere.clone(),
            offsets: self.offsets_elsewhere(),
        })
    }

    /// The offsets that the transaction commits for groups of other shards.
    fn offsets_elsewhere(&self) -> Vec<GroupOffsets> {
        let pending = |group: &String| {
            let offsets = self.current?.groups.get(group)?.clone();
            Some(GroupOffsets { group: group.clone(), offsets })
        };
        self.groups_elsewhere.iter().filter_map(pending).collect()
    }
}

/// What becomes of a transactional id, and what whoever asked is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<T> {
    pub answer: T,
    pub change: TransactionalIdChange,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionalIdChange {
    None,
    Put(TransactionalId),
    /// Ends the transaction of the state before by that of this one: its markers in all partitions
    /// that are in this shard, and its offsets if it is committed.
    End(TransactionalId),
    Remove,
}

/// The job for the committer of the shard that the transactional id is in; `holds_group` says whether
/// a group is in the same one.
pub(super) fn update_job<T, E>(
    name: String,
    holds_group: impl Fn(&str) -> bool + Send + 'static,
    decide: impl FnOnce(&TransactionalIdView<'_>) -> Result<Decision<T>, E> + Send + 'static,
    answer: oneshot::Sender<Result<T, E>>,
) -> ChangeJob
where
    T: Send + 'static,
    E: From<WriteError> + Send + 'static,
{
    let make = move |assignment: &mut Assignment| {
        let decided = decide(&view(assignment, &name, &holds_group));
        let result = decided.map(|decision| {
            assign(assignment, &name, &holds_group, decision.change);
            decision.answer
        });
        answer_when_durable(answer, result)
    };
    // Markers take offsets of their own, so it may share an object with batches before it.
    ChangeJob { order: ChangeOrder::AnyPlace, make: Box::new(make) }
}

fn view<'a>(
    assignment: &'a Assignment,
    name: &str,
    holds_group: &dyn Fn(&str) -> bool,
) -> TransactionalIdView<'a> {
    let state = assignment.state();
    let current = state.transactional_ids.get(name).map(|current| &**current);
    let is_elsewhere = |id: &&TopicPartition| !state.partitions.contains_key(*id);
    let partitions = current.into_iter().flat_map(|current| &current.partitions);
    let groups = current.into_iter().flat_map(|current| current.groups.keys());
    let writer_epoch = state.position.map_or(0, |position| position.writer_epoch);
    TransactionalIdView {
        current,
        count: state.transactional_ids.len(),
        now_ms: assignment.append_time_ms,
        coordinator_epoch: i32::try_from(writer_epoch).unwrap_or(i32::MAX),
        elsewhere: partitions.filter(is_elsewhere).copied().collect(),
        groups_elsewhere: groups.filter(|group| !holds_group(group)).cloned().collect(),
    }
}

fn assign(
    assignment: &mut Assignment,
    name: &str,
    holds_group: &dyn Fn(&str) -> bool,
    change: TransactionalIdChange,
) {
    match change {
        TransactionalIdChange::None => {}
        TransactionalIdChange::Put(after) => push_put(assignment, after),
        TransactionalIdChange::End(after) => {
            end(assignment, name, holds_group, &after);
            push_put(assignment, after);
        }
        TransactionalIdChange::Remove => {
            let event = TransactionalIdRemoved { name: name.to_owned() };
            assignment.push_events(vec![Event::TransactionalIdRemoved(event)]);
        }
    }
}

fn push_put(assignment: &mut Assignment, after: TransactionalId) {
    let event = TransactionalIdPut { transactional_id: after.into() };
    assignment.push_events(vec![Event::TransactionalIdPut(event)]);
}

/// Writes what this shard holds of the end of the transaction that is open before `after`: markers and
/// offsets.
fn end(assignment: &mut Assignment, name: &str, holds_group: &dyn Fn(&str) -> bool, after: &TransactionalId) {
    let view = view(assignment, name, holds_group);
    let (Some(before), Some(result)) = (view.current, after.state.result()) else { return };
    let marker = Marker {
        producer_id: before.producer.producer_id,
        producer_epoch: after.producer.producer_epoch,
        coordinator_epoch: view.coordinator_epoch,
        result,
    };
    let (partitions, groups) = (before.partitions.clone(), before.groups.clone());
    for partition in partitions {
        report(name, partition, assignment.append_marker(partition, &marker));
    }
    if result == TransactionResult::Commit {
        for (group, offsets) in groups.into_iter().filter(|(group, _)| holds_group(group)) {
            // What is refused is an offset of a partition that is gone.
            commit_pending(assignment, GroupOffsets { group, offsets });
        }
    }
}

/// A partition that is elsewhere gets its marker there, and one that is gone needs none. A newer epoch
/// in a partition can only come from an operator's own marker.
fn report(name: &str, partition: TopicPartition, marked: Result<i64, EndTransactionError>) {
    match marked {
        Ok(_) | Err(EndTransactionError::UnknownTopicPartition(_)) => {}
        Err(error) => {
            let (topic_id, partition) = (partition.topic_id, partition.partition);
            tracing::warn!(transactional_id = name, %topic_id, partition, %error, "a transaction got no marker");
        }
    }
}
