//! What clients were promised, held against what is there.

use std::collections::{BTreeMap, BTreeSet};

/// One record, by its partition and offset.
pub(super) type Place = (i32, i64);

/// What was acked and seen so far. Records are told apart by an id that is used once.
#[derive(Debug, Default)]
pub(super) struct History {
    acked: BTreeMap<Place, u64>,
    seen: BTreeMap<Place, u64>,
    producer_ids: BTreeSet<i64>,
    /// The first promise that was broken.
    violation: Option<String>,
}

impl History {
    pub(super) fn acked_count(&self) -> u64 {
        self.acked.len() as u64
    }

    pub(super) fn acked(&self) -> &BTreeMap<Place, u64> {
        &self.acked
    }

    pub(super) fn violation(&self) -> Option<String> {
        self.violation.clone()
    }

    pub(super) fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// A batch was acked: its records have consecutive offsets.
    pub(super) fn ack(&mut self, partition: i32, base_offset: i64, ids: &[u64]) {
        for (offset, id) in (base_offset..).zip(ids) {
            match self.acked.insert((partition, offset), *id) {
                Some(other) if other != *id => {
                    self.violate(format!(
                        "offset {offset} of partition {partition} acked for {other} and {id}"
                    ));
                }
                _ => {}
            }
        }
    }

    /// A reader saw these records of a partition, from the start up to its high watermark.
    pub(super) fn see(&mut self, partition: i32, records: &BTreeMap<i64, u64>) {
        for (offset, id) in records {
            match self.seen.insert((partition, *offset), *id) {
                Some(other) if other != *id => {
                    self.violate(format!("offset {offset} of partition {partition} was {other}, is {id}"));
                }
                _ => {}
            }
        }
    }

    pub(super) fn allocated(&mut self, producer_ids: std::ops::Range<i64>) {
        for id in producer_ids {
            if !self.producer_ids.insert(id) {
                self.violate(format!("producer id {id} was given out twice"));
            }
        }
    }

    /// Holds the final log against all promises.
    pub(super) fn check_final(&mut self, partition: i32, records: &BTreeMap<i64, u64>) {
        self.see(partition, records);
        let promised = self.acked.iter().chain(&self.seen).filter(|((of, _), _)| *of == partition);
        let lost = promised
            .filter_map(|((_, offset), id)| (records.get(offset) != Some(id)).then_some((*offset, *id)))
            .next();
        if let Some((offset, id)) = lost {
            let found = records.get(&offset);
            self.violate(format!(
                "offset {offset} of partition {partition} was promised to hold {id}, holds {found:?}"
            ));
        }
        let unique: BTreeSet<_> = records.values().collect();
        if unique.len() != records.len() {
            self.violate(format!("partition {partition} holds a record twice"));
        }
        let contiguous = records.keys().copied().eq(0..records.len() as i64);
        if !contiguous {
            self.violate(format!("partition {partition} has a gap"));
        }
    }
}
