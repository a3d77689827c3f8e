//! The space that is held back for a full disk.

use super::*;

const RESERVE: LocalOptions = LocalOptions { reserve_bytes: 3 << 19 };

fn open_with_reserve(file_system: &SimFileSystem) -> SimStore {
    DurableLocal::open_on(file_system.clone(), ROOT, RESERVE).expect("memory opens")
}

fn reserved(file_system: &SimFileSystem) -> u64 {
    let entries = file_system.read_dir(Path::new(ROOT)).expect("it is there");
    let reserve = entries.into_iter().find(|entry| entry.name == ".reserve");
    match reserve.map(|entry| entry.kind) {
        Some(EntryKind::File { length }) => length,
        _ => 0,
    }
}

#[tokio::test]
async fn a_reserve_is_made_at_open_and_hidden() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let path = root.path().join(".reserve");
    let store = DurableLocal::open_with(root.path(), RESERVE).expect("it opens");
    assert_eq!(std::fs::metadata(&path).expect("it is made").len(), RESERVE.reserve_bytes);
    assert_eq!(store.list("").await.expect("it can be listed"), []);
    assert_eq!(store.release_reserve().await, Ok(true));
    assert!(!path.exists(), "its space is given back");
    assert_eq!(store.release_reserve().await, Ok(false));
    assert_eq!(store.restore_reserve().await, Ok(true));
    assert!(path.exists(), "it is held back again");
    drop(store);
    DurableLocal::open(root.path()).expect("it opens");
    assert!(!path.exists(), "none was asked for");
}

#[test]
fn releasing_the_reserve_makes_room_for_a_create() {
    let file_system = SimFileSystem::default();
    let store = open_with_reserve(&file_system);
    file_system.set_capacity(2 << 20);
    create(&store, "a", &vec![1; 1 << 19]).expect("it fits");
    assert_eq!(create(&store, "b", b"more"), Err(StoreErrorKind::NoSpace));
    assert_eq!(now(store.release_reserve()), Ok(true));
    create(&store, "b", b"more").expect("it fits now");
    assert_eq!(now(store.restore_reserve()), Ok(false), "there is no room for it");
    assert_eq!(reserved(&file_system), 0);
    now(store.delete("a")).expect("it is there");
    assert_eq!(now(store.restore_reserve()), Ok(true));
    assert_eq!(reserved(&file_system), RESERVE.reserve_bytes);
    assert_eq!(keys(&store), ["b"]);
}

#[test]
fn a_disk_without_room_for_the_reserve_is_opened_all_the_same() {
    let file_system = SimFileSystem::default();
    file_system.set_capacity(1 << 20);
    let store = open_with_reserve(&file_system);
    assert_eq!(reserved(&file_system), 0);
    create(&store, "a", &vec![1; 1 << 19]).expect("what was tried is given back");
}

#[test]
fn a_reserve_is_whole_or_not_there_after_a_crash_at_any_operation() {
    let whole = SimFileSystem::default();
    open_with_reserve(&whole);
    for operation in 0..=whole.operations() {
        let file_system = SimFileSystem::default();
        file_system.fail_power_at(operation);
        let _ = DurableLocal::open_on(file_system.clone(), ROOT, RESERVE);
        file_system.crash(|| false);
        let store = open_with_reserve(&file_system);
        assert_eq!(reserved(&file_system), RESERVE.reserve_bytes, "power failed at operation {operation}");
        assert_eq!(keys(&store), [""; 0]);
    }
}

#[test]
fn an_fsync_of_the_reserve_that_fails_ends_all_trust() {
    let file_system = SimFileSystem::default();
    let store = open_with_reserve(&file_system);
    now(store.release_reserve()).expect("it is there");
    file_system.fail_after(SimOperation::SyncFile, 0, ErrorKind::Other);
    let error = now(store.restore_reserve()).expect_err("the disk failed");
    assert_eq!(error.kind(), StoreErrorKind::LocalFailed);
    assert_eq!(create(&store, "a", b"new"), Err(StoreErrorKind::LocalFailed));
}

#[test]
fn a_reader_has_no_reserve() {
    let (file_system, _store) = sim();
    let reader = DurableLocal::open_read_only_on(file_system, ROOT).expect("it opens");
    assert_eq!(now(reader.release_reserve()), Ok(false));
    assert_eq!(now(reader.restore_reserve()), Ok(true));
}
