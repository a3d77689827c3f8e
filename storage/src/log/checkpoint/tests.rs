//! A checkpoint is the state: written, loaded, replayed upon; and only what changed is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::access::{
    AccessChange, AclBinding, EntityName, Operation, PatternKind, Permission, QuotaEntity, ResourceKind,
    ScramCredential, ScramMechanism, User,
};
use crate::format::access::{acl_key, quota_key};
use crate::format::event::{OffsetsCommitted, ProducerBatch, ProducerBatches, TopicCreated};
use crate::format::page::PageRef;
use crate::format::slice::{Slice, SliceData, SliceLocation};
use crate::format::{
    BlockEntry, BlockFlags, Event, PendingOffset, Producer, TransactionState, TransactionalId, WalHeader,
    event,
};
use crate::ids::{ObjectId, ShardId, TopicId, TopicPartition, WalPosition};
use crate::log::state::{Commit, ShardState};
use crate::object::{LogStore, ObjectStoreBackend};
use crate::seam::Seams;

fn id(topic: u16) -> TopicId {
    let mut bytes = [7; 16];
    bytes[..2].copy_from_slice(&topic.to_be_bytes());
    TopicId::from_bytes(bytes)
}

fn created(topic: u16, partition_count: i32) -> Event {
    Event::TopicCreated(TopicCreated {
        topic_id: id(topic),
        name: format!("topic-{topic}"),
        partition_count,
        configs: BTreeMap::from([("retention.ms".to_owned(), "5".to_owned())]),
        shards: Vec::new(),
        created_at_ms: 9,
    })
}

fn block(topic_partition: TopicPartition, base_offset: i64) -> BlockEntry {
    BlockEntry {
        topic_partition,
        base_offset,
        next_offset: base_offset + 3,
        position: 200,
        length: 100,
        data_count: 3,
        control_count: 0,
        null_timestamp_count: 0,
        min_timestamp: 5,
        max_timestamp: 9 + base_offset,
        offset_of_max_timestamp: base_offset + 1,
        append_time_ms: 44,
        leader_epoch: 0,
        flags: BlockFlags::TRANSACTIONAL,
        crc: 77,
    }
}

struct World {
    store: Arc<dyn LogStore>,
    seams: Seams,
    state: ShardState,
    pages: Vec<PageRef>,
}

impl World {
    fn new() -> Self {
        let store = Arc::new(ObjectStoreBackend::memory());
        Self { store, seams: Seams::simulated(1), state: ShardState::default(), pages: Vec::new() }
    }

    fn apply(&mut self, events: &[Event], blocks: &[BlockEntry]) {
        let seq = self.state.position.map_or(0, |position| position.seq + 1);
        let header = WalHeader {
            shard: ShardId(0),
            position: WalPosition { writer_epoch: 1, seq },
            writer_nonce: [0; 16],
            durable_seq: -1,
            previous_header_crc: 0,
            append_time_ms: 50,
        };
        let commit = Commit { header: &header, header_crc: 3, object_length: 500, events, blocks };
        self.state.apply(&commit).expect("the events fit");
    }

    async fn checkpoint(&mut self) -> WrittenCheckpoint {
        let written = write_checkpoint(&self.store, ShardId(0), &self.seams, &self.state, &self.pages).await;
        let written = written.expect("memory takes objects");
        self.pages = written.root.pages.clone();
        written
    }

    async fn load(&self) -> ShardState {
        let position = self.state.position.expect("something was applied");
        let loaded = load_newest(&self.store, ShardId(0), &self.seams, position).await;
        loaded.expect("the checkpoint loads").state
    }
}

fn batches(topic: u16, partition: i32, producers: std::ops::Range<i64>) -> Event {
    let batch = |producer_id| ProducerBatch {
        producer_id,
        producer_epoch: 2,
        base_sequence: 0,
        last_sequence: 2,
        base_offset: 0,
        last_offset: 2,
        append_time_ms: 50,
        max_timestamp: 9,
        transactional: producer_id % 2 == 0,
    };
    Event::ProducerBatches(ProducerBatches {
        topic_id: id(topic),
        partition,
        batches: producers.map(batch).collect(),
    })
}

fn installed(topic: u16, object: u8) -> Event {
    let object = ObjectId::from_bytes([object; 16]);
    let location = SliceLocation {
        object,
        data_position: 36,
        data_length: 100,
        index_position: 136,
        index_length: 104,
        index_crc: 5,
        entry_length: 104,
    };
    let topic_partition = TopicPartition::new(id(topic), 0);
    let mut slice = Slice::empty(topic_partition, 0, SliceData::Stored(location));
    slice.add(&block(topic_partition, 0));
    Event::SegmentsInstalled(event::SegmentsInstalled {
        objects: vec![event::InstalledObject { object, length: 300 }],
        partitions: vec![event::PartitionInstall {
            topic_id: id(topic),
            partition: 0,
            base_offset: 0,
            next_offset: 3,
            slices: vec![slice],
            cleaned_offset: Some(2),
        }],
        wal_objects: 2,
    })
}

