//! Reads blocks: from the newest objects in memory, from the cache, or from the store.
//!
//! Invariant: memory for payloads is bounded, by the budget of the tail and that of the cache.
//! Invariant: a block that comes from the store is checked against its CRC before anybody sees it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::error::FetchError;
use super::keys::ShardKeys;
use super::state::Block;
use crate::format::Slice;
use crate::format::segment::decode_slice_index;
use crate::format::slice::{LossAcceptance, SliceData};
use crate::ids::{BlockObject, ShardId, WalPosition};
use crate::object::{BlockCache, BlockKey, LogStore, StoreError};

/// A run of adjacent blocks is read in one request up to this many bytes.
pub(super) const READ_BYTES_MAX: u64 = 8 * 1024 * 1024;

const MISSING: &str = "the object is missing";

/// An object that is not there, and what was wanted of it. Where nobody else deletes, that is damage;
/// in a process that only reads, the owner of the log may have deleted it.
#[derive(Debug)]
pub(super) struct Missing {
    pub(super) object: String,
    base_offset: i64,
    last_offset: i64,
}

impl Missing {
    pub(super) fn damage(&self) -> FetchError {
        let (object, reason) = (self.object.clone(), MISSING.to_owned());
        FetchError::Damaged { object, base_offset: self.base_offset, last_offset: self.last_offset, reason }
    }
}

/// Why blocks cannot be read.
#[derive(Debug)]
pub(super) enum ReadError {
    Missing(Missing),
    Other(FetchError),
}

impl From<FetchError> for ReadError {
    fn from(error: FetchError) -> Self {
        Self::Other(error)
    }
}

impl From<ReadError> for FetchError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Missing(missing) => missing.damage(),
            ReadError::Other(error) => error,
        }
    }
}

#[derive(Debug)]
pub(super) struct BlockReader {
    store: Arc<dyn LogStore>,
    shard: ShardId,
    keys: ShardKeys,
    tail: Mutex<Tail>,
    cache: Arc<BlockCache<Block>>,
}

/// The newest objects, whole.
#[derive(Debug)]
struct Tail {
    objects: BTreeMap<WalPosition, Bytes>,
    bytes: usize,
    bytes_max: usize,
}

impl BlockReader {
    pub(super) fn new(
        store: Arc<dyn LogStore>,
        shard: ShardId,
        tail_bytes_max: usize,
        cache: Arc<BlockCache<Block>>,
    ) -> Self {
        Self {
            store,
            shard,
            keys: ShardKeys::new(shard),
            tail: Mutex::new(Tail { objects: BTreeMap::new(), bytes: 0, bytes_max: tail_bytes_max }),
            cache,
        }
    }

    /// Keeps a durable object in memory, and drops the oldest ones beyond the budget.
    pub(super) fn push_tail(&self, position: WalPosition, bytes: Bytes) {
        let mut tail = self.tail.lock().expect("no holder of the lock panics");
        tail.bytes += bytes.len();
        tail.objects.insert(position, bytes);
        while tail.bytes > tail.bytes_max {
            let Some((_, oldest)) = tail.objects.pop_first() else { break };
            tail.bytes -= oldest.len();
        }
    }

    pub(super) fn tail_bytes(&self) -> usize {
        self.tail.lock().expect("no holder of the lock panics").bytes
    }

    /// A whole object, if it is in the tail.
    pub(super) fn tail_object(&self, position: WalPosition) -> Option<Bytes> {
        self.tail.lock().expect("no holder of the lock panics").objects.get(&position).cloned()
    }

    fn tail_block(&self, block: &Block) -> Option<Bytes> {
        let BlockObject::Wal(position) = block.object else { return None };
        let tail = self.tail.lock().expect("no holder of the lock panics");
        let object = tail.objects.get(&position)?;
        let start = usize::try_from(block.position).ok()?;
        Some(object.slice(start..start + block.length as usize))
    }

    /// The bytes of each block. Adjacent blocks of one object that are not in memory are read in one
    /// request.
    pub(super) async fn read(&self, blocks: &[Block]) -> Result<Vec<Bytes>, ReadError> {
        self.read_first(blocks, blocks.len()).await
    }

    /// The bytes of the first `count` blocks. Those after them are read as well where that takes no
    /// request of its own, and are kept in the cache.
    pub(super) async fn read_first(&self, blocks: &[Block], count: usize) -> Result<Vec<Bytes>, ReadError> {
        let mut found = Vec::with_capacity(count);
        let mut ahead = HashMap::new();
        for (index, block) in blocks[..count].iter().enumerate() {
            if let Some(bytes) = self.tail_block(block) {
                found.push(bytes);
                continue;
            }
            let load = self.load(block, &blocks[index..], &mut ahead);
            found.push(self.cache.get_or_load(self.cache_key(block), load).await?);
        }
        for block in &blocks[count..] {
            let Some(bytes) = ahead.remove(&block.position) else { break };
            // What is damaged is reported to whoever asks for it.
            if self.verify(block, &bytes).is_ok() {
                let kept = async { Ok::<_, ReadError>(bytes) };
                self.cache.get_or_load(self.cache_key(block), kept).await?;
            }
        }
        Ok(found)
    }

    /// Whether it pays to read more than is asked for: a request to a remote store costs more than
    /// its bytes.
    pub(super) fn reads_ahead(&self) -> bool {
        !self.store.linger_default().is_zero()
    }

