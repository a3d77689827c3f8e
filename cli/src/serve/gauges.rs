//! Metrics that are looked up when somebody asks for them, rather than counted as they change.

use metrics::{counter, gauge};
use strandline_storage::log::{Log, ShardStats, Snapshot};

use super::readiness::Readiness;

/// Looks them up.
pub fn record(readiness: &Readiness) {
    gauge!("strandline_ready").set(if readiness.check().is_ok() { 1.0 } else { 0.0 });
    if let Some(bytes) = resident_bytes() {
        gauge!("strandline_process_resident_bytes").set(bytes as f64);
    }
    let Some(log) = readiness.log() else { return };
    let (snapshot, now_ms) = (log.snapshot(), log.seams().clock.now_ms());
    record_memory(&log);
    gauge!("strandline_topics").set(snapshot.topics().count() as f64);
    let partitions = snapshot.topics().map(|topic| topic.partitions().count()).sum::<usize>();
    gauge!("strandline_partitions").set(partitions as f64);
    for stats in snapshot.shard_stats() {
        record_shard(&stats, now_ms);
    }
    record_groups(&snapshot);
    record_transactions(&snapshot, now_ms);
}

fn record_memory(log: &Log) {
    let stats = log.stats();
    gauge!("strandline_pending_bytes").set(stats.pending_bytes as f64);
    gauge!("strandline_tail_bytes").set(stats.tail_bytes as f64);
    gauge!("strandline_block_cache_bytes").set(stats.cache_bytes as f64);
}

fn record_shard(stats: &ShardStats, now_ms: i64) {
    let shard = stats.shard.to_string();
    counter!("strandline_wal_objects_total", "shard" => shard.clone()).absolute(stats.wal_objects);
    counter!("strandline_wal_bytes_total", "shard" => shard.clone()).absolute(stats.wal_bytes);
    let epoch = stats.position.map_or(0, |position| position.writer_epoch);
    let checkpoint_age_ms = stats.checkpoint_at_ms.map_or(0, |at_ms| now_ms.saturating_sub(at_ms).max(0));
    for (name, value) in [
        ("strandline_writer_epoch", epoch as f64),
        ("strandline_uncompacted_bytes", stats.tail_bytes as f64),
        ("strandline_uncompacted_objects", stats.wal_objects_since_compaction as f64),
        ("strandline_segments", stats.segments as f64),
        ("strandline_segment_bytes", stats.segment_bytes as f64),
        ("strandline_segment_live_bytes", stats.live_bytes as f64),
        ("strandline_segment_garbage_bytes", stats.garbage_bytes as f64),
        ("strandline_checkpoint_age_seconds", checkpoint_age_ms as f64 / 1000.0),
    ] {
        gauge!(name, "shard" => shard.clone()).set(value);
    }
}

/// A group without members reads nothing: that it falls behind is no news.
fn record_groups(snapshot: &Snapshot) {
    let active: Vec<&str> =
        snapshot.group_states().filter(|(_, state)| state.has_members()).map(|(group, _)| group).collect();
    let lags = active.iter().flat_map(|group| snapshot.group_offsets(group)).filter_map(|(id, committed)| {
        Some(snapshot.partition(id)?.bounds().high_watermark - committed.offset)
    });
    gauge!("strandline_group_lag_max_records").set(lags.max().unwrap_or(0) as f64);
    gauge!("strandline_groups").set(snapshot.group_count() as f64);
    gauge!("strandline_groups_active").set(active.len() as f64);
}

fn record_transactions(snapshot: &Snapshot, now_ms: i64) {
    let began: Vec<i64> = snapshot.transactional_ids().filter_map(|id| id.started_at_ms).collect();
    let oldest_ms = began.iter().min().map_or(0, |oldest| now_ms.saturating_sub(*oldest).max(0));
    gauge!("strandline_transactions_open").set(began.len() as f64);
    gauge!("strandline_transaction_age_max_seconds").set(oldest_ms as f64 / 1000.0);
}

/// Memory of this process in use, where the system tells.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kibibytes * 1024)
}
