//! Carries out a plan: reads its runs, writes segments, and says what is to be installed.
//!
//! Invariant: every record of the inputs that is at or past the log start is in the result, in order
//! and with its bytes; what is damaged stays damaged, under the same offsets.

use std::sync::Arc;

use bytes::Bytes;

use super::inputs::{Inputs, SourceBlock, SourceBytes};
use super::run::Run;
use super::sink::{Finished, SegmentSink, Sharing, lost_slice};
use crate::format::event::PartitionInstall;
use crate::format::{BlockEntry, Slice, split_batches};
use crate::log::shared::Shared;
use crate::log::verify::entry_of_batches;
use crate::object::StoreError;

/// What a rewrite made, in the order of its runs.
#[derive(Debug)]
pub(super) struct Rewritten {
    pub(super) segments: Vec<Finished>,
    pub(super) installs: Vec<PartitionInstall>,
    pub(super) bytes_read: u64,
}

/// Why a rewrite did not come about.
#[derive(Debug)]
pub(super) enum RewriteError {
    Store(StoreError),
    /// The index of a segment is damaged: its slices stay where they are.
    DamagedIndex {
        run: Box<Run>,
        reason: String,
    },
}

impl From<StoreError> for RewriteError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Where a slice of the result is: known in full only when its segment is finished.
pub(super) enum Placed {
    /// The next one of the sink.
    Stored,
    Lost(Box<Slice>),
}

/// Reads and writes the runs.
pub(super) async fn rewrite(shared: &Arc<Shared>, runs: &[Run]) -> Result<Rewritten, RewriteError> {
    let mut writer = RunWriter {
        sink: SegmentSink::new(shared),
        inputs: Inputs::new(shared, runs.iter().flat_map(|run| &run.inputs)),
        own_segment_bytes: shared.settings.maintenance.own_segment_bytes,
        decompressed_bytes_max: shared.settings.decompressed_bytes_max,
        placed: Vec::new(),
        last_own: false,
    };
    let mut placed = Vec::with_capacity(runs.len());
    for run in runs {
        writer.write(run).await?;
        placed.push(std::mem::take(&mut writer.placed));
    }
    Ok(assemble(runs, placed, writer.sink.finish().await?))
}

/// Puts together what is to be installed of the runs, whose slices are in the segments in order.
pub(super) fn assemble(runs: &[Run], placed: Vec<Vec<Placed>>, segments: Vec<Finished>) -> Rewritten {
    let mut stored = segments.iter().flat_map(|segment| segment.slices.iter().cloned());
    let mut installs = Vec::with_capacity(runs.len());
    for (run, placed) in runs.iter().zip(placed) {
        let slice = |placed| match placed {
            Placed::Stored => stored.next().expect("the sink ended every slice that was begun"),
            Placed::Lost(slice) => *slice,
        };
        installs.push(PartitionInstall {
            topic_id: run.topic_partition.topic_id,
            partition: run.topic_partition.partition,
            base_offset: run.base_offset,
            next_offset: run.next_offset,
            slices: placed.into_iter().map(slice).collect(),
            cleaned_offset: None,
        });
    }
    let bytes_read = runs.iter().map(Run::data_length).sum();
    Rewritten { segments, installs, bytes_read }
}

struct RunWriter {
    sink: SegmentSink,
    inputs: Inputs,
    own_segment_bytes: u64,
    decompressed_bytes_max: usize,
    placed: Vec<Placed>,
    /// The run before has a segment of its own.
    last_own: bool,
}

/// How far a run was written.
struct Progress {
    /// All offsets below are covered.
    covered: i64,
    is_open: bool,
    /// Of the slice that is open.
    bytes: u64,
    sharing: Sharing,
    /// Of the slice that is written anew: log cleaning alone puts cleaned slices together.
    delete_horizon_ms: Option<i64>,
}

