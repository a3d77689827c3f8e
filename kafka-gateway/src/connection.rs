//! One connection: finds out who is at the other end, then reads requests, begins them in order, runs them beside each other, and writes
//! their answers in the order of the requests.
//!
//! Three loops in one task: the first reads and begins requests, the second runs what is in flight,
//! the third writes. The requests in flight are futures and not tasks, so that
//! the end of a connection is the end of everything that it began. What was given to the log stays
//! with the log.
//!
//! Invariant: a connection holds at most `in_flight_max` requests, one answer to Fetch and one that describes much.
//! What large requests take, also when they are decoded, comes from the budget of all.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesOrdered, StreamExt};
use kafka_protocol::messages::ApiKey;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::api::{self, Answer, Api, Body, RequestError, Running, Turn};
use crate::authentication::AuthenticationError;
use crate::authentication::admission::{Admitted, Arrival, admit};
use crate::authentication::session::{Passage, Session};
use crate::context::{Connection, Context, Ends, Gateway};
use crate::frame::{FrameError, FrameLimits, RequestHead, read_frame, read_length, take_client_id};
use crate::guard::MalformedRequest;
use crate::listener::ListenerSettings;
use crate::memory::Memory;
use crate::telemetry;
use crate::tls::{self, TlsError};

/// A request that takes no more than this when it is decoded holds no memory of the budget for it.
const UNCOUNTED_BYTES_MAX: usize = 64 * 1024;

/// Why a connection ended, other than by its client's wish.
#[derive(Debug, Error)]
pub(crate) enum ConnectionError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("request head is broken: {0}")]
    Head(MalformedRequest),
    #[error("api key {api_key} version {api_version} is not served")]
    Unsupported { api_key: i16, api_version: i16 },
    #[error("{api} version {version}: {error}")]
    Request { api: &'static str, version: i16, error: RequestError },
    #[error("answer of {bytes} bytes to {api} is too large for a frame")]
    AnswerTooLarge { api: &'static str, bytes: usize },
    #[error("answers could not be written: {0}")]
    Write(std::io::Error),
    #[error("client took no byte of its answers for {} s", .0.as_secs())]
    SlowReader(Duration),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("TLS handshake was not done within {} s", .0.as_secs())]
    TlsTimeout(Duration),
    #[error(transparent)]
    Authentication(#[from] AuthenticationError),
}

impl ConnectionError {
    /// Whether the client sent something that no client sends.
    fn is_malformed(&self) -> bool {
        match self {
            Self::Frame(FrameError::Length { .. } | FrameError::TlsHandshake) | Self::Head(_) => true,
            Self::Request { error, .. } => {
                matches!(error, RequestError::Malformed(_) | RequestError::Undecodable(_))
            }
            _ => false,
        }
    }

    /// Counts it and logs it, once.
    fn report(&self, peer: SocketAddr) {
        match self {
            Self::Authentication(error) => {
                tracing::warn!(%peer, user = error.user(), %error, "closing connection");
            }
            Self::Tls(_) | Self::TlsTimeout(_) => {
                telemetry::tls_failed();
                tracing::warn!(%peer, error = %self, "closing connection");
            }
            Self::Unsupported { .. } => {
                telemetry::unsupported_request();
                tracing::warn!(%peer, error = %self, "closing connection");
            }
            _ if self.is_malformed() => {
                telemetry::malformed_frame();
                tracing::warn!(%peer, error = %self, "closing connection");
            }
            _ => tracing::info!(%peer, error = %self, "connection ended"),
        }
    }
}

/// Serves one connection until it ends, or until the gateway drains and its requests are answered.
pub(crate) async fn serve(gateway: Arc<Gateway>, socket: TcpStream, listener: Arc<ListenerSettings>) {
    let open = telemetry::OpenConnection::new();
    match ends_of(&socket) {
        Ok(ends) => {
            if let Err(error) = serve_socket(gateway, socket, ends, listener).await {
                error.report(ends.peer);
            }
        }
        Err(error) => tracing::debug!(%error, "a connection ended before it was served"),
    }
    drop(open);
}

fn ends_of(socket: &TcpStream) -> std::io::Result<Ends> {
    // Answers are small and awaited.
    socket.set_nodelay(true)?;
    Ok(Ends { local: socket.local_addr()?, peer: socket.peer_addr()? })
}

async fn serve_socket(
    gateway: Arc<Gateway>,
    socket: TcpStream,
    ends: Ends,
    listener: Arc<ListenerSettings>,
) -> Result<(), ConnectionError> {
    let Some(tls) = &listener.tls else {
        let (reading, writing) = socket.into_split();
        return serve_stream(gateway, Arrival { ends, listener, certificate: None }, reading, writing).await;
    };
    let timeout = gateway.settings.authentication_timeout;
    let accepted = tokio::select! {
        accepted = tls::accept(socket, tls.current()) => accepted?,
        () = gateway.clock().sleep(timeout) => return Err(ConnectionError::TlsTimeout(timeout)),
        () = gateway.drained() => None,
    };
    let Some(stream) = accepted else { return Ok(()) };
    let certificate = tls::principal(&stream)?;
    let (reading, writing) = tokio::io::split(stream);
    serve_stream(gateway, Arrival { ends, listener, certificate }, reading, writing).await
}

async fn serve_stream<R, W>(
    gateway: Arc<Gateway>,
    arrival: Arrival,
    mut reading: R,
    mut writing: W,
) -> Result<(), ConnectionError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let Some(admitted) = admit(&gateway, arrival, &mut reading, &mut writing).await? else { return Ok(()) };
    let Admitted { connection, session, unserved } = admitted;
    let connection = Arc::new(connection);
    let (items, begun) = mpsc::channel(gateway.settings.in_flight_max);
    let (answers, answered) = mpsc::channel(gateway.settings.in_flight_max);
    let reader = Reader {
        in_flight: Arc::new(Semaphore::new(gateway.settings.in_flight_max)),
        turns: Turns::default(),
        items,
        gateway: gateway.clone(),
        connection: connection.clone(),
        session,
        unserved,
    };
    // Each of the three ends when the one before it has ended and its work is done, or when the one
    // after it has ended, because then its work is for nobody.
    let (read, ran, wrote) = tokio::join!(
        reader.run(reading),
        run_requests(&gateway, begun, answers),
        write_answers(&gateway, answered, writing),
    );
    for error in [read.err(), ran.err(), wrote.err()].into_iter().flatten() {
        error.report(connection.peer);
    }
    Ok(())
}

