//! Reads the WAL of a shard object by object, epoch by epoch, and replays it.
//!
//! Invariant: the walk goes by GET, one place after the other; a listing only ever says where to
//! look again. A place that is absent is the end of its epoch, unless something read elsewhere
//! proves that it held an acknowledged object: then it is damage.
//! Invariant: nothing is deleted, truncated or overwritten.

use std::sync::Arc;

use futures::stream::{self, Stream, StreamExt};

use super::error::OpenError;
use super::keys::{ShardKeys, checkpoint_position, trailing_number};
use super::loss::Losses;
use super::retry::retry_read;
use super::state::{Commit, ShardState};
use crate::format::event::Opened;
use crate::format::{
    CommitObject, Event, Fence, PREFIX_READ_LENGTH, WalObject, WalObjectError, decode_wal_object,
};
use crate::ids::{ShardId, WalPosition};
use crate::object::{LogStore, ObjectPrefix, StoreError};
use crate::seam::Seams;

/// Objects are asked for in groups of so many, since a request may cost more than its bytes.
const GROUP_LENGTH: u64 = 6;
/// With three groups on their way, one is always being read while another one is replayed.
const GROUPS_AHEAD: usize = 3;

/// Where the walk through one epoch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EpochEnd {
    /// A fence closes the epoch at this seq.
    Fenced { fence: Fence },
    /// Nothing is at this seq, and nothing proves that anything ever was.
    Absent { seq: u64 },
}

/// What is known of a place where nothing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    /// Something says that the object here was durable. It may have landed, or have been deleted, only
    /// after the walk began; else it is missing.
    Proven,
    /// A later epoch has begun, and this one had ended here.
    Closed,
    /// No later epoch has begun: the writer of this one may go on here.
    Open,
}

pub(super) struct Walker {
    pub(super) store: Arc<dyn LogStore>,
    pub(super) shard: ShardId,
    pub(super) keys: ShardKeys,
    pub(super) seams: Seams,
    /// The state after all that was walked.
    pub(super) state: ShardState,
    /// What was read beyond the prefix that a later object of its epoch says is durable: a crash of
    /// the machine may still take it away.
    pub(super) unproven: Vec<WalPosition>,
    /// What is passed over.
    pub(super) losses: Losses,
}

impl Walker {
    /// All epochs that were claimed, in order.
    pub(super) async fn claimed_epochs(&self) -> Result<Vec<u64>, OpenError> {
        let listed = self.list(&self.keys.epochs()).await?;
        Ok(listed.iter().filter_map(|key| trailing_number(key)).collect())
    }

    /// Where the checkpoints are, in order.
    pub(super) async fn checkpoints(&self) -> Result<Vec<WalPosition>, OpenError> {
        let listed = self.list(&self.keys.checkpoints()).await?;
        let mut checkpoints: Vec<_> = listed.iter().filter_map(|key| checkpoint_position(key)).collect();
        checkpoints.sort_unstable();
        Ok(checkpoints)
    }

    /// Where the walk through an epoch begins: behind the state so far.
    pub(super) fn first_seq(&self, writer_epoch: u64) -> u64 {
        let walked = self.state.position.filter(|position| position.writer_epoch == writer_epoch);
        walked.map_or(0, |position| position.seq + 1)
    }

    /// Whether an epoch comes before the one of the state so far.
    pub(super) fn is_behind(&self, writer_epoch: u64) -> bool {
        self.state.position.is_some_and(|position| writer_epoch < position.writer_epoch)
    }

    /// Walks one epoch from a seq to its end, replaying its commits.
    pub(super) async fn walk_epoch(&mut self, writer_epoch: u64, from: u64) -> Result<EpochEnd, OpenError> {
        let mut seq = from;
        let mut proven = i64::try_from(from).unwrap_or(i64::MAX) - 1;
        let mut objects = std::pin::pin!(self.objects(writer_epoch, from));
        loop {
            let position = WalPosition { writer_epoch, seq };
            let object = match objects.next().await.expect("there is no last place to look at") {
                Err(StoreError::NotFound { .. }) => {
                    self.note_unproven(writer_epoch, proven, seq);
                    return Ok(EpochEnd::Absent { seq });
                }
                object => object,
            };
            let walked = match self.decode(position, object).await {
                Ok(WalObject::Commit(commit)) => self.replay(&commit).map(|()| WalObject::Commit(commit)),
                walked => walked,
            };
            match walked {
                Err(error) if self.losses.excuses(&self.keys.wal(position), &error) => {
                    self.losses.pass(&self.keys.wal(position));
                }
                Err(error) => return Err(error),
                Ok(WalObject::Fence(fence)) => {
                    self.note_unproven(writer_epoch, proven, seq + 1);
                    return Ok(EpochEnd::Fenced { fence });
                }
                Ok(WalObject::Commit(commit)) => proven = proven.max(commit.header.durable_seq),
            }
            seq += 1;
        }
    }

