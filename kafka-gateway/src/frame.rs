//! Frames: a length of four bytes, then a request or an answer with its header. Pure, apart from
//! [`read_frame`], which reads one from a socket.
//!
//! Invariant: memory grows with the bytes that arrived, never with the length that a frame claims.

use std::io::ErrorKind;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::guard::{Encoding, MalformedRequest, Walker};
use crate::memory::Memory;
use crate::tls;

const LENGTH_BYTES: usize = 4;
/// A frame's buffer starts no larger than this and grows as bytes arrive.
const FIRST_BUFFER_BYTES: usize = 64 * 1024;
/// Room for so many times the bytes that have arrived.
const GROWTH: usize = 15;

/// Why a frame could not be read; the connection ends.
#[derive(Debug, Error)]
pub(crate) enum FrameError {
    #[error("frame length {length} is outside of 0 to {max}")]
    Length { length: i32, max: usize },
    #[error("a TLS handshake on a listener without TLS")]
    TlsHandshake,
    #[error("no byte arrived for {} s in the middle of a frame", .0.as_secs())]
    Stalled(Duration),
    #[error("connection ended in the middle of a frame")]
    Truncated,
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// The head of every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestHead {
    pub(crate) api_key: i16,
    pub(crate) api_version: i16,
    pub(crate) correlation_id: i32,
}

impl RequestHead {
    /// Reads the fields that every header version begins with, and takes them from the frame.
    pub(crate) fn take_from(frame: &mut Bytes) -> Result<Self, MalformedRequest> {
        let mut walker = Walker::new(frame, 0, Encoding::Classic);
        let head = Self {
            api_key: i16::from_be_bytes(walker.array()?),
            api_version: i16::from_be_bytes(walker.array()?),
            correlation_id: i32::from_be_bytes(walker.array()?),
        };
        let rest = frame.len() - walker.remaining();
        frame.advance(rest);
        Ok(head)
    }
}

/// Reads the rest of a request header, the client's id and tagged fields, and takes it from the frame.
pub(crate) fn take_client_id(
    frame: &mut Bytes,
    encoding: Encoding,
) -> Result<Option<String>, MalformedRequest> {
    let mut walker = Walker::new(frame, 0, encoding);
    let client_id = walker.classic_string()?.map(|text| String::from_utf8_lossy(text).into_owned());
    if encoding == Encoding::Flexible {
        walker.walk_tagged_fields()?;
    }
    let rest = frame.len() - walker.remaining();
    frame.advance(rest);
    Ok(client_id)
}

/// The length and header of an answer whose body takes `body_bytes`.
///
/// `None`: an answer of 2 GiB or more has no frame.
pub(crate) fn answer_head(correlation_id: i32, encoding: Encoding, body_bytes: usize) -> Option<BytesMut> {
    let tags = usize::from(encoding == Encoding::Flexible);
    let length = size_of::<i32>() + tags + body_bytes;
    let mut head = BytesMut::with_capacity(LENGTH_BYTES + size_of::<i32>() + tags);
    head.put_i32(i32::try_from(length).ok()?);
    head.put_i32(correlation_id);
    head.put_bytes(0, tags);
    Some(head)
}

/// Bounds on the frames of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameLimits {
    pub(crate) bytes_max: usize,
    pub(crate) stall_timeout: Duration,
}

