//! One connection: frames out, frames in, answers matched to requests by their order.
//!
//! Requests may be sent before earlier ones are answered. Invariant: an answer is never given to
//! another request; a correlation id that does not match ends the connection.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{ApiVersionsRequest, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use strandline_storage::access::ScramMechanism;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::endpoint::Endpoint;
use super::error::{ClientError, ErrorCode};
use super::login::{Outcome, log_in};
use super::stream;
use crate::units::HostPort;

const CLIENT_NAME: &str = "strandline";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than any request of ours waits on the server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// The largest answer that is read: what a fetch may return and its largest batch.
const FRAME_BYTES_MAX: usize = 256 << 20;
const UNANSWERED_MAX: usize = 64;
const API_VERSIONS_VERSION: i16 = 3;

pub struct Connection {
    address: HostPort,
    writer: stream::Writer,
    expected: mpsc::Sender<Expected>,
    correlation_id: i32,
    /// By API key: the lowest and the highest version that the server serves.
    versions: BTreeMap<i16, (i16, i16)>,
    progress: Progress,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Connection").field("address", &self.address).finish_non_exhaustive()
    }
}

/// How far a connection has come: what its loss then means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    /// Nothing was answered.
    Connected,
    /// The server has said what it speaks, to somebody without a name.
    Negotiated,
    /// The server answers requests, or knows who one is.
    Known,
}

enum Opened {
    Ready(Connection),
    OtherMechanisms(Vec<String>),
}

/// A request that waits for its answer.
#[derive(Debug)]
struct Expected {
    correlation_id: i32,
    answer: oneshot::Sender<Bytes>,
}

impl Connection {
    /// Connects, asks what the server speaks, and proves who one is.
    pub async fn open(endpoint: &Endpoint) -> Result<Self, ClientError> {
        match Self::open_with(endpoint, ScramMechanism::Sha256).await? {
            Opened::Ready(connection) => Ok(connection),
            // A server that knows one mechanism only has closed the connection.
            Opened::OtherMechanisms(offered) => {
                let other = ScramMechanism::Sha512;
                let is_offered = offered.iter().any(|name| name == other.name());
                let opened = if is_offered { Some(Self::open_with(endpoint, other).await?) } else { None };
                match opened {
                    Some(Opened::Ready(connection)) => Ok(connection),
                    _ => Err(ClientError::NoMechanism {
                        address: endpoint.address.clone(),
                        offered: offered.join(", "),
                    }),
                }
            }
        }
    }

    async fn open_with(endpoint: &Endpoint, mechanism: ScramMechanism) -> Result<Opened, ClientError> {
        let mut connection = Self::connect(endpoint).await?;
        connection.negotiate().await?;
        let Some(login) = &endpoint.login else { return Ok(Opened::Ready(connection)) };
        Ok(match log_in(&mut connection, login, mechanism).await? {
            Outcome::Proven => Opened::Ready(connection),
            Outcome::OtherMechanisms(offered) => Opened::OtherMechanisms(offered),
        })
    }

    async fn connect(endpoint: &Endpoint) -> Result<Self, ClientError> {
        let stream = timeout(CONNECT_TIMEOUT, stream::connect(endpoint)).await;
        let (reader, writer) = stream.map_err(|_| ClientError::Unreachable {
            address: endpoint.address.clone(),
            reason: format!("no answer in {} s", CONNECT_TIMEOUT.as_secs()),
        })??;
        let (expected, queue) = mpsc::channel(UNANSWERED_MAX);
        // The task ends when the server closes the connection or this side drops its half.
        tokio::spawn(read_answers(reader, queue));
        let progress = if endpoint.login.is_some() { Progress::Known } else { Progress::Connected };
        let address = endpoint.address.clone();
        let versions = BTreeMap::new();
        Ok(Self { address, writer, expected, correlation_id: 0, versions, progress })
    }

    pub fn address(&self) -> &HostPort {
        &self.address
    }

