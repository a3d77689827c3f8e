//! Blocks that were read back, and the indexes of slices, bounded together by their bytes.
//!
//! Objects never change, so nothing here is ever stale. Callers that miss the same block at once wait for
//! one load.

use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use crate::ids::{BlockObject, ShardId};
use crate::telemetry;

/// What an entry costs beside its bytes, about.
const ENTRY_BYTES: u64 = 128;
/// The usual size of a block. A wrong guess costs a little room for bookkeeping.
const BLOCK_BYTES_TYPICAL: u64 = 64 * 1024;
/// The rest is for what was asked for once only. It is half, so that what was read ahead is still
/// there when its turn comes, also for a few readers at once.
const HOT_SHARE: f64 = 0.5;
/// Each part of the cache has an equal share of the bytes, so it must be much larger than a block.
const PARTS: usize = 4;

/// Where a block, or the index of a slice, is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockKey {
    pub shard: ShardId,
    pub object: BlockObject,
    /// Its first byte in its object.
    pub position: u64,
    /// A part of a block may begin where the block does.
    pub length: u32,
}

/// What the cache holds: bytes of blocks, or something decoded from an index.
#[derive(Debug)]
enum Cached<I> {
    Block(Bytes),
    Index { index: Arc<[I]>, bytes: usize },
}

