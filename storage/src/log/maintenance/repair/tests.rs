//! Repairs of a damaged log: what is derivable comes back, what is lost is named and skipped.

use std::sync::Arc;

use bytes::Bytes;

use crate::format::segment::decode_segment_trailer;
use crate::log::loss::UNKNOWN_OFFSETS;
use crate::log::verify::tests::{
    Objects, World, append, objects_of, open, seams, settings, store_of, verify_now, world,
};
use crate::log::verify::{DamagedPart, DamagedRange, VerifyReport};
use crate::log::{FetchOptions, FirstBatch, Isolation, Log, LogSettings, MaintenanceError};
use crate::object::LogStore;

fn flip(objects: &mut Objects, key: &str, position: usize) {
    let mut bytes = objects[key].to_vec();
    bytes[position] ^= 1;
    objects.insert(key.to_owned(), Bytes::from(bytes));
}

fn segments(objects: &Objects) -> Vec<String> {
    objects.keys().filter(|key| key.ends_with(".seg")).cloned().collect()
}

fn wal(objects: &Objects) -> Vec<String> {
    objects.keys().filter(|key| key.contains("/wal/")).cloned().collect()
}

/// The offsets that can be read of each partition; every read succeeds.
async fn offsets(log: &Log, world: &World) -> Vec<Vec<i64>> {
    let mut offsets = Vec::new();
    for (id, _) in &world.partitions {
        let view = log.snapshot().partition(*id).expect("it is there");
        let mut found = Vec::new();
        let mut from = 0;
        while from < view.bounds().high_watermark {
            let options = FetchOptions {
                from,
                bytes_max: 1,
                isolation: Isolation::ReadUncommitted,
                first_batch: FirstBatch::Whole,
            };
            let fetched = view.fetch(options).await.expect("nothing is damaged any more");
            if fetched.batches.is_empty() {
                break;
            }
            found.push(fetched.next_offset - 1);
            from = fetched.next_offset;
        }
        offsets.push(found);
    }
    offsets
}

fn ranges(report: &VerifyReport, object: &str) -> Vec<DamagedRange> {
    report
        .damages
        .iter()
        .filter(|damage| damage.object == object)
        .filter_map(|damage| damage.range.clone())
        .collect()
}

fn all_but(count: i64, lost: &[i64]) -> Vec<i64> {
    (0..count).filter(|offset| !lost.contains(offset)).collect()
}

async fn assert_clean(store: &Arc<dyn LogStore>) -> VerifyReport {
    let report = verify_now(store).await;
    assert_eq!(report.damages, []);
    report
}

/// Everything that was there before a repair is there after it.
async fn assert_untouched(store: &Arc<dyn LogStore>, before: &Objects) {
    let after = objects_of(store).await;
    assert!(before.iter().all(|(key, bytes)| after.get(key) == Some(bytes)), "an object was overwritten");
}

