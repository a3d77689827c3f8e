//! Decides which partitions are to be cleaned, and how far. Pure.
//!
//! As in Kafka's `LogCleanerManager`: when enough of what could be cleaned was not, or some of it has
//! waited for `max.compaction.lag.ms`; and also when tombstones that were kept are due to go.

use crate::ids::ObjectId;
use crate::log::maintenance::run::Run;
use crate::log::settings::MaintenanceSettings;
use crate::log::state::{AbortedRange, InstalledSlice, PartitionState, ShardState};
use crate::log::topic_config::TopicConfig;

/// A partition to clean.
#[derive(Debug)]
pub(super) struct CleanPlan {
    /// All slices from the log start to the last that may be cleaned.
    pub(super) run: Run,
    /// Records below were cleaned before.
    pub(super) cleaned_offset: i64,
    pub(super) aborted: Vec<AbortedRange>,
    pub(super) delete_retention_ms: i64,
}

/// The partitions that are due, as many as one install takes.
pub(super) fn plan_cleaning(
    state: &ShardState,
    settings: &MaintenanceSettings,
    now_ms: i64,
    is_excluded: impl Fn(ObjectId) -> bool,
) -> Vec<CleanPlan> {
    let mut plans = Vec::new();
    let mut bytes = 0;
    for topic in state.topics.values().filter(|topic| topic.config.compacts()) {
        for id in topic.partitions() {
            let Some(partition) = state.partitions.get(&id) else { continue };
            let count = cleanable(partition, &topic.config, now_ms);
            let slices = partition.slices.iter().take(count);
            let mut objects = slices.filter_map(|slice| slice.slice.location());
            if objects.any(|location| is_excluded(location.object))
                || !is_due(partition, count, &topic.config, now_ms)
            {
                continue;
            }
            let run = Run::of_slices(id, partition, 0..count, topic.config.segment_bytes());
            bytes += run.data_length();
            plans.push(CleanPlan {
                aborted: partition.aborted_from(run.base_offset).copied().collect(),
                run,
                cleaned_offset: partition.cleaned_offset,
                delete_retention_ms: topic.config.delete_retention_ms(),
            });
            if bytes >= settings.segment_bytes_max {
                return plans;
            }
        }
    }
    plans
}

/// How many slices may be cleaned: those before the last stable offset whose records are all old
/// enough.
fn cleanable(partition: &PartitionState, config: &TopicConfig, now_ms: i64) -> usize {
    let last_stable_offset = partition.last_stable_offset();
    let lag_ms = config.min_compaction_lag_ms();
    let is_old_enough = |slice: &InstalledSlice| {
        let newest = known_time(slice.slice.max_timestamp, slice.slice.max_append_time_ms);
        lag_ms == 0 || newest <= now_ms.saturating_sub(lag_ms)
    };
    let may_be_cleaned = |slice: &&InstalledSlice| {
        let is_clean = slice.slice.next_offset <= partition.cleaned_offset;
        slice.slice.next_offset <= last_stable_offset && (is_clean || is_old_enough(slice))
    };
    partition.slices.iter().take_while(may_be_cleaned).count()
}

fn is_due(partition: &PartitionState, count: usize, config: &TopicConfig, now_ms: i64) -> bool {
    let slices = || partition.slices.iter().take(count).map(|slice| &slice.slice);
    let dirty = || slices().filter(|slice| slice.next_offset > partition.cleaned_offset);
    let total_bytes: u64 = slices().map(|slice| slice.data_length()).sum();
    let dirty_bytes: u64 = dirty().map(|slice| slice.data_length()).sum();
    // Bytes are far below 2^52.
    let is_dirty = dirty_bytes as f64 > total_bytes as f64 * config.min_cleanable_dirty_ratio();
    let waited = dirty()
        .next()
        .map_or(0, |first| now_ms.saturating_sub(known_time(first.min_timestamp, first.min_append_time_ms)));
    let has_waited = dirty_bytes > 0 && waited > config.max_compaction_lag_ms();
    let horizon_passed = slices().any(|slice| slice.delete_horizon_ms.is_some_and(|at| at <= now_ms));
    is_dirty || has_waited || horizon_passed
}

/// The time of records, or of their append where they have none.
fn known_time(timestamp: i64, append_time_ms: i64) -> i64 {
    if timestamp >= 0 { timestamp } else { append_time_ms }
}
