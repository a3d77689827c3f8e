//! Byte formats: bytes in, bytes out.
//!
//! `record_batch` is Kafka's batch, `wal_object` the unit of commit, `event` what a commit says
//! about state, `transactional_id` and `access` parts of it, `segment` what compaction makes of many commits, `page` a part of a checkpoint,
//! `claim` and `cluster` the two small objects beside the log. Each has its byte table in
//! docs/formats.md.
//!
//! Invariants: nothing here is async, reads a clock or the environment, or draws random numbers.
//! Any bytes are decoded or refused with an error: never a panic, never an allocation by a number
//! that the bytes name. What a reader does not know is refused, naming the version needed; nothing
//! is skipped.

pub mod access;
pub mod backup;
pub mod claim;
pub mod cluster;
#[cfg(test)]
mod corpus_tests;
mod envelope;
pub mod event;
pub mod page;
pub mod record_batch;
pub mod segment;
pub mod slice;
pub mod transactional_id;
pub mod wal_object;

pub use claim::{Claim, decode_claim, encode_claim};
pub use cluster::{Cluster, ClusterId, decode_cluster, encode_cluster};
pub use envelope::EnvelopeError;
pub use event::{Event, EventError};
pub use record_batch::{
    BATCH_HEADER_LENGTH, BatchBuilder, BatchError, BatchErrorKind, BatchHeader, BatchKind, BatchOptions,
    BatchSummary, Compression, DecompressionBudget, Inspected, ProducerIdentity, Record, RecordFacts,
    RecordHeaders, RecordIter, Records, Retained, TargetCompression, TimestampType, inspect, recompress,
    retain_records, set_base_offset, set_leader_epoch, set_log_append_time, set_max_timestamp, split_batches,
    split_batches_at, verify_crc, without_records,
};
pub use slice::{Slice, SliceData, SliceLocation};
pub use transactional_id::{
    PendingOffset, PendingOffsets, Producer, ReplacedOffset, TransactionState, TransactionalId,
};
pub use wal_object::{
    BlockEntry, BlockFlags, CommitObject, EncodedWalObject, Fence, PREFIX_READ_LENGTH, WalHeader, WalKind,
    WalObject, WalObjectBuilder, WalObjectError, decode_wal_object, encode_fence, verify_batches,
    verify_block, writer_nonce_of,
};

/// The newest version that this build reads and writes. An object says since which version its bytes
/// are as they are, so one that has not changed is still of version 1.
pub const FORMAT_VERSION: u16 = 4;
