//! Consumer groups of the classic protocol: who is a member, in which generation, with which
//! assignment. Pure: times come in with each input, and what is to be answered comes out.
//!
//! The rules are those of Apache Kafka's `GroupMetadataManager` and `ClassicGroup`, for members
//! without an instance id.
//!
//! Invariant: a member id is answered to once per waiting request, and generations only go up while
//! a group has members. Nothing here is durable: after a restart members join again, and committed
//! offsets are in the log.

pub(crate) mod coordinator;
mod join;
mod member;
mod sync;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;

use self::member::Member;

/// Names a request that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Waiter(pub(crate) u64);

/// Why a request of a member was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum GroupError {
    #[error("member is not known to the group")]
    UnknownMember,
    #[error("generation is not the current one")]
    IllegalGeneration,
    #[error("group is rebalancing")]
    RebalanceInProgress,
    #[error("protocols have none in common with those of the other members")]
    InconsistentProtocol,
    #[error("member must join again with the id that it was given")]
    MemberIdRequired,
    #[error("group is full")]
    GroupFull,
    #[error("session timeout is out of bounds")]
    InvalidSessionTimeout,
    #[error("group id is empty")]
    InvalidGroupId,
    #[error("there are too many groups")]
    TooManyGroups,
}

/// Bounds and delays of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupLimits {
    pub(crate) initial_rebalance_delay: Duration,
    pub(crate) session_timeout_min: Duration,
    pub(crate) session_timeout_max: Duration,
    pub(crate) members_max: usize,
}

/// A request to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Join {
    /// Empty for a member that has none yet.
    pub(crate) member_id: String,
    /// The id that a new member gets.
    pub(crate) new_member_id: String,
    pub(crate) known_id: KnownId,
    pub(crate) session_timeout: Duration,
    pub(crate) rebalance_timeout: Duration,
    pub(crate) protocol_type: String,
    /// Names with opaque metadata, the preferred one first.
    pub(crate) protocols: Vec<(String, Bytes)>,
}

/// Whether a new member must join a second time with the id that it was given (KIP-394).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KnownId {
    Required,
    NotRequired,
}

/// What happens to a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Join(Join),
    Sync {
        member_id: String,
        generation: i32,
        assignments: Vec<(String, Bytes)>,
    },
    Heartbeat {
        member_id: String,
        generation: i32,
    },
    Leave {
        member_id: String,
    },
    /// Asks whether offsets may be committed.
    Commit {
        member_id: String,
        generation: i32,
    },
    /// Time has passed.
    Tick,
}

/// What a request is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Joined(Joined),
    /// A join that failed, with the id that the member has or is to have.
    NotJoined {
        error: GroupError,
        member_id: String,
    },
    Synced {
        assignment: Bytes,
    },
    Done,
    Failed(GroupError),
}

/// The answer to a join that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Joined {
    pub(crate) generation: i32,
    pub(crate) protocol: String,
    pub(crate) leader: String,
    pub(crate) member_id: String,
    /// All members with their metadata, for the leader only.
    pub(crate) members: Vec<(String, Bytes)>,
}

/// An answer that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Effect {
    pub(crate) waiter: Waiter,
    pub(crate) reply: Reply,
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
pub(crate) struct Group {
    limits: GroupLimits,
    phase: Phase,
    generation: i32,
    protocol_type: String,
    protocol: String,
    leader: String,
    members: BTreeMap<String, Member>,
    /// Ids that were given out and not joined with yet, and when they expire.
    pending: BTreeMap<String, Duration>,
    /// By when all members of this generation must have asked for their assignment.
    sync_deadline: Option<Duration>,
    /// Numbers members in the order in which they came.
    arrivals: u64,
}

impl Group {
    pub(crate) fn new(limits: GroupLimits) -> Self {
        Self {
            limits,
            phase: Phase::Empty,
            generation: 0,
            protocol_type: String::new(),
            protocol: String::new(),
            leader: String::new(),
            members: BTreeMap::new(),
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
            Input::Sync { member_id, generation, assignments } => {
                self.sync(now, waiter, (&member_id, generation), assignments, &mut effects)
            }
            Input::Heartbeat { member_id, generation } => {
                Some(done(self.heartbeat(now, &member_id, generation)))
            }
            Input::Leave { member_id } => Some(done(self.leave(now, &member_id, &mut effects))),
            Input::Commit { member_id, generation } => {
                Some(done(self.check_commit(now, &member_id, generation)))
            }
            Input::Tick => None,
        };
        effects.extend(reply.map(|reply| Effect { waiter, reply }));
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
        self.phase == Phase::Empty && self.members.is_empty() && self.pending.is_empty()
    }

    fn heartbeat(&mut self, now: Duration, member_id: &str, generation: i32) -> Result<(), GroupError> {
        self.check_member(member_id, generation)?;
        self.touch(now, member_id);
        match self.phase {
            Phase::PreparingRebalance(_) => Err(GroupError::RebalanceInProgress),
            Phase::Empty | Phase::CompletingRebalance | Phase::Stable => Ok(()),
        }
    }

    fn leave(&mut self, now: Duration, member_id: &str, effects: &mut Vec<Effect>) -> Result<(), GroupError> {
        if self.pending.remove(member_id).is_some() {
            self.complete_join_if_all_came(now, effects);
            return Ok(());
        }
        if !self.members.contains_key(member_id) {
            return Err(GroupError::UnknownMember);
        }
        self.remove_member(now, member_id, effects);
        Ok(())
    }

    /// Offsets may be committed by members of this generation, and, while the group has no members,
    /// by anybody who does not claim to be one.
    fn check_commit(&mut self, now: Duration, member_id: &str, generation: i32) -> Result<(), GroupError> {
        if generation < 0 && self.phase == Phase::Empty {
            return Ok(());
        }
        if generation < 0 && member_id.is_empty() {
            return Err(GroupError::UnknownMember);
        }
        self.check_member(member_id, generation)?;
        self.touch(now, member_id);
        match self.phase {
            Phase::CompletingRebalance => Err(GroupError::RebalanceInProgress),
            Phase::Empty | Phase::PreparingRebalance(_) | Phase::Stable => Ok(()),
        }
    }

    fn check_member(&self, member_id: &str, generation: i32) -> Result<(), GroupError> {
        if !self.members.contains_key(member_id) {
            return Err(GroupError::UnknownMember);
        }
        if generation != self.generation {
            return Err(GroupError::IllegalGeneration);
        }
        Ok(())
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
        member.dismiss(effects);
        match self.phase {
            Phase::Empty => (),
            Phase::PreparingRebalance(_) => self.complete_join_if_all_came(now, effects),
            Phase::CompletingRebalance | Phase::Stable => self.prepare_rebalance(now, effects),
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
