//! What a directory promises, on the real file system and on one that forgets what was not synced.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use futures::FutureExt;
use futures::future::join_all;

use super::*;
use crate::object::sim_file_system::{SimFileSystem, SimOperation};
use crate::object::{StoreErrorKind, probe};
use crate::seam::{Rng, SeededRng};

mod delete;
mod large;
mod reserve;

const ROOT: &str = "/srv/data";

type SimStore = DurableLocal<SimFileSystem>;

/// Operations on a simulated file system never wait.
fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("nothing blocks in memory")
}

fn open_sim(file_system: &SimFileSystem) -> Result<SimStore, OpenError> {
    DurableLocal::open_on(file_system.clone(), ROOT, LocalOptions::NO_RESERVE)
}

fn sim() -> (SimFileSystem, SimStore) {
    let file_system = SimFileSystem::default();
    let store = open_sim(&file_system).expect("memory opens");
    (file_system, store)
}

fn create(store: &SimStore, key: &str, bytes: &[u8]) -> Result<(), StoreErrorKind> {
    now(store.create(key, Bytes::copy_from_slice(bytes))).map_err(|error| error.kind())
}

fn create_in_pieces(store: &SimStore, key: &str, bytes: &[u8]) -> Result<(), StoreErrorKind> {
    let write = async {
        let mut large = store.create_large(key).await?;
        for piece in bytes.chunks(bytes.len() / 3 + 1) {
            large.write(Bytes::copy_from_slice(piece)).await?;
        }
        large.finish().await
    };
    now(write).map_err(|error| error.kind())
}

fn get(store: &SimStore, key: &str) -> Result<Vec<u8>, StoreErrorKind> {
    now(store.get(key)).map(|bytes| bytes.to_vec()).map_err(|error| error.kind())
}

fn keys(store: &SimStore) -> Vec<String> {
    let listed = now(store.list("")).expect("the directory can be listed");
    listed.into_iter().map(|meta| meta.key).collect()
}

// What follows runs on the real file system.

#[tokio::test]
async fn objects_come_back_whole_in_part_and_after_reopening() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let store = DurableLocal::open(root.path().join("new/data")).expect("a new directory opens");
    store.create("a/b/c", Bytes::from_static(b"0123456789")).await.expect("the key is free");
    drop(store);
    let store = DurableLocal::open(root.path().join("new/data")).expect("an old directory opens");
    assert_eq!(store.get("a/b/c").await.expect("it is there"), "0123456789");
    for (range, expected) in [(0..3, "012"), (8..20, "89"), (10..11, ""), (99..u64::MAX, ""), (5..5, "")] {
        assert_eq!(store.get_range("a/b/c", range).await.expect("it is there"), expected);
    }
    let pieces = store.get_adjacent("a/b/c", 5, &[2, 0, 1, 9, 3]).await.expect("it is there");
    assert_eq!(pieces, ["56", "", "7", "89", ""]);
    let prefix = store.get_prefix("a/b/c", 4).await.expect("it is there");
    assert_eq!(prefix, ObjectPrefix { bytes: Bytes::from_static(b"0123"), object_length: 10 });
    let absent = || StoreError::NotFound { key: "a/b/d".to_owned() };
    let keys = ["a/b/c".to_owned(), "a/b/d".to_owned()];
    assert_eq!(store.get_prefixes(&keys, 4).await, [Ok(prefix), Err(absent())]);
    assert_eq!(store.get_adjacent("a/b/d", 0, &[1]).await, Err(absent()));
    store.sync("a/b/c").await.expect("it is there");
    store.delete("a/b/c").await.expect("it is there");
    store.delete("a/b/c").await.expect("an absent object is deleted already");
    assert_eq!(store.get("a/b/c").await, Err(StoreError::NotFound { key: "a/b/c".to_owned() }));
}

