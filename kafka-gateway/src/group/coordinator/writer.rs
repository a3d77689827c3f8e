//! Writes to the log what groups want to last, all groups beside each other and each group's writes
//! in order.

use futures::stream::{FuturesUnordered, StreamExt};
use strandline_storage::log::{ChangeGroupError, GroupChange};

use super::{GroupCoordinator, State};

/// Writes that are begun and not durable.
const IN_FLIGHT_MAX: usize = 1024;

/// A change of a group on its way to the log.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) group_id: String,
    pub(super) number: u64,
    pub(super) expected_revision: u64,
    pub(super) change: GroupChange,
}

type Written = (String, u64, Result<u64, ChangeGroupError>);

impl GroupCoordinator {
    /// Never ends.
    pub(super) async fn run_writes(&self) {
        let mut writes = FuturesUnordered::new();
        loop {
            // Futures are polled for the first time in the order in which they come, and a write that
            // would still overtake one before it is refused for its revision.
            while writes.len() < IN_FLIGHT_MAX
                && let Some(write) = self.next_write()
            {
                writes.push(self.write(write));
            }
            tokio::select! {
                Some((group_id, number, written)) = writes.next() => self.finish(&group_id, number, written),
                () = self.has_writes.notified(), if writes.len() < IN_FLIGHT_MAX => {}
            }
        }
    }

    fn next_write(&self) -> Option<Write> {
        self.lock().outbox.pop_front()
    }

    async fn write(&self, write: Write) -> Written {
        let Write { group_id, number, expected_revision, change } = write;
        let written = self.log.change_group(&group_id, expected_revision, change).await;
        (group_id, number, written)
    }

    fn finish(&self, group_id: &str, number: u64, written: Result<u64, ChangeGroupError>) {
        let mut state = self.lock();
        match written {
            Ok(_) => state.finish_write(group_id, number),
            Err(error) => {
                tracing::warn!(group = group_id, %error, "a group is loaded again");
                state.drop_group(group_id, number);
            }
        }
    }
}

impl State {
    fn finish_write(&mut self, group_id: &str, number: u64) {
        if self.slots.get_mut(group_id).is_some_and(|slot| slot.finish_write(number)) {
            self.forget_if_unused(group_id);
        }
    }

    /// What is known of the group is ahead of the log. All who wait for it are told to come again.
    fn drop_group(&mut self, group_id: &str, number: u64) {
        if self.slots.get(group_id).is_some_and(|slot| slot.is_writing(number)) {
            self.slots.remove(group_id);
        }
    }
}
