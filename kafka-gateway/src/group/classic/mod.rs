//! Groups of the classic protocol. Pure.
//!
//! Invariant: a request is answered once; generations only go up, and one that a member was told
//! is reserved in the log before.

mod durable;
mod join;
mod member;
mod static_member;
mod sync;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod static_tests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

pub(crate) use self::durable::{ClassicDescription, DescribedMember};
use self::member::Member;
use super::{Caller, Effect, GroupError, GroupLimits, Reply, Waiter};

/// A request to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Join {
    /// Its member id is empty if it has none yet.
    pub(crate) caller: Caller,
    /// The id that a new member gets.
    pub(crate) new_member_id: String,
    pub(crate) known_id: KnownId,
    pub(crate) skipping: Skipping,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) session_timeout: Duration,
    pub(crate) rebalance_timeout: Duration,
    pub(crate) protocol_type: String,
    /// Names with opaque metadata, the preferred one first.
    pub(crate) protocols: Vec<(String, Bytes)>,
}

impl Join {
    fn metadata_bytes(&self) -> usize {
        self.protocols.iter().map(|(name, metadata)| name.len() + metadata.len()).sum()
    }
}

/// Whether a new member must join a second time with the id that it was given (KIP-394).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KnownId {
    Required,
    NotRequired,
}

/// Whether a leader that is a static member can be told to leave the assignment as it is (KIP-814).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skipping {
    Understood,
    NotUnderstood,
}

/// A request for the assignment, which the leader brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sync {
    pub(crate) caller: Caller,
    pub(crate) generation: i32,
    /// What the member believes to be agreed on.
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) assignments: Vec<(String, Bytes)>,
}

/// What happens to a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Join(Join),
    Sync(Sync),
    Heartbeat {
        caller: Caller,
        generation: i32,
    },
    Leave {
        members: Vec<Caller>,
    },
    /// Asks whether offsets may be committed.
    Commit {
        caller: Caller,
        generation: i32,
    },
    /// Time has passed.
    Tick,
}

/// The answer to a join that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Joined {
    pub(crate) generation: i32,
    pub(crate) protocol_type: String,
    pub(crate) protocol: String,
    pub(crate) leader: String,
    pub(crate) member_id: String,
    /// The assignment stays as it is.
    pub(crate) skip_assignment: bool,
    /// All members with their metadata, for the leader only.
    pub(crate) members: Vec<JoinedMember>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JoinedMember {
    pub(crate) member_id: String,
    pub(crate) instance_id: Option<String>,
    pub(crate) metadata: Bytes,
}

/// The answer to a sync that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Synced {
    pub(crate) protocol_type: String,
    pub(crate) protocol: String,
    pub(crate) assignment: Bytes,
}

/// Where a group stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Empty,
    /// Members are joining.
    PreparingRebalance(JoinWindow),
    /// All have joined; the leader's assignment is awaited.
    CompletingRebalance,
    Stable,
}

/// How long members may join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JoinWindow {
    /// The first generation of a group waits for more members, and longer if some came.
    Initial { deadline: Duration, extension_left: Duration, grew: bool },
    /// Ends when all members have joined again, and at the latest then.
    Rejoin { deadline: Duration },
}

/// One group.
#[derive(Debug)]
pub(crate) struct ClassicGroup {
    limits: GroupLimits,
    phase: Phase,
    generation: i32,
    /// The next generation is above it.
    generation_floor: i32,
    /// Generations up to it are reserved in the log.
    generations_reserved: i32,
    /// Whether the log has the group's members.
    is_durable: bool,
    protocol_type: String,
    protocol: String,
    leader: String,
    members: BTreeMap<String, Member>,
    /// Member ids by instance id.
    static_members: BTreeMap<String, String>,
    /// Ids that were given out and not joined with yet, and when they expire.
    pending: BTreeMap<String, Duration>,
    /// By when all members of this generation must have asked for their assignment.
    sync_deadline: Option<Duration>,
    /// Numbers members in the order in which they came.
    arrivals: u64,
}

impl ClassicGroup {
    /// A group without members, whose generations are above a number.
    pub(crate) fn new(limits: GroupLimits, generation_floor: i32) -> Self {
        Self {
            limits,
            phase: Phase::Empty,
            generation: generation_floor,
            generation_floor,
            generations_reserved: generation_floor,
            is_durable: false,
            protocol_type: String::new(),
            protocol: String::new(),
            leader: String::new(),
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            pending: BTreeMap::new(),
            sync_deadline: None,
            arrivals: 0,
        }
    }

    /// Takes one input at a time that never goes back. The waiter of the input is answered in the
    /// effects of this call or of a later one; a tick has nobody to answer.
    pub(crate) fn step(&mut self, now: Duration, waiter: Waiter, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.expire(now, &mut effects);
        let done = |result: Result<(), GroupError>| result.map_or_else(Reply::Failed, |()| Reply::Done);
        let reply = match input {
            Input::Join(join) => self.join(now, waiter, join, &mut effects),
            Input::Sync(sync) => self.sync(now, waiter, sync, &mut effects),
            Input::Heartbeat { caller, generation } => Some(done(self.heartbeat(now, &caller, generation))),
            Input::Leave { members } => {
                let left = members.iter().map(|member| self.leave(now, member, &mut effects)).collect();
                Some(Reply::Left(left))
            }
            Input::Commit { caller, generation } => Some(done(self.check_commit(now, &caller, generation))),
            Input::Tick => None,
        };
        effects.extend(reply.map(|reply| Effect::Answer(waiter, reply)));
        // A join window of no length is over at once.
        self.expire(now, &mut effects);
        effects
    }

