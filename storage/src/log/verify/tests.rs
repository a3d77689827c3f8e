//! Every kind of object is damaged in every way: verification names it, an open says so or goes on,
//! reads give what was written or name the object, and nothing else is touched.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::format::segment::decode_segment_trailer;
use crate::format::{BatchBuilder, BatchOptions, DecompressionBudget, Records, WalKind, writer_nonce_of};
use crate::ids::TopicPartition;
use crate::log::{
    CreateTopic, FetchError, FetchOptions, FirstBatch, Isolation, Log, MaintenanceSettings, PartitionAppend,
    PartitionView,
};
use crate::object::ObjectStoreBackend;

const T: i64 = 1_767_225_600_000;

pub(in crate::log) type Objects = BTreeMap<String, Bytes>;

pub(in crate::log) fn settings() -> LogSettings {
    // Nothing happens by itself, and nothing is read from memory.
    let never = Duration::from_secs(1 << 30);
    let maintenance = MaintenanceSettings {
        compaction_interval: never,
        checkpoint_interval: never,
        checkpoint_age_max: never,
        retention_interval: never,
        sweep_interval: never,
        ..MaintenanceSettings::default()
    };
    LogSettings { maintenance, tail_bytes_max: 0, cache_bytes_max: 0, ..LogSettings::default() }
}

pub(in crate::log) async fn store_of(objects: &Objects) -> Arc<dyn LogStore> {
    let store = ObjectStoreBackend::memory();
    for (key, bytes) in objects {
        store.create(key, bytes.clone()).await.expect("memory takes it");
    }
    Arc::new(store)
}

pub(in crate::log) async fn objects_of(store: &Arc<dyn LogStore>) -> Objects {
    let mut objects = Objects::new();
    for object in store.list("").await.expect("memory lists") {
        let bytes = store.get(&object.key).await.expect("memory reads");
        objects.insert(object.key, bytes);
    }
    objects
}

/// Time that a test controls; ids that are never the same twice, also over several opens.
pub(in crate::log) fn seams() -> Seams {
    Seams { rng: Seams::system().rng, ..Seams::simulated(0) }
}

pub(in crate::log) async fn open(store: &Arc<dyn LogStore>) -> Result<Log, OpenError> {
    Log::open(store.clone(), settings(), seams()).await
}

pub(in crate::log) async fn verify_now(store: &Arc<dyn LogStore>) -> VerifyReport {
    let report = verify(store, &settings(), &seams(), &mut |_| {}).await;
    report.expect("the store can be read")
}

/// The offset that each record of a partition has is its number; its value and time follow from it.
pub(in crate::log) async fn append(log: &Log, id: TopicPartition, numbers: std::ops::Range<i64>) {
    for number in numbers {
        let mut builder = BatchBuilder::new(BatchOptions::default());
        let value = format!("value {number} of {}", id.partition);
        builder.append(Some(T + number % 1_000), None, Some(value.as_bytes()), &[]).expect("a small record");
        let append = PartitionAppend { topic_partition: id, batch: builder.finish() };
        let appended = log.append(vec![append]).await.remove(0).expect("it is appended");
        assert_eq!(appended.base_offset, number);
    }
}

/// What a store holds: two partitions, and how many records each has.
#[derive(Clone)]
pub(in crate::log) struct World {
    pub(in crate::log) objects: Objects,
    pub(in crate::log) partitions: Vec<(TopicPartition, i64)>,
}

/// Three epochs with segments, three checkpoints, a tail on both sides of the newest one, and fences.
pub(in crate::log) async fn world() -> World {
    let store: Arc<dyn LogStore> = Arc::new(ObjectStoreBackend::memory());
    let log = open(&store).await.expect("it opens");
    let configs = BTreeMap::new();
    let topic = log.create_topic(CreateTopic { name: "events".to_owned(), partitions: 2, configs }).await;
    let first = TopicPartition::new(topic.expect("it is created").id, 0);
    let second = TopicPartition::new(first.topic_id, 1);
    append(&log, first, 0..4).await;
    append(&log, second, 0..3).await;
    log.compact_now().await.expect("it is compacted");
    append(&log, second, 3..5).await;
    log.compact_now().await.expect("it is compacted");
    log.checkpoint_now().await.expect("it is written");
    drop(log);
    let log = open(&store).await.expect("it opens");
    append(&log, first, 4..6).await;
    log.checkpoint_now().await.expect("it is written");
    append(&log, second, 5..7).await;
    drop(log);
    let log = open(&store).await.expect("it opens");
    append(&log, first, 6..8).await;
    log.checkpoint_now().await.expect("it is written");
    append(&log, second, 7..9).await;
    append(&log, first, 8..10).await;
    tokio::time::advance(Duration::from_secs(100)).await;
    log.collect_now().await.expect("it is collected");
    drop(log);
    World { objects: objects_of(&store).await, partitions: vec![(first, 10), (second, 9)] }
}

