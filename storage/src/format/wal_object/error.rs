//! What can be wrong with a WAL object.

use crate::format::FORMAT_VERSION;
use crate::format::event::EventError;

/// Why the bytes of a WAL object were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WalObjectError {
    /// Not an error of the object: the front that was given is too short to decode it.
    #[error("the first {length} bytes of the object are needed")]
    NeedMore { length: u64 },
    #[error("object of {object_length} bytes ends inside its {part}, which needs {needed}")]
    Truncated { part: &'static str, needed: u64, object_length: u64 },
    #[error("the bytes do not begin as a WAL object does")]
    BadMagic,
    #[error("format version {found} needs a newer strandline: this one reads versions up to {supported}")]
    UnsupportedVersion { found: u16, supported: u16 },
    #[error("kind {0} of WAL object is not known to format version {FORMAT_VERSION}")]
    UnknownKind(u16),
    #[error("crc of the {part} is {stored:#010x}, its bytes have {computed:#010x}")]
    CrcMismatch { part: &'static str, stored: u32, computed: u32 },
    #[error("index entry length {found} is below {min}")]
    EntryLength { found: u32, min: u32 },
    #[error("index of {index_length} bytes is no multiple of its entry length {entry_length}")]
    IndexLength { index_length: u32, entry_length: u32 },
    #[error("index entry {index}: {what}")]
    BadEntry { index: usize, what: &'static str },
    #[error("index entry {index} has flags {flags:#x} that must be understood, and are not")]
    UnknownFlags { index: usize, flags: u32 },
    #[error("blocks end at byte {blocks_end}, the object at {object_length}")]
    LengthMismatch { blocks_end: u64, object_length: u64 },
    #[error("block has {found} bytes, its index entry says {expected}")]
    BlockLength { found: usize, expected: u64 },
    #[error("event {index}: {source}")]
    Event { index: usize, source: EventError },
}
