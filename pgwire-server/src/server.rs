//! The listener: accepts connections within bounds, and waits for them at the end.
//!
//! Invariants: every connection is a task of one set that is awaited; a connection that fails, or
//! panics, harms no other; a cancel request is heard also when all sessions are taken.

use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use strandline_engine::Engine;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cancel::CancelRegistry;
use crate::error::{Ended, PgError, Severity};
use crate::session::startup;
use crate::session::{Connection, ConnectionParts};
use crate::settings::PgSettings;
use crate::sqlstate::SqlState;
use crate::telemetry::ConnectionGauge;
use crate::wire::frame::FrameReader;
use crate::wire::output::Output;

/// Sockets beyond the sessions: those that still start, and cancel requests.
const STARTING_CONNECTIONS_MAX: usize = 100;
/// How long to leave a listener alone that cannot accept, such as one out of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// How long a connection is silent before the client's machine is asked whether it is there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// How long an ended connection may take to hear why.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);

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
    sessions: Arc<Semaphore>,
    shutdown: CancellationToken,
}

impl Shared {
    fn new(engine: Arc<Engine>, settings: PgSettings) -> Self {
        Self {
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
pub async fn serve_stream<S>(stream: S, engine: Arc<Engine>, settings: PgSettings)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (reader, writer) = tokio::io::split(stream);
    serve_connection(reader, writer, Shared::new(engine, settings)).await;
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
    let (reader, writer) = socket.into_split();
    serve_connection(reader, writer, shared).await;
}

fn configure(socket: &TcpStream) -> std::io::Result<()> {
    // Answers are written whole, so waiting to fill packets would only delay them.
    socket.set_nodelay(true)?;
    // A client whose machine is gone says no goodbye.
    SockRef::from(socket).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE_IDLE))
}

async fn serve_connection<R, W>(reader: R, writer: W, shared: Shared)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let _gauge = ConnectionGauge::open();
    let mut reader = FrameReader::new(reader, shared.settings.message_bytes_max);
    let mut output = Output::new(writer);
    let request = match receive_startup(&mut reader, &mut output, &shared).await {
        Ok(Some(request)) => request,
        Ok(None) => return,
        Err(ended) => return refuse(reader, output, ended, &shared).await,
    };
    let Ok(_permit) = Arc::clone(&shared.sessions).try_acquire_owned() else {
        let error = PgError::new(SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already");
        return refuse(reader, output, Ended::Fatal(error), &shared).await;
    };
    match startup::begin(request, &shared.engine, &shared.registry, &mut output) {
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

async fn receive_startup<R, W>(
    reader: &mut FrameReader<R>,
    output: &mut Output<W>,
    shared: &Shared,
) -> Result<Option<startup::StartupRequest>, Ended>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    tokio::select! {
        request = startup::receive(reader, output, &shared.registry) => request,
        () = shared.shutdown.cancelled() => Err(Ended::Fatal(PgError::shutting_down())),
        () = shared.engine.clock().sleep(shared.settings.startup_timeout) => Err(Ended::ClientGone),
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
