//! Opens a shard: claims an epoch, walks and fences the older ones, replays, and writes the open
//! record of its own.
//!
//! The order is what makes it safe (docs/architecture.md): a fence is put at the first absent place
//! of an epoch, so that its writer can commit nothing more; only then is the state complete.
//! Fences and claims are never deleted. An older owner may still write checkpoints and delete what
//! they cover while this goes on, so the walk begins again whenever the newest checkpoint is not the
//! one that it began from.

use std::sync::Arc;

use bytes::Bytes;

use super::checkpoint::{Loaded, load_newest};
use super::committer::CommitterStart;
use super::error::OpenError;
use super::keys::{CLUSTER, FORMATS, RESTORING, ShardKeys, format_key, trailing_number};
use super::loss::Losses;
use super::put::{Put, PutOutcome, Putter};
use super::retry::Backoff;
use super::settings::LogSettings;
use super::shared::{Shared, describe};
#[cfg(test)]
use super::simulation::WrongRule;
use super::state::{Commit, ShardState};
use super::walk::{Absence, EpochEnd, Walker, read_prefix};
use crate::format::event::{ClosedEpoch, Opened};
use crate::format::page::CheckpointRoot;
use crate::format::{
    Claim, Cluster, ClusterId, Event, FORMAT_VERSION, Fence, WalHeader, WalObject, WalObjectBuilder,
    decode_claim, decode_cluster, encode_claim, encode_cluster, encode_fence,
};
use crate::ids::{ShardId, WalPosition};
use crate::object::{LogStore, StoreError};
use crate::seam::Seams;

/// The cluster object and a claim are far below this.
const SMALL_OBJECT_BYTES: u64 = 64 * 1024;

/// What an open for writing gives.
pub(super) struct Opening {
    pub(super) cluster_id: String,
    pub(super) writer_epoch: u64,
    pub(super) putter: Arc<Putter>,
    pub(super) start: CommitterStart,
    /// The one that the open began from.
    pub(super) checkpoint: Option<CheckpointRoot>,
    /// Whether objects are lost, with an operator's consent.
    pub(super) passed_over_losses: bool,
}

/// What a walk over all older epochs gives.
#[cfg(test)]
pub(super) type Closed = (Vec<ClosedEpoch>, Option<CheckpointRoot>);

struct Opener<'a> {
    settings: &'a LogSettings,
    seams: &'a Seams,
    putter: Arc<Putter>,
    walker: Walker,
}

/// What is to be opened, and by whom.
pub(super) struct OpenOrder<'a> {
    pub(super) store: &'a Arc<dyn LogStore>,
    pub(super) shard: ShardId,
    pub(super) settings: &'a LogSettings,
    pub(super) seams: &'a Seams,
    /// The epoch of an owner that opens its shard again: one that somebody else has claimed since is
    /// left to them.
    pub(super) own_epoch: Option<u64>,
}

/// Claims the shard and recovers it.
pub(super) async fn open(order: OpenOrder<'_>) -> Result<Opening, OpenError> {
    let OpenOrder { store, shard, settings, seams, own_epoch } = order;
    let putter =
        Arc::new(Putter { store: store.clone(), seams: seams.clone(), timeout: settings.put_timeout });
    let mut opener = Opener { settings, seams, walker: new_walker(store, shard, settings, seams), putter };
    let cluster_id = opener.cluster().await?;
    check_formats(&opener.walker).await?;
    let older = opener.walker.claimed_epochs().await?;
    let newest = older.last().copied().unwrap_or(0);
    if own_epoch.is_some_and(|own_epoch| own_epoch != newest) {
        return Err(opener.superseded(newest));
    }
    let writer_epoch = newest + 1;
    opener.claim(writer_epoch).await?;
    let (closed, checkpoint) = loop {
        let begun = Begun::at_newest(&opener.walker).await?;
        let checkpoint = opener.load_checkpoint(&begun).await;
        let closed = match checkpoint {
            Ok(checkpoint) => {
                opener.close_epochs(&older, writer_epoch).await.map(|closed| (closed, checkpoint))
            }
            Err(error) => Err(error),
        };
        // What is missing may have been deleted by an owner that went on until it was fenced.
        let overtaken = begun.is_overtaken(&opener.walker).await?;
        #[cfg(test)]
        let overtaken = super::simulation::is_overtaken(&opener.walker, settings, overtaken, &closed).await?;
        if overtaken {
            seams.failpoint("open.begin_again");
            continue;
        }
        break closed?;
    };
    // If a newer epoch was claimed meanwhile, its owner may have fenced what we walked.
    check_newest(&opener.walker, writer_epoch).await?;
    opener.walker.sync_unproven().await?;
    opener.write_format(&cluster_id.1).await?;
    opener.write_open_record(writer_epoch, closed).await?;
    let Opener { putter, walker, .. } = opener;
    let passed_over_losses = walker.losses.has_passed();
    let start = CommitterStart { state: walker.state, next_seq: 1, durable_seq: 0 };
    let cluster_id = cluster_id.0;
    Ok(Opening { cluster_id, writer_epoch, putter, start, checkpoint, passed_over_losses })
}

