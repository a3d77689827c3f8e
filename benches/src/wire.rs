//! A blocking client of the Kafka protocol, as lean as one can be: what it costs is part of what is
//! measured.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result, ensure};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{RequestHeader, TopicName};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

const LENGTH_BYTES: usize = 4;

pub fn topic_name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}

/// A request with its header and length.
pub fn encode<R>(version: i16, correlation_id: i32, request: &R) -> Result<Bytes>
where
    R: Request + Encodable + HeaderVersion,
{
    let header = RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(StrBytes::from_static_str("strandline-bench")));
    let mut frame = BytesMut::new();
    frame.put_u32(0);
    header.encode(&mut frame, R::header_version(version))?;
    request.encode(&mut frame, version)?;
    let length = u32::try_from(frame.len() - LENGTH_BYTES).context("the frame has a length")?;
    frame[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    Ok(frame.freeze())
}

/// The answer in a frame, which must be to the request with this correlation id.
pub fn decode<R>(version: i16, correlation_id: i32, mut frame: Bytes) -> Result<R::Response>
where
    R: Request,
    R::Response: Decodable + HeaderVersion,
{
    ensure!(frame.len() > LENGTH_BYTES, "an answer of {} bytes has no header", frame.len());
    let answered = frame.get_i32();
    ensure!(answered == correlation_id, "the answer is to request {answered}, not {correlation_id}");
    if R::Response::header_version(version) >= 1 {
        frame.advance(1);
    }
    R::Response::decode(&mut frame, version)
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    socket: TcpStream,
    correlation_id: i32,
    /// The memory of the last answer, for the next one.
    buffer: Vec<u8>,
}

impl Connection {
    pub fn open(address: SocketAddr) -> Result<Self> {
        let socket = TcpStream::connect(address).with_context(|| format!("connecting to {address}"))?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, correlation_id: 0, buffer: Vec::new() })
    }

    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.socket.write_all(bytes).context("sending a request")
    }

    /// Sends a request, and gives its correlation id with the frame of its answer, which is not decoded.
    pub fn exchange<R>(&mut self, version: i16, request: &R) -> Result<(i32, Bytes)>
    where
        R: Request + Encodable + HeaderVersion,
    {
        self.ask(version, request)?;
        self.answer()
    }

    /// Sends a request.
    pub fn ask<R>(&mut self, version: i16, request: &R) -> Result<()>
    where
        R: Request + Encodable + HeaderVersion,
    {
        self.correlation_id += 1;
        let frame = encode(version, self.correlation_id, request)?;
        self.send(&frame)
    }

    /// The frame of the answer to the last request, with the correlation id of that.
    pub fn answer(&mut self) -> Result<(i32, Bytes)> {
        let mut answer = Vec::new();
        read_frame(&mut self.socket, &mut answer)?;
        Ok((self.correlation_id, answer.into()))
    }

    /// Sends a request, waits for its answer, and passes it to `read`.
    pub fn call<R, T>(
        &mut self,
        version: i16,
        request: &R,
        read: impl FnOnce(R::Response) -> Result<T>,
    ) -> Result<T>
    where
        R: Request + Encodable + HeaderVersion,
        R::Response: Decodable + HeaderVersion,
    {
        self.ask(version, request)?;
        self.receive::<R, T>(version, self.correlation_id, read)
    }

    /// Waits for the next answer, which must be to this request, and passes it to `read`.
    pub fn receive<R, T>(
        &mut self,
        version: i16,
        correlation_id: i32,
        read: impl FnOnce(R::Response) -> Result<T>,
    ) -> Result<T>
    where
        R: Request,
        R::Response: Decodable + HeaderVersion,
    {
        let mut buffer = std::mem::take(&mut self.buffer);
        read_frame(&mut self.socket, &mut buffer)?;
        let frame = Bytes::from(buffer);
        let result = read(decode::<R>(version, correlation_id, frame.clone())?);
        // Nothing refers to the frame any more, so this takes the memory and copies nothing.
        self.buffer = frame.into();
        result
    }
}

/// Reads the next frame, without its length, into the buffer.
pub fn read_frame(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<()> {
    let mut length = [0; LENGTH_BYTES];
    socket.read_exact(&mut length).context("waiting for a frame")?;
    let length = usize::try_from(i32::from_be_bytes(length)).context("a frame has a length")?;
    buffer.clear();
    let read = socket.take(length as u64).read_to_end(buffer).context("reading a frame")?;
    ensure!(read == length, "the connection ended after {read} of {length} bytes of a frame");
    Ok(())
}
