//! Synchronizing: the second half of a rebalance, in which the leader's assignment reaches all. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::{ClassicGroup, Effect, GroupError, Phase, Reply, Sync, Synced, Waiter};

impl ClassicGroup {
    /// `None`: the answer comes later, or is in the effects.
    pub(super) fn sync(
        &mut self,
        now: Duration,
        waiter: Waiter,
        sync: Sync,
        effects: &mut Vec<Effect>,
    ) -> Option<Reply> {
        if let Err(error) = self.check_sync(&sync) {
            return Some(Reply::Failed(error));
        }
        let member_id = &sync.caller.member_id;
        self.touch(now, member_id);
        match self.phase {
            Phase::Empty => Some(Reply::Failed(GroupError::UnknownMember)),
            Phase::PreparingRebalance(_) => Some(Reply::Failed(GroupError::RebalanceInProgress)),
            Phase::CompletingRebalance => {
                let is_leader = *member_id == self.leader;
                if is_leader && let Err(error) = self.check_size(&sync.assignments) {
                    return Some(Reply::Failed(error));
                }
                self.await_assignment(waiter, member_id, effects);
                if is_leader {
                    self.assign(now, sync.assignments, effects);
                }
                None
            }
            Phase::Stable => {
                let member = self.members.get_mut(member_id)?;
                member.has_synced = true;
                let assignment = member.assignment.clone();
                self.end_sync_if_all_came();
                Some(self.synced(assignment))
            }
        }
    }

    fn check_sync(&self, sync: &Sync) -> Result<(), GroupError> {
        self.check_member(&sync.caller, sync.generation)?;
        let differs =
            |believed: &Option<String>, agreed: &String| believed.as_ref().is_some_and(|it| it != agreed);
        if differs(&sync.protocol_type, &self.protocol_type) || differs(&sync.protocol, &self.protocol) {
            return Err(GroupError::InconsistentProtocol);
        }
        Ok(())
    }

    fn check_size(&self, assignments: &[(String, Bytes)]) -> Result<(), GroupError> {
        let metadata = self.metadata_bytes();
        let found = metadata + assignments.iter().map(|(_, assignment)| assignment.len()).sum::<usize>();
        let max = self.limits.metadata_bytes_max;
        if found > max { Err(GroupError::TooLarge { found, max }) } else { Ok(()) }
    }

    fn synced(&self, assignment: Bytes) -> Reply {
        let (protocol_type, protocol) = (self.protocol_type.clone(), self.protocol.clone());
        Reply::Synced(Synced { protocol_type, protocol, assignment })
    }

    fn await_assignment(&mut self, waiter: Waiter, member_id: &str, effects: &mut Vec<Effect>) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        member.has_synced = true;
        if let Some(older) = member.awaiting_sync.replace(waiter) {
            effects.push(Effect::Answer(older, Reply::Failed(GroupError::RebalanceInProgress)));
        }
    }

    /// Gives every member its part; one that the leader left out gets an empty one. With this the
    /// rebalance is complete.
    fn assign(&mut self, now: Duration, assignments: Vec<(String, Bytes)>, effects: &mut Vec<Effect>) {
        let mut assignments: BTreeMap<_, _> = assignments.into_iter().collect();
        self.phase = Phase::Stable;
        for (id, member) in &mut self.members {
            member.assignment = assignments.remove(id).unwrap_or_default();
        }
        self.persist(effects);
        let ids: Vec<_> = self.members.keys().cloned().collect();
        for id in ids {
            let Some(member) = self.members.get_mut(&id) else { continue };
            let Some(waiter) = member.awaiting_sync.take() else { continue };
            member.touch(now);
            let assignment = member.assignment.clone();
            effects.push(Effect::Answer(waiter, self.synced(assignment)));
        }
        self.end_sync_if_all_came();
    }

    pub(super) fn end_sync_if_all_came(&mut self) {
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