    /// Reads a block together with those after it that are adjacent; these are kept in `ahead` until
    /// their turn.
    async fn load(
        &self,
        block: &Block,
        rest: &[Block],
        ahead: &mut HashMap<u64, Bytes>,
    ) -> Result<Bytes, ReadError> {
        let bytes = match ahead.remove(&block.position) {
            Some(bytes) => bytes,
            None => {
                ahead.clear();
                self.read_run(adjacent(rest), ahead).await?
            }
        };
        self.verify(block, &bytes)?;
        Ok(bytes)
    }

    async fn read_run(&self, run: &[Block], ahead: &mut HashMap<u64, Bytes>) -> Result<Bytes, ReadError> {
        let first = &run[0];
        let key = self.keys.block_object(first.object);
        let lengths: Vec<u64> = run.iter().map(|block| u64::from(block.length)).collect();
        let read = self.store.get_adjacent(&key, first.position, &lengths).await;
        let mut read = read.map_err(|error| self.unreadable(first, &error))?.into_iter();
        let of_first = read.next().unwrap_or_default();
        ahead.extend(run[1..].iter().map(|block| block.position).zip(read));
        Ok(of_first)
    }

    /// The blocks of a slice, from the cache or from the footer of its segment.
    pub(super) async fn slice_blocks(&self, slice: &Slice) -> Result<Arc<[Block]>, ReadError> {
        let location = match &slice.data {
            SliceData::Stored(location) => location,
            SliceData::Lost { acceptance: LossAcceptance::Accepted, .. } => return Ok(Arc::default()),
            SliceData::Lost { object, .. } => {
                return Err(missing_slice(slice, object.clone()).damage().into());
            }
        };
        if location.index_length == 0 {
            // Its index would have the place, and the key in the cache, of the one after it.
            return Ok(Arc::default());
        }
        let object = BlockObject::Segment(location.object);
        let (position, length) = (location.index_position, location.index_length);
        let key = BlockKey { shard: self.shard, object, position, length };
        let load = async {
            let name = self.keys.segment(location.object);
            let end = location.index_position + u64::from(location.index_length);
            let bytes = match self.store.get_range(&name, location.index_position..end).await {
                Ok(bytes) => bytes,
                Err(StoreError::NotFound { .. }) => {
                    return Err(ReadError::Missing(missing_slice(slice, name)));
                }
                Err(error) => {
                    return Err(FetchError::Unavailable { object: name, reason: error.to_string() }.into());
                }
            };
            let entries = decode_slice_index(slice, location, &bytes)
                .map_err(|error| damaged_slice(slice, name, error.to_string()))?;
            let mut running_max = -1;
            let blocks = entries.iter().map(|entry| {
                let block = Block::new(entry, object, running_max);
                running_max = block.running_max_timestamp;
                block
            });
            Ok(blocks.collect())
        };
        self.cache.get_or_load_index(key, load).await
    }

    /// The key of the object that holds a slice, or held it.
    pub(super) fn slice_object(&self, slice: &Slice) -> String {
        match &slice.data {
            SliceData::Stored(location) => self.keys.segment(location.object),
            SliceData::Lost { object, .. } => object.clone(),
        }
    }

    fn verify(&self, block: &Block, bytes: &Bytes) -> Result<(), FetchError> {
        let damaged = |reason| self.damaged(block, reason);
        if bytes.len() != block.length as usize {
            return Err(damaged(format!("block has {} bytes, not {}", bytes.len(), block.length)));
        }
        let computed = crc32c::crc32c(bytes);
        if computed != block.crc {
            return Err(damaged(format!(
                "crc of the block is {:#010x}, its bytes have {computed:#010x}",
                block.crc
            )));
        }
        Ok(())
    }

    pub(super) fn damaged(&self, block: &Block, reason: String) -> FetchError {
        FetchError::Damaged {
            object: self.keys.block_object(block.object),
            base_offset: block.base_offset,
            last_offset: block.next_offset - 1,
            reason,
        }
    }

    /// An object that is missing is told apart; anything else may pass.
    fn unreadable(&self, block: &Block, error: &StoreError) -> ReadError {
        let object = self.keys.block_object(block.object);
        match error {
            StoreError::NotFound { .. } => {
                let (base_offset, last_offset) = (block.base_offset, block.next_offset - 1);
                ReadError::Missing(Missing { object, base_offset, last_offset })
            }
            other => FetchError::Unavailable { object, reason: other.to_string() }.into(),
        }
    }

    fn cache_key(&self, block: &Block) -> BlockKey {
        let Block { object, position, length, .. } = *block;
        BlockKey { shard: self.shard, object, position, length }
    }
}

fn missing_slice(slice: &Slice, object: String) -> Missing {
    Missing { object, base_offset: slice.base_offset, last_offset: slice.next_offset - 1 }
}

fn damaged_slice(slice: &Slice, object: String, reason: String) -> FetchError {
    let (base_offset, last_offset) = (slice.base_offset, slice.next_offset - 1);
    FetchError::Damaged { object, base_offset, last_offset, reason }
}

/// The longest run of adjacent blocks at the front that one request may read.
fn adjacent(blocks: &[Block]) -> &[Block] {
    let first = &blocks[0];
    let mut end = first.position + u64::from(first.length);
    let mut count = 1;
    for block in &blocks[1..] {
        let next_end = block.position + u64::from(block.length);
        let follows = block.object == first.object && block.position == end;
        if !follows || next_end - first.position > READ_BYTES_MAX {
            break;
        }
        end = next_end;
        count += 1;
    }
    &blocks[..count]
}
