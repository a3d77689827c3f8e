//! The one writer of a shard: takes all that is pending, assigns offsets, puts objects, and
//! publishes what became durable.
//!
//! Invariant: acks, the high watermark and readers advance only over the contiguous prefix of
//! durable objects.
//! Invariant: each object in flight carries the state after it, so that a publication replaces the
//! durable state whole.
//! Invariant: after a fence, a foreign object or a failure of the local disk nothing is acked any more.
//! Invariant: after a failure of our own nothing that was assigned is used any more: the log is
//! opened again under a new epoch, and what is durable decides.

use std::collections::{BTreeSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::JoinSet;

use super::append::{Appended, PreparedBatch};
use super::assign::{Assignment, Sealed};
use super::claim_watch::ClaimWatch;
use super::error::{AppendError, OpenError, WriteError};
use super::health::Health;
use super::open::{self, OpenOrder};
use super::put::{Put, PutOutcome, Putter};
use super::shared::Shared;
use super::state::{Commit, ShardState};
use super::trouble::put_through;
use crate::format::{BlockEntry, Event, WalHeader};
use crate::ids::{TopicPartition, WalPosition};
use crate::telemetry;

pub(super) type AppendResults = Vec<Result<Appended, AppendError>>;

/// What the committer is asked to do.
pub(super) enum Command {
    Append(AppendJob),
    Change(ChangeJob),
    /// Refuse what comes after, commit what came before, and answer.
    Close(oneshot::Sender<()>),
}

/// Batches that are answered together.
pub(super) struct AppendJob {
    pub(super) batches: Vec<PreparedBatch>,
    pub(super) reply: oneshot::Sender<AppendResults>,
    /// Pending bytes, given back when the job is answered.
    pub(super) permit: OwnedSemaphorePermit,
}

/// Whether the events of a change may share an object with batches that came before it. An object's
/// events are applied before its blocks, so an event that takes partitions away may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeOrder {
    AnyPlace,
    AfterBatches,
}

/// A change of state, and an answer when it is durable.
pub(super) struct ChangeJob {
    pub(super) order: ChangeOrder,
    pub(super) make: MakeChange,
}

/// Checks the change against the commit so far, and adds it.
type MakeChange = Box<dyn FnOnce(&mut Assignment) -> ChangeReply + Send>;

/// Answers a change; called once, when its events are durable or never will be.
pub(super) type ChangeReply = Box<dyn FnOnce(Result<(), WriteError>) + Send>;

enum Reply {
    Append { reply: oneshot::Sender<AppendResults>, results: AppendResults, _permit: OwnedSemaphorePermit },
    Change(ChangeReply),
}

impl Reply {
    fn durable(self) {
        match self {
            // A caller that went away needs no answer: its records are in the log all the same.
            Self::Append { reply, results, .. } => drop(reply.send(results)),
            Self::Change(reply) => reply(Ok(())),
        }
    }

    fn failed(self, error: &WriteError) {
        match self {
            Self::Append { reply, results, .. } => {
                let fail = |result: Result<_, _>| result.and_then(|_| Err(AppendError::Write(error.clone())));
                drop(reply.send(results.into_iter().map(fail).collect()));
            }
            Self::Change(reply) => reply(Err(error.clone())),
        }
    }
}

/// Why a committer serves no more.
enum Ended {
    /// For good.
    Stopped(Health),
    /// By a failure of our own, before anything of it was put.
    Poisoned { reason: String },
}

/// Where a committer goes on from.
pub(super) struct CommitterStart {
    pub(super) state: ShardState,
    pub(super) next_seq: u64,
    pub(super) durable_seq: i64,
}

/// An object that was put and is not yet known to be durable, or waits for one before it.
struct InFlight {
    seq: u64,
    durable: bool,
    bytes: Bytes,
    state_after: ShardState,
    touched: BTreeSet<TopicPartition>,
    topics_changed: bool,
    replies: Vec<Reply>,
}

/// The values that the committer works with.
pub(super) struct CommitterSettings {
    pub(super) writer_epoch: u64,
    pub(super) linger: Duration,
    pub(super) puts_in_flight_max: usize,
    pub(super) commit_bytes_max: usize,
}

