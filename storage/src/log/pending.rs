//! What one commit adds to one partition: offsets, blocks, and the events about producers and
//! transactions. Pure.
//!
//! Invariant: the events are in the order of their offsets, so that a replay of them gives the
//! producers and transactions that the next batch was checked against.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::append::{Appended, PreparedBatch};
use super::error::{AppendError, EndTransactionError};
use super::state::{PartitionState, ProducerBatch, ProducerState, SequenceCheck};
use super::transactions::Marker;
use crate::format::event::{self, ProducerBatches, TransactionEnded};
use crate::format::{BlockEntry, BlockFlags, Compression, Event, TimestampType};
use crate::ids::TopicPartition;

/// Batches of one partition are packed into blocks of about this many bytes.
pub(super) const BLOCK_BYTES: usize = 64 * 1024;

pub(super) struct PendingPartition {
    topic_partition: TopicPartition,
    append_time_ms: i64,
    next_offset: i64,
    log_start_offset: i64,
    leader_epoch: i32,
    blocks: Vec<PendingBlock>,
    /// States of the producers that appended, with the batches of this commit.
    producers: BTreeMap<i64, ProducerState>,
    /// Whether a transaction is open after this commit, of the producers that it changes that for.
    open_transactions: BTreeMap<i64, bool>,
    events: Vec<Event>,
}

pub(super) struct PendingBlock {
    pub(super) entry: BlockEntry,
    pub(super) pieces: Vec<Bytes>,
    bytes: usize,
}

impl PendingPartition {
    pub(super) fn new(
        topic_partition: TopicPartition,
        current: &PartitionState,
        append_time_ms: i64,
    ) -> Self {
        Self {
            topic_partition,
            append_time_ms,
            next_offset: current.next_offset,
            log_start_offset: current.log_start_offset,
            leader_epoch: current.leader_epoch,
            blocks: Vec::new(),
            producers: BTreeMap::new(),
            open_transactions: BTreeMap::new(),
            events: Vec::new(),
        }
    }

    pub(super) fn into_parts(self) -> (Vec<Event>, Vec<PendingBlock>) {
        (self.events, self.blocks)
    }

