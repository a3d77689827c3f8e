//! Backups of a log, restored elsewhere.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::access::{AccessChange, User};
use crate::ids::TopicPartition;
use crate::log::verify::tests::{
    Objects, World, append, objects_of, open, seams, settings, spread_world, store_of, verify_now, world,
};
use crate::log::{CreateTopic, Log};
use crate::object::ObjectStoreBackend;

fn empty() -> Arc<dyn LogStore> {
    Arc::new(ObjectStoreBackend::memory())
}

async fn backup_now(from: &Arc<dyn LogStore>, to: &Arc<dyn LogStore>) -> Result<BackupReport, BackupError> {
    let stores = CopyStores { from: from.clone(), to: to.clone() };
    backup(&stores, &seams(), &mut |_| {}).await
}

async fn restore_now(from: &Arc<dyn LogStore>, to: &Arc<dyn LogStore>) -> Result<BackupReport, BackupError> {
    let stores = CopyStores { from: from.clone(), to: to.clone() };
    restore(&stores, &seams(), &mut |_| {}).await
}

/// The high watermark and the readable records of a partition.
async fn count(log: &Log, id: TopicPartition) -> (i64, usize) {
    let view = log.snapshot().partition(id).expect("the partition is there");
    let mut records = 0;
    let mut offset = 0;
    while offset < view.bounds().high_watermark {
        let options = crate::log::FetchOptions {
            from: offset,
            bytes_max: 1,
            isolation: crate::log::Isolation::ReadUncommitted,
            first_batch: crate::log::FirstBatch::Whole,
        };
        let fetched = view.fetch(options).await.expect("it is readable");
        records += fetched.batches.len();
        offset = fetched.next_offset;
    }
    (offset, records)
}

async fn assert_complete(store: &Arc<dyn LogStore>, world: &World) {
    let report = verify_now(store).await;
    assert_eq!(report.damages, []);
    let log = open(store).await.expect("it opens");
    for (id, records) in &world.partitions {
        assert_eq!(count(&log, *id).await, (*records, *records as usize));
    }
}

#[tokio::test(start_paused = true)]
async fn a_restored_backup_opens_with_every_record_and_the_source_is_untouched() {
    let world = world().await;
    let (source, place, restored) = (store_of(&world.objects).await, empty(), empty());
    let report = backup_now(&source, &place).await.expect("it is backed up");
    assert!(report.copied.objects > 10 && report.present.objects == 0, "{report:?}");
    assert_eq!(objects_of(&source).await, world.objects);
    assert_eq!(verify_now(&place).await.damages, []);
    restore_now(&place, &restored).await.expect("it is restored");
    let keys: Vec<_> = objects_of(&restored).await.into_keys().collect();
    assert!(!keys.iter().any(|key| key.starts_with("backups/") || key.contains("restoring")), "{keys:?}");
    assert_complete(&restored, &world).await;
}

#[tokio::test(start_paused = true)]
async fn a_log_of_several_shards_without_a_checkpoint_is_backed_up_and_restored() {
    let world = spread_world().await;
    let (source, place, restored) = (store_of(&world.objects).await, empty(), empty());
    backup_now(&source, &place).await.expect("it is backed up");
    assert_eq!(verify_now(&place).await.damages, []);
    restore_now(&place, &restored).await.expect("it is restored");
    assert_complete(&restored, &world).await;
}

#[tokio::test(start_paused = true)]
async fn a_second_backup_copies_only_what_is_new_and_the_first_stays_restorable_until_it_is_complete() {
    let mut world = world().await;
    let (source, place) = (store_of(&world.objects).await, empty());
    let first = backup_now(&source, &place).await.expect("it is backed up");
    let log = open(&source).await.expect("it opens");
    let (id, records) = world.partitions[0];
    append(&log, id, records..records + 5).await;
    log.compact_now().await.expect("it is compacted");
    log.checkpoint_now().await.expect("it is written");
    append(&log, id, records + 5..records + 7).await;
    let before = objects_of(&place).await;
    let second = backup_now(&source, &place).await.expect("it is backed up");
    assert!(second.copied.objects < first.copied.objects, "{first:?} {second:?}");
    assert!(second.present.objects > 5, "{second:?}");
    let after = objects_of(&place).await;
    assert!(before.iter().all(|(key, bytes)| after.get(key) == Some(bytes)), "nothing is overwritten");
    // Every order in which an interrupted backup may have put its objects: without the last one, all
    // that was new, one half and the other half.
    let new: Vec<_> = after.keys().filter(|key| !before.contains_key(*key)).cloned().collect();
    let is_last = |key: &String| key.starts_with(BACKUPS);
    for part in 0..3 {
        let keep = |index: usize| part == 2 || index % 2 == part;
        let mut objects: Objects = before.clone();
        for (_, key) in new.iter().enumerate().filter(|(index, key)| keep(*index) && !is_last(key)) {
            objects.insert(key.clone(), after[key].clone());
        }
        let (interrupted, restored) = (store_of(&objects).await, empty());
        restore_now(&interrupted, &restored).await.expect("the first is restored");
        assert_complete(&restored, &world).await;
    }
    world.partitions[0].1 += 7;
    let restored = empty();
    restore_now(&place, &restored).await.expect("the second is restored");
    assert_complete(&restored, &world).await;
}

