//! A store that the first version of the format wrote, kept with the source: every later build has
//! to open it and find the same in it.

use std::path::{Path, PathBuf};

use super::*;
use crate::log::OffsetCommit;
use crate::object::DurableLocal;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/format-1")
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Writes one of everything.
async fn write(log: &Log) {
    let events = create(log, "events", 2, &[("max.message.bytes", "70000")]).await;
    for codec in Compression::ALL {
        append(log, events, compressed(codec, &[T, T + 10, T - 5])).await.unwrap();
    }
    append(log, TopicPartition::new(events.topic_id, 1), idempotent(0, 0, 2)).await.unwrap();
    let metadata = Some("halfway".to_owned());
    let offset = OffsetCommit { topic_partition: events, offset: 7, leader_epoch: 0, metadata };
    log.commit_offsets("readers", vec![offset]).await.unwrap();
    log.put_schema(events.topic_id, "columns", 0, Bytes::from_static(b"opaque")).await.unwrap();
    set_config(log, events.topic_id, "retention.ms", Some("-1")).await.unwrap();
    log.allocate_producer_ids(10).await.unwrap();
    let gone = create(log, "gone", 1, &[]).await;
    log.delete_topic(gone.topic_id).await.unwrap();
    log.close().await;
}

async fn check(log: &Log) {
    let snapshot = log.snapshot();
    let names: Vec<_> = snapshot.topics().map(|topic| topic.name.as_str()).collect();
    assert_eq!(names, ["events"]);
    let topic = snapshot.topic("events").unwrap();
    assert_eq!(topic.config.max_message_bytes(), 70_000);
    let events = TopicPartition::new(topic.id, 0);
    let expected: Vec<_> = (0..15).zip([T, T + 10, T - 5].into_iter().cycle().map(Some)).collect();
    assert_eq!(records(&fetch(log, events, 0).await), expected);
    let found = view(log, events).lookup_time(T + 1, Isolation::ReadUncommitted).await.unwrap().unwrap();
    assert_eq!((found.offset, found.timestamp), (1, T + 10));
    assert_eq!(snapshot.committed_offset("readers", events).unwrap().metadata.as_deref(), Some("halfway"));
    assert_eq!(snapshot.schema(topic.id, "columns").unwrap().bytes, "opaque");
    assert_eq!(log.allocate_producer_ids(1).await.unwrap(), 10..11);
    let again = append(log, TopicPartition::new(topic.id, 1), idempotent(0, 0, 2)).await.unwrap();
    assert_eq!((again.base_offset, again.is_duplicate), (0, true));
}

#[tokio::test]
async fn a_store_of_format_1_opens_with_everything_in_it() {
    let directory = tempfile::tempdir().unwrap();
    copy(&golden(), directory.path());
    let store = Arc::new(DurableLocal::open(directory.path()).unwrap());
    let log = Log::open(store, LogSettings::default(), Seams::system()).await.unwrap();
    check(&log).await;
}

/// What the golden store was made with still gives a store that passes the same check. Set
/// STRANDLINE_WRITE_GOLDEN to a new directory to keep what it writes, for a new format version.
#[tokio::test]
async fn what_this_build_writes_has_everything_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("STRANDLINE_WRITE_GOLDEN").map(PathBuf::from);
    let root = kept.as_deref().unwrap_or(directory.path());
    let open = async || {
        let store = Arc::new(DurableLocal::open(root).unwrap());
        Log::open(store, LogSettings::default(), Seams::system()).await.unwrap()
    };
    write(&open().await).await;
    if kept.is_none() {
        check(&open().await).await;
    }
}