pub(super) struct Committer {
    settings: CommitterSettings,
    shared: Arc<Shared>,
    putter: Arc<Putter>,
    commands: mpsc::Receiver<Command>,
    /// The state after all objects sealed so far.
    assigned: ShardState,
    next_seq: u64,
    /// The last seq of the contiguous durable prefix, -1 before the first.
    durable_seq: i64,
    pending: VecDeque<Command>,
    pending_bytes: usize,
    pending_since: Option<Duration>,
    in_flight: VecDeque<InFlight>,
    puts: JoinSet<(u64, PutOutcome)>,
    claim_watch: ClaimWatch,
    closing: Vec<oneshot::Sender<()>>,
}

impl Committer {
    pub(super) fn new(
        settings: CommitterSettings,
        shared: Arc<Shared>,
        putter: Arc<Putter>,
        commands: mpsc::Receiver<Command>,
        start: CommitterStart,
    ) -> Self {
        Self {
            settings,
            shared,
            putter,
            commands,
            assigned: start.state,
            next_seq: start.next_seq,
            durable_seq: start.durable_seq,
            pending: VecDeque::new(),
            pending_bytes: 0,
            pending_since: None,
            in_flight: VecDeque::new(),
            puts: JoinSet::new(),
            claim_watch: ClaimWatch::default(),
            closing: Vec::new(),
        }
    }

    /// Runs until the log is closed, or can serve no more.
    pub(super) async fn run(mut self) {
        let health = loop {
            let reason = match self.serve().await {
                Ended::Stopped(health) => break health,
                Ended::Poisoned { reason } => reason,
            };
            tracing::error!(reason, "a commit failed in this process: the log is opened again");
            telemetry::reopening();
            self.fail_all(&WriteError::Reopening { reason: reason.clone() });
            if let Err(health) = self.reopen().await {
                break health;
            }
        };
        let error = health.write_error();
        // Told first, so that whoever gets no answer to a change finds out why.
        self.shared.stop(health);
        self.fail_all(&error);
        self.commands.close();
        while let Some(command) = self.commands.recv().await {
            refuse(command, &error);
        }
        for reply in self.closing {
            // Whoever asked may have gone away.
            let _ = reply.send(());
        }
        // A put on its way is not taken back: it may still land, and a later open will find it.
        self.puts.detach_all();
    }

    /// Answers all that waits with an error. What is in flight may still become durable.
    fn fail_all(&mut self, error: &WriteError) {
        for command in self.pending.drain(..) {
            refuse(command, error);
        }
        (self.pending_bytes, self.pending_since) = (0, None);
        for in_flight in self.in_flight.drain(..) {
            in_flight.replies.into_iter().for_each(|reply| reply.failed(error));
        }
    }

    /// Claims a new epoch and goes on from what is durable: everything assigned is dropped. A shard
    /// that somebody else has claimed since is left to them.
    async fn reopen(&mut self) -> Result<(), Health> {
        self.puts.detach_all();
        let Shared { store, shard, settings, seams, .. } = &*self.shared;
        let own_epoch = Some(self.settings.writer_epoch);
        let opening = match open::open(OpenOrder { store, shard: *shard, settings, seams, own_epoch }).await {
            Ok(opening) => opening,
            Err(OpenError::Superseded { writer_epoch, .. } | OpenError::Claimed { writer_epoch, .. }) => {
                return Err(Health::Fenced { by: self.shared.claimant(writer_epoch).await });
            }
            Err(error) => return Err(Health::Failed { reason: error.to_string() }),
        };
        self.settings.writer_epoch = opening.writer_epoch;
        self.putter = opening.putter;
        self.next_seq = opening.start.next_seq;
        self.durable_seq = opening.start.durable_seq;
        self.assigned = opening.start.state;
        self.shared.publish(self.assigned.clone());
        self.shared.changes.wake_all();
        self.shared.topics_changed();
        Ok(())
    }

