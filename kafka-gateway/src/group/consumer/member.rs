//! One member of a consumer group. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use strandline_storage::format::event::ConsumerMemberPhase;
use strandline_storage::ids::TopicId;

use super::super::topics::Topics;
use super::interest::Interest;
use super::{Assignor, Beat, GroupError, LEAVING_FOR_A_WHILE, Partitions};
use crate::authorize::{Operation, Resource, Rights};

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) instance_id: Option<String>,
    pub(super) rack_id: Option<String>,
    pub(super) client_id: String,
    pub(super) client_host: String,
    pub(super) rebalance_timeout: Duration,
    pub(super) interest: Interest,
    /// What the interest means among the topics that there are.
    pub(super) wanted: BTreeSet<TopicId>,
    /// `None`: it was not heard of since the group was loaded.
    pub(super) rights: Option<Rights>,
    pub(super) assignor: Option<Assignor>,
    pub(super) epoch: i32,
    pub(super) previous_epoch: i32,
    pub(super) phase: ConsumerMemberPhase,
    pub(super) assigned: Partitions,
    /// What it has to give back before it gets anything new.
    pub(super) revoking: Partitions,
    /// What it is to have in the end.
    pub(super) target: Partitions,
    pub(super) session_deadline: Duration,
    /// By when it must have given back what it has to.
    pub(super) rebalance_deadline: Option<Duration>,
}

impl Member {
    pub(super) fn new(instance_id: Option<String>) -> Self {
        Self {
            instance_id,
            rack_id: None,
            client_id: String::new(),
            client_host: String::new(),
            rebalance_timeout: Duration::ZERO,
            interest: Interest::default(),
            wanted: BTreeSet::new(),
            rights: None,
            assignor: None,
            epoch: 0,
            previous_epoch: 0,
            phase: ConsumerMemberPhase::Stable,
            assigned: Partitions::default(),
            revoking: Partitions::default(),
            target: Partitions::default(),
            session_deadline: Duration::MAX,
            rebalance_deadline: None,
        }
    }

    /// Takes what the member says of itself; true if it subscribes to something else now.
    pub(super) fn update(&mut self, beat: &Beat, interest: Option<Interest>) -> bool {
        self.client_id.clone_from(&beat.client_id);
        self.client_host.clone_from(&beat.client_host);
        if beat.rack_id.is_some() {
            self.rack_id.clone_from(&beat.rack_id);
        }
        if let Some(rebalance_timeout) = beat.rebalance_timeout {
            self.rebalance_timeout = rebalance_timeout;
        }
        if let Some(name) = &beat.assignor {
            self.assignor = Assignor::named(name);
        }
        match interest {
            Some(interest) if interest != self.interest => {
                self.interest = interest;
                true
            }
            _ => false,
        }
    }

    /// Takes what the member may do; true if it may see other topics now.
    pub(super) fn update_rights(&mut self, rights: &Rights) -> bool {
        if self.rights.as_ref() == Some(rights) {
            return false;
        }
        self.rights = Some(rights.clone());
        self.interest.regex_text().is_some()
    }

    /// Looks the interest up in the topics that there are. While it is not known what the member may do, a
    /// regular expression finds only topics that the group knows.
    pub(super) fn resolve(&mut self, topics: &Topics, known: &BTreeMap<TopicId, i32>) {
        let sees = |name: &str, id: TopicId| match &self.rights {
            Some(rights) => rights.allow(Operation::Describe, Resource::Topic(name)),
            None => known.contains_key(&id),
        };
        self.wanted = self.interest.resolve(topics, sees);
    }

    /// A sign of life. Whoever has partitions to give back has its rebalance timeout for it.
    pub(super) fn touch(&mut self, now: Duration, session_timeout: Duration) {
        self.session_deadline = now.saturating_add(session_timeout);
        self.rebalance_deadline = match self.phase {
            ConsumerMemberPhase::Revoking => {
                Some(self.rebalance_deadline.unwrap_or(now.saturating_add(self.rebalance_timeout)))
            }
            ConsumerMemberPhase::Stable | ConsumerMemberPhase::Waiting => None,
        };
    }

    /// When it is taken for dead.
    pub(super) fn deadline(&self) -> Duration {
        let rebalance_deadline = self.rebalance_deadline.unwrap_or(Duration::MAX);
        self.session_deadline.min(rebalance_deadline)
    }

    /// A static member that left for a while.
    pub(super) fn is_away(&self) -> bool {
        self.epoch == LEAVING_FOR_A_WHILE
    }

    pub(super) fn is_reconciled(&self, assignment_epoch: i32) -> bool {
        self.phase == ConsumerMemberPhase::Stable && self.epoch == assignment_epoch
    }

    /// The answer that raised the epoch may have been lost: the epoch before is accepted from a member
    /// that has nothing which is not its own.
    pub(super) fn check_epoch(&self, found: i32, owned: Option<&Partitions>) -> Result<(), GroupError> {
        let is_late = found < self.epoch
            && found == self.previous_epoch
            && owned.is_some_and(|owned| owned.is_subset_of(&self.assigned));
        if found == self.epoch || is_late {
            return Ok(());
        }
        Err(GroupError::FencedMemberEpoch { found, current: self.epoch })
    }

    pub(super) fn check_current(&self, found: i32) -> Result<(), GroupError> {
        let current = self.epoch;
        if found == current { Ok(()) } else { Err(GroupError::StaleMemberEpoch { found, current }) }
    }

    pub(super) fn set_epoch(&mut self, epoch: i32) {
        self.previous_epoch = self.epoch;
        self.epoch = epoch;
    }

    /// Whether the log would have the same of both.
    pub(super) fn is_durably(&self, other: &Self) -> bool {
        self.durable("") == other.durable("")
    }
}
