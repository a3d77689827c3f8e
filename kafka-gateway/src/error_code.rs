//! The error codes of the Kafka protocol, and what each error of the log and of the
//! coordinators is on the wire.
//!
//! Invariant: no other file of the project knows a code. Names and numbers follow
//! `org.apache.kafka.common.protocol.Errors`.

use strandline_storage::access::AccessError;
use strandline_storage::format::BatchErrorKind;
use strandline_storage::log::{
    AddPartitionsError, AppendError, CommitOffsetError, CreateTopicError, EndTransactionError, FetchError,
    TopicError, WriteError,
};

use crate::fetch_session::SessionError;
use crate::group::GroupError;
use crate::transaction::TransactionError;

/// One code of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i16)]
pub(crate) enum ErrorCode {
    None = 0,
    OffsetOutOfRange = 1,
    CorruptMessage = 2,
    UnknownTopicOrPartition = 3,
    RequestTimedOut = 7,
    MessageTooLarge = 10,
    OffsetMetadataTooLarge = 12,
    CoordinatorNotAvailable = 15,
    NotCoordinator = 16,
    InvalidTopicException = 17,
    NotEnoughReplicas = 19,
    InvalidRequiredAcks = 21,
    IllegalGeneration = 22,
    InconsistentGroupProtocol = 23,
    InvalidGroupId = 24,
    UnknownMemberId = 25,
    InvalidSessionTimeout = 26,
    RebalanceInProgress = 27,
    InvalidCommitOffsetSize = 28,
    TopicAuthorizationFailed = 29,
    GroupAuthorizationFailed = 30,
    ClusterAuthorizationFailed = 31,
    InvalidTimestamp = 32,
    UnsupportedSaslMechanism = 33,
    IllegalSaslState = 34,
    UnsupportedVersion = 35,
    TopicAlreadyExists = 36,
    InvalidPartitions = 37,
    InvalidReplicationFactor = 38,
    InvalidReplicaAssignment = 39,
    InvalidConfig = 40,
    InvalidRequest = 42,
    PolicyViolation = 44,
    OutOfOrderSequenceNumber = 45,
    InvalidProducerEpoch = 47,
    InvalidTxnState = 48,
    InvalidProducerIdMapping = 49,
    InvalidTransactionTimeout = 50,
    ConcurrentTransactions = 51,
    TransactionCoordinatorFenced = 52,
    TransactionalIdAuthorizationFailed = 53,
    SecurityDisabled = 54,
    OperationNotAttempted = 55,
    KafkaStorageError = 56,
    SaslAuthenticationFailed = 58,
    NonEmptyGroup = 68,
    GroupIdNotFound = 69,
    FetchSessionIdNotFound = 70,
    InvalidFetchSessionEpoch = 71,
    FencedLeaderEpoch = 74,
    UnknownLeaderEpoch = 75,
    UnsupportedCompressionType = 76,
    MemberIdRequired = 79,
    GroupMaxSizeReached = 81,
    FencedInstanceId = 82,
    ElectionNotNeeded = 84,
    NoReassignmentInProgress = 85,
    GroupSubscribedToTopic = 86,
    InvalidRecord = 87,
    UnstableOffsetCommit = 88,
    ProducerFenced = 90,
    ResourceNotFound = 91,
    DuplicateResource = 92,
    UnacceptableCredential = 93,
    UnknownTopicId = 100,
    InconsistentTopicId = 103,
    TransactionalIdNotFound = 105,
    FetchSessionTopicIdError = 106,
    FencedMemberEpoch = 110,
    UnreleasedInstanceId = 111,
    UnsupportedAssignor = 112,
    StaleMemberEpoch = 113,
    MismatchedEndpointType = 114,
    UnsupportedEndpointType = 115,
    TransactionAbortable = 120,
    InvalidRegularExpression = 128,
}

impl ErrorCode {
    /// The number on the wire.
    pub(crate) fn wire(self) -> i16 {
        self as i16
    }

    /// What a client of a version is told that may be too old to know that it can be fenced (KIP-588).
    pub(crate) fn for_version(self, version: i16, producer_fenced_since: i16) -> Self {
        if version < producer_fenced_since { self.without_producer_fenced() } else { self }
    }