/// The newest checkpoint when a walk begins. If it is another one when the walk has ended, the walk
/// may have missed what was deleted meanwhile, and begins again.
struct Begun {
    checkpoints: Vec<WalPosition>,
}

impl Begun {
    async fn at_newest(walker: &Walker) -> Result<Self, OpenError> {
        Ok(Self { checkpoints: walker.checkpoints().await? })
    }

    async fn is_overtaken(&self, walker: &Walker) -> Result<bool, OpenError> {
        Ok(walker.checkpoints().await?.last() != self.checkpoints.last())
    }
}

/// Replaces the walker's state by that of the newest checkpoint that can be read: the WAL is kept
/// from the oldest one on. Gives its root.
async fn load_checkpoint(walker: &mut Walker, begun: &Begun) -> Result<Option<CheckpointRoot>, OpenError> {
    walker.state = ShardState::new(walker.shard);
    walker.unproven.clear();
    walker.losses.forget();
    let mut failure = None;
    for position in begun.checkpoints.iter().rev() {
        match load_newest(&walker.store, walker.shard, &walker.seams, *position).await {
            Ok(Loaded { root, state }) => {
                walker.state = state;
                return Ok(Some(root));
            }
            Err(error @ OpenError::Store { .. }) => return Err(error),
            Err(error) => {
                tracing::error!(%error, "a checkpoint cannot be read, the one before it is taken");
                failure.get_or_insert(error);
            }
        }
    }
    failure.map_or(Ok(None), Err)
}

/// Refuses a store that has objects of a version that this build does not read.
async fn check_formats(walker: &Walker) -> Result<(), OpenError> {
    let listed = walker.list(FORMATS).await?;
    if listed.iter().any(|key| key == RESTORING) {
        return Err(OpenError::UnfinishedRestore { location: walker.location() });
    }
    let newest = listed.iter().filter_map(|key| trailing_number(key)).max();
    match newest.filter(|found| *found > u64::from(FORMAT_VERSION)) {
        Some(found) => {
            Err(OpenError::NewerFormat { location: walker.location(), found, supported: FORMAT_VERSION })
        }
        None => Ok(()),
    }
}

/// Reads the state that is there now, and claims nothing.
pub(super) async fn read_only(
    store: &Arc<dyn LogStore>,
    shard: ShardId,
    settings: &LogSettings,
    seams: &Seams,
) -> Result<(String, ShardState), OpenError> {
    let mut walker = new_walker(store, shard, settings, seams);
    let cluster = read_small(store, seams, CLUSTER).await?;
    let location = walker.location();
    let bytes = cluster.ok_or(OpenError::NoLog { location })?;
    let (cluster_id, _) = decode_cluster_id(store, &bytes)?;
    check_formats(&walker).await?;
    loop {
        let begun = Begun::at_newest(&walker).await?;
        let claimed = walker.claimed_epochs().await?;
        let walked = walk_all_for_reading(&mut walker, &begun, &claimed).await;
        let overtaken = begun.is_overtaken(&walker).await?;
        #[cfg(test)]
        let overtaken = super::simulation::is_reader_overtaken(settings, overtaken);
        if overtaken {
            seams.failpoint("read_only.begin_again");
            continue;
        }
        walked?;
        // A newer epoch may have begun while the older ones were walked: what is in it follows.
        if walker.claimed_epochs().await? == claimed {
            walker.sync_unproven().await?;
            return Ok((cluster_id, walker.state));
        }
    }
}