#[tokio::test(start_paused = true)]
async fn an_index_or_frame_is_rebuilt_from_batches_that_are_whole() {
    let world = world().await;
    for key in segments(&world.objects) {
        let length = world.objects[&key].len();
        let trailer =
            decode_segment_trailer(&world.objects[&key][length - 48..], length as u64).expect("it is whole");
        let index = trailer.index_position as usize;
        let directory = trailer.directory_position() as usize;
        for position in [3, 20, index + 5, directory + 1, length - 3] {
            let mut objects = world.objects.clone();
            flip(&mut objects, &key, position);
            let store = store_of(&objects).await;
            let report = verify_now(&store).await;
            assert_eq!(report.damaged_objects(), [key.as_str()], "byte {position}");
            let log = open(&store).await.expect("it opens");
            let repaired = log.repair_index(&report).await.expect("its batches are whole");
            assert!(repaired.rewritten > 0 && repaired.lost.is_empty(), "byte {position}: {repaired:?}");
            assert_eq!(offsets(&log, &world).await, [all_but(10, &[]), all_but(9, &[])], "byte {position}");
            assert_clean(&store).await;
            assert_untouched(&store, &objects).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_rebuild_of_batches_that_are_damaged_too_is_refused() {
    let world = world().await;
    let key = segments(&world.objects)[0].clone();
    let mut objects = world.objects.clone();
    let length = objects[&key].len();
    let trailer = decode_segment_trailer(&objects[&key][length - 48..], length as u64).expect("it is whole");
    flip(&mut objects, &key, trailer.index_position as usize + 5);
    flip(&mut objects, &key, 120);
    let store = store_of(&objects).await;
    let report = verify_now(&store).await;
    let log = open(&store).await.expect("it opens");
    let refused = log.repair_index(&report).await.expect_err("a batch is damaged");
    assert!(matches!(refused, MaintenanceError::Refused { .. }), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_damaged_block_of_a_segment_is_given_up_alone() {
    let world = world().await;
    let key = segments(&world.objects)[0].clone();
    let mut objects = world.objects.clone();
    flip(&mut objects, &key, 120);
    let store = store_of(&objects).await;
    let report = verify_now(&store).await;
    let lost = ranges(&report, &key);
    assert_eq!(lost.len(), 1, "{:?}", report.damages);
    let log = open(&store).await.expect("it opens");
    let repaired = log.accept_loss(&key, &lost).await.expect("it is given up");
    let given_up: Vec<_> =
        repaired.lost.iter().flat_map(|range| range.base_offset..range.next_offset).collect();
    let of_range = lost[0].base_offset..lost[0].next_offset;
    assert_eq!(given_up, of_range.collect::<Vec<_>>());
    let mut expected = [all_but(10, &[]), all_but(9, &[])];
    expected[lost[0].topic_partition.partition as usize].retain(|offset| !given_up.contains(offset));
    assert_eq!(offsets(&log, &world).await, expected);
    let again = log.accept_loss(&key, &lost).await.expect_err("nothing is damaged any more");
    assert!(matches!(again, MaintenanceError::Refused { .. }), "{again}");
    assert_clean(&store).await;
    assert_untouched(&store, &objects).await;
    drop(log);
    assert_eq!(offsets(&open(&store).await.expect("it opens"), &world).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_missing_segment_is_given_up_and_its_slices_are_skipped() {
    let world = world().await;
    let key = segments(&world.objects)[0].clone();
    let mut objects = world.objects.clone();
    objects.remove(&key);
    let store = store_of(&objects).await;
    let report = verify_now(&store).await;
    let lost = ranges(&report, &key);
    assert!(!lost.is_empty() && report.damages.iter().all(|damage| damage.part == DamagedPart::Missing));
    let log = open(&store).await.expect("it opens");
    log.accept_loss(&key, &lost).await.expect("it is given up");
    let mut expected = [all_but(10, &[]), all_but(9, &[])];
    for range in &lost {
        let offsets = range.base_offset..range.next_offset;
        expected[range.topic_partition.partition as usize].retain(|offset| !offsets.contains(offset));
    }
    assert_eq!(offsets(&log, &world).await, expected);
    assert_eq!(assert_clean(&store).await.accepted.len(), lost.len());
}

#[tokio::test(start_paused = true)]
async fn a_damaged_block_of_the_wal_is_carried_into_a_segment_and_given_up() {
    let world = world().await;
    let mut given_up = 0;
    for key in wal(&world.objects) {
        let mut objects = world.objects.clone();
        let last = objects[&key].len() - 1;
        flip(&mut objects, &key, last);
        let store = store_of(&objects).await;
        let report = verify_now(&store).await;
        let lost = ranges(&report, &key);
        if lost.is_empty() {
            continue;
        }
        given_up += 1;
        let log = open(&store).await.expect("it opens");
        log.accept_loss(&key, &lost).await.expect("it is given up");
        let mut expected = [all_but(10, &[]), all_but(9, &[])];
        for range in &lost {
            let offsets = range.base_offset..range.next_offset;
            expected[range.topic_partition.partition as usize].retain(|offset| !offsets.contains(offset));
        }
        assert_eq!(offsets(&log, &world).await, expected, "{key}");
        log.checkpoint_now().await.expect("it is written");
        drop(log);
        assert_eq!(offsets(&open(&store).await.expect("it opens"), &world).await, expected, "{key}");
    }
    assert!(given_up > 5, "{given_up}");
}

async fn open_accepting(store: &Arc<dyn LogStore>, key: &str) -> Result<Log, crate::log::OpenError> {
    let settings = LogSettings { accept_loss: vec![key.to_owned()], ..settings() };
    Log::open(store.clone(), settings, seams()).await
}

#[tokio::test(start_paused = true)]
async fn an_open_goes_on_behind_an_object_whose_loss_is_accepted_and_gives_no_offset_out_twice() {
    let world = world().await;
    let keys = wal(&world.objects);
    // The last four are one record each: two of the second partition, then two of the first.
    for (key, lost, partition) in [(&keys[keys.len() - 4], 7, 1), (&keys[keys.len() - 2], 8, 0)] {
        for is_missing in [true, false] {
            let mut objects = world.objects.clone();
            match is_missing {
                true => drop(objects.remove(key)),
                false => flip(&mut objects, key, 60),
            }
            let store = store_of(&objects).await;
            let refused = open(&store).await.expect_err("its contents were acknowledged");
            assert!(refused.to_string().contains(key.as_str()), "{refused}");
            let log = open_accepting(&store, key).await.expect("its loss is accepted");
            let mut expected = [all_but(10, &[]), all_but(9, &[])];
            expected[partition].retain(|offset| *offset != lost);
            assert_eq!(offsets(&log, &world).await, expected, "{key}");
            drop(log);
            let log = open(&store).await.expect("later opens do not meet it");
            assert_eq!(offsets(&log, &world).await, expected, "{key}");
            for (id, count) in &world.partitions {
                let end = log.snapshot().partition(*id).expect("it is there").bounds().high_watermark;
                assert!(end == *count || end == *count + UNKNOWN_OFFSETS, "{end}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_offsets_of_a_last_object_that_is_lost_are_not_given_out_again() {
    let world = world().await;
    let key = wal(&world.objects).pop().expect("there are objects");
    let mut objects = world.objects.clone();
    flip(&mut objects, &key, 60);
    let store = store_of(&objects).await;
    let log = open_accepting(&store, &key).await.expect("its loss is accepted");
    let (id, count) = world.partitions[0];
    let end = log.snapshot().partition(id).expect("it is there").bounds().high_watermark;
    assert_eq!(end, count - 1 + UNKNOWN_OFFSETS);
    append(&log, id, end..end + 1).await;
    let mut expected = all_but(9, &[]);
    expected.push(end);
    assert_eq!(offsets(&log, &world).await[0], expected);
    log.compact_now().await.expect("it is compacted");
    assert_eq!(offsets(&log, &world).await[0], expected);
}

#[tokio::test(start_paused = true)]
async fn a_whole_object_is_not_passed_over() {
    let world = world().await;
    let key = wal(&world.objects).pop().expect("there are objects");
    let store = store_of(&world.objects).await;
    let log = open_accepting(&store, &key).await.expect("it opens");
    assert_eq!(offsets(&log, &world).await, [all_but(10, &[]), all_but(9, &[])]);
}
