//! Byte formats: bytes in, bytes out.
//!
//! `record_batch` is Kafka's batch, `wal_object` the unit of commit, `event` what a commit says
//! about state, `claim` and `cluster` the two small objects beside the log. Each has its byte table
//! in docs/formats.md.
//!
//! Invariants: nothing here is async, reads a clock or the environment, or draws random numbers.
//! Any bytes are decoded or refused with an error: never a panic, never an allocation by a number
//! that the bytes name. What a reader does not know is refused, naming the version needed; nothing
//! is skipped.

pub mod claim;
pub mod cluster;
mod envelope;
pub mod event;
pub mod record_batch;
pub mod wal_object;

pub use claim::{Claim, decode_claim, encode_claim};
pub use cluster::{Cluster, ClusterId, decode_cluster, encode_cluster};
pub use envelope::EnvelopeError;
pub use event::{Event, EventError};
pub use record_batch::{
    BATCH_HEADER_LENGTH, BatchBuilder, BatchError, BatchErrorKind, BatchHeader, BatchKind, BatchOptions,
    BatchSummary, Compression, DecompressionBudget, ProducerIdentity, Record, RecordHeaders, RecordIter,
    Records, TimestampType, inspect, set_base_offset, set_leader_epoch, set_log_append_time,
    set_max_timestamp, split_batches, verify_crc,
};
pub use wal_object::{
    BlockEntry, BlockFlags, CommitObject, EncodedWalObject, Fence, PREFIX_READ_LENGTH, WalHeader, WalKind,
    WalObject, WalObjectBuilder, WalObjectError, decode_wal_object, encode_fence, verify_batches,
    verify_block, writer_nonce_of,
};

/// The version of every format of this project that this build writes, and the newest that it reads.
pub const FORMAT_VERSION: u16 = 1;
