//! How often what happened, to see that a run of many seeds meets everything.

use std::collections::BTreeMap;

use crate::object::fault::Fault;

/// Counts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    counts: BTreeMap<&'static str, u64>,
    faults: BTreeMap<Fault, u64>,
    /// What one run did, request by request.
    trace: u64,
}

/// What must have happened in a run of many seeds on a remote store.
const EXPECTED: [&str; 39] = [
    "acked",
    "opened",
    "crashed",
    "crashed at a failpoint",
    "paused",
    "poisoned",
    "fenced",
    "refused opens",
    "retried batches",
    "records deleted",
    "topics deleted",
    "retention",
    "transactions committed",
    "transactions aborted",
    "transactions over several shards",
    "late batches",
    "offsets committed",
    "generations reserved",
    "snapshots read",
    "held snapshots read",
    "lookups",
    "read-only opens",
    "requests by owners of before",
    "compaction.installed",
    "compaction.refused",
    "open.begin_again",
    "read_only.begin_again",
    "read_only.found_again",
    "read-only reads of what was removed",
    "checkpoints written",
    "checkpoints loaded",
    "checkpoints deleted",
    "pages deleted",
    "segments written",
    "segments deleted",
    "WAL objects deleted",
    "sweeps",
    "collections refused",
    "missing objects refused",
];

/// What must have happened in a run of many seeds on a local disk, beside.
pub(super) const EXPECTED_LOCAL: [&str; 5] =
    ["power failed", "killed", "compaction.installed", "WAL objects deleted", "read_only.found_again"];

impl Totals {
    pub(super) fn count(&mut self, name: &'static str) {
        *self.counts.entry(name).or_default() += 1;
    }

    pub(super) fn add(&mut self, run: &Self) {
        for (name, count) in &run.counts {
            *self.counts.entry(name).or_default() += count;
        }
        for (fault, count) in &run.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
    }

    pub(super) fn finish(&mut self, faults: BTreeMap<Fault, u64>, trace: u64) {
        (self.faults, self.trace) = (faults, trace);
    }

    pub(super) fn of(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// Names of what never happened.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        let mut missing = self.missing_of(&EXPECTED);
        if self.faults.len() < 8 {
            missing.push("a kind of fault");
        }
        missing
    }

    pub(super) fn missing_of(&self, expected: &[&'static str]) -> Vec<&'static str> {
        expected.iter().copied().filter(|name| !self.counts.contains_key(name)).collect()
    }
}
