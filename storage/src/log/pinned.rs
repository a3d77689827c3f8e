//! The durable states that somebody still reads: what they refer to must stay in the store.
//!
//! Invariant: a state is registered from the moment it is published until its last reader drops it.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use super::state::ShardState;

/// A durable state, as long as anybody holds it.
#[derive(Debug)]
pub(super) struct PinnedState {
    state: ShardState,
    key: Key,
    registry: Arc<PinRegistry>,
}

/// The number of the state's newest WAL object, and a number that tells equal ones apart.
type Key = (u64, u64);

#[derive(Debug, Default)]
pub(super) struct PinRegistry {
    pins: Mutex<Pins>,
}

#[derive(Debug, Default)]
struct Pins {
    states: BTreeMap<Key, Weak<PinnedState>>,
    next: u64,
}

impl PinRegistry {
    pub(super) fn pin(self: &Arc<Self>, state: ShardState) -> Arc<PinnedState> {
        let mut pins = self.lock();
        let key = (state.wal_objects, pins.next);
        pins.next += 1;
        let pinned = Arc::new(PinnedState { state, key, registry: self.clone() });
        pins.states.insert(key, Arc::downgrade(&pinned));
        pinned
    }

    /// The oldest state that somebody holds.
    pub(super) fn oldest(&self) -> Option<Arc<PinnedState>> {
        // One whose last holder is just about to drop it counts no more.
        self.lock().states.values().find_map(Weak::upgrade)
    }

    fn lock(&self) -> MutexGuard<'_, Pins> {
        self.pins.lock().expect("no holder of the lock panics")
    }
}

impl Deref for PinnedState {
    type Target = ShardState;

    fn deref(&self) -> &ShardState {
        &self.state
    }
}

impl Drop for PinnedState {
    fn drop(&mut self) {
        self.registry.lock().states.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(wal_objects: u64) -> ShardState {
        ShardState { wal_objects, ..ShardState::default() }
    }

    #[test]
    fn the_oldest_state_is_the_oldest_that_is_held() {
        let registry = Arc::new(PinRegistry::default());
        let old = registry.pin(state(3));
        let new = registry.pin(state(5));
        let reader = old.clone();
        drop(old);
        assert_eq!(registry.oldest().map(|pinned| pinned.wal_objects), Some(3));
        drop(reader);
        assert_eq!(registry.oldest().map(|pinned| pinned.wal_objects), Some(5));
        drop(new);
        assert!(registry.oldest().is_none() && registry.lock().states.is_empty());
    }
}