#[tokio::test]
async fn a_listing_is_sorted_and_keeps_to_whole_components() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let store = DurableLocal::open(root.path()).expect("it opens");
    for key in ["x/b/2", "x/b/10", "x/a", "xy/1", "x/b0"] {
        store.create(key, Bytes::from_static(b"12")).await.expect("the key is free");
    }
    let list = async |prefix: &str| {
        let listed = store.list(prefix).await.expect("it can be listed");
        listed.into_iter().map(|meta| (meta.key, meta.length)).collect::<Vec<_>>()
    };
    let with_lengths = |keys: &[&str]| keys.iter().map(|key| (key.to_string(), 2)).collect::<Vec<_>>();
    assert_eq!(list("").await, with_lengths(&["x/a", "x/b/10", "x/b/2", "x/b0", "xy/1"]));
    assert_eq!(list("x/b/").await, with_lengths(&["x/b/10", "x/b/2"]));
    assert_eq!(list("x/b").await, with_lengths(&["x/b/10", "x/b/2"]));
    assert_eq!(list("nothing/").await, []);
    store.list("../").await.expect_err("outside of the root");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_hundred_racing_creates_wins() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let store = DurableLocal::open(root.path()).expect("it opens");
    let racers = (0..200).map(|racer| store.create("deep/new/key", Bytes::from(racer.to_string())));
    let answers = join_all(racers).await;
    let winners: Vec<usize> = (0..200).filter(|racer| answers[*racer].is_ok()).collect();
    assert_eq!(winners.len(), 1);
    let losers = answers.iter().filter_map(|answer| answer.as_ref().err());
    assert!(losers.clone().all(|error| error.kind() == StoreErrorKind::AlreadyExists));
    assert_eq!(store.get("deep/new/key").await.expect("it is there"), winners[0].to_string());
    let staged = std::fs::read_dir(root.path().join(STAGING_DIR)).expect("the directory is there").count();
    assert_eq!(staged, 0, "staging is emptied");
}

#[tokio::test]
async fn a_second_server_is_refused_and_a_reader_is_not() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let store = DurableLocal::open(root.path()).expect("it opens");
    store.create("key", Bytes::from_static(b"1")).await.expect("the key is free");
    let refusal = DurableLocal::open(root.path()).expect_err("the directory is in use").to_string();
    assert!(refusal.contains("in use by another strandline process"), "{refusal}");
    assert!(refusal.contains(&root.path().display().to_string()), "{refusal}");
    let reader = DurableLocal::open_read_only(root.path()).expect("readers need no lock");
    assert_eq!(reader.get("key").await.expect("it is there"), "1");
    let refused = reader.create("other", Bytes::new()).await.expect_err("readers cannot write");
    assert_eq!(refused.kind(), StoreErrorKind::Denied);
    assert_eq!(reader.delete("key").await.expect_err("nor delete").kind(), StoreErrorKind::Denied);
    drop(store);
    DurableLocal::open(root.path()).expect("the lock ends with its holder");
}

#[tokio::test]
async fn a_file_or_nothing_in_place_of_the_directory_is_named() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let file = root.path().join("file");
    std::fs::write(&file, "x").expect("the temporary directory is writable");
    let path = file.display().to_string();
    let expected = OpenError::NotADirectory { path: path.clone() };
    assert_eq!(DurableLocal::open(&file).expect_err("it is a file"), expected);
    assert_eq!(DurableLocal::open_read_only(&file).expect_err("it is a file"), expected);
    let absent = root.path().join("absent");
    let expected = OpenError::NotFound { path: absent.display().to_string() };
    assert_eq!(DurableLocal::open_read_only(&absent).expect_err("it is not there"), expected);
    assert!(!absent.exists(), "a reader makes nothing");
}

#[tokio::test]
async fn the_probe_passes_on_a_directory() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let store = DurableLocal::open(root.path()).expect("it opens");
    probe(&store, &SeededRng::new(1)).await.expect("hard links are put-if-absent");
    assert_eq!(store.list("").await.expect("it can be listed"), []);
}

// What follows runs on the simulated one.

#[test]
fn a_failed_fsync_or_link_ends_all_trust() {
    for operation in [SimOperation::SyncFile, SimOperation::SyncDir, SimOperation::HardLink] {
        let (file_system, store) = sim();
        create(&store, "a/1", b"old").expect("the key is free");
        file_system.fail_after(operation, 0, ErrorKind::Other);
        assert_eq!(create(&store, "a/2", b"new"), Err(StoreErrorKind::LocalFailed));
        assert_eq!(create(&store, "a/2", b"new"), Err(StoreErrorKind::LocalFailed));
        assert_eq!(get(&store, "a/1"), Err(StoreErrorKind::LocalFailed));
    }
}

