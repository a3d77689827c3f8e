//! Turns what is pending into one commit: checks sequences against the assigned state, gives out
//! offsets, and builds the object. Pure, apart from the append time that is handed in.
//!
//! Invariant: the assigned state after a commit is the state that a replay of the object gives,
//! because both come from `ShardState::apply`.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::append::{Appended, PreparedBatch};
use super::error::AppendError;
use super::state::{PartitionState, ProducerBatch, ProducerState, SequenceCheck, ShardState};
use crate::format::event::{self, ProducerBatches};
use crate::format::{
    BlockEntry, BlockFlags, Compression, EncodedWalObject, Event, TimestampType, WalHeader, WalObjectBuilder,
};
use crate::ids::TopicPartition;

/// Batches of one partition are packed into blocks of about this many bytes.
pub(super) const BLOCK_BYTES: usize = 64 * 1024;

/// A commit in the making.
pub(super) struct Assignment {
    /// When it is committed, in milliseconds; never below that of an earlier commit.
    pub(super) append_time_ms: i64,
    /// The assigned state with the events of this commit, which the next change is checked against.
    working: ShardState,
    events: Vec<Event>,
    partitions: BTreeMap<TopicPartition, PendingPartition>,
    bytes: usize,
}

/// What one commit adds to a partition.
struct PendingPartition {
    next_offset: i64,
    log_start_offset: i64,
    leader_epoch: i32,
    blocks: Vec<PendingBlock>,
    /// States of the producers that appended, with the batches of this commit.
    producers: BTreeMap<i64, ProducerState>,
    producer_batches: Vec<event::ProducerBatch>,
}

struct PendingBlock {
    entry: BlockEntry,
    pieces: Vec<Bytes>,
    bytes: usize,
}

impl Assignment {
    pub(super) fn new(state: &ShardState, now_ms: i64) -> Self {
        Self {
            append_time_ms: now_ms.max(state.append_time_ms),
            working: state.clone(),
            events: Vec::new(),
            partitions: BTreeMap::new(),
            bytes: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty() && !self.has_batches()
    }

    pub(super) fn has_batches(&self) -> bool {
        self.bytes > 0
    }

    /// Bytes of batches so far.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The state that a change is checked against.
    pub(super) fn state(&self) -> &ShardState {
        &self.working
    }

    /// Adds events, which were checked against [`Self::state`].
    pub(super) fn push_events(&mut self, events: Vec<Event>) {
        self.working
            .apply_events(&events, self.append_time_ms)
            .expect("an event that was checked against the state applies to it");
        self.events.extend(events);
    }

    /// Gives a batch its offsets, or says why it gets none.
    pub(super) fn append(&mut self, batch: &PreparedBatch) -> Result<Appended, AppendError> {
        let topic_partition = batch.topic_partition;
        let unknown = AppendError::UnknownTopicPartition(topic_partition);
        let current = self.working.partitions.get(&topic_partition).ok_or(unknown)?;
        let pending =
            self.partitions.entry(topic_partition).or_insert_with(|| PendingPartition::new(current));
        if let Some(duplicate) = pending.check_sequence(current, batch)? {
            return Ok(duplicate.appended(batch, pending.log_start_offset));
        }
        self.bytes += batch.size_bytes();
        Ok(pending.push(current, batch, self.append_time_ms))
    }

    /// Builds the object.
    pub(super) fn seal(self, header: WalHeader) -> Sealed {
        let mut events = self.events;
        let mut blocks = Vec::new();
        for (topic_partition, pending) in self.partitions {
            if !pending.producer_batches.is_empty() {
                events.push(Event::ProducerBatches(ProducerBatches {
                    topic_id: topic_partition.topic_id,
                    partition: topic_partition.partition,
                    batches: pending.producer_batches,
                }));
            }
            blocks.extend(pending.blocks);
        }
        let mut builder = WalObjectBuilder::new(header);
        events.iter().for_each(|event| builder.push_event(event));
        blocks.into_iter().for_each(|block| builder.push_block(block.entry, block.pieces));
        Sealed { object: builder.finish(), events }
    }
}

/// A commit that is ready to be put.
pub(super) struct Sealed {
    pub(super) object: EncodedWalObject,
    pub(super) events: Vec<Event>,
}

impl PendingPartition {
    fn new(current: &PartitionState) -> Self {
        Self {
            next_offset: current.next_offset,
            log_start_offset: current.log_start_offset,
            leader_epoch: current.leader_epoch,
            blocks: Vec::new(),
            producers: BTreeMap::new(),
            producer_batches: Vec::new(),
        }
    }

