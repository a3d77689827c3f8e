//! The limits of the Postgres listener, each checked at the edge.

use std::time::Duration;

/// Values only; the listener and the engine come beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PgSettings {
    /// Sessions at one time; further clients are refused with 53300.
    pub connections_max: usize,
    /// The longest message that carries a statement or parameters.
    pub message_bytes_max: usize,
    /// From the accepted socket to the end of the startup exchange.
    pub startup_timeout: Duration,
    pub prepared_statements_max: usize,
    pub portals_max: usize,
    /// How long sessions may take to end after shutdown was asked for.
    pub drain_timeout: Duration,
}

impl Default for PgSettings {
    fn default() -> Self {
        Self {
            connections_max: 100,
            message_bytes_max: 64 * 1024 * 1024,
            startup_timeout: Duration::from_secs(60),
            prepared_statements_max: 10_000,
            portals_max: 1_000,
            drain_timeout: Duration::from_secs(5),
        }
    }
}
