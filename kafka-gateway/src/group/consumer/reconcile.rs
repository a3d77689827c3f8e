//! Moves a member towards its target: what it is not to have any more it gives back first, and what
//! others still have it waits for (Kafka's `CurrentAssignmentBuilder`). Pure.

use strandline_storage::format::event::ConsumerMemberPhase as Phase;

use super::{ConsumerGroup, Partitions};

impl ConsumerGroup {
    /// `owned` is what the member says that it has now.
    pub(super) fn reconcile(&mut self, member_id: &str, owned: Option<&Partitions>) {
        let Some(member) = self.members.get(member_id) else { return };
        match member.phase {
            Phase::Stable if member.epoch == self.assignment_epoch => (),
            Phase::Stable | Phase::Waiting => self.advance(member_id, member.epoch, owned),
            Phase::Revoking if still_owns(owned, &member.revoking) => (),
            Phase::Revoking => self.advance(member_id, member.epoch.saturating_add(1), owned),
        }
    }

    /// The next step from what the member has to what it is to have. It stays in `epoch` while it has
    /// to give something back.
    fn advance(&mut self, member_id: &str, epoch: i32, owned: Option<&Partitions>) {
        let Some(member) = self.members.get(member_id) else { return };
        let (mut kept, surplus) = member.assigned.split_by(&member.target);
        if !surplus.is_empty() && still_owns(owned, &surplus) {
            self.set_place(
                member_id,
                Place { epoch, phase: Phase::Revoking, assigned: kept, revoking: surplus },
            );
            return;
        }
        let (_, missing) = member.target.split_by(&kept);
        let is_free = |place: &(_, _)| !self.owners.contains_key(place);
        let free: Vec<_> = missing.iter().filter(is_free).collect();
        let phase = if free.len() < missing.len() { Phase::Waiting } else { Phase::Stable };
        free.into_iter().for_each(|(topic, partition)| kept.insert(topic, partition));
        let epoch = self.assignment_epoch;
        self.set_place(member_id, Place { epoch, phase, assigned: kept, revoking: Partitions::default() });
    }

    /// Puts a member where it is now, and notes whose the partitions are.
    fn set_place(&mut self, member_id: &str, place: Place) {
        self.release(member_id);
        let Some(member) = self.members.get_mut(member_id) else { return };
        member.set_epoch(place.epoch);
        // The time to give something back begins with each step.
        member.rebalance_deadline = None;
        member.phase = place.phase;
        member.assigned = place.assigned;
        member.revoking = place.revoking;
        self.claim(member_id);
    }

    /// Notes that the partitions of a member are its own.
    pub(super) fn claim(&mut self, member_id: &str) {
        let Some(member) = self.members.get(member_id) else { return };
        for place in member.assigned.iter().chain(member.revoking.iter()) {
            let before = self.owners.insert(place, member_id.to_owned());
            assert!(before.is_none(), "a partition has one owner at a time");
        }
    }

    /// Notes that the partitions of a member are nobody's.
    pub(super) fn release(&mut self, member_id: &str) {
        let Some(member) = self.members.get(member_id) else { return };
        for place in member.assigned.iter().chain(member.revoking.iter()) {
            self.owners.remove(&place);
        }
    }
}

/// Where a member is on its way.
struct Place {
    epoch: i32,
    phase: Phase,
    assigned: Partitions,
    revoking: Partitions,
}

/// A member that does not say what it has may have everything.
fn still_owns(owned: Option<&Partitions>, revoking: &Partitions) -> bool {
    owned.is_none_or(|owned| !owned.is_disjoint_from(revoking))
}
