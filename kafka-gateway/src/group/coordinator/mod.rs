//! The shell around the groups: gives them time, topics and member ids, carries answers to the
//! requests that wait, ticks a group when it asks for it, and writes to the log what is to last.
//!
//! A group is loaded from the log when somebody asks for it, and forgotten when it has no members.
//!
//! Invariant: no lock is held while anything is awaited.
//! Invariant: an answer waits until all that its group wrote before is durable. A group whose write
//! did not succeed is forgotten with all that waits for it, and loaded again.

mod expiry;
mod slot;
mod views;
mod writer;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use strandline_storage::log::{GroupBody, GroupState, Log, Snapshot};
use strandline_storage::seam::Seams;
use tokio::sync::{Notify, oneshot};

use self::slot::{AnyGroup, Slot};
pub(crate) use self::views::{Description, Listed};
use self::writer::Write;
use super::classic::{ClassicGroup, Input};
use super::consumer::{Beat, CommitVersion, ConsumerGroup, JOINING};
use super::topics::Topics;
use super::{Caller, Effect, GroupError, GroupLimits, Reply, Waiter};
use crate::settings::GatewaySettings;

/// Characters of a client's id that its member id begins with.
const CLIENT_ID_LENGTH_MAX: usize = 128;

/// A request to a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Classic(Input),
    Consumer(Beat),
    /// Asks whether offsets may be committed.
    Commit {
        caller: Caller,
        generation: i32,
        version: CommitVersion,
    },
    /// Asks whether offsets may be told.
    Fetch {
        member_id: Option<String>,
        epoch: i32,
    },
    /// Deletes a group that has no members, with its offsets.
    Delete,
}

/// All groups that are in use.
#[derive(Debug)]
pub(crate) struct GroupCoordinator {
    limits: GroupLimits,
    groups_max: usize,
    offsets_retention: Duration,
    expiry_interval: Duration,
    log: Log,
    seams: Seams,
    state: Mutex<State>,
    /// Told when a deadline comes before the one that the timer waits for.
    earlier: Notify,
    /// Told when there is something to write.
    has_writes: Notify,
}

#[derive(Debug, Default)]
struct State {
    slots: HashMap<String, Slot>,
    waiters: u64,
    /// What the timer waits for.
    timer_at: Option<Duration>,
    /// Numbers writes.
    writes: u64,
    /// What was not begun to be written. Each request adds at most two, and waits for them.
    outbox: VecDeque<Write>,
    topics: Arc<Topics>,
}

impl GroupCoordinator {
    pub(crate) fn new(settings: &GatewaySettings, log: Log) -> Self {
        let limits = GroupLimits {
            initial_rebalance_delay: settings.group_initial_rebalance_delay,
            session_timeout_min: settings.group_session_timeout_min,
            session_timeout_max: settings.group_session_timeout_max,
            members_max: settings.group_members_max,
            metadata_bytes_max: settings.group_metadata_bytes_max,
            consumer_session_timeout: settings.group_consumer_session_timeout,
            consumer_heartbeat_interval: settings.group_consumer_heartbeat_interval,
        };
        Self {
            limits,
            groups_max: settings.groups_max,
            offsets_retention: settings.offsets_retention,
            expiry_interval: settings.offsets_expiry_interval,
            seams: log.seams().clone(),
            log,
            state: Mutex::default(),
            earlier: Notify::new(),
            has_writes: Notify::new(),
        }
    }

    /// An id for a new member, which nobody can guess or had before.
    pub(crate) fn new_member_id(&self, client_id: Option<&str>) -> String {
        let unique = uuid::Builder::from_random_bytes(self.seams.rng.bytes16()).into_uuid();
        let client_id: String = client_id.unwrap_or("client").chars().take(CLIENT_ID_LENGTH_MAX).collect();
        format!("{client_id}-{unique}")
    }

    /// Runs what goes on without a request; never ends.
    pub(crate) async fn run(&self) {
        tokio::join!(self.run_timer(), self.run_writes(), self.run_expiry());
    }

    /// Gives one request to a group and waits for the answer, which may take a rebalance.
    pub(crate) async fn submit(&self, group_id: &str, request: Request) -> Reply {
        match self.begin(group_id, request) {
            // A group that is loaded again drops those who wait.
            Ok(answer) => answer.await.unwrap_or(Reply::Failed(GroupError::NotCoordinator)),
            Err(reply) => *reply,
        }
    }

