//! What a full disk, missing rights and a failure of our own do, and that all of them pass.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;

use super::*;
use crate::log::{Health, WriteError};
use crate::object::{LargeObject, ObjectMeta, ObjectPrefix, StoreError};
use crate::seam::Failpoints;

/// A store in memory that can be full or closed. What it holds back is room for so many bytes.
#[derive(Debug)]
struct Limited {
    inner: ObjectStoreBackend,
    room: AtomicU64,
    reserve: AtomicU64,
    denies: AtomicBool,
}

const RESERVE: u64 = 20_000;

impl Limited {
    fn new(room: u64) -> Arc<Self> {
        Arc::new(Self {
            inner: ObjectStoreBackend::memory(),
            room: AtomicU64::new(room),
            reserve: AtomicU64::new(RESERVE),
            denies: AtomicBool::new(false),
        })
    }

    fn take(&self, key: &str, bytes: u64) -> Result<(), StoreError> {
        if self.denies.load(Ordering::SeqCst) {
            return Err(StoreError::Denied { key: key.to_owned(), reason: "the key has expired".to_owned() });
        }
        let take = |room: u64| room.checked_sub(bytes);
        let taken = self.room.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
        let full = |_| StoreError::NoSpace { key: key.to_owned(), reason: "the disk is full".to_owned() };
        taken.map(drop).map_err(full)
    }
}

#[async_trait]
impl LogStore for Limited {
    async fn create(&self, key: &str, bytes: Bytes) -> Result<(), StoreError> {
        self.take(key, bytes.len() as u64)?;
        self.inner.create(key, bytes).await
    }

    async fn create_large(&self, key: &str) -> Result<Box<dyn LargeObject>, StoreError> {
        self.take(key, 1000)?;
        self.inner.create_large(key).await
    }

