//! Decides what is to be compacted, merged or written anew. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use super::run::{Input, Run};
use crate::ids::{BlockObject, ObjectId, TopicPartition, WalPosition};
use crate::log::settings::MaintenanceSettings;
use crate::log::state::{PartitionState, ShardState};

/// Runs whose results are installed together.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) runs: Vec<Run>,
    /// How many WAL objects the log had up to the newest one that is compacted; 0 for a merge.
    pub(super) wal_objects: u64,
}

/// All blocks of the oldest WAL objects, as many as one compaction may read; `None` when the WAL
/// holds none.
pub(super) fn plan_compaction(state: &ShardState, settings: &MaintenanceSettings) -> Option<Plan> {
    let (through, left_over) = newest_to_compact(state, settings.compaction_input_bytes_max)?;
    let runs = state.partitions.iter().filter_map(|(id, partition)| {
        let slice_bytes_max = slice_bytes_max(state, *id);
        wal_run(*id, partition, through).map(|run| Run { slice_bytes_max, ..run })
    });
    Some(Plan { runs: runs.collect(), wal_objects: state.wal_objects.saturating_sub(left_over) })
}

fn slice_bytes_max(state: &ShardState, id: TopicPartition) -> u64 {
    state.topics.get(&id.topic_id).map_or(u64::MAX, |topic| topic.config.segment_bytes())
}

/// The newest WAL object whose blocks are compacted, and how many with blocks come after it.
fn newest_to_compact(state: &ShardState, bytes_max: u64) -> Option<(WalPosition, u64)> {
    let mut objects: BTreeMap<WalPosition, u64> = BTreeMap::new();
    for block in state.partitions.values().flat_map(|partition| &partition.blocks) {
        if let BlockObject::Wal(position) = block.object {
            *objects.entry(position).or_default() += u64::from(block.length);
        }
    }
    let mut bytes = 0;
    let fits = objects.iter().take_while(|(_, length)| {
        let is_first = bytes == 0;
        bytes += **length;
        is_first || bytes <= bytes_max
    });
    let count = fits.count();
    let (through, _) = objects.iter().nth(count.checked_sub(1)?)?;
    Some((*through, (objects.len() - count) as u64))
}

fn wal_run(topic_partition: TopicPartition, state: &PartitionState, through: WalPosition) -> Option<Run> {
    let through = BlockObject::Wal(through);
    let blocks: Vec<_> = state.blocks.iter().take_while(|block| block.object <= through).copied().collect();
    let next_offset = blocks.last()?.next_offset;
    Some(Run {
        topic_partition,
        base_offset: state.tail_offset(),
        next_offset,
        log_start_offset: state.log_start_offset,
        slice_bytes_max: u64::MAX,
        inputs: blocks.into_iter().map(Input::Block).collect(),
    })
}

/// Slices that should become one, and slices in segments that are mostly dead.
pub(super) fn plan_merges(
    state: &ShardState,
    settings: &MaintenanceSettings,
    now_ms: i64,
    is_excluded: impl Fn(ObjectId) -> bool,
) -> Option<Plan> {
    let rewritten = |object: ObjectId| wants_rewrite(state, object, settings, now_ms);
    let any_rewritten = state.segments.live.keys().any(|object| rewritten(*object));
    let mut runs = Vec::new();
    let mut bytes = 0;
    for (id, partition) in &state.partitions {
        let slice_bytes_max = slice_bytes_max(state, *id);
        let sizes = MergeSizes::new(settings, slice_bytes_max);
        let mut found: Vec<_> = merge_range(partition, &sizes).into_iter().collect();
        if any_rewritten {
            let is_dead = |index: &usize| {
                let location = partition.slices[*index].slice.location();
                location.is_some_and(|location| rewritten(location.object))
            };
            let merged = found.first().cloned().unwrap_or(0..0);
            let single = (0..partition.slices.len()).filter(|index| !merged.contains(index));
            found.extend(single.filter(is_dead).map(|index| index..index + 1));
        }
        for range in found {
            let run = Run::of_slices(*id, partition, range, slice_bytes_max);
            let excluded = run.inputs.iter().any(|input| match input {
                Input::Slice(slice) => slice.location().is_none_or(|location| is_excluded(location.object)),
                Input::Block(_) => false,
            });
            if excluded {
                continue;
            }
            bytes += run.data_length();
            runs.push(run);
            if bytes >= settings.segment_bytes_max {
                return Some(Plan { runs, wal_objects: 0 });
            }
        }
    }
    (!runs.is_empty()).then_some(Plan { runs, wal_objects: 0 })
}