    fn begin(&self, group_id: &str, request: Request) -> Result<oneshot::Receiver<Reply>, Box<Reply>> {
        // Clients without a group once committed under the empty name; such offsets can still be used.
        match &request {
            Request::Commit { .. } | Request::Fetch { .. } | Request::Delete => {}
            Request::Consumer(_) if group_id.is_empty() => {
                return Err(refuse(&request, GroupError::InvalidRequest("group id is empty")));
            }
            Request::Consumer(beat) => beat.check().map_err(|error| refuse(&request, error))?,
            Request::Classic(_) if group_id.is_empty() => {
                return Err(refuse(&request, GroupError::InvalidGroupId));
            }
            Request::Classic(_) => {}
        }
        // A heartbeat and a commit of the classic protocol only move deadlines away.
        let may_bring_forward =
            !matches!(request, Request::Classic(Input::Heartbeat { .. }) | Request::Commit { .. });
        let mut state = self.lock();
        // Counted before the snapshot is taken, which then has at least these changes.
        let topics_version = *self.log.topic_changes().borrow() + 1;
        let snapshot = self.log.snapshot();
        state.follow(&snapshot, group_id);
        self.open(&mut state, &snapshot, group_id, &request)?;
        if let Request::Consumer(_) = request {
            state.follow_topics(&snapshot, topics_version);
        }
        let (sender, receiver) = oneshot::channel();
        let (topics, waiter) = (state.topics.clone(), state.next_waiter());
        let now = self.seams.clock.monotonic();
        state.step(group_id, |slot| {
            slot.expect_answer(waiter, sender);
            slot.step(now, waiter, request, &topics)
        });
        if !state.outbox.is_empty() {
            self.has_writes.notify_one();
        }
        if may_bring_forward && state.bring_timer_forward(group_id) {
            self.earlier.notify_one();
        }
        Ok(receiver)
    }

    /// Makes sure that the group of a request is there and speaks its protocol. Only a member that is
    /// new opens a group. For everything else there must be one, except that offsets of a group without
    /// members may be committed and asked for.
    fn open(
        &self,
        state: &mut State,
        snapshot: &Snapshot,
        group_id: &str,
        request: &Request,
    ) -> Result<(), Box<Reply>> {
        let is_known = self.load(state, snapshot, group_id);
        match request {
            Request::Classic(Input::Join(join)) if join.caller.member_id.is_empty() => {}
            Request::Consumer(beat) if beat.epoch == JOINING => {}
            _ if is_known => {}
            Request::Commit { generation, .. } if *generation < 0 => {
                self.check_room(state, snapshot).map_err(|error| refuse(request, error))?;
                return Err(Box::new(Reply::Done));
            }
            Request::Commit { version: CommitVersion::Generations, .. } => {
                return Err(refuse(request, GroupError::IllegalGeneration));
            }
            Request::Fetch { .. } => return Err(Box::new(Reply::Done)),
            Request::Commit { .. } | Request::Consumer(_) | Request::Delete => {
                return Err(refuse(request, GroupError::GroupNotFound));
            }
            Request::Classic(Input::Leave { members }) => {
                return Err(Box::new(Reply::Left(vec![Err(GroupError::UnknownMember); members.len()])));
            }
            Request::Classic(_) => return Err(refuse(request, GroupError::UnknownMember)),
        }
        if !is_known {
            self.check_room(state, snapshot).map_err(|error| refuse(request, error))?;
            let group = AnyGroup::Classic(ClassicGroup::new(self.limits, 0));
            let writer_epoch = snapshot.group_writer_epoch(group_id);
            state.slots.insert(group_id.to_owned(), Slot::new(group, 0, writer_epoch, self.limits));
        }
        let slot = state.slots.get_mut(group_id).expect("the group was loaded or opened");
        slot.speak_protocol_of(request).map_err(|error| refuse(request, error))
    }

    /// Whether the group is there, loaded from the log if need be. One that only has offsets is, too.
    fn load(&self, state: &mut State, snapshot: &Snapshot, group_id: &str) -> bool {
        if state.slots.contains_key(group_id) {
            return true;
        }
        let (group, revision) = match snapshot.group(group_id) {
            Some(durable) => (self.restore(durable), durable.revision),
            None if snapshot.group_offsets(group_id).next().is_some() => {
                (AnyGroup::Classic(ClassicGroup::new(self.limits, 0)), 0)
            }
            None => return false,
        };
        let writer_epoch = snapshot.group_writer_epoch(group_id);
        state.slots.insert(group_id.to_owned(), Slot::new(group, revision, writer_epoch, self.limits));
        true
    }