async fn walk_all_for_reading(walker: &mut Walker, begun: &Begun, claimed: &[u64]) -> Result<(), OpenError> {
    load_checkpoint(walker, begun).await?;
    for writer_epoch in claimed {
        let is_behind = walker.is_behind(*writer_epoch);
        if !is_behind && walk_for_reading(walker, *writer_epoch, claimed).await? == ReadEnd::OfLog {
            return Ok(());
        }
    }
    Ok(())
}

/// Where a walk for reading has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadEnd {
    OfEpoch,
    /// Nothing that was acked when the walk came here is beyond.
    OfLog,
}

/// Walks an epoch to its end. Its writer may still be alive: what it commits later is simply not in
/// this state, and neither is what a later epoch, begun meanwhile, puts upon that.
async fn walk_for_reading(
    walker: &mut Walker,
    writer_epoch: u64,
    claimed: &[u64],
) -> Result<ReadEnd, OpenError> {
    let mut from = walker.first_seq(writer_epoch);
    let mut missing = None;
    loop {
        let EpochEnd::Absent { seq } = walker.walk_epoch(writer_epoch, from).await? else {
            return Ok(ReadEnd::OfEpoch);
        };
        let place = WalPosition { writer_epoch, seq };
        match walker.absence(place, claimed).await? {
            Absence::Proven => {}
            Absence::Closed => return Ok(ReadEnd::OfEpoch),
            Absence::Open => return Ok(ReadEnd::OfLog),
        }
        if missing == Some(seq) {
            let key = walker.keys.wal(place);
            return Err(OpenError::MissingObject { location: walker.location(), key });
        }
        (from, missing) = (seq, Some(seq));
    }
}

fn new_walker(store: &Arc<dyn LogStore>, shard: ShardId, settings: &LogSettings, seams: &Seams) -> Walker {
    Walker {
        store: store.clone(),
        shard,
        keys: ShardKeys::new(shard),
        seams: seams.clone(),
        state: ShardState::new(shard),
        unproven: Vec::new(),
        losses: Losses::accepting(&settings.accept_loss),
    }
}