    async fn serve(&mut self) -> Ended {
        let mut health = self.shared.health();
        loop {
            self.refuse_pending_appends();
            while self.is_due() {
                // A panic is a failure of our own like any other: the state may be half changed.
                let commit = std::panic::catch_unwind(AssertUnwindSafe(|| self.commit_pending()));
                match commit {
                    Ok(Ok(())) => {}
                    Ok(Err(reason)) => return Ended::Poisoned { reason },
                    Err(_) => return Ended::Poisoned { reason: "a panic in a commit".to_owned() },
                }
                // The put that was just started gets a turn before the next object is sealed: on few
                // processors the puts would otherwise not overlap.
                tokio::task::yield_now().await;
            }
            if !self.closing.is_empty() && self.pending.is_empty() && self.in_flight.is_empty() {
                return Ended::Stopped(Health::Closed);
            }
            let linger = self.linger_left();
            tokio::select! {
                biased;
                Some(put) = self.puts.join_next(), if !self.puts.is_empty() => {
                    let (seq, outcome) = put.expect("the put task does not panic and is not cancelled");
                    if let Err(health) = self.finish_put(seq, outcome).await {
                        return Ended::Stopped(health);
                    }
                }
                // A claim of our own is one that a reopen has made since.
                claimed = self.claim_watch.claimed() => if claimed > self.settings.writer_epoch {
                    return Ended::Stopped(Health::Fenced { by: self.shared.claimant(claimed).await });
                },
                // The sender is in `shared`.
                _ = health.changed() => {}
                command = self.commands.recv(), if self.closing.is_empty() => match command {
                    Some(command) => self.enqueue(command),
                    // Every handle is gone: nobody can ask for anything any more.
                    None => self.closing.push(oneshot::channel().0),
                },
                () = self.shared.seams.clock.sleep(linger.unwrap_or_default()), if linger.is_some() => {}
            }
        }
    }

    /// While the store takes nothing, appends are not kept waiting.
    fn refuse_pending_appends(&mut self) {
        let Some(error) = self.shared.refusal() else { return };
        let is_append = |command: &Command| matches!(command, Command::Append(_));
        let (appends, others): (VecDeque<_>, VecDeque<_>) = self.pending.drain(..).partition(is_append);
        self.pending = others;
        self.pending_bytes = 0;
        appends.into_iter().for_each(|append| refuse(append, &error));
        if self.pending.is_empty() {
            self.pending_since = None;
        }
    }

    fn enqueue(&mut self, command: Command) {
        let mut next = Some(command);
        while let Some(command) = next {
            match command {
                Command::Close(reply) => {
                    self.closing.push(reply);
                    return;
                }
                Command::Append(job) => {
                    self.pending_bytes += job.size_bytes();
                    self.pending.push_back(Command::Append(job));
                }
                change @ Command::Change(_) => self.pending.push_back(change),
            }
            next = if self.pending_bytes < self.settings.commit_bytes_max {
                self.commands.try_recv().ok()
            } else {
                None
            };
        }
        if self.pending_since.is_none() && !self.pending.is_empty() {
            self.pending_since = Some(self.shared.seams.clock.monotonic());
        }
    }

    /// Whether an object should be put now.
    fn is_due(&self) -> bool {
        let has_slot =
            self.in_flight.iter().filter(|put| !put.durable).count() < self.settings.puts_in_flight_max;
        has_slot && !self.pending.is_empty() && self.is_ripe()
    }

    fn is_ripe(&self) -> bool {
        self.pending_bytes >= self.settings.commit_bytes_max
            || !self.closing.is_empty()
            || self.linger_left().is_none()
    }

    /// How long pending work should still wait for company; `None` if it should not.
    fn linger_left(&self) -> Option<Duration> {
        let waited = self.shared.seams.clock.monotonic().saturating_sub(self.pending_since?);
        self.settings.linger.checked_sub(waited).filter(|left| !left.is_zero())
    }