fn transactional_id(partition: TopicPartition) -> Event {
    let pending = PendingOffset { offset: 5, leader_epoch: -1, metadata: None, replaces: None };
    let transactional_id = TransactionalId {
        name: "t".to_owned(),
        producer: Producer { producer_id: 7, producer_epoch: 3 },
        previous: Some(Producer { producer_id: 6, producer_epoch: 1 }),
        timeout_ms: 60_000,
        state: TransactionState::Ongoing,
        partitions: [partition].into(),
        groups: [("g".to_owned(), [(partition, pending)].into())].into(),
        started_at_ms: Some(40),
        updated_at_ms: 50,
    };
    let transactional_id = transactional_id.into();
    Event::TransactionalIdPut(event::TransactionalIdPut { transactional_id })
}

fn access_changes() -> Vec<Event> {
    let credential = ScramCredential::mock(ScramMechanism::Sha256, b"secret", "alice");
    let rule = |resource_kind, pattern_kind, name: &str, permission| AclBinding {
        resource_kind,
        pattern_kind,
        resource_name: name.to_owned(),
        principal: "User:alice".to_owned(),
        host: "*".to_owned(),
        operation: Operation::Read,
        permission,
    };
    let quota = |user, client_id, value| AccessChange::SetQuota {
        entity: QuotaEntity { user, client_id },
        key: "producer_byte_rate".to_owned(),
        value: Some(value),
    };
    let named = |name: &str| Some(EntityName::Named(name.to_owned()));
    let rules = vec![
        rule(ResourceKind::Topic, PatternKind::Literal, "t", Permission::Allow),
        rule(ResourceKind::Topic, PatternKind::Literal, "t", Permission::Deny),
        rule(ResourceKind::Topic, PatternKind::Prefixed, "t", Permission::Allow),
        rule(ResourceKind::Group, PatternKind::Literal, "*", Permission::Allow),
    ];
    let changes = [
        AccessChange::PutUser(User { name: "alice".to_owned(), credentials: vec![credential] }),
        AccessChange::AddAcls(rules),
        quota(named("alice"), None, 1.0),
        quota(named("alice"), Some(EntityName::Default), 2.0),
        quota(Some(EntityName::Default), None, 3.0),
        quota(None, named("client"), 4.0),
    ];
    changes.map(Event::AccessChanged).to_vec()
}

#[tokio::test]
async fn what_is_loaded_is_what_was_written() {
    let mut world = World::new();
    let first = TopicPartition::new(id(1), 0);
    world.apply(&[created(1, 2), created(2, 1)], &[block(first, 0), block(first, 3)]);
    world.apply(&[batches(1, 0, 0..4), installed(1, 9)], &[]);
    world.apply(&access_changes(), &[]);
    let offset = event::CommittedOffset {
        topic_id: id(2),
        partition: 0,
        offset: 8,
        leader_epoch: -1,
        metadata: Some(String::new()),
        commit_time_ms: 4,
    };
    let committed = OffsetsCommitted { group: "g".into(), offsets: vec![offset] };
    world.apply(&[Event::OffsetsCommitted(committed), transactional_id(first)], &[block(first, 6)]);
    world.checkpoint().await;
    let loaded = world.load().await;
    assert_eq!(format!("{loaded:?}"), format!("{:?}", world.state));
    assert_eq!((loaded.access.acls.len(), loaded.access.quotas.len()), (4, 4));
    assert_eq!(loaded.access, world.state.access);
    let partition = &loaded.partitions[&first];
    assert_eq!((partition.slices.len(), partition.blocks.len(), partition.size_bytes), (1, 2, 300));
    assert_eq!(partition.last_stable_offset(), 0);
    assert_eq!(loaded.segments.live.len(), 1);
    assert_eq!(loaded.transactional_ids.len(), 1);
}

#[tokio::test]
async fn only_pages_that_changed_are_written() {
    let mut world = World::new();
    let topics: Vec<_> = (0..200).map(|topic| created(topic, 50)).collect();
    world.apply(&topics, &[]);
    for topic in 0..200 {
        let events: Vec<_> = (0..50).map(|partition| batches(topic, partition, 0..20)).collect();
        world.apply(&events, &[]);
    }
    let first = world.checkpoint().await;
    assert!(first.pages_written > 5, "{} pages", first.pages_written);
    assert!(first.root.pages.iter().all(|page| page.length <= 1024 * 1024));
    let again = world.checkpoint().await;
    assert_eq!(again.pages_written, 0);
    world.apply(&[batches(117, 3, 5..6)], &[block(TopicPartition::new(id(3), 1), 0)]);
    let changed = world.checkpoint().await;
    assert!((1..=3).contains(&changed.pages_written), "{} pages", changed.pages_written);
    assert_eq!(format!("{:?}", world.load().await), format!("{:?}", world.state));
}

#[test]
fn keys_of_rules_and_quotas_sort_as_the_entries_do() {
    let mut state = ShardState::default();
    state.apply_events(&access_changes(), 0).expect("the events fit");
    let acls: Vec<_> = state.access.acls.iter().map(|binding| acl_key(&binding)).collect();
    let quotas: Vec<_> = state.access.quotas.iter().map(|(entity, key, _)| quota_key(entity, key)).collect();
    assert!(acls.is_sorted() && quotas.is_sorted(), "{acls:?} {quotas:?}");
}
