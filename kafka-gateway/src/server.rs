//! Accepts connections on every port, and drains them when the gateway is to stop.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use strandline_storage::log::Log;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::connection;
use crate::context::Gateway;
use crate::listener::{Listener, ListenerSettings};
use crate::settings::GatewaySettings;
use crate::telemetry;

/// How long nothing is accepted after the system refused a connection, for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why the gateway ended.
#[derive(Debug, Error)]
pub enum ServeError {
    #[error("kafka listener failed: {0}")]
    Listener(#[source] io::Error),
    #[error("no kafka listener was given")]
    NoListener,
}

/// Serves the Kafka protocol on every listener until `shutdown` resolves. Then no more connections
/// and requests are accepted, requests in flight are answered, and at the latest after
/// `settings.drain_timeout` all connections are closed.
///
/// # Errors
/// A listener without a local address, or none at all.
pub async fn serve(
    listeners: Vec<Listener>,
    log: Log,
    settings: GatewaySettings,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    check(&listeners)?;
    let (drain, draining) = watch::channel(false);
    let gateway = Gateway::new(log, settings, draining);
    let ports = listeners.into_iter().map(|listener| serve_listener(gateway.clone(), listener));
    let mut served = std::pin::pin!(join_all(ports));
    let mut groups = std::pin::pin!(gateway.groups.run());
    tokio::select! {
        () = shutdown => (),
        () = &mut groups => (),
        () = gateway.transactions.run() => (),
        _ = &mut served => unreachable!("a listener is served until the gateway drains"),
    }
    drain.send_replace(true);
    // What is in flight may change a group.
    tokio::select! {
        _ = served => (),
        () = &mut groups => (),
    }
    Ok(())
}

fn check(listeners: &[Listener]) -> Result<(), ServeError> {
    for listener in listeners {
        let address = listener.socket.local_addr().map_err(ServeError::Listener)?;
        let tls = listener.settings.tls.is_some();
        tracing::info!(%address, tls, "serving the kafka protocol");
    }
    if listeners.is_empty() { Err(ServeError::NoListener) } else { Ok(()) }
}

/// Accepts connections until the gateway drains, and then waits for them. Those that have ended are
/// collected on the way.
async fn serve_listener(gateway: Arc<Gateway>, listener: Listener) {
    let Listener { socket: listener, settings } = listener;
    let settings = Arc::new(settings);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = gateway.drained() => break,
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => begin(&gateway, socket, &settings, &mut connections),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    gateway.clock().sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(ended) = connections.join_next() => report_panic(ended),
        }
    }
    drop(listener);
    drain_connections(&gateway, connections).await;
}

fn begin(
    gateway: &Arc<Gateway>,
    socket: TcpStream,
    listener: &Arc<ListenerSettings>,
    connections: &mut JoinSet<()>,
) {
    let connections_max = gateway.settings.connections_max;
    if connections.len() >= connections_max {
        telemetry::connection_refused();
        tracing::warn!(connections_max, "connection refused: there are too many");
        return;
    }
    connections.spawn(connection::serve(gateway.clone(), socket, listener.clone()));
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
