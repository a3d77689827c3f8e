//! The TLS side of a connection: its handshake, within a bound of time, and who the client's
//! certificate says that it is.

use std::io;
use std::sync::Arc;

use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;

use crate::authentication::certificate::{CertificateError, subject_name};
use crate::authorize::Principal;

/// The first byte of a TLS record that holds a handshake message.
const HANDSHAKE_RECORD: u8 = 22;
/// The major version of every TLS record since SSL 3.
const RECORD_VERSION: u8 = 3;

/// Why a connection to a port with TLS did not come about.
#[derive(Debug, Error)]
pub(crate) enum TlsError {
    #[error("no TLS handshake on a listener with TLS: the client speaks plaintext")]
    Plaintext,
    #[error("TLS handshake failed: {0}")]
    Handshake(#[source] io::Error),
    #[error("client certificate cannot be used: {0}")]
    Certificate(#[from] CertificateError),
}

/// Whether bytes that should be a frame begin as a TLS handshake does.
pub(crate) fn is_handshake(first: &[u8]) -> bool {
    first.starts_with(&[HANDSHAKE_RECORD, RECORD_VERSION])
}

/// Makes a socket a TLS stream. `None`: the client has gone before it said anything.
pub(crate) async fn accept(
    socket: TcpStream,
    config: Arc<ServerConfig>,
) -> Result<Option<TlsStream<TcpStream>>, TlsError> {
    let mut first = [0];
    match socket.peek(&mut first).await {
        Ok(0) => return Ok(None),
        Ok(_) if first != [HANDSHAKE_RECORD] => return Err(TlsError::Plaintext),
        Ok(_) => {}
        Err(error) => return Err(TlsError::Handshake(error)),
    }
    TlsAcceptor::from(config).accept(socket).await.map(Some).map_err(TlsError::Handshake)
}

/// Who the client is by its certificate, which the handshake has verified. `None`: it has shown none.
pub(crate) fn principal(stream: &TlsStream<TcpStream>) -> Result<Option<Principal>, TlsError> {
    let (_, session) = stream.get_ref();
    let certificate = session.peer_certificates().and_then(<[_]>::first);
    let name = certificate.map(|certificate| subject_name(certificate)).transpose()?;
    Ok(name.map(Principal::user))
}
