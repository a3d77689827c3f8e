//! How members go: for good, or as a static member that comes back under another id. Pure.

use std::time::Duration;

use strandline_storage::format::event::ConsumerMemberPhase;

use super::{Beaten, Caller, ConsumerGroup, GroupError, LEAVING, LEAVING_FOR_A_WHILE, Partitions};

impl ConsumerGroup {
    pub(super) fn leave(&mut self, caller: &Caller) -> Result<Beaten, GroupError> {
        self.check_leaving(caller)?;
        self.remove(&caller.member_id);
        Ok(left(caller, LEAVING))
    }

    /// The member keeps its partitions until its session ends, for the one that comes back.
    pub(super) fn leave_for_a_while(&mut self, caller: &Caller) -> Result<Beaten, GroupError> {
        self.check_leaving(caller)?;
        let member_id = &caller.member_id;
        self.release(member_id);
        let member = self.members.get_mut(member_id).ok_or(GroupError::UnknownMember)?;
        member.epoch = LEAVING_FOR_A_WHILE;
        member.revoking = Partitions::default();
        member.phase = ConsumerMemberPhase::Stable;
        member.rebalance_deadline = None;
        self.claim(member_id);
        self.changes.members.insert(member_id.clone());
        Ok(left(caller, LEAVING_FOR_A_WHILE))
    }

    fn check_leaving(&self, caller: &Caller) -> Result<(), GroupError> {
        if let Some(instance_id) = &caller.instance_id {
            let holder = self.static_members.get(instance_id).ok_or(GroupError::UnknownMember)?;
            if *holder != caller.member_id {
                return Err(GroupError::FencedInstance);
            }
        }
        let is_member = self.members.contains_key(&caller.member_id);
        if is_member { Ok(()) } else { Err(GroupError::UnknownMember) }
    }

    /// Removes a member; the others share what it had from their next heartbeats on.
    pub(super) fn remove(&mut self, member_id: &str) {
        self.release(member_id);
        let Some(member) = self.members.remove(member_id) else { return };
        if let Some(instance_id) = &member.instance_id {
            self.static_members.remove(instance_id);
        }
        self.note_removed(member_id);
        self.raise_epoch();
        self.forget_unwanted_topics();
    }

    fn forget_unwanted_topics(&mut self) {
        // Subscriptions that were not looked up yet are looked up with the next heartbeat.
        if self.topics_version.is_none() && !self.members.is_empty() {
            return;
        }
        let known = self.topics.len();
        let members = &self.members;
        self.topics.retain(|topic, _| members.values().any(|member| member.wanted.contains(topic)));
        self.changes.topics |= self.topics.len() < known;
    }

    /// Gives the place of a static member that is away to a new member id. It joins without a change
    /// for anybody else.
    pub(super) fn replace(&mut self, old_id: &str, new_id: String) {
        self.release(old_id);
        let Some(mut member) = self.members.remove(old_id) else { return };
        member.epoch = 0;
        member.previous_epoch = 0;
        if let Some(instance_id) = &member.instance_id {
            self.static_members.insert(instance_id.clone(), new_id.clone());
        }
        self.members.insert(new_id.clone(), member);
        self.claim(&new_id);
        self.note_removed(old_id);
        self.changes.members.insert(new_id);
    }

    fn note_removed(&mut self, member_id: &str) {
        self.changes.members.remove(member_id);
        self.changes.removed.insert(member_id.to_owned());
    }
}

fn left(caller: &Caller, epoch: i32) -> Beaten {
    let member_id = caller.member_id.clone();
    Beaten { member_id, epoch, heartbeat_interval: Duration::ZERO, assignment: None }
}
