//! The objects that a rewrite reads: small ones whole and once, large ones by ranges.
//!
//! Invariant: what is held in memory is bounded. What cannot be read for now fails the rewrite; what
//! is damaged is told apart, because it is carried over.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};

use super::run::Input;
use crate::format::segment::decode_slice_index;
use crate::format::{BlockEntry, Slice};
use crate::ids::{BlockObject, TopicPartition};
use crate::log::settings::StorePlace;
use crate::log::shared::Shared;
use crate::object::StoreError;

/// So many objects are read at a time. A remote store answers late, so they are read ahead of their use;
/// a local one answers at once, and reads beside the other work would only take processors from others.
const READS_REMOTE: usize = 8;
const READS_LOCAL: usize = 1;
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
    /// Those of `whole` that were not asked for yet, in the order in which they will be.
    ahead: BoxStream<'static, (BlockObject, Result<Option<Bytes>, StoreError>)>,
    whole: BTreeMap<BlockObject, Whole>,
}

/// An object that is read as a whole.
#[derive(Default)]
struct Whole {
    /// So many inputs still need it.
    uses: usize,
    bytes: WholeBytes,
}

#[derive(Default)]
enum WholeBytes {
    #[default]
    NotRead,
    Missing,
    Read(Bytes),
}

impl Inputs {
    /// For a rewrite that reads inputs in this order; one that is read twice comes twice.
    pub(super) fn new<'a>(shared: &Arc<Shared>, inputs: impl Iterator<Item = &'a Input>) -> Self {
        let (order, whole) = whole_objects(shared, inputs);
        let reads = match StorePlace::of(shared.store.linger_default()) {
            StorePlace::Local => READS_LOCAL,
            StorePlace::Remote => READS_REMOTE,
        };
        let reader = shared.clone();
        let read = move |object| {
            // A task of its own goes on while what was read before is written.
            let reading = tokio::spawn(read_whole(reader.clone(), object));
            let key = reader.keys.block_object(object);
            async move {
                let read = reading.await.unwrap_or_else(|error| match error.try_into_panic() {
                    Ok(panic) => resume_unwind(panic),
                    Err(stopped) => Err(StoreError::Unavailable { key, reason: stopped.to_string() }),
                });
                (object, read)
            }
        };
        let ahead = stream::iter(order).map(read).buffered(reads).boxed();
        Self { shared: shared.clone(), ahead, whole }
    }

    /// The blocks of an input with their bytes, in pieces: the next piece from `position` on, a
    /// number of blocks. Empty when the input has no more, which must be asked for once.
    pub(super) async fn piece(
        &mut self,
        input: &Opened,
        position: usize,
    ) -> Result<Vec<SourceBlock>, StoreError> {
        let rest = &input.blocks[position..];
        let Some(first) = rest.first() else {
            self.note_end(input);
            return Ok(Vec::new());
        };
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
        &mut self,
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

    async fn open_slice(&mut self, slice: &Slice) -> Result<Result<Opened, String>, StoreError> {
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
        &mut self,
        object: BlockObject,
        range: std::ops::Range<u64>,
    ) -> Result<Option<Bytes>, StoreError> {
        if !self.whole.contains_key(&object) {
            let key = self.shared.keys.block_object(object);
            return found(self.shared.store.get_range(&key, range).await);
        }
        let whole = self.whole(object).await?;
        Ok(whole.map(|whole| {
            let clip = |position: u64| usize::try_from(position).unwrap_or(usize::MAX).min(whole.len());
            whole.slice(clip(range.start)..clip(range.end))
        }))
    }

    async fn whole(&mut self, object: BlockObject) -> Result<Option<Bytes>, StoreError> {
        loop {
            match self.whole.get(&object).map(|whole| &whole.bytes) {
                Some(WholeBytes::Read(bytes)) => return Ok(Some(bytes.clone())),
                Some(WholeBytes::Missing) | None => return Ok(None),
                Some(WholeBytes::NotRead) => {}
            }
            let (next, read) = self.ahead.next().await.expect("what was not read is ahead");
            if let Some(whole) = self.whole.get_mut(&next) {
                whole.bytes = read?.map_or(WholeBytes::Missing, WholeBytes::Read);
            }
        }
    }

    /// An object that no other input needs is kept no longer.
    fn note_end(&mut self, input: &Opened) {
        if let Some(whole) = self.whole.get_mut(&input.object) {
            whole.uses = whole.uses.saturating_sub(1);
            if whole.uses == 0 {
                self.whole.remove(&input.object);
            }
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
/// if all of them together are not large. In the order of their first use.
fn whole_objects<'a>(
    shared: &Shared,
    inputs: impl Iterator<Item = &'a Input>,
) -> (Vec<BlockObject>, BTreeMap<BlockObject, Whole>) {
    let objects = inputs.filter_map(|input| match input {
        Input::Block(block) => Some(block.object),
        Input::Slice(slice) => slice.location().map(|location| BlockObject::Segment(location.object)),
    });
    let (mut order, mut whole) = (Vec::new(), BTreeMap::<BlockObject, Whole>::new());
    for object in objects {
        let uses = &mut whole.entry(object).or_default().uses;
        if *uses == 0 {
            order.push(object);
        }
        *uses += 1;
    }
    let state = shared.durable();
    let length = |object: &BlockObject| match object {
        BlockObject::Segment(object) => state.segments.live.get(object).map_or(0, |segment| segment.length),
        BlockObject::Wal(_) => 0,
    };
    if order.iter().map(length).sum::<u64>() > WHOLE_BYTES_MAX {
        order.retain(|object| matches!(object, BlockObject::Wal(_)));
        whole.retain(|object, _| matches!(object, BlockObject::Wal(_)));
    }
    (order, whole)
}

async fn read_whole(shared: Arc<Shared>, object: BlockObject) -> Result<Option<Bytes>, StoreError> {
    if let BlockObject::Wal(position) = object
        && let Some(bytes) = shared.reader.tail_object(position)
    {
        return Ok(Some(bytes));
    }
    found(shared.store.get(&shared.keys.block_object(object)).await)
}

fn found(read: Result<Bytes, StoreError>) -> Result<Option<Bytes>, StoreError> {
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