/// One request that is running, and what ends with its answer.
struct Item {
    head: RequestHead,
    api: &'static Api,
    context: Context,
    running: Running,
    began: Duration,
    memory: Memory,
    in_flight: OwnedSemaphorePermit,
    /// Dropped when the answer is written: the next request of the same kind begins then.
    turn: Option<oneshot::Sender<()>>,
}

struct Reader {
    gateway: Arc<Gateway>,
    connection: Arc<Connection>,
    in_flight: Arc<Semaphore>,
    turns: Turns,
    items: mpsc::Sender<Item>,
    session: Session,
    /// A frame that was read before.
    unserved: Option<(Bytes, Memory)>,
}

impl Reader {
    async fn run<R: AsyncRead + Unpin>(mut self, mut socket: R) -> Result<(), ConnectionError> {
        let read = self.read_requests(&mut socket).await;
        // What is in flight is still answered, but waits for nothing any more.
        self.connection.end();
        read
    }

    async fn read_requests<R: AsyncRead + Unpin>(&mut self, socket: &mut R) -> Result<(), ConnectionError> {
        loop {
            let permit = tokio::select! {
                permit = self.in_flight.clone().acquire_owned() => permit.expect("the semaphore is never closed"),
                () = self.items.closed() => return Ok(()),
            };
            let Some((frame, memory)) = self.next_frame(socket).await? else { return Ok(()) };
            let Begun { item, ending } = self.begin(frame, permit, memory).await?;
            if self.items.send(item).await.is_err() {
                return Ok(());
            }
            if let Some(error) = ending {
                return Err(error.into());
            }
        }
    }

    /// The next frame. `None`: no more are read, for one of the reasons of `next_length`.
    async fn next_frame<R: AsyncRead + Unpin>(
        &mut self,
        socket: &mut R,
    ) -> Result<Option<(Bytes, Memory)>, FrameError> {
        if let Some(read_before) = self.unserved.take() {
            return Ok(Some(read_before));
        }
        let Some(length) = self.next_length(socket).await? else { return Ok(None) };
        tokio::select! {
            () = self.connection.mute.over(self.gateway.clock()) => (),
            () = self.items.closed() => return Ok(None),
            () = self.gateway.drained() => return Ok(None),
        }
        tokio::select! {
            read = self.read_frame(socket, length) => read.map(Some),
            () = self.items.closed() => Ok(None),
        }
    }