    fn restore(&self, durable: &GroupState) -> AnyGroup {
        let (now, reserved) = (self.seams.clock.monotonic(), durable.generations_reserved);
        match &durable.body {
            GroupBody::Classic(group) => {
                AnyGroup::Classic(ClassicGroup::restore(now, self.limits, group, reserved))
            }
            GroupBody::Consumer(group) => {
                AnyGroup::Consumer(ConsumerGroup::restore(now, self.limits, group, reserved))
            }
        }
    }

    fn check_room(&self, state: &State, snapshot: &Snapshot) -> Result<(), GroupError> {
        let groups = state.slots.len().max(snapshot.group_count());
        if groups >= self.groups_max { Err(GroupError::TooManyGroups) } else { Ok(()) }
    }

    /// Ticks groups when they are due; never ends.
    async fn run_timer(&self) {
        loop {
            let next = self.tick();
            let earlier = self.earlier.notified();
            match next {
                None => earlier.await,
                Some(wait) => tokio::select! {
                    () = earlier => (),
                    () = self.seams.clock.sleep(wait) => (),
                },
            }
        }
    }

    /// Ticks the groups that are due; gives the time until the next one is.
    fn tick(&self) -> Option<Duration> {
        let now = self.seams.clock.monotonic();
        let mut state = self.lock();
        let is_due = |slot: &Slot| slot.next_deadline().is_some_and(|deadline| deadline <= now);
        let due = state.slots.iter().filter(|(_, slot)| is_due(slot));
        let due: Vec<_> = due.map(|(id, _)| id.clone()).collect();
        for group_id in due {
            state.step(&group_id, |slot| slot.tick(now));
        }
        if !state.outbox.is_empty() {
            self.has_writes.notify_one();
        }
        state.timer_at = state.slots.values().filter_map(Slot::next_deadline).min();
        state.timer_at.map(|deadline| deadline.saturating_sub(now))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the lock panics")
    }
}

impl State {
    /// Forgets a group if somebody else may have written to its shard since it was loaded.
    fn follow(&mut self, snapshot: &Snapshot, group_id: &str) {
        let writer_epoch = snapshot.group_writer_epoch(group_id);
        if self.slots.get(group_id).is_some_and(|slot| slot.writer_epoch != writer_epoch) {
            self.slots.remove(group_id);
        }
    }

    /// Looks at the topics again if they have changed.
    fn follow_topics(&mut self, snapshot: &Snapshot, version: u64) {
        if self.topics.version != version {
            self.topics = Arc::new(Topics::of(snapshot, version));
        }
    }

    /// Steps one group, answers who is to be answered, and forgets the group if nothing is left of it.
    fn step(&mut self, group_id: &str, step: impl FnOnce(&mut Slot) -> Vec<Effect>) {
        let Some(slot) = self.slots.get_mut(group_id) else { return };
        for effect in step(slot) {
            match effect {
                Effect::Persist(change) => {
                    self.writes += 1;
                    let expected_revision = slot.begin_write(self.writes, &change);
                    let (group_id, number) = (group_id.to_owned(), self.writes);
                    self.outbox.push_back(Write { group_id, number, expected_revision, change });
                }
                Effect::Answer(waiter, reply) => slot.answer(waiter, reply),
            }
        }
        self.forget_if_unused(group_id);
    }

    fn forget_if_unused(&mut self, group_id: &str) {
        if self.slots.get(group_id).is_some_and(Slot::is_unused) {
            self.slots.remove(group_id);
        }
    }

    fn next_waiter(&mut self) -> Waiter {
        self.waiters += 1;
        Waiter(self.waiters)
    }

    /// True if the timer has to wait for an earlier moment than it does.
    fn bring_timer_forward(&mut self, group_id: &str) -> bool {
        let Some(deadline) = self.slots.get(group_id).and_then(Slot::next_deadline) else { return false };
        let is_earlier = self.timer_at.is_none_or(|timer_at| deadline < timer_at);
        if is_earlier {
            self.timer_at = Some(deadline);
        }
        is_earlier
    }
}

fn refuse(request: &Request, error: GroupError) -> Box<Reply> {
    Box::new(match request {
        Request::Classic(Input::Join(join)) => {
            Reply::NotJoined { error, member_id: join.caller.member_id.clone() }
        }
        _ => Reply::Failed(error),
    })
}
