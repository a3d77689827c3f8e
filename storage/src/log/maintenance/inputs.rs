//! The objects that a rewrite reads: small ones whole and once, large ones by ranges.
//!
//! Invariant: what is held in memory is bounded. What cannot be read for now fails the rewrite; what
//! is damaged is told apart, because it is carried over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt};

use super::run::{Input, Run};
use crate::format::segment::decode_slice_index;
use crate::format::{BlockEntry, Slice};
use crate::ids::{BlockObject, TopicPartition};
use crate::log::shared::Shared;
use crate::object::StoreError;

/// Objects are read so many at a time.
const READS_MAX: usize = 8;
/// All that is read of one rewrite at once. Beyond, slices are read one by one.
const WHOLE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// A slice is read in pieces of about this many bytes.
const PIECE_BYTES: u64 = 4 * 1024 * 1024;

/// A block to copy, and what is known of its bytes.
#[derive(Debug)]
pub(super) struct SourceBlock {
    pub(super) entry: BlockEntry,
    pub(super) bytes: SourceBytes,
}

#[derive(Debug)]
pub(super) enum SourceBytes {
    Whole(Bytes),
    /// They are not what the index says: they are kept as they are, under the CRC that they fail.
    Damaged(Bytes),
    /// The object is missing, or ends before the block.
    Lost {
        object: String,
    },
}

pub(super) struct Inputs {
    shared: Arc<Shared>,
    /// Whole objects; `None` for one that is not there.
    objects: BTreeMap<BlockObject, Option<Bytes>>,
}

impl Inputs {
    /// Reads the objects of the runs, as far as they are read whole.
    pub(super) async fn load(shared: &Arc<Shared>, runs: &[Run]) -> Result<Self, StoreError> {
        let wanted = whole_objects(shared, runs);
        let mut reads = stream::iter(wanted)
            .map(|object| async move { (object, read_whole(shared, object).await) })
            .buffer_unordered(READS_MAX);
        let mut objects = BTreeMap::new();
        while let Some((object, read)) = reads.next().await {
            objects.insert(object, read?);
        }
        drop(reads);
        Ok(Self { shared: shared.clone(), objects })
    }

    /// The blocks of an input with their bytes, in pieces: the next piece from `position` on, a
    /// number of blocks. Empty when the input has no more.
    pub(super) async fn piece(
        &self,
        input: &Opened,
        position: usize,
    ) -> Result<Vec<SourceBlock>, StoreError> {
        let rest = &input.blocks[position..];
        let Some(first) = rest.first() else { return Ok(Vec::new()) };
        let length = |entry: &BlockEntry| u64::from(entry.length);
        let mut bytes = 0;
        let fits = rest.iter().take_while(|entry| {
            let is_first = bytes == 0;
            bytes += length(entry);
            is_first || bytes <= PIECE_BYTES
        });
        let piece = &rest[..fits.count()];
        let end = piece.last().map_or(first.position, |last| last.position + length(last));
        let read = self.read(input.object, first.position..end).await?;
        let cut = |entry: &BlockEntry| {
            let start = usize::try_from(entry.position - first.position).ok()?;
            let read = read.as_ref()?;
            (start + entry.length as usize <= read.len())
                .then(|| read.slice(start..start + entry.length as usize))
        };
        let source = |entry: &BlockEntry| SourceBlock {
            entry: *entry,
            bytes: match cut(entry) {
                Some(bytes) if crc32c::crc32c(&bytes) == entry.crc => SourceBytes::Whole(bytes),
                Some(bytes) => SourceBytes::Damaged(bytes),
                None => SourceBytes::Lost { object: self.shared.keys.block_object(input.object) },
            },
        };
        Ok(piece.iter().map(source).collect())
    }

    /// The blocks of an input. An error of the inner kind is an index that is damaged.
    pub(super) async fn open(
        &self,
        topic_partition: TopicPartition,
        input: &Input,
    ) -> Result<Result<Opened, String>, StoreError> {
        match input {
            Input::Block(block) => {
                Ok(Ok(Opened { object: block.object, blocks: vec![block.entry(topic_partition)] }))
            }
            Input::Slice(slice) => self.open_slice(slice).await,
        }
    }

    async fn open_slice(&self, slice: &Slice) -> Result<Result<Opened, String>, StoreError> {
        let Some(location) = slice.location() else { return Ok(Err("it is lost".to_owned())) };
        let object = BlockObject::Segment(location.object);
        let end = location.index_position + u64::from(location.index_length);
        let Some(bytes) = self.read(object, location.index_position..end).await? else {
            return Ok(Err("the segment is missing".to_owned()));
        };
        let blocks = decode_slice_index(slice, location, &bytes);
        Ok(blocks.map(|blocks| Opened { object, blocks }).map_err(|error| error.to_string()))
    }

    /// Bytes of an object, as far as it has them; `None` if it is not there.
    async fn read(
        &self,
        object: BlockObject,
        range: std::ops::Range<u64>,
    ) -> Result<Option<Bytes>, StoreError> {
        if let Some(whole) = self.objects.get(&object) {
            return Ok(whole.as_ref().map(|whole| {
                let clip = |position: u64| usize::try_from(position).unwrap_or(usize::MAX).min(whole.len());
                whole.slice(clip(range.start)..clip(range.end))
            }));
        }
        let key = self.shared.keys.block_object(object);
        match self.shared.store.get_range(&key, range).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// An input whose blocks are known.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) object: BlockObject,
    pub(super) blocks: Vec<BlockEntry>,
}

/// WAL objects are always read whole, because their blocks belong to many partitions. Segments are,
/// if all of them together are not large.
fn whole_objects(shared: &Shared, runs: &[Run]) -> Vec<BlockObject> {
    let mut objects = BTreeSet::new();
    for input in runs.iter().flat_map(|run| &run.inputs) {
        match input {
            Input::Block(block) => objects.insert(block.object),
            Input::Slice(slice) => {
                slice.location().is_some_and(|location| objects.insert(BlockObject::Segment(location.object)))
            }
        };
    }
    let state = shared.durable();
    let length = |object: &BlockObject| match object {
        BlockObject::Segment(object) => state.segments.live.get(object).map_or(0, |segment| segment.length),
        BlockObject::Wal(_) => 0,
    };
    let segment_bytes: u64 = objects.iter().map(length).sum();
    if segment_bytes > WHOLE_BYTES_MAX {
        objects.retain(|object| matches!(object, BlockObject::Wal(_)));
    }
    objects.into_iter().collect()
}

async fn read_whole(shared: &Shared, object: BlockObject) -> Result<Option<Bytes>, StoreError> {
    if let BlockObject::Wal(position) = object
        && let Some(bytes) = shared.reader.tail_object(position)
    {
        return Ok(Some(bytes));
    }
    match shared.store.get(&shared.keys.block_object(object)).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