    /// When the group wants a tick.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        let window = match self.phase {
            Phase::PreparingRebalance(
                JoinWindow::Initial { deadline, .. } | JoinWindow::Rejoin { deadline },
            ) => Some(deadline),
            _ => None,
        };
        let sessions = self.members.values().filter_map(Member::session_deadline);
        let pending = self.pending.values().copied();
        sessions.chain(pending).chain(window).chain(self.sync_deadline).min()
    }

    /// Whether nothing would be lost if the group were forgotten.
    pub(crate) fn is_forgettable(&self) -> bool {
        self.is_empty() && self.pending.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.phase == Phase::Empty && self.members.is_empty()
    }

    /// The highest generation that a member may have been told.
    pub(crate) fn last_generation(&self) -> i32 {
        self.generation.max(self.generations_reserved)
    }

    fn heartbeat(&mut self, now: Duration, caller: &Caller, generation: i32) -> Result<(), GroupError> {
        self.check_member(caller, generation)?;
        self.touch(now, &caller.member_id);
        match self.phase {
            Phase::PreparingRebalance(_) => Err(GroupError::RebalanceInProgress),
            Phase::Empty | Phase::CompletingRebalance | Phase::Stable => Ok(()),
        }
    }

    /// A static member leaves by its instance id, whoever has it now, or as one that still has it.
    fn leave(&mut self, now: Duration, caller: &Caller, effects: &mut Vec<Effect>) -> Result<(), GroupError> {
        if self.pending.remove(&caller.member_id).is_some() {
            self.complete_join_if_all_came(now, effects);
            return Ok(());
        }
        let member_id = match &caller.instance_id {
            Some(instance_id) if caller.member_id.is_empty() => {
                self.static_members.get(instance_id).ok_or(GroupError::UnknownMember)?.clone()
            }
            _ => {
                self.check_identity(caller)?;
                caller.member_id.clone()
            }
        };
        self.remove_member(now, &member_id, effects);
        Ok(())
    }

    /// Offsets may be committed by members of this generation, and, while the group has no members,
    /// by anybody who does not claim to be one.
    fn check_commit(&mut self, now: Duration, caller: &Caller, generation: i32) -> Result<(), GroupError> {
        if generation < 0 && self.phase == Phase::Empty {
            return Ok(());
        }
        if generation < 0 && caller.member_id.is_empty() {
            return Err(GroupError::UnknownMember);
        }
        self.check_member(caller, generation)?;
        self.touch(now, &caller.member_id);
        match self.phase {
            Phase::CompletingRebalance => Err(GroupError::RebalanceInProgress),
            Phase::Empty | Phase::PreparingRebalance(_) | Phase::Stable => Ok(()),
        }
    }

    fn check_member(&self, caller: &Caller, generation: i32) -> Result<(), GroupError> {
        self.check_identity(caller)?;
        if generation != self.generation {
            return Err(GroupError::IllegalGeneration);
        }
        Ok(())
    }

    /// Whether the caller is a member, and, with an instance id, the one that has it now.
    fn check_identity(&self, caller: &Caller) -> Result<(), GroupError> {
        if let Some(instance_id) = &caller.instance_id {
            match self.static_members.get(instance_id) {
                None => return Err(GroupError::UnknownMember),
                Some(current) if *current != caller.member_id => return Err(GroupError::FencedInstance),
                Some(_) => (),
            }
        }
        let is_member = self.members.contains_key(&caller.member_id);
        if is_member { Ok(()) } else { Err(GroupError::UnknownMember) }
    }

    /// A sign of life of a member.
    fn touch(&mut self, now: Duration, member_id: &str) {
        if let Some(member) = self.members.get_mut(member_id) {
            member.touch(now);
        }
    }

    /// Removes a member, and begins a rebalance among those who stay.
    fn remove_member(&mut self, now: Duration, member_id: &str, effects: &mut Vec<Effect>) {
        let Some(member) = self.members.remove(member_id) else { return };
        self.forget_instance(&member);
        member.dismiss(effects);
        match self.phase {
            Phase::Empty => (),
            Phase::PreparingRebalance(_) => self.complete_join_if_all_came(now, effects),
            Phase::CompletingRebalance | Phase::Stable => self.prepare_rebalance(now, effects),
        }
    }

    fn forget_instance(&mut self, member: &Member) {
        if let Some(instance_id) = &member.instance_id {
            self.static_members.remove(instance_id);
        }
    }

    /// Does what is due by now.
    fn expire(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        self.pending.retain(|_, deadline| *deadline > now);
        self.expire_sync(now, effects);
        let is_over = |member: &Member| member.session_deadline().is_some_and(|deadline| deadline <= now);
        let expired: Vec<_> =
            self.members.iter().filter(|(_, member)| is_over(member)).map(|(id, _)| id.clone()).collect();
        for member_id in expired {
            self.remove_member(now, &member_id, effects);
        }
        self.expire_join(now, effects);
    }
}