    fn limits(&self) -> FrameLimits {
        let settings = &self.gateway.settings;
        FrameLimits { bytes_max: settings.frame_bytes_max, stall_timeout: settings.stall_timeout }
    }

    /// The length of the next frame. `None`: no more are read, because the client has gone, nothing
    /// happens here any more, the answers cannot be written, or the gateway drains.
    async fn next_length<R: AsyncRead + Unpin>(&self, socket: &mut R) -> Result<Option<usize>, FrameError> {
        let length = read_length(socket, self.limits());
        let mut length = std::pin::pin!(length);
        loop {
            tokio::select! {
                length = &mut length => return length,
                () = self.items.closed() => return Ok(None),
                () = self.gateway.drained() => return Ok(None),
                () = self.gateway.clock().sleep(self.gateway.settings.idle_timeout) => {
                    // One permit is held by the request that is awaited here.
                    let in_flight_max = self.gateway.settings.in_flight_max;
                    if self.in_flight.available_permits() + 1 == in_flight_max {
                        return Ok(None);
                    }
                }
            }
        }
    }

    async fn read_frame<R: AsyncRead + Unpin>(
        &self,
        socket: &mut R,
        length: usize,
    ) -> Result<(Bytes, Memory), FrameError> {
        let mut memory = self.gateway.request_memory.empty();
        let frame = read_frame(socket, length, self.limits(), &mut memory).await?;
        Ok((frame, memory))
    }

    /// Begins one request. Its first part ends here, so that requests are begun in order.
    async fn begin(
        &mut self,
        mut frame: Bytes,
        in_flight: OwnedSemaphorePermit,
        mut memory: Memory,
    ) -> Result<Begun, ConnectionError> {
        let began = self.gateway.clock().monotonic();
        let head = RequestHead::take_from(&mut frame).map_err(ConnectionError::Head)?;
        let version = head.api_version;
        let (api, served) = find(&head)?;
        let mut context = Context::new(self.gateway.clone(), self.connection.clone(), version);
        let failed = |error| ConnectionError::Request { api: api.name, version, error };
        if let Served::Yes = served {
            let client_id = take_client_id(&mut frame, api.request_encoding(version));
            context = context.with_client_id(client_id.map_err(ConnectionError::Head)?);
        }
        let (running, ending) = match (self.session.passage(api, &self.gateway)?, served) {
            (Passage::Renewal, _) => {
                let reply = self.session.renew(&context, api, frame).await.map_err(failed)?;
                reply.into_running(&self.gateway)
            }
            (Passage::Request, Served::Yes) => {
                let decoded_bytes = api.check(version, &frame).map_err(|error| failed(error.into()))?;
                if decoded_bytes > UNCOUNTED_BYTES_MAX {
                    memory.grow(decoded_bytes).await;
                }
                ((api.begin)(context.clone(), frame).await.map_err(failed)?, None)
            }
            (Passage::Request, Served::VersionTooHigh) => {
                let answer = api::unsupported_version_answer(&context);
                (async move { answer }.boxed(), None)
            }
        };
        let (running, turn) = self.turns.take(api.turn, running);
        Ok(Begun { item: Item { head, api, context, running, began, memory, in_flight, turn }, ending })
    }
}

/// A request that was begun.
struct Begun {
    item: Item,
    /// Why it is the last one.
    ending: Option<AuthenticationError>,
}

/// How a request is answered.
#[derive(Clone, Copy)]
pub(crate) enum Served {
    Yes,
    /// Answered all the same, because it is how clients find out what is served.
    VersionTooHigh,
}

/// The API that a request is for.
pub(crate) fn find(head: &RequestHead) -> Result<(&'static Api, Served), ConnectionError> {
    let RequestHead { api_key, api_version, .. } = *head;
    let unsupported = ConnectionError::Unsupported { api_key, api_version };
    match api::find(api_key) {
        Some(api) if (api.version_min..=api.version_max).contains(&api_version) => Ok((api, Served::Yes)),
        Some(api) if api.key == ApiKey::ApiVersions => Ok((api, Served::VersionTooHigh)),
        _ => Err(unsupported),
    }
}

/// Makes requests of a kind wait for the one before them.
#[derive(Debug, Default)]
struct Turns {
    group: Option<oneshot::Receiver<()>>,
    fetch: Option<oneshot::Receiver<()>>,
    describe: Option<oneshot::Receiver<()>>,
}

