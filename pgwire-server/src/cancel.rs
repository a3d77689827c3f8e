//! Who may cancel what: each session has a process id and a secret, and a cancel request that knows both
//! stops the statement that runs at that moment.
//!
//! Invariant: a cancel that comes while no statement runs does nothing, and never stops the next one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::telemetry;
use crate::wire::startup_packet::CancelKey;

/// All sessions of one listener.
#[derive(Debug, Default)]
pub(crate) struct CancelRegistry {
    sessions: Mutex<Sessions>,
}

#[derive(Debug, Default)]
struct Sessions {
    last_process_id: i32,
    slots: HashMap<i32, Slot>,
}

#[derive(Debug)]
struct Slot {
    secret: Bytes,
    running: Arc<Mutex<Option<CancellationToken>>>,
}

/// One session's entry; leaving scope takes it out of the registry.
#[derive(Debug)]
pub(crate) struct CancelSlot {
    registry: Arc<CancelRegistry>,
    key: CancelKey,
    running: Arc<Mutex<Option<CancellationToken>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What the locks guard is whole between any two statements, so a poisoned one is as good.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CancelRegistry {
    pub(crate) fn register(self: &Arc<Self>, secret: Bytes) -> CancelSlot {
        let running = Arc::new(Mutex::new(None));
        let mut sessions = lock(&self.sessions);
        let process_id = sessions.next_process_id();
        let slot = Slot { secret: secret.clone(), running: Arc::clone(&running) };
        sessions.slots.insert(process_id, slot);
        CancelSlot { registry: Arc::clone(self), key: CancelKey { process_id, secret }, running }
    }

    /// A key that does not fit is ignored without a word, as the protocol has it.
    pub(crate) fn cancel(&self, key: &CancelKey) {
        let sessions = lock(&self.sessions);
        let Some(slot) = sessions.slots.get(&key.process_id) else { return };
        if !equal_in_constant_time(&slot.secret, &key.secret) {
            return;
        }
        if let Some(statement) = lock(&slot.running).as_ref() {
            telemetry::canceled_by_request();
            statement.cancel();
        }
    }
}

impl Sessions {
    fn next_process_id(&mut self) -> i32 {
        loop {
            self.last_process_id = self.last_process_id.checked_add(1).unwrap_or(1);
            if !self.slots.contains_key(&self.last_process_id) {
                return self.last_process_id;
            }
        }
    }
}

impl CancelSlot {
    pub(crate) fn key(&self) -> &CancelKey {
        &self.key
    }

    /// From here on a cancel request stops what watches the token.
    pub(crate) fn begin(&self) -> CancellationToken {
        let token = CancellationToken::new();
        *lock(&self.running) = Some(token.clone());
        token
    }

    pub(crate) fn end(&self) {
        *lock(&self.running) = None;
    }
}

impl Drop for CancelSlot {
    fn drop(&mut self) {
        lock(&self.registry.sessions).slots.remove(&self.key.process_id);
    }
}

fn equal_in_constant_time(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_key_cancels_and_only_a_running_statement() {
        let registry = Arc::new(CancelRegistry::default());
        let slot = registry.register(Bytes::from_static(b"secret"));
        let key = slot.key().clone();
        registry.cancel(&key);
        let statement = slot.begin();
        assert!(!statement.is_cancelled(), "a cancel before the statement must not reach it");
        registry.cancel(&CancelKey { secret: Bytes::from_static(b"secreT"), ..key.clone() });
        registry.cancel(&CancelKey { process_id: key.process_id + 1, ..key.clone() });
        assert!(!statement.is_cancelled());
        registry.cancel(&key);
        assert!(statement.is_cancelled());
        slot.end();
        registry.cancel(&key);
        assert!(!slot.begin().is_cancelled());
    }

    #[test]
    fn a_session_that_ended_leaves_nothing_behind() {
        let registry = Arc::new(CancelRegistry::default());
        let first = registry.register(Bytes::from_static(b"a"));
        let second = registry.register(Bytes::from_static(b"b"));
        assert_ne!(first.key().process_id, second.key().process_id);
        drop((first, second));
        assert!(lock(&registry.sessions).slots.is_empty());
    }
}
