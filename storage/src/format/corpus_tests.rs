//! The corpora of the fuzz targets, run as tests: each file as it is, and damaged in hundreds of ways,
//! through the code that is fuzzed.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use bytes::Bytes;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use prost::Message;

use super::access::{AclMessage, QuotaMessage, UserMessage};
use super::event::tests::any_event;
use super::page::{
    CheckpointRoot, GroupEntry, GroupOffsetEntry, PageKind, PageRef, PartitionEntry, ProducerEntry,
    SchemaEntry, SegmentEntry, SliceEntry, TailBlockEntry, TopicEntry, TransactionalIdEntry,
    block_entry_bytes, encode_checkpoint, encode_page,
};
use super::segment::{SegmentBuilder, SegmentHeader};
use super::*;
use crate::access::{
    AclBinding, EntityName, Operation, PatternKind, Permission, QuotaEntity, ResourceKind, ScramCredential,
    ScramMechanism, User,
};
use crate::ids::{ObjectId, ShardId, TopicId, TopicPartition, WalPosition};
// What the targets take from the package that they are in.
use crate::{format, ids};

#[path = "../../../fuzz/src/targets.rs"]
mod targets;

type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 5] = [
    ("record_batch", targets::record_batch),
    ("wal_object", targets::wal_object),
    ("segment_footer", targets::segment_footer),
    ("page", targets::page),
    ("events", targets::events),
];

/// A file is damaged at so many places at most, spread over it.
const PLACES_MAX: usize = 300;

fn corpus(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target)
}

