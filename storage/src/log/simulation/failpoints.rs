//! What happens at the named places of the log: they are counted, and now and then the process ends
//! there, or its committer fails.

use std::sync::{Arc, Mutex};

use super::sim_store::{Requests, SimStore};
use super::totals::Totals;
use crate::seam::{Failpoints, Seams};

/// Of so many times that a place is reached, the process ends once.
const CRASH_EVERY: u64 = 300;
/// Of so many commits, one fails in the process itself.
const POISON_EVERY: u64 = 400;

/// Places that are reached in every run, and that say nothing by their number.
const UNCOUNTED: [&str; 3] = ["commit.seal", "commit.before_put", "commit.after_put"];

/// Places that say what happened, each a name of the totals.
const COUNTED: [&str; 5] = [
    "compaction.installed",
    "compaction.refused",
    "open.begin_again",
    "read_only.begin_again",
    "read_only.found_again",
];

#[derive(Debug)]
pub(super) struct SimFailpoints {
    pub(super) store: SimStore,
    pub(super) seams: Seams,
    pub(super) requests: Arc<Requests>,
    pub(super) totals: Arc<Mutex<Totals>>,
    /// Reopening in place and crashes belong to writers.
    pub(super) role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Writer,
    Reader,
}

impl SimFailpoints {
    fn count(&self, name: &'static str) {
        self.totals.lock().expect("no holder of the lock panics").count(name);
    }

    fn is_drawn(&self, every: u64) -> bool {
        let mut bytes = [0; 8];
        self.seams.rng.fill(&mut bytes);
        u64::from_le_bytes(bytes) % every == 0
    }
}

impl Failpoints for SimFailpoints {
    fn reach(&self, name: &str) {
        if let Some(counted) = COUNTED.into_iter().find(|counted| *counted == name) {
            self.count(counted);
            return;
        }
        if name == "open.with_more_shards" {
            // The shards that are opened again are claimed again.
            self.store.note_failure();
            return;
        }
        if self.role == Role::Reader || self.requests.is_calm() || self.store.is_crashed() {
            return;
        }
        let every = if UNCOUNTED.contains(&name) { 4 * CRASH_EVERY } else { CRASH_EVERY / 4 };
        if self.is_drawn(every) {
            self.count("crashed at a failpoint");
            self.store.crash();
        } else if name == "commit.seal" && self.is_drawn(POISON_EVERY) {
            self.count("poisoned");
            self.store.note_failure();
            // Without the message of a panic, of which there would be thousands.
            std::panic::resume_unwind(Box::new("a failure of our own"));
        }
    }
}