impl RunWriter {
    async fn write(&mut self, run: &Run) -> Result<(), RewriteError> {
        let is_own = run.data_length() >= self.own_segment_bytes;
        let sharing = if is_own || self.last_own { Sharing::Own } else { Sharing::Shared };
        self.last_own = is_own;
        let delete_horizon_ms = run.delete_horizon_ms();
        let mut progress =
            Progress { covered: run.base_offset, is_open: false, bytes: 0, sharing, delete_horizon_ms };
        for input in &run.inputs {
            let opened = self.inputs.open(run.topic_partition, input).await?;
            let opened =
                opened.map_err(|reason| RewriteError::DamagedIndex { run: Box::new(run.clone()), reason })?;
            let mut position = 0;
            loop {
                let piece = self.inputs.piece(&opened, position).await?;
                if piece.is_empty() {
                    break;
                }
                position += piece.len();
                for block in piece {
                    self.write_block(run, block, &mut progress).await?;
                }
                // Checksums of a piece are work: others get a turn.
                tokio::task::yield_now().await;
            }
        }
        if !progress.is_open && progress.covered < run.next_offset {
            self.begin(run, &mut progress).await?;
        }
        self.end(run.next_offset, &mut progress).await?;
        Ok(())
    }

    async fn write_block(
        &mut self,
        run: &Run,
        block: SourceBlock,
        progress: &mut Progress,
    ) -> Result<(), StoreError> {
        if block.entry.next_offset <= run.log_start_offset {
            return Ok(());
        }
        let length = u64::from(block.entry.length);
        if progress.bytes + length > run.slice_bytes_max {
            self.end(block.entry.base_offset, progress).await?;
        }
        match block.bytes {
            SourceBytes::Lost { object } => {
                self.end(block.entry.base_offset, progress).await?;
                let slice = lost_slice(&block.entry, progress.covered, object);
                progress.covered = slice.next_offset;
                self.placed.push(Placed::Lost(Box::new(slice)));
                return Ok(());
            }
            SourceBytes::Damaged(bytes) => {
                self.begin(run, progress).await?;
                self.sink.push_damaged(block.entry, bytes).await?;
            }
            SourceBytes::Whole(bytes) => {
                let (start, max) = (run.log_start_offset, self.decompressed_bytes_max);
                let (entry, bytes) = without_dead_batches(block.entry, bytes, start, max);
                self.begin(run, progress).await?;
                self.sink.push(entry, bytes).await?;
            }
        }
        progress.covered = block.entry.next_offset;
        progress.bytes += length;
        Ok(())
    }

    async fn begin(&mut self, run: &Run, progress: &mut Progress) -> Result<(), StoreError> {
        if !progress.is_open {
            self.sink.begin_slice(run.topic_partition, progress.covered, progress.sharing).await?;
            progress.is_open = true;
            progress.bytes = 0;
            self.placed.push(Placed::Stored);
        }
        Ok(())
    }

    /// Ends the slice that is open, if one is, at an offset.
    async fn end(&mut self, next_offset: i64, progress: &mut Progress) -> Result<(), StoreError> {
        if progress.is_open {
            self.sink.end_slice(next_offset, progress.delete_horizon_ms).await?;
            progress.is_open = false;
            progress.covered = next_offset;
        }
        Ok(())
    }
}

/// A block that the log start cuts loses the batches that end below it. What is left is described
/// anew; if that cannot be done, the block stays whole.
fn without_dead_batches(
    entry: BlockEntry,
    bytes: Bytes,
    log_start_offset: i64,
    decompressed_bytes_max: usize,
) -> (BlockEntry, Bytes) {
    if entry.base_offset >= log_start_offset {
        return (entry, bytes);
    }
    let mut dead = 0;
    let mut base_offset = entry.base_offset;
    for batch in split_batches(bytes.clone()) {
        let Ok((header, batch)) = batch else { return (entry, bytes) };
        if header.last_offset() >= log_start_offset {
            break;
        }
        dead += batch.len();
        base_offset = header.next_offset();
    }
    if dead == 0 {
        return (entry, bytes);
    }
    let rest = bytes.slice(dead..);
    match entry_of_batches(&entry, &rest, decompressed_bytes_max) {
        Ok(found) => {
            (BlockEntry { base_offset, next_offset: entry.next_offset, flags: entry.flags, ..found }, rest)
        }
        Err(_) => (entry, bytes),
    }
}