/// The kind of an object, by its key and bytes.
fn kind_of(key: &str, bytes: &Bytes) -> ObjectKind {
    match key.split('/').nth(2) {
        None => ObjectKind::Cluster,
        Some("epochs") => ObjectKind::Claim,
        Some("checkpoints") => ObjectKind::Checkpoint,
        Some("pages") => ObjectKind::Page,
        Some("data") => ObjectKind::Segment,
        Some(_) => match writer_nonce_of(bytes).expect("a WAL object") {
            (WalKind::Commit, _) => ObjectKind::Wal,
            (WalKind::Fence, _) => ObjectKind::Fence,
        },
    }
}

fn flipped(bytes: &Bytes, position: usize) -> Bytes {
    let mut flipped = bytes.to_vec();
    flipped[position] ^= 1 << (position % 8);
    flipped.into()
}

/// Positions in every part of an object.
fn positions(kind: ObjectKind, bytes: &Bytes) -> Vec<usize> {
    let length = bytes.len();
    let mut positions: Vec<_> = (0..12).map(|part| part * length / 12).collect();
    positions.extend([1, 9, 17, 33, 50, length - 1, length - 5].into_iter().filter(|at| *at < length));
    if kind == ObjectKind::Segment {
        let trailer = decode_segment_trailer(&bytes[length - 48..], length as u64).expect("it is whole");
        let index = trailer.index_position as usize;
        let directory = trailer.directory_position() as usize;
        positions.extend([
            37,
            index - 1,
            index,
            index + 40,
            directory,
            directory + 9,
            length - 48,
            length - 14,
        ]);
    }
    positions.sort_unstable();
    positions.dedup();
    positions
}

/// Every way in which one object is damaged, with a name for messages.
fn corruptions(world: &World, key: &str) -> Vec<(String, Objects)> {
    let bytes = &world.objects[key];
    let kind = kind_of(key, bytes);
    let with = |replaced: Option<Bytes>| {
        let mut objects = world.objects.clone();
        match replaced {
            Some(bytes) => objects.insert(key.to_owned(), bytes),
            None => objects.remove(key),
        };
        objects
    };
    let mut cases = vec![("delete".to_owned(), with(None)), ("empty".to_owned(), with(Some(Bytes::new())))];
    for length in [bytes.len() / 2, bytes.len() - 1] {
        cases.push((format!("truncate to {length}"), with(Some(bytes.slice(..length)))));
    }
    for position in positions(kind, bytes) {
        cases.push((format!("flip at {position}"), with(Some(flipped(bytes, position)))));
    }
    let sibling = world.objects.iter().find(|(other, bytes)| *other != key && kind_of(other, bytes) == kind);
    if let Some((sibling, other)) = sibling {
        let mut objects = with(Some(other.clone()));
        objects.insert(sibling.clone(), bytes.clone());
        cases.push((format!("swap with {sibling}"), objects));
    }
    cases
}

/// Whether the loss of an object is one that cannot be seen.
fn is_unseen(world: &World, key: &str, case: &str) -> bool {
    let is_last =
        world.objects.keys().filter(|other| other.contains("/wal/")).max().is_some_and(|last| last == key);
    // A checkpoint less means a longer replay and nothing else, as long as there is another one.
    case == "delete" && (is_last || key.contains("/checkpoints/"))
}

async fn fetch_one(view: &PartitionView, offset: i64) -> Result<(i64, String), FetchError> {
    let options = FetchOptions {
        from: offset,
        bytes_max: 1,
        isolation: Isolation::ReadUncommitted,
        first_batch: FirstBatch::Whole,
    };
    let fetched = view.fetch(options).await?;
    let batch = fetched.batches.first().expect("there is a record at the offset");
    let records = Records::decode(batch, &mut DecompressionBudget::new(1 << 20)).expect("a stored batch");
    let found =
        records.iter().map(|record| record.expect("a stored record")).find(|record| record.offset >= offset);
    let found = found.expect("the batch reaches to the offset");
    Ok((found.offset, String::from_utf8(found.value.expect("it has a value").to_vec()).expect("text")))
}

