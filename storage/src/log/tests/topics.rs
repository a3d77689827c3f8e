//! Topics, configs, groups, producer ids and schemas: state that the log keeps beside records.

use super::*;
use crate::log::{
    AddPartitionsError, CommitOffsetError, ConfigChanges, ConfigOperation, CreateTopicError, OffsetCommit,
    PutSchemaError, TopicError,
};

fn new_topic(name: &str, partitions: i32) -> CreateTopic {
    CreateTopic { name: name.to_owned(), partitions, configs: BTreeMap::new() }
}

fn commit(topic_partition: TopicPartition, offset: i64, metadata: Option<&str>) -> OffsetCommit {
    OffsetCommit { topic_partition, offset, leader_epoch: -1, metadata: metadata.map(str::to_owned) }
}

#[tokio::test]
async fn a_topic_is_there_after_a_restart_with_the_same_id_and_config() {
    let store = memory();
    let log = open(&store).await;
    create(&log, "events", 3, &[("max.message.bytes", "5000")]).await;
    let before = log.snapshot().topic("events").unwrap().clone();
    let log = reopen(&store, log).await;
    assert_eq!(log.snapshot().topic("events"), Some(&before));
    assert_eq!(before.config.max_message_bytes(), 5000);
}

#[tokio::test]
async fn topics_that_cannot_be_are_refused() {
    let store = memory();
    let log = open(&store).await;
    create(&log, "a.b", 1, &[]).await;
    let refused = async |topic| log.create_topic(topic).await.unwrap_err();
    assert_eq!(refused(new_topic("a.b", 1)).await, CreateTopicError::AlreadyExists { name: "a.b".into() });
    assert!(matches!(refused(new_topic("a_b", 1)).await, CreateTopicError::NameCollision { .. }));
    assert!(matches!(refused(new_topic("a b", 1)).await, CreateTopicError::InvalidName(_)));
    assert!(matches!(refused(new_topic("c", 0)).await, CreateTopicError::InvalidPartitions { .. }));
    let forget = BTreeMap::from([("cleanup.policy".to_owned(), "forget".to_owned())]);
    let forget = CreateTopic { configs: forget, ..new_topic("c", 1) };
    assert!(matches!(refused(forget).await, CreateTopicError::InvalidConfig(_)));
    assert!(matches!(refused(new_topic("c", i32::MAX)).await, CreateTopicError::TooMany { .. }));
}

#[tokio::test]
async fn a_deleted_topic_takes_everything_with_it() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[]).await;
    let other = create(&log, "other", 1, &[]).await;
    append(&log, events, batch(&[T])).await.unwrap();
    log.commit_offsets("readers", vec![commit(events, 1, None), commit(other, 0, None)]).await.unwrap();
    log.put_schema(events.topic_id, "columns", 0, Bytes::from_static(b"x")).await.unwrap();
    let mut changes = log.changes(&[events]);
    let kept = view(&log, events);

    log.delete_topic(events.topic_id).await.unwrap();

    changes.changed().await;
    let check = async |log: &Log| {
        let snapshot = log.snapshot();
        assert!(snapshot.topic("events").is_none() && snapshot.partition(events).is_none());
        assert_eq!(snapshot.committed_offset("readers", events), None);
        assert!(snapshot.committed_offset("readers", other).is_some());
        assert_eq!(snapshot.schema(events.topic_id, "columns"), None);
        let append = append(log, events, batch(&[T])).await;
        assert_eq!(append, Err(AppendError::UnknownTopicPartition(events)));
    };
    check(&log).await;
    assert_eq!(kept.fetch(from(0, 1)).await.unwrap().batches.len(), 1, "a running read keeps its snapshot");
    assert_eq!(log.delete_topic(events.topic_id).await, Err(TopicError::UnknownTopic));
    let again = create(&log, "events", 1, &[]).await;
    assert_ne!(again.topic_id, events.topic_id);
    assert_eq!(view(&log, again).bounds().high_watermark, 0);
    check(&reopen_with_new_topic(&store, log).await).await;
}

async fn reopen_with_new_topic(store: &Arc<CountingStore>, log: Log) -> Log {
    log.delete_topic(log.snapshot().topic("events").unwrap().id).await.unwrap();
    reopen(store, log).await
}

#[tokio::test]
async fn appends_and_a_deletion_at_once_leave_a_log_that_opens() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[]).await;
    let one = || vec![PartitionAppend { topic_partition: events, batch: batch(&[T]) }];
    let (before, second) = (log.submit(one()).await, log.submit(one()).await);
    let (deleted, after) = tokio::join!(log.delete_topic(events.topic_id), log.append(one()));
    deleted.unwrap();
    assert!(before.await[0].is_ok() && second.await[0].is_ok());
    assert_eq!(after[0], Err(AppendError::UnknownTopicPartition(events)));
    assert!(reopen(&store, log).await.snapshot().topics().next().is_none());
}

