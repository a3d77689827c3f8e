//! Groups of the consumer protocol (KIP-848), in which the coordinator assigns and each member is
//! moved towards its target on its own. Pure.
//!
//! Invariant: a partition is assigned to one member at a time: what one is to get it gets only when
//! the one that had it has given it back. Epochs only go up.

mod assignor;
mod durable;
mod interest;
mod leave;
mod member;
mod partitions;
mod reconcile;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use strandline_storage::ids::TopicId;

pub(crate) use self::assignor::Assignor;
use self::assignor::Subscriber;
pub(crate) use self::durable::{ConsumerDescription, DescribedConsumer};
use self::interest::Interest;
use self::member::Member;
pub(crate) use self::partitions::Partitions;
use super::topics::Topics;
use super::{Caller, Effect, GroupError, GroupLimits, Reply, Waiter};
use crate::authorize::Rights;

/// The epoch of a request to join.
pub(crate) const JOINING: i32 = 0;
/// The epoch of a request to leave.
pub(crate) const LEAVING: i32 = -1;
/// The epoch of a static member that leaves for a while.
pub(crate) const LEAVING_FOR_A_WHILE: i32 = -2;

/// A heartbeat: what a member says of itself. `None` is "as before".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Beat {
    pub(crate) caller: Caller,
    pub(crate) epoch: i32,
    pub(crate) rack_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) rebalance_timeout: Option<Duration>,
    pub(crate) subscribed_topics: Option<Vec<String>>,
    pub(crate) subscribed_regex: Option<String>,
    pub(crate) assignor: Option<String>,
    /// The partitions that it has now.
    pub(crate) owned: Option<Partitions>,
    /// A regular expression finds only topics that the member may know of.
    pub(crate) rights: Rights,
}

impl Beat {
    /// It says all that there is to say, so that it is told all too.
    fn is_full(&self) -> bool {
        let has_interest = self.subscribed_topics.is_some() || self.subscribed_regex.is_some();
        self.epoch == JOINING || (self.rebalance_timeout.is_some() && has_interest && self.owned.is_some())
    }

    /// Refuses what makes no sense, whoever sends it.
    pub(crate) fn check(&self) -> Result<(), GroupError> {
        let invalid = |reason| Err(GroupError::InvalidRequest(reason));
        if self.caller.member_id.is_empty() {
            return invalid("member id is empty");
        }
        if self.caller.instance_id.as_deref() == Some("") || self.rack_id.as_deref() == Some("") {
            return invalid("instance id or rack id is empty");
        }
        if self.epoch < LEAVING_FOR_A_WHILE {
            return invalid("member epoch is below -2");
        }
        if self.epoch == LEAVING_FOR_A_WHILE && self.caller.instance_id.is_none() {
            return invalid("a member without an instance id leaves with epoch -1");
        }
        if self.epoch == JOINING {
            if self.rebalance_timeout.is_none() {
                return invalid("a member that joins says its rebalance timeout");
            }
            if self.owned.as_ref().is_none_or(|owned| !owned.is_empty()) {
                return invalid("a member that joins has no partitions");
            }
            if self.subscribed_topics.is_none() && self.subscribed_regex.is_none() {
                return invalid("a member that joins says what it subscribes to");
            }
        }
        match &self.assignor {
            Some(name) if Assignor::named(name).is_none() => {
                Err(GroupError::UnsupportedAssignor { name: name.clone() })
            }
            _ => Ok(()),
        }
    }
}

/// The answer to a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Beaten {
    pub(crate) member_id: String,
    pub(crate) epoch: i32,
    pub(crate) heartbeat_interval: Duration,
    /// `None` if the member knows it already.
    pub(crate) assignment: Option<Partitions>,
}

/// Which version of OffsetCommit a commit came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitVersion {
    /// Knows member epochs (9 and later).
    Epochs,
    Generations,
}

/// One group.
#[derive(Debug)]
pub(crate) struct ConsumerGroup {
    limits: GroupLimits,
    epoch: i32,
    /// The epoch that the targets of the members belong to.
    assignment_epoch: i32,
    assignor: Assignor,
    /// The topics that somebody subscribes to, with their numbers of partitions.
    topics: BTreeMap<TopicId, i32>,
    /// The topics of the log when subscriptions were last looked up in them.
    topics_version: Option<u64>,
    members: BTreeMap<String, Member>,
    /// Member ids by instance id.
    static_members: BTreeMap<String, String>,
    /// Who has a partition, or is about to give it back.
    owners: BTreeMap<(TopicId, i32), String>,
    changes: Changes,
}

/// What the log does not have yet.
#[derive(Debug, Default)]
struct Changes {
    group: bool,
    topics: bool,
    members: BTreeSet<String>,
    removed: BTreeSet<String>,
}

