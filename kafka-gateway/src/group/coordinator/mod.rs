//! The shell around the groups: gives them time and member ids, carries answers to the requests that
//! wait, and ticks a group when it asks for it.
//!
//! Invariant: no lock is held while anything is awaited.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use strandline_storage::seam::Seams;
use tokio::sync::{Notify, oneshot};

use super::{Effect, Group, GroupError, GroupLimits, Input, Reply, Waiter};
use crate::settings::GatewaySettings;

/// Characters of a client's id that its member id begins with.
const CLIENT_ID_LENGTH_MAX: usize = 128;

/// All groups that have members.
#[derive(Debug)]
pub(crate) struct GroupCoordinator {
    limits: GroupLimits,
    groups_max: usize,
    seams: Seams,
    state: Mutex<State>,
    /// Told when a deadline comes before the one that the timer waits for.
    earlier: Notify,
}

#[derive(Debug, Default)]
struct State {
    groups: HashMap<String, Group>,
    waiting: HashMap<Waiter, oneshot::Sender<Reply>>,
    waiters: u64,
    /// What the timer waits for.
    timer_at: Option<Duration>,
}

impl GroupCoordinator {
    pub(crate) fn new(settings: &GatewaySettings, seams: Seams) -> Self {
        let limits = GroupLimits {
            initial_rebalance_delay: settings.group_initial_rebalance_delay,
            session_timeout_min: settings.group_session_timeout_min,
            session_timeout_max: settings.group_session_timeout_max,
            members_max: settings.group_members_max,
        };
        let (state, earlier) = (Mutex::default(), Notify::new());
        Self { limits, groups_max: settings.groups_max, seams, state, earlier }
    }

    /// An id for a new member, which nobody can guess or had before.
    pub(crate) fn new_member_id(&self, client_id: Option<&str>) -> String {
        let unique = uuid::Builder::from_random_bytes(self.seams.rng.bytes16()).into_uuid();
        let client_id: String = client_id.unwrap_or("client").chars().take(CLIENT_ID_LENGTH_MAX).collect();
        format!("{client_id}-{unique}")
    }

    /// Gives one input to a group and waits for the answer, which may take a rebalance.
    pub(crate) async fn submit(&self, group_id: &str, input: Input) -> Reply {
        match self.begin(group_id, input) {
            // Only the end of the gateway drops a waiter without an answer.
            Ok(answer) => answer.await.unwrap_or(Reply::Failed(GroupError::RebalanceInProgress)),
            Err(reply) => reply,
        }
    }

    fn begin(&self, group_id: &str, input: Input) -> Result<oneshot::Receiver<Reply>, Reply> {
        if group_id.is_empty() {
            return Err(refuse(&input, GroupError::InvalidGroupId));
        }
        let now = self.seams.clock.monotonic();
        let mut state = self.lock();
        if !state.groups.contains_key(group_id) {
            self.open_group(&mut state, group_id, &input)?;
        }
        state.waiters += 1;
        let waiter = Waiter(state.waiters);
        let (sender, receiver) = oneshot::channel();
        state.waiting.insert(waiter, sender);
        // A heartbeat and a commit only move deadlines away.
        let may_bring_forward = !matches!(input, Input::Heartbeat { .. } | Input::Commit { .. });
        state.step(group_id, now, waiter, input);
        if may_bring_forward && state.bring_timer_forward(group_id) {
            self.earlier.notify_one();
        }
        Ok(receiver)
    }

    /// Only a member without an id opens a group. For everything else there must be one, except that
    /// offsets of a group without members may be committed.
    fn open_group(&self, state: &mut State, group_id: &str, input: &Input) -> Result<(), Reply> {
        match input {
            Input::Join(join) if join.member_id.is_empty() => {
                if state.groups.len() >= self.groups_max {
                    return Err(refuse(input, GroupError::TooManyGroups));
                }
                state.groups.insert(group_id.to_owned(), Group::new(self.limits));
                Ok(())
            }
            Input::Commit { generation, .. } if *generation < 0 => Err(Reply::Done),
            Input::Commit { .. } => Err(refuse(input, GroupError::IllegalGeneration)),
            _ => Err(refuse(input, GroupError::UnknownMember)),
        }
    }

    /// Ticks groups when they are due; never ends.
    pub(crate) async fn run_timer(&self) {
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
        let is_due = |group: &Group| group.next_deadline().is_some_and(|deadline| deadline <= now);
        let due = state.groups.iter().filter(|(_, group)| is_due(group));
        let due: Vec<_> = due.map(|(id, _)| id.clone()).collect();
        for group_id in due {
            state.step(&group_id, now, Waiter(0), Input::Tick);
        }
        state.timer_at = state.groups.values().filter_map(Group::next_deadline).min();
        state.timer_at.map(|deadline| deadline.saturating_sub(now))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the lock panics")
    }
}

