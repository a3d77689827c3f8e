//! How many shards a log has, and whether they are all there.

use std::sync::Arc;

use super::error::OpenError;
use super::handle::Log;
use super::keys::ShardKeys;
use super::open;
use super::settings::LogSettings;
use super::shard::Shard;
use crate::object::LogStore;
use crate::seam::Seams;

/// Opens with as many shards as are found, and again with more if another process has made some after they
/// were counted.
pub(super) async fn with_all_shards<F>(
    store: Arc<dyn LogStore>,
    settings: LogSettings,
    seams: Seams,
    open: impl Fn(Arc<dyn LogStore>, LogSettings, Seams, u32) -> F,
) -> Result<Log, OpenError>
where
    F: Future<Output = Result<Log, OpenError>>,
{
    let mut found = open::count_shards(&store, &settings, &seams).await?;
    loop {
        let missing = match open(store.clone(), settings.clone(), seams.clone(), found).await {
            Err(missing @ OpenError::MissingObject { .. }) => missing,
            opened => return opened,
        };
        let counted = open::count_shards(&store, &settings, &seams).await?;
        if counted <= found {
            return Err(missing);
        }
        seams.failpoint("open.with_more_shards");
        found = counted;
    }
}

/// # Errors
/// A partition that is in a shard which is not there. Claims are never deleted, so the shard is lost; a
/// new one in its place would give out its offsets again.
pub(super) fn check_placed(first: &Shard, shards: u32) -> Result<(), OpenError> {
    let state = first.shared.durable();
    let last = state.topics.values().filter_map(|topic| topic.shards.last()).max();
    match last.filter(|last| last.0 >= shards) {
        Some(lost) => {
            let location = first.shared.store.location().to_owned();
            Err(OpenError::MissingObject { location, key: ShardKeys::new(lost).epochs() })
        }
        None => Ok(()),
    }
}
