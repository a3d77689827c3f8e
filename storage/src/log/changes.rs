//! Wakes those who wait for a partition to change, and nobody else.
//!
//! Invariant: whoever registers before looking at a snapshot misses nothing: a commit publishes its
//! state first and wakes then.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use crate::ids::TopicPartition;

/// Who waits for which partition.
#[derive(Debug, Default)]
pub(super) struct ChangeRegistry {
    waiters: Mutex<HashMap<TopicPartition, Vec<Arc<Notify>>>>,
}

impl ChangeRegistry {
    pub(super) fn register(self: &Arc<Self>, partitions: &[TopicPartition]) -> Changes {
        let notify = Arc::new(Notify::new());
        let mut waiters = self.lock();
        for partition in partitions {
            waiters.entry(*partition).or_default().push(notify.clone());
        }
        drop(waiters);
        let next = enabled(&notify);
        Changes { registry: self.clone(), partitions: partitions.to_vec(), notify, next }
    }

    /// Wakes all who wait for one of these partitions.
    pub(super) fn wake(&self, partitions: impl Iterator<Item = TopicPartition>) {
        let waiters = self.lock();
        if waiters.is_empty() {
            return;
        }
        for partition in partitions {
            for notify in waiters.get(&partition).into_iter().flatten() {
                notify.notify_waiters();
            }
        }
    }

    /// Wakes everybody, because the log can serve no more.
    pub(super) fn wake_all(&self) {
        self.lock().values().flatten().for_each(|notify| notify.notify_waiters());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<TopicPartition, Vec<Arc<Notify>>>> {
        self.waiters.lock().expect("no holder of the lock panics")
    }
}

fn enabled(notify: &Arc<Notify>) -> Pin<Box<OwnedNotified>> {
    let mut next = Box::pin(notify.clone().notified_owned());
    next.as_mut().enable();
    next
}

/// Resolves when one of its partitions changed since the registration or the last call.
#[derive(Debug)]
pub struct Changes {
    registry: Arc<ChangeRegistry>,
    partitions: Vec<TopicPartition>,
    notify: Arc<Notify>,
    next: Pin<Box<OwnedNotified>>,
}

impl Changes {
    /// Waits until something was appended to one of the partitions, or it was deleted. To miss
    /// nothing, look at a new snapshot after each return.
    pub async fn changed(&mut self) {
        self.next.as_mut().await;
        self.next = enabled(&self.notify);
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        let mut waiters = self.registry.lock();
        for partition in &self.partitions {
            if let Some(list) = waiters.get_mut(partition) {
                list.retain(|notify| !Arc::ptr_eq(notify, &self.notify));
                if list.is_empty() {
                    waiters.remove(partition);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::ids::TopicId;

    fn partition(partition: i32) -> TopicPartition {
        TopicPartition::new(TopicId::from_bytes([1; 16]), partition)
    }

    #[test]
    fn a_change_before_the_wait_is_not_lost() {
        let registry = Arc::new(ChangeRegistry::default());
        let mut changes = registry.register(&[partition(0), partition(1)]);
        assert_eq!(changes.changed().now_or_never(), None);
        registry.wake([partition(2)].into_iter());
        assert_eq!(changes.changed().now_or_never(), None);
        registry.wake([partition(1)].into_iter());
        assert_eq!(changes.changed().now_or_never(), Some(()));
        assert_eq!(changes.changed().now_or_never(), None);
    }

    #[test]
    fn nobody_stays_registered_after_the_drop() {
        let registry = Arc::new(ChangeRegistry::default());
        let changes = registry.register(&[partition(0)]);
        drop(changes);
        assert!(registry.lock().is_empty());
    }
}