impl State {
    /// Steps one group, answers who is to be answered, and forgets the group if nothing is left of it.
    fn step(&mut self, group_id: &str, now: Duration, waiter: Waiter, input: Input) {
        let Some(group) = self.groups.get_mut(group_id) else { return };
        for Effect { waiter, reply } in group.step(now, waiter, input) {
            if let Some(sender) = self.waiting.remove(&waiter) {
                // A client that has gone is not told.
                let _ = sender.send(reply);
            }
        }
        if group.is_forgettable() {
            self.groups.remove(group_id);
        }
    }

    /// True if the timer has to wait for an earlier moment than it does.
    fn bring_timer_forward(&mut self, group_id: &str) -> bool {
        let Some(deadline) = self.groups.get(group_id).and_then(Group::next_deadline) else { return false };
        let is_earlier = self.timer_at.is_none_or(|timer_at| deadline < timer_at);
        if is_earlier {
            self.timer_at = Some(deadline);
        }
        is_earlier
    }
}

fn refuse(input: &Input, error: GroupError) -> Reply {
    match input {
        Input::Join(join) => Reply::NotJoined { error, member_id: join.member_id.clone() },
        _ => Reply::Failed(error),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::{Join, KnownId};
    use super::*;

    fn join(member_id: &str, new_member_id: &str) -> Input {
        Input::Join(Join {
            member_id: member_id.to_owned(),
            new_member_id: new_member_id.to_owned(),
            known_id: KnownId::NotRequired,
            session_timeout: Duration::from_secs(10),
            rebalance_timeout: Duration::from_secs(30),
            protocol_type: "consumer".to_owned(),
            protocols: vec![("range".to_owned(), Bytes::new())],
        })
    }

    fn coordinator() -> GroupCoordinator {
        let settings = GatewaySettings { groups_max: 1, ..GatewaySettings::default() };
        GroupCoordinator::new(&settings, Seams::simulated(1))
    }

    #[tokio::test(start_paused = true)]
    async fn the_timer_ends_the_initial_delay_and_sessions() {
        let coordinator = coordinator();
        let lone_member = async {
            let begun = tokio::time::Instant::now();
            let reply = coordinator.submit("g", join("", "a")).await;
            assert!(matches!(reply, Reply::Joined(joined) if joined.generation == 1 && joined.leader == "a"));
            assert_eq!(begun.elapsed(), Duration::from_secs(3));
            let sync = Input::Sync { member_id: "a".to_owned(), generation: 1, assignments: Vec::new() };
            assert_eq!(coordinator.submit("g", sync).await, Reply::Synced { assignment: Bytes::new() });
            while !coordinator.lock().groups.is_empty() {
                tokio::time::advance(Duration::from_secs(1)).await;
            }
            let seconds = begun.elapsed().as_secs();
            assert!((13..=14).contains(&seconds), "the session lasts 10 s, not {seconds} s less 3");
        };
        tokio::select! {
            () = coordinator.run_timer() => unreachable!("the timer never ends"),
            () = lone_member => (),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_new_member_opens_a_group() {
        let coordinator = coordinator();
        let reply = coordinator.submit("g", join("ghost", "")).await;
        assert!(matches!(reply, Reply::NotJoined { error: GroupError::UnknownMember, .. }));
        let commit = |generation| Input::Commit { member_id: String::new(), generation };
        assert_eq!(coordinator.submit("g", commit(-1)).await, Reply::Done);
        assert_eq!(coordinator.submit("g", commit(3)).await, Reply::Failed(GroupError::IllegalGeneration));
        assert_eq!(coordinator.submit("", commit(3)).await, Reply::Failed(GroupError::InvalidGroupId));
        assert!(coordinator.lock().groups.is_empty() && coordinator.lock().waiting.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_groups_is_bounded() {
        let coordinator = coordinator();
        let waits = coordinator.begin("g", join("", "a"));
        assert!(waits.is_ok());
        let reply = coordinator.submit("h", join("", "a")).await;
        assert!(matches!(reply, Reply::NotJoined { error: GroupError::TooManyGroups, .. }));
    }

    #[test]
    fn member_ids_are_never_the_same() {
        let coordinator = coordinator();
        let (a, b) = (coordinator.new_member_id(Some("me")), coordinator.new_member_id(Some("me")));
        assert!(a.starts_with("me-") && b.starts_with("me-") && a != b);
    }
}
