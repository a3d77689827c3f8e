//! Which segments are referred to, and which are not any more and may be deleted. Pure.
//!
//! Invariant: a segment that a slice refers to is in `live`; one that none refers to any more is in
//! `garbage` until its deletion is noted.

use imbl::OrdMap;

use crate::format::Slice;
use crate::ids::ObjectId;

/// A segment that slices refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentState {
    /// Bytes of the whole object.
    pub length: u64,
    pub live_slices: u32,
    /// Bytes of the batches of these slices.
    pub live_bytes: u64,
    /// When first a part of it died; `None` while all of it is alive.
    pub dead_since_ms: Option<i64>,
}

/// A segment that nothing refers to any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbage {
    pub length: u64,
    pub unreferenced_at_ms: i64,
    /// The number of the WAL object that took the last reference away: states from it on do not
    /// refer to the segment.
    pub unreferenced_by: u64,
}

/// When a commit is applied: what deletions count from.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct AppliedAt {
    pub(in crate::log) append_time_ms: i64,
    /// The number of the WAL object, counted from 1.
    pub(in crate::log) wal_object: u64,
}

#[derive(Clone, Debug, Default)]
pub struct SegmentsState {
    pub live: OrdMap<ObjectId, SegmentState>,
    pub garbage: OrdMap<ObjectId, Garbage>,
}

impl SegmentsState {
    /// Adds a new segment, which nothing refers to yet.
    pub(super) fn add(&mut self, object: ObjectId, length: u64) -> Result<(), String> {
        if self.live.contains_key(&object) || self.garbage.contains_key(&object) {
            return Err(format!("segment {object} is installed twice"));
        }
        let segment = SegmentState { length, live_slices: 0, live_bytes: 0, dead_since_ms: None };
        self.live.insert(object, segment);
        Ok(())
    }

    pub(in crate::log) fn refer(&mut self, slice: &Slice) -> Result<(), String> {
        let Some(location) = slice.location() else { return Ok(()) };
        let unknown = || format!("a slice refers to segment {}, which is not there", location.object);
        let segment = self.live.get_mut(&location.object).ok_or_else(unknown)?;
        segment.live_slices += 1;
        segment.live_bytes += location.data_length;
        Ok(())
    }

    pub(super) fn release(&mut self, slice: &Slice, at: AppliedAt) {
        let Some(location) = slice.location() else { return };
        let segment = self.live.get_mut(&location.object).expect("a slice that is there was referred to");
        segment.live_slices -= 1;
        segment.live_bytes -= location.data_length;
        segment.dead_since_ms.get_or_insert(at.append_time_ms);
        self.bury_if_dead(location.object, at);
    }

    /// Moves a segment without references to the garbage.
    pub(super) fn bury_if_dead(&mut self, object: ObjectId, at: AppliedAt) {
        let dead = self.live.get(&object).filter(|segment| segment.live_slices == 0).copied();
        if let Some(segment) = dead {
            self.live.remove(&object);
            let garbage = Garbage {
                length: segment.length,
                unreferenced_at_ms: at.append_time_ms,
                unreferenced_by: at.wal_object,
            };
            self.garbage.insert(object, garbage);
        }
    }

    /// Notes that a part of a segment died although a slice still refers to it.
    pub(super) fn note_partly_dead(&mut self, slice: &Slice, at: AppliedAt) {
        if let Some(location) = slice.location() {
            self.note_dead_part(location.object, at);
        }
    }

    pub(super) fn note_dead_part(&mut self, object: ObjectId, at: AppliedAt) {
        if let Some(segment) = self.live.get_mut(&object) {
            segment.dead_since_ms.get_or_insert(at.append_time_ms);
        }
    }

    pub(super) fn forget(&mut self, object: ObjectId) {
        self.garbage.remove(&object);
    }
}