    /// The fronts of an epoch's objects, one place after the other from a seq on. They are asked for
    /// ahead of the walk.
    fn objects(
        &self,
        writer_epoch: u64,
        from: u64,
    ) -> impl Stream<Item = Result<ObjectPrefix, StoreError>> + use<> {
        let (store, seams, keys) = (self.store.clone(), self.seams.clone(), self.keys);
        let groups = stream::iter((from..).step_by(GROUP_LENGTH as usize)).map(move |first| {
            let key = |seq| keys.wal(WalPosition { writer_epoch, seq });
            let keys: Vec<String> = (first..first + GROUP_LENGTH).map(key).collect();
            let (store, seams) = (store.clone(), seams.clone());
            async move { read_prefixes(&*store, &seams, &keys).await }
        });
        groups.buffered(GROUPS_AHEAD).flat_map(stream::iter)
    }

    async fn decode(
        &self,
        position: WalPosition,
        object: Result<ObjectPrefix, StoreError>,
    ) -> Result<WalObject, OpenError> {
        let key = self.keys.wal(position);
        let mut prefix = object.map_err(|source| self.store_error(source))?;
        loop {
            match decode_wal_object(&prefix.bytes, prefix.object_length) {
                Err(WalObjectError::NeedMore { length }) if length > prefix.bytes.len() as u64 => {
                    let read = read_prefix(&*self.store, &self.seams, &key, length).await;
                    let read = read.map_err(|source| self.store_error(source))?;
                    let missing = OpenError::MissingObject { location: self.location(), key: key.clone() };
                    prefix = read.ok_or(missing)?;
                }
                Err(error) => return Err(self.unreadable(&key, error)),
                Ok(object) if object.position() != position || object.shard() != self.shard => {
                    return Err(
                        self.unreadable(&key, format!("it says that it is object {}", object.position()))
                    );
                }
                Ok(object) => return Ok(object),
            }
        }
    }

    fn replay(&mut self, commit: &CommitObject) -> Result<(), OpenError> {
        let position = commit.header.position;
        if let Some(before) = self.state.position
            && commit.header.previous_header_crc != self.state.header_crc
            && !self.losses.suspends_chain()
        {
            return Err(OpenError::BrokenChain {
                location: self.location(),
                key: self.keys.wal(position),
                before,
            });
        }
        let before = self.losses.accepts_any().then(|| self.state.clone());
        self.losses.note(&self.state, &commit.blocks);
        let applied = self.state.apply(&Commit {
            header: &commit.header,
            header_crc: commit.header_crc,
            object_length: commit.object_length,
            events: &commit.events,
            blocks: &commit.blocks,
        });
        if let (Err(_), Some(before)) = (&applied, before) {
            self.state = before;
        }
        applied.map_err(|reason| OpenError::Contradiction {
            location: self.location(),
            key: self.keys.wal(position),
            reason,
        })
    }

    /// A local file that is visible may not be durable yet. One that was deleted meanwhile was: only
    /// what a checkpoint covers is deleted.
    pub(super) async fn sync_unproven(&self) -> Result<(), OpenError> {
        for position in &self.unproven {
            let key = self.keys.wal(*position);
            let synced = retry_read(&*self.seams.clock, || self.store.sync(&key)).await;
            match synced {
                Ok(()) | Err(StoreError::NotFound { .. }) => {}
                Err(source) => return Err(self.store_error(source)),
            }
        }
        Ok(())
    }

    fn note_unproven(&mut self, writer_epoch: u64, proven: i64, end: u64) {
        let from = u64::try_from(proven + 1).expect("durable_seq is not below -1");
        self.unproven.extend((from..end).map(|seq| WalPosition { writer_epoch, seq }));
    }

