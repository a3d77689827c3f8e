//! The bytes of a connection, with or without TLS.

use std::error::Error;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, split};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::endpoint::Endpoint;
use super::error::ClientError;
use crate::units::HostPort;

pub type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// Connects to a server.
pub async fn connect(endpoint: &Endpoint) -> Result<(Reader, Writer), ClientError> {
    let address = &endpoint.address;
    let unreachable = |error| ClientError::unreachable(address, &error);
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await.map_err(unreachable)?;
    stream.set_nodelay(true).map_err(unreachable)?;
    match &endpoint.tls {
        None => {
            let (reader, writer) = stream.into_split();
            Ok((Box::new(reader), Box::new(writer)))
        }
        Some(connector) => secure(connector, address, stream).await,
    }
}

async fn secure(
    connector: &TlsConnector,
    address: &HostPort,
    stream: TcpStream,
) -> Result<(Reader, Writer), ClientError> {
    let failed = |reason: String| ClientError::Tls { address: address.clone(), reason };
    let name = ServerName::try_from(address.host.clone()).map_err(|error| failed(error.to_string()))?;
    let stream = connector.connect(name, stream).await.map_err(|error| failed(explained(&error)))?;
    let (reader, writer) = split(stream);
    Ok((Box::new(reader), Box::new(writer)))
}

/// What a person can do about a handshake that failed.
fn explained(error: &std::io::Error) -> String {
    let cause = error.get_ref().and_then(|cause| (cause as &dyn Error).downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidCertificate(_)) => {
            format!("{error}; --tls-ca FILE names the authority of the server's certificate")
        }
        Some(rustls::Error::AlertReceived(_)) => format!("{error}: the server refused it"),
        _ => format!("{error}; is it a port without TLS? then leave out --tls and --tls-ca"),
    }
}
