//! What the engine counts and logs of each statement. docs/metrics.md says what the metrics mean.

use std::time::Duration;

use strandline_storage::table::{ScanCounter, ScanCounters};

use crate::queries::QueryEntry;

/// How a statement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryOutcome {
    Finished,
    Failed,
    Canceled,
    TimedOut,
    /// The client took no further rows.
    Dropped,
}

impl QueryOutcome {
    const ALL: [Self; 5] = [Self::Finished, Self::Failed, Self::Canceled, Self::TimedOut, Self::Dropped];

    fn name(self) -> &'static str {
        match self {
            Self::Finished => "ok",
            Self::Failed => "error",
            Self::Canceled => "canceled",
            Self::TimedOut => "timeout",
            Self::Dropped => "dropped",
        }
    }
}

/// Makes known what may never happen, so that it reads 0 and not nothing until it does.
pub fn register() {
    for outcome in QueryOutcome::ALL {
        metrics::counter!("strandline_queries_total", "status" => outcome.name()).increment(0);
    }
    metrics::counter!("strandline_query_rows_total").increment(0);
    metrics::counter!("strandline_scanned_bytes_total").increment(0);
    drop(metrics::histogram!("strandline_query_seconds"));
}

/// Counts a statement that has ended, and logs it when it was slow.
pub(crate) fn record(
    entry: &QueryEntry,
    outcome: QueryOutcome,
    elapsed: Duration,
    slow: Duration,
    scans: &ScanCounters,
) {
    metrics::counter!("strandline_queries_total", "status" => outcome.name()).increment(1);
    metrics::histogram!("strandline_query_seconds").record(elapsed.as_secs_f64());
    metrics::counter!("strandline_query_rows_total").increment(entry.rows());
    metrics::counter!("strandline_scanned_bytes_total").absolute(scans.get(ScanCounter::BytesScanned));
    if elapsed >= slow {
        let query = entry.description();
        tracing::info!(
            seconds = elapsed.as_secs_f64(),
            rows = entry.rows(),
            status = outcome.name(),
            user = query.user,
            application = query.application_name,
            query = query.text.split_whitespace().collect::<Vec<_>>().join(" "),
            "slow query"
        );
    }
}
