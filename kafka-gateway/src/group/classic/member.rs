//! One member of a classic group: its timeouts, its protocols, and the request that it waits with.
//! Pure.

use std::time::Duration;

use bytes::Bytes;

use super::{Effect, GroupError, Join, Reply, Waiter};

#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: String,
    pub(super) instance_id: Option<String>,
    pub(super) client_id: String,
    pub(super) client_host: String,
    pub(super) arrival: u64,
    pub(super) session_timeout: Duration,
    pub(super) rebalance_timeout: Duration,
    pub(super) session_deadline: Duration,
    pub(super) protocols: Vec<(String, Bytes)>,
    pub(super) assignment: Bytes,
    pub(super) awaiting_join: Option<Waiter>,
    pub(super) awaiting_sync: Option<Waiter>,
    /// Whether it asked for its assignment in this generation.
    pub(super) has_synced: bool,
}

impl Member {
    pub(super) fn new(now: Duration, id: String, arrival: u64, join: Join, waiter: Waiter) -> Self {
        Self {
            id,
            instance_id: join.caller.instance_id,
            client_id: join.client_id,
            client_host: join.client_host,
            arrival,
            session_timeout: join.session_timeout,
            rebalance_timeout: join.rebalance_timeout,
            session_deadline: now.saturating_add(join.session_timeout),
            protocols: join.protocols,
            assignment: Bytes::new(),
            awaiting_join: Some(waiter),
            awaiting_sync: None,
            has_synced: false,
        }
    }

    /// Takes what the member says when it joins again. An older join that still waits is answered:
    /// its client has given it up.
    pub(super) fn rejoin(&mut self, now: Duration, join: Join, waiter: Waiter, effects: &mut Vec<Effect>) {
        self.update(now, join);
        if let Some(older) = self.awaiting_join.replace(waiter) {
            effects.push(self.not_joined(older, GroupError::RebalanceInProgress));
        }
    }

    pub(super) fn update(&mut self, now: Duration, join: Join) {
        self.client_id = join.client_id;
        self.client_host = join.client_host;
        self.session_timeout = join.session_timeout;
        self.rebalance_timeout = join.rebalance_timeout;
        self.protocols = join.protocols;
        self.touch(now);
    }

    pub(super) fn touch(&mut self, now: Duration) {
        self.session_deadline = now.saturating_add(self.session_timeout);
    }

    pub(super) fn is_static(&self) -> bool {
        self.instance_id.is_some()
    }

    /// When the member is taken for dead; never while one of its requests waits here.
    pub(super) fn session_deadline(&self) -> Option<Duration> {
        let waits = self.awaiting_join.is_some() || self.awaiting_sync.is_some();
        (!waits).then_some(self.session_deadline)
    }

    pub(super) fn supports(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|(name, _)| name == protocol)
    }

    pub(super) fn metadata(&self, protocol: &str) -> Bytes {
        let found = self.protocols.iter().find(|(name, _)| name == protocol);
        found.map_or_else(Bytes::new, |(_, metadata)| metadata.clone())
    }

    pub(super) fn metadata_bytes(&self) -> usize {
        self.protocols.iter().map(|(name, metadata)| name.len() + metadata.len()).sum()
    }

    /// Answers a sync that waits, because a rebalance has begun.
    pub(super) fn interrupt_sync(&mut self, effects: &mut Vec<Effect>) {
        let reply = Reply::Failed(GroupError::RebalanceInProgress);
        effects.extend(self.awaiting_sync.take().map(|waiter| Effect::Answer(waiter, reply)));
    }

    /// Answers whatever waits, because the member is no more.
    pub(super) fn dismiss(mut self, effects: &mut Vec<Effect>) {
        self.answer_all(&GroupError::UnknownMember, effects);
    }

    /// Answers whatever waits with an error.
    pub(super) fn answer_all(&mut self, error: &GroupError, effects: &mut Vec<Effect>) {
        if let Some(waiter) = self.awaiting_join.take() {
            effects.push(self.not_joined(waiter, error.clone()));
        }
        let reply = Reply::Failed(error.clone());
        effects.extend(self.awaiting_sync.take().map(|waiter| Effect::Answer(waiter, reply)));
    }

    fn not_joined(&self, waiter: Waiter, error: GroupError) -> Effect {
        Effect::Answer(waiter, Reply::NotJoined { error, member_id: self.id.clone() })
    }
}
