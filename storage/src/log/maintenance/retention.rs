//! Which records have outlived their topic's retention. Pure.
//!
//! As in Kafka, whole units go: a slice or a block of the tail is deleted when all of its records are
//! beyond the limit, the oldest first, and never the newest unit of a partition by size.

use crate::format::event::LogStart;
use crate::ids::TopicPartition;
use crate::log::state::{PartitionState, ShardState};
use crate::log::topic_config::{RetentionReference, TopicConfig};

/// What decides about a unit.
#[derive(Clone, Copy, Debug)]
struct Unit {
    next_offset: i64,
    bytes: u64,
    /// -1 when no record has a timestamp.
    max_timestamp: i64,
    max_append_time_ms: i64,
}

/// The log starts that move at this time.
pub(in crate::log) fn expired(state: &ShardState, now_ms: i64) -> Vec<LogStart> {
    let deleting = state.topics.values().filter(|topic| topic.config.deletes_by_retention());
    let mut moved = Vec::new();
    for topic in deleting {
        for id in topic.partitions() {
            let Some(partition) = state.partitions.get(&id) else { continue };
            let log_start_offset = log_start(partition, &topic.config, now_ms);
            if log_start_offset > partition.log_start_offset {
                moved.push(LogStart { topic_id: id.topic_id, partition: id.partition, log_start_offset });
            }
        }
    }
    moved
}

/// How many offsets log starts that move leave behind.
pub(in crate::log) fn offsets_below(state: &ShardState, starts: &[LogStart]) -> u64 {
    let below = |start: &LogStart| {
        let id = TopicPartition::new(start.topic_id, start.partition);
        let before = state.partitions.get(&id).map_or(0, |partition| partition.log_start_offset);
        u64::try_from(start.log_start_offset - before).unwrap_or(0)
    };
    starts.iter().map(below).sum()
}

fn log_start(partition: &PartitionState, config: &TopicConfig, now_ms: i64) -> i64 {
    let mut log_start_offset = partition.log_start_offset;
    let mut bytes = partition.size_bytes;
    let last_stable_offset = partition.last_stable_offset();
    for unit in units(partition).take_while(|unit| unit.next_offset <= last_stable_offset) {
        let rest = bytes.saturating_sub(unit.bytes);
        let too_large = config.retention_bytes().is_some_and(|max| rest >= max);
        if !(too_large || is_too_old(&unit, config, now_ms)) {
            break;
        }
        log_start_offset = unit.next_offset;
        bytes = rest;
    }
    log_start_offset
}

fn is_too_old(unit: &Unit, config: &TopicConfig, now_ms: i64) -> bool {
    let Some(retention_ms) = config.retention_ms() else { return false };
    let by_record = config.retention_reference() == RetentionReference::Record && unit.max_timestamp >= 0;
    let time = if by_record { unit.max_timestamp } else { unit.max_append_time_ms };
    now_ms.saturating_sub(time) > retention_ms
}

fn units(partition: &PartitionState) -> impl Iterator<Item = Unit> {
    let slices = partition.slices.iter().map(|slice| Unit {
        next_offset: slice.slice.next_offset,
        bytes: slice.slice.data_length(),
        max_timestamp: slice.slice.max_timestamp,
        max_append_time_ms: slice.slice.max_append_time_ms,
    });
    let blocks = partition.blocks.iter().map(|block| Unit {
        next_offset: block.next_offset,
        bytes: u64::from(block.length),
        max_timestamp: block.max_timestamp,
        max_append_time_ms: block.append_time_ms,
    });
    slices.chain(blocks)
}