/// The committed files of a target, by name.
fn files(target: &str) -> Vec<(String, Vec<u8>)> {
    let read = fs::read_dir(corpus(target)).expect("each target has a corpus");
    let mut files: Vec<_> = read
        .map(|entry| {
            let entry = entry.expect("the directory can be read");
            let bytes = fs::read(entry.path()).expect("a file of a corpus can be read");
            (entry.file_name().to_string_lossy().into_owned(), bytes)
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{target} has no corpus");
    files
}

/// Runs a target, and says on which bytes it failed.
fn run(target: Target, name: &str, damage: &str, bytes: &[u8]) {
    let ran = std::panic::catch_unwind(|| target(bytes));
    assert!(ran.is_ok(), "{name}, {damage}: a panic");
}

#[test]
fn damaged_files_of_the_corpora_are_decoded_or_refused() {
    for (target_name, target) in TARGETS {
        for (file, bytes) in files(target_name) {
            let name = format!("{target_name}/{file}");
            run(target, &name, "as it is", &bytes);
            let step = bytes.len().div_ceil(PLACES_MAX).max(1);
            for at in (0..bytes.len()).step_by(step) {
                run(target, &name, &format!("cut at {at}"), &bytes[..at]);
                for (what, damaged) in damages(&bytes, at) {
                    run(target, &name, &format!("{what} at {at}"), &damaged);
                }
            }
        }
    }
}

/// The bytes with a flipped bit, another byte, and numbers so large that nobody may allocate by them.
fn damages(bytes: &[u8], at: usize) -> Vec<(&'static str, Vec<u8>)> {
    let xor = |mask: u8| {
        let mut damaged = bytes.to_vec();
        damaged[at] ^= mask;
        damaged
    };
    let overwrite = |number: &[u8]| {
        let mut damaged = bytes.to_vec();
        let end = damaged.len().min(at + number.len());
        damaged[at..end].copy_from_slice(&number[..end - at]);
        damaged
    };
    vec![
        ("a flipped bit", xor(1 << (at % 8))),
        ("the high bit flipped", xor(0x80)),
        ("all bits flipped", xor(0xff)),
        ("a large number", overwrite(&i32::MAX.to_le_bytes())),
        ("a large number of Kafka", overwrite(&i32::MAX.to_be_bytes())),
        ("the largest number", overwrite(&[0xff; 8])),
        ("a large varint", overwrite(&[0xff, 0xff, 0xff, 0xff, 0x07])),
    ]
}

/// The files whose names say that they are whole: a corpus may also hold what a fuzzer found.
fn whole_files(target: &str, front: &str) -> Vec<(String, Bytes)> {
    let whole = files(target).into_iter().filter(|(name, _)| name.starts_with(front));
    let whole: Vec<_> = whole.map(|(name, bytes)| (name, bytes.into())).collect();
    assert!(!whole.is_empty(), "{target} has no file of the name {front}");
    whole
}

#[test]
fn whole_files_of_the_corpora_are_decoded() {
    for (name, bytes) in [whole_files("wal_object", "commit"), whole_files("wal_object", "fence")].concat() {
        assert!(decode_wal_object(&bytes, bytes.len() as u64).is_ok(), "{name}");
    }
    for (name, bytes) in whole_files("events", "kind") {
        assert!(event::decode_events(&bytes).is_ok(), "{name}");
    }
    for (name, bytes) in whole_files("record_batch", "batch") {
        assert!(inspect(&bytes, &mut DecompressionBudget::new(1 << 20)).is_ok(), "{name}");
    }
    for (name, bytes) in whole_files("page", "checkpoint") {
        assert!(page::decode_checkpoint(&bytes).is_ok(), "{name}");
    }
}

#[test]
#[ignore = "writes the corpora anew"]
fn write_the_corpora() {
    let seeds = [
        ("record_batch", batch_seeds()),
        ("wal_object", wal_seeds()),
        ("segment_footer", segment_seeds()),
        ("page", page_seeds()),
        ("events", event_seeds()),
    ];
    for (target, seeds) in seeds {
        fs::create_dir_all(corpus(target)).expect("the tree can be written");
        for (name, bytes) in seeds {
            fs::write(corpus(target).join(name), bytes).expect("the tree can be written");
        }
    }
}

type Seeds = Vec<(String, Vec<u8>)>;

fn partition(partition: i32) -> TopicPartition {
    TopicPartition::new(TopicId::from_bytes([5; 16]), partition)
}

fn object_id(number: i64) -> ObjectId {
    ObjectId::new(1_767_225_600_000 + number, [7; 16])
}

/// Three records: with headers, without a key, and without a value or a time.
fn batch(options: BatchOptions) -> Bytes {
    let mut builder = BatchBuilder::new(options);
    let headers: [(&[u8], Option<&[u8]>); 3] = [(b"h", Some(b"1")), (b"h", None), (b"", Some(b""))];
    let value = b"a value that compresses, a value that compresses".as_slice();
    let mut append = |timestamp, key: Option<&[u8]>, value: Option<&[u8]>, headers: &[_]| {
        builder.append(timestamp, key, value, headers).expect("a small record fits");
    };
    append(Some(1_767_225_600_000), Some(b"key"), Some(value), &headers);
    append(Some(1_767_225_599_000), None, Some(value), &[]);
    append(None, Some(b""), None, &[]);
    builder.finish()
}

fn batch_seeds() -> Seeds {
    let plain = BatchOptions::default();
    let producer = Some(ProducerIdentity { producer_id: 9, producer_epoch: 2, base_sequence: 7 });
    let codecs = [
        ("none", Compression::None),
        ("gzip", Compression::Gzip),
        ("snappy", Compression::Snappy),
        ("lz4", Compression::Lz4),
        ("zstd", Compression::Zstd),
    ];
    let mut seeds: Seeds = codecs
        .into_iter()
        .map(|(name, compression)| {
            (format!("batch-{name}"), batch(BatchOptions { compression, ..plain }).to_vec())
        })
        .collect();
    let transactional = BatchOptions { producer, kind: BatchKind::Transactional, ..plain };
    seeds.push(("batch-transactional".to_owned(), batch(transactional).to_vec()));
    let control = BatchOptions { producer, kind: BatchKind::Control, ..plain };
    let mut marker = BatchBuilder::new(control);
    marker.append(Some(1), Some(&[0, 0, 0, 1]), Some(&[0; 6]), &[]).expect("a marker fits");
    seeds.push(("batch-marker".to_owned(), marker.finish().to_vec()));
    let mut second = batch(BatchOptions { compression: Compression::Lz4, ..plain }).to_vec();
    set_base_offset(&mut second, 3);
    set_log_append_time(&mut second, 1_767_225_600_000);
    seeds.push(("two".to_owned(), [batch(plain).to_vec(), second].concat()));
    seeds
}

fn entry(topic_partition: TopicPartition, base_offset: i64, bytes: &[u8]) -> BlockEntry {
    BlockEntry {
        topic_partition,
        base_offset,
        next_offset: base_offset + 3,
        position: 0,
        length: bytes.len() as u32,
        data_count: 3,
        control_count: 0,
        null_timestamp_count: 1,
        min_timestamp: 1_767_225_599_000,
        max_timestamp: 1_767_225_600_000,
        offset_of_max_timestamp: base_offset,
        append_time_ms: 1_767_225_600_500,
        leader_epoch: 0,
        flags: BlockFlags::GAPS,
        crc: crc32c::crc32c(bytes),
    }
}

fn wal_seeds() -> Seeds {
    let header = WalHeader {
        shard: ShardId(0),
        position: WalPosition { writer_epoch: 3, seq: 4 },
        writer_nonce: [8; 16],
        durable_seq: 2,
        previous_header_crc: 77,
        append_time_ms: 1_767_225_600_500,
    };
    let commit = |events: Vec<Event>, blocks: usize| {
        let mut builder = WalObjectBuilder::new(header);
        events.iter().for_each(|event| builder.push_event(event));
        for number in 0..blocks {
            let batch = batch(BatchOptions::default());
            builder.push_block(entry(partition(number as i32), 10, &batch), vec![batch.clone()]);
        }
        builder.finish().bytes.to_vec()
    };
    let events = sample_events(1).into_values().flatten().collect();
    let fence = Fence { shard: ShardId(0), position: header.position, by_epoch: 5, by_nonce: [9; 16] };
    vec![
        ("commit".to_owned(), commit(Vec::new(), 2)),
        ("commit-empty".to_owned(), commit(Vec::new(), 0)),
        ("commit-events".to_owned(), commit(events, 1)),
        ("fence".to_owned(), encode_fence(&fence).to_vec()),
    ]
}

fn segment(block: &[u8]) -> (Vec<u8>, Vec<Slice>) {
    let (mut builder, front) = SegmentBuilder::new(SegmentHeader { shard: ShardId(0), object: object_id(1) });
    let mut bytes = front.to_vec();
    for (number, blocks) in [(0, 2), (1, 1)] {
        builder.begin_slice(partition(number), 5);
        for index in 0..blocks {
            builder.push_block(entry(partition(number), 10 + 10 * index, block));
            bytes.extend_from_slice(block);
        }
        builder.end_slice(40, Some(1_767_225_700_000));
    }
    let footer = builder.finish();
    bytes.extend_from_slice(&footer.bytes);
    (bytes, footer.slices)
}

fn segment_seeds() -> Seeds {
    let (empty, front) = SegmentBuilder::new(SegmentHeader { shard: ShardId(0), object: object_id(1) });
    vec![
        ("segment".to_owned(), segment(&batch(BatchOptions::default())).0),
        ("empty".to_owned(), [&front[..], &empty.finish().bytes[..]].concat()),
    ]
}

fn page_seeds() -> Seeds {
    let mut seeds = Seeds::new();
    let mut pages = Vec::new();
    for kind in PageKind::ALL {
        let (page, bytes) = page(kind);
        seeds.push((format!("page-{kind:?}").to_lowercase(), bytes.to_vec()));
        pages.push(page);
    }
    let root = CheckpointRoot {
        shard: ShardId(0),
        position: WalPosition { writer_epoch: 3, seq: 4 },
        header_crc: 5,
        append_time_ms: 6,
        next_producer_id: 7,
        wal_objects: 8,
        wal_bytes: 9,
        compacted_wal_objects: 10,
        epoch_ends: vec![(1, 20), (2, 0)],
        pages,
    };
    seeds.push(("checkpoint".to_owned(), encode_checkpoint(&root).to_vec()));
    seeds
}

fn page(kind: PageKind) -> (PageRef, Bytes) {
    let topic_id = vec![5; 16];
    let entry = match kind {
        PageKind::Topics => {
            TopicEntry { topic_id, name: "a".to_owned(), partition_count: 2, ..Default::default() }
                .encode_to_vec()
        }
        PageKind::Partitions => {
            let block = block_entry_bytes(&entry(partition(0), 10, b"block"));
            let tail = vec![TailBlockEntry { writer_epoch: 3, seq: 4, block }];
            PartitionEntry { topic_id, next_offset: 13, tail, ..Default::default() }.encode_to_vec()
        }
        PageKind::Slices => SliceEntry::new(&segment(b"block").1[0]).encode_to_vec(),
        PageKind::Producers => {
            ProducerEntry { topic_id, producer_id: 9, producer_epoch: 2, ..Default::default() }
                .encode_to_vec()
        }
        PageKind::GroupOffsets => {
            GroupOffsetEntry { group: "g".to_owned(), topic_id, offset: 12, ..Default::default() }
                .encode_to_vec()
        }
        PageKind::Schemas => {
            SchemaEntry { topic_id, kind: "columns".to_owned(), version: 1, bytes: b"schema".to_vec() }
                .encode_to_vec()
        }
        PageKind::Segments => {
            let object = object_id(1).to_bytes().to_vec();
            SegmentEntry { object, length: 500, unreferenced_at_ms: Some(7), ..Default::default() }
                .encode_to_vec()
        }
        PageKind::Groups => GroupEntry::classic("g", 2, 9, &Default::default()).encode_to_vec(),
        PageKind::TransactionalIds => TransactionalIdEntry::new(&transactional_id()).encode_to_vec(),
        PageKind::Users => UserMessage::new(&user()).encode_to_vec(),
        PageKind::Acls => AclMessage::new(&binding()).encode_to_vec(),
        PageKind::Quotas => {
            let entity = QuotaEntity { user: Some(EntityName::Default), client_id: None };
            QuotaMessage::new(&entity, "producer_byte_rate", Some(1024.0)).encode_to_vec()
        }
    };
    encode_page(kind, object_id(2), Bytes::from_static(b"key"), vec![entry.clone(), entry])
}

fn user() -> User {
    let credential = |mechanism| ScramCredential::mock(mechanism, b"secret", "u");
    User { name: "u".to_owned(), credentials: ScramMechanism::ALL.map(credential).to_vec() }
}

fn binding() -> AclBinding {
    AclBinding {
        resource_kind: ResourceKind::Topic,
        pattern_kind: PatternKind::Prefixed,
        resource_name: "orders".to_owned(),
        principal: "User:u".to_owned(),
        host: "*".to_owned(),
        operation: Operation::Read,
        permission: Permission::Allow,
    }
}

fn transactional_id() -> TransactionalId {
    let producer = Producer { producer_id: 9, producer_epoch: 2 };
    let replaces = Some(ReplacedOffset { offset: 7, commit_time_ms: 1_767_225_600_000 });
    let pending = PendingOffset { offset: 12, leader_epoch: -1, metadata: None, replaces };
    TransactionalId {
        name: "t".to_owned(),
        producer,
        previous: Some(Producer { producer_epoch: 1, ..producer }),
        timeout_ms: 60_000,
        state: TransactionState::Ongoing,
        partitions: [partition(0), partition(1)].into(),
        groups: [("g".to_owned(), [(partition(0), pending)].into())].into(),
        started_at_ms: Some(1_767_225_600_000),
        updated_at_ms: 1_767_225_600_500,
    }
}

/// Some events of each kind, by their numbers.
fn sample_events(of_each: usize) -> BTreeMap<u8, Vec<Event>> {
    const EVENT_BYTES_MAX: usize = 1000;
    let mut runner = TestRunner::deterministic();
    let mut samples = BTreeMap::<u8, Vec<Event>>::new();
    for _ in 0..1000 {
        let event = any_event().new_tree(&mut runner).expect("a strategy without filters").current();
        let mut bytes = Vec::new();
        event.encode(&mut bytes);
        let of_kind = samples.entry(bytes[0]).or_default();
        if of_kind.len() < of_each && bytes.len() <= EVENT_BYTES_MAX {
            of_kind.push(event);
        }
    }
    samples
}

fn event_seeds() -> Seeds {
    let mut seeds = Seeds::new();
    for (kind, events) in sample_events(3) {
        for (number, event) in events.iter().enumerate() {
            let mut bytes = Vec::new();
            event.encode(&mut bytes);
            seeds.push((format!("kind-{kind:02}-{number}"), bytes));
        }
    }
    seeds
}
