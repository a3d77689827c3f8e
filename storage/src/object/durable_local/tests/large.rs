//! Objects that are written in pieces.

use super::*;

fn staged(file_system: &SimFileSystem) -> usize {
    file_system.read_dir(&Path::new(ROOT).join(STAGING_DIR)).expect("it is there").len()
}

#[tokio::test]
async fn a_large_object_is_seen_whole_and_only_once_it_is_finished() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let store = DurableLocal::open(root.path()).expect("it opens");
    let mut large = store.create_large("a/b").await.expect("the key is free");
    for piece in ["abc", "", "def"] {
        large.write(Bytes::from(piece)).await.expect("the disk takes bytes");
    }
    store.get("a/b").await.expect_err("it is not finished");
    assert_eq!(store.list("").await.expect("it can be listed"), []);
    large.finish().await.expect("the disk finishes");
    assert_eq!(store.get("a/b").await.expect("it is finished"), "abcdef");
    let staged = std::fs::read_dir(root.path().join(STAGING_DIR)).expect("the directory is there").count();
    assert_eq!(staged, 0, "staging is emptied");
}

#[test]
fn nothing_is_left_of_an_object_that_was_dropped_or_aborted() {
    for end in ["drop", "abort"] {
        let (file_system, store) = sim();
        let mut large = now(store.create_large("a")).expect("the key is free");
        now(large.write(Bytes::from_static(b"bytes"))).expect("the disk takes bytes");
        assert_eq!(staged(&file_system), 1);
        match end {
            "drop" => drop(large),
            _ => now(large.abort()),
        }
        assert_eq!(staged(&file_system), 0, "{end}");
        assert_eq!(keys(&store), [""; 0], "{end}");
    }
}

#[test]
fn opening_removes_what_a_killed_process_left_of_a_large_object() {
    let (file_system, store) = sim();
    let mut large = now(store.create_large("a")).expect("the key is free");
    now(large.write(Bytes::from_static(b"bytes"))).expect("the disk takes bytes");
    file_system.fail_power_at(file_system.operations());
    drop((large, store));
    file_system.kill();
    assert_eq!(staged(&file_system), 1);
    let store = open_sim(&file_system).expect("it opens");
    assert_eq!(staged(&file_system), 0);
    assert_eq!(keys(&store), [""; 0]);
}

#[test]
fn a_full_disk_refuses_a_large_object_and_nothing_else() {
    for operation in [SimOperation::WriteNew, SimOperation::Append, SimOperation::SyncFile] {
        let (file_system, store) = sim();
        create(&store, "a/1", b"old").expect("the key is free");
        file_system.fail_after(operation, 0, ErrorKind::StorageFull);
        assert_eq!(create_in_pieces(&store, "b/2", b"new"), Err(StoreErrorKind::NoSpace));
        assert_eq!(staged(&file_system), 0);
        assert_eq!(keys(&store), ["a/1"]);
        create_in_pieces(&store, "b/2", b"new").expect("there is space again");
        file_system.crash(|| false);
        assert_eq!(get(&open_sim(&file_system).expect("it opens"), "b/2"), Ok(b"new".to_vec()));
    }
}

#[test]
fn after_a_failed_write_a_large_object_cannot_be_finished() {
    let (file_system, store) = sim();
    let mut large = now(store.create_large("a")).expect("the key is free");
    file_system.fail_after(SimOperation::Append, 0, ErrorKind::StorageFull);
    now(large.write(Bytes::from_static(b"bytes"))).expect_err("the disk is full");
    now(large.write(Bytes::from_static(b"bytes"))).expect_err("half of the bytes may be there");
    now(large.finish()).expect_err("half of the bytes may be there");
    assert_eq!(keys(&store), [""; 0]);
}

#[test]
fn a_large_object_whose_fsync_failed_ends_all_trust() {
    let (file_system, store) = sim();
    file_system.fail_after(SimOperation::SyncFile, 0, ErrorKind::Other);
    assert_eq!(create_in_pieces(&store, "a", b"new"), Err(StoreErrorKind::LocalFailed));
    assert_eq!(create(&store, "b", b"new"), Err(StoreErrorKind::LocalFailed));
}

#[test]
fn a_large_object_keeps_the_lock_until_it_ends() {
    let (file_system, store) = sim();
    let large = now(store.create_large("a")).expect("the key is free");
    drop(store);
    open_sim(&file_system).expect_err("the object is still being written");
    drop(large);
    open_sim(&file_system).expect("the lock ends with its holder");
}

#[test]
fn an_object_of_many_pieces_has_its_bytes_in_order() {
    let (file_system, store) = sim();
    let bytes: Vec<u8> = (0..5_000_000_u32).map(|number| (number / 1000) as u8).collect();
    create(&store, "small", b"creates come").expect("the key is free");
    create_in_pieces(&store, "large", &bytes).expect("the key is free");
    assert!(file_system.count(SimOperation::SyncFile) > 3, "it was synced on the way");
    file_system.crash(|| false);
    assert!(get(&open_sim(&file_system).expect("it opens"), "large") == Ok(bytes));
}
