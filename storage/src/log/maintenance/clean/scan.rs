//! The first pass: which record of each key is the newest.
//!
//! Invariant: memory is bounded. When it is used up, what comes after is left for the next time.

use super::filter::Aborted;
use super::key_map::KeyMap;
use super::plan::CleanPlan;
use crate::format::{BatchError, BatchHeader, DecompressionBudget, Records, split_batches};
use crate::log::maintenance::inputs::{Inputs, SourceBlock, SourceBytes};
use crate::log::maintenance::rewrite::RewriteError;
use crate::log::maintenance::run::Input;

/// What is known after the first pass.
pub(super) struct Scanned {
    pub(super) keys: KeyMap,
    /// All records below were looked at.
    pub(super) end: i64,
}

struct Scan<'a> {
    plan: &'a CleanPlan,
    aborted: Aborted,
    keys: KeyMap,
    decompressed_bytes_max: usize,
}

/// Reads the slices that were not cleaned before.
pub(super) async fn scan(
    inputs: &mut Inputs,
    plan: &CleanPlan,
    keys: KeyMap,
    decompressed_bytes_max: usize,
) -> Result<Scanned, RewriteError> {
    let mut scan = Scan { plan, aborted: Aborted::new(&plan.aborted), keys, decompressed_bytes_max };
    let end = scan.run(inputs).await?.unwrap_or(plan.run.next_offset);
    Ok(Scanned { keys: scan.keys, end })
}

impl Scan<'_> {
    /// Gives the offset at which memory was used up, if it was.
    async fn run(&mut self, inputs: &mut Inputs) -> Result<Option<i64>, RewriteError> {
        let run = &self.plan.run;
        for input in dirty_inputs(self.plan) {
            let opened = inputs.open(run.topic_partition, input).await?;
            let opened =
                opened.map_err(|reason| RewriteError::DamagedIndex { run: Box::new(run.clone()), reason })?;
            let mut position = 0;
            loop {
                let piece = inputs.piece(&opened, position).await?;
                if piece.is_empty() {
                    break;
                }
                position += piece.len();
                for block in &piece {
                    if let Some(end) = self.note_block(block) {
                        return Ok(Some(end));
                    }
                }
                // Decompression is work: others get a turn.
                tokio::task::yield_now().await;
            }
        }
        Ok(None)
    }

    /// What cannot be decoded has no keys: the second pass keeps it as it is.
    fn note_block(&mut self, block: &SourceBlock) -> Option<i64> {
        let SourceBytes::Whole(bytes) = &block.bytes else { return None };
        for batch in split_batches(bytes.clone()) {
            let Ok((header, batch)) = batch else { return None };
            if self.is_left_out(&header) {
                continue;
            }
            if self.keys.is_full() {
                return Some(header.base_offset);
            }
            let mut budget = DecompressionBudget::new(self.decompressed_bytes_max);
            let noted = Records::decode(&batch, &mut budget).and_then(|records| self.note_records(&records));
            if let Err(error) = noted {
                tracing::warn!(%error, offset = header.base_offset, "a batch is not cleaned");
            }
        }
        None
    }

    fn is_left_out(&self, header: &BatchHeader) -> bool {
        header.is_control()
            || header.last_offset() < self.plan.run.log_start_offset
            || (header.is_transactional() && self.aborted.contains(header.producer_id, header.base_offset))
    }

    fn note_records(&mut self, records: &Records) -> Result<(), BatchError> {
        for record in records {
            let record = record?;
            if let Some(key) = record.key {
                self.keys.note(key, record.offset);
            }
        }
        Ok(())
    }
}

/// The inputs that the first pass reads.
pub(super) fn dirty_inputs(plan: &CleanPlan) -> impl Iterator<Item = &Input> {
    let dirty = plan.run.inputs.iter().filter(|input| input.next_offset() > plan.cleaned_offset);
    dirty.filter(|input| is_stored(input))
}

/// A slice that is lost has nothing to read.
fn is_stored(input: &Input) -> bool {
    matches!(input, Input::Slice(slice) if slice.location().is_some())
}
