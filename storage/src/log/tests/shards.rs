//! A log of several shards: what is spread, what stays together, and what an open brings in line.

use std::collections::BTreeSet;

use super::*;
use crate::format::event::TransactionResult;
use crate::format::{PendingOffset, ProducerIdentity};
use crate::ids::{ShardId, TopicId};
use crate::log::placement::place_of;
use crate::log::{
    EndTransaction, GroupOffsets, Health, OffsetCommit, OpenError, TopicConfig, WriteError, change,
};

fn of(shards: u32) -> LogSettings {
    LogSettings { shards, tail_bytes_max: 0, ..LogSettings::default() }
}

fn partition(topic: TopicPartition, partition: i32) -> TopicPartition {
    TopicPartition::new(topic.topic_id, partition)
}

fn commit(topic_partition: TopicPartition, offset: i64) -> Vec<OffsetCommit> {
    vec![OffsetCommit { topic_partition, offset, leader_epoch: -1, metadata: None }]
}

fn shards_of(log: &Log, topic: TopicPartition) -> Vec<u32> {
    let snapshot = log.snapshot();
    let topic = snapshot.topic_by_id(topic.topic_id).expect("the topic is there");
    (0..topic.partition_count).map(|partition| topic.shards.shard_of(partition).0).collect()
}

/// A group that a log of four shards puts elsewhere than in shard 0.
fn group_beyond_shard_0() -> String {
    let mut names = (0..).map(|number| format!("group-{number}"));
    names.find(|name| place_of(name, 4, |_| false) != 0).expect("most names are")
}

#[tokio::test]
async fn one_request_over_all_shards_is_answered_in_its_order_and_read_back() {
    let store = memory();
    let log = open_with(&store, of(4)).await;
    let events = create(&log, "events", 8, &[]).await;
    assert_eq!(shards_of(&log, events).into_iter().collect::<BTreeSet<_>>().len(), 4);
    append(&log, partition(events, 5), batch(&[T])).await.unwrap();
    let places = [7, 2, 5, 8, 0, 1];
    let appends = places.map(|place| PartitionAppend {
        topic_partition: partition(events, place),
        batch: batch(&[T, T + i64::from(place)]),
    });

    let appended = log.append(appends.to_vec()).await;

    let offset = |result: &Result<Appended, _>| result.as_ref().map(|appended| appended.base_offset).ok();
    let offsets: Vec<_> = appended.iter().map(offset).collect();
    assert_eq!(offsets, [Some(0), Some(0), Some(1), None, Some(0), Some(0)]);
    assert_eq!(appended[3], Err(AppendError::UnknownTopicPartition(partition(events, 8))));
    // A log that has four shards keeps them.
    log.close().await;
    let log = open_with(&store, of(1)).await;
    for (place, end) in [(7, 2), (2, 2), (5, 3), (0, 2), (3, 0)] {
        let read = records(&fetch(&log, partition(events, place), 0).await);
        assert_eq!(read.len(), end, "partition {place}");
        assert_eq!(view(&log, partition(events, place)).bounds().high_watermark, end as i64);
    }
    assert_eq!(log.snapshot().shard_stats().len(), 4);
}

#[tokio::test]
async fn a_log_of_one_shard_gets_more_and_everything_stays_where_it_was() {
    let store = memory();
    let log = open(&store).await;
    let old = create(&log, "old", 3, &[]).await;
    append(&log, partition(old, 2), batch(&[T])).await.unwrap();
    let group = group_beyond_shard_0();
    log.commit_offsets(&group, commit(old, 1)).await.unwrap();
    log.close().await;

    let log = open_with(&store, of(4)).await;

    assert_eq!(shards_of(&log, old), [0, 0, 0]);
    assert_eq!(append(&log, partition(old, 2), batch(&[T])).await.unwrap().base_offset, 1);
    log.commit_offsets(&group, commit(partition(old, 1), 7)).await.unwrap();
    let new = create(&log, "new", 4, &[]).await;
    assert_eq!(shards_of(&log, new).into_iter().collect::<BTreeSet<_>>().len(), 4);
    log.add_partitions(old.topic_id, 7).await.unwrap();
    assert_eq!(shards_of(&log, old).into_iter().skip(3).collect::<BTreeSet<_>>().len(), 4);
    for place in 3..7 {
        append(&log, partition(old, place), batch(&[T])).await.unwrap();
    }
    log.close().await;
    let log = open_with(&store, of(2)).await;
    let offsets: Vec<_> = log.snapshot().group_offsets(&group).map(|(_, offset)| offset.offset).collect();
    assert_eq!(offsets, [1, 7], "a group is in one shard");
    assert_eq!(records(&fetch(&log, partition(old, 6), 0).await).len(), 1);
}