    async fn get(&self, key: &str) -> Result<Bytes, StoreError> {
        self.inner.get(key).await
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes, StoreError> {
        self.inner.get_range(key, range).await
    }

    async fn get_prefix(&self, key: &str, length: u64) -> Result<ObjectPrefix, StoreError> {
        self.inner.get_prefix(key, length).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>, StoreError> {
        self.inner.list(prefix).await
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        if let Ok(bytes) = self.inner.get(key).await {
            self.room.fetch_add(bytes.len() as u64, Ordering::SeqCst);
        }
        self.inner.delete(key).await
    }

    async fn sync(&self, key: &str) -> Result<(), StoreError> {
        self.inner.sync(key).await
    }

    async fn release_reserve(&self) -> Result<bool, StoreError> {
        let reserve = self.reserve.swap(0, Ordering::SeqCst);
        self.room.fetch_add(reserve, Ordering::SeqCst);
        Ok(reserve > 0)
    }

    async fn restore_reserve(&self) -> Result<bool, StoreError> {
        // As much again stays free, so that the next append does not meet a full disk at once.
        let take = |room: u64| (room >= 2 * RESERVE).then(|| room - RESERVE);
        let restored = self.room.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok();
        if restored {
            self.reserve.store(RESERVE, Ordering::SeqCst);
        }
        Ok(restored)
    }

    fn linger_default(&self) -> Duration {
        Duration::ZERO
    }

    fn location(&self) -> &str {
        "memory://limited"
    }
}

async fn open_limited(store: &Arc<Limited>) -> Log {
    let store: Arc<dyn LogStore> = store.clone();
    Log::open(store, LogSettings::default(), Seams::simulated(5)).await.expect("the log opens")
}

async fn wait_until(mut condition: impl FnMut() -> bool) {
    tokio::time::timeout(Duration::from_secs(600), async {
        let mut pause = tokio::time::interval(Duration::from_millis(100));
        while !condition() {
            pause.tick().await;
        }
    })
    .await
    .expect("the condition comes true");
}

/// Values of the records of a partition, which are the numbers of their appends.
async fn offsets(log: &Log, id: TopicPartition) -> Vec<i64> {
    records(&fetch(log, id, 0).await).into_iter().map(|(offset, _)| offset).collect()
}

fn dense(count: i64) -> Vec<i64> {
    (0..count).collect()
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_refuses_appends_and_lets_reads_and_deletions_through() {
    let store = Limited::new(100_000);
    let log = open_limited(&store).await;
    let kept = create(&log, "kept", 1, &[]).await;
    let ballast = create(&log, "ballast", 1, &[]).await;
    let mut acked = 0;
    let refused = loop {
        match append(&log, kept, batch(&[T; 10])).await {
            Ok(appended) => assert_eq!(appended.base_offset, acked * 10),
            Err(error) => break error,
        }
        acked += 1;
        if acked < 40 {
            append(&log, ballast, batch(&[T; 10])).await.expect("there is room");
        }
    };
    let AppendError::Write(WriteError::Refused { reason }) = &refused else { panic!("{refused}") };
    assert!(reason.contains("the disk is full"), "{reason}");
    assert!(matches!(log.health(), Health::Refusing { .. }));
    assert_eq!(offsets(&log, kept).await, dense(acked * 10));

    log.delete_topic(ballast.topic_id).await.expect("a deletion commits from the reserve");
    log.compact_now().await.expect("what is kept is compacted");
    log.checkpoint_now().await.expect("the checkpoint has room");
    wait_until(|| log.health() == Health::Serving).await;

    let appended = append(&log, kept, batch(&[T])).await.expect("there is room again");
    assert_eq!(appended.base_offset, acked * 10);
    assert_eq!(offsets(&log, kept).await, dense(acked * 10 + 1));
    assert_eq!(store.reserve.load(Ordering::SeqCst), RESERVE, "the reserve is whole again");
}

#[tokio::test(start_paused = true)]
async fn expired_credentials_refuse_appends_until_they_are_renewed() {
    let store = Limited::new(u64::MAX / 2);
    let log = open_limited(&store).await;
    let id = create(&log, "a", 1, &[]).await;
    append(&log, id, batch(&[T])).await.expect("the store takes it");
    store.denies.store(true, Ordering::SeqCst);
    let waiting = tokio::spawn({
        let log = log.clone();
        async move { append(&log, id, batch(&[T])).await }
    });
    wait_until(|| matches!(log.health(), Health::Refusing { .. })).await;
    let refused = append(&log, id, batch(&[T])).await;
    assert!(matches!(refused, Err(AppendError::Write(WriteError::Refused { .. }))), "{refused:?}");
    assert_eq!(offsets(&log, id).await, dense(1));
    store.denies.store(false, Ordering::SeqCst);
    let appended = waiting.await.expect("the task ends").expect("what was under way is not taken back");
    assert_eq!(appended.base_offset, 1);
    assert_eq!(log.health(), Health::Serving);
    assert_eq!(append(&log, id, batch(&[T])).await.expect("the store takes it").base_offset, 2);
}

/// Panics when a place is reached for the n-th time.
#[derive(Debug)]
struct PanicAt {
    name: &'static str,
    left: AtomicU64,
}

impl Failpoints for PanicAt {
    fn reach(&self, name: &str) {
        if name == self.name && self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            panic!("a failure of our own");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_our_own_opens_the_log_again_in_place() {
    let store = memory();
    let failpoints = Arc::new(PanicAt { name: "commit.seal", left: AtomicU64::new(5) });
    let seams = Seams { failpoints: Some(failpoints), ..Seams::simulated(1) };
    let log = Log::open(store.clone(), LogSettings::default(), seams).await.expect("the log opens");
    let id = create(&log, "a", 1, &[]).await;
    let mut appended = Vec::new();
    let mut failed = 0;
    for number in 0..10 {
        match append(&log, id, idempotent(0, number, 1)).await {
            Ok(done) => appended.push(done.base_offset),
            Err(AppendError::Write(WriteError::Reopening { .. } | WriteError::Closed)) => {
                failed += 1;
                let again = append(&log, id, idempotent(0, number, 1)).await.expect("the retry succeeds");
                appended.push(again.base_offset);
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((failed, appended), (1, dense(10)));
    assert_eq!(offsets(&log, id).await, dense(10));
    assert_eq!(log.health(), Health::Serving);
    let epochs = store.list("shards/0/epochs").await.expect("memory lists");
    assert_eq!(epochs.len(), 2, "the log was opened again under a new epoch");
    log.compact_now().await.expect("the log is compacted over both epochs");
    log.checkpoint_now().await.expect("the checkpoint is written");
    tokio::time::advance(Duration::from_secs(61)).await;
    log.collect_now().await.expect("what is not needed is deleted");
    assert_eq!(offsets(&reopen(&store, log).await, id).await, dense(10));
}
