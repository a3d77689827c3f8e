//! Frames off a socket: a type byte, a length, a body.
//!
//! Invariants: a length is held against the bound of its message type before anything is read for
//! it; memory grows with bytes that arrived, never with a length that was announced; every await
//! here can be dropped and begun again without losing a byte.

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// One message as it came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) tag: u8,
    pub(crate) body: Bytes,
}

/// Why no further frame can be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("connection failed: {0}")]
    Io(#[from] std::io::Error),
    #[error("unexpected end of the connection within a message")]
    Truncated,
    #[error("invalid frontend message type {tag}")]
    UnknownType { tag: u8 },
    #[error("invalid message length {length}: the bounds for this message are {min} and {max}")]
    Length { length: i32, min: usize, max: usize },
}

/// The length field counts itself.
const LENGTH_BYTES: usize = 4;
/// The bound on messages that carry no text or values of a user (PostgreSQL, PQ_SMALL_MESSAGE_LIMIT).
pub(crate) const SMALL_MESSAGE_BYTES_MAX: usize = 10_000;
/// Read from the socket at once.
const READ_BYTES: usize = 16 * 1024;
/// How far [`FrameReader::closed`] reads ahead of the session.
const READ_AHEAD_BYTES_MAX: usize = 256 * 1024;
/// How much [`FrameReader::discard`] takes from a client that goes on sending.
const DISCARD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Reads frames, and keeps the bytes that came before they were asked for.
#[derive(Debug)]
pub(crate) struct FrameReader<R> {
    io: R,
    buffer: BytesMut,
    message_bytes_max: usize,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(crate) fn new(io: R, message_bytes_max: usize) -> Self {
        Self { io, buffer: BytesMut::new(), message_bytes_max }
    }

    /// The next message, or None at an orderly end of the connection.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        if !self.fill(1 + LENGTH_BYTES).await? {
            return Ok(None);
        }
        let tag = self.buffer[0];
        let max = self.body_max(tag)?;
        let length = length_at(&self.buffer[1..], LENGTH_BYTES, max)?;
        if !self.fill(1 + length).await? {
            return Err(FrameError::Truncated);
        }
        self.buffer.advance(1 + LENGTH_BYTES);
        Ok(Some(Frame { tag, body: self.buffer.split_to(length - LENGTH_BYTES).freeze() }))
    }

    /// The first packet of a connection, which has no type byte.
    pub(crate) async fn startup_packet(&mut self) -> Result<Option<Bytes>, FrameError> {
        if !self.fill(LENGTH_BYTES).await? {
            return Ok(None);
        }
        let length = length_at(&self.buffer, LENGTH_BYTES + 4, SMALL_MESSAGE_BYTES_MAX)?;
        if !self.fill(length).await? {
            return Err(FrameError::Truncated);
        }
        self.buffer.advance(LENGTH_BYTES);
        Ok(Some(self.buffer.split_to(length - LENGTH_BYTES).freeze()))
    }

    /// The first byte of what comes next, or None at an orderly end of the connection.
    pub(crate) async fn peek(&mut self) -> Result<Option<u8>, FrameError> {
        Ok(if self.fill(1).await? { Some(self.buffer[0]) } else { None })
    }

    /// What arrived and no frame was made of yet; it is the caller's then.
    pub(crate) fn take_input(&mut self) -> Bytes {
        self.buffer.split().freeze()
    }

    pub(crate) fn io_mut(&mut self) -> &mut R {
        &mut self.io
    }

    /// The same reader over what another one becomes, such as the half of it that can be read.
    pub(crate) fn map<T, O>(self, split: impl FnOnce(R) -> (T, O)) -> (FrameReader<T>, O) {
        let (io, other) = split(self.io);
        let reader = FrameReader { io, buffer: self.buffer, message_bytes_max: self.message_bytes_max };
        (reader, other)
    }

    /// Whether bytes wait that no frame was made of yet.
    pub(crate) fn has_input(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Resolves when the client is gone. Reads ahead meanwhile, up to a bound; beyond it the end of
    /// the connection shows only once the session reads on.
    pub(crate) async fn closed(&mut self) {
        while self.buffer.len() < READ_AHEAD_BYTES_MAX {
            if !matches!(self.read_more().await, Ok(read) if read > 0) {
                return;
            }
        }
        std::future::pending().await
    }

    /// Reads and drops what the client still sends, up to a bound: closing a socket with unread bytes
    /// would reset it, and the client would lose the last answer.
    pub(crate) async fn discard(&mut self) {
        let mut left = DISCARD_BYTES_MAX;
        while left > 0 {
            self.buffer.clear();
            match self.read_more().await {
                Ok(read) if read > 0 => left = left.saturating_sub(read),
                _ => return,
            }
        }
    }

    /// Reads until `wanted` bytes are buffered. False when the connection ended before the first.
    async fn fill(&mut self, wanted: usize) -> Result<bool, FrameError> {
        while self.buffer.len() < wanted {
            if self.read_more().await? == 0 {
                return if self.buffer.is_empty() { Ok(false) } else { Err(FrameError::Truncated) };
            }
        }
        Ok(true)
    }

    async fn read_more(&mut self) -> std::io::Result<usize> {
        self.buffer.reserve(READ_BYTES);
        self.io.read_buf(&mut self.buffer).await
    }

    fn body_max(&self, tag: u8) -> Result<usize, FrameError> {
        match tag {
            b'Q' | b'P' | b'B' | b'F' | b'd' => Ok(self.message_bytes_max),
            b'C' | b'D' | b'E' | b'H' | b'S' | b'X' | b'c' | b'f' | b'p' => Ok(SMALL_MESSAGE_BYTES_MAX),
            tag => Err(FrameError::UnknownType { tag }),
        }
    }
}