impl ConsumerGroup {
    /// A group without members, whose epochs are above a number.
    pub(crate) fn new(limits: GroupLimits, epoch: i32) -> Self {
        Self {
            limits,
            epoch,
            assignment_epoch: epoch,
            assignor: Assignor::Uniform,
            topics: BTreeMap::new(),
            topics_version: None,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            owners: BTreeMap::new(),
            changes: Changes::default(),
        }
    }

    /// Takes one heartbeat, at a time that never goes back, and answers it.
    pub(crate) fn step(&mut self, now: Duration, waiter: Waiter, beat: Beat, topics: &Topics) -> Vec<Effect> {
        self.expire(now);
        let beaten = self.beat(now, beat, topics);
        let mut effects = self.take_changes();
        effects.push(Effect::Answer(waiter, beaten.map_or_else(Reply::Failed, Reply::Beaten)));
        effects
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Duration) -> Vec<Effect> {
        self.expire(now);
        self.take_changes()
    }

    /// When the group wants a tick.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.members.values().map(Member::deadline).min()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(crate) fn epoch(&self) -> i32 {
        self.epoch
    }

    /// Offsets may be committed by members of the current epoch, and, while the group has no members,
    /// by anybody who does not claim to be one.
    pub(crate) fn check_commit(
        &self,
        caller: &Caller,
        epoch: i32,
        version: CommitVersion,
    ) -> Result<(), GroupError> {
        if epoch < 0 && self.members.is_empty() {
            return Ok(());
        }
        let member = self.members.get(&caller.member_id).ok_or(GroupError::UnknownMember)?;
        if version == CommitVersion::Generations {
            return Err(GroupError::UnsupportedVersion);
        }
        member.check_current(epoch)
    }

    /// Offsets are told to members of the current epoch, and to those who do not claim to be one.
    pub(crate) fn check_fetch(&self, member_id: Option<&str>, epoch: i32) -> Result<(), GroupError> {
        match member_id {
            None if epoch < 0 => Ok(()),
            None => Err(GroupError::UnknownMember),
            Some(id) => self.members.get(id).ok_or(GroupError::UnknownMember)?.check_current(epoch),
        }
    }

    pub(crate) fn subscribes_to(&self, topic: &str) -> bool {
        self.members.values().any(|member| member.interest.includes(topic))
    }

    fn beat(&mut self, now: Duration, beat: Beat, topics: &Topics) -> Result<Beaten, GroupError> {
        beat.check()?;
        match beat.epoch {
            LEAVING => return self.leave(&beat.caller),
            LEAVING_FOR_A_WHILE => return self.leave_for_a_while(&beat.caller),
            _ => (),
        }
        let interest = self.interest_of(&beat)?;
        let is_new = self.admit(&beat, &interest)?;
        let member_id = beat.caller.member_id.clone();
        let member = self.members.get_mut(&member_id).ok_or(GroupError::UnknownMember)?;
        let (known, assigned) = (member.clone(), member.assigned.clone());
        let has_other_rights = member.update_rights(&beat.rights);
        let has_other_interest = member.update(&beat, interest) || is_new;
        let wanted = has_other_rights.then(|| member.wanted.clone());
        if has_other_interest || has_other_rights {
            member.resolve(topics, &self.topics);
        }
        // What a group that was just loaded wants was not looked up before.
        let sees_others =
            wanted.is_some_and(|before| before != member.wanted) && self.topics_version.is_some();
        let wants_others = has_other_interest || sees_others;
        let has_other_topics = self.refresh(topics, wants_others);
        if wants_others || has_other_topics {
            self.raise_epoch();
        }
        if self.epoch > self.assignment_epoch {
            self.assign();
        }
        self.reconcile(&member_id, beat.owned.as_ref());
        let member = self.members.get_mut(&member_id).ok_or(GroupError::UnknownMember)?;
        member.touch(now, self.limits.consumer_session_timeout);
        if is_new || !member.is_durably(&known) {
            self.changes.members.insert(member_id.clone());
        }
        let is_told = beat.is_full() || member.assigned != assigned;
        Ok(Beaten {
            member_id,
            epoch: member.epoch,
            heartbeat_interval: self.limits.consumer_heartbeat_interval,
            assignment: is_told.then(|| member.assigned.clone()),
        })
    }

    /// What the member subscribes to from now on; `None` if it does not say.
    fn interest_of(&self, beat: &Beat) -> Result<Option<Interest>, GroupError> {
        if beat.subscribed_topics.is_none() && beat.subscribed_regex.is_none() {
            return Ok(None);
        }
        let current = self.members.get(&beat.caller.member_id).map(|member| &member.interest);
        let current = current.filter(|_| beat.epoch != JOINING);
        Interest::new(current, beat.subscribed_topics.as_deref(), beat.subscribed_regex.as_deref()).map(Some)
    }

    /// Makes sure that the caller is a member and may say so; true if it is a new one.
    fn admit(&mut self, beat: &Beat, interest: &Option<Interest>) -> Result<bool, GroupError> {
        let Caller { member_id, instance_id } = &beat.caller;
        let holder = instance_id.as_ref().and_then(|instance| self.static_members.get(instance)).cloned();
        if beat.epoch == JOINING {
            return self.admit_joining(beat, interest, holder);
        }
        if let Some(holder) = &holder
            && holder != member_id
        {
            return Err(GroupError::FencedInstance);
        }
        if instance_id.is_some() && holder.is_none() {
            return Err(GroupError::UnknownMember);
        }
        let member = self.members.get(member_id).ok_or(GroupError::UnknownMember)?;
        member.check_epoch(beat.epoch, beat.owned.as_ref())?;
        self.check_size(beat, interest)?;
        Ok(false)
    }

    fn admit_joining(
        &mut self,
        beat: &Beat,
        interest: &Option<Interest>,
        holder: Option<String>,
    ) -> Result<bool, GroupError> {
        let member_id = &beat.caller.member_id;
        match holder {
            Some(holder) if holder == *member_id => return Ok(false),
            Some(holder) => {
                let away = self.members.get(&holder).is_some_and(Member::is_away);
                if !away {
                    return Err(GroupError::UnreleasedInstance { by: holder });
                }
                self.replace(&holder, member_id.clone());
                return Ok(false);
            }
            None => (),
        }
        if let Some(member) = self.members.get(member_id) {
            // A client that joins under an id with another instance id is not the one that had it.
            let is_same = member.instance_id == beat.caller.instance_id;
            return if is_same { Ok(false) } else { Err(GroupError::FencedInstance) };
        }
        if self.members.len() >= self.limits.members_max {
            return Err(GroupError::GroupFull);
        }
        self.check_size(beat, interest)?;
        if let Some(instance_id) = &beat.caller.instance_id {
            self.static_members.insert(instance_id.clone(), member_id.clone());
        }
        self.members.insert(member_id.clone(), Member::new(beat.caller.instance_id.clone()));
        Ok(true)
    }

    /// What all members say of themselves is bounded.
    fn check_size(&self, beat: &Beat, interest: &Option<Interest>) -> Result<(), GroupError> {
        let Some(interest) = interest else { return Ok(()) };
        let others = self.members.iter().filter(|(id, _)| **id != beat.caller.member_id);
        let others: usize = others.map(|(id, member)| id.len() + member.interest.size_bytes()).sum();
        let found = others + beat.caller.member_id.len() + interest.size_bytes();
        let max = self.limits.metadata_bytes_max;
        if found > max { Err(GroupError::TooLarge { found, max }) } else { Ok(()) }
    }

    /// Looks subscriptions up again if the topics are others; true if those that are subscribed to
    /// have changed.
    fn refresh(&mut self, topics: &Topics, wants_others: bool) -> bool {
        let is_current = self.topics_version == Some(topics.version);
        if is_current && !wants_others {
            return false;
        }
        if !is_current {
            self.topics_version = Some(topics.version);
            for member in self.members.values_mut() {
                member.resolve(topics, &self.topics);
            }
        }
        let wanted: BTreeSet<_> = self.members.values().flat_map(|member| &member.wanted).collect();
        let counts = topics.iter().filter(|(_, topic)| wanted.contains(&topic.id));
        let counts: BTreeMap<_, _> = counts.map(|(_, topic)| (topic.id, topic.partition_count)).collect();
        let has_changed = counts != self.topics;
        if has_changed {
            self.topics = counts;
            self.changes.topics = true;
        }
        has_changed
    }

    fn raise_epoch(&mut self) {
        self.epoch = self.epoch.saturating_add(1);
        self.changes.group = true;
    }

    /// Gives every member a new target.
    fn assign(&mut self) {
        self.assignor = self.preferred_assignor();
        let members = self.members.values();
        let subscribers: Vec<_> =
            members.map(|member| Subscriber { topics: &member.wanted, target: &member.target }).collect();
        let targets = self.assignor.assign(&subscribers, &self.topics);
        for ((id, member), target) in self.members.iter_mut().zip(targets) {
            if member.target != target {
                member.target = target;
                self.changes.members.insert(id.clone());
            }
        }
        self.assignment_epoch = self.epoch;
        self.changes.group = true;
    }

    /// The one that most members ask for.
    fn preferred_assignor(&self) -> Assignor {
        let votes = |assignor| self.members.values().filter(|it| it.assignor == Some(assignor)).count();
        if votes(Assignor::Range) > votes(Assignor::Uniform) { Assignor::Range } else { Assignor::Uniform }
    }

    /// Does what is due by now.
    fn expire(&mut self, now: Duration) {
        let over = self.members.iter().filter(|(_, member)| member.deadline() <= now);
        let over: Vec<_> = over.map(|(id, _)| id.clone()).collect();
        over.iter().for_each(|member_id| self.remove(member_id));
    }
}
