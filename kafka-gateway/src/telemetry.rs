//! The names of all metrics of the gateway, each recorded by a function of its own. docs/metrics.md says
//! what they mean.

use std::time::Duration;

use metrics::{counter, gauge, histogram};
use strandline_storage::format::event::TransactionResult;

use crate::listener::SaslMechanism;
use crate::quota::{CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE};

/// Makes known what may never happen, so that it reads 0 and not nothing until it does.
pub fn register() {
    for name in [
        "strandline_kafka_malformed_frames_total",
        "strandline_kafka_unsupported_requests_total",
        "strandline_kafka_failed_authentications_total",
        "strandline_kafka_failed_tls_handshakes_total",
        "strandline_kafka_produced_records_total",
        "strandline_kafka_produced_bytes_total",
        "strandline_kafka_fetched_records_total",
        "strandline_kafka_fetched_bytes_total",
        "strandline_kafka_time_lookups_total",
        "strandline_kafka_accepted_connections_total",
        "strandline_kafka_refused_connections_total",
    ] {
        counter!(name).increment(0);
    }
    for mechanism in SaslMechanism::ALL {
        counter!("strandline_kafka_authentications_total", "mechanism" => mechanism.name()).increment(0);
    }
    for quota in [PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE] {
        counter!("strandline_kafka_throttled_total", "quota" => quota).increment(0);
    }
    for result in ["commit", "abort"] {
        counter!("strandline_kafka_transactions_total", "result" => result).increment(0);
    }
    gauge!("strandline_kafka_connections").increment(0);
}

/// One answered request. `error` is the first error code that its answer holds.
pub(crate) fn request_answered(api: &'static str, error: i16, took: Duration) {
    counter!("strandline_kafka_requests_total", "api" => api, "error" => error.to_string()).increment(1);
    histogram!("strandline_kafka_request_seconds", "api" => api).record(took.as_secs_f64());
}

/// A frame that was refused before or while it was decoded; its connection is closed.
pub(crate) fn malformed_frame() {
    counter!("strandline_kafka_malformed_frames_total").increment(1);
}

/// A request for an API or a version that is not served; its connection is closed.
pub(crate) fn unsupported_request() {
    counter!("strandline_kafka_unsupported_requests_total").increment(1);
}

/// A client that has proven who it is.
pub(crate) fn authenticated(mechanism: &'static str) {
    counter!("strandline_kafka_authentications_total", "mechanism" => mechanism).increment(1);
}

/// A client that has not; its connection is closed.
pub(crate) fn authentication_failed() {
    counter!("strandline_kafka_failed_authentications_total").increment(1);
}

/// A TLS handshake that did not come about; its connection is closed.
pub(crate) fn tls_failed() {
    counter!("strandline_kafka_failed_tls_handshakes_total").increment(1);
}

pub(crate) fn produced(records: u64, bytes: u64) {
    counter!("strandline_kafka_produced_records_total").increment(records);
    counter!("strandline_kafka_produced_bytes_total").increment(bytes);
}

pub(crate) fn fetched(records: u64, bytes: u64) {
    counter!("strandline_kafka_fetched_records_total").increment(records);
    counter!("strandline_kafka_fetched_bytes_total").increment(bytes);
}

/// One answer whose client has to wait, because it is over the quota of this key.
pub(crate) fn throttled(quota: &'static str) {
    counter!("strandline_kafka_throttled_total", "quota" => quota).increment(1);
}

/// One lookup of an offset by time.
pub(crate) fn looked_up_time() {
    counter!("strandline_kafka_time_lookups_total").increment(1);
}

/// One transaction whose end was decided.
pub(crate) fn transaction_ended(result: TransactionResult) {
    let result = match result {
        TransactionResult::Commit => "commit",
        TransactionResult::Abort => "abort",
    };
    counter!("strandline_kafka_transactions_total", "result" => result).increment(1);
}

/// Counts a connection as open for as long as it lives.
#[derive(Debug)]
pub(crate) struct OpenConnection(());

impl OpenConnection {
    pub(crate) fn new() -> Self {
        counter!("strandline_kafka_accepted_connections_total").increment(1);
        gauge!("strandline_kafka_connections").increment(1);
        Self(())
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        gauge!("strandline_kafka_connections").decrement(1);
    }
}

/// A connection that was closed at once because there were too many.
pub(crate) fn connection_refused() {
    counter!("strandline_kafka_refused_connections_total").increment(1);
}