impl Opener<'_> {
    async fn load_checkpoint(&mut self, begun: &Begun) -> Result<Option<CheckpointRoot>, OpenError> {
        load_checkpoint(&mut self.walker, begun).await
    }

    /// Says that the store has objects of this version, before there is any, if it was made by an
    /// older one.
    async fn write_format(&self, cluster: &Cluster) -> Result<(), OpenError> {
        if cluster.format_version >= FORMAT_VERSION {
            return Ok(());
        }
        let key = format_key(FORMAT_VERSION);
        self.create_small(&key, encode_cluster(&Cluster { format_version: FORMAT_VERSION, ..*cluster })).await
    }

    /// The cluster's id, given to a new store on its first open.
    async fn cluster(&self) -> Result<(String, Cluster), OpenError> {
        let store = &self.walker.store;
        if let Some(bytes) = read_small(store, self.seams, CLUSTER).await? {
            return decode_cluster_id(store, &bytes);
        }
        self.check_is_new().await?;
        let cluster =
            Cluster { cluster_id: ClusterId(self.seams.rng.bytes16()), format_version: FORMAT_VERSION };
        self.create_small(CLUSTER, encode_cluster(&cluster)).await?;
        let bytes = read_small(store, self.seams, CLUSTER).await?;
        let missing =
            || OpenError::MissingObject { location: self.walker.location(), key: CLUSTER.to_owned() };
        decode_cluster_id(store, &bytes.ok_or_else(missing)?)
    }

    /// A log without the object that names it has lost it, unless another process is just making it.
    async fn check_is_new(&self) -> Result<(), OpenError> {
        let is_new = self.walker.claimed_epochs().await?.is_empty();
        if is_new || read_small(&self.walker.store, self.seams, CLUSTER).await?.is_some() {
            return Ok(());
        }
        Err(OpenError::MissingObject { location: self.walker.location(), key: CLUSTER.to_owned() })
    }

    /// Claims an epoch, which nobody else may have claimed.
    async fn claim(&self, writer_epoch: u64) -> Result<(), OpenError> {
        let key = self.walker.keys.epoch(writer_epoch);
        let claim = Claim {
            writer_epoch,
            node: self.settings.node.clone(),
            address: self.settings.address.clone(),
            nonce: self.seams.rng.bytes16(),
        };
        self.create_small(&key, encode_claim(&claim)).await?;
        let bytes = read_small(&self.walker.store, self.seams, &key).await?;
        let location = self.walker.location();
        let bytes =
            bytes.ok_or_else(|| OpenError::MissingObject { location: location.clone(), key: key.clone() })?;
        let found = decode_claim(&bytes).map_err(|error| OpenError::Unreadable {
            location: location.clone(),
            key,
            reason: error.to_string(),
        })?;
        if found == claim {
            return Ok(());
        }
        Err(OpenError::Claimed { location, writer_epoch, by: describe(&found) })
    }

    /// Puts an object that anybody may have put before; whose it is, is read afterwards.
    async fn create_small(&self, key: &str, bytes: Bytes) -> Result<(), OpenError> {
        let mut backoff = Backoff::new(&*self.seams.clock);
        loop {
            match self.walker.store.create(key, bytes.clone()).await {
                Ok(()) => return Ok(()),
                Err(StoreError::AlreadyExists { .. } | StoreError::Unavailable { .. }) => {}
                Err(source) => return Err(self.walker.store_error(source)),
            }
            // An answer other than Ok says nothing of what is there.
            if read_small(&self.walker.store, self.seams, key).await?.is_some() {
                return Ok(());
            }
            backoff.wait().await;
        }
    }

    /// Walks all older epochs and closes each with a fence.
    async fn close_epochs(
        &mut self,
        older: &[u64],
        writer_epoch: u64,
    ) -> Result<Vec<ClosedEpoch>, OpenError> {
        let mut closed = Vec::with_capacity(older.len());
        for epoch in older {
            if self.walker.is_behind(*epoch) {
                continue;
            }
            let end_seq = self.close_epoch(*epoch, older, writer_epoch).await?;
            closed.push(ClosedEpoch { writer_epoch: *epoch, end_seq });
        }
        Ok(closed)
    }

    /// Walks one epoch and puts a fence where it ends, if there is none yet.
    async fn close_epoch(&mut self, epoch: u64, older: &[u64], writer_epoch: u64) -> Result<u64, OpenError> {
        let mut from = self.walker.first_seq(epoch);
        let mut missing = None;
        loop {
            let seq = match self.walker.walk_epoch(epoch, from).await? {
                EpochEnd::Fenced { fence } if fence.by_epoch > writer_epoch => {
                    return Err(self.superseded(fence.by_epoch));
                }
                EpochEnd::Fenced { fence } => return Ok(fence.position.seq),
                EpochEnd::Absent { seq } => seq,
            };
            let place = WalPosition { writer_epoch: epoch, seq };
            from = seq;
            let is_missing = self.walker.absence(place, older).await? == Absence::Proven;
            #[cfg(test)]
            let is_missing = is_missing && !self.settings.breaks(WrongRule::FenceOverMissing);
            if is_missing {
                if missing == Some(seq) {
                    let key = self.walker.keys.wal(place);
                    if self.walker.losses.accepts(&key) {
                        self.walker.losses.pass(&key);
                        from = seq + 1;
                        continue;
                    }
                    return Err(OpenError::MissingObject { location: self.walker.location(), key });
                }
                missing = Some(seq);
                continue;
            }
            #[cfg(test)]
            let place =
                super::simulation::fence_place(&mut self.walker, self.settings.wrong_rule, place).await?;
            if self.put_fence(place, writer_epoch).await? {
                return Ok(place.seq);
            }
            #[cfg(test)]
            if self.settings.wrong_rule == Some(super::simulation::WrongRule::SkipWhatLandedMeanwhile) {
                from = place.seq + 1;
            }
        }
    }

    /// Puts a fence; false if another object has the place, which the walk then has to read.
    async fn put_fence(&self, position: WalPosition, writer_epoch: u64) -> Result<bool, OpenError> {
        let fence = Fence {
            shard: self.walker.shard,
            position,
            by_epoch: writer_epoch,
            by_nonce: self.seams.rng.bytes16(),
        };
        let key = self.walker.keys.wal(position);
        let put = Put { key, bytes: encode_fence(&fence), writer_nonce: fence.by_nonce };
        match self.putter.put(&put).await {
            PutOutcome::Durable => Ok(true),
            PutOutcome::Foreign => Ok(false),
            PutOutcome::Failed(source) => Err(self.walker.store_error(source)),
        }
    }

    /// Writes (epoch, 0), which says where each older epoch ended.
    async fn write_open_record(
        &mut self,
        writer_epoch: u64,
        closed_epochs: Vec<ClosedEpoch>,
    ) -> Result<(), OpenError> {
        let position = WalPosition { writer_epoch, seq: 0 };
        let (node, address) = (self.settings.node.clone(), self.settings.address.clone());
        let mut events = vec![Event::Opened(Opened { closed_epochs, node, address })];
        events.extend(self.walker.losses.events(&self.walker.state).into_iter().map(Event::LossAccepted));
        let state = &mut self.walker.state;
        let header = WalHeader {
            shard: self.walker.shard,
            position,
            writer_nonce: self.seams.rng.bytes16(),
            durable_seq: -1,
            previous_header_crc: state.header_crc,
            append_time_ms: self.seams.clock.now_ms().max(state.append_time_ms),
        };
        let mut builder = WalObjectBuilder::new(header);
        events.iter().for_each(|event| builder.push_event(event));
        let object = builder.finish();
        let commit = Commit {
            header: &header,
            header_crc: object.header_crc,
            object_length: object.bytes.len() as u64,
            events: &events,
            blocks: &[],
        };
        state.apply(&commit).expect("an open record names partitions of the state alone");
        let key = self.walker.keys.wal(position);
        let put = Put { key, bytes: object.bytes, writer_nonce: header.writer_nonce };
        match self.putter.put(&put).await {
            PutOutcome::Durable => Ok(()),
            PutOutcome::Failed(source) => Err(self.walker.store_error(source)),
            PutOutcome::Foreign => match self.walker.try_read(position).await? {
                Some(WalObject::Fence(fence)) => Err(self.superseded(fence.by_epoch)),
                _ => Err(self.superseded(writer_epoch)),
            },
        }
    }

    fn superseded(&self, writer_epoch: u64) -> OpenError {
        superseded(&self.walker, writer_epoch)
    }
}

