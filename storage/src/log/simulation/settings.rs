//! Thresholds so small that everything happens all the time, drawn from the seed.

use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;

use super::WrongRule;
use crate::log::{LogSettings, MaintenanceSettings};

/// The settings of all processes of a run.
pub(super) fn draw_settings(rng: &mut StdRng, wrong_rule: Option<WrongRule>) -> LogSettings {
    // Half of the runs read everything from the store.
    let memory = if rng.random_bool(0.5) { 0 } else { 1 << 20 };
    let mut maintenance = draw_maintenance(rng);
    if wrong_rule.is_some_and(WrongRule::forgets_to_ask) {
        // The more an owner deletes while another one opens, the sooner it shows.
        maintenance.checkpoint_wal_objects = Some(4);
        maintenance.checkpoints_kept = 1;
        maintenance.wal_delete_delay = Duration::ZERO;
    }
    // Most logs have one shard, and so do those whose rules are broken: each rule is one of a shard.
    let is_spread = rng.random_bool(0.25) && wrong_rule.is_none();
    LogSettings {
        shards: if is_spread { 3 } else { 1 },
        maintenance,
        tail_bytes_max: memory,
        cache_bytes_max: memory,
        node: "simulated".to_owned(),
        wrong_rule,
        ..LogSettings::default()
    }
}

fn draw_maintenance(rng: &mut StdRng) -> MaintenanceSettings {
    let mut seconds = |range: std::ops::Range<u64>| Duration::from_secs(rng.random_range(range));
    let (compaction_interval, checkpoint_interval) = (seconds(4..40), seconds(3..30));
    let (checkpoint_age_max, erase_delay) = (seconds(20..100), seconds(10..40));
    let (orphan_age, sweep_interval) = (seconds(4..30), seconds(3..30));
    let (mut wal_delete_delay, mut segment_delete_delay) = (seconds(0..3), seconds(0..4));
    let is_patient = rng.random_bool(0.25);
    if is_patient {
        (wal_delete_delay, segment_delete_delay) = (Duration::from_secs(60), Duration::from_secs(60));
    }
    MaintenanceSettings {
        compaction_bytes: 1 << 20,
        compaction_objects: Some(rng.random_range(3..12)),
        compaction_interval,
        compaction_input_bytes_max: if rng.random_bool(0.5) { 600 } else { 1 << 30 },
        own_segment_bytes: if rng.random_bool(0.5) { 1500 } else { 1 << 30 },
        shared_segment_bytes: if rng.random_bool(0.5) { 800 } else { 1 << 30 },
        segment_bytes_max: 60_000,
        merge_slices: 3,
        small_slice_bytes: 12_000,
        checkpoint_interval,
        checkpoint_wal_objects: Some(rng.random_range(4..30)),
        checkpoints_kept: rng.random_range(1..=3),
        checkpoint_age_max,
        wal_delete_delay,
        segment_delete_delay: Some(segment_delete_delay),
        erase_delay,
        orphan_age,
        sweep_interval,
        retention_interval: Duration::from_secs(5),
        clean_interval: Duration::from_secs(7),
        ..MaintenanceSettings::default()
    }
}
