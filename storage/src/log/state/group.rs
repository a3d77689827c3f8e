//! What is known of a group apart from its offsets: members, generations, assignments. Pure.

use std::sync::Arc;

use imbl::OrdMap;

use super::{CommittedOffset, ShardState};
use crate::format::event::{
    ClassicGroup, ClassicGroupPut, ConsumerGroupChanged, ConsumerMember, GenerationsReserved, GroupDeleted,
    SubscribedTopic,
};
use crate::ids::TopicPartition;

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupState {
    /// Counts its events; 0 in a group that has none.
    pub revision: u64,
    /// Generations of the classic protocol up to it may have been told to members.
    pub generations_reserved: i32,
    pub body: GroupBody,
}

/// The protocol that a group speaks, with its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupBody {
    Classic(Arc<ClassicGroup>),
    Consumer(ConsumerGroup),
}

/// A group of the consumer protocol (KIP-848).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerGroup {
    pub epoch: i32,
    pub assignment_epoch: i32,
    pub assignor: String,
    pub empty_since_ms: Option<i64>,
    pub topics: Arc<Vec<SubscribedTopic>>,
    pub members: OrdMap<String, Arc<ConsumerMember>>,
}

impl Default for GroupState {
    fn default() -> Self {
        Self { revision: 0, generations_reserved: 0, body: GroupBody::Classic(Arc::default()) }
    }
}

impl GroupState {
    pub fn has_members(&self) -> bool {
        match &self.body {
            GroupBody::Classic(group) => !group.members.is_empty(),
            GroupBody::Consumer(group) => !group.members.is_empty(),
        }
    }

    /// Since when it has no members; `None` while it has some, and when it never had any.
    pub fn empty_since_ms(&self) -> Option<i64> {
        match &self.body {
            GroupBody::Classic(group) => group.empty_since_ms,
            GroupBody::Consumer(group) => group.empty_since_ms,
        }
    }

    /// As a checkpoint has it.
    pub(in crate::log) fn of_classic(revision: u64, generations_reserved: i32, group: ClassicGroup) -> Self {
        Self { revision, generations_reserved, body: GroupBody::Classic(Arc::new(group)) }
    }

    /// As a checkpoint has it.
    pub(in crate::log) fn of_consumer(generations_reserved: i32, whole: &ConsumerGroupChanged) -> Self {
        let mut state = Self { revision: whole.revision, generations_reserved, ..Self::default() };
        state.change_consumer_group(whole);
        state
    }

    fn change_consumer_group(&mut self, event: &ConsumerGroupChanged) {
        let mut group = match &self.body {
            GroupBody::Consumer(group) => group.clone(),
            GroupBody::Classic(_) => ConsumerGroup::default(),
        };
        group.epoch = event.epoch;
        group.assignment_epoch = event.assignment_epoch;
        group.assignor.clone_from(&event.assignor);
        group.empty_since_ms = event.empty_since_ms;
        if let Some(topics) = &event.topics {
            group.topics = Arc::new(topics.clone());
        }
        for member in &event.removed_members {
            group.members.remove(member);
        }
        for member in &event.members {
            group.members.insert(member.member_id.clone(), Arc::new(member.clone()));
        }
        self.body = GroupBody::Consumer(group);
    }

    /// The event that puts all of a group of the consumer protocol.
    pub(in crate::log) fn whole_consumer_group(
        name: &str,
        revision: u64,
        group: &ConsumerGroup,
    ) -> ConsumerGroupChanged {
        ConsumerGroupChanged {
            group: name.to_owned(),
            revision,
            epoch: group.epoch,
            assignment_epoch: group.assignment_epoch,
            assignor: group.assignor.clone(),
            empty_since_ms: group.empty_since_ms,
            topics: Some(group.topics.to_vec()),
            members: group.members.values().map(|member| (**member).clone()).collect(),
            removed_members: Vec::new(),
        }
    }
}

impl ShardState {
    /// Offsets of a group that nobody has needed since a time: those of a group without members, by
    /// when it became empty and by when they were committed, whichever is later.
    pub(in crate::log) fn expired_offsets(&self, group: &str, since_ms: i64) -> Vec<TopicPartition> {
        let state = self.group_states.get(group);
        if !state.is_none_or(|state| is_unused_since(state, since_ms)) {
            return Vec::new();
        }
        let offsets = self.groups.get(group).into_iter().flat_map(|offsets| offsets.iter());
        let is_old = |offset: &CommittedOffset| offset.commit_time_ms <= since_ms;
        offsets.filter(|(_, offset)| is_old(offset)).map(|(partition, _)| *partition).collect()
    }

    /// Whether nothing of a group is worth keeping once these offsets are gone.
    pub(in crate::log) fn is_group_expired(&self, group: &str, expired: usize, since_ms: i64) -> bool {
        let left = self.groups.get(group).map_or(0, |offsets| offsets.len() - expired);
        left == 0 && self.group_states.get(group).is_some_and(|state| is_unused_since(state, since_ms))
    }

    pub(super) fn put_classic_group(&mut self, event: &ClassicGroupPut) -> Result<(), String> {
        let state = self.next_group_revision(&event.group, event.revision)?;
        state.generations_reserved = state.generations_reserved.max(event.state.generation);
        state.body = GroupBody::Classic(Arc::new(event.state.clone()));
        Ok(())
    }

    pub(super) fn change_consumer_group(&mut self, event: &ConsumerGroupChanged) -> Result<(), String> {
        let state = self.next_group_revision(&event.group, event.revision)?;
        state.change_consumer_group(event);
        Ok(())
    }

    pub(super) fn reserve_generations(&mut self, event: &GenerationsReserved) -> Result<(), String> {
        let state = self.next_group_revision(&event.group, event.revision)?;
        state.generations_reserved = state.generations_reserved.max(event.last);
        Ok(())
    }

    pub(super) fn delete_group(&mut self, event: &GroupDeleted) {
        self.group_states.remove(&event.group);
        self.groups.remove(&event.group);
    }

    /// Puts a group as a checkpoint has it.
    pub(in crate::log) fn restore_group(&mut self, group: String, state: GroupState) {
        self.group_states.insert(group, Arc::new(state));
    }

    fn next_group_revision(&mut self, group: &str, revision: u64) -> Result<&mut GroupState, String> {
        let state = self.group_states.entry(group.to_owned()).or_default();
        if revision != state.revision + 1 {
            return Err(format!(
                "revision {revision} of group \"{group}\" does not follow revision {}",
                state.revision
            ));
        }
        let state = Arc::make_mut(state);
        state.revision = revision;
        Ok(state)
    }
}

fn is_unused_since(state: &GroupState, since_ms: i64) -> bool {
    !state.has_members() && state.empty_since_ms().is_none_or(|empty_since_ms| empty_since_ms <= since_ms)
}
