//! Reads offsets whose object is gone, in a process that only reads: the owner of the log may have
//! put them into other objects since, and deleted that one. The state of the shard is read again, and
//! says where they are now.
//!
//! Invariant: what is given is what the snapshot holds, to the byte. Records that were deleted or
//! cleaned since are an error, never left out.
//! Invariant: an object is called missing only if a state that was read after it was found missing
//! still refers to it: the owner deletes only what the newest checkpoint refers to no more.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::FutureExt;
use tokio::sync::Mutex;

use super::error::FetchError;
use super::open;
use super::reader::{BlockReader, Missing, ReadError};
use super::settings::LogSettings;
use super::snapshot::PartitionView;
use super::state::{Block, PartitionState, ShardState};
use super::verify::entry_of_batches;
use crate::format::{BatchHeader, BlockEntry, Slice, split_batches, split_batches_at};
use crate::ids::{BlockObject, ShardId};
use crate::object::LogStore;
use crate::seam::Seams;

/// The state is read again so often for one read. Each time the owner has to compact and to delete
/// in between, so this is reached only if it deletes faster than this process reads.
const ROUNDS_MAX: usize = 8;

/// Reads the state of a shard again.
#[derive(Debug)]
pub(super) struct Refresher {
    store: Arc<dyn LogStore>,
    shard: ShardId,
    settings: LogSettings,
    seams: Seams,
    /// How many readings of the state have begun.
    begun: AtomicU64,
    /// Held while the state is read, so that all who wait get the same.
    newest: Mutex<Option<Refreshed>>,
}

/// A state that was read again.
#[derive(Clone, Debug)]
struct Refreshed {
    /// Of the reading, counted from 1.
    number: u64,
    state: Arc<ShardState>,
}

impl Refresher {
    pub(super) fn new(store: Arc<dyn LogStore>, shard: ShardId, settings: LogSettings, seams: Seams) -> Self {
        Self { store, shard, settings, seams, begun: AtomicU64::new(0), newest: Mutex::new(None) }
    }

    /// A state whose reading began after as many others had begun.
    async fn after(&self, begun: u64, missing: &Missing) -> Result<Refreshed, FetchError> {
        let mut newest = self.newest.lock().await;
        if let Some(refreshed) = newest.as_ref().filter(|refreshed| refreshed.number > begun) {
            return Ok(refreshed.clone());
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let (object, shard) = (&missing.object, self.shard);
        tracing::debug!(object, %shard, "an object is gone, the state of the shard is read again");
        // Rare, and too deep to be a part of the future of every read.
        let read = open::read_only(&self.store, self.shard, &self.settings, &self.seams).boxed();
        let (_, state) = read.await.map_err(|error| FetchError::Unavailable {
            object: missing.object.clone(),
            reason: format!("it is gone, and the state of the log cannot be read again: {error}"),
        })?;
        Ok(newest.insert(Refreshed { number, state: Arc::new(state) }).clone())
    }
}

/// What a read has found missing so far.
struct Search<'a> {
    refresher: &'a Refresher,
    missing: Missing,
    /// The readings of the state that had begun when it was found missing.
    begun: u64,
    /// The reading whose state was looked at last.
    number: u64,
    rounds: usize,
}

impl<'a> Search<'a> {
    fn new(refresher: &'a Refresher, missing: Missing) -> Self {
        let begun = refresher.begun.load(Ordering::SeqCst);
        Self { refresher, missing, begun, number: 0, rounds: 0 }
    }

    /// The next state to look at: first whatever was read again last.
    async fn next(&mut self) -> Result<Arc<ShardState>, FetchError> {
        let begun = if self.rounds == 0 { 0 } else { self.begun };
        let Refreshed { number, state } = self.refresher.after(begun, &self.missing).await?;
        (self.number, self.rounds) = (number, self.rounds + 1);
        Ok(state)
    }

    /// What was found by the last state; `None` if that refers to an object which is missing too.
    fn end_with<T>(&mut self, read: Result<T, ReadError>) -> Result<Option<T>, FetchError> {
        match read {
            Ok(found) => {
                self.refresher.seams.failpoint("read_only.found_again");
                Ok(Some(found))
            }
            Err(ReadError::Missing(missing)) => self.go_on(missing).map(|()| None),
            Err(ReadError::Other(error)) => Err(error),
        }
    }

    /// Notes that an object which the last state refers to is missing too.
    ///
    /// # Errors
    /// It is the same one, and the state was read after it was found missing.
    fn go_on(&mut self, missing: Missing) -> Result<(), FetchError> {
        if missing.object == self.missing.object && self.number > self.begun {
            return Err(missing.damage());
        }
        if self.rounds == ROUNDS_MAX {
            let reason = "the server deletes objects faster than they are read; run the statement again";
            return Err(FetchError::Unavailable { object: missing.object, reason: reason.to_owned() });
        }
        self.begun = self.refresher.begun.load(Ordering::SeqCst);
        self.missing = missing;
        Ok(())
    }
}