    /// The same where PRODUCER_FENCED is not used.
    pub(crate) fn without_producer_fenced(self) -> Self {
        match self {
            Self::ProducerFenced => Self::InvalidProducerEpoch,
            other => other,
        }
    }
}

/// The wire code for "no error".
pub(crate) const NONE: i16 = ErrorCode::None as i16;

impl From<&WriteError> for ErrorCode {
    /// All of these are retriable for a client, which then finds the new owner or a closed port.
    fn from(error: &WriteError) -> Self {
        match error {
            WriteError::ReadOnly
            | WriteError::Closed
            | WriteError::Refused { .. }
            | WriteError::Reopening { .. }
            | WriteError::Failed { .. }
            | WriteError::Fenced { .. } => Self::KafkaStorageError,
        }
    }
}

impl From<&AccessError> for ErrorCode {
    fn from(error: &AccessError) -> Self {
        match error {
            AccessError::TooMany { .. } | AccessError::TooLarge { .. } => Self::PolicyViolation,
            AccessError::NameLength { .. }
            | AccessError::Nul { .. }
            | AccessError::NoEntity
            | AccessError::QuotaValue { .. } => Self::InvalidRequest,
            AccessError::Credential { .. } | AccessError::TwoCredentials { .. } => {
                Self::UnacceptableCredential
            }
        }
    }
}

impl From<&AppendError> for ErrorCode {
    fn from(error: &AppendError) -> Self {
        match error {
            AppendError::UnknownTopicPartition(_) => Self::UnknownTopicOrPartition,
            AppendError::InvalidBatch(batch) => Self::from(batch.kind()),
            AppendError::TooLarge { .. } => Self::MessageTooLarge,
            AppendError::NonZeroBaseOffset { .. }
            | AppendError::ControlBatch
            | AppendError::TransactionWithoutProducer
            | AppendError::NullKey { .. }
            | AppendError::MissingSequence { .. } => Self::InvalidRecord,
            AppendError::ForbiddenTimestampType | AppendError::InvalidTimestamp { .. } => {
                Self::InvalidTimestamp
            }
            AppendError::PartitionNotInTransaction { .. } | AppendError::NonTransactionalBatch { .. } => {
                Self::InvalidTxnState
            }
            AppendError::OutOfOrderSequence { .. } => Self::OutOfOrderSequenceNumber,
            AppendError::StaleProducerEpoch { .. } => Self::InvalidProducerEpoch,
            AppendError::Write(write) => Self::from(write),
        }
    }
}

impl From<BatchErrorKind> for ErrorCode {
    fn from(kind: BatchErrorKind) -> Self {
        match kind {
            BatchErrorKind::Corrupt => Self::CorruptMessage,
            BatchErrorKind::Invalid => Self::InvalidRecord,
            BatchErrorKind::UnsupportedCompression => Self::UnsupportedCompressionType,
            BatchErrorKind::TooLarge => Self::MessageTooLarge,
        }
    }
}

impl From<&CreateTopicError> for ErrorCode {
    fn from(error: &CreateTopicError) -> Self {
        match error {
            CreateTopicError::AlreadyExists { .. } => Self::TopicAlreadyExists,
            CreateTopicError::InvalidName(_) | CreateTopicError::NameCollision { .. } => {
                Self::InvalidTopicException
            }
            CreateTopicError::InvalidPartitions { .. } => Self::InvalidPartitions,
            CreateTopicError::TooMany { .. } => Self::PolicyViolation,
            CreateTopicError::InvalidConfig(_) => Self::InvalidConfig,
            CreateTopicError::Write(write) => Self::from(write),
        }
    }
}

impl From<&TopicError> for ErrorCode {
    fn from(error: &TopicError) -> Self {
        match error {
            TopicError::UnknownTopic => Self::UnknownTopicOrPartition,
            TopicError::InvalidConfig(_) => Self::InvalidConfig,
            TopicError::Write(write) => Self::from(write),
        }
    }
}

impl From<&AddPartitionsError> for ErrorCode {
    fn from(error: &AddPartitionsError) -> Self {
        match error {
            AddPartitionsError::UnknownTopic => Self::UnknownTopicOrPartition,
            AddPartitionsError::NotMore { .. } => Self::InvalidPartitions,
            AddPartitionsError::TooMany { .. } => Self::PolicyViolation,
            AddPartitionsError::Write(write) => Self::from(write),
        }
    }
}

