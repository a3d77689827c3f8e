//! Synchronizing: the second half of a rebalance, in which the leader's assignment reaches all. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::{Effect, Group, GroupError, Phase, Reply, Waiter};

impl Group {
    /// `None`: the answer comes later, or is in the effects.
    pub(super) fn sync(
        &mut self,
        now: Duration,
        waiter: Waiter,
        (member_id, generation): (&str, i32),
        assignments: Vec<(String, Bytes)>,
        effects: &mut Vec<Effect>,
    ) -> Option<Reply> {
        if let Err(error) = self.check_member(member_id, generation) {
            return Some(Reply::Failed(error));
        }
        self.touch(now, member_id);
        match self.phase {
            Phase::Empty => Some(Reply::Failed(GroupError::UnknownMember)),
            Phase::PreparingRebalance(_) => Some(Reply::Failed(GroupError::RebalanceInProgress)),
            Phase::CompletingRebalance => {
                self.await_assignment(waiter, member_id, effects);
                if member_id == self.leader {
                    self.assign(now, assignments, effects);
                }
                None
            }
            Phase::Stable => {
                let member = self.members.get_mut(member_id)?;
                member.has_synced = true;
                let assignment = member.assignment.clone();
                self.end_sync_if_all_came();
                Some(Reply::Synced { assignment })
            }
        }
    }

    fn await_assignment(&mut self, waiter: Waiter, member_id: &str, effects: &mut Vec<Effect>) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        member.has_synced = true;
        if let Some(older) = member.awaiting_sync.replace(waiter) {
            let reply = Reply::Failed(GroupError::RebalanceInProgress);
            effects.push(Effect { waiter: older, reply });
        }
    }

    /// Gives every member its part; one that the leader left out gets an empty one.
    fn assign(&mut self, now: Duration, assignments: Vec<(String, Bytes)>, effects: &mut Vec<Effect>) {
        let mut assignments: BTreeMap<_, _> = assignments.into_iter().collect();
        self.phase = Phase::Stable;
        for (id, member) in &mut self.members {
            member.assignment = assignments.remove(id).unwrap_or_default();
            if let Some(waiter) = member.awaiting_sync.take() {
                member.touch(now);
                let reply = Reply::Synced { assignment: member.assignment.clone() };
                effects.push(Effect { waiter, reply });
            }
        }
        self.end_sync_if_all_came();
    }

    fn end_sync_if_all_came(&mut self) {
        if self.members.values().all(|member| member.has_synced) {
            self.sync_deadline = None;
        }
    }

    /// Removes those who did not ask for their assignment in time.
    pub(super) fn expire_sync(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        if self.sync_deadline.is_none_or(|deadline| deadline > now) {
            return;
        }
        self.sync_deadline = None;
        let late = self.members.iter().filter(|(_, member)| !member.has_synced);
        let late: Vec<_> = late.map(|(id, _)| id.clone()).collect();
        for member_id in late {
            self.remove_member(now, &member_id, effects);
        }
    }
}
