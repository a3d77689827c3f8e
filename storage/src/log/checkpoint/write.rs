//! Writes a checkpoint: first the pages that changed, then the root.

use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinSet;

use super::encode::{Page, Pages};
use crate::format::page::{CheckpointRoot, PageRef, encode_checkpoint};
use crate::ids::{ObjectId, ShardId};
use crate::log::keys::ShardKeys;
use crate::log::retry::create_own;
use crate::log::state::ShardState;
use crate::object::{LogStore, StoreError};
use crate::seam::Seams;

/// Pages are put so many at a time.
const PAGE_PUTS_MAX: usize = 4;

/// What was written.
#[derive(Clone, Debug)]
pub(in crate::log) struct WrittenCheckpoint {
    pub(in crate::log) root: CheckpointRoot,
    pub(in crate::log) pages_written: usize,
    pub(in crate::log) bytes_written: u64,
}

/// Writes the checkpoint of a durable state. `before` are the pages of the checkpoint before.
///
/// # Errors
/// A store that does not take the objects: nothing refers to what was put so far.
///
/// # Panics
/// If the state is that of an empty log.
pub(in crate::log) async fn write_checkpoint(
    store: &Arc<dyn LogStore>,
    shard: ShardId,
    seams: &Seams,
    state: &ShardState,
    before: &[PageRef],
) -> Result<WrittenCheckpoint, StoreError> {
    let keys = ShardKeys::new(shard);
    let position = state.position.expect("a log that is open has an open record");
    let new_id = || ObjectId::new(seams.clock.now_ms(), seams.rng.bytes16());
    let (mut pages, mut pages_written, mut bytes_written) = (Vec::new(), 0, 0);
    let mut puts = JoinSet::new();
    for page in Pages::new(state, before, new_id) {
        match page {
            Page::Unchanged(page) => pages.push(page),
            Page::New(page, bytes) => {
                (pages_written, bytes_written) = (pages_written + 1, bytes_written + bytes.len() as u64);
                spawn_put(&mut puts, store, seams, keys.page(page.page), bytes);
                pages.push(page);
            }
        }
        if puts.len() >= PAGE_PUTS_MAX {
            finish_put(&mut puts).await?;
        }
        // Encoding is work: others get a turn between the pages.
        tokio::task::yield_now().await;
    }
    while !puts.is_empty() {
        finish_put(&mut puts).await?;
    }
    let root = CheckpointRoot {
        shard,
        position,
        header_crc: state.header_crc,
        append_time_ms: state.append_time_ms,
        next_producer_id: state.next_producer_id,
        wal_objects: state.wal_objects,
        wal_bytes: state.wal_bytes,
        compacted_wal_objects: state.compacted_wal_objects,
        epoch_ends: state.epoch_ends.iter().map(|(epoch, end)| (*epoch, *end)).collect(),
        pages,
    };
    seams.failpoint("checkpoint.before_root");
    let bytes = encode_checkpoint(&root);
    bytes_written += bytes.len() as u64;
    create_own(&**store, seams, &keys.checkpoint(position), bytes).await?;
    Ok(WrittenCheckpoint { root, pages_written, bytes_written })
}

fn spawn_put(
    puts: &mut JoinSet<Result<(), StoreError>>,
    store: &Arc<dyn LogStore>,
    seams: &Seams,
    key: String,
    bytes: Bytes,
) {
    let (store, seams) = (store.clone(), seams.clone());
    puts.spawn(async move { create_own(&*store, &seams, &key, bytes).await });
}

async fn finish_put(puts: &mut JoinSet<Result<(), StoreError>>) -> Result<(), StoreError> {
    let put = puts.join_next().await.expect("a put is in flight");
    put.expect("the put task does not panic and is not cancelled")
}
