//! Static members (KIP-345): a client that comes back with its instance id takes the place that it
//! had, under a new member id, and its old member id is fenced. Pure.

use std::time::Duration;

use super::{ClassicGroup, Effect, GroupError, Join, Joined, Phase, Reply, Skipping, Waiter};

impl ClassicGroup {
    /// Takes over the place of an instance id. `None`: the answer comes later, or is in the effects.
    pub(super) fn take_over(
        &mut self,
        now: Duration,
        waiter: Waiter,
        join: Join,
        effects: &mut Vec<Effect>,
    ) -> Option<Reply> {
        let old_leader = self.leader.clone();
        let (new_id, skipping) = (join.new_member_id.clone(), join.skipping);
        self.rename(now, join, effects)?;
        if self.phase == Phase::Stable && self.vote() == self.protocol {
            self.persist(effects);
            return Some(Reply::Joined(self.joined_without_rebalance(&new_id, old_leader, skipping)));
        }
        self.members.get_mut(&new_id)?.awaiting_join = Some(waiter);
        match self.phase {
            Phase::PreparingRebalance(_) => self.complete_join_if_all_came(now, effects),
            // The leader may have been told the old id already, and would assign to that.
            Phase::Empty | Phase::CompletingRebalance | Phase::Stable => self.prepare_rebalance(now, effects),
        }
        None
    }

    /// Gives the member of the instance id another member id.
    fn rename(&mut self, now: Duration, join: Join, effects: &mut Vec<Effect>) -> Option<()> {
        let instance_id = join.caller.instance_id.clone()?;
        let new_id = join.new_member_id.clone();
        let old_id = self.static_members.insert(instance_id, new_id.clone())?;
        let mut member = self.members.remove(&old_id)?;
        member.answer_all(&GroupError::FencedInstance, effects);
        member.id.clone_from(&new_id);
        member.update(now, join);
        if self.leader == old_id {
            self.leader.clone_from(&new_id);
        }
        self.members.insert(new_id, member);
        Some(())
    }

    /// The leader must not assign anew: it is told so, or, if it would not understand, that somebody
    /// else is the leader.
    fn joined_without_rebalance(&self, member_id: &str, old_leader: String, skipping: Skipping) -> Joined {
        match skipping {
            Skipping::Understood => {
                let joined = self.joined(member_id);
                Joined { skip_assignment: joined.leader == member_id, ..joined }
            }
            Skipping::NotUnderstood => {
                Joined { leader: old_leader, members: Vec::new(), ..self.joined(member_id) }
            }
        }
    }
}
