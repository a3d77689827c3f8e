//! Accepts connections, and drains them when the gateway is to stop.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use strandline_storage::log::Log;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::authorize::Principal;
use crate::connection;
use crate::context::{Connection, Gateway};
use crate::settings::GatewaySettings;
use crate::telemetry;

/// How long nothing is accepted after the system refused a connection, for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why the gateway ended.
#[derive(Debug, Error)]
pub enum ServeError {
    #[error("kafka listener failed: {0}")]
    Listener(#[source] io::Error),
}

/// Serves the Kafka protocol on a listener until `shutdown` resolves. Then no more connections and
/// requests are accepted, requests in flight are answered, and at the latest after
/// `settings.drain_timeout` all connections are closed.
///
/// # Errors
/// A listener without a local address.
pub async fn serve(
    listener: TcpListener,
    log: Log,
    settings: GatewaySettings,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let address = listener.local_addr().map_err(ServeError::Listener)?;
    let (drain, draining) = watch::channel(false);
    let gateway = Gateway::new(log, settings, draining);
    tracing::info!(%address, "serving the kafka protocol");
    let mut connections = JoinSet::new();
    let mut groups = std::pin::pin!(gateway.groups.run());
    tokio::select! {
        () = shutdown => (),
        () = &mut groups => (),
        () = gateway.transactions.run() => (),
        () = accept(&gateway, &listener, &mut connections) => (),
    }
    drop(listener);
    drain.send_replace(true);
    // What is in flight may change a group.
    tokio::select! {
        () = drain_connections(&gateway, connections) => (),
        () = &mut groups => (),
    }
    Ok(())
}

/// Accepts connections; never ends. Those that have ended are collected on the way.
async fn accept(gateway: &Arc<Gateway>, listener: &TcpListener, connections: &mut JoinSet<()>) {
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => begin(gateway, socket, connections),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    gateway.clock().sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(ended) = connections.join_next() => report_panic(ended),
        }
    }
}

fn begin(gateway: &Arc<Gateway>, socket: TcpStream, connections: &mut JoinSet<()>) {
    let connections_max = gateway.settings.connections_max;
    if connections.len() >= connections_max {
        telemetry::connection_refused();
        tracing::warn!(connections_max, "connection refused: there are too many");
        return;
    }
    match describe(&socket) {
        Ok(connection) => {
            connections.spawn(connection::serve(gateway.clone(), socket, connection));
        }
        Err(error) => tracing::debug!(%error, "a connection ended before it was served"),
    }
}

fn describe(socket: &TcpStream) -> io::Result<Connection> {
    // Answers are small and awaited.
    socket.set_nodelay(true)?;
    Ok(Connection::new(Principal::anonymous(), socket.local_addr()?, socket.peer_addr()?))
}

async fn drain_connections(gateway: &Gateway, mut connections: JoinSet<()>) {
    let drained = async {
        while let Some(ended) = connections.join_next().await {
            report_panic(ended);
        }
    };
    tokio::select! {
        () = drained => (),
        () = gateway.clock().sleep(gateway.settings.drain_timeout) => {
            tracing::warn!("connections closed with requests that were not answered");
        }
    }
}

/// A panic ends its own connection and nothing else.
fn report_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection ended by a bug");
    }
}
