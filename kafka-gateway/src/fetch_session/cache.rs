//! The slots for sessions: who gets one, and whose is taken away (Kafka's `FetchSessionCache`). Pure.
//!
//! Invariant: the indexes hold exactly the sessions that there are, and `partitions` is the sum of
//! their sizes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{
    Closed, FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, Observed, Opened, Session, SessionError, SessionRequest,
    Ticket,
};

/// A session that is not used for so long gives up its slot to any other; one that is older than this
/// to a larger one (Kafka's `min.incremental.fetch.session.eviction.ms`).
const EVICTION_AGE: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(super) struct SessionCache {
    sessions_max: usize,
    partitions_max: usize,
    sessions: BTreeMap<i32, Session>,
    /// The one that was not used for longest comes first.
    by_use: BTreeSet<(Duration, i32)>,
    /// Those that are old enough to give way to a larger one, the smallest first.
    by_size: BTreeSet<(usize, i32)>,
    partitions: usize,
}

impl SessionCache {
    pub(super) fn new(sessions_max: usize, partitions_max: usize) -> Self {
        Self {
            sessions_max,
            partitions_max,
            sessions: BTreeMap::new(),
            by_use: BTreeSet::new(),
            by_size: BTreeSet::new(),
            partitions: 0,
        }
    }

    pub(super) fn open(&mut self, request: SessionRequest, now: Duration) -> Result<Opened, SessionError> {
        match request.epoch {
            INITIAL_EPOCH | FINAL_EPOCH => {
                self.remove(request.id);
                let is_new = request.epoch == INITIAL_EPOCH && request.fits_a_session();
                let ticket = if is_new { Ticket::New(request.naming) } else { Ticket::None };
                Ok(Opened { items: request.items, ticket })
            }
            _ => self.go_on(request, now),
        }
    }

    fn go_on(&mut self, request: SessionRequest, now: Duration) -> Result<Opened, SessionError> {
        let id = request.id;
        let session = self.sessions.get(&id).ok_or(SessionError::UnknownId)?;
        if session.epoch != request.epoch {
            return Err(SessionError::WrongEpoch);
        }
        if !request.fits_a_session() {
            return Err(SessionError::UnknownId);
        }
        if session.naming != request.naming {
            return Err(SessionError::OtherNaming);
        }
        let mut session = self.take(id).expect("the session was just found");
        request.forgotten.iter().for_each(|key| session.forget(key));
        request.items.into_iter().for_each(|item| session.put(item));
        if session.len() == 0 {
            return Ok(Opened { items: Vec::new(), ticket: Ticket::None });
        }
        if self.partitions + session.len() > self.partitions_max {
            return Err(SessionError::UnknownId);
        }
        session.advance();
        let opened =
            Opened { items: session.items(), ticket: Ticket::Continued { id, next_epoch: session.epoch } };
        session.last_used = now;
        self.insert(id, session);
        Ok(opened)
    }

    pub(super) fn close(
        &mut self,
        opened: &Opened,
        observed: &[Observed],
        now: Duration,
        random: impl FnMut() -> i32,
    ) -> Result<Closed, SessionError> {
        let everything = |session_id| Closed { session_id, included: vec![true; observed.len()] };
        match opened.ticket {
            Ticket::None => Ok(everything(NO_SESSION)),
            Ticket::New(naming) => {
                let mut session = Session::new(naming, now);
                for (item, observed) in opened.items.iter().zip(observed) {
                    session.put(item.clone());
                    session.note(&item.key, observed);
                }
                Ok(everything(self.create(session, now, random)))
            }
            Ticket::Continued { id, next_epoch } => {
                let session = self.sessions.get_mut(&id).ok_or(SessionError::UnknownId)?;
                if session.epoch != next_epoch {
                    return Err(SessionError::WrongEpoch);
                }
                let pairs = opened.items.iter().zip(observed);
                let included = pairs.map(|(item, observed)| session.note(&item.key, observed)).collect();
                Ok(Closed { session_id: id, included })
            }
        }
    }

    /// Gives a session a slot; [`NO_SESSION`] if there is none for it.
    fn create(&mut self, session: Session, now: Duration, random: impl FnMut() -> i32) -> i32 {
        let size = session.len();
        if size == 0 || self.partitions + size > self.partitions_max {
            return NO_SESSION;
        }
        if self.sessions.len() >= self.sessions_max && !self.evict(size, now) {
            return NO_SESSION;
        }
        // The id of a new session must not be one that another client has.
        let id = std::iter::repeat_with(random)
            .map(|number| number & i32::MAX)
            .find(|id| *id != NO_SESSION && !self.sessions.contains_key(id))
            .expect("random numbers do not end");
        self.insert(id, session);
        id
    }

    /// Frees a slot for a session of a size, if another one has to give way to it.
    fn evict(&mut self, size: usize, now: Duration) -> bool {
        let Some(&(last_used, oldest)) = self.by_use.first() else { return false };
        if now.saturating_sub(last_used) > EVICTION_AGE {
            self.remove(oldest);
            return true;
        }
        match self.by_size.first() {
            Some(&(smallest, id)) if smallest < size => {
                self.remove(id);
                true
            }
            _ => false,
        }
    }

    fn remove(&mut self, id: i32) {
        drop(self.take(id));
    }

    fn take(&mut self, id: i32) -> Option<Session> {
        let session = self.sessions.remove(&id)?;
        self.by_use.remove(&(session.last_used, id));
        self.by_size.remove(&(session.len(), id));
        self.partitions -= session.len();
        Some(session)
    }

    fn insert(&mut self, id: i32, session: Session) {
        self.partitions += session.len();
        self.by_use.insert((session.last_used, id));
        if session.last_used.saturating_sub(session.created) > EVICTION_AGE {
            self.by_size.insert((session.len(), id));
        }
        self.sessions.insert(id, session);
    }

    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize) {
        let sum: usize = self.sessions.values().map(Session::len).sum();
        assert_eq!((self.by_use.len(), self.partitions), (self.sessions.len(), sum));
        assert!(self.by_size.iter().all(|(size, id)| self.sessions[id].len() == *size));
        (self.sessions.len(), self.partitions)
    }
}
