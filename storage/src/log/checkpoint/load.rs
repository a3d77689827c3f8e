//! Reads the newest checkpoint.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::stream::{self, StreamExt};

use super::decode::StateBuilder;
use crate::format::page::{CheckpointRoot, PageRef, decode_checkpoint, decode_page};
use crate::ids::{ShardId, WalPosition};
use crate::log::error::OpenError;
use crate::log::keys::{ShardKeys, checkpoint_position};
use crate::log::retry::retry_read;
use crate::log::state::ShardState;
use crate::object::{LogStore, StoreError};
use crate::seam::Seams;

/// Pages are read so many at a time.
const PAGE_READS_MAX: usize = 32;

/// A checkpoint that was read.
pub(in crate::log) struct Loaded {
    pub(in crate::log) root: CheckpointRoot,
    pub(in crate::log) state: ShardState,
}

/// The checkpoint at a place, with its pages.
///
/// # Errors
/// A store that cannot be read, damage, or a version that this build does not read. A root or page
/// that is missing is [`OpenError::MissingObject`]: newer checkpoints may have replaced it.
pub(in crate::log) async fn load_newest(
    store: &Arc<dyn LogStore>,
    shard: ShardId,
    seams: &Seams,
    position: WalPosition,
) -> Result<Loaded, OpenError> {
    let loader = Loader { store: store.clone(), seams: seams.clone(), keys: ShardKeys::new(shard) };
    let key = loader.keys.checkpoint(position);
    let bytes = loader.get(&key).await?;
    let root = decode_checkpoint(&bytes).map_err(|error| loader.unreadable(&key, error))?;
    if root.position != position || root.shard != shard || checkpoint_position(&key) != Some(position) {
        return Err(loader.unreadable(&key, format!("it says that it is the state after {}", root.position)));
    }
    let mut builder = StateBuilder::new(&root);
    let reads = root.pages.clone().into_iter().map(|page| loader.clone().page(page).boxed());
    let mut pages = stream::iter(reads).buffered(PAGE_READS_MAX);
    while let Some(read) = pages.next().await {
        let (page, entries) = read?;
        let added = builder.add(page.kind, &entries);
        added.map_err(|reason| loader.unreadable(&loader.keys.page(page.page), reason))?;
    }
    drop(pages);
    let state = builder.finish().map_err(|reason| loader.unreadable(&key, reason))?;
    Ok(Loaded { root, state })
}

#[derive(Clone)]
struct Loader {
    store: Arc<dyn LogStore>,
    seams: Seams,
    keys: ShardKeys,
}

impl Loader {
    async fn page(self, page: PageRef) -> Result<(PageRef, Vec<Vec<u8>>), OpenError> {
        let key = self.keys.page(page.page);
        let bytes = self.get(&key).await?;
        let entries = decode_page(&page, &bytes).map_err(|error| self.unreadable(&key, error))?;
        Ok((page, entries))
    }

    async fn get(&self, key: &str) -> Result<Bytes, OpenError> {
        let location = || self.store.location().to_owned();
        match retry_read(&*self.seams.clock, || self.store.get(key)).await {
            Ok(bytes) => Ok(bytes),
            Err(StoreError::NotFound { .. }) => {
                Err(OpenError::MissingObject { location: location(), key: key.to_owned() })
            }
            Err(source) => Err(OpenError::Store { location: location(), source }),
        }
    }

    fn unreadable(&self, key: &str, reason: impl ToString) -> OpenError {
        OpenError::Unreadable {
            location: self.store.location().to_owned(),
            key: key.to_owned(),
            reason: reason.to_string(),
        }
    }
}
