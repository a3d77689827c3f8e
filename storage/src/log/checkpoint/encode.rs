//! From a state to the entries of pages. Pure.
//!
//! Invariant: the pages of the checkpoint before decide where pages begin, so that a change in one
//! place leaves the others alone.

use std::iter::Peekable;

use bytes::Bytes;
use prost::Message;

use super::access;
use crate::format::page::{
    AbortedEntry, BatchEntry, ConfigEntry, GroupEntry, GroupOffsetEntry, OpenTransactionEntry, PageKind,
    PageRef, PartitionEntry, ProducerEntry, SchemaEntry, SegmentEntry, SliceEntry, TailBlockEntry,
    TopicEntry, TransactionalIdEntry, block_entry_bytes, encode_page,
};
use crate::ids::{BlockObject, ObjectId, TopicId, TopicPartition};
use crate::log::state::{Block, GroupBody, GroupState, PartitionState, ShardState};

/// A page grows up to this many bytes of entries; one larger entry has a page of its own.
const PAGE_BYTES_MAX: usize = 1024 * 1024 - 16 * 1024;
/// A page with less goes together with the one after it.
const PAGE_BYTES_MIN: usize = 64 * 1024;

/// An entry with its key.
pub(super) struct Keyed {
    key: Vec<u8>,
    bytes: Vec<u8>,
}

impl Keyed {
    pub(super) fn new(key: Vec<u8>, entry: &impl Message) -> Self {
        Self { key, bytes: entry.encode_to_vec() }
    }
}

/// A page of the new checkpoint.
pub(super) enum Page {
    /// The same as before.
    Unchanged(PageRef),
    New(PageRef, Bytes),
}

/// The pages of a state, one after the other.
pub(super) struct Pages<'a> {
    state: &'a ShardState,
    before: &'a [PageRef],
    new_id: Box<dyn FnMut() -> ObjectId + Send + 'a>,
    kinds: std::slice::Iter<'static, PageKind>,
    current: Option<(PageKind, Peekable<Entries<'a>>)>,
}

pub(super) type Entries<'a> = Box<dyn Iterator<Item = Keyed> + Send + 'a>;

impl<'a> Pages<'a> {
    /// `before` are the pages of the checkpoint before.
    pub(super) fn new(
        state: &'a ShardState,
        before: &'a [PageRef],
        new_id: impl FnMut() -> ObjectId + Send + 'a,
    ) -> Self {
        Self { state, before, new_id: Box::new(new_id), kinds: PageKind::ALL.iter(), current: None }
    }

    fn page(&mut self, kind: PageKind, entries: Vec<Keyed>) -> Page {
        let first_key = Bytes::from(entries[0].key.clone());
        let old = self.before.iter().find(|page| page.kind == kind && page.first_key == first_key);
        let id = match old {
            Some(old) => old.page,
            None => (self.new_id)(),
        };
        let bytes = entries.into_iter().map(|entry| entry.bytes).collect();
        let (page, bytes) = encode_page(kind, id, first_key, bytes);
        match old {
            Some(old) if *old == page => Page::Unchanged(page),
            Some(_) => Page::New(PageRef { page: (self.new_id)(), ..page }, bytes),
            None => Page::New(page, bytes),
        }
    }
}

impl Iterator for Pages<'_> {
    type Item = Page;

    fn next(&mut self) -> Option<Page> {
        loop {
            if let Some((kind, mut entries)) = self.current.take() {
                let taken = take_page(&mut entries, &boundaries(self.before, kind));
                if !taken.is_empty() {
                    self.current = Some((kind, entries));
                    return Some(self.page(kind, taken));
                }
            }
            let kind = *self.kinds.next()?;
            self.current = Some((kind, entries_of(self.state, kind).peekable()));
        }
    }
}

fn boundaries(before: &[PageRef], kind: PageKind) -> Vec<&[u8]> {
    before.iter().filter(|page| page.kind == kind).map(|page| &page.first_key[..]).collect()
}