    /// The batch that this one repeats, if it does.
    fn check_sequence(
        &self,
        current: &PartitionState,
        batch: &PreparedBatch,
    ) -> Result<Option<ProducerBatch>, AppendError> {
        let header = batch.header();
        let producer_id = header.producer_id;
        if producer_id < 0 {
            return Ok(None);
        }
        let known = self.producers.get(&producer_id).or_else(|| current.producers.get(&producer_id));
        let Some(producer) = known else { return Ok(None) };
        match producer.check(header.producer_epoch, header.base_sequence, header.last_sequence()) {
            SequenceCheck::Next => Ok(None),
            SequenceCheck::Duplicate(duplicate) => Ok(Some(duplicate)),
            SequenceCheck::OutOfOrder { expected } => {
                Err(AppendError::OutOfOrderSequence { producer_id, expected, found: header.base_sequence })
            }
            SequenceCheck::StaleEpoch { current } => {
                Err(AppendError::StaleProducerEpoch { producer_id, current, found: header.producer_epoch })
            }
        }
    }

    fn push(&mut self, current: &PartitionState, batch: &PreparedBatch, append_time_ms: i64) -> Appended {
        let base_offset = self.next_offset;
        self.next_offset = base_offset + i64::from(batch.summary.record_count);
        let last_offset = self.next_offset - 1;
        self.push_block(batch, base_offset, append_time_ms);
        self.push_producer(current, batch, base_offset, append_time_ms);
        Appended {
            base_offset,
            last_offset,
            log_append_time: log_append_time(batch, append_time_ms),
            log_start_offset: self.log_start_offset,
            is_duplicate: false,
        }
    }

    fn push_block(&mut self, batch: &PreparedBatch, base_offset: i64, append_time_ms: i64) {
        let entry = block_entry(batch, base_offset, self.leader_epoch, append_time_ms);
        let pieces = batch.assigned(base_offset, self.leader_epoch, append_time_ms);
        match self.blocks.last_mut() {
            Some(block) if block.bytes + batch.size_bytes() <= BLOCK_BYTES => {
                block.entry.extend(&entry);
                block.pieces.extend(pieces);
                block.bytes += batch.size_bytes();
            }
            _ => self.blocks.push(PendingBlock { entry, pieces: pieces.to_vec(), bytes: batch.size_bytes() }),
        }
    }

    fn push_producer(
        &mut self,
        current: &PartitionState,
        batch: &PreparedBatch,
        base_offset: i64,
        append_time_ms: i64,
    ) {
        let header = batch.header();
        if header.producer_id < 0 {
            return;
        }
        let appended = ProducerBatch {
            base_sequence: header.base_sequence,
            last_sequence: header.last_sequence(),
            base_offset,
            last_offset: self.next_offset - 1,
            append_time_ms,
        };
        let known = || current.producers.get(&header.producer_id).cloned();
        self.producers
            .entry(header.producer_id)
            .or_insert_with(|| known().unwrap_or_else(|| ProducerState::new(header.producer_epoch)))
            .push(header.producer_epoch, appended);
        self.producer_batches.push(event::ProducerBatch {
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch,
            base_sequence: appended.base_sequence,
            last_sequence: appended.last_sequence,
            base_offset,
            last_offset: appended.last_offset,
            append_time_ms,
            max_timestamp: batch.summary.max_timestamp,
            transactional: header.is_transactional(),
        });
    }
}

impl ProducerBatch {
    fn appended(&self, batch: &PreparedBatch, log_start_offset: i64) -> Appended {
        Appended {
            base_offset: self.base_offset,
            last_offset: self.last_offset,
            log_append_time: log_append_time(batch, self.append_time_ms),
            log_start_offset,
            is_duplicate: true,
        }
    }
}

fn log_append_time(batch: &PreparedBatch, append_time_ms: i64) -> Option<i64> {
    (batch.timestamp_type == TimestampType::LogAppendTime).then_some(append_time_ms)
}

/// The index entry of a block that holds this batch alone.
fn block_entry(
    batch: &PreparedBatch,
    base_offset: i64,
    leader_epoch: i32,
    append_time_ms: i64,
) -> BlockEntry {
    let summary = &batch.summary;
    let record_count = u32::try_from(summary.record_count).expect("inspected batches have 1 or more records");
    let mut entry = BlockEntry {
        topic_partition: batch.topic_partition,
        base_offset,
        next_offset: base_offset + i64::from(record_count),
        position: 0,
        length: 0,
        data_count: record_count,
        control_count: 0,
        null_timestamp_count: u32::try_from(summary.null_timestamp_count).expect("counts are not negative"),
        min_timestamp: summary.min_timestamp,
        max_timestamp: summary.max_timestamp,
        offset_of_max_timestamp: base_offset + i64::from(summary.max_timestamp_offset_delta),
        append_time_ms,
        leader_epoch,
        flags: BlockFlags::default(),
        crc: 0,
    };
    if summary.header.compression().is_ok_and(|compression| compression != Compression::None) {
        entry.flags = entry.flags | BlockFlags::COMPRESSED;
    }
    if batch.timestamp_type == TimestampType::LogAppendTime {
        entry.flags = entry.flags | BlockFlags::LOG_APPEND_TIME;
        entry.null_timestamp_count = 0;
        (entry.min_timestamp, entry.max_timestamp) = (append_time_ms, append_time_ms);
        entry.offset_of_max_timestamp = base_offset;
    } else if summary.null_timestamp_count == summary.record_count {
        entry.offset_of_max_timestamp = -1;
    }
    entry
}
