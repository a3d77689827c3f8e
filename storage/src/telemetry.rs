//! The names of all metrics of the log and its store, each recorded by a function of its own.
//! docs/metrics.md says what they mean.

use std::time::Duration;

use metrics::{counter, histogram};

/// What appends wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppendWait {
    /// Too much is not durable yet.
    Pending,
    /// Too much is not compacted yet.
    Compaction,
}

impl AppendWait {
    fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Compaction => "compaction",
        }
    }
}

/// Makes known what may never happen, so that it reads 0 and not nothing until it does.
pub fn register() {
    for name in [
        "strandline_commits_total",
        "strandline_reopens_total",
        "strandline_maintenance_failures_total",
        "strandline_checkpoints_total",
        "strandline_checkpoint_bytes_total",
        "strandline_retention_offsets_total",
    ] {
        counter!(name).increment(0);
    }
    for wait in [AppendWait::Pending, AppendWait::Compaction] {
        drop(histogram!("strandline_append_wait_seconds", "reason" => wait.name()));
    }
    for kind in ["compacted", "merged", "cleaned"] {
        counter!("strandline_compaction_bytes_total", "kind" => kind).increment(0);
        drop(histogram!("strandline_compaction_seconds", "kind" => kind));
    }
    for kind in ["wal", "data", "pages", "checkpoints"] {
        counter!("strandline_objects_deleted_total", "kind" => kind).increment(0);
    }
    for result in ["hit", "miss"] {
        counter!("strandline_block_cache_requests_total", "result" => result).increment(0);
    }
}

/// The put of a WAL object that came to its end.
pub(crate) fn commit_put(took: Duration, bytes: usize) {
    histogram!("strandline_commit_seconds").record(took.as_secs_f64());
    histogram!("strandline_commit_bytes").record(bytes as f64);
}

/// A commit that readers see.
pub(crate) fn commit_published() {
    counter!("strandline_commits_total").increment(1);
}

/// A shard that opens itself again after a failure of its own.
pub(crate) fn reopening() {
    counter!("strandline_reopens_total").increment(1);
}

/// An append that had to wait.
pub(crate) fn append_waited(wait: AppendWait, took: Duration) {
    histogram!("strandline_append_wait_seconds", "reason" => wait.name()).record(took.as_secs_f64());
}

/// Segments that were installed, by what was done: compacted, merged or cleaned.
pub(crate) fn segments_installed(kind: &'static str, bytes_read: u64, took: Duration) {
    counter!("strandline_compaction_bytes_total", "kind" => kind).increment(bytes_read);
    histogram!("strandline_compaction_seconds", "kind" => kind).record(took.as_secs_f64());
}

pub(crate) fn maintenance_failed() {
    counter!("strandline_maintenance_failures_total").increment(1);
}

pub(crate) fn checkpoint_written(bytes: u64) {
    counter!("strandline_checkpoints_total").increment(1);
    counter!("strandline_checkpoint_bytes_total").increment(bytes);
}

/// Offsets that retention has put below the log start.
pub(crate) fn retention_deleted(offsets: u64) {
    counter!("strandline_retention_offsets_total").increment(offsets);
}

/// An object that nothing needs any more; its kind is the directory of its key.
pub(crate) fn object_deleted(key: &str) {
    let kind = match key.split('/').nth(2) {
        Some("wal") => "wal",
        Some("data") => "data",
        Some("pages") => "pages",
        _ => "checkpoints",
    };
    counter!("strandline_objects_deleted_total", "kind" => kind).increment(1);
}

pub(crate) fn block_cache_asked(result: &'static str) {
    counter!("strandline_block_cache_requests_total", "result" => result).increment(1);
}

pub(crate) fn object_requested(verb: &'static str, status: &'static str) {
    counter!("strandline_object_requests_total", "verb" => verb, "status" => status).increment(1);
}

pub(crate) fn object_request_took(verb: &'static str, took: Duration) {
    histogram!("strandline_object_request_seconds", "verb" => verb).record(took.as_secs_f64());
}

pub(crate) fn object_bytes(verb: &'static str, bytes: u64) {
    counter!("strandline_object_bytes_total", "verb" => verb).increment(bytes);
}