/// Reads every record, and looks up every time: right, or an error that names the object and covers
/// the offset. Gives the number of right records.
async fn read_all(log: &Log, world: &World, keys: &[&str], case: &str) -> usize {
    let mut right = 0;
    for (id, count) in &world.partitions {
        let view = log.snapshot().partition(*id).unwrap_or_else(|| panic!("{case}: the partition is there"));
        assert_eq!(view.bounds().high_watermark, *count, "{case}");
        for offset in 0..*count {
            match fetch_one(&view, offset).await {
                Ok(record) => {
                    assert_eq!(record, (offset, format!("value {offset} of {}", id.partition)), "{case}");
                    right += 1;
                }
                Err(FetchError::Damaged { object, base_offset, last_offset, .. }) => {
                    assert!(keys.contains(&object.as_str()), "{case}: {object} is named");
                    assert!(
                        base_offset <= offset && offset <= last_offset,
                        "{case}: {base_offset}..={last_offset}"
                    );
                }
                Err(other) => panic!("{case}: {other}"),
            }
            match view.lookup_time(T + offset, Isolation::ReadUncommitted).await {
                Ok(found) => assert_eq!(found.map(|found| found.offset), Some(offset), "{case}"),
                Err(FetchError::Damaged { object, .. }) => assert!(keys.contains(&object.as_str()), "{case}"),
                Err(other) => panic!("{case}: {other}"),
            }
        }
    }
    right
}

#[derive(Debug, Default)]
struct Totals {
    cases: usize,
    refused: usize,
    /// Opens after which some reads failed.
    contained: usize,
    unharmed: usize,
}

async fn check_case(world: &World, key: &str, case: &str, damaged: Objects, totals: &mut Totals) {
    let name = format!("{key}: {case}");
    let store = store_of(&damaged).await;
    let report = verify_now(&store).await;
    let changed = damaged.iter().filter(|(key, bytes)| world.objects.get(*key) != Some(bytes));
    let mut keys: Vec<_> = changed.map(|(key, _)| key.as_str()).collect();
    keys.push(key);
    if !is_unseen(world, key, case) {
        for key in &keys {
            assert!(report.damaged_objects().contains(key), "{name}: {:?}", report.damages);
        }
    }
    totals.cases += 1;
    match open(&store).await {
        Ok(log) => {
            if is_unseen(world, key, case) && key.contains("/wal/") {
                return;
            }
            let right = read_all(&log, world, &keys, &name).await;
            let is_whole = right == world.partitions.iter().map(|(_, count)| *count as usize).sum::<usize>();
            *(if is_whole { &mut totals.unharmed } else { &mut totals.contained }) += 1;
            assert!(right >= 8, "{name}: only {right} records can be read");
        }
        Err(error) => {
            totals.refused += 1;
            let message = error.to_string();
            let names = keys.iter().any(|key| message.contains(key)) || is_about_claims(key, &error);
            assert!(names, "{name}: {message}");
        }
    }
    let after = objects_of(&store).await;
    for (key, bytes) in &damaged {
        assert_eq!(after.get(key), Some(bytes), "{name}: {key} was touched");
    }
}

/// A claim that is gone shows in what its epoch wrote.
fn is_about_claims(key: &str, error: &OpenError) -> bool {
    key.contains("/epochs/") && matches!(error, OpenError::Superseded { .. } | OpenError::BrokenChain { .. })
}

#[tokio::test(start_paused = true)]
async fn damage_of_every_kind_is_detected_named_and_contained() {
    let world = world().await;
    let whole = verify_now(&store_of(&world.objects).await).await;
    assert_eq!(whole.damages, []);
    assert_eq!((whole.records, whole.unreferenced.len()), (19, 0));
    let mut totals: BTreeMap<ObjectKind, Totals> = BTreeMap::new();
    for (key, bytes) in &world.objects {
        let totals = totals.entry(kind_of(key, bytes)).or_default();
        for (case, damaged) in corruptions(&world, key) {
            check_case(&world, key, &case, damaged, totals).await;
        }
    }
    let of = |kind| &totals[&kind];
    assert_eq!(totals.len(), 7, "{totals:?}");
    assert_eq!(of(ObjectKind::Cluster).refused, of(ObjectKind::Cluster).cases, "{totals:?}");
    for kind in [ObjectKind::Segment, ObjectKind::Checkpoint, ObjectKind::Fence] {
        assert_eq!(of(kind).refused, 0, "{kind}: {totals:?}");
    }
    assert!(of(ObjectKind::Segment).contained > 20 && of(ObjectKind::Segment).unharmed > 5, "{totals:?}");
    assert!(of(ObjectKind::Wal).contained > 5 && of(ObjectKind::Wal).refused > 20, "{totals:?}");
    assert!(of(ObjectKind::Claim).unharmed > 20, "{totals:?}");
    assert!(of(ObjectKind::Page).unharmed + of(ObjectKind::Page).refused > 20, "{totals:?}");
}

