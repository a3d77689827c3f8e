//! What the committer, the handles and the readers of one log have in common.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, RwLock, Weak};

use tokio::sync::{Semaphore, watch};

use super::changes::ChangeRegistry;
use super::error::WriteError;
use super::health::Health;
use super::keys::ShardKeys;
use super::pinned::{PinRegistry, PinnedState};
use super::reader::BlockReader;
use super::relocate::Refresher;
use super::settings::LogSettings;
use super::state::{Block, ShardState};
use crate::format::{Claim, PREFIX_READ_LENGTH, TransactionalId, WalObject, decode_claim, decode_wal_object};
use crate::ids::{ShardId, WalPosition};
use crate::object::{BlockCache, LogStore};
use crate::seam::Seams;
use crate::telemetry::{self, AppendWait};

/// What all shards of one log have in common.
#[derive(Clone, Debug)]
pub(super) struct Environment {
    pub(super) store: Arc<dyn LogStore>,
    /// What each shard may use.
    pub(super) settings: LogSettings,
    pub(super) seams: Seams,
    pub(super) cache: Arc<BlockCache<Block>>,
    pub(super) changes: Arc<ChangeRegistry>,
    /// One permit per pending byte.
    pub(super) pending: Arc<Semaphore>,
    pub(super) shards: Arc<OpenShards>,
}

/// The shards of a log, for what a committer must know of the others.
#[derive(Debug, Default)]
pub(super) struct OpenShards {
    /// Set when all are open. Weak, because each of them refers to this.
    all: OnceLock<Vec<Weak<Shared>>>,
}

impl OpenShards {
    pub(super) fn set<'a>(&self, shards: impl Iterator<Item = &'a Arc<Shared>>) {
        let shards = shards.map(Arc::downgrade).collect();
        self.all.set(shards).expect("the shards of a log are opened once");
    }

    /// The transactional id that a producer id was given to, by the durable state of the shard that
    /// coordinates it.
    pub(super) fn transactional_id_of(&self, producer_id: i64) -> Option<Arc<TransactionalId>> {
        let shards = self.all.get().into_iter().flatten().filter_map(Weak::upgrade);
        let mut found =
            shards.filter_map(|shard| shard.durable().transactional_ids.of_producer(producer_id).cloned());
        found.next()
    }
}

impl Environment {
    /// That of a log of so many shards, which share what the settings allow.
    pub(super) fn new(store: Arc<dyn LogStore>, settings: LogSettings, seams: Seams, shards: u32) -> Self {
        Self {
            cache: Arc::new(BlockCache::new(settings.cache_bytes_max as u64)),
            changes: Arc::default(),
            pending: Arc::new(Semaphore::new(settings.pending_bytes_max)),
            settings: settings.for_each_of(shards),
            shards: Arc::default(),
            store,
            seams,
        }
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) shard: ShardId,
    pub(super) store: Arc<dyn LogStore>,
    pub(super) keys: ShardKeys,
    pub(super) settings: LogSettings,
    pub(super) seams: Seams,
    pub(super) cluster_id: String,
    pub(super) reader: Arc<BlockReader>,
    /// Of a process that only reads.
    pub(super) refresher: Option<Arc<Refresher>>,
    pub(super) changes: Arc<ChangeRegistry>,
    pub(super) shards: Arc<OpenShards>,
    pub(super) pins: Arc<PinRegistry>,
    durable: RwLock<Arc<PinnedState>>,
    commits: watch::Sender<u64>,
    topic_changes: watch::Sender<u64>,
    health: watch::Sender<Health>,
    /// The reserve of a full disk was given out.
    pub(super) reserve_is_out: AtomicBool,
    /// Where the newest checkpoint of this process is, and when it was written.
    checkpoint: RwLock<Option<(WalPosition, i64)>>,
}

impl Shared {
    pub(super) fn new(
        environment: &Environment,
        shard: ShardId,
        cluster_id: String,
        recovered: ShardState,
        health: Health,
    ) -> Self {
        let Environment { store, settings, seams, cache, changes, shards, .. } = environment.clone();
        let reader = BlockReader::new(store.clone(), shard, settings.tail_bytes_max, cache);
        let refresher = (health == Health::ReadOnly)
            .then(|| Arc::new(Refresher::new(store.clone(), shard, settings.clone(), seams.clone())));
        let pins = Arc::new(PinRegistry::default());
        Self {
            shard,
            keys: ShardKeys::new(shard),
            store,
            settings,
            seams,
            cluster_id,
            reader: Arc::new(reader),
            refresher,
            changes,
            shards,
            durable: RwLock::new(pins.pin(recovered)),
            pins,
            commits: watch::Sender::new(0),
            topic_changes: watch::Sender::new(0),
            health: watch::Sender::new(health),
            reserve_is_out: AtomicBool::new(false),
            checkpoint: RwLock::new(None),
        }
    }

    pub(super) fn durable(&self) -> Arc<PinnedState> {
        self.durable.read().expect("no holder of the lock panics").clone()
    }

    /// Replaces the durable state whole.
    pub(super) fn publish(&self, state: ShardState) {
        let pinned = self.pins.pin(state);
        let replaced =
            std::mem::replace(&mut *self.durable.write().expect("no holder of the lock panics"), pinned);
        // Dropped only when the lock is free again.
        drop(replaced);
        self.commits.send_modify(|count| *count += 1);
    }

    /// Counts published states.
    pub(super) fn commits(&self) -> watch::Receiver<u64> {
        self.commits.subscribe()
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

    /// Waits while more of the WAL is not compacted than is allowed.
    pub(super) async fn wait_for_compaction(&self) {
        let max = self.settings.maintenance.uncompacted_bytes_max;
        if self.durable().tail_bytes <= max {
            return;
        }
        let started = self.seams.clock.monotonic();
        let mut commits = self.commits();
        let mut health = self.health();
        while self.durable().tail_bytes > max && !health.borrow_and_update().is_stopped() {
            tokio::select! {
                _ = commits.changed() => {}
                _ = health.changed() => {}
            }
        }
        let took = self.seams.clock.monotonic().saturating_sub(started);
        telemetry::append_waited(AppendWait::Compaction, took);
    }

    pub(super) fn checkpoint(&self) -> Option<(WalPosition, i64)> {
        *self.checkpoint.read().expect("no holder of the lock panics")
    }

    pub(super) fn set_checkpoint(&self, position: WalPosition, written_at_ms: i64) {
        *self.checkpoint.write().expect("no holder of the lock panics") = Some((position, written_at_ms));
    }

    /// Refuses writes from now on; false if they were not accepted before.
    pub(super) fn refuse_writes(&self, reason: String) -> bool {
        self.health.send_if_modified(|health| {
            let serves = *health == Health::Serving;
            if serves {
                *health = Health::Refusing { reason };
            }
            serves
        })
    }

    /// Accepts writes again; false if they were not refused before.
    pub(super) fn accept_writes(&self) -> bool {
        self.health.send_if_modified(|health| {
            let refuses = health.is_refusing();
            if refuses {
                *health = Health::Serving;
            }
            refuses
        })
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.health.borrow().is_stopped()
    }

    /// Why appends are refused for now, if they are.
    pub(super) fn refusal(&self) -> Option<WriteError> {
        let health = self.health.borrow();
        health.is_refusing().then(|| health.write_error())
    }

    /// What a writer is told.
    pub(super) fn write_error(&self) -> WriteError {
        self.health.borrow().write_error()
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
