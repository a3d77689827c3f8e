//! Joining: the first half of a rebalance, from the first member that comes to the new generation. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::member::Member;
use super::{
    ClassicGroup, Effect, GroupError, Join, JoinWindow, Joined, JoinedMember, KnownId, Phase, Reply, Waiter,
};

/// A join window that is opened again lasts at least so long.
const MOMENT: Duration = Duration::from_secs(1);

impl ClassicGroup {
    /// `None`: the answer comes later, or is in the effects.
    pub(super) fn join(
        &mut self,
        now: Duration,
        waiter: Waiter,
        join: Join,
        effects: &mut Vec<Effect>,
    ) -> Option<Reply> {
        if let Err(error) = self.check_join(&join) {
            return Some(Reply::NotJoined { error, member_id: join.caller.member_id });
        }
        if join.caller.member_id.is_empty() {
            return self.join_as_new(now, waiter, join, effects);
        }
        if self.pending.remove(&join.caller.member_id).is_some() {
            let id = join.caller.member_id.clone();
            self.add_member(now, waiter, id, join, effects);
            return None;
        }
        self.join_again(now, waiter, join, effects)
    }

    fn check_join(&self, join: &Join) -> Result<(), GroupError> {
        let sessions = self.limits.session_timeout_min..=self.limits.session_timeout_max;
        if !sessions.contains(&join.session_timeout) {
            return Err(GroupError::InvalidSessionTimeout);
        }
        let is_new = join.caller.member_id.is_empty();
        if is_new {
            self.check_room(join)?;
        } else if !self.pending.contains_key(&join.caller.member_id) {
            self.check_identity(&join.caller)?;
        } else if join.caller.instance_id.is_some() {
            return Err(GroupError::UnknownMember);
        }
        if !self.supports(join) {
            return Err(GroupError::InconsistentProtocol);
        }
        Ok(())
    }

    /// A static member that comes back needs no room of its own.
    fn check_room(&self, join: &Join) -> Result<(), GroupError> {
        let instance_id = join.caller.instance_id.as_ref();
        let comes_back = instance_id.is_some_and(|instance_id| self.static_members.contains_key(instance_id));
        let is_full = self.members.len() + self.pending.len() >= self.limits.members_max
            || self.metadata_bytes() + join.metadata_bytes() > self.limits.metadata_bytes_max;
        if is_full && !comes_back { Err(GroupError::GroupFull) } else { Ok(()) }
    }

    /// Whether there is a protocol that the member and all others have.
    fn supports(&self, join: &Join) -> bool {
        if join.protocol_type.is_empty() || join.protocols.is_empty() {
            return false;
        }
        if self.members.is_empty() {
            return true;
        }
        let common = |name: &str| self.members.values().all(|member| member.supports(name));
        join.protocol_type == self.protocol_type && join.protocols.iter().any(|(name, _)| common(name))
    }

    fn join_as_new(
        &mut self,
        now: Duration,
        waiter: Waiter,
        join: Join,
        effects: &mut Vec<Effect>,
    ) -> Option<Reply> {
        let id = join.new_member_id.clone();
        if let Some(instance_id) = &join.caller.instance_id {
            if self.static_members.contains_key(instance_id) {
                return self.take_over(now, waiter, join, effects);
            }
            self.static_members.insert(instance_id.clone(), id.clone());
            self.add_member(now, waiter, id, join, effects);
            return None;
        }
        match join.known_id {
            KnownId::Required => {
                self.pending.insert(id.clone(), now.saturating_add(join.session_timeout));
                Some(Reply::NotJoined { error: GroupError::MemberIdRequired, member_id: id })
            }
            KnownId::NotRequired => {
                self.add_member(now, waiter, id, join, effects);
                None
            }
        }
    }

    fn add_member(
        &mut self,
        now: Duration,
        waiter: Waiter,
        id: String,
        join: Join,
        effects: &mut Vec<Effect>,
    ) {
        if self.members.is_empty() {
            self.protocol_type.clone_from(&join.protocol_type);
        }
        self.arrivals += 1;
        let member = Member::new(now, id.clone(), self.arrivals, join, waiter);
        self.members.insert(id, member);
        match &mut self.phase {
            Phase::PreparingRebalance(JoinWindow::Initial { grew, .. }) => *grew = true,
            Phase::PreparingRebalance(JoinWindow::Rejoin { .. }) => {
                self.complete_join_if_all_came(now, effects);
            }
            Phase::Empty | Phase::CompletingRebalance | Phase::Stable => self.prepare_rebalance(now, effects),
        }
    }

    /// A member that is known joins again. In a settled group that changes nothing unless it has new
    /// metadata, or is the leader, who joins again to have the group assigned anew.
    fn join_again(
        &mut self,
        now: Duration,
        waiter: Waiter,
        join: Join,
        effects: &mut Vec<Effect>,
    ) -> Option<Reply> {
        let is_leader = join.caller.member_id == self.leader;
        let id = join.caller.member_id.clone();
        let member = self.members.get_mut(&id)?;
        let is_unchanged = member.protocols == join.protocols;
        let settled = match self.phase {
            Phase::CompletingRebalance => is_unchanged,
            Phase::Stable => is_unchanged && !is_leader,
            Phase::Empty | Phase::PreparingRebalance(_) => false,
        };
        if settled {
            member.touch(now);
            return Some(Reply::Joined(self.joined(&id)));
        }
        member.rejoin(now, join, waiter, effects);
        match self.phase {
            Phase::PreparingRebalance(_) => self.complete_join_if_all_came(now, effects),
            Phase::Empty | Phase::CompletingRebalance | Phase::Stable => self.prepare_rebalance(now, effects),
        }
        None
    }

