//! Reads batches in pieces and checks every block, every batch and every record.

use std::ops::Range;

use bytes::Bytes;
use futures::stream::{self, StreamExt};

use super::report::{Damage, DamagedPart, DamagedRange, ObjectKind, Progress, VerifyReport};
use super::wal::range;
use super::{Reader, check_block};
use crate::format::slice::{LossAcceptance, SliceData};
use crate::format::{BlockEntry, CommitObject};
use crate::log::error::OpenError;
use crate::log::keys::ShardKeys;
use crate::log::state::ShardState;

/// Blocks that follow each other are read together up to this many bytes.
const PIECE_BYTES: u64 = 4 * 1024 * 1024;
/// Pieces are read so many at a time.
const READS_MAX: usize = 4;

pub(super) struct DataChecker<'a> {
    pub(super) reader: &'a Reader,
    pub(super) keys: ShardKeys,
    pub(super) state: ShardState,
    pub(super) decompressed_bytes_max: usize,
    pub(super) report: VerifyReport,
    pub(super) done: &'a mut Progress,
    pub(super) progress: &'a mut (dyn FnMut(Progress) + Send),
}

/// Blocks of one object, in the order of their bytes.
pub(super) struct Target<'a> {
    pub(super) key: String,
    pub(super) kind: ObjectKind,
    pub(super) blocks: &'a [BlockEntry],
    /// CRC of all the blocks together, if the object says one.
    pub(super) crc: Option<u32>,
}

/// Neighbouring blocks of a target.
struct Piece {
    target: usize,
    blocks: Range<usize>,
    bytes: Range<u64>,
}

