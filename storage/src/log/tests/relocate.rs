//! A process that only reads, while the owner of the log compacts what it reads and deletes it.

use std::time::Duration;

use super::*;
use crate::ids::ShardId;
use crate::log::keys::ShardKeys;
use crate::log::{FetchError, MaintenanceSettings};

/// Deletes at once, but only when it is told to.
fn eager(merge_slices: usize) -> LogSettings {
    let never = Duration::from_secs(1 << 30);
    let maintenance = MaintenanceSettings {
        compaction_interval: never,
        checkpoint_interval: never,
        checkpoint_age_max: never,
        clean_interval: never,
        checkpoints_kept: 1,
        merge_slices,
        wal_delete_delay: Duration::ZERO,
        segment_delete_delay: Some(Duration::ZERO),
        erase_delay: Duration::ZERO,
        ..MaintenanceSettings::default()
    };
    LogSettings { maintenance, ..LogSettings::default() }
}

/// The owner of a log, and what the store holds.
struct Owner {
    store: Arc<CountingStore>,
    log: Log,
    id: TopicPartition,
    appended: i64,
}

impl Owner {
    async fn new(configs: &[(&str, &str)]) -> Self {
        let store = memory();
        let log = open_with(&store, eager(16)).await;
        let id = create(&log, "events", 1, configs).await;
        Self { store, log, id, appended: 0 }
    }

    /// Appends batches of three records; the time of each record is its offset.
    async fn append(&mut self, batches: usize) {
        for _ in 0..batches {
            let times: Vec<_> = (self.appended..self.appended + 3).map(|offset| T + offset).collect();
            append(&self.log, self.id, batch(&times)).await.unwrap();
            self.appended += 3;
        }
    }

    async fn compact(&self) {
        self.log.compact_now().await.unwrap();
    }

    /// Puts everything into other objects than before, and deletes those.
    async fn move_all(&mut self) {
        self.log = open_with(&self.store, eager(2)).await;
        let before = self.objects();
        // A slice is merged with what follows as soon as it is not larger than that.
        self.append(1 + self.appended as usize / 3).await;
        self.compact().await;
        self.log.checkpoint_now().await.unwrap();
        self.log.collect_now().await.unwrap();
        let after = self.store.list("").await.unwrap();
        let left: Vec<_> = after.into_iter().filter(|object| before.contains(&object.key)).collect();
        assert!(!before.is_empty() && left.is_empty(), "{left:?}");
    }

    /// The keys of all objects that the newest state refers to, segments first.
    fn objects(&self) -> Vec<String> {
        let view = view(&self.log, self.id);
        let segments = view.slices().map(|slice| view.slice_object(slice));
        let wal = view.tail().map(|block| ShardKeys::new(ShardId(0)).block_object(block.object));
        segments.chain(wal).collect()
    }

    /// A process that only reads, and keeps nothing in memory.
    async fn reader(&self) -> PartitionView {
        let settings = LogSettings { tail_bytes_max: 0, cache_bytes_max: 0, ..LogSettings::default() };
        let log = Log::open_read_only(self.store.clone(), settings, Seams::system()).await.unwrap();
        view(&log, self.id)
    }
}

/// Everything from an offset to the end of the view, in fetches of a few bytes.
async fn fetch_all(view: &PartitionView, start: i64) -> Result<Vec<(i64, Option<i64>)>, FetchError> {
    let (mut offset, mut found) = (start, Vec::new());
    while offset < view.bounds().high_watermark {
        let fetched = view.fetch(from(offset, 200)).await?;
        assert!(!fetched.batches.is_empty(), "a fetch at offset {offset} goes on");
        found.extend(records(&fetched));
        offset = fetched.next_offset;
    }
    Ok(found)
}

fn expected(range: std::ops::Range<i64>) -> Vec<(i64, Option<i64>)> {
    range.map(|offset| (offset, Some(T + offset))).collect()
}

