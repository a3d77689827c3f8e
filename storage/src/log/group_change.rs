//! Changes of a group: each is checked against the revision that its coordinator believes in, so
//! that of two coordinators of one group only one can write. Pure.

use super::change::Change;
use super::error::ChangeGroupError;
use super::state::{GroupState, ShardState};
use crate::format::Event;
use crate::format::event::{
    ClassicGroup, ClassicGroupPut, ConsumerGroupChanged, GenerationsReserved, GroupDeleted,
    GroupOffsetsDeleted, GroupPartition,
};
use crate::ids::TopicPartition;

/// What happens to a group. The log fills in its name, revision and times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupChange {
    Classic(ClassicGroup),
    Consumer(ConsumerGroupChanged),
    /// Generations up to this one may be told to members.
    ReserveGenerations {
        last: i32,
    },
    /// With its committed offsets.
    Delete,
    /// Forgets what nobody has needed since a time: offsets of a group without members, and the
    /// group itself with its last offset.
    Expire {
        since_ms: i64,
    },
}

/// A change with the revision that the group has before it.
pub(super) fn change_group(
    group: String,
    expected_revision: u64,
    change: GroupChange,
) -> Change<u64, ChangeGroupError> {
    Change::any_place(move |state, now_ms| {
        let current = state.group_states.get(&group);
        let revision = current.map_or(0, |current| current.revision);
        if revision != expected_revision {
            return Err(ChangeGroupError::RevisionMismatch {
                group,
                expected: expected_revision,
                current: revision,
            });
        }
        let empty_since_ms = current.and_then(|current| current.empty_since_ms()).unwrap_or(now_ms);
        let next = revision + 1;
        let event = match change {
            GroupChange::Classic(mut state) => {
                state.empty_since_ms = state.members.is_empty().then_some(empty_since_ms);
                Event::ClassicGroupPut(ClassicGroupPut { group, revision: next, state })
            }
            GroupChange::Consumer(event) => {
                let is_empty = is_empty_after(current.map(AsRef::as_ref), &event);
                let empty_since_ms = is_empty.then_some(empty_since_ms);
                Event::ConsumerGroupChanged(ConsumerGroupChanged {
                    group,
                    revision: next,
                    empty_since_ms,
                    ..event
                })
            }
            GroupChange::ReserveGenerations { last } => {
                Event::GenerationsReserved(GenerationsReserved { group, revision: next, last })
            }
            GroupChange::Delete => return Ok((vec![Event::GroupDeleted(GroupDeleted { group })], 0)),
            GroupChange::Expire { since_ms } => return Ok((expire(state, group, since_ms), revision)),
        };
        Ok((vec![event], next))
    })
}

/// Whether a group of the consumer protocol has no members after a change.
fn is_empty_after(current: Option<&GroupState>, event: &ConsumerGroupChanged) -> bool {
    use super::state::GroupBody;

    let stays = match current.map(|current| &current.body) {
        Some(GroupBody::Consumer(group)) => {
            group.members.keys().any(|member| !event.removed_members.contains(member))
        }
        Some(GroupBody::Classic(_)) | None => false,
    };
    event.members.is_empty() && !stays
}

fn expire(state: &ShardState, group: String, since_ms: i64) -> Vec<Event> {
    let expired = state.expired_offsets(&group, since_ms);
    if state.is_group_expired(&group, expired.len(), since_ms) {
        return vec![Event::GroupDeleted(GroupDeleted { group })];
    }
    if expired.is_empty() {
        return Vec::new();
    }
    let in_event = |one: TopicPartition| GroupPartition { topic_id: one.topic_id, partition: one.partition };
    let partitions = expired.into_iter().map(in_event).collect();
    vec![Event::GroupOffsetsDeleted(GroupOffsetsDeleted { group, partitions })]
}
