//! The frame of small objects that hold one protobuf message: magic, version, length, message, CRC.
//!
//! Invariant: the message is decoded only when magic, version, length and CRC fit.

use bytes::Bytes;
use prost::Message;

use super::FORMAT_VERSION;

/// Bytes before the message: magic, version, length.
const FRONT_LENGTH: usize = 14;
const CRC_LENGTH: usize = 4;

/// Why the bytes of a small object were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    #[error("the bytes do not begin as a {what} object does")]
    BadMagic { what: &'static str },
    #[error(
        "{what} object of format version {found} needs a newer strandline: this one reads versions up to {supported}"
    )]
    UnsupportedVersion { what: &'static str, found: u32, supported: u16 },
    #[error("{what} object has {found} bytes, its length says {expected}")]
    Length { what: &'static str, found: usize, expected: u64 },
    #[error("crc of the {what} object is {stored:#010x}, its bytes have {computed:#010x}")]
    CrcMismatch { what: &'static str, stored: u32, computed: u32 },
    #[error("{what} object: {reason}")]
    Malformed { what: &'static str, reason: String },
}

/// A kind of small object.
pub(super) struct Envelope {
    /// Its name in errors.
    pub(super) what: &'static str,
    pub(super) magic: [u8; 8],
    /// The format version since which its bytes are as they are now.
    pub(super) version: u16,
}

impl Envelope {
    pub(super) fn encode(&self, message: &impl Message) -> Bytes {
        let payload = message.encode_to_vec();
        let length = u32::try_from(payload.len()).expect("the message is small");
        let mut out = Vec::with_capacity(FRONT_LENGTH + payload.len() + CRC_LENGTH);
        out.extend_from_slice(&self.magic);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&payload);
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out.into()
    }

    pub(super) fn decode<M: Message + Default>(&self, bytes: &[u8]) -> Result<M, EnvelopeError> {
        let what = self.what;
        if !bytes.starts_with(&self.magic) {
            return Err(EnvelopeError::BadMagic { what });
        }
        let short = |expected| EnvelopeError::Length { what, found: bytes.len(), expected };
        let (front, _) =
            bytes.split_first_chunk::<FRONT_LENGTH>().ok_or(short((FRONT_LENGTH + CRC_LENGTH) as u64))?;
        self.check_version(u16::from_le_bytes([front[8], front[9]]))?;
        let length = u32::from_le_bytes([front[10], front[11], front[12], front[13]]);
        let expected = (FRONT_LENGTH + CRC_LENGTH) as u64 + u64::from(length);
        if bytes.len() as u64 != expected {
            return Err(short(expected));
        }
        let (covered, stored) = bytes.split_last_chunk::<CRC_LENGTH>().ok_or(short(expected))?;
        let (stored, computed) = (u32::from_le_bytes(*stored), crc32c::crc32c(covered));
        if stored != computed {
            return Err(EnvelopeError::CrcMismatch { what, stored, computed });
        }
        M::decode(&covered[FRONT_LENGTH..]).map_err(|error| self.malformed(error.to_string()))
    }

    /// # Errors
    /// A version that this build does not read.
    pub(super) fn check_version(&self, found: impl Into<u32>) -> Result<(), EnvelopeError> {
        let found = found.into();
        if found == 0 || found > u32::from(FORMAT_VERSION) {
            let what = self.what;
            return Err(EnvelopeError::UnsupportedVersion { what, found, supported: FORMAT_VERSION });
        }
        Ok(())
    }

    pub(super) fn malformed(&self, reason: String) -> EnvelopeError {
        EnvelopeError::Malformed { what: self.what, reason }
    }
}