impl DataChecker<'_> {
    /// Adds what is to be read to the total.
    pub(super) fn note_total(&mut self, commits: &[CommitObject]) {
        let wal: u64 = commits.iter().map(|commit| commit.object_length).sum();
        let segments: u64 = self.state.segments.live.values().map(|segment| segment.length).sum();
        self.done.bytes_total += wal + segments;
        (self.progress)(*self.done);
    }

    pub(super) fn advance(&mut self, bytes: u64) {
        self.done.bytes += bytes;
        (self.progress)(*self.done);
    }

    /// The batches of commits whose fronts are whole.
    pub(super) async fn check_wal(&mut self, commits: &[CommitObject]) -> Result<(), OpenError> {
        let target = |commit: &'_ CommitObject| (self.keys.wal(commit.header.position), commit.batches_crc);
        let named: Vec<_> = commits.iter().map(target).collect();
        let targets: Vec<_> = commits
            .iter()
            .zip(named)
            .map(|(commit, (key, crc))| Target {
                key,
                kind: ObjectKind::Wal,
                blocks: &commit.blocks,
                crc: Some(crc),
            })
            .collect();
        self.check_targets(&targets).await?;
        let fronts: u64 = commits.iter().map(|commit| commit.batches_position).sum();
        self.advance(fronts);
        let bytes = commits.iter().map(|commit| commit.object_length).sum();
        self.add_bytes(ObjectKind::Wal, bytes);
        Ok(())
    }

    pub(super) fn add_bytes(&mut self, kind: ObjectKind, bytes: u64) {
        self.report.checked.entry(kind).or_default().bytes += bytes;
    }

    pub(super) async fn check_targets(&mut self, targets: &[Target<'_>]) -> Result<(), OpenError> {
        let reader = self.reader;
        let pieces = targets.iter().enumerate().flat_map(|(target, object)| pieces(target, object.blocks));
        let mut reads = stream::iter(pieces)
            .map(|piece| async move {
                let read = reader.get_range(&targets[piece.target].key, piece.bytes.clone()).await;
                (piece, read)
            })
            .buffered(READS_MAX);
        let mut whole = WholeObject::default();
        while let Some((piece, read)) = reads.next().await {
            let target = &targets[piece.target];
            let bytes = read?;
            let damages = self.check_piece(target, &piece, bytes.as_ref());
            let is_last = piece.blocks.end == target.blocks.len();
            whole.add(&piece, bytes.as_ref(), damages.is_empty());
            self.report.damages.extend(damages);
            if is_last && let Some(what) = whole.wrong_crc(target) {
                self.report.damages.push(super::small_damage(&target.key, target.kind, what));
            }
            self.advance(piece.bytes.end - piece.bytes.start);
            // Checksums of a piece are work: others get a turn.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    fn check_piece(&mut self, target: &Target<'_>, piece: &Piece, bytes: Option<&Bytes>) -> Vec<Damage> {
        let mut damages = Vec::new();
        for entry in &target.blocks[piece.blocks.clone()] {
            let (part, what) = match bytes {
                None => (DamagedPart::Missing, "the object is missing".to_owned()),
                Some(bytes) => match self.check_one(entry, bytes, piece.bytes.start) {
                    Ok(()) => {
                        self.report.records += u64::from(entry.data_count);
                        continue;
                    }
                    Err(what) => (DamagedPart::Data, what),
                },
            };
            let offsets = entry.base_offset..entry.next_offset;
            let range = Some(range(&self.state, entry.topic_partition, offsets));
            damages.push(Damage { object: target.key.clone(), kind: target.kind, part, range, what });
        }
        damages
    }

    fn check_one(&self, entry: &BlockEntry, bytes: &Bytes, piece_position: u64) -> Result<(), String> {
        let start = usize::try_from(entry.position - piece_position).unwrap_or(usize::MAX);
        let end = start.saturating_add(entry.length as usize);
        if end > bytes.len() {
            return Err(format!(
                "the object ends before its block of {} bytes at byte {}",
                entry.length, entry.position
            ));
        }
        check_block(entry, &bytes.slice(start..end), self.decompressed_bytes_max)
    }

    /// Slices that are in no object any more.
    pub(super) fn check_lost(&mut self) {
        for (id, partition) in &self.state.partitions {
            for slice in &partition.slices {
                let SliceData::Lost { object, acceptance } = &slice.slice.data else { continue };
                let range: DamagedRange =
                    range(&self.state, *id, slice.slice.base_offset..slice.slice.next_offset);
                match acceptance {
                    LossAcceptance::Accepted => self.report.accepted.push(range),
                    LossAcceptance::Open => self.report.damages.push(Damage {
                        object: object.clone(),
                        kind: ObjectKind::of_data(object),
                        part: DamagedPart::Lost,
                        range: Some(range),
                        what: "the object that held these records is gone or was cut short".to_owned(),
                    }),
                }
            }
        }
    }
}

/// The CRC over the blocks of an object, built up piece by piece.
#[derive(Default)]
struct WholeObject {
    crc: u32,
    is_whole: bool,
}

impl WholeObject {
    fn add(&mut self, piece: &Piece, bytes: Option<&Bytes>, is_whole: bool) {
        if piece.blocks.start == 0 {
            *self = Self { crc: 0, is_whole: true };
        }
        self.is_whole &= is_whole;
        if let Some(bytes) = bytes {
            self.crc = crc32c::crc32c_append(self.crc, bytes);
        }
    }

    /// Where every block is whole and the CRC of all is not theirs.
    fn wrong_crc(&self, target: &Target<'_>) -> Option<String> {
        let stated = target.crc.filter(|crc| self.is_whole && *crc != self.crc)?;
        Some(format!("crc of the batches is {stated:#010x}, its bytes have {:#010x}", self.crc))
    }
}

fn pieces(target: usize, blocks: &[BlockEntry]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        let end = block.position.saturating_add(u64::from(block.length));
        match pieces.last_mut() {
            Some(piece) if piece.bytes.end == block.position && end - piece.bytes.start <= PIECE_BYTES => {
                piece.bytes.end = end;
                piece.blocks.end = index + 1;
            }
            _ => pieces.push(Piece { target, blocks: index..index + 1, bytes: block.position..end }),
        }
    }
    pieces
}

impl ObjectKind {
    /// Of an object that holds batches.
    fn of_data(key: &str) -> Self {
        if key.ends_with(".seg") { Self::Segment } else { Self::Wal }
    }
}