async fn check_whole(view: &PartitionView) {
    let end = view.bounds().high_watermark;
    assert_eq!(fetch_all(view, 0).await.unwrap(), expected(0..end));
    for offset in [0, 1, 7, end - 1] {
        let found = view.lookup_time(T + offset, Isolation::ReadUncommitted).await.unwrap();
        assert_eq!(found.map(|found| found.offset), Some(offset));
    }
    assert_eq!(view.lookup_time(T + end, Isolation::ReadUncommitted).await.unwrap(), None);
}

#[tokio::test]
async fn a_tail_that_was_compacted_and_deleted_is_read_from_segments() {
    let mut owner = Owner::new(&[]).await;
    owner.append(10).await;
    let reader = owner.reader().await;
    assert_eq!((reader.slices().len(), reader.tail().len()), (0, 10));
    owner.move_all().await;
    check_whole(&reader).await;
}

#[tokio::test]
async fn slices_that_were_merged_and_deleted_are_read_from_where_they_are_within_their_bounds() {
    let mut owner = Owner::new(&[]).await;
    for _ in 0..2 {
        owner.append(4).await;
        owner.compact().await;
    }
    owner.append(1).await;
    let reader = owner.reader().await;
    assert_eq!((reader.slices().len(), reader.tail().len()), (2, 1));
    owner.move_all().await;
    check_whole(&reader).await;
    // All of it is in one block by now, and each slice has its part.
    for slice in reader.slices() {
        let blocks = reader.slice_blocks(slice).await.unwrap();
        let bounds: Vec<_> = blocks.iter().map(|block| (block.base_offset, block.next_offset)).collect();
        assert_eq!(bounds, [(slice.slice.base_offset, slice.slice.next_offset)]);
        let counted: u64 = blocks.iter().map(|block| u64::from(block.data_count)).sum();
        assert_eq!(counted, slice.slice.data_count);
    }
}

#[tokio::test]
async fn what_moves_again_while_it_is_read_is_found_again() {
    let mut owner = Owner::new(&[]).await;
    owner.append(4).await;
    owner.compact().await;
    owner.append(4).await;
    let reader = owner.reader().await;
    let index = reader.slice_blocks(reader.slice(0).unwrap()).await.unwrap();
    for _ in 0..4 {
        owner.move_all().await;
        // Blocks that were found before are read by themselves.
        assert_eq!(reader.read_blocks(&index).await.unwrap().len(), index.len());
        check_whole(&reader).await;
    }
}

#[tokio::test]
async fn the_state_is_read_again_once_for_all_that_moved_together() {
    let mut owner = Owner::new(&[]).await;
    owner.append(10).await;
    let reader = owner.reader().await;
    owner.move_all().await;
    fetch_all(&reader, 0).await.unwrap();
    let before = owner.store.counts();
    fetch_all(&reader, 0).await.unwrap();
    let after = owner.store.counts();
    assert_eq!(after.lists, before.lists, "nothing is listed again");
}

#[tokio::test]
async fn an_object_that_is_really_missing_is_damage() {
    let mut owner = Owner::new(&[]).await;
    owner.append(4).await;
    let reader = owner.reader().await;
    owner.move_all().await;
    owner.append(1).await;
    let newer = owner.reader().await;
    let objects = owner.objects();
    assert!(objects.len() == 2 && objects[0].ends_with(".seg"), "{objects:?}");
    owner.store.delete(&objects[0]).await.unwrap();
    for view in [&reader, &newer] {
        let error = fetch_all(view, 0).await.unwrap_err();
        let FetchError::Damaged { object, base_offset, .. } = &error else { panic!("{error}") };
        assert_eq!((object, *base_offset), (&objects[0], 0));
        assert!(error.to_string().contains("the object is missing"), "{error}");
    }
    let tail = newer.bounds().high_watermark - 3;
    assert_eq!(fetch_all(&newer, tail).await.unwrap(), expected(tail..tail + 3), "the rest is whole");
}

