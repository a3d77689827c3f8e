//! The listener: accepts connections within bounds, and waits for them at the end.
//!
//! Invariants: every connection is a task of one set that is awaited; a connection that fails, or
//! panics, harms no other; a cancel request is heard also when all sessions are taken.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use socket2::{SockRef, TcpKeepalive};
use strandline_engine::{Engine, SessionOptions};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cancel::CancelRegistry;
use crate::error::{Ended, PgError, Severity};
use crate::session::authentication::{Authenticator, Claimed};
use crate::session::startup;
use crate::session::{Connection, ConnectionParts};
use crate::settings::PgSettings;
use crate::sqlstate::SqlState;
use crate::telemetry::ConnectionGauge;
use crate::wire::frame::FrameReader;
use crate::wire::output::Output;
use crate::wire::transport::Transport;

/// Sockets beyond the sessions: those that still start, and cancel requests.
const STARTING_CONNECTIONS_MAX: usize = 100;
/// How long to leave a listener alone that cannot accept, such as one out of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// How long a connection is silent before the client's machine is asked whether it is there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// How long an ended connection may take to hear why.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);

/// What rules see as the address of a client inside of this process.
const PIPE_HOST: &str = "127.0.0.1";

/// Why the listener stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot read the address of the Postgres listener: {0}")]
    Address(#[source] std::io::Error),
}

/// What all connections share.
#[derive(Debug, Clone)]
struct Shared {
    engine: Arc<Engine>,
    settings: Arc<PgSettings>,
    registry: Arc<CancelRegistry>,
    authenticator: Arc<Authenticator>,
    sessions: Arc<Semaphore>,
    shutdown: CancellationToken,
}

impl Shared {
    fn new(engine: Arc<Engine>, settings: PgSettings) -> Self {
        let authentication = settings.authentication.clone();
        Self {
            authenticator: Arc::new(Authenticator::new(Arc::clone(&engine), authentication)),
            engine,
            sessions: Arc::new(Semaphore::new(settings.connections_max)),
            settings: Arc::new(settings),
            registry: Arc::default(),
            shutdown: CancellationToken::new(),
        }
    }
}

/// Serves clients until `shutdown` turns true or its sender is gone, then ends every session with
/// 57P01 and waits for them.
///
/// # Errors
/// When the listener is not usable.
pub async fn serve(
    listener: TcpListener,
    engine: Arc<Engine>,
    settings: PgSettings,
    mut shutdown: watch::Receiver<bool>,
) -> Result<(), ServeError> {
    let address = listener.local_addr().map_err(ServeError::Address)?;
    tracing::info!(%address, "listening for Postgres clients");
    let shared = Shared::new(engine, settings);
    let sockets = Arc::new(Semaphore::new(shared.settings.connections_max + STARTING_CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = told_to_stop(&mut shutdown) => break,
            Some(ended) = connections.join_next() => log_panic(ended),
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => {
                    // Without a permit the socket closes here: the client sees its connection refused.
                    if let Ok(permit) = Arc::clone(&sockets).try_acquire_owned() {
                        let shared = shared.clone();
                        connections.spawn(async move {
                            serve_socket(socket, shared).await;
                            drop(permit);
                        });
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a Postgres connection");
                    shared.engine.clock().sleep(ACCEPT_RETRY).await;
                }
            },
        }
    }
    drop(listener);
    shared.shutdown.cancel();
    drain(connections, &shared).await;
    Ok(())
}

async fn told_to_stop(shutdown: &mut watch::Receiver<bool>) {
    // An error says that the sender is gone, which is as good as being told to stop.
    let _ = shutdown.wait_for(|stopped| *stopped).await;
}

/// Serves one client over any stream, such as an in-memory pipe, until it leaves.
pub fn serve_stream<S>(stream: S, engine: Arc<Engine>, settings: PgSettings) -> BoxFuture<'static, ()>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    serve_connection(Box::new(stream), PIPE_HOST.to_owned(), Shared::new(engine, settings))
}

async fn drain(mut connections: JoinSet<()>, shared: &Shared) {
    let ended = async {
        while let Some(ended) = connections.join_next().await {
            log_panic(ended);
        }
    };
    tokio::select! {
        () = ended => {}
        () = shared.engine.clock().sleep(shared.settings.drain_timeout) => {
            tracing::warn!("some Postgres sessions did not end in time and are dropped");
        }
    }
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a Postgres session broke");
    }
}

async fn serve_socket(socket: TcpStream, shared: Shared) {
    if let Err(error) = configure(&socket) {
        tracing::debug!(%error, "cannot configure a socket");
    }
    // Without an address the socket is closed already, which shows when it is read.
    let host = socket.peer_addr().map_or_else(|_| String::new(), |peer| peer.ip().to_canonical().to_string());
    serve_connection(Box::new(socket), host, shared).await;
}

