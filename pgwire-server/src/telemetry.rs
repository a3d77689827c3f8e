//! The metrics of the Postgres listener: names in one place. docs/metrics.md says what they mean.

use metrics::{counter, gauge};

use crate::sqlstate::SqlState;

/// Makes known what may never happen, so that it reads 0 and not nothing until it does.
pub fn register() {
    for protocol in [Protocol::Simple, Protocol::Extended] {
        counter!("strandline_pg_statements_total", "protocol" => protocol.name()).increment(0);
    }
    counter!("strandline_pg_rows_total").increment(0);
    counter!("strandline_pg_cancels_total").increment(0);
    gauge!("strandline_pg_connections").increment(0.0);
}

/// Counts one connection for as long as it lives.
#[derive(Debug)]
pub(crate) struct ConnectionGauge(());

impl ConnectionGauge {
    pub(crate) fn open() -> Self {
        gauge!("strandline_pg_connections").increment(1.0);
        Self(())
    }
}

impl Drop for ConnectionGauge {
    fn drop(&mut self) {
        gauge!("strandline_pg_connections").decrement(1.0);
    }
}

/// Which of the two query protocols a statement came by.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Protocol {
    Simple,
    Extended,
}

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Extended => "extended",
        }
    }
}

pub(crate) fn statement_started(protocol: Protocol) {
    counter!("strandline_pg_statements_total", "protocol" => protocol.name()).increment(1);
}

pub(crate) fn error_sent(state: SqlState) {
    counter!("strandline_pg_errors_total", "class" => state.class()).increment(1);
}

pub(crate) fn rows_sent(count: u64) {
    counter!("strandline_pg_rows_total").increment(count);
}

pub(crate) fn canceled_by_request() {
    counter!("strandline_pg_cancels_total").increment(1);
}
