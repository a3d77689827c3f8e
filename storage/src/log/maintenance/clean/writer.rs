//! The second pass: writes the slices anew, with what the filter lets stay.
//!
//! Invariant: the ranges of the slices that are written cover those that were read. What is damaged,
//! lost or does not decode stays as it is.
//! Invariant: slices of records whose time comes at different moments stay apart, and what was not
//! cleaned is in slices of its own.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::filter::{Filter, Horizon, Verdict};
use super::plan::CleanPlan;
use super::scan::Scanned;
use crate::format::{BatchHeader, BlockEntry, Slice, split_batches, split_batches_at, without_records};
use crate::log::maintenance::inputs::{Inputs, SourceBlock, SourceBytes};
use crate::log::maintenance::rewrite::{Placed, RewriteError};
use crate::log::maintenance::run::Input;
use crate::log::maintenance::sink::{Finished, SegmentSink, Sharing, lost_slice};
use crate::log::shared::Shared;
use crate::log::verify::entry_of_batches;
use crate::object::StoreError;

/// Writes partitions one after the other.
pub(super) struct CleanWriter {
    shared: Arc<Shared>,
    sink: SegmentSink,
    /// The partition before has a segment of its own.
    last_own: bool,
}

/// Slices of one class that follow each other become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Nothing in it waits for a time.
    Settled,
    Until(i64),
    /// Cleaned for the first time.
    New,
    /// Not cleaned this time.
    Rest,
}

/// How far a partition was written.
struct Output {
    placed: Vec<Placed>,
    /// All offsets below are in slices.
    covered: i64,
    is_open: bool,
    sharing: Sharing,
    class: Class,
    /// Of the slices that were read for the one that is open.
    bytes: u64,
    horizon_ms: Option<i64>,
    /// The last batch, if it was dropped.
    dropped: Option<(BlockEntry, Bytes)>,
}

