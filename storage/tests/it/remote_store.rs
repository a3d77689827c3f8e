//! What a remote store promises, against an S3 server in memory, over HTTP.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use strandline_s3_mock::{Conditions, Counts, Fault, MockOptions, Operation, S3Mock};
use strandline_storage::object::{
    DataLocation, LogStore, ObjectMeta, ObjectPrefix, ProbeError, StoreErrorKind, StoreSettings, probe,
};
use strandline_storage::seam::SeededRng;

use crate::s3::{self, open, settings};

/// Larger objects go in parts of this size.
const PART_BYTES: usize = 8 << 20;

const BYTES: Bytes = Bytes::from_static(b"0123456789");

async fn start() -> (S3Mock, Arc<dyn LogStore>) {
    let mock = s3::start().await;
    let store = open(&mock, "s3://bucket/some/prefix");
    (mock, store)
}

async fn create(store: &dyn LogStore, key: &str) -> Result<(), StoreErrorKind> {
    store.create(key, BYTES).await.map_err(|error| error.kind())
}

#[tokio::test]
async fn put_if_absent_is_kept_below_the_prefix() {
    let (mock, store) = start().await;
    assert_eq!(create(&*store, "a/b").await, Ok(()));
    assert_eq!(create(&*store, "a/b").await, Err(StoreErrorKind::AlreadyExists));
    let objects = mock.objects();
    assert_eq!(objects.keys().collect::<Vec<_>>(), ["bucket/some/prefix/a/b"]);
    assert_eq!(create(&*open(&mock, "s3://bucket/other"), "a/b").await, Ok(()));
    assert_eq!(create(&*open(&mock, "s3://bucket"), "a/b").await, Ok(()));
}