/// Less than half of the segment is alive, or a part has been dead for so long that its bytes must go.
fn wants_rewrite(state: &ShardState, object: ObjectId, settings: &MaintenanceSettings, now_ms: i64) -> bool {
    let Some(segment) = state.segments.live.get(&object) else { return false };
    let Some(dead_since_ms) = segment.dead_since_ms else { return false };
    let erase_ms = i64::try_from(settings.erase_delay.as_millis()).unwrap_or(i64::MAX);
    segment.live_bytes * 2 < segment.length || now_ms.saturating_sub(dead_since_ms) >= erase_ms / 2
}

/// How long until a segment is to be written anew because of what died in it; `None` if none is.
pub(super) fn time_to_rewrite(
    state: &ShardState,
    settings: &MaintenanceSettings,
    now_ms: i64,
    is_excluded: impl Fn(ObjectId) -> bool,
) -> Option<Duration> {
    let partly_dead = state.segments.live.iter().filter(|(object, _)| !is_excluded(**object));
    let left = partly_dead.filter_map(|(object, segment)| {
        let dead_since_ms = segment.dead_since_ms?;
        if wants_rewrite(state, *object, settings, now_ms) {
            return Some(Duration::ZERO);
        }
        let age = u64::try_from(now_ms.saturating_sub(dead_since_ms)).unwrap_or(0);
        Some((settings.erase_delay / 2).saturating_sub(Duration::from_millis(age)))
    });
    left.min()
}

/// What is merged in a partition.
struct MergeSizes {
    /// This many small slices become one.
    slices: usize,
    /// A slice from this many bytes on is not small.
    small_bytes: u64,
    /// A merge reads no more than this, about.
    bytes_max: u64,
    /// Slices that are not small are merged up to this many bytes.
    slice_bytes_max: u64,
}

impl MergeSizes {
    /// Two slices that are small fit into one of the topic, so that a merge leaves fewer of them.
    fn new(settings: &MaintenanceSettings, slice_bytes_max: u64) -> Self {
        Self {
            slices: settings.merge_slices,
            small_bytes: settings.small_slice_bytes.min(slice_bytes_max / 2),
            bytes_max: settings.segment_bytes_max,
            slice_bytes_max: settings.segment_bytes_max.min(slice_bytes_max),
        }
    }
}

/// The slices of a partition that should become one. Small ones at the end are merged when they are
/// many: as far back as no slice is larger than all after it together, so that a record is copied
/// about once for each doubling of what is merged.
fn merge_range(partition: &PartitionState, sizes: &MergeSizes) -> Option<std::ops::Range<usize>> {
    let length = |index: usize| partition.slices[index].slice.data_length();
    let count = partition.slices.len();
    let is_stored = |index: usize| partition.slices[index].slice.location().is_some();
    let is_small = |index: &usize| is_stored(*index) && length(*index) < sizes.small_bytes;
    let first_dirty = first_dirty(partition);
    let small = (first_dirty..count).rev().take_while(is_small).count();
    if small >= sizes.slices {
        let mut first = count - 2;
        let mut after = length(count - 1);
        let mut total = after + length(first);
        while first > count - small && length(first - 1) <= after + length(first) {
            after += length(first);
            first -= 1;
            total += length(first);
            if total > sizes.bytes_max {
                break;
            }
        }
        return Some(first..count);
    }
    merge_large(partition, sizes)
}

/// Slices that were cleaned are put together by log cleaning alone: what it knows of their
/// tombstones must not be mixed with what was never cleaned.
fn first_dirty(partition: &PartitionState) -> usize {
    partition.first_slice_where(|slice| slice.slice.next_offset > partition.cleaned_offset)
}

