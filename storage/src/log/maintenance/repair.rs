//! Repairs that an operator asked for: segments are written anew from their batches, with or without
//! the ones that are damaged, and installed as any other.
//!
//! Invariant: nothing is overwritten. What is given up is named by an event in the same commit.

use bytes::{Bytes, BytesMut};

use super::Maintainer;
use super::install::InstallError;
use super::sink::{SegmentSink, Sharing};
use crate::format::event::{InstalledObject, LossAccepted, LostRange, PartitionInstall, SegmentsInstalled};
use crate::format::segment::decode_slice_index;
use crate::format::slice::{LossAcceptance, SliceData, SliceLocation};
use crate::format::{BATCH_HEADER_LENGTH, BatchHeader, BlockEntry, Event, Slice};
use crate::ids::{ObjectId, TopicPartition};
use crate::log::change::Change;
use crate::log::error::MaintenanceError;
use crate::log::repair::RepairReport;
use crate::log::state::ShardState;
use crate::log::verify::{check_block, entry_of_batches};
use crate::object::StoreError;

#[cfg(test)]
mod tests;

/// A slice is read in pieces of this many bytes.
const PIECE_BYTES: u64 = 4 * 1024 * 1024;

/// What is asked for.
#[derive(Debug)]
pub(in crate::log) enum Repair {
    /// Write slices of these segments anew, with all their batches.
    Index(Vec<ObjectId>),
    /// Give up what is damaged in these offsets. The object is named for the record.
    Loss { object: String, ranges: Vec<LostRange> },
}

/// Why a slice was not written anew.
enum SliceError {
    Store(StoreError),
    Damaged(String),
}

impl From<StoreError> for SliceError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// What takes the place of a slice.
struct Replacement {
    before: Slice,
    after: Slice,
    /// Offsets that are given up.
    lost: Vec<LostRange>,
}

/// The segments and slices that a repair installs.
struct Repaired {
    object: String,
    segments: Vec<InstalledObject>,
    replacements: Vec<Replacement>,
    /// Slices that are in no object: the event alone is enough.
    gone: Vec<LostRange>,
}

impl Maintainer {
    pub(super) async fn repair(&mut self, repair: Repair) -> Result<RepairReport, MaintenanceError> {
        let repaired = match repair {
            Repair::Index(segments) => self.rebuild(&segments).await?,
            Repair::Loss { object, ranges } => {
                // Blocks of the WAL are carried into segments first, damaged as they are.
                self.compact_all().await?;
                self.give_up(object, &ranges).await?
            }
        };
        if repaired.replacements.is_empty() && repaired.gone.is_empty() {
            return Err(refused("nothing is damaged there"));
        }
        let lost =
            repaired.replacements.iter().flat_map(|replacement| &replacement.lost).chain(&repaired.gone);
        let report =
            RepairReport { rewritten: repaired.replacements.len() as u64, lost: lost.copied().collect() };
        let installed = self.change(repaired.into_change()).await;
        match installed {
            Ok(()) => {}
            Err(InstallError::Write(error)) => return Err(error.into()),
            Err(error) => return Err(refused(&error.to_string())),
        }
        self.damaged.clear();
        self.collector.note_install(self.now());
        Ok(report)
    }

    /// Writes all slices of segments anew.
    async fn rebuild(&self, segments: &[ObjectId]) -> Result<Repaired, MaintenanceError> {
        let state = self.shared.durable();
        let is_in =
            |slice: &Slice| slice.location().is_some_and(|location| segments.contains(&location.object));
        let slices = state.partitions.values().flat_map(|partition| &partition.slices);
        let slices: Vec<_> = slices.map(|slice| slice.slice.clone()).filter(is_in).collect();
        let mut sink = SegmentSink::new(&self.shared);
        for slice in &slices {
            let written = self.write_slice(&mut sink, slice, &[]).await;
            written.map_err(|error| error.into_error(slice))?;
        }
        let written =
            self.finish(sink, slices.into_iter().map(|slice| (slice, Vec::new())).collect()).await?;
        Ok(Repaired { object: String::new(), gone: Vec::new(), ..written })
    }