#[tokio::test(start_paused = true)]
async fn a_backup_beside_a_busy_log_holds_what_was_acknowledged_before() {
    let (source, place) = (empty(), empty());
    let mut busy = settings();
    busy.maintenance.wal_delete_delay = Duration::ZERO;
    busy.maintenance.segment_delete_delay = Some(Duration::ZERO);
    busy.maintenance.checkpoints_kept = 1;
    busy.maintenance.merge_slices = 2;
    let log = Log::open(source.clone(), busy, seams()).await.expect("it opens");
    let topic = CreateTopic { name: "events".to_owned(), partitions: 1, configs: BTreeMap::new() };
    let id = TopicPartition::new(log.create_topic(topic).await.expect("it is created").id, 0);
    append(&log, id, 0..5).await;
    for round in 1..12 {
        let work = async {
            append(&log, id, round * 5..round * 5 + 5).await;
            log.compact_now().await.expect("it is compacted");
            log.checkpoint_now().await.expect("it is written");
            tokio::time::advance(Duration::from_secs(2)).await;
            log.collect_now().await.expect("it is collected");
        };
        let (report, ()) = tokio::join!(backup_now(&source, &place), work);
        report.expect("it is backed up");
        let restored = empty();
        restore_now(&place, &restored).await.expect("it is restored");
        let copy = open(&restored).await.expect("it opens");
        let (end, records) = count(&copy, id).await;
        assert!(end >= round * 5 && records as i64 == end, "round {round}: {records} records to {end}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_no_backup_of_the_same_log_is_refused() {
    let world = world().await;
    let source = store_of(&world.objects).await;
    let other = empty();
    open(&other).await.expect("it opens").close().await;
    // The same seed gave it the same id: another one is as if another log was there.
    let mut objects = objects_of(&other).await;
    let another = crate::format::Cluster { cluster_id: crate::format::ClusterId([9; 16]), format_version: 2 };
    objects.insert(CLUSTER.to_owned(), crate::format::encode_cluster(&another));
    let refused = backup_now(&source, &store_of(&objects).await).await;
    assert!(matches!(refused, Err(BackupError::OtherLog { .. })), "{refused:?}");
    let stray = store_of(&Objects::from([("readme".to_owned(), bytes::Bytes::from_static(b"x"))])).await;
    assert!(matches!(backup_now(&source, &stray).await, Err(BackupError::NoPlaceForBackups { .. })));
    assert!(matches!(restore_now(&stray, &empty()).await, Err(BackupError::NoBackup { .. })));
    assert!(matches!(restore_now(&source, &stray).await, Err(BackupError::NotEmpty { .. })));
    let place = empty();
    backup_now(&source, &place).await.expect("it is backed up");
    drop(open(&place).await.expect("a server was started on it"));
    assert!(matches!(backup_now(&source, &place).await, Err(BackupError::Diverged { .. })));
}

#[tokio::test(start_paused = true)]
async fn what_an_interrupted_restore_left_does_not_open_and_is_completed() {
    let world = world().await;
    let (source, place, restored) = (store_of(&world.objects).await, empty(), empty());
    backup_now(&source, &place).await.expect("it is backed up");
    restore_now(&place, &restored).await.expect("it is restored");
    let mut objects = objects_of(&restored).await;
    let cluster = objects[CLUSTER].clone();
    objects.insert(RESTORING.to_owned(), cluster);
    let some: Vec<_> = objects.keys().filter(|key| key.starts_with("shards")).take(7).cloned().collect();
    some.iter().for_each(|key| drop(objects.remove(key)));
    let interrupted = store_of(&objects).await;
    let refused = open(&interrupted).await.expect_err("it is not complete");
    assert!(refused.to_string().contains("restore"), "{refused}");
    assert_eq!(objects_of(&interrupted).await, objects, "nothing was written");
    let report = restore_now(&place, &interrupted).await.expect("it goes on");
    assert_eq!(report.copied.objects, 7, "{report:?}");
    assert_complete(&interrupted, &world).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_missing_for_good_ends_a_backup_and_is_named() {
    let world = world().await;
    let mut objects = world.objects.clone();
    let segment = objects.keys().find(|key| key.ends_with(".seg")).cloned().expect("there is a segment");
    objects.remove(&segment);
    let refused = backup_now(&store_of(&objects).await, &empty()).await.expect_err("it is not there");
    assert!(refused.to_string().contains(&segment), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn users_are_in_a_backup() {
    let (source, place, restored) = (empty(), empty(), empty());
    let put = async |log: &Log, name: &str| {
        let user = User { name: name.to_owned(), credentials: Vec::new() };
        let changed: Result<(), Box<dyn std::error::Error + Send + Sync>> =
            log.change_access(|_| Ok((vec![AccessChange::PutUser(user)], ()))).await;
        changed.expect("the log takes it");
    };
    let log = open(&source).await.expect("it opens");
    put(&log, "in a page").await;
    log.checkpoint_now().await.expect("it is written");
    put(&log, "in the WAL").await;
    let before = log.access();
    assert_eq!(before.users.len(), 2);
    backup_now(&source, &place).await.expect("it is backed up");
    restore_now(&place, &restored).await.expect("it is restored");
    assert_eq!(verify_now(&restored).await.damages, []);
    assert_eq!(open(&restored).await.expect("it opens").access(), before);
}
