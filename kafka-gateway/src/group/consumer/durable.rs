//! What of a consumer group is in the log, and what is told of it to administrators. Pure.

use std::sync::Arc;
use std::time::Duration;

use strandline_storage::format::event::{
    ConsumerGroupChanged, ConsumerMember, ConsumerMemberPhase, SubscribedTopic,
};
use strandline_storage::log::{self, GroupChange};

use super::interest::Interest;
use super::member::Member;
use super::{Assignor, Changes, ConsumerGroup, Effect, GroupLimits, Partitions};

/// A group as an administrator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConsumerDescription {
    /// By the words of Kafka's `ConsumerGroupState`.
    pub(crate) state: &'static str,
    pub(crate) epoch: i32,
    pub(crate) assignment_epoch: i32,
    pub(crate) assignor: &'static str,
    pub(crate) members: Vec<DescribedConsumer>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DescribedConsumer {
    pub(crate) member_id: String,
    pub(crate) instance_id: Option<String>,
    pub(crate) rack_id: Option<String>,
    pub(crate) epoch: i32,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) subscribed_topics: Vec<String>,
    pub(crate) subscribed_regex: Option<String>,
    pub(crate) assigned: Partitions,
    pub(crate) target: Partitions,
}

impl ConsumerGroup {
    /// The group as the log has it. Sessions begin anew. Its epochs are above the generations that it
    /// may have told while it spoke the classic protocol.
    pub(crate) fn restore(
        now: Duration,
        limits: GroupLimits,
        state: &log::ConsumerGroup,
        generations_reserved: i32,
    ) -> Self {
        let mut group = Self::new(limits, state.epoch.max(generations_reserved));
        group.assignment_epoch = state.assignment_epoch;
        group.assignor = Assignor::named(&state.assignor).unwrap_or(Assignor::Uniform);
        group.topics = state.topics.iter().map(|topic| (topic.topic_id, topic.partition_count)).collect();
        for (id, durable) in &state.members {
            let mut member = restored(durable);
            if member.phase == ConsumerMemberPhase::Revoking {
                member.rebalance_deadline = Some(now.saturating_add(member.rebalance_timeout));
            }
            member.session_deadline = now.saturating_add(limits.consumer_session_timeout);
            if let Some(instance_id) = &member.instance_id {
                group.static_members.insert(instance_id.clone(), id.clone());
            }
            group.members.insert(id.clone(), member);
            group.claim(id);
        }
        group
    }

    /// What has to be written to the log.
    pub(super) fn take_changes(&mut self) -> Vec<Effect> {
        let Changes { group, topics, members, removed } = std::mem::take(&mut self.changes);
        if !group && !topics && members.is_empty() && removed.is_empty() {
            return Vec::new();
        }
        let subscribed = || {
            self.topics.iter().map(|(id, count)| SubscribedTopic { topic_id: *id, partition_count: *count })
        };
        let durable = |id: &String| self.members.get(id).map(|member| member.durable(id));
        let change = ConsumerGroupChanged {
            epoch: self.epoch,
            assignment_epoch: self.assignment_epoch,
            assignor: self.assignor.name().to_owned(),
            topics: topics.then(|| subscribed().collect()),
            members: members.iter().filter_map(durable).collect(),
            removed_members: removed.into_iter().collect(),
            ..ConsumerGroupChanged::default()
        };
        vec![Effect::Persist(GroupChange::Consumer(change))]
    }

    pub(crate) fn describe(&self) -> ConsumerDescription {
        let members = self.members.iter().map(|(id, member)| DescribedConsumer {
            member_id: id.clone(),
            instance_id: member.instance_id.clone(),
            rack_id: member.rack_id.clone(),
            epoch: member.epoch,
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            subscribed_topics: member.interest.names().cloned().collect(),
            subscribed_regex: member.interest.regex_text().map(str::to_owned),
            assigned: member.assigned.clone(),
            target: member.target.clone(),
        });
        ConsumerDescription {
            state: self.state_name(),
            epoch: self.epoch,
            assignment_epoch: self.assignment_epoch,
            assignor: self.assignor.name(),
            members: members.collect(),
        }
    }

    /// By the words of Kafka's `ConsumerGroupState`.
    pub(crate) fn state_name(&self) -> &'static str {
        if self.members.is_empty() {
            "Empty"
        } else if self.epoch > self.assignment_epoch {
            "Assigning"
        } else if self.members.values().all(|member| member.is_reconciled(self.assignment_epoch)) {
            "Stable"
        } else {
            "Reconciling"
        }
    }
}

impl Member {
    pub(super) fn durable(&self, member_id: &str) -> ConsumerMember {
        ConsumerMember {
            member_id: member_id.to_owned(),
            instance_id: self.instance_id.clone(),
            rack_id: self.rack_id.clone(),
            client_id: self.client_id.clone(),
            client_host: self.client_host.clone(),
            rebalance_timeout_ms: i32::try_from(self.rebalance_timeout.as_millis()).unwrap_or(i32::MAX),
            subscribed_topics: self.interest.names().cloned().collect(),
            subscribed_regex: self.interest.regex_text().map(str::to_owned),
            assignor: self.assignor.map(|assignor| assignor.name().to_owned()),
            epoch: self.epoch,
            previous_epoch: self.previous_epoch,
            phase: self.phase,
            assigned: self.assigned.durable(),
            revoking: self.revoking.durable(),
            target: self.target.durable(),
        }
    }
}

fn restored(durable: &Arc<ConsumerMember>) -> Member {
    let rebalance_timeout_ms = u64::try_from(durable.rebalance_timeout_ms).unwrap_or(0);
    Member {
        rack_id: durable.rack_id.clone(),
        client_id: durable.client_id.clone(),
        client_host: durable.client_host.clone(),
        rebalance_timeout: Duration::from_millis(rebalance_timeout_ms),
        interest: Interest::restore(&durable.subscribed_topics, durable.subscribed_regex.as_deref()),
        assignor: durable.assignor.as_deref().and_then(Assignor::named),
        epoch: durable.epoch,
        previous_epoch: durable.previous_epoch,
        phase: durable.phase,
        assigned: Partitions::restore(&durable.assigned),
        revoking: Partitions::restore(&durable.revoking),
        target: Partitions::restore(&durable.target),
        ..Member::new(durable.instance_id.clone())
    }
}