#[test]
fn a_full_disk_refuses_a_create_and_nothing_else() {
    for operation in [SimOperation::WriteNew, SimOperation::SyncFile, SimOperation::CreateDir] {
        for kind in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded] {
            let (file_system, store) = sim();
            create(&store, "a/1", b"old").expect("the key is free");
            file_system.fail_after(operation, 0, kind);
            assert_eq!(create(&store, "b/2", b"new"), Err(StoreErrorKind::NoSpace));
            assert_eq!(keys(&store), ["a/1"]);
            assert_eq!(get(&store, "a/1"), Ok(b"old".to_vec()));
            create(&store, "b/2", b"new").expect("there is space again");
            file_system.crash(|| false);
            assert_eq!(get(&open_sim(&file_system).expect("it opens"), "b/2"), Ok(b"new".to_vec()));
        }
    }
}

#[test]
fn a_full_or_forbidden_disk_at_open_is_one_clear_sentence() {
    for (kind, words) in [
        (ErrorKind::StorageFull, "has no space left"),
        (ErrorKind::PermissionDenied, "is not accessible for this user"),
        (ErrorKind::ReadOnlyFilesystem, "is on a read-only file system"),
    ] {
        let file_system = SimFileSystem::default();
        file_system.fail_after(SimOperation::CreateDir, 0, kind);
        let message = open_sim(&file_system).expect_err("the directory cannot be made").to_string();
        assert!(message.starts_with("data directory /srv/data ") && message.contains(words), "{message}");
    }
}

#[test]
fn a_create_in_a_known_directory_costs_two_syncs() {
    let (file_system, store) = sim();
    create(&store, "a/b/1", b"1").expect("the key is free");
    let before = file_system.operations();
    create(&store, "a/b/2", b"2").expect("the key is free");
    // Write, fsync, link, fsync of the directory, unlink.
    assert_eq!(file_system.operations() - before, 5);
}

#[test]
fn already_exists_is_answered_only_once_the_name_is_durable() {
    let (file_system, store) = sim();
    create(&store, "a/0", b"0").expect("the key is free");
    // An earlier try hangs between its link and its fsync.
    file_system.write_new(Path::new("/srv/data/first"), b"mine").expect("the name is free");
    let file = file_system.open(Path::new("/srv/data/first")).expect("it is there");
    file_system.sync_file(&file).expect("memory syncs");
    file_system.hard_link(Path::new("/srv/data/first"), Path::new("/srv/data/a/1")).expect("it is free");
    assert_eq!(create(&store, "a/1", b"mine"), Err(StoreErrorKind::AlreadyExists));
    file_system.crash(|| false);
    assert_eq!(get(&open_sim(&file_system).expect("it opens"), "a/1"), Ok(b"mine".to_vec()));
}

#[test]
fn opening_removes_what_an_ended_process_left_in_staging() {
    let (file_system, store) = sim();
    file_system.fail_power_at(file_system.operations() + 1);
    assert_eq!(create(&store, "a", b"1"), Err(StoreErrorKind::LocalFailed));
    file_system.kill();
    let staging = Path::new(ROOT).join(STAGING_DIR);
    assert_eq!(file_system.read_dir(&staging).expect("it is there").len(), 1);
    open_sim(&file_system).expect("it opens");
    assert_eq!(file_system.read_dir(&staging).expect("it is there"), []);
}

/// A process that puts objects, some in pieces and some under taken keys, and deletes some, until it
/// is done or its disk fails.
struct Run {
    /// What was answered with `Ok`, or (by a later answer) is known to be there.
    acked: BTreeMap<String, Vec<u8>>,
    /// All bytes that were ever sent to a key.
    sent: BTreeMap<String, Vec<Vec<u8>>>,
}

fn run(file_system: &SimFileSystem, seed: u64) -> Run {
    let rng = SeededRng::new(seed);
    let draw = |bound: u8| rng.bytes16()[0] % bound;
    let mut run = Run { acked: BTreeMap::new(), sent: BTreeMap::new() };
    let Ok(mut store) = open_sim(file_system) else { return run };
    for number in 0..16_u8 {
        let key = format!("shards/{}/wal/{}/{}", draw(2), draw(3), draw(4));
        let done = match draw(4) {
            0 => run.delete(&store, key),
            1 => run.put(key, vec![number; 64], |key, bytes| create_in_pieces(&store, key, bytes)),
            _ => run.put(key, vec![number; 64], |key, bytes| create(&store, key, bytes)),
        };
        if done.is_none() {
            break;
        }
        if draw(5) == 0 {
            drop(store);
            match open_sim(file_system) {
                Ok(reopened) => store = reopened,
                Err(_) => break,
            }
        }
    }
    run
}