/// Waits for the length of the next frame. `None`: the connection ended between two frames. A TLS
/// stream that ends without saying so is an end, too.
pub(crate) async fn read_length<R: AsyncRead + Unpin>(
    socket: &mut R,
    limits: FrameLimits,
) -> Result<Option<usize>, FrameError> {
    let mut bytes = [0; LENGTH_BYTES];
    let mut filled = 0;
    while filled < LENGTH_BYTES {
        match socket.read(&mut bytes[filled..]).await {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(FrameError::Truncated),
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof && filled == 0 => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    let length = i32::from_be_bytes(bytes);
    match usize::try_from(length) {
        Ok(size) if size <= limits.bytes_max => Ok(Some(size)),
        _ if tls::is_handshake(&bytes) => Err(FrameError::TlsHandshake),
        _ => Err(FrameError::Length { length, max: limits.bytes_max }),
    }
}

/// Reads a frame of `length` bytes, which [`read_length`] has checked. Beyond the first buffer, memory
/// is taken as bytes arrive.
pub(crate) async fn read_frame<R: AsyncRead + Unpin>(
    socket: &mut R,
    length: usize,
    limits: FrameLimits,
    memory: &mut Memory,
) -> Result<Bytes, FrameError> {
    let mut frame = BytesMut::with_capacity(length.min(FIRST_BUFFER_BYTES));
    let mut rest = socket.take(length as u64);
    while frame.len() < length {
        let read = tokio::select! {
            read = rest.read_buf(&mut frame) => read?,
            waited = memory.stalled(limits.stall_timeout) => return Err(FrameError::Stalled(waited)),
        };
        if read == 0 {
            return Err(FrameError::Truncated);
        }
        if frame.len() == frame.capacity() && frame.len() < length {
            let more = more_bytes(frame.len(), length);
            memory.grow(more).await;
            frame.reserve(more);
        }
    }
    Ok(frame.freeze())
}

/// How much room is made for a frame of which so much has arrived: so much more that its bytes are hardly ever
/// moved, but no more than in proportion to what the client has really sent.
fn more_bytes(arrived: usize, length: usize) -> usize {
    let rest = length - arrived;
    if rest <= 2 * GROWTH * arrived { rest } else { GROWTH * arrived }
}

#[cfg(test)]
mod tests {
    use strandline_storage::seam::Seams;

    use super::*;
    use crate::memory::MemoryBudget;

    fn limits() -> FrameLimits {
        FrameLimits { bytes_max: 100, stall_timeout: Duration::from_secs(1) }
    }

    fn memory() -> Memory {
        MemoryBudget::new(100, Duration::from_secs(1), Seams::simulated(1).clock).empty()
    }

    #[tokio::test]
    async fn lengths_are_checked_before_anything_is_read() {
        for (length, accepted) in [(0, true), (100, true), (101, false), (-1, false), (i32::MAX, false)] {
            let bytes = i32::to_be_bytes(length);
            let result = read_length(&mut &bytes[..], limits()).await;
            assert_eq!(result.is_ok(), accepted, "{length}");
        }
        assert!(matches!(read_length(&mut &[][..], limits()).await, Ok(None)));
        assert!(matches!(read_length(&mut &[0, 0][..], limits()).await, Err(FrameError::Truncated)));
        let hello = [22, 3, 1, 2, 0, 1];
        assert!(matches!(read_length(&mut &hello[..], limits()).await, Err(FrameError::TlsHandshake)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_frame_that_stalls_or_ends_early_is_an_error() {
        let read = read_frame(&mut &b"abc"[..], 4, limits(), &mut memory()).await;
        assert!(matches!(read, Err(FrameError::Truncated)));
        let (mut near, _far) = tokio::io::duplex(16);
        let read = read_frame(&mut near, 4, limits(), &mut memory()).await;
        assert!(matches!(read, Err(FrameError::Stalled(_))));
    }

    #[test]
    fn room_is_made_in_proportion_to_what_has_arrived() {
        for (arrived, length, more) in
            [(64, 100, 36), (64, 64 * 31, 64 * 30), (64, 64 * 31 + 1, 64 * 15), (64, usize::MAX, 64 * 15)]
        {
            assert_eq!(more_bytes(arrived, length), more, "{arrived} of {length}");
        }
    }

    #[tokio::test]
    async fn a_frame_ends_where_its_length_says() {
        let mut bytes = &b"abcdef"[..];
        let frame = read_frame(&mut bytes, 4, limits(), &mut memory()).await.unwrap();
        assert_eq!((&frame[..], bytes), (&b"abcd"[..], &b"ef"[..]));
    }

    #[test]
    fn heads_are_taken_from_the_frame() {
        let mut frame = Bytes::from_static(&[0, 3, 0, 9, 0, 0, 0, 7, 0, 2, b'm', b'e', 0, 42]);
        let head = RequestHead::take_from(&mut frame).unwrap();
        assert_eq!(head, RequestHead { api_key: 3, api_version: 9, correlation_id: 7 });
        assert_eq!(take_client_id(&mut frame, Encoding::Flexible).unwrap(), Some("me".to_owned()));
        assert_eq!(&frame[..], [42]);
        assert!(RequestHead::take_from(&mut frame).is_err());
    }

    #[test]
    fn answers_begin_with_length_correlation_and_tags() {
        let head = |encoding, bytes| answer_head(7, encoding, bytes).map(|head| head.to_vec());
        assert_eq!(head(Encoding::Classic, 5), Some(vec![0, 0, 0, 9, 0, 0, 0, 7]));
        assert_eq!(head(Encoding::Flexible, 5), Some(vec![0, 0, 0, 10, 0, 0, 0, 7, 0]));
        assert_eq!(head(Encoding::Classic, i32::MAX as usize - 3), None);
    }
}