    /// Opens the window in which members join.
    pub(super) fn prepare_rebalance(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        for member in self.members.values_mut() {
            member.interrupt_sync(effects);
        }
        self.sync_deadline = None;
        let longest = self.longest_rebalance_timeout();
        let window = match self.phase {
            Phase::Empty => {
                let delay = self.limits.initial_rebalance_delay.min(longest);
                JoinWindow::Initial {
                    deadline: now.saturating_add(delay),
                    extension_left: longest.saturating_sub(delay),
                    grew: false,
                }
            }
            _ => JoinWindow::Rejoin { deadline: now.saturating_add(longest) },
        };
        self.phase = Phase::PreparingRebalance(window);
        self.complete_join_if_all_came(now, effects);
    }

    fn longest_rebalance_timeout(&self) -> Duration {
        self.members.values().map(|member| member.rebalance_timeout).max().unwrap_or_default()
    }

    /// Ends the window early when nobody is missing. The first one of a group always runs its time.
    pub(super) fn complete_join_if_all_came(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        let Phase::PreparingRebalance(JoinWindow::Rejoin { .. }) = self.phase else { return };
        let all_came = self.members.values().all(|member| member.awaiting_join.is_some());
        if all_came && self.pending.is_empty() {
            self.complete_join(now, effects);
        }
    }

    pub(super) fn expire_join(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        let Phase::PreparingRebalance(window) = &mut self.phase else { return };
        match window {
            JoinWindow::Rejoin { deadline } if *deadline > now => {
                // A pending id may have expired.
                self.complete_join_if_all_came(now, effects);
            }
            JoinWindow::Initial { deadline, .. } if *deadline > now => (),
            JoinWindow::Initial { deadline, extension_left, grew } if *grew && !extension_left.is_zero() => {
                let extension = self.limits.initial_rebalance_delay.min(*extension_left);
                *extension_left = extension_left.saturating_sub(extension);
                *deadline = now.saturating_add(extension);
                *grew = false;
                if extension.is_zero() {
                    self.complete_join(now, effects);
                }
            }
            JoinWindow::Rejoin { .. } | JoinWindow::Initial { .. } => self.complete_join(now, effects),
        }
    }

    /// Begins the next generation with those who came. Static members keep their place until their
    /// session ends; if nobody else is there, the window stays open as long again.
    fn complete_join(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        let has_come = |member: &Member| member.awaiting_join.is_some();
        if !self.members.is_empty() && self.members.values().all(|it| it.is_static() && !has_come(it)) {
            let deadline = now.saturating_add(self.longest_rebalance_timeout()).max(now + MOMENT);
            self.phase = Phase::PreparingRebalance(JoinWindow::Rejoin { deadline });
            return;
        }
        let (stay, missing): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.members)
            .into_iter()
            .partition(|(_, member)| has_come(member) || member.is_static());
        self.members = stay;
        missing.into_values().for_each(|member| member.dismiss(effects));
        self.generation = self.generation.max(self.generation_floor).saturating_add(1);
        if self.members.is_empty() {
            self.phase = Phase::Empty;
            self.protocol.clear();
            self.leader.clear();
            if self.is_durable {
                self.persist(effects);
            }
            return;
        }
        self.protocol = self.vote();
        if !self.members.get(&self.leader).is_some_and(has_come) {
            self.leader = self.first_who_came();
        }
        self.phase = Phase::CompletingRebalance;
        self.sync_deadline = Some(now.saturating_add(self.longest_rebalance_timeout()));
        self.reserve_generation(effects);
        self.answer_joins(now, effects);
    }

    fn answer_joins(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        let ids: Vec<_> = self.members.keys().cloned().collect();
        for id in ids {
            let reply = Reply::Joined(self.joined(&id));
            let Some(member) = self.members.get_mut(&id) else { continue };
            member.assignment = Bytes::new();
            member.has_synced = false;
            if let Some(waiter) = member.awaiting_join.take() {
                member.touch(now);
                effects.push(Effect::Answer(waiter, reply));
            }
        }
    }

    fn first_who_came(&self) -> String {
        let came = self.members.iter().filter(|(_, member)| member.awaiting_join.is_some());
        came.min_by_key(|(_, member)| member.arrival).map_or_else(String::new, |(id, _)| id.clone())
    }

    /// Each member votes for the first of its protocols that all have. Equal votes go to the one that
    /// the member who came first prefers.
    pub(super) fn vote(&self) -> String {
        let is_common = |name: &str| self.members.values().all(|member| member.supports(name));
        let mut voters: Vec<_> = self.members.values().collect();
        voters.sort_by_key(|member| member.arrival);
        let mut votes: Vec<(&str, usize)> = Vec::new();
        for voter in voters {
            let Some((choice, _)) = voter.protocols.iter().find(|(name, _)| is_common(name)) else {
                continue;
            };
            match votes.iter_mut().find(|(name, _)| name == choice) {
                Some((_, count)) => *count += 1,
                None => votes.push((choice, 1)),
            }
        }
        let most = votes.iter().map(|(_, count)| *count).max();
        let winner = votes.iter().find(|(_, count)| Some(*count) == most);
        winner.map_or_else(String::new, |(name, _)| (*name).to_owned())
    }

    /// What a member is told about the present generation.
    pub(super) fn joined(&self, member_id: &str) -> Joined {
        let described = |(id, member): (&String, &Member)| JoinedMember {
            member_id: id.clone(),
            instance_id: member.instance_id.clone(),
            metadata: member.metadata(&self.protocol),
        };
        let is_leader = member_id == self.leader;
        Joined {
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            member_id: member_id.to_owned(),
            skip_assignment: false,
            members: if is_leader { self.members.iter().map(described).collect() } else { Vec::new() },
        }
    }
}
