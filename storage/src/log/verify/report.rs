//! What a verification found: counts, damage, and what is there without being needed.

use std::collections::BTreeMap;
use std::fmt;

use crate::ids::TopicPartition;

/// What an object is, by its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    Cluster,
    /// Says that the store has objects of a version.
    Format,
    Claim,
    Fence,
    /// A commit.
    Wal,
    Checkpoint,
    Page,
    Segment,
    /// Says that a backup is complete.
    Backup,
}

impl ObjectKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Format => "format",
            Self::Claim => "claim",
            Self::Fence => "fence",
            Self::Wal => "wal",
            Self::Checkpoint => "checkpoint",
            Self::Page => "page",
            Self::Segment => "segment",
            Self::Backup => "backup",
        }
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which part of an object is damaged: it decides what can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DamagedPart {
    /// The object is not there.
    Missing,
    /// What an open reads: the whole of a small object, the front of a commit.
    Front,
    /// The index of a slice: its records cannot be found.
    Index,
    /// Header, directory or trailer of a segment: no read needs them.
    Frame,
    /// Batches.
    Data,
    /// The records are in no object any more, and nobody has accepted that.
    Lost,
}

impl DamagedPart {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Front => "front",
            Self::Index => "index",
            Self::Frame => "frame",
            Self::Data => "data",
            Self::Lost => "lost",
        }
    }
}

/// Offsets of a partition, the end exclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRange {
    /// `None` for a topic that the state does not know.
    pub topic: Option<String>,
    pub topic_partition: TopicPartition,
    pub base_offset: i64,
    pub next_offset: i64,
}

impl fmt::Display for DamagedRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.topic {
            Some(topic) => write!(f, "topic \"{topic}\"")?,
            None => write!(f, "topic {}", self.topic_partition.topic_id)?,
        }
        let last_offset = self.next_offset - 1;
        write!(
            f,
            " partition {} offsets {} to {last_offset}",
            self.topic_partition.partition, self.base_offset
        )
    }
}

/// One thing that is wrong with one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Its key.
    pub object: String,
    pub kind: ObjectKind,
    pub part: DamagedPart,
    /// What it holds; `None` if that is no records, or not known.
    pub range: Option<DamagedRange>,
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.object)?;
        if let Some(range) = &self.range {
            write!(f, "{range}: ")?;
        }
        f.write_str(&self.what)
    }
}

/// Objects and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub objects: u64,
    pub bytes: u64,
}

/// How far a verification or a copy is. The total may grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub bytes: u64,
    pub bytes_total: u64,
}

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    pub location: String,
    /// `None` if the object that says it is damaged.
    pub cluster_id: Option<String>,
    /// The objects that were read.
    pub checked: BTreeMap<ObjectKind, Checked>,
    /// Records of users that were read.
    pub records: u64,
    pub damages: Vec<Damage>,
    /// Objects that nothing refers to: what a process left behind that ended in the middle of
    /// something, or has just begun. No damage.
    pub unreferenced: Vec<String>,
    /// Objects that are not needed any more, and that the server deletes in time.
    pub awaiting_deletion: u64,
    /// Records that are lost with an operator's consent.
    pub accepted: Vec<DamagedRange>,
}

impl VerifyReport {
    pub fn is_clean(&self) -> bool {
        self.damages.is_empty()
    }

    /// The keys of the damaged objects, each once.
    pub fn damaged_objects(&self) -> Vec<&str> {
        let mut keys: Vec<_> = self.damages.iter().map(|damage| damage.object.as_str()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    pub(in crate::log) fn count(&mut self, kind: ObjectKind, bytes: u64) {
        let checked = self.checked.entry(kind).or_default();
        checked.objects += 1;
        checked.bytes += bytes;
    }
}

impl VerifyReport {
    /// Adds what was found about a part of the same store.
    pub(in crate::log) fn absorb(&mut self, part: Self) {
        for (kind, checked) in part.checked {
            let sum = self.checked.entry(kind).or_default();
            sum.objects += checked.objects;
            sum.bytes += checked.bytes;
        }
        self.records += part.records;
        self.damages.extend(part.damages);
        self.unreferenced.extend(part.unreferenced);
        self.awaiting_deletion += part.awaiting_deletion;
        self.accepted.extend(part.accepted);
    }
}