    /// Fills one object with pending work and puts it; an error is a failure of our own.
    fn commit_pending(&mut self) -> Result<(), String> {
        let now_ms = self.shared.seams.clock.now_ms();
        let mut assignment = Assignment::new(&self.assigned, self.shared.shards.clone(), now_ms);
        let mut replies = Vec::new();
        while let Some(command) = self.pending.pop_front() {
            if !fits(&command, &assignment, self.settings.commit_bytes_max) {
                self.pending.push_front(command);
                break;
            }
            match command {
                Command::Append(job) => {
                    self.pending_bytes -= job.size_bytes();
                    replies.push(assign_append(&mut assignment, job));
                }
                Command::Change(job) => replies.push(assign_change(&mut assignment, job)),
                Command::Close(_) => unreachable!("a close is not queued"),
            }
        }
        self.pending_since = (!self.pending.is_empty()).then(|| self.shared.seams.clock.monotonic());
        if assignment.is_empty() {
            self.answer_without_object(replies);
            return Ok(());
        }
        self.put(assignment, replies)
    }

    /// Refusals and duplicates need no object of their own. A duplicate may be of a batch that is
    /// still in flight, so it shares the fate of the newest object.
    fn answer_without_object(&mut self, replies: Vec<Reply>) {
        match self.in_flight.back_mut() {
            Some(newest) => newest.replies.extend(replies),
            None => replies.into_iter().for_each(Reply::durable),
        }
    }

    fn put(&mut self, assignment: Assignment, replies: Vec<Reply>) -> Result<(), String> {
        self.shared.seams.failpoint("commit.seal");
        let position = WalPosition { writer_epoch: self.settings.writer_epoch, seq: self.next_seq };
        let header = WalHeader {
            shard: self.shared.shard,
            position,
            writer_nonce: self.shared.seams.rng.bytes16(),
            durable_seq: self.durable_seq,
            previous_header_crc: self.assigned.header_crc,
            append_time_ms: assignment.append_time_ms,
        };
        let Sealed { object, events } = assignment.seal(header);
        let touched = touched(&self.assigned, &events, &object.blocks);
        let commit = Commit {
            header: &header,
            header_crc: object.header_crc,
            object_length: object.bytes.len() as u64,
            events: &events,
            blocks: &object.blocks,
        };
        let contradiction = |reason| format!("own commit {position}: {reason}");
        self.assigned.apply(&commit).map_err(contradiction)?;
        self.next_seq += 1;
        self.start_put(&header, object.bytes.clone());
        self.claim_watch.look(&self.shared, self.settings.writer_epoch);
        self.in_flight.push_back(InFlight {
            seq: position.seq,
            durable: false,
            bytes: object.bytes,
            state_after: self.assigned.clone(),
            touched,
            topics_changed: events.iter().any(changes_topics),
            replies,
        });
        Ok(())
    }

    fn start_put(&mut self, header: &WalHeader, bytes: Bytes) {
        let seq = header.position.seq;
        let key = self.shared.keys.wal(header.position);
        let put = Put { key, bytes, writer_nonce: header.writer_nonce };
        let (putter, shared) = (self.putter.clone(), self.shared.clone());
        self.puts.spawn(async move {
            let started = shared.seams.clock.monotonic();
            shared.seams.failpoint("commit.before_put");
            let outcome = put_through(&shared, &putter, &put).await;
            shared.seams.failpoint("commit.after_put");
            let took = shared.seams.clock.monotonic().saturating_sub(started);
            telemetry::commit_put(took, put.bytes.len());
            (seq, outcome)
        });
    }

    /// Notes what became of a put; an `Err` ends the writing.
    async fn finish_put(&mut self, seq: u64, outcome: PutOutcome) -> Result<(), Health> {
        match outcome {
            PutOutcome::Durable => self.mark_durable(seq),
            PutOutcome::Foreign => {
                let position = WalPosition { writer_epoch: self.settings.writer_epoch, seq };
                return Err(Health::Fenced { by: self.shared.owner_of(position).await });
            }
            PutOutcome::Failed(error) => return Err(Health::Failed { reason: error.to_string() }),
        }
        while self.in_flight.front().is_some_and(|put| put.durable) {
            let put = self.in_flight.pop_front().expect("the front was just looked at");
            self.publish(put);
        }
        Ok(())
    }