/// Neighbours that are not small, but together fill one segment.
fn merge_large(partition: &PartitionState, sizes: &MergeSizes) -> Option<std::ops::Range<usize>> {
    let mut first = first_dirty(partition);
    let mut bytes = 0;
    for (index, slice) in partition.slices.iter().enumerate().skip(first) {
        let length = slice.slice.data_length();
        let is_large = slice.slice.location().is_none() || length * 2 > sizes.slice_bytes_max;
        if is_large || length < sizes.small_bytes {
            (first, bytes) = (index + 1, 0);
            continue;
        }
        if bytes + length > sizes.slice_bytes_max {
            return (index - first >= 2).then_some(first..index);
        }
        bytes += length;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::slice::{Slice, SliceData, SliceLocation};
    use crate::ids::TopicId;
    use crate::log::state::InstalledSlice;

    fn partition(lengths: &[u64]) -> PartitionState {
        let id = TopicPartition::new(TopicId::from_bytes([1; 16]), 0);
        let slices = lengths.iter().enumerate().map(|(index, length)| {
            let location = SliceLocation {
                object: ObjectId::new(index as i64, [0; 16]),
                data_position: 0,
                data_length: *length,
                index_position: 0,
                index_length: 0,
                index_crc: 0,
                entry_length: 104,
            };
            let mut slice = Slice::empty(id, index as i64, SliceData::Stored(location));
            slice.next_offset = index as i64 + 1;
            InstalledSlice { slice, running_max_timestamp: -1 }
        });
        PartitionState { slices: slices.collect(), ..PartitionState::default() }
    }

    /// Adds slices of one length and merges whenever it is due; gives the bytes that were copied and
    /// the greatest number of slices.
    fn grow(length: u64, rounds: usize) -> (u64, usize) {
        let sizes = MergeSizes::new(&MaintenanceSettings::default(), u64::MAX);
        let (mut lengths, mut copied, mut most) = (Vec::new(), 0, 0);
        for _ in 0..rounds {
            lengths.push(length);
            while let Some(range) = merge_range(&partition(&lengths), &sizes) {
                let sum: u64 = lengths[range.clone()].iter().sum();
                assert!(sum <= sizes.bytes_max + sizes.small_bytes);
                copied += sum;
                lengths.splice(range, [sum]);
            }
            most = most.max(lengths.len());
        }
        assert_eq!(lengths.iter().sum::<u64>(), length * rounds as u64);
        (copied, most)
    }

    /// How a run is written whose blocks all have one length.
    fn split(sum: u64, block: u64, slice_bytes_max: u64) -> Vec<u64> {
        let full = (slice_bytes_max / block).max(1) * block;
        let rest = sum % full;
        let whole = std::iter::repeat_n(full, usize::try_from(sum / full).unwrap());
        whole.chain((rest > 0).then_some(rest)).collect()
    }

    #[test]
    fn merges_come_to_an_end_when_a_topic_has_small_segments() {
        const MIB: u64 = 1 << 20;
        for (block, blocks) in [(64 << 10, 1), (64 << 10, 7), (64 << 10, 12), (300 << 10, 1), (700 << 10, 1)]
        {
            let sizes = MergeSizes::new(&MaintenanceSettings::default(), MIB);
            let mut lengths = Vec::new();
            for _ in 0..500 {
                lengths.push(block * blocks);
                let before = lengths.len();
                let mut merges = 0;
                while let Some(range) = merge_range(&partition(&lengths), &sizes) {
                    let sum: u64 = lengths[range.clone()].iter().sum();
                    lengths.splice(range, split(sum, block, MIB));
                    merges += 1;
                    assert!(merges <= before, "{block} x {blocks}: {lengths:?}");
                }
            }
            let written = 500 * block * blocks;
            let bound = 32 + written / (MIB / 2);
            assert!(lengths.len() as u64 <= bound, "{} slices, at most {bound}", lengths.len());
            assert_eq!(lengths.iter().sum::<u64>(), written);
        }
    }

    #[test]
    fn a_partition_keeps_few_slices_and_a_record_is_copied_a_few_times() {
        for length in [1 << 10, 100 << 10, 4 << 20, 65 << 20] {
            let rounds = 3000;
            let (copied, most) = grow(length, rounds);
            let written = length * rounds as u64;
            let bound = 32 + written / (64 << 20);
            assert!(most as u64 <= bound, "{most} slices of {length} bytes, at most {bound}");
            assert!(copied <= written * 8, "{length}: {} copies", copied / written);
        }
    }
}