    /// What a later object of its epoch, or the open record of a later epoch, says of an absent place.
    pub(super) async fn absence(&self, place: WalPosition, claimed: &[u64]) -> Result<Absence, OpenError> {
        let listed = self.list(&self.keys.wal_epoch(place.writer_epoch)).await?;
        for seq in listed.iter().filter_map(|key| trailing_number(key)).filter(|seq| *seq > place.seq) {
            let later = WalPosition { seq, ..place };
            if let Some(WalObject::Commit(commit)) = self.try_read(later).await?
                && commit.header.durable_seq >= i64::try_from(place.seq).unwrap_or(i64::MAX)
            {
                return Ok(Absence::Proven);
            }
        }
        let mut absence = Absence::Open;
        for writer_epoch in claimed.iter().copied().filter(|epoch| *epoch > place.writer_epoch) {
            let Some(opened) = self.opened(writer_epoch).await? else { continue };
            let mut closed = opened.closed_epochs.iter();
            if closed.any(|epoch| epoch.writer_epoch == place.writer_epoch && epoch.end_seq > place.seq) {
                return Ok(Absence::Proven);
            }
            absence = Absence::Closed;
        }
        Ok(absence)
    }

    /// The open record of an epoch; `None` if its writer never got that far.
    async fn opened(&self, writer_epoch: u64) -> Result<Option<Opened>, OpenError> {
        let object = self.try_read(WalPosition { writer_epoch, seq: 0 }).await?;
        Ok(match object {
            Some(WalObject::Commit(commit)) => commit.events.into_iter().find_map(|event| match event {
                Event::Opened(opened) => Some(opened),
                _ => None,
            }),
            Some(WalObject::Fence(_)) | None => None,
        })
    }

    pub(super) async fn try_read(&self, position: WalPosition) -> Result<Option<WalObject>, OpenError> {
        let key = self.keys.wal(position);
        let read = read_prefix(&*self.store, &self.seams, &key, PREFIX_READ_LENGTH).await;
        match read.map_err(|source| self.store_error(source))? {
            Some(prefix) => self.decode(position, Ok(prefix)).await.map(Some),
            None => Ok(None),
        }
    }

    /// Replays an object although one before it is absent: what no correct open does.
    #[cfg(test)]
    pub(super) async fn replay_if_there(&mut self, position: WalPosition) -> Result<(), OpenError> {
        if let Some(WalObject::Commit(mut commit)) = self.try_read(position).await? {
            commit.header.previous_header_crc = self.state.header_crc;
            self.replay(&commit)?;
        }
        Ok(())
    }

    /// The keys below a prefix, in order.
    pub(super) async fn list(&self, prefix: &str) -> Result<Vec<String>, OpenError> {
        let listed = retry_read(&*self.seams.clock, || self.store.list(prefix)).await;
        let listed = listed.map_err(|source| self.store_error(source))?;
        Ok(listed.into_iter().map(|object| object.key).collect())
    }

    pub(super) fn location(&self) -> String {
        self.store.location().to_owned()
    }

    pub(super) fn store_error(&self, source: StoreError) -> OpenError {
        OpenError::Store { location: self.location(), source }
    }

    fn unreadable(&self, key: &str, reason: impl ToString) -> OpenError {
        OpenError::Unreadable { location: self.location(), key: key.to_owned(), reason: reason.to_string() }
    }
}

/// The fronts of objects, asked for together.
async fn read_prefixes(
    store: &dyn LogStore,
    seams: &Seams,
    keys: &[String],
) -> Vec<Result<ObjectPrefix, StoreError>> {
    let mut read = store.get_prefixes(keys, PREFIX_READ_LENGTH).await;
    for (key, object) in keys.iter().zip(&mut read) {
        if object.as_ref().is_err_and(StoreError::is_transient) {
            *object = retry_read(&*seams.clock, || store.get_prefix(key, PREFIX_READ_LENGTH)).await;
        }
    }
    read
}

/// The front of an object, or `None` if there is none.
pub(super) async fn read_prefix(
    store: &dyn LogStore,
    seams: &Seams,
    key: &str,
    length: u64,
) -> Result<Option<ObjectPrefix>, StoreError> {
    match retry_read(&*seams.clock, || store.get_prefix(key, length)).await {
        Ok(prefix) => Ok(Some(prefix)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