impl Turns {
    fn take(&mut self, turn: Turn, running: Running) -> (Running, Option<oneshot::Sender<()>>) {
        let last = match turn {
            Turn::Any => return (running, None),
            Turn::Group => &mut self.group,
            Turn::Fetch => &mut self.fetch,
            Turn::Describe => &mut self.describe,
        };
        let (sender, receiver) = oneshot::channel();
        let Some(before) = last.replace(receiver) else { return (running, Some(sender)) };
        let running = async move {
            // The sender is dropped, never used: that is the sign.
            let _ = before.await;
            running.await
        };
        (running.boxed(), Some(sender))
    }
}

/// A request that has its answer, and what ends when that is written.
struct Answered {
    head: RequestHead,
    api: &'static Api,
    answer: Answer,
    ends: (OwnedSemaphorePermit, Memory, Option<oneshot::Sender<()>>),
}

type Finishing<'a> = BoxFuture<'a, Result<Answered, ConnectionError>>;

fn finish(gateway: &Gateway, item: Item) -> Finishing<'_> {
    async move {
        let Item { head, api, context, running, began, memory, in_flight, turn } = item;
        let answer = running.await.map_err(|error| {
            let version = head.api_version;
            ConnectionError::Request { api: api.name, version, error }
        })?;
        let took = gateway.clock().monotonic().saturating_sub(began);
        telemetry::request_answered(api.name, context.first_error(), took);
        Ok(Answered { head, api, answer, ends: (in_flight, memory, turn) })
    }
    .boxed()
}

/// Runs the requests that the reading half begins, and passes their answers on in order.
async fn run_requests(
    gateway: &Gateway,
    mut items: mpsc::Receiver<Item>,
    answers: mpsc::Sender<Answered>,
) -> Result<(), ConnectionError> {
    let mut running = FuturesOrdered::new();
    let mut is_open = true;
    while is_open || !running.is_empty() {
        tokio::select! {
            item = items.recv(), if is_open => match item {
                Some(item) => running.push_back(finish(gateway, item)),
                None => is_open = false,
            },
            Some(answered) = running.next() => {
                // The queue has room for all that may be in flight, so this does not wait.
                if answers.send(answered?).await.is_err() {
                    return Ok(());
                }
            }
            () = answers.closed() => return Ok(()),
        }
    }
    Ok(())
}

/// Writes answers until no more can come.
async fn write_answers<W: AsyncWrite + Unpin>(
    gateway: &Gateway,
    mut answers: mpsc::Receiver<Answered>,
    mut socket: W,
) -> Result<(), ConnectionError> {
    while let Some(answered) = answers.recv().await {
        write_answer(gateway, &mut socket, answered).await?;
    }
    socket.shutdown().await.map_err(ConnectionError::Write)
}

async fn write_answer<W: AsyncWrite + Unpin>(
    gateway: &Gateway,
    socket: &mut W,
    answered: Answered,
) -> Result<(), ConnectionError> {
    let Answered { head, api, answer, ends } = answered;
    let Answer { body, memory } = answer;
    let memory = memory.unwrap_or_else(|| gateway.response_memory.empty());
    if let Some(body) = body {
        let encoding = api.answer_header_encoding(head.api_version);
        let bytes = body.size_bytes();
        let frame = body.into_frame(head.correlation_id, encoding);
        let frame = frame.ok_or(ConnectionError::AnswerTooLarge { api: api.name, bytes })?;
        write_frame(socket, frame, memory, gateway.settings.slow_reader_timeout).await?;
    }
    drop(ends);
    Ok(())
}

async fn write_frame<W: AsyncWrite + Unpin>(
    socket: &mut W,
    mut frame: Body,
    mut memory: Memory,
    slow_reader_timeout: Duration,
) -> Result<(), ConnectionError> {
    while frame.has_remaining() {
        tokio::select! {
            written = socket.write_buf(&mut frame) => {
                memory.give_back(written.map_err(ConnectionError::Write)?);
            }
            waited = memory.stalled(slow_reader_timeout) => return Err(ConnectionError::SlowReader(waited)),
        }
    }
    // A TLS stream may hold back the last bytes.
    tokio::select! {
        biased;
        flushed = socket.flush() => flushed.map_err(ConnectionError::Write),
        waited = memory.stalled(slow_reader_timeout) => Err(ConnectionError::SlowReader(waited)),
    }
}
