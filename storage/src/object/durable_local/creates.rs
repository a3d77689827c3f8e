//! Which creates are under way: somebody waits for each of them, so that what nobody waits for gives
//! way: writing large objects, and freeing their bytes.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::seam::{Clock, SystemClock};

/// A create is expected to be followed by another one within this time.
const RECENT: Duration = Duration::from_millis(250);

#[derive(Debug, Default)]
pub(super) struct Creates {
    clock: SystemClock,
    state: Mutex<State>,
    none_left: Condvar,
}

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    newest: Option<Create>,
}

/// A create that has ended.
#[derive(Clone, Copy, Debug)]
struct Create {
    ended: Duration,
    took: Duration,
}

/// A create that is under way until this is dropped.
pub(super) struct UnderWay<'a> {
    creates: &'a Creates,
    began: Duration,
}

impl Creates {
    pub(super) fn begin(&self) -> UnderWay<'_> {
        let began = self.clock.monotonic();
        self.lock().under_way += 1;
        UnderWay { creates: self, began }
    }

    /// How long the newest create took, if it is so new that another one has to be expected.
    pub(super) fn took_recently(&self) -> Option<Duration> {
        let newest = self.lock().newest?;
        (self.clock.monotonic().saturating_sub(newest.ended) < RECENT).then_some(newest.took)
    }

    /// Does a piece of work for which nobody waits, and then gives way to the creates that are under
    /// way, but not for longer than it worked: under any load, such work gets half of the time. Says
    /// how long the work took. Blocks.
    pub(super) fn give_way_after<T>(&self, work: impl FnOnce() -> T) -> (T, Duration) {
        let began = self.clock.monotonic();
        let answer = work();
        let took = self.clock.monotonic().saturating_sub(began);
        self.wait_for_none(took);
        (answer, took)
    }

    fn wait_for_none(&self, wait_max: Duration) {
        let waited = self.none_left.wait_timeout_while(self.lock(), wait_max, |state| state.under_way > 0);
        drop(waited.expect("no holder of the lock panics"));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the lock panics")
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let ended = self.creates.clock.monotonic();
        let mut state = self.creates.lock();
        state.newest = Some(Create { ended, took: ended.saturating_sub(self.began) });
        state.under_way -= 1;
        if state.under_way == 0 {
            self.creates.none_left.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn waits_for_the_last_one_only() {
        let creates = Creates::default();
        creates.wait_for_none(LONG);
        let (first, second) = (creates.begin(), creates.begin());
        creates.wait_for_none(Duration::from_millis(1));
        drop(first);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| creates.wait_for_none(LONG));
            drop(second);
            waiting.join().expect("it ends when the last create does");
        });
    }

    #[test]
    fn a_create_is_known_when_it_has_ended() {
        let creates = Creates::default();
        let create = creates.begin();
        assert!(creates.lock().newest.is_none());
        drop(create);
        assert!(creates.lock().newest.is_some());
    }
}
