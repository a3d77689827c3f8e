//! What is told of groups to those who are no members.

use super::super::GroupError;
use super::super::classic::ClassicDescription;
use super::super::consumer::ConsumerDescription;
use super::slot::Slot;
use super::{GroupCoordinator, State};

/// A group as an administrator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Description {
    Classic(ClassicDescription),
    Consumer(ConsumerDescription),
}

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) group_id: String,
    /// By the words of Kafka's `GroupType`.
    pub(crate) group_type: &'static str,
    pub(crate) protocol_type: String,
    pub(crate) state: &'static str,
}

impl GroupCoordinator {
    /// A group as it is now; `None` if there is none.
    pub(crate) fn describe(&self, group_id: &str) -> Option<Description> {
        let mut state = self.lock();
        if !self.visit(&mut state, group_id) {
            return None;
        }
        let description = state.slots.get(group_id).map(Slot::describe);
        state.forget_if_unused(group_id);
        description
    }

    /// All groups, by name.
    pub(crate) fn list(&self) -> Vec<Listed> {
        let snapshot = self.log.snapshot();
        let mut ids: Vec<_> = snapshot.groups().chain(snapshot.group_states().map(|(id, _)| id)).collect();
        let mut state = self.lock();
        let in_use: Vec<_> = state.slots.keys().cloned().collect();
        ids.extend(in_use.iter().map(String::as_str));
        ids.sort_unstable();
        ids.dedup();
        let mut listed = Vec::with_capacity(ids.len());
        for group_id in ids {
            if self.visit(&mut state, group_id) {
                listed.extend(state.slots.get(group_id).map(|slot| slot.list(group_id)));
                state.forget_if_unused(group_id);
            }
        }
        listed
    }

    /// Which of some topics the members of a group use.
    pub(crate) fn uses(&self, group_id: &str, topics: &[&str]) -> Result<Vec<bool>, GroupError> {
        if group_id.is_empty() {
            return Err(GroupError::InvalidGroupId);
        }
        let mut state = self.lock();
        if !self.visit(&mut state, group_id) {
            return Err(GroupError::GroupNotFound);
        }
        let uses = state.slots.get(group_id).map(|slot| slot.uses(topics));
        state.forget_if_unused(group_id);
        uses.unwrap_or(Err(GroupError::GroupNotFound))
    }

    /// Loads a group without a request to it; false if there is none.
    pub(super) fn visit(&self, state: &mut State, group_id: &str) -> bool {
        let snapshot = self.log.snapshot();
        state.follow(&snapshot, group_id);
        let is_known = self.load(state, &snapshot, group_id);
        if state.bring_timer_forward(group_id) {
            self.earlier.notify_one();
        }
        is_known
    }
}