impl PartitionView {
    /// The blocks that have the records of a slice: its own, if its index is where it was.
    pub(super) async fn find_slice_blocks(&self, slice: &Slice) -> Result<Arc<[Block]>, FetchError> {
        let missing = match self.reader.slice_blocks(slice).await {
            Err(ReadError::Missing(missing)) => missing,
            read => return Ok(read?),
        };
        let Some(refresher) = &self.refresher else { return Err(missing.damage()) };
        let mut search = Search::new(refresher, missing);
        loop {
            let state = search.next().await?;
            let range = slice.base_offset..slice.next_offset;
            let partition = self.partition_in(&state, &range, &search.missing)?;
            let read = self.blocks_of_slice(slice, partition).await;
            if let Some(blocks) = search.end_with(read)? {
                return Ok(blocks.into());
            }
        }
    }

    /// The bytes of the first `count` blocks; those after them may be read ahead.
    pub(super) async fn find_blocks(&self, blocks: &[Block], count: usize) -> Result<Vec<Bytes>, FetchError> {
        let missing = match self.reader.read_first(blocks, count).await {
            Err(ReadError::Missing(missing)) => missing,
            read => return Ok(read?),
        };
        let Some(refresher) = &self.refresher else { return Err(missing.damage()) };
        let wanted = &blocks[..count];
        let range = wanted[0].base_offset..wanted[count - 1].next_offset;
        let mut search = Search::new(refresher, missing);
        loop {
            let state = search.next().await?;
            let partition = self.partition_in(&state, &range, &search.missing)?;
            let read = self.batches_of_blocks(wanted, &range, partition).await;
            if let Some(bytes) = search.end_with(read)? {
                return Ok(bytes);
            }
        }
    }

    /// The partition in a newer state.
    fn partition_in<'a>(
        &self,
        state: &'a ShardState,
        range: &Range<i64>,
        missing: &Missing,
    ) -> Result<&'a PartitionState, FetchError> {
        let partition = state.partitions.get(&self.topic_partition).ok_or_else(|| removed(range))?;
        // Offsets never go back: the newest objects of the WAL are missing.
        if partition.next_offset < range.end {
            return Err(missing.damage());
        }
        Ok(partition)
    }

    /// The blocks that have the records of a slice by now.
    async fn blocks_of_slice(&self, slice: &Slice, now: &PartitionState) -> Result<Vec<Block>, ReadError> {
        let range = slice.base_offset..slice.next_offset;
        let mut entries = Vec::new();
        for block in blocks_in(&self.reader, now, &range).await? {
            entries.extend(self.clipped(&block, &range).await?.map(|entry| (entry, block.object)));
        }
        let mut found = Slice::empty(slice.topic_partition, slice.base_offset, slice.data.clone());
        entries.iter().for_each(|(entry, _)| found.add(entry));
        let length = entries.iter().map(|(entry, _)| u64::from(entry.length)).sum::<u64>();
        let is_same = (found.data_count, found.control_count, length)
            == (slice.data_count, slice.control_count, slice.data_length());
        if !is_same {
            let first = entries.first().map_or(range.end, |(entry, _)| entry.base_offset);
            if !is_rest(&range, record_count(slice), first, record_count(&found)) {
                return Err(removed(&range).into());
            }
            if first > self.state.log_start_offset.max(range.start) {
                entries.insert(0, deleted_part(slice, &found, first, length));
            }
        }
        let mut running_max = -1;
        let blocks = entries.iter().map(|(entry, object)| {
            let block = Block::new(entry, *object, running_max);
            running_max = block.running_max_timestamp;
            block
        });
        Ok(blocks.collect())
    }

    /// The entry of what of a block lies in a range: whole batches, because batches are never cut.
    async fn clipped(&self, block: &Block, range: &Range<i64>) -> Result<Option<BlockEntry>, ReadError> {
        let entry = block.entry(self.topic_partition);
        if range.start <= block.base_offset && block.next_offset <= range.end {
            return Ok(Some(entry));
        }
        let bytes = self.reader.read(&[*block]).await?.remove(0);
        let (before, rest) = split_batches_at(bytes, range.start);
        let (part, _) = split_batches_at(rest, range.end);
        if part.is_empty() {
            return Ok(None);
        }
        let like = BlockEntry { position: block.position + before.len() as u64, ..entry };
        let part = entry_of_batches(&like, &part, self.decompressed_bytes_max);
        Ok(Some(part.map_err(|reason| self.damaged(block, reason))?))
    }

    /// The batches of each block, from where they are by now.
    async fn batches_of_blocks(
        &self,
        blocks: &[Block],
        range: &Range<i64>,
        now: &PartitionState,
    ) -> Result<Vec<Bytes>, ReadError> {
        let mut found = blocks_in(&self.reader, now, range).await?;
        // Those between the blocks are not wanted.
        found.retain(|found| {
            let next = blocks.partition_point(|block| block.next_offset <= found.base_offset);
            blocks.get(next).is_some_and(|block| block.base_offset < found.next_offset)
        });
        let mut batches = Vec::new();
        for (block, bytes) in found.iter().zip(self.reader.read(&found).await?) {
            for batch in split_batches(bytes) {
                batches.push(batch.map_err(|error| self.damaged(block, error))?);
            }
        }
        let of_block = |block: &Block| {
            let first = batches.partition_point(|(header, _)| header.base_offset < block.base_offset);
            let end = batches.partition_point(|(header, _)| header.base_offset < block.next_offset);
            self.joined(block, &batches[first..end])
        };
        blocks.iter().map(|block| Ok(of_block(block)?)).collect()
    }

    /// The bytes of a block, if these are all of its batches that the view sees.
    fn joined(&self, block: &Block, batches: &[(BatchHeader, Bytes)]) -> Result<Bytes, FetchError> {
        let bytes = match batches {
            [(_, batch)] => batch.clone(),
            _ => batches.iter().map(|(_, batch)| &batch[..]).collect::<Vec<_>>().concat().into(),
        };
        let range = block.base_offset..block.next_offset;
        let is_same = bytes.len() == block.length as usize && crc32c::crc32c(&bytes) == block.crc;
        let first = batches.first().map_or(range.end, |(header, _)| header.base_offset);
        let count = batches.iter().map(|(header, _)| u64::try_from(header.record_count).unwrap_or(0)).sum();
        let counted = u64::from(block.data_count) + u64::from(block.control_count);
        let is_visible_rest =
            || first <= self.state.log_start_offset && is_rest(&range, counted, first, count);
        if is_same || is_visible_rest() { Ok(bytes) } else { Err(removed(&range)) }
    }
}