    fn mark_durable(&mut self, seq: u64) {
        let put = self.in_flight.iter_mut().find(|put| put.seq == seq);
        let put = put.expect("a put in flight is removed only after it is durable");
        put.durable = true;
        #[cfg(test)]
        if self.shared.settings.wrong_rule == Some(super::simulation::WrongRule::AckEach) {
            put.replies.drain(..).for_each(Reply::durable);
        }
    }

    fn publish(&mut self, put: InFlight) {
        self.durable_seq = i64::try_from(put.seq).expect("a shard has fewer than 2^63 objects");
        let position = WalPosition { writer_epoch: self.settings.writer_epoch, seq: put.seq };
        self.shared.reader.push_tail(position, put.bytes);
        self.shared.publish(put.state_after);
        telemetry::commit_published();
        self.shared.changes.wake(put.touched.into_iter());
        if put.topics_changed {
            self.shared.topics_changed();
        }
        put.replies.into_iter().for_each(Reply::durable);
    }
}

impl AppendJob {
    fn size_bytes(&self) -> usize {
        self.batches.iter().map(PreparedBatch::size_bytes).sum()
    }
}

/// Whether a command may go into the object that is being filled.
fn fits(command: &Command, assignment: &Assignment, bytes_max: usize) -> bool {
    match command {
        Command::Append(job) => {
            !assignment.has_batches() || assignment.bytes() + job.size_bytes() <= bytes_max
        }
        Command::Change(job) => job.order == ChangeOrder::AnyPlace || !assignment.has_batches(),
        Command::Close(_) => true,
    }
}

fn assign_append(assignment: &mut Assignment, job: AppendJob) -> Reply {
    let results = job.batches.iter().map(|batch| assignment.append(batch)).collect();
    Reply::Append { reply: job.reply, results, _permit: job.permit }
}

fn assign_change(assignment: &mut Assignment, job: ChangeJob) -> Reply {
    Reply::Change((job.make)(assignment))
}

fn refuse(command: Command, error: &WriteError) {
    match command {
        Command::Append(job) => {
            let refused = job.batches.iter().map(|_| Err(AppendError::Write(error.clone())));
            drop(job.reply.send(refused.collect()));
        }
        // The reply is dropped with the change, which its caller sees.
        Command::Change(_) => {}
        Command::Close(reply) => {
            // Whoever asked may have gone away.
            let _ = reply.send(());
        }
    }
}

/// The partitions whose watchers have to look again.
fn touched(before: &ShardState, events: &[Event], blocks: &[BlockEntry]) -> BTreeSet<TopicPartition> {
    let deleted = events.iter().filter_map(|event| match event {
        Event::TopicDeleted(event) => before.topics.get(&event.topic_id),
        _ => None,
    });
    let appended = blocks.iter().map(|block| block.topic_partition);
    appended.chain(deleted.flat_map(|topic| topic.partitions())).collect()
}

fn changes_topics(event: &Event) -> bool {
    match event {
        Event::TopicCreated(_)
        | Event::TopicDeleted(_)
        | Event::PartitionsAdded(_)
        | Event::TopicConfigSet(_)
        | Event::SchemaPut(_) => true,
        Event::Opened(_)
        | Event::ProducerIdsAllocated(_)
        | Event::ProducerBatches(_)
        | Event::OffsetsCommitted(_)
        | Event::GroupOffsetsDeleted(_)
        | Event::ClassicGroupPut(_)
        | Event::ConsumerGroupChanged(_)
        | Event::GenerationsReserved(_)
        | Event::GroupDeleted(_)
        | Event::TransactionEnded(_)
        | Event::ProducersExpired(_)
        | Event::TransactionalIdPut(_)
        | Event::TransactionalIdRemoved(_)
        | Event::SegmentsInstalled(_)
        | Event::LogStartsMoved(_)
        | Event::ObjectsDeleted(_)
        | Event::AccessChanged(_)
        | Event::LossAccepted(_) => false,
    }
}