/// The entries up to where the next page begins.
fn take_page(entries: &mut Peekable<Entries<'_>>, boundaries: &[&[u8]]) -> Vec<Keyed> {
    let mut taken: Vec<Keyed> = Vec::new();
    let mut bytes = 0;
    while let Some(next) = entries.peek() {
        if let Some(last) = taken.last() {
            let page_of = |key: &[u8]| boundaries.partition_point(|first| *first <= key);
            let begins_page = page_of(&last.key) != page_of(&next.key);
            let is_full = bytes + next.bytes.len() > PAGE_BYTES_MAX;
            if is_full || (begins_page && bytes >= PAGE_BYTES_MIN) {
                break;
            }
        }
        bytes += next.bytes.len() + 8;
        taken.extend(entries.next());
    }
    taken
}

fn entries_of(state: &ShardState, kind: PageKind) -> Entries<'_> {
    match kind {
        PageKind::Topics => topics(state),
        PageKind::Partitions => Box::new(state.partitions.iter().map(|(id, state)| partition(*id, state))),
        PageKind::Slices => slices(state),
        PageKind::Producers => producers(state),
        PageKind::GroupOffsets => group_offsets(state),
        PageKind::Schemas => schemas(state),
        PageKind::Segments => segments(state),
        PageKind::Groups => groups(state),
        PageKind::TransactionalIds => transactional_ids(state),
        PageKind::Users => access::users(state),
        PageKind::Acls => access::acls(state),
        PageKind::Quotas => access::quotas(state),
    }
}

fn topics(state: &ShardState) -> Entries<'_> {
    Box::new(state.topics.values().map(|topic| {
        let configs = topic.config.explicit().iter();
        let shards = topic.shards.of_all(topic.partition_count);
        let entry = TopicEntry {
            topic_id: id_bytes(topic.id),
            name: topic.name.clone(),
            partition_count: topic.partition_count,
            configs: configs
                .map(|(key, value)| ConfigEntry { key: key.clone(), value: value.clone() })
                .collect(),
            created_at_ms: topic.created_at_ms,
            shards: shards.iter().map(|shard| shard.0).collect(),
        };
        Keyed::new(id_bytes(topic.id), &entry)
    }))
}

fn partition(id: TopicPartition, state: &PartitionState) -> Keyed {
    let open = state.open_transactions.iter().map(|(producer_id, first_offset)| OpenTransactionEntry {
        producer_id: *producer_id,
        first_offset: *first_offset,
    });
    let aborted = state.aborted.iter().map(|aborted| AbortedEntry {
        producer_id: aborted.producer_id,
        first_offset: aborted.first_offset,
        last_offset: aborted.last_offset,
    });
    let entry = PartitionEntry {
        topic_id: id_bytes(id.topic_id),
        partition: id.partition,
        next_offset: state.next_offset,
        log_start_offset: state.log_start_offset,
        leader_epoch: state.leader_epoch,
        cleaned_offset: state.cleaned_offset,
        open_transactions: open.collect(),
        aborted: aborted.collect(),
        tail: state.blocks.iter().map(|block| tail_block(id, block)).collect(),
    };
    Keyed::new(partition_key(id), &entry)
}

fn tail_block(id: TopicPartition, block: &Block) -> TailBlockEntry {
    let BlockObject::Wal(position) = block.object else {
        unreachable!("the blocks of the tail are in WAL objects");
    };
    TailBlockEntry {
        writer_epoch: position.writer_epoch,
        seq: position.seq,
        block: block_entry_bytes(&block.entry(id)),
    }
}

fn slices(state: &ShardState) -> Entries<'_> {
    Box::new(state.partitions.iter().flat_map(|(id, partition)| {
        partition.slices.iter().map(move |slice| {
            let mut key = partition_key(*id);
            key.extend_from_slice(&slice.slice.base_offset.to_be_bytes());
            Keyed::new(key, &SliceEntry::new(&slice.slice))
        })
    }))
}

