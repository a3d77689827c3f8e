//! What of a classic group is in the log, and what is told of it to administrators. Pure.

use std::time::Duration;

use bytes::Bytes;
use strandline_storage::format::event::{self, ClassicMember, MemberProtocol};
use strandline_storage::log::GroupChange;

use super::member::Member;
use super::{ClassicGroup, Effect, GroupLimits, Phase};

/// Generations are reserved in the log so many at a time.
const GENERATIONS_RESERVED: i32 = 10;

/// A group as an administrator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClassicDescription {
    /// By the words of Kafka's `ClassicGroupState`.
    pub(crate) state: &'static str,
    pub(crate) protocol_type: String,
    /// Empty while the group is rebalancing.
    pub(crate) protocol: String,
    pub(crate) members: Vec<DescribedMember>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DescribedMember {
    pub(crate) member_id: String,
    pub(crate) instance_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) metadata: Bytes,
    pub(crate) assignment: Bytes,
}

impl ClassicGroup {
    /// The group as the log has it. Sessions begin anew.
    pub(crate) fn restore(
        now: Duration,
        limits: GroupLimits,
        state: &event::ClassicGroup,
        generations_reserved: i32,
    ) -> Self {
        let mut group = Self::new(limits, generations_reserved.max(state.generation));
        group.is_durable = true;
        group.generation = state.generation;
        group.protocol_type.clone_from(&state.protocol_type);
        group.protocol.clone_from(&state.protocol);
        group.leader.clone_from(&state.leader);
        for member in &state.members {
            group.arrivals += 1;
            let member = restored(now, group.arrivals, member);
            if let Some(instance_id) = &member.instance_id {
                group.static_members.insert(instance_id.clone(), member.id.clone());
            }
            group.members.insert(member.id.clone(), member);
        }
        if !group.members.is_empty() {
            group.phase = Phase::Stable;
        }
        group
    }

    /// Has the members and their assignments written to the log.
    pub(super) fn persist(&mut self, effects: &mut Vec<Effect>) {
        self.is_durable = true;
        self.generations_reserved = self.generations_reserved.max(self.generation);
        let mut members: Vec<_> = self.members.values().collect();
        members.sort_by_key(|member| member.arrival);
        let state = event::ClassicGroup {
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            generation: self.generation,
            empty_since_ms: None,
            members: members.into_iter().map(durable).collect(),
        };
        effects.push(Effect::Persist(GroupChange::Classic(state)));
    }

    /// Makes sure that no other generation after a restart is this one.
    pub(super) fn reserve_generation(&mut self, effects: &mut Vec<Effect>) {
        if self.generation > self.generations_reserved {
            let last = self.generation.saturating_add(GENERATIONS_RESERVED - 1);
            self.generations_reserved = last;
            effects.push(Effect::Persist(GroupChange::ReserveGenerations { last }));
        }
    }

    /// Bytes that clients have said of their members.
    pub(super) fn metadata_bytes(&self) -> usize {
        self.members.values().map(Member::metadata_bytes).sum()
    }

    pub(crate) fn describe(&self) -> ClassicDescription {
        let is_stable = self.phase == Phase::Stable;
        let members = self.members.values().map(|member| DescribedMember {
            member_id: member.id.clone(),
            instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            metadata: if is_stable { member.metadata(&self.protocol) } else { Bytes::new() },
            assignment: if is_stable { member.assignment.clone() } else { Bytes::new() },
        });
        ClassicDescription {
            state: self.state_name(),
            protocol_type: self.protocol_type.clone(),
            protocol: if is_stable { self.protocol.clone() } else { String::new() },
            members: members.collect(),
        }
    }

    pub(crate) fn protocol_type(&self) -> &str {
        &self.protocol_type
    }

    /// By the words of Kafka's `ClassicGroupState`.
    pub(crate) fn state_name(&self) -> &'static str {
        match self.phase {
            Phase::Empty => "Empty",
            Phase::PreparingRebalance(_) => "PreparingRebalance",
            Phase::CompletingRebalance => "CompletingRebalance",
            Phase::Stable => "Stable",
        }
    }

    /// What each member says of itself in its preferred protocol.
    pub(crate) fn metadata_of_members(&self) -> impl Iterator<Item = &Bytes> {
        self.members.values().filter_map(|member| member.protocols.first()).map(|(_, metadata)| metadata)
    }
}

fn durable(member: &Member) -> ClassicMember {
    let protocols = member.protocols.iter();
    ClassicMember {
        member_id: member.id.clone(),
        instance_id: member.instance_id.clone(),
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        session_timeout_ms: milliseconds(member.session_timeout),
        rebalance_timeout_ms: milliseconds(member.rebalance_timeout),
        protocols: protocols
            .map(|(name, metadata)| MemberProtocol { name: name.clone(), metadata: metadata.clone() })
            .collect(),
        assignment: member.assignment.clone(),
    }
}

fn restored(now: Duration, arrival: u64, member: &ClassicMember) -> Member {
    let session_timeout = duration(member.session_timeout_ms);
    let protocols = member.protocols.iter();
    Member {
        id: member.member_id.clone(),
        instance_id: member.instance_id.clone(),
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        arrival,
        session_timeout,
        rebalance_timeout: duration(member.rebalance_timeout_ms),
        session_deadline: now.saturating_add(session_timeout),
        protocols: protocols.map(|one| (one.name.clone(), one.metadata.clone())).collect(),
        assignment: member.assignment.clone(),
        awaiting_join: None,
        awaiting_sync: None,
        has_synced: true,
    }
}

fn milliseconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

fn duration(milliseconds: i32) -> Duration {
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}
