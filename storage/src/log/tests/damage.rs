//! Damage is detected, named and contained; nothing is repaired by guessing.

use super::*;
use crate::log::{FetchError, OpenError};

async fn wal_keys(store: &Arc<CountingStore>) -> Vec<String> {
    store.list("shards/0/wal").await.unwrap().into_iter().map(|object| object.key).collect()
}

/// Replaces an object, which the log itself never does.
async fn replace(store: &Arc<CountingStore>, key: &str, bytes: Bytes) {
    store.delete(key).await.unwrap();
    store.create(key, bytes).await.unwrap();
}

async fn try_open(store: &Arc<CountingStore>) -> Result<Log, OpenError> {
    let settings = LogSettings { tail_bytes_max: 0, ..LogSettings::default() };
    Log::open(store.clone(), settings, Seams::system()).await
}

/// A store with two partitions and one record in each of five objects, the partitions taking turns.
async fn store_with_records() -> (Arc<CountingStore>, TopicPartition, TopicPartition) {
    let store = memory();
    let log = open(&store).await;
    let first = create(&log, "events", 2, &[]).await;
    let second = TopicPartition::new(first.topic_id, 1);
    for partition in [first, second, first, second, first] {
        append(&log, partition, batch(&[T])).await.unwrap();
    }
    // Not closed: a checkpoint would cover all objects.
    drop(log);
    (store, first, second)
}

#[tokio::test]
async fn a_flipped_bit_in_a_batch_fails_only_the_reads_over_it() {
    let (store, first, second) = store_with_records().await;
    let key = wal_keys(&store).await[4].clone();
    let mut bytes = store.get(&key).await.unwrap().to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    replace(&store, &key, bytes.into()).await;

    let log = try_open(&store).await.unwrap();

    let damaged = view(&log, first).fetch(from(1, usize::MAX)).await.unwrap_err();
    let FetchError::Damaged { object, base_offset, last_offset, .. } = damaged else { panic!("{damaged}") };
    assert_eq!((object, base_offset, last_offset), (key, 1, 1));
    assert_eq!(records(&view(&log, first).fetch(from(2, 1000)).await.unwrap()), [(2, Some(T))]);
    assert_eq!(records(&fetch(&log, second, 0).await).len(), 2);
    assert_eq!(append(&log, first, batch(&[T])).await.unwrap().base_offset, 3);
}

#[tokio::test]
async fn damage_to_the_front_of_an_object_refuses_to_open_and_names_it() {
    let (store, ..) = store_with_records().await;
    let key = wal_keys(&store).await[3].clone();
    let whole = store.get(&key).await.unwrap();
    for position in [0, 9, 40, 100, 130] {
        let mut bytes = whole.to_vec();
        bytes[position] ^= 1;
        replace(&store, &key, bytes.into()).await;
        let error = try_open(&store).await.unwrap_err();
        assert!(error.to_string().contains(&key), "byte {position}: {error}");
    }
    replace(&store, &key, whole.slice(..50)).await;
    assert!(matches!(try_open(&store).await.unwrap_err(), OpenError::Unreadable { .. }));
    replace(&store, &key, Bytes::new()).await;
    assert!(matches!(try_open(&store).await.unwrap_err(), OpenError::Unreadable { .. }));
    replace(&store, &key, whole).await;
    try_open(&store).await.unwrap();
}

#[tokio::test]
async fn a_missing_object_that_was_acked_is_damage_and_no_end() {
    let (store, ..) = store_with_records().await;
    let keys = wal_keys(&store).await;
    let bytes = store.get(&keys[3]).await.unwrap();
    store.delete(&keys[3]).await.unwrap();

    let error = try_open(&store).await.unwrap_err();

    assert!(matches!(&error, OpenError::MissingObject { key, .. } if *key == keys[3]), "{error}");
    let reader = Log::open_read_only(store.clone(), LogSettings::default(), Seams::system()).await;
    assert!(matches!(reader.unwrap_err(), OpenError::MissingObject { .. }));
    store.create(&keys[3], bytes).await.unwrap();
    assert!(try_open(&store).await.is_ok(), "nothing was put in its place");
}

#[tokio::test]
async fn an_object_in_the_place_of_another_is_refused() {
    let (store, ..) = store_with_records().await;
    let keys = wal_keys(&store).await;
    let other = store.get(&keys[4]).await.unwrap();
    replace(&store, &keys[3], other).await;
    assert!(matches!(try_open(&store).await.unwrap_err(), OpenError::Unreadable { .. }));
}

#[tokio::test]
async fn a_newer_format_is_refused_naming_the_version_it_needs() {
    let (store, ..) = store_with_records().await;
    let creates = store.counts().creates;
    let key = wal_keys(&store).await[2].clone();
    let mut bytes = store.get(&key).await.unwrap().to_vec();
    bytes[8] = 9;
    replace(&store, &key, bytes.into()).await;
    let error = try_open(&store).await.unwrap_err().to_string();
    assert!(error.contains("format version 9"), "{error}");
    let only_claim_and_ours = store.counts().creates - creates;
    assert_eq!(only_claim_and_ours, 2, "the replaced object and the claim of the epoch");
}
