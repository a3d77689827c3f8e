//! Two processes on one store, and processes that only read.

use std::time::Duration;

use super::*;
use crate::format::{Claim, encode_claim};
use crate::ids::ShardId;
use crate::log::keys::ShardKeys;
use crate::log::{Health, OpenError, WriteError};

#[tokio::test]
async fn a_new_owner_fences_the_old_one_which_names_it_and_stays_stopped() {
    let store = memory();
    let old = open(&store).await;
    let events = create(&old, "events", 1, &[]).await;
    append(&old, events, batch(&[T])).await.unwrap();
    let settings =
        LogSettings { node: "new-node".into(), address: "10.0.0.2:9092".into(), ..LogSettings::default() };
    let new = open_with(&store, settings).await;

    let refused = append(&old, events, batch(&[T])).await.unwrap_err();

    let AppendError::Write(WriteError::Fenced { by }) = &refused else { panic!("{refused}") };
    assert!(by.contains("new-node") && by.contains("10.0.0.2:9092"), "{by}");
    assert!(matches!(old.stopped().await, Health::Fenced { .. }));
    assert!(append(&old, events, batch(&[T])).await.is_err());
    assert_eq!(append(&new, events, batch(&[T])).await.unwrap().base_offset, 1);
    assert_eq!(records(&fetch(&new, events, 0).await).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_commits_without_a_pause_finds_a_claim_before_any_fence() {
    let store = memory();
    let old = Log::open(store.clone(), LogSettings::default(), Seams::simulated(1)).await.unwrap();
    let events = create(&old, "events", 1, &[]).await;
    let claim = Claim {
        writer_epoch: 2,
        node: "new-node".to_owned(),
        address: "10.0.0.2:9092".to_owned(),
        nonce: [7; 16],
    };
    let key = ShardKeys::new(ShardId(0)).epoch(claim.writer_epoch);
    store.create(&key, encode_claim(&claim)).await.unwrap();
    let before = store.counts().gets;
    let produce = async {
        for second in 1.. {
            tokio::time::advance(Duration::from_secs(1)).await;
            if let Err(error) = append(&old, events, batch(&[T])).await {
                return (second, error);
            }
        }
        unreachable!("the loop has no end")
    };
    let (seconds, refused) = produce.await;

    let AppendError::Write(WriteError::Fenced { by }) = &refused else { panic!("{refused}") };
    assert!(by.contains("new-node"), "{by}");
    assert!((5..=7).contains(&seconds), "{seconds} s");
    assert!(matches!(old.stopped().await, Health::Fenced { .. }));
    // The look that found it, and the claim itself.
    assert_eq!(store.counts().gets - before, 2);
}

#[tokio::test]
async fn a_read_only_log_sees_what_is_there_beside_the_owner_and_writes_nothing() {
    let store = memory();
    let owner = open(&store).await;
    let events = create(&owner, "events", 1, &[]).await;
    append(&owner, events, batch(&[T, T])).await.unwrap();
    let before = store.counts().creates;

    let reader = Log::open_read_only(store.clone(), LogSettings::default(), Seams::system()).await.unwrap();

    assert_eq!(records(&fetch(&reader, events, 0).await).len(), 2);
    assert_eq!(append(&reader, events, batch(&[T])).await, Err(AppendError::Write(WriteError::ReadOnly)));
    assert_eq!(store.counts().creates, before);
    assert_eq!(append(&owner, events, batch(&[T])).await.unwrap().base_offset, 2);
}

#[tokio::test]
async fn there_is_nothing_to_read_where_no_log_was_made() {
    let opened = Log::open_read_only(memory(), LogSettings::default(), Seams::system()).await;
    assert!(matches!(opened.unwrap_err(), OpenError::NoLog { .. }));
}

#[tokio::test]
async fn the_cluster_id_never_changes() {
    let store = memory();
    let log = open(&store).await;
    let id = log.cluster_id().to_owned();
    assert_eq!(id.len(), 22);
    assert_eq!(reopen(&store, log).await.cluster_id(), id);
}