    async fn give_up(&self, object: String, ranges: &[LostRange]) -> Result<Repaired, MaintenanceError> {
        let state = self.shared.durable();
        let mut sink = SegmentSink::new(&self.shared);
        let (mut written, mut unreadable, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for slice in affected(&state, ranges) {
            match &slice.data {
                SliceData::Lost { acceptance: LossAcceptance::Accepted, .. } => {}
                SliceData::Lost { .. } => gone.push(whole(&slice)),
                SliceData::Stored(_) if self.is_readable(&slice).await? => {
                    let lost = self.write_slice(&mut sink, &slice, ranges).await;
                    let lost = lost.map_err(|error| error.into_error(&slice))?;
                    written.push((slice, lost));
                }
                SliceData::Stored(location) => {
                    let data = SliceData::Lost {
                        object: self.shared.keys.segment(location.object),
                        acceptance: LossAcceptance::Accepted,
                    };
                    let (after, lost) = (Slice { data, ..slice.clone() }, vec![whole(&slice)]);
                    unreadable.push(Replacement { before: slice, after, lost });
                }
            }
        }
        let mut repaired = match written.iter().any(|(_, lost)| !lost.is_empty()) {
            true => Repaired { gone, ..self.finish(sink, written).await? },
            // What was written is dropped: nothing in it would change.
            false => Repaired { object: String::new(), segments: Vec::new(), replacements: Vec::new(), gone },
        };
        repaired.replacements.extend(unreadable);
        Ok(Repaired { object, ..repaired })
    }

    /// Whether the blocks of a slice can be told apart: by its index, or by the batches themselves.
    async fn is_readable(&self, slice: &Slice) -> Result<bool, MaintenanceError> {
        let Some(location) = slice.location() else { return Ok(false) };
        match self.index(slice, location).await {
            Ok(_) => Ok(true),
            Err(SliceError::Store(error)) => Err(error.into()),
            Err(SliceError::Damaged(_)) => match self.write_batches(None, slice, location).await {
                Ok(()) => Ok(true),
                Err(SliceError::Store(error)) => Err(error.into()),
                Err(SliceError::Damaged(_)) => Ok(false),
            },
        }
    }

    /// Ends the segments; slices come out in the order in which they were written.
    async fn finish(
        &self,
        sink: SegmentSink,
        slices: Vec<(Slice, Vec<LostRange>)>,
    ) -> Result<Repaired, MaintenanceError> {
        let finished = sink.finish().await?;
        let segments = finished.iter().map(|segment| segment.object).collect();
        let stored = finished.into_iter().flat_map(|segment| segment.slices);
        let replacements =
            slices.into_iter().zip(stored).map(|((before, lost), after)| Replacement { before, after, lost });
        let replacements = replacements.collect();
        Ok(Repaired { object: String::new(), segments, replacements, gone: Vec::new() })
    }

    /// Writes a slice anew, without what is damaged in the given offsets; gives what was left out.
    async fn write_slice(
        &self,
        sink: &mut SegmentSink,
        slice: &Slice,
        given_up: &[LostRange],
    ) -> Result<Vec<LostRange>, SliceError> {
        let Some(location) = slice.location() else {
            return Err(SliceError::Damaged("it is lost".to_owned()));
        };
        sink.begin_slice(slice.topic_partition, slice.base_offset, Sharing::Shared).await?;
        let mut lost = Vec::new();
        match self.index(slice, location).await {
            Ok(blocks) => {
                for block in blocks {
                    lost.extend(self.write_block(sink, location, block, given_up).await?);
                }
            }
            Err(SliceError::Store(error)) => return Err(error.into()),
            Err(SliceError::Damaged(_)) => self.write_batches(Some(sink), slice, location).await?,
        }
        sink.end_slice(slice.next_offset, slice.delete_horizon_ms).await?;
        Ok(lost)
    }

    async fn index(&self, slice: &Slice, location: &SliceLocation) -> Result<Vec<BlockEntry>, SliceError> {
        let end = location.index_position + u64::from(location.index_length);
        let bytes = self.read(location, location.index_position..end).await?;
        decode_slice_index(slice, location, &bytes).map_err(|error| SliceError::Damaged(error.to_string()))
    }

    async fn write_block(
        &self,
        sink: &mut SegmentSink,
        location: &SliceLocation,
        block: BlockEntry,
        given_up: &[LostRange],
    ) -> Result<Option<LostRange>, SliceError> {
        let bytes = self.read(location, block.position..block.position + u64::from(block.length)).await?;
        let Err(reason) = check_block(&block, &bytes, self.shared.settings.decompressed_bytes_max) else {
            sink.push(block, bytes).await?;
            return Ok(None);
        };
        let id = block.topic_partition;
        let range = LostRange {
            topic_id: id.topic_id,
            partition: id.partition,
            base_offset: block.base_offset,
            next_offset: block.next_offset,
        };
        if given_up.iter().any(|given_up| overlaps(given_up, &range)) {
            return Ok(Some(range));
        }
        if bytes.len() != block.length as usize {
            return Err(SliceError::Damaged(reason));
        }
        // Another object's damage: it stays, under the CRC that it fails.
        sink.push_damaged(block, bytes).await?;
        Ok(None)
    }

    /// Writes the batches of a slice whose index is damaged, or only looks whether that can be done.
    /// They have to be whole, all of them.
    async fn write_batches(
        &self,
        mut sink: Option<&mut SegmentSink>,
        slice: &Slice,
        location: &SliceLocation,
    ) -> Result<(), SliceError> {
        let mut found = Slice::empty(slice.topic_partition, slice.base_offset, slice.data.clone());
        let mut buffer = BytesMut::new();
        let mut position = location.data_position;
        let end = location.data_position + location.data_length;
        loop {
            while let Some(length) = next_batch(&buffer)? {
                let batch = buffer.split_to(length).freeze();
                let entry =
                    entry_of_batches(&like(slice), &batch, self.shared.settings.decompressed_bytes_max)
                        .map_err(SliceError::Damaged)?;
                if entry.base_offset < found.next_offset || entry.next_offset > slice.next_offset {
                    return Err(SliceError::Damaged(
                        "its batches are not in the order of their offsets".to_owned(),
                    ));
                }
                found.add(&entry);
                if let Some(sink) = &mut sink {
                    sink.push(entry, batch).await?;
                }
            }
            if position >= end {
                break;
            }
            let read = self.read(location, position..end.min(position + PIECE_BYTES)).await?;
            if read.is_empty() {
                break;
            }
            position += read.len() as u64;
            buffer.extend_from_slice(&read);
        }
        check_whole(slice, &found, buffer.len())
    }

    /// Bytes of the segment of a slice, as far as it has them; nothing of one that is not there.
    async fn read(&self, location: &SliceLocation, range: std::ops::Range<u64>) -> Result<Bytes, StoreError> {
        let key = self.shared.keys.segment(location.object);
        match self.shared.store.get_range(&key, range).await {
            Err(StoreError::NotFound { .. }) => Ok(Bytes::new()),
            read => read,
        }
    }
}

/// The bytes of the batch at the front; `None` if more have to be read.
fn next_batch(buffer: &BytesMut) -> Result<Option<usize>, SliceError> {
    if buffer.len() < BATCH_HEADER_LENGTH {
        return Ok(None);
    }
    let header = BatchHeader::parse(buffer).map_err(|error| SliceError::Damaged(error.to_string()))?;
    Ok(Some(header.size_bytes()).filter(|length| *length <= buffer.len()))
}

/// Whether the batches that were found are those that the log knows of.
fn check_whole(slice: &Slice, found: &Slice, left: usize) -> Result<(), SliceError> {
    let of = |slice: &Slice| (slice.data_count, slice.control_count, slice.max_timestamp);
    if left == 0 && of(slice) == of(found) {
        return Ok(());
    }
    Err(SliceError::Damaged(format!(
        "its batches hold {} records up to offset {}, the log knows of {} up to offset {}",
        found.data_count,
        found.next_offset - 1,
        slice.data_count,
        slice.next_offset - 1
    )))
}

/// What is known of any batch of a slice.
fn like(slice: &Slice) -> BlockEntry {
    let append_time_ms = slice.max_append_time_ms;
    BlockEntry { append_time_ms, ..BlockEntry::empty(slice.topic_partition, slice.base_offset) }
}

/// The slices that have offsets in the ranges.
fn affected(state: &ShardState, ranges: &[LostRange]) -> Vec<Slice> {
    let is_affected = |slice: &Slice| ranges.iter().any(|range| overlaps(range, &whole(slice)));
    let slices = state.partitions.values().flat_map(|partition| &partition.slices);
    slices.map(|slice| &slice.slice).filter(|slice| is_affected(slice)).cloned().collect()
}

fn overlaps(a: &LostRange, b: &LostRange) -> bool {
    (a.topic_id, a.partition) == (b.topic_id, b.partition)
        && a.base_offset < b.next_offset
        && b.base_offset < a.next_offset
}

fn whole(slice: &Slice) -> LostRange {
    let TopicPartition { topic_id, partition } = slice.topic_partition;
    LostRange { topic_id, partition, base_offset: slice.base_offset, next_offset: slice.next_offset }
}

fn refused(reason: &str) -> MaintenanceError {
    MaintenanceError::Refused { reason: reason.to_owned() }
}

impl SliceError {
    fn into_error(self, slice: &Slice) -> MaintenanceError {
        match self {
            Self::Store(error) => error.into(),
            Self::Damaged(reason) => {
                let partition = slice.topic_partition.partition;
                refused(&format!(
                    "slice {}..{} of partition {partition}: {reason}",
                    slice.base_offset, slice.next_offset
                ))
            }
        }
    }
}

impl Repaired {
    fn into_change(self) -> Change<(), InstallError> {
        Change::any_place(move |state, _| {
            self.check_current(state)?;
            let lost = self.replacements.iter().flat_map(|replacement| &replacement.lost).chain(&self.gone);
            let lost: Vec<_> = lost.copied().collect();
            let mut events = Vec::new();
            if !self.replacements.is_empty() {
                events.push(Event::SegmentsInstalled(SegmentsInstalled {
                    objects: self.segments.clone(),
                    partitions: self.replacements.iter().map(Replacement::install).collect(),
                    wal_objects: 0,
                }));
            }
            if !lost.is_empty() {
                events.push(Event::LossAccepted(LossAccepted {
                    object: self.object.clone(),
                    partitions: lost,
                }));
            }
            Ok((events, ()))
        })
    }

    /// What is replaced must still be there.
    fn check_current(&self, state: &ShardState) -> Result<(), InstallError> {
        let is_there = |slice: &Slice| {
            let partition = state.partitions.get(&slice.topic_partition);
            partition.is_some_and(|partition| partition.slices.iter().any(|found| found.slice == *slice))
        };
        match self.replacements.iter().all(|replacement| is_there(&replacement.before)) {
            true => Ok(()),
            false => Err(InstallError::Changed),
        }
    }
}

impl Replacement {
    fn install(&self) -> PartitionInstall {
        let TopicPartition { topic_id, partition } = self.before.topic_partition;
        PartitionInstall {
            topic_id,
            partition,
            base_offset: self.before.base_offset,
            next_offset: self.before.next_offset,
            slices: vec![self.after.clone()],
            cleaned_offset: None,
        }
    }
}
