//! Checks segments against what the log says of their slices: header, trailer, directory, the index
//! of each slice, and then its blocks.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::data::{DataChecker, Target};
use super::report::{Damage, DamagedPart, ObjectKind};
use super::wal::range;
use crate::format::segment::{
    SEGMENT_HEADER_LENGTH, SEGMENT_TRAILER_LENGTH, decode_directory, decode_segment_header,
    decode_segment_trailer, decode_slice_index,
};
use crate::format::slice::{SliceData, SliceLocation};
use crate::format::{BlockEntry, Slice};
use crate::ids::ObjectId;
use crate::log::error::OpenError;

/// What is known of a segment before it is read.
struct Known {
    id: ObjectId,
    key: String,
    length: u64,
    /// Those that the log refers to, in the order of their bytes.
    slices: Vec<Slice>,
}

impl DataChecker<'_> {
    pub(super) async fn check_segments(&mut self) -> Result<(), OpenError> {
        for known in self.known_segments() {
            self.check_segment(&known).await?;
        }
        Ok(())
    }

    fn known_segments(&self) -> Vec<Known> {
        let mut slices: BTreeMap<ObjectId, Vec<Slice>> = BTreeMap::new();
        for slice in self.state.partitions.values().flat_map(|partition| &partition.slices) {
            if let Some(location) = slice.slice.location() {
                slices.entry(location.object).or_default().push(slice.slice.clone());
            }
        }
        let position = |slice: &Slice| slice.location().map(|location| location.data_position);
        let known = |(id, mut slices): (ObjectId, Vec<Slice>)| {
            slices.sort_by_key(position);
            let length = self.state.segments.live.get(&id).map_or(0, |segment| segment.length);
            Known { id, key: self.keys.segment(id), length, slices }
        };
        slices.into_iter().map(known).collect()
    }

    async fn check_segment(&mut self, known: &Known) -> Result<(), OpenError> {
        let Some((front, length)) = self.reader.front(&known.key, SEGMENT_HEADER_LENGTH as u64).await? else {
            self.note(known, DamagedPart::Missing, "the object is missing");
            self.advance(known.length);
            return Ok(());
        };
        self.report.count(ObjectKind::Segment, length);
        if length != known.length {
            let what = format!("it has {length} bytes, the log says {}", known.length);
            self.note(known, DamagedPart::Frame, &what);
        }
        let frame = self.check_header(known, &front);
        if let Err(what) = frame {
            self.note(known, DamagedPart::Frame, &what);
        }
        let footer_position = footer_position(known);
        let footer =
            self.reader.get_range(&known.key, footer_position..known.length).await?.unwrap_or_default();
        if let Err(what) = check_directory(known, &footer, footer_position) {
            self.note(known, DamagedPart::Frame, &what);
        }
        let mut blocks = Vec::new();
        for slice in &known.slices {
            let Some(location) = slice.location() else { continue };
            match slice_index(slice, location, &footer, footer_position) {
                Ok(entries) => blocks.extend(entries),
                Err(what) => self.note_slice(known, slice, DamagedPart::Index, &what),
            }
        }
        let data: u64 = blocks.iter().map(|block| u64::from(block.length)).sum();
        let target = Target { key: known.key.clone(), kind: ObjectKind::Segment, blocks: &blocks, crc: None };
        self.check_targets(&[target]).await?;
        self.advance(known.length.saturating_sub(data));
        Ok(())
    }

    fn check_header(&self, known: &Known, front: &Bytes) -> Result<(), String> {
        let header = decode_segment_header(front).map_err(|error| format!("header: {error}"))?;
        match header.object == known.id {
            true => Ok(()),
            false => Err(format!("header: it says that it is segment {}", header.object)),
        }
    }

    /// Damage that concerns all slices of a segment.
    fn note(&mut self, known: &Known, part: DamagedPart, what: &str) {
        known.slices.iter().for_each(|slice| self.note_slice(known, slice, part, what));
    }

    fn note_slice(&mut self, known: &Known, slice: &Slice, part: DamagedPart, what: &str) {
        let range = range(&self.state, slice.topic_partition, slice.base_offset..slice.next_offset);
        self.report.damages.push(Damage {
            object: known.key.clone(),
            kind: ObjectKind::Segment,
            part,
            range: Some(range),
            what: what.to_owned(),
        });
    }
}

/// Where what is read of the end of a segment begins: at the first index that is needed.
fn footer_position(known: &Known) -> u64 {
    let indexes = known.slices.iter().filter_map(Slice::location).map(|location| location.index_position);
    let trailer = known.length.saturating_sub(SEGMENT_TRAILER_LENGTH as u64);
    indexes.min().unwrap_or(trailer).min(trailer)
}

fn check_directory(known: &Known, footer: &Bytes, footer_position: u64) -> Result<(), String> {
    let trailer_at =
        footer.len().checked_sub(SEGMENT_TRAILER_LENGTH).ok_or("trailer: the segment ends before it")?;
    let length = footer_position + footer.len() as u64;
    let trailer =
        decode_segment_trailer(&footer[trailer_at..], length).map_err(|error| format!("trailer: {error}"))?;
    let start =
        trailer.directory_position().checked_sub(footer_position).and_then(|at| usize::try_from(at).ok());
    let directory =
        start.and_then(|start| footer.get(start..trailer_at)).ok_or("trailer: it names another index")?;
    let slices = decode_directory(&trailer, directory).map_err(|error| format!("directory: {error}"))?;
    match known.slices.iter().find(|slice| !slices.contains(slice)) {
        None => Ok(()),
        Some(slice) => Err(format!(
            "directory: slice {}..{} is not in it as the log has it",
            slice.base_offset, slice.next_offset
        )),
    }
}

/// The blocks of a slice, if its index is whole and the slice is what the blocks say.
pub(in crate::log) fn slice_index(
    slice: &Slice,
    location: &SliceLocation,
    footer: &Bytes,
    footer_position: u64,
) -> Result<Vec<BlockEntry>, String> {
    let start = location.index_position.checked_sub(footer_position).and_then(|at| usize::try_from(at).ok());
    let index = start.and_then(|start| footer.get(start..start.checked_add(location.index_length as usize)?));
    let index = index.ok_or("index: the segment ends before it")?;
    let entries = decode_slice_index(slice, location, index).map_err(|error| format!("index: {error}"))?;
    let mut known = Slice::empty(slice.topic_partition, slice.base_offset, SliceData::Stored(*location));
    entries.iter().for_each(|entry| known.add(entry));
    known.next_offset = slice.next_offset;
    known.delete_horizon_ms = slice.delete_horizon_ms;
    match known == *slice {
        true => Ok(entries),
        false => Err("index: its blocks are not those that the log knows of the slice".to_owned()),
    }
}
