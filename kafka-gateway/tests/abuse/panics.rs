//! Panics of the whole process: a runtime catches those of its tasks, so that no test would see them.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

static PANICS: AtomicUsize = AtomicUsize::new(0);
static WATCHED: Once = Once::new();

/// Fails when a task panics while it lives.
pub(crate) struct NoPanics {
    before: usize,
}

impl NoPanics {
    pub(crate) fn from_now_on() -> Self {
        WATCHED.call_once(|| {
            let report = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                PANICS.fetch_add(1, Ordering::SeqCst);
                report(panic);
            }));
        });
        Self { before: PANICS.load(Ordering::SeqCst) }
    }

    /// `what` was done until now.
    pub(crate) fn check(&self, what: &str) {
        assert_eq!(PANICS.load(Ordering::SeqCst), self.before, "{what}: a task has panicked");
    }
}