    /// Gives a batch its offsets, or says why it gets none. `current` is the partition before this
    /// commit.
    pub(super) fn append(
        &mut self,
        current: &PartitionState,
        batch: &PreparedBatch,
    ) -> Result<Appended, AppendError> {
        if let Some(duplicate) = self.check_sequence(current, batch)? {
            return Ok(duplicate.appended(batch, self.log_start_offset));
        }
        let header = batch.header();
        // As in Kafka's `ProducerAppendInfo`.
        if !header.is_transactional() && self.has_open_transaction(current, header.producer_id) {
            return Err(AppendError::NonTransactionalBatch { producer_id: header.producer_id });
        }
        Ok(self.push(current, batch))
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
        let Some(producer) = self.producer(current, producer_id) else { return Ok(None) };
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

    fn producer<'a>(&'a self, current: &'a PartitionState, producer_id: i64) -> Option<&'a ProducerState> {
        self.producers.get(&producer_id).or_else(|| current.producers.get(&producer_id))
    }

    fn has_open_transaction(&self, current: &PartitionState, producer_id: i64) -> bool {
        let pending = self.open_transactions.get(&producer_id).copied();
        pending.unwrap_or_else(|| current.open_transactions.contains_key(&producer_id))
    }

    fn push(&mut self, current: &PartitionState, batch: &PreparedBatch) -> Appended {
        let base_offset = self.next_offset;
        let entry = block_entry(batch, base_offset, self.leader_epoch, self.append_time_ms);
        let pieces = batch.assigned(base_offset, self.leader_epoch, self.append_time_ms);
        self.push_block(entry, pieces.to_vec(), batch.size_bytes());
        self.push_producer(current, batch, base_offset);
        Appended {
            base_offset,
            last_offset: self.next_offset - 1,
            log_append_time: log_append_time(batch, self.append_time_ms),
            log_start_offset: self.log_start_offset,
            is_duplicate: false,
        }
    }

    fn push_block(&mut self, entry: BlockEntry, pieces: Vec<Bytes>, bytes: usize) {
        self.next_offset = entry.next_offset;
        match self.blocks.last_mut() {
            Some(block) if block.bytes + bytes <= BLOCK_BYTES => {
                block.entry.extend(&entry);
                block.pieces.extend(pieces);
                block.bytes += bytes;
            }
            _ => self.blocks.push(PendingBlock { entry, pieces, bytes }),
        }
    }

    fn push_producer(&mut self, current: &PartitionState, batch: &PreparedBatch, base_offset: i64) {
        let header = batch.header();
        if header.producer_id < 0 {
            return;
        }
        let appended = ProducerBatch {
            base_sequence: header.base_sequence,
            last_sequence: header.last_sequence(),
            base_offset,
            last_offset: self.next_offset - 1,
            append_time_ms: self.append_time_ms,
        };
        self.producer_mut(current, header.producer_id, header.producer_epoch)
            .push(header.producer_epoch, appended);
        if header.is_transactional() {
            self.open_transactions.insert(header.producer_id, true);
        }
        self.push_batch_event(event::ProducerBatch {
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch,
            base_sequence: appended.base_sequence,
            last_sequence: appended.last_sequence,
            base_offset,
            last_offset: appended.last_offset,
            append_time_ms: self.append_time_ms,
            max_timestamp: batch.summary.max_timestamp,
            transactional: header.is_transactional(),
        });
    }

    fn producer_mut(
        &mut self,
        current: &PartitionState,
        producer_id: i64,
        producer_epoch: i16,
    ) -> &mut ProducerState {
        let known = || current.producers.get(&producer_id).cloned();
        self.producers
            .entry(producer_id)
            .or_insert_with(|| known().unwrap_or_else(|| ProducerState::new(producer_epoch)))
    }

    /// Batches share an event until a marker comes between them.
    fn push_batch_event(&mut self, batch: event::ProducerBatch) {
        if let Some(Event::ProducerBatches(event)) = self.events.last_mut() {
            event.batches.push(batch);
            return;
        }
        self.events.push(Event::ProducerBatches(ProducerBatches {
            topic_id: self.topic_partition.topic_id,
            partition: self.topic_partition.partition,
            batches: vec![batch],
        }));
    }

    /// Whether a marker may be appended.
    pub(super) fn check_marker(
        &self,
        current: &PartitionState,
        marker: &Marker,
    ) -> Result<(), EndTransactionError> {
        let producer_id = marker.producer_id;
        let Some(producer) = self.producer(current, producer_id) else { return Ok(()) };
        if marker.producer_epoch < producer.producer_epoch {
            let (current, found) = (producer.producer_epoch, marker.producer_epoch);
            return Err(EndTransactionError::StaleProducerEpoch { producer_id, current, found });
        }
        if marker.coordinator_epoch < producer.coordinator_epoch {
            let (current, found) = (producer.coordinator_epoch, marker.coordinator_epoch);
            return Err(EndTransactionError::StaleCoordinatorEpoch { producer_id, current, found });
        }
        Ok(())
    }

    /// Appends a marker that passed [`Self::check_marker`]; gives its offset and its size in bytes.
    pub(super) fn push_marker(&mut self, current: &PartitionState, marker: &Marker) -> (i64, usize) {
        let marker_offset = self.next_offset;
        let batch = marker.batch(marker_offset, self.leader_epoch, self.append_time_ms);
        let bytes = batch.len();
        let entry = BlockEntry {
            topic_partition: self.topic_partition,
            base_offset: marker_offset,
            next_offset: marker_offset + 1,
            position: 0,
            length: 0,
            data_count: 0,
            control_count: 1,
            null_timestamp_count: 0,
            min_timestamp: self.append_time_ms,
            max_timestamp: self.append_time_ms,
            offset_of_max_timestamp: marker_offset,
            append_time_ms: self.append_time_ms,
            leader_epoch: self.leader_epoch,
            flags: BlockFlags::TRANSACTIONAL | BlockFlags::CONTROL,
            crc: 0,
        };
        self.push_block(entry, vec![batch], bytes);
        let append_time_ms = self.append_time_ms;
        self.producer_mut(current, marker.producer_id, marker.producer_epoch).mark(
            marker.producer_epoch,
            marker.coordinator_epoch,
            append_time_ms,
        );
        self.open_transactions.insert(marker.producer_id, false);
        self.events.push(Event::TransactionEnded(TransactionEnded {
            topic_id: self.topic_partition.topic_id,
            partition: self.topic_partition.partition,
            producer_id: marker.producer_id,
            producer_epoch: marker.producer_epoch,
            coordinator_epoch: marker.coordinator_epoch,
            result: marker.result,
            marker_offset,
        }));
        (marker_offset, bytes)
    }
}

impl ProducerBatch {
    fn appended(&self, batch: &PreparedBatch, log_start_offset: i64) -> Appended {
        Appended {
            base_offset: self.base_offset,
            last_offset: self.last_offset,
            log_append_time: log_append_time(batch, self.append_time_ms)
                .or(Some(batch.summary.max_timestamp)),
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
    if summary.header.is_transactional() {
        entry.flags = entry.flags | BlockFlags::TRANSACTIONAL;
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