impl From<&CommitOffsetError> for ErrorCode {
    fn from(error: &CommitOffsetError) -> Self {
        match error {
            CommitOffsetError::UnknownTopicPartition(_) => Self::UnknownTopicOrPartition,
        }
    }
}

impl From<&EndTransactionError> for ErrorCode {
    fn from(error: &EndTransactionError) -> Self {
        match error {
            EndTransactionError::UnknownTopicPartition(_) => Self::UnknownTopicOrPartition,
            EndTransactionError::StaleProducerEpoch { .. } => Self::InvalidProducerEpoch,
            EndTransactionError::StaleCoordinatorEpoch { .. } => Self::TransactionCoordinatorFenced,
        }
    }
}

impl From<&TransactionError> for ErrorCode {
    /// What the log did not take is for the client to ask its coordinator again.
    fn from(error: &TransactionError) -> Self {
        match error {
            TransactionError::InvalidProducerIdMapping => Self::InvalidProducerIdMapping,
            TransactionError::ProducerFenced => Self::ProducerFenced,
            TransactionError::ConcurrentTransactions => Self::ConcurrentTransactions,
            TransactionError::InvalidState => Self::InvalidTxnState,
            TransactionError::InvalidTimeout => Self::InvalidTransactionTimeout,
            TransactionError::TooManyPartitions { .. } => Self::PolicyViolation,
            TransactionError::OffsetsTooLarge { .. } => Self::InvalidCommitOffsetSize,
            TransactionError::TooManyIds { .. } | TransactionError::TimedOut | TransactionError::Write(_) => {
                Self::CoordinatorNotAvailable
            }
        }
    }
}

impl From<&FetchError> for ErrorCode {
    fn from(error: &FetchError) -> Self {
        match error {
            FetchError::OutOfRange { .. } | FetchError::Removed { .. } => Self::OffsetOutOfRange,
            FetchError::Damaged { .. } | FetchError::Unavailable { .. } => Self::KafkaStorageError,
        }
    }
}

impl From<SessionError> for ErrorCode {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::UnknownId => Self::FetchSessionIdNotFound,
            SessionError::WrongEpoch => Self::InvalidFetchSessionEpoch,
            SessionError::OtherNaming => Self::FetchSessionTopicIdError,
        }
    }
}

impl From<GroupError> for ErrorCode {
    fn from(error: GroupError) -> Self {
        match error {
            GroupError::UnknownMember => Self::UnknownMemberId,
            GroupError::IllegalGeneration => Self::IllegalGeneration,
            GroupError::RebalanceInProgress => Self::RebalanceInProgress,
            GroupError::InconsistentProtocol => Self::InconsistentGroupProtocol,
            GroupError::MemberIdRequired => Self::MemberIdRequired,
            GroupError::GroupFull => Self::GroupMaxSizeReached,
            GroupError::InvalidSessionTimeout => Self::InvalidSessionTimeout,
            GroupError::InvalidGroupId => Self::InvalidGroupId,
            GroupError::TooManyGroups => Self::CoordinatorNotAvailable,
            GroupError::FencedInstance => Self::FencedInstanceId,
            GroupError::GroupNotFound => Self::GroupIdNotFound,
            GroupError::NonEmpty => Self::NonEmptyGroup,
            GroupError::InvalidRequest(_) | GroupError::TooLarge { .. } => Self::InvalidRequest,
            GroupError::FencedMemberEpoch { .. } => Self::FencedMemberEpoch,
            GroupError::StaleMemberEpoch { .. } => Self::StaleMemberEpoch,
            GroupError::UnreleasedInstance { .. } => Self::UnreleasedInstanceId,
            GroupError::UnsupportedAssignor { .. } => Self::UnsupportedAssignor,
            GroupError::InvalidRegex { .. } => Self::InvalidRegularExpression,
            GroupError::UnsupportedVersion => Self::UnsupportedVersion,
            GroupError::NotCoordinator => Self::NotCoordinator,
        }
    }
}
