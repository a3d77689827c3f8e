//! Deletes, and the directories that they leave empty.

use super::*;

const MIB: usize = 1024 * 1024;

fn exists(file_system: &SimFileSystem, key: &str) -> bool {
    file_system.check_dir(&Path::new(ROOT).join(key)).is_ok()
}

#[test]
fn directories_that_become_empty_go_up_to_the_root() {
    let (file_system, store) = sim();
    for key in ["a/b/c/1", "a/b/c/2", "a/x"] {
        create(&store, key, b"1").expect("the key is free");
    }
    now(store.delete("a/b/c/1")).expect("it is there");
    assert!(exists(&file_system, "a/b/c"), "another object is in it");
    now(store.delete("a/b/c/2")).expect("it is there");
    assert!(!exists(&file_system, "a/b"), "nothing is in it");
    assert!(exists(&file_system, "a"), "another object is in it");
    now(store.delete("a/x")).expect("it is there");
    assert!(!exists(&file_system, "a"), "nothing is in it");
    file_system.check_dir(Path::new(ROOT)).expect("the root stays");
    create(&store, "a/b/c/3", b"3").expect("the key is free");
    file_system.crash(|| false);
    let store = open_sim(&file_system).expect("it opens");
    assert_eq!(get(&store, "a/b/c/3"), Ok(b"3".to_vec()));
}

#[test]
fn a_directory_that_a_crash_left_empty_goes_with_the_next_delete() {
    let (file_system, store) = sim();
    create(&store, "a/b/1", b"1").expect("the key is free");
    file_system.fail_after(SimOperation::RemoveDir, 0, ErrorKind::Other);
    now(store.delete("a/b/1")).expect("the object is gone");
    assert!(exists(&file_system, "a/b"));
    now(store.delete("a/b/1")).expect("an absent object is deleted already");
    assert!(!exists(&file_system, "a"));
}

#[test]
fn what_is_created_after_a_kill_in_a_delete_survives_a_crash() {
    let first = |file_system: &SimFileSystem| {
        let Ok(store) = open_sim(file_system) else { return };
        let _ = create(&store, "a/b/1", b"first");
        let _ = now(store.delete("a/b/1"));
        let _ = create(&store, "a/b/2", b"second");
        let _ = now(store.delete("a/b/2"));
    };
    let whole = SimFileSystem::default();
    first(&whole);
    assert!(whole.count(SimOperation::RemoveDir) > 0, "directories were removed");
    for operation in 0..whole.operations() {
        let file_system = SimFileSystem::default();
        file_system.fail_power_at(operation);
        first(&file_system);
        file_system.kill();
        let store = open_sim(&file_system).expect("it opens after a kill");
        create(&store, "a/b/3", b"third").expect("the key is free");
        now(store.delete("a/b/1")).expect("it is there or not");
        now(store.delete("a/b/2")).expect("it is there or not");
        drop(store);
        file_system.crash(|| false);
        let store = open_sim(&file_system).expect("it opens after a crash");
        assert_eq!(get(&store, "a/b/3"), Ok(b"third".to_vec()), "killed at operation {operation}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn creates_succeed_while_their_directory_is_removed() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let store = DurableLocal::open(root.path()).expect("it opens");
    let rounds = (0..8).map(|task| {
        let store = store.clone();
        tokio::spawn(async move {
            for round in 0..20 {
                let key = format!("a/b/{task}-{round}");
                store.create(&key, Bytes::from_static(b"1")).await.expect("the key is free");
                store.sync(&key).await.expect("it is there");
                store.delete(&key).await.expect("it is there");
            }
        })
    });
    for round in join_all(rounds).await {
        round.expect("no create failed");
    }
    assert!(!root.path().join("a").exists(), "nothing is left");
}

#[test]
fn a_large_object_is_freed_in_pieces() {
    let (file_system, store) = sim();
    create(&store, "small", &[1; MIB]).expect("the key is free");
    create(&store, "large", &[1; 2 * MIB + 1]).expect("the key is free");
    now(store.delete("small")).expect("it is there");
    assert_eq!(file_system.count(SimOperation::Truncate), 0);
    now(store.delete("large")).expect("it is there");
    assert_eq!(file_system.count(SimOperation::Truncate), 2);
}

#[test]
fn a_copy_made_of_hard_links_keeps_its_bytes() {
    let (file_system, store) = sim();
    create(&store, "large", &[1; 4 * MIB]).expect("the key is free");
    let root = Path::new(ROOT);
    file_system.hard_link(&root.join("large"), &root.join("copy")).expect("the name is free");
    now(store.delete("large")).expect("it is there");
    assert_eq!(get(&store, "copy"), Ok(vec![1; 4 * MIB]));
}

#[test]
fn an_object_that_cannot_be_freed_in_pieces_is_deleted_all_the_same() {
    let (file_system, store) = sim();
    create(&store, "large", &[1; 4 * MIB]).expect("the key is free");
    file_system.fail_after(SimOperation::Truncate, 1, ErrorKind::Other);
    now(store.delete("large")).expect("it is there");
    assert_eq!(get(&store, "large"), Err(StoreErrorKind::NotFound));
    create(&store, "other", b"1").expect("the store is still trusted");
}

#[test]
fn a_crash_in_a_delete_leaves_a_large_object_whole_or_gone() {
    let content = vec![7; 3 * MIB];
    let run = |file_system: &SimFileSystem| {
        let Ok(store) = open_sim(file_system) else { return };
        let _ = create(&store, "a/large", &content);
        let _ = now(store.delete("a/large"));
    };
    let whole = SimFileSystem::default();
    run(&whole);
    assert_eq!(whole.count(SimOperation::Truncate), 2);
    for operation in 0..whole.operations() {
        for survives in [true, false] {
            let file_system = SimFileSystem::default();
            file_system.fail_power_at(operation);
            run(&file_system);
            file_system.crash(|| survives);
            match get(&open_sim(&file_system).expect("it opens"), "a/large") {
                Ok(bytes) => assert!(bytes == content, "{} bytes after operation {operation}", bytes.len()),
                Err(error) => assert_eq!(error, StoreErrorKind::NotFound, "operation {operation}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_read_beside_a_delete_gives_all_or_nothing() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let writer = DurableLocal::open(root.path()).expect("it opens");
    let reader = DurableLocal::open_read_only(root.path()).expect("it opens");
    let content = Bytes::from(vec![7; 16 * MIB]);
    for round in 0..10 {
        let key = format!("a/{round}");
        writer.create(&key, content.clone()).await.expect("the key is free");
        let reads = (0..4).map(|_| {
            let (reader, key) = (reader.clone(), key.clone());
            tokio::spawn(async move { reader.get(&key).await })
        });
        let reads: Vec<_> = reads.collect();
        writer.delete(&key).await.expect("it is there");
        for read in join_all(reads).await {
            match read.expect("no read panics") {
                Ok(bytes) => assert!(bytes == content, "{} bytes of {}", bytes.len(), content.len()),
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => panic!("it is there or not, but: {error}"),
            }
        }
    }
}