/// The length at the start of `bytes`, which must lie in `min..=max`.
fn length_at(bytes: &[u8], min: usize, max: usize) -> Result<usize, FrameError> {
    let length = i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    usize::try_from(length).ok().filter(|length| (min..=max).contains(length)).ok_or(FrameError::Length {
        length,
        min,
        max,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn frames(bytes: &[u8]) -> Result<Vec<Frame>, FrameError> {
        let mut reader = FrameReader::new(bytes, 100_000);
        let mut frames = Vec::new();
        while let Some(frame) = reader.next().await? {
            frames.push(frame);
        }
        Ok(frames)
    }

    #[tokio::test]
    async fn frames_are_cut_at_their_lengths() {
        let read = frames(b"Q\0\0\0\x06a\0S\0\0\0\x04").await.unwrap();
        let expected = [(b'Q', &b"a\0"[..]), (b'S', &b""[..])];
        assert_eq!(read, expected.map(|(tag, body)| Frame { tag, body: Bytes::from_static(body) }));
    }

    #[tokio::test]
    async fn lengths_outside_their_bounds_are_refused_before_reading_on() {
        for bytes in
            [&b"Q\0\0\0\x03"[..], b"Q\x80\0\0\0", b"Q\x7f\xff\xff\xff", b"S\0\x01\0\0", b"E\xff\xff\xff\xff"]
        {
            assert!(matches!(frames(bytes).await, Err(FrameError::Length { .. })), "{bytes:x?}");
        }
        assert!(matches!(frames(b"z\0\0\0\x04").await, Err(FrameError::UnknownType { tag: b'z' })));
    }

    #[tokio::test]
    async fn a_connection_that_ends_within_a_message_is_truncated() {
        for bytes in [&b"Q"[..], b"Q\0\0\0\x09abc", b"Q\0\x01\0\0"] {
            assert!(matches!(frames(bytes).await, Err(FrameError::Truncated)), "{bytes:x?}");
        }
    }

    #[tokio::test]
    async fn an_announced_length_allocates_nothing() {
        let mut reader = FrameReader::new(&b"Q\x3f\0\0\0abc"[..], 0x3fff_ffff);
        assert!(matches!(reader.next().await, Err(FrameError::Truncated)));
        assert!(reader.buffer.capacity() < 4 * READ_BYTES, "{}", reader.buffer.capacity());
    }

    #[tokio::test]
    async fn watching_for_the_end_keeps_what_arrives() {
        let mut reader = FrameReader::new(&b"S\0\0\0\x04H\0\0\0\x04"[..], 100);
        reader.closed().await;
        assert_eq!(reader.next().await.unwrap().map(|frame| frame.tag), Some(b'S'));
        assert_eq!(reader.next().await.unwrap().map(|frame| frame.tag), Some(b'H'));
        assert_eq!(reader.next().await.unwrap(), None);
    }
}
