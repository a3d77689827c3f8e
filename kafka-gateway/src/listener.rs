//! The ports of a gateway: what each of them tells its clients, and asks of them.

use std::fmt;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_rustls::rustls::ServerConfig;

/// A port that clients connect to.
#[derive(Debug)]
pub struct Listener {
    pub socket: TcpListener,
    pub settings: ListenerSettings,
}

/// What a port is to its clients. The default is a port without TLS on which anyone is let in.
#[derive(Clone, Debug, Default)]
pub struct ListenerSettings {
    /// The host and port that clients are told to connect to. `None`: the local address that each
    /// client connected to, as a literal.
    pub advertised: Option<(String, u16)>,
    /// Certificates, and whether clients have to show one. `None`: no TLS.
    pub tls: Option<TlsSource>,
    pub authentication: Authentication,
}

/// What a port speaks TLS with. Each handshake asks for it, so that it can change.
#[derive(Clone)]
pub struct TlsSource(Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>);

impl TlsSource {
    pub fn new(current: impl Fn() -> Arc<ServerConfig> + Send + Sync + 'static) -> Self {
        Self(Arc::new(current))
    }

    pub fn current(&self) -> Arc<ServerConfig> {
        (self.0)()
    }
}

impl fmt::Debug for TlsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSource").finish_non_exhaustive()
    }
}

/// How the clients of a port prove who they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Authentication {
    /// They do not: a client is the subject of its certificate, or anonymous.
    #[default]
    None,
    /// By SASL, with one of these mechanisms. A client that has shown a certificate may go without.
    Sasl(Vec<SaslMechanism>),
}

/// The ways to prove who one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaslMechanism {
    /// RFC 4616: the password itself, as it is.
    Plain,
    /// RFC 5802 and 7677: the password stays with the client.
    ScramSha256,
    ScramSha512,
}

impl SaslMechanism {
    pub const ALL: [Self; 3] = [Self::Plain, Self::ScramSha256, Self::ScramSha512];

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

impl fmt::Display for SaslMechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