impl<I> Clone for Cached<I> {
    fn clone(&self) -> Self {
        match self {
            Self::Block(block) => Self::Block(block.clone()),
            Self::Index { index, bytes } => Self::Index { index: index.clone(), bytes: *bytes },
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct ByteWeight;

impl<I> Weighter<BlockKey, Cached<I>> for ByteWeight {
    fn weight(&self, _key: &BlockKey, cached: &Cached<I>) -> u64 {
        let bytes = match cached {
            Cached::Block(block) => block.len(),
            Cached::Index { bytes, .. } => *bytes,
        };
        bytes as u64 + ENTRY_BYTES
    }
}

/// A hasher without a random state, so that a seeded simulation evicts the same blocks each time.
type FixedHasher = BuildHasherDefault<DefaultHasher>;

/// A cache of blocks and of indexes with entries of type `I`.
pub struct BlockCache<I> {
    blocks: Cache<BlockKey, Cached<I>, ByteWeight, FixedHasher>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl<I> fmt::Debug for BlockCache<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockCache").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl<I> BlockCache<I> {
    /// A cache that holds about `bytes_max` bytes. A block larger than a quarter of that is read but
    /// not kept.
    pub fn new(bytes_max: u64) -> Self {
        let items = usize::try_from(bytes_max / BLOCK_BYTES_TYPICAL).unwrap_or(usize::MAX).max(1);
        let options = OptionsBuilder::new()
            .weight_capacity(bytes_max)
            .estimated_items_capacity(items)
            .hot_allocation(HOT_SHARE)
            .shards(PARTS)
            .build()
            .expect("both capacities are set");
        let blocks =
            Cache::with_options(options, ByteWeight, FixedHasher::default(), DefaultLifecycle::default());
        Self { blocks, hits: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    /// The block from the cache, or from `load`. The bytes that `load` gives should own their
    /// allocation alone: a slice of a larger one would keep all of it.
    ///
    /// # Errors
    /// Those of `load`. They are not kept: the next caller that waits loads again.
    pub async fn get_or_load<E>(
        &self,
        key: BlockKey,
        load: impl Future<Output = Result<Bytes, E>>,
    ) -> Result<Bytes, E> {
        let load = async { load.await.map(Cached::Block) };
        match self.cached(key, load).await? {
            Cached::Block(block) => Ok(block),
            Cached::Index { .. } => unreachable!("blocks and indexes are in different places"),
        }
    }

    /// The same for the index of a slice.
    ///
    /// # Errors
    /// Those of `load`.
    pub async fn get_or_load_index<E>(
        &self,
        key: BlockKey,
        load: impl Future<Output = Result<Arc<[I]>, E>>,
    ) -> Result<Arc<[I]>, E> {
        let load = async {
            let index = load.await?;
            Ok(Cached::Index { bytes: size_of_val(&*index), index })
        };
        match self.cached(key, load).await? {
            Cached::Index { index, .. } => Ok(index),
            Cached::Block(_) => unreachable!("blocks and indexes are in different places"),
        }
    }

    async fn cached<E>(
        &self,
        key: BlockKey,
        load: impl Future<Output = Result<Cached<I>, E>>,
    ) -> Result<Cached<I>, E> {
        let loaded = AtomicBool::new(false);
        let noted_load = async {
            loaded.store(true, Ordering::Relaxed);
            load.await
        };
        let answer = self.blocks.get_or_insert_async(&key, noted_load).await;
        let (count, result) = if loaded.into_inner() { (&self.misses, "miss") } else { (&self.hits, "hit") };
        count.fetch_add(1, Ordering::Relaxed);
        telemetry::block_cache_asked(result);
        answer
    }

    /// Requests that were answered without a load of their own.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    pub fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// Bytes held now.
    pub fn bytes(&self) -> u64 {
        self.blocks.weight()
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;
    use crate::ids::WalPosition;

    fn key(position: u64) -> BlockKey {
        let object = BlockObject::Wal(WalPosition { writer_epoch: 1, seq: 2 });
        BlockKey { shard: ShardId(0), object, position, length: 1000 }
    }

    async fn load(length: usize) -> Result<Bytes, String> {
        tokio::task::yield_now().await;
        Ok(vec![1; length].into())
    }

    #[tokio::test]
    async fn callers_that_miss_at_once_share_one_load() {
        let cache = BlockCache::<u64>::new(1 << 20);
        let answers = join_all((0..50).map(|_| cache.get_or_load(key(7), load(1000)))).await;
        assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|bytes| bytes.len() == 1000)));
        assert_eq!((cache.misses(), cache.hits()), (1, 49));
    }

    #[tokio::test]
    async fn the_cache_never_holds_more_than_its_bytes() {
        let cache = BlockCache::<u64>::new(1 << 20);
        for position in 0..1000 {
            cache.get_or_load(key(position), load(10_000)).await.expect("the load succeeds");
            assert!(cache.bytes() <= 1 << 20, "{} bytes", cache.bytes());
        }
        assert!(cache.bytes() > 1 << 19, "most of the room is used: {}", cache.bytes());
    }

    #[tokio::test]
    async fn a_block_larger_than_the_cache_is_still_answered() {
        let cache = BlockCache::<u64>::new(1 << 10);
        let block = cache.get_or_load(key(0), load(1 << 20)).await.expect("the load succeeds");
        assert_eq!(block.len(), 1 << 20);
        assert_eq!(cache.bytes(), 0);
    }

    #[tokio::test]
    async fn an_index_is_kept_and_counts_by_its_size() {
        let cache = BlockCache::<u64>::new(1 << 20);
        let index = || async { Ok::<_, String>(Arc::from([1, 2, 3])) };
        for _ in 0..2 {
            let found = cache.get_or_load_index(key(1), index()).await.expect("the load succeeds");
            assert_eq!(&*found, [1, 2, 3]);
        }
        assert_eq!((cache.misses(), cache.hits(), cache.bytes()), (1, 1, 24 + ENTRY_BYTES));
    }

    #[tokio::test]
    async fn a_failed_load_is_tried_again() {
        let cache = BlockCache::<u64>::new(1 << 20);
        let failed = cache.get_or_load(key(0), async { Err::<Bytes, _>("no") }).await;
        assert_eq!(failed, Err("no"));
        cache.get_or_load(key(0), load(10)).await.expect("the second load succeeds");
        assert_eq!(cache.misses(), 2);
    }
}