fn superseded(walker: &Walker, writer_epoch: u64) -> OpenError {
    OpenError::Superseded { location: walker.location(), writer_epoch }
}

async fn check_newest(walker: &Walker, writer_epoch: u64) -> Result<(), OpenError> {
    match walker.claimed_epochs().await?.last() {
        Some(newest) if *newest > writer_epoch => Err(superseded(walker, *newest)),
        _ => Ok(()),
    }
}

/// # Errors
/// Another process has claimed the shard since the epoch was claimed.
pub(super) async fn check_still_newest(shared: &Shared, writer_epoch: u64) -> Result<(), OpenError> {
    let walker = new_walker(&shared.store, shared.shard, &shared.settings, &shared.seams);
    check_newest(&walker, writer_epoch).await
}

/// How many shards the log has: they are numbered from 0.
pub(super) async fn count_shards(
    store: &Arc<dyn LogStore>,
    settings: &LogSettings,
    seams: &Seams,
) -> Result<u32, OpenError> {
    let mut count = 1;
    while !new_walker(store, ShardId(count), settings, seams).claimed_epochs().await?.is_empty() {
        count += 1;
    }
    Ok(count)
}

async fn read_small(store: &Arc<dyn LogStore>, seams: &Seams, key: &str) -> Result<Option<Bytes>, OpenError> {
    let read = read_prefix(&**store, seams, key, SMALL_OBJECT_BYTES).await;
    let read = read.map_err(|source| OpenError::Store { location: store.location().to_owned(), source })?;
    Ok(read.map(|prefix| prefix.bytes))
}

fn decode_cluster_id(store: &Arc<dyn LogStore>, bytes: &[u8]) -> Result<(String, Cluster), OpenError> {
    let cluster = decode_cluster(bytes).map_err(|error| OpenError::Unreadable {
        location: store.location().to_owned(),
        key: CLUSTER.to_owned(),
        reason: error.to_string(),
    })?;
    Ok((cluster.cluster_id.to_string(), cluster))
}