#[tokio::test]
async fn committed_offsets_keep_null_and_empty_metadata_apart() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 2, &[]).await;
    let second = TopicPartition::new(events.topic_id, 1);
    let unknown = TopicPartition::new(events.topic_id, 9);
    let offsets = vec![commit(events, 5, None), commit(second, 6, Some("")), commit(unknown, 7, None)];
    let results = log.commit_offsets("readers", offsets).await.unwrap();
    assert_eq!(results, [Ok(()), Ok(()), Err(CommitOffsetError::UnknownTopicPartition(unknown))]);
    let log = reopen(&store, log).await;
    let snapshot = log.snapshot();
    assert_eq!(snapshot.committed_offset("readers", events).unwrap().metadata, None);
    assert_eq!(snapshot.committed_offset("readers", second).unwrap().metadata.as_deref(), Some(""));
    assert_eq!(snapshot.group_offsets("readers").count(), 2);
    log.delete_group_offsets("readers", Some(vec![events])).await.unwrap();
    assert_eq!(log.snapshot().group_offsets("readers").count(), 1);
    log.delete_group_offsets("readers", None).await.unwrap();
    assert_eq!(log.snapshot().groups().count(), 0);
}

#[tokio::test]
async fn producer_ids_are_never_given_out_twice() {
    let store = memory();
    let log = open(&store).await;
    let first = log.allocate_producer_ids(10).await.unwrap();
    let log = reopen(&store, log).await;
    let second = log.allocate_producer_ids(10).await.unwrap();
    assert_eq!((first, second), (0..10, 10..20));
}

#[tokio::test]
async fn a_schema_is_replaced_only_by_whoever_saw_the_last_one() {
    let store = memory();
    let log = open(&store).await;
    let id = create(&log, "events", 1, &[]).await.topic_id;
    let put = async |expected, bytes: &'static [u8]| {
        log.put_schema(id, "columns", expected, Bytes::from_static(bytes)).await
    };
    assert_eq!(put(0, b"one").await, Ok(1));
    assert_eq!(put(0, b"other").await, Err(PutSchemaError::VersionMismatch { expected: 0, current: 1 }));
    assert_eq!(put(1, b"two").await, Ok(2));
    let log = reopen(&store, log.clone()).await;
    assert_eq!(log.snapshot().schema(id, "columns").unwrap().bytes, "two");
}

#[tokio::test]
async fn configs_change_and_go_back_to_their_defaults() {
    let store = memory();
    let log = open(&store).await;
    let id = create(&log, "events", 1, &[]).await.topic_id;
    let set = async |value: Option<&str>| set_config(&log, id, "max.message.bytes", value).await;
    set(Some("77")).await.unwrap();
    assert!(matches!(set(Some("many")).await, Err(TopicError::InvalidConfig(_))));
    let log = reopen(&store, log.clone()).await;
    assert_eq!(log.snapshot().topic("events").unwrap().config.max_message_bytes(), 77);
    set_config(&log, id, "max.message.bytes", None).await.unwrap();
    assert_eq!(log.snapshot().topic("events").unwrap().config.max_message_bytes(), 1_048_588);
}

#[tokio::test]
async fn a_topic_grows_and_never_shrinks() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 2, &[]).await;
    append(&log, events, batch(&[T])).await.unwrap();
    log.add_partitions(events.topic_id, 5).await.unwrap();
    let added = TopicPartition::new(events.topic_id, 4);
    append(&log, added, batch(&[T])).await.unwrap();
    for requested in [5, 1, -7, i32::MIN] {
        let not_more = Err(AddPartitionsError::NotMore { current: 5, requested });
        assert_eq!(log.check_add_partitions(events.topic_id, requested), not_more);
        assert_eq!(log.add_partitions(events.topic_id, requested).await, not_more);
    }
    let too_many = log.add_partitions(events.topic_id, i32::MAX).await;
    assert!(matches!(too_many, Err(AddPartitionsError::TooMany { .. })));
    let log = reopen(&store, log).await;
    assert_eq!(log.snapshot().topic("events").unwrap().partition_count, 5);
    let ends = [events, added].map(|partition| view(&log, partition).bounds().high_watermark);
    assert_eq!(ends, [1, 1]);
    log.delete_topic(events.topic_id).await.unwrap();
    assert_eq!(log.add_partitions(events.topic_id, 6).await, Err(AddPartitionsError::UnknownTopic));
}

#[tokio::test]
async fn additions_to_a_list_at_the_same_time_are_all_kept() {
    let store = memory();
    let log = open(&store).await;
    let events = create(&log, "events", 1, &[("leader.replication.throttled.replicas", "0:0")]).await;
    let add = |item: &str| {
        let operation = ConfigOperation::Append(item.to_owned());
        let changes =
            ConfigChanges::Each(vec![("leader.replication.throttled.replicas".to_owned(), operation)]);
        log.alter_topic_config(events.topic_id, changes)
    };
    let (first, second) = tokio::join!(add("1:0"), add("2:0"));
    assert_eq!((first, second), (Ok(()), Ok(())));
    let log = reopen(&store, log).await;
    let topic = log.snapshot().topic("events").unwrap().clone();
    let entry = topic.config.entry_of("leader.replication.throttled.replicas").unwrap();
    assert_eq!(entry.value.split(',').count(), 3, "{}", entry.value);
}
