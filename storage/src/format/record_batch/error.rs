//! What can be wrong with a record batch, and which of it a caller can act on.
//!
//! Invariant: no variant names a wire error code; the gateway maps [`BatchErrorKind`].

use super::compression::Compression;

/// Why a record batch was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    #[error("record batch needs {needed} bytes, {available} are there")]
    Truncated { needed: usize, available: usize },
    #[error("{trailing} bytes follow the one record batch that was expected")]
    TooManyBatches { trailing: usize },
    #[error("record batch has magic {0}, only magic 2 is supported")]
    UnsupportedMagic(i8),
    #[error("record batch length {length} is below the smallest one, {min}")]
    LengthTooSmall { length: i32, min: i32 },
    #[error("record batch {field} is {value}, which is out of range")]
    FieldOutOfRange { field: &'static str, value: i64 },
    #[error("record batch names crc {stored:#010x}, its bytes have {computed:#010x}")]
    CrcMismatch { stored: u32, computed: u32 },
    #[error("compression codec {0} is not known (0 to 4 are)")]
    UnsupportedCompression(u8),
    #[error("{compression} data does not decompress: {reason}")]
    Decompression { compression: Compression, reason: String },
    #[error("records take more than the {limit} decompressed bytes that are allowed")]
    BudgetExceeded { limit: usize },
    #[error("record count {record_count} does not go with last offset delta {last_offset_delta}")]
    CountMismatch { record_count: i32, last_offset_delta: i32 },
    #[error("record batch names {stated} records, its body ends after {found}")]
    TooFewRecords { stated: i32, found: i32 },
    #[error("record batch names {stated} records, {trailing} bytes follow them")]
    TrailingBytes { stated: i32, trailing: usize },
    #[error("record {index} has offset delta {offset_delta}")]
    OffsetDelta { index: i32, offset_delta: i32 },
    #[error("record {index}: {what}")]
    Malformed { index: i32, what: &'static str },
    #[error("a record batch holds at most {max} bytes of records")]
    BuilderFull { max: usize },
}

/// What a caller can do about a [`BatchError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchErrorKind {
    /// The bytes are not what their writer made: sending them again may help.
    Corrupt,
    /// The bytes are what their writer made, and break a rule.
    Invalid,
    UnsupportedCompression,
    /// The records need more memory than is allowed.
    TooLarge,
}

impl BatchError {
    pub fn kind(&self) -> BatchErrorKind {
        match self {
            Self::CrcMismatch { .. } | Self::Decompression { .. } | Self::LengthTooSmall { .. } => {
                BatchErrorKind::Corrupt
            }
            // No writer makes one, while 0 and 1 are what old writers made.
            Self::UnsupportedMagic(magic) if !(0..=2).contains(magic) => BatchErrorKind::Corrupt,
            Self::UnsupportedCompression(_) => BatchErrorKind::UnsupportedCompression,
            Self::BudgetExceeded { .. } | Self::BuilderFull { .. } => BatchErrorKind::TooLarge,
            Self::Truncated { .. }
            | Self::TooManyBatches { .. }
            | Self::UnsupportedMagic(_)
            | Self::FieldOutOfRange { .. }
            | Self::CountMismatch { .. }
            | Self::TooFewRecords { .. }
            | Self::TrailingBytes { .. }
            | Self::OffsetDelta { .. }
            | Self::Malformed { .. } => BatchErrorKind::Invalid,
        }
    }
}
