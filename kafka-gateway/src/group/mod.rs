//! Groups of clients that share work: who is a member, in which generation or epoch, with which
//! assignment.
//!
//! `classic` and `consumer` are the two protocols as pure state machines: times and topics come in
//! with each input; answers, and changes to be made durable, come out. `coordinator` is the shell
//! around them.
//!
//! The rules are those of Apache Kafka's `GroupMetadataManager`, `ClassicGroup` and `ConsumerGroup`.
//!
//! Invariant: what a member is told about generations, epochs and assignments is durable before it
//! is told, so that a restart takes nothing back, and no generation or epoch is given out twice.

pub(crate) mod classic;
pub(crate) mod consumer;
pub(crate) mod coordinator;
pub(crate) mod subscription;
pub(crate) mod topics;

use std::time::Duration;

use strandline_storage::log::GroupChange;
use thiserror::Error;

use self::classic::Joined;
use self::consumer::Beaten;

/// Names a request that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Waiter(pub(crate) u64);

/// Why a request of a member was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
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
    #[error("another member has taken over the instance id")]
    FencedInstance,
    #[error("group is full")]
    GroupFull,
    #[error("session timeout is out of bounds")]
    InvalidSessionTimeout,
    #[error("group id is empty")]
    InvalidGroupId,
    #[error("there are too many groups")]
    TooManyGroups,
    #[error("group does not exist, or speaks another protocol")]
    GroupNotFound,
    #[error("group has members")]
    NonEmpty,
    #[error("{0}")]
    InvalidRequest(&'static str),
    #[error("a group may have {max} bytes of metadata and assignments, not {found}")]
    TooLarge { found: usize, max: usize },
    #[error("member epoch {found} is not {current}: the member must give up its partitions and join again")]
    FencedMemberEpoch { found: i32, current: i32 },
    #[error("member epoch {found} is not the current one, {current}")]
    StaleMemberEpoch { found: i32, current: i32 },
    #[error("instance id is still used by member {by}")]
    UnreleasedInstance { by: String },
    #[error("assignor {name} is not supported, only uniform and range")]
    UnsupportedAssignor { name: String },
    #[error("regular expression is not valid: {reason}")]
    InvalidRegex { reason: String },
    #[error("members of this group commit with version 9 or later")]
    UnsupportedVersion,
    /// What is known here may have been overtaken, or could not be made durable.
    #[error("the group is loaded again")]
    NotCoordinator,
}

/// Bounds and delays of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupLimits {
    pub(crate) initial_rebalance_delay: Duration,
    pub(crate) session_timeout_min: Duration,
    pub(crate) session_timeout_max: Duration,
    pub(crate) members_max: usize,
    /// Metadata and assignments of all members together.
    pub(crate) metadata_bytes_max: usize,
    /// Of the consumer protocol, whose members do not ask for one.
    pub(crate) consumer_session_timeout: Duration,
    pub(crate) consumer_heartbeat_interval: Duration,
}

/// Who a request says that it is from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) member_id: String,
    /// Of a static member (KIP-345).
    pub(crate) instance_id: Option<String>,
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
    Synced(classic::Synced),
    /// For each of those who were to leave.
    Left(Vec<Result<(), GroupError>>),
    Beaten(Beaten),
    Deleted,
    Done,
    Failed(GroupError),
}

/// What a step of a group brings about, in this order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Effect {
    /// To be made durable. Answers that come after it wait until it is.
    Persist(GroupChange),
    Answer(Waiter, Reply),
}