#[tokio::test]
async fn a_group_commits_offsets_of_partitions_of_all_shards() {
    let store = memory();
    let log = open_with(&store, of(4)).await;
    let events = create(&log, "events", 4, &[]).await;
    let group = group_beyond_shard_0();
    let all = (0..5).flat_map(|place| commit(partition(events, place), i64::from(place))).collect();
    let results = log.commit_offsets(&group, all).await.unwrap();
    assert!(results[..4].iter().all(Result::is_ok) && results[4].is_err());
    let snapshot = log.snapshot();
    assert_eq!(snapshot.groups().collect::<Vec<_>>(), [group.as_str()]);
    assert_eq!(snapshot.committed_offset(&group, partition(events, 3)).unwrap().offset, 3);
    log.delete_topic(events.topic_id).await.unwrap();
    assert_eq!(log.snapshot().group_offsets(&group).count(), 0);
}

#[tokio::test]
async fn what_shard_0_decided_before_a_crash_reaches_the_others_at_the_next_open() {
    let store = memory();
    let log = open_with(&store, of(3)).await;
    let deleted = create(&log, "deleted", 3, &[]).await;
    let changed = create(&log, "changed", 3, &[("retention.ms", "5")]).await;
    append(&log, partition(deleted, 1), batch(&[T])).await.unwrap();
    // The process ends when the changes are durable in shard 0 alone.
    let first = log.shard(ShardId(0)).unwrap();
    let new = |name: &str| CreateTopic { name: name.to_owned(), partitions: 3, configs: BTreeMap::new() };
    let created = first.change(change::create_topic(new("created"), 3, first.shared.clone())).await.unwrap();
    first.change(change::delete_topic(deleted.topic_id)).await.unwrap();
    let again = first.change(change::create_topic(new("deleted"), 3, first.shared.clone())).await.unwrap();
    let configs = BTreeMap::from([("max.message.bytes".to_owned(), "900".to_owned())]);
    let configs = ConfigChanges::ReplaceAll(configs);
    first.change(change::alter_topic_config(changed.topic_id, configs)).await.unwrap();
    first.change(change::add_partitions(changed.topic_id, 6, 3, first.shared.clone())).await.unwrap();
    let empty = view(&log, TopicPartition::new(created, 1)).bounds();
    assert_eq!((empty.high_watermark, empty.log_start_offset), (0, 0), "it is there, and nothing is in it");
    drop(log);

    let log = open_with(&store, of(3)).await;

    for (topic, partitions) in [(created, 3), (again, 3), (changed.topic_id, 6)] {
        for partition in 0..partitions {
            let appended = append(&log, TopicPartition::new(topic, partition), batch(&[T])).await.unwrap();
            assert_eq!(appended.base_offset, 0);
        }
    }
    let decided = log.shard(ShardId(0)).unwrap().shared.durable();
    for shard in 1..3 {
        let copied = log.shard(ShardId(shard)).unwrap().shared.durable();
        assert_eq!(copied.topics, decided.topics);
        assert_eq!(copied.topic_ids, decided.topic_ids);
    }
    let config: &TopicConfig = &decided.topics[&changed.topic_id].config;
    assert_eq!((config.max_message_bytes(), config.retention_ms()), (900, None));
    assert!(log.snapshot().topic_by_id(deleted.topic_id).is_none());
}

fn pending(group: &str, partition: TopicPartition, offset: i64) -> GroupOffsets {
    let pending = PendingOffset { offset, leader_epoch: -1, metadata: None, replaces: None };
    GroupOffsets { group: group.to_owned(), offsets: [(partition, pending)].into() }
}

#[tokio::test]
async fn a_transaction_over_all_shards_ends_in_each_and_is_answered_in_its_order() {
    let store = memory();
    let log = open_with(&store, of(4)).await;
    let events = create(&log, "events", 4, &[]).await;
    let producer = Some(ProducerIdentity { producer_id: 7, producer_epoch: 0, base_sequence: 0 });
    let kind = crate::format::BatchKind::Transactional;
    for place in 0..4 {
        let batch = batch_with(BatchOptions { producer, kind, ..BatchOptions::default() }, &[Some(T)]);
        append(&log, partition(events, place), batch).await.unwrap();
        assert_eq!(view(&log, partition(events, place)).bounds().last_stable_offset, 0);
    }
    let group = group_beyond_shard_0();
    let gone = TopicPartition::new(TopicId::from_bytes([9; 16]), 0);
    let end = EndTransaction {
        producer_id: 7,
        producer_epoch: 0,
        coordinator_epoch: 0,
        result: TransactionResult::Commit,
        partitions: vec![
            partition(events, 3),
            gone,
            partition(events, 0),
            partition(events, 1),
            partition(events, 2),
        ],
        offsets: vec![pending(&group, partition(events, 2), 5)],
    };
    let ended = log.end_transaction(end).await.unwrap();
    let markers: Vec<_> = ended.partitions.iter().map(|ended| ended.as_ref().ok().copied()).collect();
    assert_eq!(markers, [Some(1), None, Some(1), Some(1), Some(1)]);
    assert_eq!(ended.offsets, [[Ok(())]]);
    for place in 0..4 {
        assert_eq!(view(&log, partition(events, place)).bounds().last_stable_offset, 2);
    }
    assert_eq!(log.snapshot().committed_offset(&group, partition(events, 2)).unwrap().offset, 5);
}

