//! Writes segments: packs blocks, begins objects and ends them.
//!
//! Invariant: nothing refers to a segment before it is finished and its length was read back.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::format::event::InstalledObject;
use crate::format::segment::{SegmentBuilder, SegmentHeader};
use crate::format::slice::{LossAcceptance, SliceData};
use crate::format::{BlockEntry, Slice};
use crate::ids::{ObjectId, TopicPartition};
use crate::log::pending::BLOCK_BYTES;
use crate::log::shared::Shared;
use crate::object::{LargeObject, StoreError};

/// Bytes are handed to the store in pieces of about this size.
const WRITE_BYTES: usize = 1024 * 1024;

/// The segments that a rewrite makes.
pub(super) struct SegmentSink {
    shared: Arc<Shared>,
    current: Option<Segment>,
    finished: Vec<Finished>,
}

/// A segment that is in the store.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) object: InstalledObject,
    pub(super) slices: Vec<Slice>,
}

struct Segment {
    id: ObjectId,
    builder: SegmentBuilder,
    writer: Box<dyn LargeObject>,
    buffer: BytesMut,
    /// The block that is being packed.
    pending: Option<(BlockEntry, Vec<Bytes>)>,
}

/// Whether neighbours may share a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    Own,
    Shared,
}

impl SegmentSink {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: shared.clone(), current: None, finished: Vec::new() }
    }

    /// Begins a slice, in the segment that is open or in a new one.
    pub(super) async fn begin_slice(
        &mut self,
        topic_partition: TopicPartition,
        base_offset: i64,
        sharing: Sharing,
    ) -> Result<(), StoreError> {
        let max = self.shared.settings.maintenance.shared_segment_bytes;
        let is_full = self.current.as_ref().is_some_and(|segment| segment.builder.position() >= max);
        if sharing == Sharing::Own || is_full {
            self.end_segment().await?;
        }
        if self.current.is_none() {
            self.current = Some(Segment::begin(&self.shared).await?);
        }
        self.segment().builder.begin_slice(topic_partition, base_offset);
        Ok(())
    }

    /// Adds a block; small ones that follow each other become one.
    pub(super) async fn push(&mut self, entry: BlockEntry, bytes: Bytes) -> Result<(), StoreError> {
        let segment = self.segment();
        if let Some((pending, pieces)) = &mut segment.pending
            && pending.length as usize + bytes.len() <= BLOCK_BYTES
        {
            pending.extend(&entry);
            pending.length += entry.length;
            pending.crc = crc32c::crc32c_append(pending.crc, &bytes);
            pieces.push(bytes);
            return Ok(());
        }
        segment.flush_block().await?;
        segment.pending = Some((entry, vec![bytes]));
        Ok(())
    }

    /// Adds a block whose bytes are not what its entry says, as it is.
    pub(super) async fn push_damaged(&mut self, entry: BlockEntry, bytes: Bytes) -> Result<(), StoreError> {
        let segment = self.segment();
        segment.flush_block().await?;
        segment.builder.push_block(entry);
        segment.write(bytes).await
    }

    pub(super) async fn end_slice(
        &mut self,
        next_offset: i64,
        delete_horizon_ms: Option<i64>,
    ) -> Result<(), StoreError> {
        let segment = self.segment();
        segment.flush_block().await?;
        segment.builder.end_slice(next_offset, delete_horizon_ms);
        Ok(())
    }

    /// Ends the last segment and gives all of them.
    pub(super) async fn finish(mut self) -> Result<Vec<Finished>, StoreError> {
        self.end_segment().await?;
        Ok(std::mem::take(&mut self.finished))
    }

    async fn end_segment(&mut self) -> Result<(), StoreError> {
        if let Some(segment) = self.current.take() {
            let finished = segment.finish(&self.shared).await?;
            self.finished.push(finished);
        }
        Ok(())
    }

    fn segment(&mut self) -> &mut Segment {
        self.current.as_mut().expect("a slice begins a segment")
    }
}

impl Segment {
    async fn begin(shared: &Shared) -> Result<Self, StoreError> {
        let id = ObjectId::new(shared.seams.clock.now_ms(), shared.seams.rng.bytes16());
        let header = SegmentHeader { shard: shared.shard, object: id };
        let (builder, front) = SegmentBuilder::new(header);
        let writer = shared.store.create_large(&shared.keys.segment(id)).await?;
        let mut segment = Self { id, builder, writer, buffer: BytesMut::new(), pending: None };
        segment.write(front).await?;
        Ok(segment)
    }

    async fn flush_block(&mut self) -> Result<(), StoreError> {
        let Some((entry, pieces)) = self.pending.take() else { return Ok(()) };
        self.builder.push_block(entry);
        for piece in pieces {
            self.write(piece).await?;
        }
        Ok(())
    }

    async fn write(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        if self.buffer.is_empty() && bytes.len() >= WRITE_BYTES {
            return self.writer.write(bytes).await;
        }
        self.buffer.extend_from_slice(&bytes);
        if self.buffer.len() >= WRITE_BYTES {
            let full = std::mem::replace(&mut self.buffer, BytesMut::with_capacity(WRITE_BYTES));
            self.writer.write(full.freeze()).await?;
        }
        Ok(())
    }

    async fn finish(mut self, shared: &Shared) -> Result<Finished, StoreError> {
        let key = shared.keys.segment(self.id);
        let footer = self.builder.finish();
        self.buffer.extend_from_slice(&footer.bytes);
        self.writer.write(self.buffer.freeze()).await?;
        self.writer.finish().await?;
        let length = shared.store.get_prefix(&key, 1).await?.object_length;
        if length != footer.object_length {
            let reason = format!("it has {length} bytes, {} were written", footer.object_length);
            return Err(StoreError::Unavailable { key, reason });
        }
        let object = InstalledObject { object: self.id, length };
        Ok(Finished { object, slices: footer.slices })
    }
}

/// A slice for a range that is in no object any more.
pub(super) fn lost_slice(entry: &BlockEntry, base_offset: i64, object: String) -> Slice {
    let data = SliceData::Lost { object, acceptance: LossAcceptance::Open };
    let mut slice = Slice::empty(entry.topic_partition, base_offset, data);
    slice.add(entry);
    slice
}
