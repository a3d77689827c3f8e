//! Runs of adjacent blocks: what a scan is planned over.
//!
//! Invariant: the position of a run says all about it. What the blocks of a slice are is known only
//! when the slice's index has been loaded, how many there are is known before.

/// Adjacent blocks of one slice, or of the tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockRun {
    /// The partition, as a position in `TopicBlocks`.
    pub(super) slot: u32,
    pub(super) source: RunSource,
    /// The first block, as a position in the slice or in the tail.
    pub(super) start: u32,
    pub(super) count: u32,
    pub(super) coverage: Coverage,
}

/// What the blocks of a run belong to. All slices come before the tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum RunSource {
    /// A position in the partition's slices.
    Slice(u32),
    Tail,
}

/// What is known of the rows of some blocks before they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coverage {
    /// Each has to be looked at.
    Unknown,
    /// All of them are visible and pass the filters that the scan was planned with.
    Full,
}

impl BlockRun {
    /// The place of the run in the partition: runs ascend by offset as they ascend by it.
    pub(super) fn place(&self) -> (RunSource, u32) {
        (self.source, self.start)
    }

    /// The first `count` blocks, and the others.
    pub(super) fn split_at(self, count: u32) -> (Self, Self) {
        let rest = Self { start: self.start + count, count: self.count - count, ..self };
        (Self { count, ..self }, rest)
    }

    /// The run in `count` pieces of about the same length, `None` for those that would be empty.
    pub(super) fn pieces(self, count: usize) -> impl Iterator<Item = Option<Self>> {
        let bound = move |index: usize| {
            let bound = u64::from(self.count) * index as u64 / count as u64;
            u32::try_from(bound).expect("it is not above the length of the run")
        };
        (0..count).map(move |index| {
            let (start, end) = (bound(index), bound(index + 1));
            (start < end).then_some(Self { start: self.start + start, count: end - start, ..self })
        })
    }

    /// The other run goes on where this one ends, and nothing else is different.
    fn is_followed_by(&self, next: &Self) -> bool {
        Self { start: self.start + self.count, count: next.count, ..*self } == *next
    }
}

/// Puts runs of slices together where one goes on where the one before ends. Blocks of the tail stay
/// apart: they can be put in any order at no cost.
pub(super) fn coalesce(runs: impl IntoIterator<Item = BlockRun>) -> Vec<BlockRun> {
    let mut joined: Vec<BlockRun> = Vec::new();
    for run in runs {
        match joined.last_mut().filter(|last| last.source != RunSource::Tail && last.is_followed_by(&run)) {
            Some(last) => last.count += run.count,
            None => joined.push(run),
        }
    }
    joined
}

pub(super) fn block_count(runs: &[BlockRun]) -> usize {
    runs.iter().map(|run| run.count as usize).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parts_of_one_slice_that_touch_are_put_together() {
        let run = |source, start, count| BlockRun { slot: 0, source, start, count, coverage: Coverage::Full };
        let (slice, other) = (RunSource::Slice(0), RunSource::Slice(1));
        let runs = [run(slice, 0, 2), run(slice, 2, 3), run(slice, 6, 1), run(other, 7, 1)];
        assert_eq!(coalesce(runs), [run(slice, 0, 5), run(slice, 6, 1), run(other, 7, 1)]);
        let tail = [run(RunSource::Tail, 0, 1), run(RunSource::Tail, 1, 1)];
        assert_eq!(coalesce(tail), tail);
        let mut differs = run(slice, 2, 3);
        differs.coverage = Coverage::Unknown;
        assert_eq!(coalesce([run(slice, 0, 2), differs]).len(), 2);
        assert_eq!(run(slice, 4, 5).split_at(2), (run(slice, 4, 2), run(slice, 6, 3)));
        let pieces: Vec<_> = run(slice, 4, 5).pieces(3).collect();
        assert_eq!(pieces, [(4, 1), (5, 2), (7, 2)].map(|(start, count)| Some(run(slice, start, count))));
        assert_eq!(run(slice, 4, 1).pieces(2).flatten().collect::<Vec<_>>(), [run(slice, 4, 1)]);
    }
}