impl Run {
    /// None if the disk failed.
    fn put(
        &mut self,
        key: String,
        bytes: Vec<u8>,
        put: impl FnOnce(&str, &[u8]) -> Result<(), StoreErrorKind>,
    ) -> Option<()> {
        self.sent.entry(key.clone()).or_default().push(bytes.clone());
        match put(&key, &bytes) {
            Ok(()) => assert!(self.acked.insert(key, bytes).is_none(), "a key was given twice"),
            Err(StoreErrorKind::AlreadyExists) => assert!(self.acked.contains_key(&key)),
            Err(_) => return None,
        }
        Some(())
    }

    fn delete(&mut self, store: &SimStore, key: String) -> Option<()> {
        // It may come back after a crash, but nobody relies on it any more.
        self.acked.remove(&key);
        now(store.delete(&key)).ok()
    }
}

/// True if everything that was acknowledged is there, and nothing is torn.
fn holds(file_system: &SimFileSystem, run: &Run) -> bool {
    let store = open_sim(file_system).expect("it opens after a crash");
    let kept = run.acked.iter().all(|(key, bytes)| get(&store, key).as_ref() == Ok(bytes));
    kept && is_whole(&store, run)
}

/// True if each object is one that was sent.
fn is_whole(store: &SimStore, run: &Run) -> bool {
    keys(store).iter().all(|key| {
        let bytes = get(store, key).expect("a listed object is there");
        run.sent.get(key).is_some_and(|sent| sent.contains(&bytes))
    })
}

/// Crashes runs at each of their operations and counts the crashes after which the promise is broken.
fn broken_promises(seed: u64, prepare: impl Fn(&SimFileSystem)) -> usize {
    let file_system = SimFileSystem::default();
    run(&file_system, seed);
    let broken_at = |operation: u64| {
        let file_system = SimFileSystem::default();
        prepare(&file_system);
        file_system.fail_power_at(operation);
        let run = run(&file_system, seed);
        let rng = SeededRng::new(seed ^ operation);
        match seed % 2 {
            0 => file_system.crash(|| false),
            _ => file_system.crash(|| rng.bytes16()[0].is_multiple_of(2)),
        }
        !holds(&file_system, &run)
    };
    (0..=file_system.operations()).filter(|operation| broken_at(*operation)).count()
}

#[test]
fn what_was_acked_survives_a_crash_at_any_operation() {
    for seed in 0..40 {
        assert_eq!(broken_promises(seed, |_| ()), 0, "seed {seed}");
    }
}

#[test]
fn the_crash_test_notices_a_missing_fsync() {
    for operation in [SimOperation::SyncFile, SimOperation::SyncDir] {
        let broken = broken_promises(0, |file_system| file_system.ignore_syncs(operation));
        assert!(broken > 0, "nothing was lost without an fsync");
    }
}

#[test]
fn what_was_synced_after_a_kill_at_any_operation_survives_a_crash() {
    let whole = SimFileSystem::default();
    run(&whole, 3);
    for operation in 0..=whole.operations() {
        let file_system = SimFileSystem::default();
        file_system.fail_power_at(operation);
        let run = run(&file_system, 3);
        file_system.kill();
        let store = open_sim(&file_system).expect("it opens after a kill");
        let seen = keys(&store);
        for key in &seen {
            now(store.sync(key)).expect("a listed object can be synced");
        }
        assert!(run.acked.keys().all(|key| seen.contains(key)));
        drop(store);
        file_system.crash(|| false);
        let store = open_sim(&file_system).expect("it opens after a crash");
        assert_eq!(keys(&store), seen, "killed at operation {operation}");
        assert!(is_whole(&store, &run));
    }
}

#[test]
fn what_is_acked_after_a_kill_at_any_operation_survives_a_crash() {
    let first = |file_system: &SimFileSystem| {
        open_sim(file_system).is_ok_and(|store| create(&store, "a/b/1", b"first").is_ok())
    };
    let whole = SimFileSystem::default();
    assert!(first(&whole));
    for operation in 0..whole.operations() {
        let file_system = SimFileSystem::default();
        file_system.fail_power_at(operation);
        first(&file_system);
        file_system.kill();
        let store = open_sim(&file_system).expect("it opens after a kill");
        create(&store, "a/b/2", b"second").expect("the key is free");
        drop(store);
        file_system.crash(|| false);
        let store = open_sim(&file_system).expect("it opens after a crash");
        assert_eq!(get(&store, "a/b/2"), Ok(b"second".to_vec()), "killed at operation {operation}");
    }
}