#[tokio::test]
async fn one_of_eight_racing_creates_wins() {
    let (_mock, store) = start().await;
    let answers = join_all((0..8).map(|_| create(&*store, "key"))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
    let lost = answers.iter().filter(|answer| **answer == Err(StoreErrorKind::AlreadyExists)).count();
    assert_eq!(lost, 7, "{answers:?}");
}

#[tokio::test]
async fn reads_are_clipped_and_cost_one_request() {
    let (mock, store) = start().await;
    create(&*store, "a").await.expect("the key is free");
    mock.reset_counts();
    assert_eq!(store.get("a").await.expect("it is there"), BYTES);
    assert_eq!(store.get_range("a", 2..5).await.expect("it is there"), "234");
    assert_eq!(store.get_range("a", 8..20).await.expect("it is there"), "89");
    let prefix = store.get_prefix("a", 4).await.expect("it is there");
    assert_eq!(prefix, ObjectPrefix { bytes: Bytes::from_static(b"0123"), object_length: 10 });
    assert_eq!(mock.counts(), Counts { gets: 4, bytes_out: 19, ..Counts::default() });
    for range in [10..11, 99..u64::MAX, 5..5] {
        assert_eq!(store.get_range("a", range).await.expect("it is there"), "");
    }
    for answer in [store.get("b").await, store.get_range("b", 0..1).await, store.get_range("b", 0..0).await] {
        assert_eq!(answer.expect_err("it is not there").kind(), StoreErrorKind::NotFound);
    }
}

#[tokio::test]
async fn an_empty_object_is_read_as_such() {
    let (_mock, store) = start().await;
    store.create("empty", Bytes::new()).await.expect("the key is free");
    assert_eq!(store.get("empty").await.expect("it is there"), "");
    let prefix = store.get_prefix("empty", 4).await.expect("it is there");
    assert_eq!(prefix, ObjectPrefix { bytes: Bytes::new(), object_length: 0 });
}

#[tokio::test]
async fn listings_are_sorted_whole_and_keep_to_components_and_prefix() {
    let options = MockOptions { page_entries_max: 2, ..MockOptions::default() };
    let mock = S3Mock::start(options).await.expect("a port is free");
    let store = open(&mock, "s3://bucket/p");
    for key in ["x/b/2", "x/b/10", "x/a", "xy/1", "x/b0"] {
        create(&*store, key).await.expect("the key is free");
    }
    create(&*open(&mock, "s3://bucket/p2"), "x/b/3").await.expect("the key is free");
    let list = async |prefix: &str| store.list(prefix).await.expect("it can be listed");
    let metas = |keys: &[&str]| -> Vec<ObjectMeta> {
        keys.iter().map(|key| ObjectMeta { key: (*key).to_owned(), length: 10 }).collect()
    };
    assert_eq!(list("").await, metas(&["x/a", "x/b/10", "x/b/2", "x/b0", "xy/1"]));
    assert_eq!(list("x/b").await, metas(&["x/b/10", "x/b/2"]));
    assert_eq!(list("x/b/").await, metas(&["x/b/10", "x/b/2"]));
    assert_eq!(list("nothing").await, []);
}

#[tokio::test]
async fn deleting_is_done_once_and_asked_as_often_as_one_likes() {
    let (mock, store) = start().await;
    create(&*store, "a").await.expect("the key is free");
    store.delete("a").await.expect("it is there");
    store.delete("a").await.expect("an absent object is deleted already");
    assert!(mock.objects().is_empty());
}

#[tokio::test]
async fn a_reader_changes_nothing() {
    let (mock, store) = start().await;
    create(&*store, "a").await.expect("the key is free");
    let location: DataLocation = "s3://bucket/some/prefix".parse().expect("the location is good");
    let reader = location.open_read_only(&settings(&mock)).expect("the settings are good");
    assert_eq!(reader.get("a").await.expect("it is there"), BYTES);
    assert_eq!(create(&*reader, "b").await, Err(StoreErrorKind::Denied));
    assert_eq!(reader.delete("a").await.expect_err("readers cannot delete").kind(), StoreErrorKind::Denied);
    assert!(reader.create_large("b").await.is_err(), "readers cannot create");
    assert_eq!(mock.objects().len(), 1);
}

#[tokio::test]
async fn a_large_object_goes_in_parts_and_a_smaller_one_in_one_put() {
    let (mock, store) = start().await;
    for (length, expected) in [
        (PART_BYTES - 1, Counts { puts: 1, ..Counts::default() }),
        (
            2 * PART_BYTES + 5,
            Counts { uploads_created: 1, parts: 3, uploads_completed: 1, ..Counts::default() },
        ),
    ] {
        mock.reset_counts();
        let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let mut large = store.create_large("large").await.expect("the key is good");
        for piece in bytes.chunks(3 << 20) {
            large.write(Bytes::copy_from_slice(piece)).await.expect("the server takes bytes");
        }
        large.finish().await.expect("the server joins them");
        assert_eq!(mock.counts(), Counts { bytes_in: length as u64, ..expected });
        assert!(store.get("large").await.expect("it is finished") == bytes, "{length} bytes");
    }
}

#[tokio::test]
async fn a_part_that_fails_for_a_moment_is_sent_again() {
    let (mock, store) = start().await;
    mock.fault_next(2, Operation::UploadPart, Fault::Refuse(503));
    let mut large = store.create_large("large").await.expect("the key is good");
    large.write(vec![1; PART_BYTES].into()).await.expect("the server takes bytes");
    large.finish().await.expect("the server takes the part in the end");
    assert_eq!(mock.counts().parts, 3);
}

#[tokio::test]
async fn an_upload_that_fails_or_is_dropped_leaves_no_parts() {
    let (mock, store) = start().await;
    for failing in [true, false] {
        let mut large = store.create_large("large").await.expect("the key is good");
        large.write(vec![1; PART_BYTES].into()).await.expect("the part is on its way");
        assert_eq!(mock.open_uploads(), 1);
        if failing {
            mock.fault_next(1, Operation::CompleteUpload, Fault::Refuse(403));
            let error = large.finish().await.expect_err("the server refuses");
            assert_eq!(error.kind(), StoreErrorKind::Denied);
        } else {
            drop(large);
        }
        wait_until(|| mock.open_uploads() == 0).await;
    }
    assert!(mock.objects().is_empty());
}

/// Waits for what happens beside the test, for ten seconds at most.
async fn wait_until(holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("it comes to hold");
}

#[tokio::test]
async fn a_create_is_sent_once_and_a_read_until_it_is_answered() {
    let (mock, store) = start().await;
    mock.fail_next(1, 503);
    assert_eq!(create(&*store, "a").await, Err(StoreErrorKind::Unavailable));
    assert_eq!(mock.counts().puts, 1);
    create(&*store, "a").await.expect("the server is back");
    mock.fail_next(2, 503);
    assert_eq!(store.get("a").await.expect("it is there"), BYTES);
    assert_eq!(mock.counts().gets, 3);
}

#[tokio::test]
async fn a_create_whose_answer_is_lost_is_not_reported_as_somebody_else_s() {
    let (mock, store) = start().await;
    mock.fault_next(1, Operation::PutObject, Fault::RefuseAfter(500));
    assert_eq!(create(&*store, "a").await, Err(StoreErrorKind::Unavailable));
    assert_eq!(mock.counts().puts, 1);
    assert_eq!(mock.objects().len(), 1);
}

#[tokio::test]
async fn refusals_are_told_apart() {
    use StoreErrorKind::{AlreadyExists, Denied, NoSpace, Unavailable};
    let (mock, store) = start().await;
    for (status, kind) in [
        (403, Denied),
        (401, Denied),
        (507, NoSpace),
        (409, AlreadyExists),
        (412, AlreadyExists),
        (429, Unavailable),
        (500, Unavailable),
        (503, Unavailable),
    ] {
        mock.fail_next(1, status);
        assert_eq!(create(&*store, "a").await, Err(kind), "status {status}");
    }
    assert!(mock.objects().is_empty());
}

#[tokio::test]
async fn a_bucket_that_is_not_there_is_named() {
    let (mock, _) = start().await;
    let store = open(&mock, "s3://absent/x");
    let refusal = probe(&*store, &SeededRng::new(1)).await.expect_err("there is no bucket");
    let message = refusal.to_string();
    assert!(message.contains("s3://absent/x"), "{message}");
    let ProbeError::Store { source, .. } = refusal else { panic!("{message}") };
    assert_eq!(source.kind(), StoreErrorKind::Invalid);
    assert!(source.to_string().contains("the bucket does not exist"), "{source}");
    assert_eq!(store.get("a").await.expect_err("no bucket").kind(), StoreErrorKind::Invalid);
}

#[tokio::test]
async fn the_probe_passes_and_leaves_nothing() {
    let (mock, store) = start().await;
    probe(&*store, &SeededRng::new(1)).await.expect("the server keeps conditions");
    assert!(mock.objects().is_empty());
}

#[tokio::test]
async fn a_server_that_ignores_conditions_is_refused_by_name() {
    let (mock, store) = start().await;
    mock.set_conditions(Conditions::Ignored);
    let refusal = probe(&*store, &SeededRng::new(1)).await.expect_err("the server overwrites");
    assert_eq!(refusal, ProbeError::Overwrites { location: "s3://bucket/some/prefix".to_owned() });
    assert!(refusal.to_string().contains("s3://bucket/some/prefix"), "{refusal}");
}

#[tokio::test]
async fn a_server_that_is_gone_is_unavailable() {
    let (mock, store) = start().await;
    drop(mock);
    let error = store.create("a", BYTES).await.expect_err("nobody listens");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn a_request_without_an_answer_fails_in_time() {
    let (mock, _) = start().await;
    let timeout = Duration::from_millis(300);
    let location: DataLocation = "s3://bucket".parse().expect("the location is good");
    let settings = StoreSettings { request_timeout: timeout, ..settings(&mock) };
    let store = location.open(&settings).expect("the settings are good");
    mock.set_fault(Some(Fault::Hang));
    let requests = async {
        assert_eq!(create(&*store, "a").await, Err(StoreErrorKind::Unavailable));
        assert_eq!(store.get("a").await.expect_err("no answer").kind(), StoreErrorKind::Unavailable);
        assert_eq!(store.list("").await.expect_err("no answer").kind(), StoreErrorKind::Unavailable);
    };
    tokio::time::timeout(Duration::from_secs(20), requests).await.expect("each request has a bound");
}

#[tokio::test]
async fn requests_go_on_a_runtime_of_their_own() {
    let (mock, store) = start().await;
    let location = mock.endpoint();
    let other = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime starts").block_on(async { create(&*store, "a").await.map(|()| store) })
    });
    let other = tokio::task::spawn_blocking(|| other.join()).await.expect("the thread is awaited");
    let store = other.expect("the thread ends").expect("the key is free");
    // The connection that the other runtime used outlives it.
    assert_eq!(store.get("a").await.expect("it is there"), BYTES, "{location}");
    assert_eq!(mock.counts().requests(), 2);
}

#[tokio::test]
async fn concurrent_creates_of_different_keys_all_land() {
    let (mock, store) = start().await;
    let creates = (0..32).map(|number| {
        let store = Arc::clone(&store);
        async move { create(&*store, &format!("k/{number}")).await }
    });
    assert!(join_all(creates).await.into_iter().all(|answer| answer.is_ok()));
    let keys: BTreeSet<String> = mock.objects().into_keys().collect();
    assert_eq!(keys.len(), 32);
}
