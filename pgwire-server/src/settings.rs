//! Who may come in at the Postgres listener, by which kind of connection, and the limits, each checked at
//! the edge.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use strandline_engine::access::Authorizer;
use tokio_rustls::TlsAcceptor;

/// What TLS clients that speak without asking first say that they speak (ALPN): the configuration behind
/// the acceptor has to name it.
pub const TLS_PROTOCOL: &[u8] = b"postgresql";

/// Who is let in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Authentication {
    /// Any user name; who may connect from where is decided where the listener is bound.
    #[default]
    Any,
    /// Users of the log that prove who they are, for what its rules allow.
    Required(Arc<Authorizer>),
}

/// Whether clients may connect in the clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsMode {
    Optional,
    Required,
}

/// Encrypted connections.
#[derive(Clone)]
pub struct PgTls {
    pub acceptor: TlsAcceptor,
    pub mode: TlsMode,
}

impl fmt::Debug for PgTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgTls").field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// The listener and the engine come beside it.
#[derive(Clone, Debug)]
pub struct PgSettings {
    /// Sessions at one time; further clients are refused with 53300.
    pub connections_max: usize,
    pub authentication: Authentication,
    /// None = connections in the clear only.
    pub tls: Option<PgTls>,
    /// The longest message that carries a statement or parameters.
    pub message_bytes_max: usize,
    /// From the accepted socket to the end of the startup exchange.
    pub startup_timeout: Duration,
    /// How long a client waits to hear that it did not prove who it is, so that guessing is slow.
    pub failed_authentication_delay: Duration,
    pub prepared_statements_max: usize,
    pub portals_max: usize,
    /// How long sessions may take to end after shutdown was asked for.
    pub drain_timeout: Duration,
}

impl Default for PgSettings {
    fn default() -> Self {
        Self {
            connections_max: 100,
            authentication: Authentication::Any,
            tls: None,
            message_bytes_max: 64 * 1024 * 1024,
            startup_timeout: Duration::from_secs(60),
            failed_authentication_delay: Duration::from_millis(100),
            prepared_statements_max: 10_000,
            portals_max: 1_000,
            drain_timeout: Duration::from_secs(5),
        }
    }
}
