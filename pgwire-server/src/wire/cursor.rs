//! A reader over the body of one message in which every length is checked before it is used.
//!
//! Pure. Invariant: no call panics or allocates more than the bytes that are there, whatever they say.

use bytes::Bytes;

/// Why the body of a message is not what its type promises.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum MessageError {
    #[error("insufficient data left in message: {wanted} bytes wanted, {left} left")]
    Short { wanted: usize, left: usize },
    #[error("invalid string in message: no terminating zero")]
    Unterminated,
    #[error("invalid byte sequence for encoding \"UTF8\" at byte {position} of a string")]
    InvalidUtf8 { position: usize },
    #[error("invalid message format: {left} bytes left over")]
    Trailing { left: usize },
    #[error("invalid message length {length}")]
    NegativeLength { length: i32 },
    #[error("unsupported format code: {code}")]
    FormatCode { code: i16 },
    #[error("invalid target type of Describe or Close: {found}")]
    Target { found: u8 },
    #[error("unsupported message type {tag}")]
    UnknownType { tag: u8 },
}

impl MessageError {
    /// Whether the frame contradicts itself, so that nothing after it can be trusted.
    pub(crate) fn is_framing(&self) -> bool {
        !matches!(self, Self::InvalidUtf8 { .. } | Self::FormatCode { .. })
    }
}

/// The unread rest of a body.
#[derive(Debug)]
pub(crate) struct Cursor(Bytes);

impl Cursor {
    pub(crate) fn new(body: Bytes) -> Self {
        Self(body)
    }

    pub(crate) fn take(&mut self, wanted: usize) -> Result<Bytes, MessageError> {
        if self.0.len() < wanted {
            return Err(MessageError::Short { wanted, left: self.0.len() });
        }
        Ok(self.0.split_to(wanted))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], MessageError> {
        let bytes = self.take(N)?;
        Ok(<[u8; N]>::try_from(&bytes[..]).expect("take gives what was asked for"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, MessageError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, MessageError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(crate) fn i16(&mut self) -> Result<i16, MessageError> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    pub(crate) fn i32(&mut self) -> Result<i32, MessageError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, MessageError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// A count of items of at least `item_bytes` each, which must still be there.
    pub(crate) fn count(&mut self, item_bytes: usize) -> Result<usize, MessageError> {
        let count = usize::from(self.u16()?);
        let wanted = count * item_bytes;
        if self.0.len() < wanted {
            return Err(MessageError::Short { wanted, left: self.0.len() });
        }
        Ok(count)
    }

    /// A length-prefixed value; -1 is NULL.
    pub(crate) fn value(&mut self) -> Result<Option<Bytes>, MessageError> {
        match self.i32()? {
            -1 => Ok(None),
            length => match usize::try_from(length) {
                Ok(wanted) => self.take(wanted).map(Some),
                Err(_) => Err(MessageError::NegativeLength { length }),
            },
        }
    }

    /// A zero-terminated string.
    pub(crate) fn string(&mut self) -> Result<String, MessageError> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(MessageError::Unterminated)?;
        let bytes = self.0.split_to(end);
        let _terminator = self.0.split_to(1);
        match std::str::from_utf8(&bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => Err(MessageError::InvalidUtf8 { position: error.valid_up_to() }),
        }
    }

    /// All that was not read yet.
    pub(crate) fn rest(self) -> Bytes {
        self.0
    }

    /// Nothing may follow what was read.
    pub(crate) fn finish(self) -> Result<(), MessageError> {
        match self.0.len() {
            0 => Ok(()),
            left => Err(MessageError::Trailing { left }),
        }
    }
}