    async fn negotiate(&mut self) -> Result<(), ClientError> {
        let request = ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str(CLIENT_NAME))
            .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
        let response = self.send(API_VERSIONS_VERSION, &request).await?.answer().await?;
        self.progress = self.progress.max(Progress::Negotiated);
        if let Some(code) = ErrorCode::of(response.error_code) {
            return Err(self.protocol_error(format!("it refused ApiVersions with {code}")));
        }
        let versions = response.api_keys.iter().map(|api| (api.api_key, (api.min_version, api.max_version)));
        self.versions = versions.collect();
        Ok(())
    }

    /// Sends a request and waits for its answer.
    pub async fn call<R: Request>(&mut self, version: i16, request: &R) -> Result<R::Response, ClientError> {
        self.check_version::<R>(version)?;
        let answer = self.send(version, request).await?.answer().await?;
        self.progress = Progress::Known;
        Ok(answer)
    }

    /// Sends a request; the answer can be waited for later.
    pub async fn send<R: Request>(&mut self, version: i16, request: &R) -> Result<Answer<R>, ClientError> {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        let frame = encode(self.correlation_id, version, request)
            .map_err(|reason| self.protocol_error(format!("a request cannot be encoded: {reason}")))?;
        let (sender, receiver) = oneshot::channel();
        let expected = Expected { correlation_id: self.correlation_id, answer: sender };
        self.expected.send(expected).await.map_err(|_| self.lost())?;
        self.writer.write_all(&frame).await.map_err(|_| self.lost())?;
        self.writer.flush().await.map_err(|_| self.lost())?;
        let (address, progress) = (self.address.clone(), self.progress);
        Ok(Answer { address, progress, version, receiver, request: PhantomData })
    }

    fn check_version<R: Request>(&self, version: i16) -> Result<(), ClientError> {
        match self.versions.get(&R::KEY) {
            Some((lowest, highest)) if (*lowest..=*highest).contains(&version) => Ok(()),
            _ => Err(self.protocol_error(format!("it does not serve API {} in version {version}", R::KEY))),
        }
    }

    fn lost(&self) -> ClientError {
        self.progress.lost(self.address.clone())
    }

    fn protocol_error(&self, reason: String) -> ClientError {
        ClientError::Protocol { address: self.address.clone(), reason }
    }
}

impl Progress {
    /// Why a connection was lost, as far as one can tell.
    fn lost(self, address: HostPort) -> ClientError {
        match self {
            Self::Connected => ClientError::NothingAnswered { address },
            Self::Negotiated => ClientError::Unknown { address },
            Self::Known => ClientError::Lost { address },
        }
    }
}

/// The answer to a request that was sent.
#[derive(Debug)]
pub struct Answer<R> {
    address: HostPort,
    progress: Progress,
    version: i16,
    receiver: oneshot::Receiver<Bytes>,
    request: PhantomData<R>,
}

impl<R: Request> Answer<R> {
    pub async fn answer(self) -> Result<R::Response, ClientError> {
        let frame = match timeout(ANSWER_TIMEOUT, self.receiver).await {
            Ok(Ok(frame)) => frame,
            Ok(Err(_)) => return Err(self.progress.lost(self.address)),
            Err(_) => return Err(ClientError::Lost { address: self.address }),
        };
        decode::<R>(frame, self.version)
            .map_err(|reason| ClientError::Protocol { address: self.address, reason: reason.to_string() })
    }
}

fn encode<R: Request>(correlation_id: i32, version: i16, request: &R) -> anyhow::Result<Bytes> {
    let header = RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(StrBytes::from_static_str(CLIENT_NAME)));
    let mut frame = BytesMut::new();
    frame.put_i32(0);
    header.encode(&mut frame, R::header_version(version))?;
    request.encode(&mut frame, version)?;
    let length = i32::try_from(frame.len() - 4)?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    Ok(frame.freeze())
}

fn decode<R: Request>(mut frame: Bytes, version: i16) -> anyhow::Result<R::Response> {
    ResponseHeader::decode(&mut frame, R::Response::header_version(version))?;
    R::Response::decode(&mut frame, version)
}

/// Hands each frame to the request that waits longest. Whatever is wrong ends it, and with it every
/// request that still waits.
async fn read_answers(mut reader: stream::Reader, mut queue: mpsc::Receiver<Expected>) {
    while let Some(frame) = read_frame(&mut reader).await {
        let Ok(expected) = queue.try_recv() else { return };
        let matches = frame.len() >= 4 && (&frame[..4]).get_i32() == expected.correlation_id;
        if !matches {
            return;
        }
        // Whoever asked may have stopped waiting.
        let _ = expected.answer.send(frame);
    }
}

async fn read_frame(reader: &mut stream::Reader) -> Option<Bytes> {
    let length = usize::try_from(reader.read_i32().await.ok()?).ok()?;
    if length > FRAME_BYTES_MAX {
        return None;
    }
    // Grows with what arrives, not with what the frame says.
    let mut frame = Vec::new();
    let read = reader.take(length as u64).read_to_end(&mut frame).await.ok()?;
    (read == length).then(|| Bytes::from(frame))
}
