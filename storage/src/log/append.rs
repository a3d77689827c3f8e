//! What a caller asks to append, and the checks that need no state of the log: they run in the
//! caller's task, so that the committer only checks sequences and assigns offsets.
//!
//! The order of the checks is that of Kafka's `LogValidator` and `UnifiedLog`, because clients act on
//! the error they get.

use bytes::{Bytes, BytesMut};

use super::error::AppendError;
use super::topic_config::TopicConfig;
use crate::format::{
    BATCH_HEADER_LENGTH, BatchHeader, BatchSummary, DecompressionBudget, Inspected, TimestampType,
    recompress, set_base_offset, set_leader_epoch, set_log_append_time, set_max_timestamp,
};
use crate::ids::TopicPartition;

/// As many records of a batch are named in an error.
const NAMED_RECORDS_MAX: usize = 1000;

/// One batch for one partition.
#[derive(Clone, Debug)]
pub struct PartitionAppend {
    pub topic_partition: TopicPartition,
    /// Exactly one v2 record batch, as the producer sent it.
    pub batch: Bytes,
}

/// Where a batch went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    pub base_offset: i64,
    /// Inclusive.
    pub last_offset: i64,
    /// The time that all records got, on a topic with LogAppendTime. Of a duplicate, as in Kafka, the greatest
    /// time of its records otherwise.
    pub log_append_time: Option<i64>,
    pub log_start_offset: i64,
    /// The batch was in the log already, under these offsets.
    pub is_duplicate: bool,
}

/// A batch that passed the checks, ready to get its offsets.
#[derive(Debug)]
pub(super) struct PreparedBatch {
    pub(super) topic_partition: TopicPartition,
    pub(super) summary: BatchSummary,
    batch: Bytes,
    pub(super) timestamp_type: TimestampType,
}

impl PreparedBatch {
    pub(super) fn size_bytes(&self) -> usize {
        self.batch.len()
    }

    pub(super) fn header(&self) -> &BatchHeader {
        &self.summary.header
    }

    /// Checks a batch against the configuration of its topic.
    pub(super) fn check(
        append: PartitionAppend,
        config: &TopicConfig,
        now_ms: i64,
        budget: &mut DecompressionBudget,
    ) -> Result<Self, AppendError> {
        let PartitionAppend { topic_partition, batch } = append;
        let header = BatchHeader::parse(&batch)?;
        if header.base_offset != 0 {
            return Err(AppendError::NonZeroBaseOffset { found: header.base_offset });
        }
        check_size(&header, config)?;
        let inspected = Inspected::new(&batch, budget)?;
        check_attributes(&header)?;
        if config.compacts() && inspected.summary.has_null_key {
            let records = inspected.records_where(NAMED_RECORDS_MAX, |record| !record.has_key);
            return Err(AppendError::NullKey { records });
        }
        let timestamp_type = config.message_timestamp_type();
        if timestamp_type == TimestampType::CreateTime {
            check_timestamps(&inspected, config, now_ms)?;
        }
        let (batch, summary) = compressed_for(config, batch, inspected)?;
        Ok(Self { topic_partition, summary, batch, timestamp_type })
    }

    /// The bytes as they go to the log: the head with its offset, epoch and times set, and the rest
    /// as it came.
    pub(super) fn assigned(&self, base_offset: i64, leader_epoch: i32, append_time_ms: i64) -> [Bytes; 2] {
        let rewrites_crc = self.timestamp_type == TimestampType::LogAppendTime
            || self.summary.max_timestamp != self.header().max_timestamp;
        if rewrites_crc {
            return [self.rewritten(base_offset, leader_epoch, append_time_ms), Bytes::new()];
        }
        let mut head = BytesMut::from(&self.batch[..BATCH_HEADER_LENGTH]);
        set_base_offset(&mut head, base_offset);
        set_leader_epoch(&mut head, leader_epoch);
        [head.freeze(), self.batch.slice(BATCH_HEADER_LENGTH..)]
    }

    fn rewritten(&self, base_offset: i64, leader_epoch: i32, append_time_ms: i64) -> Bytes {
        let mut batch = BytesMut::from(&self.batch[..]);
        match self.timestamp_type {
            TimestampType::LogAppendTime => set_log_append_time(&mut batch, append_time_ms),
            TimestampType::CreateTime => set_max_timestamp(&mut batch, self.summary.max_timestamp),
        }
        set_base_offset(&mut batch, base_offset);
        set_leader_epoch(&mut batch, leader_epoch);
        batch.freeze()
    }
}

fn check_size(header: &BatchHeader, config: &TopicConfig) -> Result<(), AppendError> {
    let (size, max) = (header.size_bytes(), config.max_message_bytes());
    if size > max { Err(AppendError::TooLarge { size, max }) } else { Ok(()) }
}

/// The batch with the codec of its topic. As in Kafka, a batch that has that codec already is left
/// alone whatever its level, and one that is written anew must still be within `max.message.bytes`.
fn compressed_for(
    config: &TopicConfig,
    batch: Bytes,
    inspected: Inspected,
) -> Result<(Bytes, BatchSummary), AppendError> {
    let mut summary = inspected.summary;
    let current = summary.header.compression()?;
    let Some(target) = config.compression().filter(|target| target.compression != current) else {
        return Ok((batch, summary));
    };
    let batch = recompress(&batch, &inspected, target)?;
    summary.header = BatchHeader::parse(&batch)?;
    check_size(&summary.header, config)?;
    Ok((batch, summary))
}

fn check_attributes(header: &BatchHeader) -> Result<(), AppendError> {
    if header.is_control() {
        return Err(AppendError::ControlBatch);
    }
    if header.is_transactional() && (header.producer_id < 0 || header.producer_epoch < 0) {
        return Err(AppendError::TransactionWithoutProducer);
    }
    if header.producer_id >= 0 && header.base_sequence < 0 {
        return Err(AppendError::MissingSequence { producer_id: header.producer_id });
    }
    if header.timestamp_type() == TimestampType::LogAppendTime {
        return Err(AppendError::ForbiddenTimestampType);
    }
    Ok(())
}

/// Records without a timestamp pass; the summary's minimum and maximum leave them out.
fn check_timestamps(inspected: &Inspected, config: &TopicConfig, now_ms: i64) -> Result<(), AppendError> {
    let summary = &inspected.summary;
    if summary.null_timestamp_count == summary.record_count {
        return Ok(());
    }
    let min = now_ms.saturating_sub(config.message_timestamp_before_max_ms());
    let max = now_ms.saturating_add(config.message_timestamp_after_max_ms());
    for timestamp in [summary.min_timestamp, summary.max_timestamp] {
        if timestamp < min || timestamp > max {
            let is_outside = |time: i64| !(min..=max).contains(&time);
            let records =
                inspected.records_where(NAMED_RECORDS_MAX, |record| record.timestamp.is_some_and(is_outside));
            return Err(AppendError::InvalidTimestamp { timestamp, min, max, records });
        }
    }
    Ok(())
}
