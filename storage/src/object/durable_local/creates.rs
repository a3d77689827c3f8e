//! How many creates are under way: somebody waits for each of them, so that large objects, for which
//! nobody does, give way.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct Creates {
    under_way: Mutex<usize>,
    none_left: Condvar,
}

/// A create that is under way until this is dropped.
pub(super) struct UnderWay<'a>(&'a Creates);

impl Creates {
    pub(super) fn begin(&self) -> UnderWay<'_> {
        *self.lock() += 1;
        UnderWay(self)
    }

    /// Waits until no create is under way, but not longer than `wait_max`. Blocks.
    pub(super) fn wait_for_none(&self, wait_max: Duration) {
        let waited = self.none_left.wait_timeout_while(self.lock(), wait_max, |under_way| *under_way > 0);
        drop(waited.expect("no holder of the lock panics"));
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.under_way.lock().expect("no holder of the lock panics")
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut under_way = self.0.lock();
        *under_way -= 1;
        if *under_way == 0 {
            self.0.none_left.notify_all();
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
}
