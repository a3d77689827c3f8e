//! What the committer, the handles and the readers of one log have in common.

use std::sync::{Arc, RwLock};

use tokio::sync::{Semaphore, watch};

use super::changes::ChangeRegistry;
use super::health::Health;
use super::keys::ShardKeys;
use super::reader::BlockReader;
use super::settings::LogSettings;
use super::state::ShardState;
use crate::format::{Claim, PREFIX_READ_LENGTH, WalObject, decode_claim, decode_wal_object};
use crate::ids::WalPosition;
use crate::object::LogStore;
use crate::seam::Seams;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) store: Arc<dyn LogStore>,
    pub(super) keys: ShardKeys,
    pub(super) settings: LogSettings,
    pub(super) seams: Seams,
    pub(super) cluster_id: String,
    pub(super) reader: Arc<BlockReader>,
    pub(super) changes: Arc<ChangeRegistry>,
    /// How many checks of large batches may run at once: about half of the processors.
    pub(super) long_checks: Semaphore,
    durable: RwLock<Arc<ShardState>>,
    topic_changes: watch::Sender<u64>,
    health: watch::Sender<Health>,
}

impl Shared {
    pub(super) fn new(
        store: Arc<dyn LogStore>,
        settings: LogSettings,
        seams: Seams,
        cluster_id: String,
        recovered: ShardState,
    ) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let reader = BlockReader::new(
            store.clone(),
            settings.shard,
            settings.tail_bytes_max,
            settings.cache_bytes_max,
        );
        Self {
            keys: ShardKeys::new(settings.shard),
            store,
            settings,
            seams,
            cluster_id,
            reader: Arc::new(reader),
            changes: Arc::default(),
            long_checks: Semaphore::new(processors.div_ceil(2)),
            durable: RwLock::new(Arc::new(recovered)),
            topic_changes: watch::Sender::new(0),
            health: watch::Sender::new(Health::Serving),
        }
    }

    pub(super) fn durable(&self) -> Arc<ShardState> {
        self.durable.read().expect("no holder of the lock panics").clone()
    }

    /// Replaces the durable state whole.
    pub(super) fn publish(&self, state: ShardState) {
        *self.durable.write().expect("no holder of the lock panics") = Arc::new(state);
    }

    pub(super) fn topics_changed(&self) {
        self.topic_changes.send_modify(|count| *count += 1);
    }

    pub(super) fn topic_changes(&self) -> watch::Receiver<u64> {
        self.topic_changes.subscribe()
    }

    pub(super) fn health(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    pub(super) fn set_health(&self, health: Health) {
        self.health.send_replace(health);
    }

    /// Notes that nothing more will be written, and wakes all who wait for it.
    pub(super) fn stop(&self, health: Health) {
        self.set_health(health);
        self.changes.wake_all();
        self.topics_changed();
    }

    /// Who put the object that is at a place of ours, for a message.
    pub(super) async fn owner_of(&self, position: WalPosition) -> String {
        let object = self.store.get_prefix(&self.keys.wal(position), PREFIX_READ_LENGTH).await;
        let decoded =
            object.ok().and_then(|prefix| decode_wal_object(&prefix.bytes, prefix.object_length).ok());
        match decoded {
            Some(WalObject::Fence(fence)) => self.claimant(fence.by_epoch).await,
            _ => "a process that could not be identified".to_owned(),
        }
    }

    /// Who claimed an epoch, for a message.
    pub(super) async fn claimant(&self, writer_epoch: u64) -> String {
        let object = self.store.get(&self.keys.epoch(writer_epoch)).await;
        match object.ok().and_then(|bytes| decode_claim(&bytes).ok()) {
            Some(claim) => describe(&claim),
            None => format!("the owner of epoch {writer_epoch}"),
        }
    }
}

pub(super) fn describe(claim: &Claim) -> String {
    format!("node \"{}\" at \"{}\" (epoch {})", claim.node, claim.address, claim.writer_epoch)
}
