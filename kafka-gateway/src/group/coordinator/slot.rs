//! One group in use: its state, who waits for it, and what waits for the log.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use strandline_storage::log::GroupChange;
use tokio::sync::oneshot;

use super::super::classic::{ClassicGroup, Input};
use super::super::consumer::{ConsumerGroup, JOINING};
use super::super::subscription::{CONSUMER, UsedTopics};
use super::super::topics::Topics;
use super::super::{Effect, GroupError, GroupLimits, Reply, Waiter};
use super::{Description, Listed, Request};

/// A group of either protocol.
#[derive(Debug)]
pub(super) enum AnyGroup {
    Classic(ClassicGroup),
    Consumer(ConsumerGroup),
}

#[derive(Debug)]
pub(super) struct Slot {
    group: AnyGroup,
    limits: GroupLimits,
    /// The epoch of the writer of its shard when it was loaded.
    pub(super) writer_epoch: u64,
    /// What the log has when all writes are durable.
    revision: u64,
    /// Numbers of the writes that are not durable yet.
    in_flight: VecDeque<u64>,
    waiting: HashMap<Waiter, oneshot::Sender<Reply>>,
    /// Answers that wait for a write, in order.
    held: VecDeque<(u64, Waiter, Reply)>,
}

impl Slot {
    pub(super) fn new(group: AnyGroup, revision: u64, writer_epoch: u64, limits: GroupLimits) -> Self {
        Self {
            group,
            limits,
            writer_epoch,
            revision,
            in_flight: VecDeque::new(),
            waiting: HashMap::new(),
            held: VecDeque::new(),
        }
    }