fn configure(socket: &TcpStream) -> std::io::Result<()> {
    // Answers are written whole, so waiting to fill packets would only delay them.
    socket.set_nodelay(true)?;
    // A client whose machine is gone says no goodbye.
    SockRef::from(socket).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE_IDLE))
}

trait ClientStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ClientStream for S {}

/// In a box and not generic, so that how deep the future of a session is stays a matter of this crate.
fn serve_connection(stream: Box<dyn ClientStream>, host: String, shared: Shared) -> BoxFuture<'static, ()> {
    Box::pin(serve_client(stream, host, shared))
}

async fn serve_client(stream: Box<dyn ClientStream>, host: String, shared: Shared) {
    let _gauge = ConnectionGauge::open();
    let timeout = shared.engine.clock().sleep(shared.settings.startup_timeout);
    tokio::pin!(timeout);
    let mut reader = FrameReader::new(Transport::Plain(stream), shared.settings.message_bytes_max);
    let receiving = startup::receive(&mut reader, shared.settings.tls.as_ref(), &shared.registry);
    let received = starting(&shared, timeout.as_mut(), receiving).await;
    let origin = Origin { host: &host, is_encrypted: reader.io_mut().is_encrypted() };
    let (mut reader, writer) = reader.map(tokio::io::split);
    let mut output = Output::new(writer);
    let request = match received {
        Ok(Some(request)) => request,
        Ok(None) => return farewell(reader, output, &shared).await,
        Err(ended) => return refuse(reader, output, ended, &shared).await,
    };
    let letting_in = let_in(&mut reader, &mut output, (request, origin), &shared);
    let admitted = match starting(&shared, timeout.as_mut(), letting_in).await {
        Ok(admitted) => admitted,
        Err(ended) => return refuse(reader, output, ended, &shared).await,
    };
    let Ok(_permit) = Arc::clone(&shared.sessions).try_acquire_owned() else {
        let error = PgError::new(SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already");
        return refuse(reader, output, Ended::Fatal(error), &shared).await;
    };
    match startup::begin(admitted, &shared.engine, &shared.registry, &mut output) {
        Ok((session, cancel)) => {
            let settings = Arc::clone(&shared.settings);
            let shutdown = shared.shutdown.clone();
            let parts = ConnectionParts { reader, output, session, settings, cancel, shutdown };
            let (ended, reader, output) = Connection::new(parts).run().await;
            tracing::debug!(%ended, "connection ended");
            farewell(reader, output, &shared).await;
        }
        Err(error) => refuse(reader, output, Ended::Fatal(error), &shared).await,
    }
}

/// Where a client comes from, and how.
#[derive(Clone, Copy, Debug)]
struct Origin<'a> {
    host: &'a str,
    is_encrypted: bool,
}

/// Answers a request for a session up to where the client is let in; gives the minor version of the
/// protocol, and what the session is to be.
async fn let_in<R, W>(
    reader: &mut FrameReader<R>,
    output: &mut Output<W>,
    (request, origin): (startup::StartupRequest, Origin<'_>),
    shared: &Shared,
) -> Result<(u32, SessionOptions), Ended>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let minor_version = startup::negotiate(&request, output);
    let options = startup::session_options(request.parameters).map_err(Ended::Fatal)?;
    let Origin { host, is_encrypted } = origin;
    let claimed = Claimed { user: &options.user, host };
    match shared.authenticator.authenticate(reader, output, claimed).await {
        Ok(permissions) => Ok((minor_version, SessionOptions { is_encrypted, permissions, ..options })),
        Err(refused) => {
            if matches!(refused, Ended::Fatal(_)) {
                shared.engine.clock().sleep(shared.settings.failed_authentication_delay).await;
            }
            Err(refused)
        }
    }
}

/// Does a part of the startup, within the time that all of it has.
async fn starting<T>(
    shared: &Shared,
    timeout: impl Future<Output = ()>,
    part: impl Future<Output = Result<T, Ended>>,
) -> Result<T, Ended> {
    tokio::select! {
        done = part => done,
        () = shared.shutdown.cancelled() => Err(Ended::Fatal(PgError::shutting_down())),
        () = timeout => Err(Ended::ClientGone),
    }
}

async fn refuse<R, W>(reader: FrameReader<R>, mut output: Output<W>, ended: Ended, shared: &Shared)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    tracing::debug!(%ended, "connection refused");
    if let Ended::Fatal(error) = &ended {
        output.error(error, Severity::Fatal);
    }
    farewell(reader, output, shared).await;
}

/// Sends what is left, as long as the client takes it.
async fn farewell<R, W>(mut reader: FrameReader<R>, mut output: Output<W>, shared: &Shared)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let close = async {
        match output.close().await {
            Ok(()) => reader.discard().await,
            Err(error) => tracing::debug!(%error, "connection was already closed"),
        }
    };
    tokio::select! {
        () = close => {}
        () = shared.engine.clock().sleep(FAREWELL_TIMEOUT) => {}
    }
}
