//! Between the events about groups and their protobuf messages, which are also what pages of a
//! checkpoint hold of a group.

use bytes::Bytes;
use prost::Message;

use super::group::{
    ClassicGroup, ClassicGroupPut, ClassicMember, ConsumerGroupChanged, ConsumerMember, ConsumerMemberPhase,
    GenerationsReserved, GroupDeleted, MemberPartitions, MemberProtocol, SubscribedTopic,
};
use super::wire::{Wire, id_bytes, id_of};

#[derive(Clone, PartialEq, Message)]
pub struct ClassicGroupPutMessage {
    #[prost(string, tag = "1")]
    group: String,
    #[prost(uint64, tag = "2")]
    revision: u64,
    #[prost(string, tag = "3")]
    protocol_type: String,
    #[prost(string, tag = "4")]
    protocol: String,
    #[prost(string, tag = "5")]
    leader: String,
    #[prost(int32, tag = "6")]
    generation: i32,
    #[prost(int64, optional, tag = "7")]
    empty_since_ms: Option<i64>,
    #[prost(message, repeated, tag = "8")]
    members: Vec<ClassicMemberMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct ClassicMemberMessage {
    #[prost(string, tag = "1")]
    member_id: String,
    #[prost(string, optional, tag = "2")]
    instance_id: Option<String>,
    #[prost(string, tag = "3")]
    client_id: String,
    #[prost(string, tag = "4")]
    client_host: String,
    #[prost(int32, tag = "5")]
    session_timeout_ms: i32,
    #[prost(int32, tag = "6")]
    rebalance_timeout_ms: i32,
    #[prost(message, repeated, tag = "7")]
    protocols: Vec<MemberProtocolMessage>,
    #[prost(bytes = "bytes", tag = "8")]
    assignment: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct MemberProtocolMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bytes = "bytes", tag = "2")]
    metadata: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub struct GenerationsReservedMessage {
    #[prost(string, tag = "1")]
    group: String,
    #[prost(uint64, tag = "2")]
    revision: u64,
    #[prost(int32, tag = "3")]
    last: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct ConsumerGroupChangedMessage {
    #[prost(string, tag = "1")]
    group: String,
    #[prost(uint64, tag = "2")]
    revision: u64,
    #[prost(int32, tag = "3")]
    epoch: i32,
    #[prost(int32, tag = "4")]
    assignment_epoch: i32,
    #[prost(string, tag = "5")]
    assignor: String,
    #[prost(int64, optional, tag = "6")]
    empty_since_ms: Option<i64>,
    #[prost(message, optional, tag = "7")]
    topics: Option<SubscribedTopicsMessage>,
    #[prost(message, repeated, tag = "8")]
    members: Vec<ConsumerMemberMessage>,
    #[prost(string, repeated, tag = "9")]
    removed_members: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct SubscribedTopicsMessage {
    #[prost(message, repeated, tag = "1")]
    topics: Vec<SubscribedTopicMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct SubscribedTopicMessage {
    #[prost(bytes = "vec", tag = "1")]
    topic_id: Vec<u8>,
    #[prost(int32, tag = "2")]
    partition_count: i32,
}

#[derive(Clone, PartialEq, Message)]
struct ConsumerMemberMessage {
    #[prost(string, tag = "1")]
    member_id: String,
    #[prost(string, optional, tag = "2")]
    instance_id: Option<String>,
    #[prost(string, optional, tag = "3")]
    rack_id: Option<String>,
    #[prost(string, tag = "4")]
    client_id: String,
    #[prost(string, tag = "5")]
    client_host: String,
    #[prost(int32, tag = "6")]
    rebalance_timeout_ms: i32,
    #[prost(string, repeated, tag = "7")]
    subscribed_topics: Vec<String>,
    #[prost(string, optional, tag = "8")]
    subscribed_regex: Option<String>,
    #[prost(string, optional, tag = "9")]
    assignor: Option<String>,
    #[prost(sint32, tag = "10")]
    epoch: i32,
    #[prost(sint32, tag = "11")]
    previous_epoch: i32,
    /// 0 stable, 1 revoking, 2 waiting.
    #[prost(uint32, tag = "12")]
    phase: u32,
    #[prost(message, repeated, tag = "13")]
    assigned: Vec<MemberPartitionsMessage>,
    #[prost(message, repeated, tag = "14")]
    revoking: Vec<MemberPartitionsMessage>,
    #[prost(message, repeated, tag = "15")]
    target: Vec<MemberPartitionsMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct MemberPartitionsMessage {
    #[prost(bytes = "vec", tag = "1")]
    topic_id: Vec<u8>,
    #[prost(int32, repeated, tag = "2")]
    partitions: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct GroupDeletedMessage {
    #[prost(string, tag = "1")]
    group: String,
}

/// The message of an event, for a page.
pub(in crate::format) fn classic_group_message(event: &ClassicGroupPut) -> ClassicGroupPutMessage {
    event.to_message()
}

/// # Errors
/// A message that is no such event.
pub(in crate::format) fn classic_group_of(
    message: ClassicGroupPutMessage,
) -> Result<ClassicGroupPut, String> {
    ClassicGroupPut::from_message(message)
}

/// The message of an event, for a page.
pub(in crate::format) fn consumer_group_message(event: &ConsumerGroupChanged) -> ConsumerGroupChangedMessage {
    event.to_message()
}

/// # Errors
/// A message that is no such event.
pub(in crate::format) fn consumer_group_of(
    message: ConsumerGroupChangedMessage,
) -> Result<ConsumerGroupChanged, String> {
    ConsumerGroupChanged::from_message(message)
}

impl Wire for ClassicGroupPut {
    type Message = ClassicGroupPutMessage;

    fn to_message(&self) -> Self::Message {
        let state = &self.state;
        ClassicGroupPutMessage {
            group: self.group.clone(),
            revision: self.revision,
            protocol_type: state.protocol_type.clone(),
            protocol: state.protocol.clone(),
            leader: state.leader.clone(),
            generation: state.generation,
            empty_since_ms: state.empty_since_ms,
            members: state.members.iter().map(classic_member_message).collect(),
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, String> {
        let state = ClassicGroup {
            protocol_type: message.protocol_type,
            protocol: message.protocol,
            leader: message.leader,
            generation: message.generation,
            empty_since_ms: message.empty_since_ms,
            members: message.members.into_iter().map(classic_member_of).collect(),
        };
        Ok(Self { group: message.group, revision: message.revision, state })
    }
}

fn classic_member_message(member: &ClassicMember) -> ClassicMemberMessage {
    let protocols = member.protocols.iter();
    ClassicMemberMessage {
        member_id: member.member_id.clone(),
        instance_id: member.instance_id.clone(),
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        session_timeout_ms: member.session_timeout_ms,
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        protocols: protocols
            .map(|one| MemberProtocolMessage { name: one.name.clone(), metadata: one.metadata.clone() })
            .collect(),
        assignment: member.assignment.clone(),
    }
}

fn classic_member_of(message: ClassicMemberMessage) -> ClassicMember {
    let protocols = message.protocols.into_iter();
    ClassicMember {
        member_id: message.member_id,
        instance_id: message.instance_id,
        client_id: message.client_id,
        client_host: message.client_host,
        session_timeout_ms: message.session_timeout_ms,
        rebalance_timeout_ms: message.rebalance_timeout_ms,
        protocols: protocols.map(|one| MemberProtocol { name: one.name, metadata: one.metadata }).collect(),
        assignment: message.assignment,
    }
}

impl Wire for GenerationsReserved {
    type Message = GenerationsReservedMessage;

    fn to_message(&self) -> Self::Message {
        GenerationsReservedMessage { group: self.group.clone(), revision: self.revision, last: self.last }
    }

    fn from_message(message: Self::Message) -> Result<Self, String> {
        Ok(Self { group: message.group, revision: message.revision, last: message.last })
    }
}

impl Wire for ConsumerGroupChanged {
    type Message = ConsumerGroupChangedMessage;

    fn to_message(&self) -> Self::Message {
        let topics_message = |topics: &Vec<SubscribedTopic>| SubscribedTopicsMessage {
            topics: topics.iter().map(subscribed_topic_message).collect(),
        };
        ConsumerGroupChangedMessage {
            group: self.group.clone(),
            revision: self.revision,
            epoch: self.epoch,
            assignment_epoch: self.assignment_epoch,
            assignor: self.assignor.clone(),
            empty_since_ms: self.empty_since_ms,
            topics: self.topics.as_ref().map(topics_message),
            members: self.members.iter().map(consumer_member_message).collect(),
            removed_members: self.removed_members.clone(),
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, String> {
        let topics_of = |topics: SubscribedTopicsMessage| {
            topics.topics.into_iter().map(subscribed_topic_of).collect::<Result<_, _>>()
        };
        Ok(Self {
            group: message.group,
            revision: message.revision,
            epoch: message.epoch,
            assignment_epoch: message.assignment_epoch,
            assignor: message.assignor,
            empty_since_ms: message.empty_since_ms,
            topics: message.topics.map(topics_of).transpose()?,
            members: message.members.into_iter().map(consumer_member_of).collect::<Result<_, _>>()?,
            removed_members: message.removed_members,
        })
    }
}

fn subscribed_topic_message(topic: &SubscribedTopic) -> SubscribedTopicMessage {
    SubscribedTopicMessage { topic_id: id_bytes(&topic.topic_id), partition_count: topic.partition_count }
}

fn subscribed_topic_of(message: SubscribedTopicMessage) -> Result<SubscribedTopic, String> {
    Ok(SubscribedTopic { topic_id: id_of(&message.topic_id)?, partition_count: message.partition_count })
}

fn consumer_member_message(member: &ConsumerMember) -> ConsumerMemberMessage {
    ConsumerMemberMessage {
        member_id: member.member_id.clone(),
        instance_id: member.instance_id.clone(),
        rack_id: member.rack_id.clone(),
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        subscribed_topics: member.subscribed_topics.clone(),
        subscribed_regex: member.subscribed_regex.clone(),
        assignor: member.assignor.clone(),
        epoch: member.epoch,
        previous_epoch: member.previous_epoch,
        phase: match member.phase {
            ConsumerMemberPhase::Stable => 0,
            ConsumerMemberPhase::Revoking => 1,
            ConsumerMemberPhase::Waiting => 2,
        },
        assigned: partitions_messages(&member.assigned),
        revoking: partitions_messages(&member.revoking),
        target: partitions_messages(&member.target),
    }
}

fn consumer_member_of(message: ConsumerMemberMessage) -> Result<ConsumerMember, String> {
    Ok(ConsumerMember {
        member_id: message.member_id,
        instance_id: message.instance_id,
        rack_id: message.rack_id,
        client_id: message.client_id,
        client_host: message.client_host,
        rebalance_timeout_ms: message.rebalance_timeout_ms,
        subscribed_topics: message.subscribed_topics,
        subscribed_regex: message.subscribed_regex,
        assignor: message.assignor,
        epoch: message.epoch,
        previous_epoch: message.previous_epoch,
        phase: match message.phase {
            0 => ConsumerMemberPhase::Stable,
            1 => ConsumerMemberPhase::Revoking,
            2 => ConsumerMemberPhase::Waiting,
            other => return Err(format!("member phase {other} is not known")),
        },
        assigned: partitions_of(message.assigned)?,
        revoking: partitions_of(message.revoking)?,
        target: partitions_of(message.target)?,
    })
}

fn partitions_messages(partitions: &[MemberPartitions]) -> Vec<MemberPartitionsMessage> {
    let message = |one: &MemberPartitions| MemberPartitionsMessage {
        topic_id: id_bytes(&one.topic_id),
        partitions: one.partitions.clone(),
    };
    partitions.iter().map(message).collect()
}

fn partitions_of(messages: Vec<MemberPartitionsMessage>) -> Result<Vec<MemberPartitions>, String> {
    let of = |one: MemberPartitionsMessage| {
        Ok(MemberPartitions { topic_id: id_of(&one.topic_id)?, partitions: one.partitions })
    };
    messages.into_iter().map(of).collect()
}

impl Wire for GroupDeleted {
    type Message = GroupDeletedMessage;

    fn to_message(&self) -> Self::Message {
        GroupDeletedMessage { group: self.group.clone() }
    }

    fn from_message(message: Self::Message) -> Result<Self, String> {
        Ok(Self { group: message.group })
    }
}