/// Whether `count` records from an offset on are all that there were of a range with `counted` records.
/// A rewrite drops what lies below the log start; that the rest is whole is known only if no offset is
/// missing.
fn is_rest(range: &Range<i64>, counted: u64, first: i64, count: u64) -> bool {
    let is_dense = |base_offset: i64, count: u64| i64::try_from(count) == Ok(range.end - base_offset);
    is_dense(range.start, counted) && is_dense(first, count)
}

fn record_count(slice: &Slice) -> u64 {
    slice.data_count + slice.control_count
}

/// The blocks that hold a range of offsets. The first and the last may hold others too.
async fn blocks_in(
    reader: &BlockReader,
    partition: &PartitionState,
    range: &Range<i64>,
) -> Result<Vec<Block>, ReadError> {
    let overlaps = |block: &&Block| block.base_offset < range.end && block.next_offset > range.start;
    let mut found: Vec<Block> = Vec::new();
    let first = partition.first_slice_where(|slice| slice.slice.next_offset > range.start);
    let slices = partition.slices.focus().narrow(first..);
    for slice in slices.into_iter().take_while(|slice| slice.slice.base_offset < range.end) {
        found.extend(reader.slice_blocks(&slice.slice).await?.iter().filter(overlaps));
    }
    let first = partition.first_block_where(|block| block.next_offset > range.start);
    let tail = partition.blocks.focus().narrow(first..);
    found.extend(tail.into_iter().take_while(overlaps));
    Ok(found)
}

/// What was deleted of a slice, as a block of the object that is gone: reading it fails, and says why.
/// Its times are bounded by those of the slice.
fn deleted_part(
    slice: &Slice,
    rest: &Slice,
    next_offset: i64,
    rest_length: u64,
) -> (BlockEntry, BlockObject) {
    let location = slice.location().expect("only a slice that is stored has an object that can go");
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let entry = BlockEntry {
        topic_partition: slice.topic_partition,
        base_offset: slice.base_offset,
        next_offset,
        position: location.data_position,
        length: small(slice.data_length().saturating_sub(rest_length)).max(1),
        data_count: small(slice.data_count.saturating_sub(rest.data_count)),
        control_count: small(slice.control_count.saturating_sub(rest.control_count)),
        null_timestamp_count: small(slice.null_timestamp_count.saturating_sub(rest.null_timestamp_count)),
        min_timestamp: slice.min_timestamp,
        max_timestamp: slice.max_timestamp,
        offset_of_max_timestamp: slice.offset_of_max_timestamp,
        append_time_ms: slice.min_append_time_ms,
        leader_epoch: slice.leader_epoch,
        flags: slice.flags,
        crc: 0,
    };
    (entry, BlockObject::Segment(location.object))
}

fn removed(range: &Range<i64>) -> FetchError {
    FetchError::Removed { base_offset: range.start, last_offset: range.end - 1 }
}
