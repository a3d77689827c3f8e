//! Fetch sessions (KIP-227): what a client fetches is remembered here, so that its requests name only
//! what changed, and the answers hold only what is new.
//!
//! Invariant: a session knows the id of each topic that it fetches, so that one that was created
//! before a topic was deleted and created again never reads the new topic with old offsets.
//! Invariant: all sessions together hold at most [`SESSIONS_MAX`] slots and
//! [`PARTITIONS_MAX`] partitions, with names that a topic can have. A client that gets no session sends whole
//! requests, as before.

mod cache;
mod session;
#[cfg(test)]
mod tests;

use std::sync::Mutex;
use std::time::Duration;

use strandline_storage::ids::TopicId;
use strandline_storage::log::topic_name::TOPIC_NAME_LENGTH_MAX;
use strandline_storage::seam::Seams;

use self::cache::SessionCache;
use self::session::Session;
use crate::context::TopicKey;

/// Kafka's `max.incremental.fetch.session.cache.slots`.
pub(crate) const SESSIONS_MAX: usize = 1000;
/// Of all sessions together; about 200 bytes each.
pub(crate) const PARTITIONS_MAX: usize = 1_000_000;

/// The id of no session.
pub(crate) const NO_SESSION: i32 = 0;
/// The epoch of a request that wants a new session.
pub(crate) const INITIAL_EPOCH: i32 = 0;
/// The epoch of a request that wants none, and ends the one that it names.
pub(crate) const FINAL_EPOCH: i32 = -1;

/// How a request names topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    Names,
    Ids,
}

/// A partition as a request names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartitionKey {
    pub(crate) topic: TopicKey,
    pub(crate) partition: i32,
}

/// What a client wants of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) fetch_offset: i64,
    pub(crate) bytes_max: i32,
    /// -1 checks nothing, like the next.
    pub(crate) current_leader_epoch: i32,
    pub(crate) last_fetched_epoch: i32,
}

/// One partition of a request, or of its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) key: PartitionKey,
    pub(crate) position: Position,
    /// The topic that was found behind the name or id before.
    pub(crate) topic_id: Option<TopicId>,
}

/// What a request says of its session.
#[derive(Debug)]
pub(crate) struct SessionRequest {
    pub(crate) id: i32,
    pub(crate) epoch: i32,
    pub(crate) naming: Naming,
    /// New and changed ones; all of them without a session.
    pub(crate) items: Vec<Item>,
    pub(crate) forgotten: Vec<PartitionKey>,
}

impl SessionRequest {
    /// A session would keep a name that no topic can have, however long it is.
    fn fits_a_session(&self) -> bool {
        self.items.iter().all(|item| match &item.key.topic {
            TopicKey::Name(name) => name.len() <= TOPIC_NAME_LENGTH_MAX,
            TopicKey::Id(_) => true,
        })
    }
}

/// What to fetch, in this order.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) items: Vec<Item>,
    pub(crate) ticket: Ticket,
}

/// The session of a request that is being answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ticket {
    None,
    /// Created with the answer, if there is room.
    New(Naming),
    /// The epoch is that of the next request.
    Continued {
        id: i32,
        next_epoch: i32,
    },
}

/// What the answer to a request would say of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Observed {
    pub(crate) topic_id: Option<TopicId>,
    pub(crate) high_watermark: i64,
    pub(crate) log_start_offset: i64,
    pub(crate) content: Content,
}

/// What the client has to see of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Nothing but its bounds.
    Bounds,
    Records,
    /// An error, or a diverging epoch.
    Problem,
}

/// The session of an answer, and which partitions are in it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Closed {
    pub(crate) session_id: i32,
    pub(crate) included: Vec<bool>,
}

/// Why a request does not fit its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionError {
    UnknownId,
    WrongEpoch,
    /// The session names topics the other way.
    OtherNaming,
}

/// The sessions of all clients.
#[derive(Debug)]
pub(crate) struct FetchSessions {
    cache: Mutex<SessionCache>,
    seams: Seams,
}

impl FetchSessions {
    pub(crate) fn new(seams: Seams) -> Self {
        Self { cache: Mutex::new(SessionCache::new(SESSIONS_MAX, PARTITIONS_MAX)), seams }
    }

    /// Finds out what a request fetches.
    pub(crate) fn open(&self, request: SessionRequest) -> Result<Opened, SessionError> {
        let now = self.now();
        self.lock().open(request, now)
    }

    /// Finds out what of it is answered; `observed` is in the order of the items.
    pub(crate) fn close(&self, opened: &Opened, observed: &[Observed]) -> Result<Closed, SessionError> {
        let now = self.now();
        let random = || {
            let mut bytes = [0; 4];
            self.seams.rng.fill(&mut bytes);
            i32::from_le_bytes(bytes)
        };
        self.lock().close(opened, observed, now, random)
    }

    fn now(&self) -> Duration {
        self.seams.clock.monotonic()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, SessionCache> {
        self.cache.lock().expect("no holder of the lock panics")
    }
}
