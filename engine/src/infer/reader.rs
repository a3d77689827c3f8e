//! Reads the records of a partition, in order, for inference.
//!
//! Invariant: progress passes over whatever cannot be read, so damage in one place never stops the
//! discovery of columns behind it; queries report the damage, not this reader.

use strandline_storage::format::record_batch::{DecompressionBudget, Records};
use strandline_storage::log::{AbortedRange, FetchError, FetchOptions, FirstBatch, Isolation, PartitionView};

use super::topic::TopicInference;

/// Bytes of batches that one step reads.
const STEP_BYTES_MAX: usize = 1 << 20;
/// Decompressed bytes that one batch may have here.
const DECOMPRESSED_BYTES_MAX: usize = 64 << 20;

/// What a step left to do in its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    CaughtUp,
    More,
}

/// The next offset that `topic` has to observe in the partition.
pub fn next_offset(topic: &TopicInference, partition: i32, view: &PartitionView) -> i64 {
    let log_start_offset = view.bounds().log_start_offset;
    topic.progress.get(&partition).map_or(log_start_offset, |next| (*next).max(log_start_offset))
}

/// Whether the partition holds records that `topic` has not observed.
pub fn is_behind(topic: &TopicInference, partition: i32, view: &PartitionView) -> bool {
    next_offset(topic, partition, view) < view.bounds().last_stable_offset
}

/// Observes the next records of a partition, about a mebibyte of them.
///
/// # Errors
/// When the store cannot be reached; the same step can be tried again.
pub async fn observe_step(
    topic: &mut TopicInference,
    partition: i32,
    view: &PartitionView,
) -> Result<Step, FetchError> {
    let from = next_offset(topic, partition, view);
    let end = view.bounds().last_stable_offset;
    if from >= end {
        return Ok(Step::CaughtUp);
    }
    let options = FetchOptions {
        from,
        bytes_max: STEP_BYTES_MAX,
        isolation: Isolation::ReadCommitted,
        first_batch: FirstBatch::Whole,
    };
    let next = match view.fetch(options).await {
        Ok(fetched) => {
            let aborted = view.aborted_ranges(from, fetched.next_offset);
            for batch in &fetched.batches {
                observe_batch(topic, partition, batch, from..end, &aborted);
            }
            // Whole batches were asked for, so none at all means that nothing is left before the end.
            if fetched.batches.is_empty() { end } else { fetched.next_offset }
        }
        Err(FetchError::Damaged { last_offset, .. } | FetchError::Removed { last_offset, .. }) => {
            last_offset.max(from) + 1
        }
        Err(FetchError::OutOfRange { .. }) => end,
        Err(error) => return Err(error),
    };
    topic.progress.insert(partition, next);
    Ok(if next < end { Step::More } else { Step::CaughtUp })
}

fn observe_batch(
    topic: &mut TopicInference,
    partition: i32,
    batch: &bytes::Bytes,
    offsets: std::ops::Range<i64>,
    aborted: &[AbortedRange],
) {
    let mut budget = DecompressionBudget::new(DECOMPRESSED_BYTES_MAX);
    let Ok(records) = Records::decode(batch, &mut budget) else { return };
    let header = records.header();
    let is_aborted = |range: &AbortedRange| {
        range.producer_id == header.producer_id
            && (range.first_offset..=range.last_offset).contains(&header.base_offset)
    };
    if header.is_control() || (header.is_transactional() && aborted.iter().any(is_aborted)) {
        return;
    }
    for record in records.iter() {
        let Ok(record) = record else { return };
        if offsets.contains(&record.offset) {
            topic.observe(partition, record.offset, record.value);
        }
    }
}