impl CleanWriter {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: shared.clone(), sink: SegmentSink::new(shared), last_own: false }
    }

    pub(super) async fn finish(self) -> Result<Vec<Finished>, StoreError> {
        self.sink.finish().await
    }

    /// Writes the slices of a partition up to the end of the scan, the last one whole.
    pub(super) async fn write(
        &mut self,
        inputs: &mut Inputs,
        plan: &CleanPlan,
        scanned: &Scanned,
        now_ms: i64,
    ) -> Result<Vec<Placed>, RewriteError> {
        let run = &plan.run;
        let is_own = run.data_length() >= self.shared.settings.maintenance.own_segment_bytes;
        let mut output = Output {
            placed: Vec::new(),
            covered: run.base_offset,
            is_open: false,
            sharing: if is_own || self.last_own { Sharing::Own } else { Sharing::Shared },
            class: Class::Settled,
            bytes: 0,
            horizon_ms: None,
            dropped: None,
        };
        self.last_own = is_own;
        let max = self.shared.settings.decompressed_bytes_max;
        let mut filter = Filter::new(&scanned.keys, plan, max);
        for input in &run.inputs {
            let Input::Slice(slice) = input else { continue };
            self.begin_input(plan, slice, now_ms, &mut output).await?;
            if slice.location().is_none() {
                self.carry_lost(slice.clone(), &mut output).await?;
                continue;
            }
            let mut horizon = Horizon::new(slice, now_ms, plan.delete_retention_ms);
            let mut cleaning = Cleaning { filter: &mut filter, horizon: &mut horizon, end: scanned.end };
            self.write_slice(inputs, plan, input, &mut cleaning, &mut output).await?;
            output.raise_horizon(&horizon);
        }
        self.restore_last(plan, &mut output).await?;
        if !output.is_open && output.covered < run.next_offset {
            self.begin(plan, &mut output).await?;
        }
        self.end(run.next_offset, &mut output).await?;
        Ok(output.placed)
    }

    /// Ends the slice that is open if this one is not to be part of it.
    async fn begin_input(
        &mut self,
        plan: &CleanPlan,
        slice: &Slice,
        now_ms: i64,
        output: &mut Output,
    ) -> Result<(), StoreError> {
        let class = class_of(slice, plan.cleaned_offset, now_ms);
        let bytes = output.bytes + slice.data_length();
        let is_full =
            bytes > self.shared.settings.maintenance.segment_bytes_max.min(plan.run.slice_bytes_max);
        if class != output.class || is_full {
            self.end(slice.base_offset, output).await?;
            output.bytes = 0;
        }
        output.class = class;
        output.bytes += slice.data_length();
        Ok(())
    }

    async fn write_slice(
        &mut self,
        inputs: &mut Inputs,
        plan: &CleanPlan,
        input: &Input,
        cleaning: &mut Cleaning<'_, '_>,
        output: &mut Output,
    ) -> Result<(), RewriteError> {
        let opened = inputs.open(plan.run.topic_partition, input).await?;
        let opened = opened
            .map_err(|reason| RewriteError::DamagedIndex { run: Box::new(plan.run.clone()), reason })?;
        let mut position = 0;
        loop {
            let piece = inputs.piece(&opened, position).await?;
            if piece.is_empty() {
                return Ok(());
            }
            position += piece.len();
            for block in piece {
                self.write_block(plan, block, cleaning, output).await?;
            }
            // Decompression is work: others get a turn.
            tokio::task::yield_now().await;
        }
    }

    async fn write_block(
        &mut self,
        plan: &CleanPlan,
        block: SourceBlock,
        cleaning: &mut Cleaning<'_, '_>,
        output: &mut Output,
    ) -> Result<(), RewriteError> {
        let entry = block.entry;
        if entry.next_offset <= plan.run.log_start_offset {
            return Ok(());
        }
        match block.bytes {
            SourceBytes::Lost { object } => {
                self.end(entry.base_offset, output).await?;
                let slice = lost_slice(&entry, output.covered, object);
                self.carry_lost(slice, output).await?;
            }
            SourceBytes::Damaged(bytes) => {
                self.begin(plan, output).await?;
                output.dropped = None;
                output.covered = entry.next_offset;
                self.sink.push_damaged(entry, bytes).await?;
            }
            SourceBytes::Whole(bytes) => self.clean_block(plan, &entry, bytes, cleaning, output).await?,
        }
        Ok(())
    }

    async fn clean_block(
        &mut self,
        plan: &CleanPlan,
        entry: &BlockEntry,
        bytes: Bytes,
        cleaning: &mut Cleaning<'_, '_>,
        output: &mut Output,
    ) -> Result<(), RewriteError> {
        let (front, rest) = split_batches_at(bytes, cleaning.end);
        if !front.is_empty() {
            match cleaning.clean(entry, &front, output) {
                Some(left) if left.is_empty() => {}
                Some(left) => self.push(plan, entry, left, output).await?,
                None => self.push(plan, entry, front, output).await?,
            }
        }
        if !rest.is_empty() {
            if output.class != Class::Rest {
                output.raise_horizon(cleaning.horizon);
                self.end(cleaning.end, output).await?;
                *cleaning.horizon = cleaning.horizon.emptied();
                output.class = Class::Rest;
            }
            output.dropped = None;
            self.push(plan, entry, rest, output).await?;
        }
        Ok(())
    }

    /// Adds batches that were in one block.
    async fn push(
        &mut self,
        plan: &CleanPlan,
        like: &BlockEntry,
        bytes: Bytes,
        output: &mut Output,
    ) -> Result<(), RewriteError> {
        let max = self.shared.settings.decompressed_bytes_max;
        let is_same = bytes.len() == like.length as usize && crc32c::crc32c(&bytes) == like.crc;
        let entry = if is_same { Ok(*like) } else { entry_of_batches(like, &bytes, max) };
        // Only a part of a block that does not decode has no entry.
        let entry =
            entry.map_err(|reason| RewriteError::DamagedIndex { run: Box::new(plan.run.clone()), reason })?;
        self.begin(plan, output).await?;
        output.covered = entry.next_offset;
        Ok(self.sink.push(entry, bytes).await?)
    }

    /// The last batch of what is cleaned stays, without its records, so that readers see how far the
    /// log goes (as Kafka does).
    async fn restore_last(&mut self, plan: &CleanPlan, output: &mut Output) -> Result<(), RewriteError> {
        let Some((like, batch)) = output.dropped.take() else { return Ok(()) };
        let header = BatchHeader::parse(&batch).expect("it was parsed when it was dropped");
        let is_in_place = header.base_offset >= output.covered;
        let is_alive = header.last_offset() >= plan.run.log_start_offset;
        if !is_in_place || !is_alive {
            return Ok(());
        }
        let bytes = if header.is_control() { batch } else { without_records(&batch) };
        self.push(plan, &like, bytes, output).await
    }

    async fn carry_lost(&mut self, slice: Slice, output: &mut Output) -> Result<(), StoreError> {
        self.end(slice.base_offset, output).await?;
        output.dropped = None;
        output.covered = slice.next_offset;
        output.placed.push(Placed::Lost(Box::new(slice)));
        Ok(())
    }

    async fn begin(&mut self, plan: &CleanPlan, output: &mut Output) -> Result<(), StoreError> {
        if !output.is_open {
            self.sink.begin_slice(plan.run.topic_partition, output.covered, output.sharing).await?;
            output.sharing = Sharing::Shared;
            output.is_open = true;
            output.placed.push(Placed::Stored);
        }
        Ok(())
    }

    /// Ends the slice that is open, if one is, at an offset.
    async fn end(&mut self, next_offset: i64, output: &mut Output) -> Result<(), StoreError> {
        if output.is_open {
            self.sink.end_slice(next_offset, output.horizon_ms).await?;
            output.is_open = false;
            output.covered = next_offset;
        }
        output.horizon_ms = None;
        Ok(())
    }
}

impl Output {
    fn raise_horizon(&mut self, horizon: &Horizon) {
        self.horizon_ms = self.horizon_ms.max(horizon.after());
    }
}

/// What decides about the blocks of one slice.
struct Cleaning<'a, 'b> {
    filter: &'a mut Filter<'b>,
    horizon: &'a mut Horizon,
    /// Batches from here on are not cleaned.
    end: i64,
}

impl Cleaning<'_, '_> {
    /// What is left of the batches of a block; `None` if they do not decode.
    fn clean(&mut self, like: &BlockEntry, bytes: &Bytes, output: &mut Output) -> Option<Bytes> {
        let mut left = BytesMut::new();
        for batch in split_batches(bytes.clone()) {
            let (header, batch) = batch.ok()?;
            let kept = match self.filter.judge(&header, &batch, self.horizon).ok()? {
                Verdict::Keep => batch,
                Verdict::Replace(smaller) => smaller,
                Verdict::Drop => {
                    output.dropped = Some((*like, batch));
                    continue;
                }
            };
            output.dropped = None;
            left.extend_from_slice(&kept);
        }
        Some(left.freeze())
    }
}

fn class_of(slice: &Slice, cleaned_offset: i64, now_ms: i64) -> Class {
    if slice.next_offset > cleaned_offset {
        return Class::New;
    }
    slice.delete_horizon_ms.filter(|at| *at > now_ms).map_or(Class::Settled, Class::Until)
}