fn producers(state: &ShardState) -> Entries<'_> {
    Box::new(state.partitions.iter().flat_map(|(id, partition)| {
        partition.producers.iter().map(move |(producer_id, producer)| {
            let batches = producer.batches.iter().map(|batch| BatchEntry {
                base_sequence: batch.base_sequence,
                last_sequence: batch.last_sequence,
                base_offset: batch.base_offset,
                last_offset: batch.last_offset,
                append_time_ms: batch.append_time_ms,
            });
            let entry = ProducerEntry {
                topic_id: id_bytes(id.topic_id),
                partition: id.partition,
                producer_id: *producer_id,
                producer_epoch: i32::from(producer.producer_epoch),
                batches: batches.collect(),
                coordinator_epoch: (producer.coordinator_epoch >= 0).then_some(producer.coordinator_epoch),
                updated_at_ms: producer.updated_at_ms,
            };
            let mut key = partition_key(*id);
            key.extend_from_slice(&producer_id.to_be_bytes());
            Keyed::new(key, &entry)
        })
    }))
}

fn group_offsets(state: &ShardState) -> Entries<'_> {
    Box::new(state.groups.iter().flat_map(|(group, offsets)| {
        offsets.iter().map(move |(id, offset)| {
            let entry = GroupOffsetEntry {
                group: group.clone(),
                topic_id: id_bytes(id.topic_id),
                partition: id.partition,
                offset: offset.offset,
                leader_epoch: offset.leader_epoch,
                metadata: offset.metadata.clone(),
                commit_time_ms: offset.commit_time_ms,
            };
            let mut key = group.clone().into_bytes();
            key.push(0);
            key.extend(partition_key(*id));
            Keyed::new(key, &entry)
        })
    }))
}

fn groups(state: &ShardState) -> Entries<'_> {
    Box::new(state.group_states.iter().map(|(name, group)| {
        let (revision, reserved) = (group.revision, group.generations_reserved);
        let entry = match &group.body {
            GroupBody::Classic(classic) => GroupEntry::classic(name, revision, reserved, classic),
            GroupBody::Consumer(consumer) => {
                GroupEntry::consumer(reserved, &GroupState::whole_consumer_group(name, revision, consumer))
            }
        };
        Keyed::new(name.clone().into_bytes(), &entry)
    }))
}

fn schemas(state: &ShardState) -> Entries<'_> {
    Box::new(state.schemas.iter().map(|((topic_id, kind), schema)| {
        let entry = SchemaEntry {
            topic_id: id_bytes(*topic_id),
            kind: kind.clone(),
            version: schema.version,
            bytes: schema.bytes.to_vec(),
        };
        let mut key = id_bytes(*topic_id);
        key.extend_from_slice(kind.as_bytes());
        Keyed::new(key, &entry)
    }))
}

fn segments(state: &ShardState) -> Entries<'_> {
    let live = state.segments.live.iter().map(|(object, segment)| SegmentEntry {
        object: object.to_bytes().to_vec(),
        length: segment.length,
        dead_since_ms: segment.dead_since_ms,
        unreferenced_at_ms: None,
        unreferenced_by: 0,
    });
    let garbage = state.segments.garbage.iter().map(|(object, garbage)| SegmentEntry {
        object: object.to_bytes().to_vec(),
        length: garbage.length,
        dead_since_ms: None,
        unreferenced_at_ms: Some(garbage.unreferenced_at_ms),
        unreferenced_by: garbage.unreferenced_by,
    });
    // Two sorted runs under one kind: the garbage is told apart by the front of its keys.
    let keyed = |front: u8| {
        move |entry: SegmentEntry| {
            let mut key = vec![front];
            key.extend_from_slice(&entry.object);
            Keyed::new(key, &entry)
        }
    };
    Box::new(live.map(keyed(0)).chain(garbage.map(keyed(1))))
}

fn transactional_ids(state: &ShardState) -> Entries<'_> {
    Box::new(state.transactional_ids.iter().map(|transactional_id| {
        let key = transactional_id.name.clone().into_bytes();
        Keyed::new(key, &TransactionalIdEntry::new(transactional_id))
    }))
}

fn id_bytes(id: TopicId) -> Vec<u8> {
    id.as_bytes().to_vec()
}

fn partition_key(id: TopicPartition) -> Vec<u8> {
    let mut key = id_bytes(id.topic_id);
    key.extend_from_slice(&id.partition.to_be_bytes());
    key
}