    /// A group without members takes the protocol of who opens it again; generations and epochs go on
    /// from there.
    pub(super) fn speak_protocol_of(&mut self, request: &Request) -> Result<(), GroupError> {
        match (&self.group, request) {
            (AnyGroup::Consumer(group), Request::Classic(input)) => {
                let is_new = matches!(input, Input::Join(join) if join.caller.member_id.is_empty());
                if is_new && group.is_empty() {
                    self.group = AnyGroup::Classic(ClassicGroup::new(self.limits, group.epoch()));
                    return Ok(());
                }
                let joins = matches!(input, Input::Join(_)) && !group.is_empty();
                Err(if joins { GroupError::InconsistentProtocol } else { GroupError::UnknownMember })
            }
            (AnyGroup::Classic(group), Request::Consumer(beat)) => {
                if beat.epoch != JOINING || !group.is_empty() {
                    return Err(GroupError::GroupNotFound);
                }
                self.group = AnyGroup::Consumer(ConsumerGroup::new(self.limits, group.last_generation()));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn expect_answer(&mut self, waiter: Waiter, sender: oneshot::Sender<Reply>) {
        self.waiting.insert(waiter, sender);
    }

    pub(super) fn step(
        &mut self,
        now: Duration,
        waiter: Waiter,
        request: Request,
        topics: &Topics,
    ) -> Vec<Effect> {
        let done = |result: Result<(), GroupError>| {
            Effect::Answer(waiter, result.map_or_else(Reply::Failed, |()| Reply::Done))
        };
        match (&mut self.group, request) {
            (AnyGroup::Classic(group), Request::Classic(input)) => group.step(now, waiter, input),
            (AnyGroup::Consumer(group), Request::Consumer(beat)) => group.step(now, waiter, beat, topics),
            (AnyGroup::Classic(group), Request::Commit { caller, generation, .. }) => {
                group.step(now, waiter, Input::Commit { caller, generation })
            }
            (AnyGroup::Consumer(group), Request::Commit { caller, generation, version }) => {
                let mut effects = group.tick(now);
                effects.push(done(group.check_commit(&caller, generation, version)));
                effects
            }
            (AnyGroup::Consumer(group), Request::Fetch { member_id, epoch }) => {
                vec![done(group.check_fetch(member_id.as_deref(), epoch))]
            }
            (AnyGroup::Classic(_), Request::Fetch { .. }) => vec![done(Ok(()))],
            (_, Request::Delete) => self.delete(waiter),
            (AnyGroup::Classic(_), Request::Consumer(_)) => vec![done(Err(GroupError::GroupNotFound))],
            (AnyGroup::Consumer(_), Request::Classic(_)) => vec![done(Err(GroupError::UnknownMember))],
        }
    }

    fn delete(&mut self, waiter: Waiter) -> Vec<Effect> {
        let is_empty = match &self.group {
            AnyGroup::Classic(group) => group.is_empty(),
            AnyGroup::Consumer(group) => group.is_empty(),
        };
        if !is_empty {
            return vec![Effect::Answer(waiter, Reply::Failed(GroupError::NonEmpty))];
        }
        self.group = AnyGroup::Classic(ClassicGroup::new(self.limits, 0));
        vec![Effect::Persist(GroupChange::Delete), Effect::Answer(waiter, Reply::Deleted)]
    }

    pub(super) fn tick(&mut self, now: Duration) -> Vec<Effect> {
        match &mut self.group {
            AnyGroup::Classic(group) => group.step(now, Waiter(0), Input::Tick),
            AnyGroup::Consumer(group) => group.tick(now),
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        match &self.group {
            AnyGroup::Classic(group) => group.next_deadline(),
            AnyGroup::Consumer(group) => group.next_deadline(),
        }
    }

    /// Notes a write; gives the revision that the log must have before it.
    pub(super) fn begin_write(&mut self, number: u64, change: &GroupChange) -> u64 {
        let expected = self.revision;
        self.revision = if *change == GroupChange::Delete { 0 } else { expected + 1 };
        self.in_flight.push_back(number);
        expected
    }

    /// A write is durable, and with it all before it; false if it is not one of this slot.
    pub(super) fn finish_write(&mut self, number: u64) -> bool {
        let Some(place) = self.in_flight.iter().position(|one| *one == number) else { return false };
        self.in_flight.drain(..=place);
        while let Some((_, waiter, reply)) = self.held.pop_front_if(|(write, ..)| *write <= number) {
            self.send(waiter, reply);
        }
        true
    }

    pub(super) fn is_writing(&self, number: u64) -> bool {
        self.in_flight.contains(&number)
    }

    /// Answers now, or when all that was written is durable if the answer tells of it.
    pub(super) fn answer(&mut self, waiter: Waiter, reply: Reply) {
        let tells_state =
            matches!(reply, Reply::Joined(_) | Reply::Synced(_) | Reply::Beaten(_) | Reply::Deleted);
        match self.in_flight.back() {
            Some(number) if tells_state => self.held.push_back((*number, waiter, reply)),
            _ => self.send(waiter, reply),
        }
    }

    fn send(&mut self, waiter: Waiter, reply: Reply) {
        if let Some(sender) = self.waiting.remove(&waiter) {
            // A client that has gone is not told.
            let _ = sender.send(reply);
        }
    }

    /// Whether nothing would be lost if the slot were forgotten.
    pub(super) fn is_unused(&self) -> bool {
        let is_forgettable = match &self.group {
            AnyGroup::Classic(group) => group.is_forgettable(),
            AnyGroup::Consumer(group) => group.is_empty(),
        };
        is_forgettable && self.in_flight.is_empty() && self.waiting.is_empty()
    }

    pub(super) fn describe(&self) -> Description {
        match &self.group {
            AnyGroup::Classic(group) => Description::Classic(group.describe()),
            AnyGroup::Consumer(group) => Description::Consumer(group.describe()),
        }
    }

    pub(super) fn list(&self, group_id: &str) -> Listed {
        let (group_type, protocol_type, state) = match &self.group {
            AnyGroup::Classic(group) => ("classic", group.protocol_type(), group.state_name()),
            AnyGroup::Consumer(group) => ("consumer", CONSUMER, group.state_name()),
        };
        let (group_id, protocol_type) = (group_id.to_owned(), protocol_type.to_owned());
        Listed { group_id, group_type, protocol_type, state }
    }

    /// Which of some topics the members use.
    pub(super) fn uses(&self, topics: &[&str]) -> Result<Vec<bool>, GroupError> {
        match &self.group {
            AnyGroup::Consumer(group) => Ok(topics.iter().map(|topic| group.subscribes_to(topic)).collect()),
            AnyGroup::Classic(group) if group.is_empty() => Ok(vec![false; topics.len()]),
            AnyGroup::Classic(group) if group.protocol_type() != CONSUMER => Err(GroupError::NonEmpty),
            AnyGroup::Classic(group) => {
                let used = UsedTopics::of(group.metadata_of_members().map(AsRef::as_ref));
                Ok(topics.iter().map(|topic| used.contains(topic)).collect())
            }
        }
    }
}