#[tokio::test(start_paused = true)]
async fn several_damaged_objects_are_all_named() {
    let world = world().await;
    let mut damaged = world.objects.clone();
    let commits: Vec<_> =
        world.objects.iter().filter(|(key, bytes)| kind_of(key, bytes) == ObjectKind::Wal).collect();
    let segments: Vec<_> = world.objects.keys().filter(|key| key.ends_with(".seg")).collect();
    let [.., (front, front_bytes), (_, _), (_, _)] = commits[..] else { panic!("there are commits") };
    damaged.insert(front.clone(), flipped(front_bytes, 20));
    damaged.remove(segments[0]);
    let data = damaged[segments[1]].clone();
    damaged.insert(segments[1].clone(), flipped(&data, 60));
    let report = verify_now(&store_of(&damaged).await).await;
    let mut expected = vec![front.as_str(), segments[0].as_str(), segments[1].as_str()];
    expected.sort_unstable();
    assert_eq!(report.damaged_objects(), expected);
    let lost: Vec<_> = report.damages.iter().filter(|damage| damage.object == *segments[0]).collect();
    assert!(
        lost.iter().all(|damage| damage.part == DamagedPart::Missing && damage.range.is_some()),
        "{lost:?}"
    );
    let known = report
        .damages
        .iter()
        .filter(|damage| damage.object == *front)
        .filter_map(|damage| damage.range.clone());
    let known: Vec<_> =
        known.map(|range| (range.topic.clone(), range.base_offset, range.next_offset)).collect();
    assert!(
        known.iter().all(|(topic, base, next)| topic.as_deref() == Some("events") && base < next),
        "{known:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_process_left_behind_is_noted_and_is_no_damage() {
    let world = world().await;
    let mut objects = world.objects.clone();
    let keys = ShardKeys::new(ShardId(0));
    let stray = keys.segment(crate::ids::ObjectId::new(T, [3; 16]));
    objects.insert(stray.clone(), Bytes::from_static(b"cut off"));
    let report = verify_now(&store_of(&objects).await).await;
    assert!(report.is_clean(), "{:?}", report.damages);
    assert_eq!(report.unreferenced, [stray]);
}

/// A log of three shards without any checkpoint, as a crash leaves it: all of it is in the WAL.
pub(in crate::log) async fn spread_world() -> World {
    let store: Arc<dyn LogStore> = Arc::new(ObjectStoreBackend::memory());
    let log =
        Log::open(store.clone(), LogSettings { shards: 3, ..settings() }, seams()).await.expect("it opens");
    let configs = BTreeMap::new();
    let topic = log.create_topic(CreateTopic { name: "events".to_owned(), partitions: 6, configs }).await;
    let topic_id = topic.expect("it is created").id;
    let partitions: Vec<_> = (0..6).map(|number| (TopicPartition::new(topic_id, number), 2)).collect();
    for (id, records) in &partitions {
        append(&log, *id, 0..*records).await;
    }
    drop(log);
    World { objects: objects_of(&store).await, partitions }
}

#[tokio::test(start_paused = true)]
async fn every_shard_is_verified_by_what_its_own_wal_says() {
    let world = spread_world().await;
    assert!(!world.objects.keys().any(|key| key.contains("/checkpoints/")), "all of it is in the WAL");
    let report = verify_now(&store_of(&world.objects).await).await;
    assert_eq!(report.damages, []);
    assert_eq!(report.records, 12);
}

#[tokio::test(start_paused = true)]
async fn verification_beside_a_busy_log_finds_no_damage() {
    let store: Arc<dyn LogStore> = Arc::new(ObjectStoreBackend::memory());
    let mut busy = settings();
    busy.maintenance.wal_delete_delay = Duration::ZERO;
    busy.maintenance.segment_delete_delay = Some(Duration::ZERO);
    busy.maintenance.checkpoints_kept = 1;
    busy.maintenance.merge_slices = 2;
    let log = Log::open(store.clone(), busy, seams()).await.expect("it opens");
    let configs = BTreeMap::new();
    let topic = log.create_topic(CreateTopic { name: "events".to_owned(), partitions: 1, configs }).await;
    let id = TopicPartition::new(topic.expect("it is created").id, 0);
    append(&log, id, 0..5).await;
    let mut verified = 0;
    for round in 1..20 {
        let work = async {
            append(&log, id, round * 5..round * 5 + 5).await;
            log.compact_now().await.expect("it is compacted");
            log.checkpoint_now().await.expect("it is written");
            tokio::time::advance(Duration::from_secs(2)).await;
            log.collect_now().await.expect("it is collected");
        };
        let (report, ()) = tokio::join!(verify_now(&store), work);
        assert_eq!(report.damages, [], "round {round}");
        verified += report.records;
    }
    assert!(verified > 100, "{verified}");
}
