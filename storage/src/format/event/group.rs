//! Events about groups: their members, generations and assignments. Committed offsets have events
//! of their own.
//!
//! Invariant: the revision of a group goes up by one with each of its events, so that two
//! coordinators of one group cannot both write.

use bytes::Bytes;

use crate::ids::TopicId;

/// A group of the classic protocol as it is now, put whole: after a rebalance, or when the last
/// member has gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassicGroupPut {
    pub group: String,
    pub revision: u64,
    pub state: ClassicGroup,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassicGroup {
    /// What the members are to each other, such as "consumer" or "connect".
    pub protocol_type: String,
    /// The protocol that the members agreed on; empty in a group without members.
    pub protocol: String,
    /// The member that assigns.
    pub leader: String,
    pub generation: i32,
    /// Since when it has no members; `None` while it has some.
    pub empty_since_ms: Option<i64>,
    pub members: Vec<ClassicMember>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassicMember {
    pub member_id: String,
    /// Of a static member, which is the same one when it comes back under another member id.
    pub instance_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub session_timeout_ms: i32,
    pub rebalance_timeout_ms: i32,
    /// In the order of preference.
    pub protocols: Vec<MemberProtocol>,
    /// Opaque.
    pub assignment: Bytes,
}

/// A protocol that a member speaks, with what it says of itself in it. Opaque.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberProtocol {
    pub name: String,
    pub metadata: Bytes,
}

/// Generations up to one may have been told to members, although no rebalance with them completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationsReserved {
    pub group: String,
    pub revision: u64,
    /// Inclusive.
    pub last: i32,
}

/// What changed in a group of the consumer protocol (KIP-848).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerGroupChanged {
    pub group: String,
    pub revision: u64,
    pub epoch: i32,
    /// The epoch that the targets of the members belong to.
    pub assignment_epoch: i32,
    pub assignor: String,
    pub empty_since_ms: Option<i64>,
    /// The topics that the members subscribe to; `None` if those are the same as before.
    pub topics: Option<Vec<SubscribedTopic>>,
    /// Members that are new or changed, whole.
    pub members: Vec<ConsumerMember>,
    pub removed_members: Vec<String>,
}

/// A topic as it was when partitions were assigned last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscribedTopic {
    pub topic_id: TopicId,
    pub partition_count: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerMember {
    pub member_id: String,
    pub instance_id: Option<String>,
    pub rack_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub rebalance_timeout_ms: i32,
    pub subscribed_topics: Vec<String>,
    pub subscribed_regex: Option<String>,
    /// The assignor that it prefers.
    pub assignor: Option<String>,
    /// -2 for a static member that has left for a while.
    pub epoch: i32,
    pub previous_epoch: i32,
    pub phase: ConsumerMemberPhase,
    pub assigned: Vec<MemberPartitions>,
    /// What it has to give back before it gets anything new.
    pub revoking: Vec<MemberPartitions>,
    /// What it is to have in the end.
    pub target: Vec<MemberPartitions>,
}

/// How far a member is on the way to its target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConsumerMemberPhase {
    #[default]
    Stable,
    /// It has partitions that it must give back.
    Revoking,
    /// It waits for partitions that others have not given back.
    Waiting,
}

/// Partitions of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberPartitions {
    pub topic_id: TopicId,
    pub partitions: Vec<i32>,
}

/// A group is gone, with its committed offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDeleted {
    pub group: String,
}