#[tokio::test]
async fn the_newest_object_is_missing_although_the_state_that_is_read_again_ends_before_it() {
    let mut owner = Owner::new(&[]).await;
    owner.append(4).await;
    owner.compact().await;
    owner.append(2).await;
    let reader = owner.reader().await;
    let newest = owner.objects().pop().unwrap();
    owner.store.delete(&newest).await.unwrap();
    // Nothing says that this object was ever there, but the view has it.
    for start in [0, 12, 15] {
        let error = fetch_all(&reader, start).await.unwrap_err();
        let FetchError::Damaged { object, base_offset, last_offset, .. } = &error else { panic!("{error}") };
        assert_eq!((object, *base_offset, *last_offset), (&newest, 15, 17));
    }
}

fn assert_removed(read: Result<Vec<(i64, Option<i64>)>, FetchError>) {
    let error = read.unwrap_err();
    assert!(matches!(error, FetchError::Removed { .. }), "{error}");
    assert!(error.to_string().contains("run the statement again"), "{error}");
}

#[tokio::test]
async fn records_that_were_deleted_meanwhile_are_an_error_and_the_others_are_read() {
    let mut owner = Owner::new(&[]).await;
    owner.append(8).await;
    let reader = owner.reader().await;
    owner.log.delete_records(vec![(owner.id, 7)]).await.unwrap()[0].clone().unwrap();
    owner.move_all().await;
    for start in [0, 3] {
        assert_removed(fetch_all(&reader, start).await);
    }
    assert_eq!(fetch_all(&reader, 6).await.unwrap(), expected(6..24), "the batch is still there, whole");
    assert_eq!(fetch_all(&reader, 9).await.unwrap(), expected(9..24));
    owner.log.delete_topic(owner.id.topic_id).await.unwrap();
    owner.log.checkpoint_now().await.unwrap();
    owner.log.collect_now().await.unwrap();
    assert_removed(fetch_all(&reader, 9).await);
}

#[tokio::test]
async fn of_a_slice_that_was_cut_by_a_deletion_meanwhile_only_what_is_gone_is_an_error() {
    let mut owner = Owner::new(&[]).await;
    owner.append(8).await;
    owner.compact().await;
    let reader = owner.reader().await;
    owner.log.delete_records(vec![(owner.id, 7)]).await.unwrap()[0].clone().unwrap();
    owner.move_all().await;
    let blocks = reader.slice_blocks(reader.slice(0).unwrap()).await.unwrap();
    let bounds: Vec<_> = blocks.iter().map(|b| (b.base_offset, b.next_offset, b.data_count)).collect();
    assert_eq!(bounds, [(0, 6, 6), (6, 24, 18)]);
    assert_removed(fetch_all(&reader, 5).await);
    assert_eq!(fetch_all(&reader, 6).await.unwrap(), expected(6..24));
}

#[tokio::test]
async fn a_batch_that_the_log_start_cut_before_is_read_after_the_batches_before_it_are_gone() {
    let mut owner = Owner::new(&[]).await;
    owner.append(8).await;
    owner.compact().await;
    owner.log.delete_records(vec![(owner.id, 7)]).await.unwrap()[0].clone().unwrap();
    let reader = owner.reader().await;
    owner.move_all().await;
    assert_eq!(fetch_all(&reader, 7).await.unwrap(), expected(6..24), "batches are never cut");
    let found = reader.lookup_time(T, Isolation::ReadUncommitted).await.unwrap();
    assert_eq!(found.map(|found| found.offset), Some(7));
}

#[tokio::test]
async fn records_that_were_cleaned_meanwhile_are_an_error() {
    let cleaned = [("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0")];
    let mut owner = Owner::new(&cleaned).await;
    owner.append(4).await;
    let by_block = owner.reader().await;
    // All records have one key, and cleaning goes with the compaction.
    owner.compact().await;
    let by_slice = owner.reader().await;
    owner.move_all().await;
    assert_removed(fetch_all(&by_block, 0).await);
    assert_removed(fetch_all(&by_slice, 0).await);
    let newest = fetch_all(&owner.reader().await, 0).await.unwrap();
    assert!(newest.len() < 12, "{newest:?}");
}