#[tokio::test]
async fn records_of_all_shards_are_deleted_compacted_and_read_again() {
    let store = memory();
    let log = open_with(&store, of(4)).await;
    let events = create(&log, "events", 4, &[]).await;
    for place in 0..4 {
        for _ in 0..3 {
            append(&log, partition(events, place), batch(&[T, T])).await.unwrap();
        }
    }
    let before = (0..5).map(|place| (partition(events, place), i64::from(place))).collect();
    let deleted = log.delete_records(before).await.unwrap();
    assert_eq!(deleted[..4], [Ok(0), Ok(1), Ok(2), Ok(3)]);
    assert!(deleted[4].is_err());
    log.compact_now().await.unwrap();
    log.checkpoint_now().await.unwrap();
    let log = reopen(&store, log).await;
    for place in 0..4 {
        let id = partition(events, place);
        assert_eq!(view(&log, id).bounds().log_start_offset, i64::from(place));
        assert_eq!(view(&log, id).slices().len(), 1);
        assert_eq!(records(&fetch(&log, id, i64::from(place)).await).last().unwrap().0, 5);
    }
}

#[tokio::test]
async fn a_new_owner_fences_every_shard_of_the_old_one() {
    let store = memory();
    let old = open_with(&store, of(3)).await;
    let events = create(&old, "events", 3, &[]).await;
    let new = open_with(&store, LogSettings { node: "new-node".into(), ..of(3) }).await;
    for place in 0..3 {
        let refused = append(&old, partition(events, place), batch(&[T])).await.unwrap_err();
        let AppendError::Write(WriteError::Fenced { by }) = &refused else { panic!("{refused}") };
        assert!(by.contains("new-node"), "{by}");
        assert_eq!(append(&new, partition(events, place), batch(&[T])).await.unwrap().base_offset, 0);
    }
    assert!(matches!(old.stopped().await, Health::Fenced { .. }));
    assert!(matches!(old.health(), Health::Fenced { .. }));
}

#[tokio::test]
async fn a_shard_that_is_lost_as_a_whole_is_named_and_nothing_is_made_in_its_place() {
    let store = memory();
    let log = open_with(&store, of(3)).await;
    create(&log, "events", 3, &[]).await;
    log.close().await;
    drop(log);
    for object in store.list("shards/2").await.unwrap() {
        store.delete(&object.key).await.unwrap();
    }
    let inner: Arc<dyn LogStore> = store.clone();
    let refusals = [
        Log::open(inner.clone(), of(3), Seams::system()).await.unwrap_err(),
        Log::open(inner.clone(), of(1), Seams::system()).await.unwrap_err(),
        Log::open_read_only(inner, of(1), Seams::system()).await.unwrap_err(),
    ];
    for refusal in refusals {
        let OpenError::MissingObject { key, .. } = &refusal else { panic!("{refusal}") };
        assert_eq!(key, "shards/2/epochs");
    }
    assert!(store.list("shards/2").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_reader_beside_the_owner_sees_all_shards() {
    let store = memory();
    let owner = open_with(&store, of(4)).await;
    let events = create(&owner, "events", 4, &[]).await;
    for place in 0..4 {
        append(&owner, partition(events, place), batch(&[T])).await.unwrap();
    }
    let reader = Log::open_read_only(store.clone(), LogSettings::default(), Seams::system()).await.unwrap();
    for place in 0..4 {
        assert_eq!(records(&fetch(&reader, partition(events, place), 0).await).len(), 1);
    }
}

#[tokio::test]
async fn a_lost_object_of_shard_0_that_made_a_topic_does_not_delete_what_other_shards_hold_of_it() {
    let store = memory();
    let log = open_with(&store, of(3)).await;
    let keys = async || {
        let listed = store.list("shards/0/wal").await.unwrap();
        listed.into_iter().map(|object| object.key).collect::<BTreeSet<_>>()
    };
    let before = keys().await;
    let topic = create(&log, "events", 6, &[]).await;
    let made = keys().await;
    create(&log, "later", 1, &[]).await;
    let shards = shards_of(&log, topic);
    let elsewhere: Vec<_> = (0..6).filter(|number| shards[*number as usize] != 0).collect();
    for number in &elsewhere {
        append(&log, partition(topic, *number), batch(&[T])).await.unwrap();
    }
    log.close().await;
    drop(log);
    // Nothing that is left says what was in the object.
    for object in store.list("shards/0/checkpoints").await.unwrap() {
        store.delete(&object.key).await.unwrap();
    }
    let lost: Vec<_> = made.difference(&before).cloned().collect();
    assert_eq!(lost.len(), 1, "the topic was made by one object");
    store.delete(&lost[0]).await.unwrap();
    let settings = LogSettings { accept_loss: lost, ..of(3) };
    for settings in [settings, of(3)] {
        let log = open_with(&store, settings).await;
        assert_eq!(shards_of(&log, topic), shards);
        for number in &elsewhere {
            let kept = records(&fetch(&log, partition(topic, *number), 0).await);
            assert_eq!(kept.len(), 1, "partition {number}");
        }
        log.close().await;
    }
}
