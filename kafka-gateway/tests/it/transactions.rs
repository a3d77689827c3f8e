//! Transactions through the wire: from the first request to the markers, fencing, timeouts, offsets,
//! and what a new gateway finds in the log.

use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use kafka_protocol::messages::fetch_response::AbortedTransaction;
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, DescribeTransactionsRequest, EndTxnRequest,
    FetchRequest, GroupId, InitProducerIdRequest, ListTransactionsRequest, OffsetFetchRequest,
    ProduceRequest, TransactionalId, TxnOffsetCommitRequest, WriteTxnMarkersRequest,
};
use kafka_protocol::protocol::StrBytes;
use strandline_storage::format::{BatchKind, BatchOptions, Producer, ProducerIdentity, TransactionState};
use strandline_storage::ids::{TopicId, TopicPartition};
use strandline_storage::log::{Decision, Log, LogSettings, TransactionalIdChange, WriteError};
use strandline_storage::object::{LogStore, ObjectStoreBackend};
use strandline_storage::seam::Seams;

use crate::support::*;

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const UNKNOWN_MEMBER_ID: i16 = 25;
const INVALID_REQUEST: i16 = 42;
const INVALID_PRODUCER_EPOCH: i16 = 47;
const INVALID_TXN_STATE: i16 = 48;
const INVALID_PRODUCER_ID_MAPPING: i16 = 49;
const INVALID_TRANSACTION_TIMEOUT: i16 = 50;
const TRANSACTION_COORDINATOR_FENCED: i16 = 52;
const TRANSACTIONAL_ID_AUTHORIZATION_FAILED: i16 = 53;
const OPERATION_NOT_ATTEMPTED: i16 = 55;
const UNSTABLE_OFFSET_COMMIT: i16 = 88;
const PRODUCER_FENCED: i16 = 90;
const TRANSACTIONAL_ID_NOT_FOUND: i16 = 105;
const TRANSACTION_ABORTABLE: i16 = 120;
const INVALID_REGULAR_EXPRESSION: i16 = 128;

const NAME: &str = "copier";

fn name(name: &str) -> TransactionalId {
    TransactionalId(StrBytes::from_string(name.to_owned()))
}

fn group(name: &str) -> GroupId {
    GroupId(StrBytes::from_string(name.to_owned()))
}

fn init_request(timeout_ms: i32) -> InitProducerIdRequest {
    InitProducerIdRequest::default()
        .with_transactional_id(Some(name(NAME)))
        .with_transaction_timeout_ms(timeout_ms)
        .with_producer_id((-1).into())
        .with_producer_epoch(-1)
}

fn partitions(topic: &str, partitions: &[i32]) -> AddPartitionsToTxnTopic {
    AddPartitionsToTxnTopic::default().with_name(topic_name(topic)).with_partitions(partitions.to_vec())
}

fn add_request(producer: Producer, topics: Vec<AddPartitionsToTxnTopic>) -> AddPartitionsToTxnRequest {
    AddPartitionsToTxnRequest::default()
        .with_v3_and_below_transactional_id(name(NAME))
        .with_v3_and_below_producer_id(producer.producer_id.into())
        .with_v3_and_below_producer_epoch(producer.producer_epoch)
        .with_v3_and_below_topics(topics)
}

fn end_request(producer: Producer, committed: bool) -> EndTxnRequest {
    EndTxnRequest::default()
        .with_transactional_id(name(NAME))
        .with_producer_id(producer.producer_id.into())
        .with_producer_epoch(producer.producer_epoch)
        .with_committed(committed)
}

/// A batch of one record.
fn transactional(producer: Producer, base_sequence: i32, value: &[u8]) -> Bytes {
    let Producer { producer_id, producer_epoch } = producer;
    let producer = Some(ProducerIdentity { producer_id, producer_epoch, base_sequence });
    let kind = BatchKind::Transactional;
    batch_with(BatchOptions { producer, kind, ..BatchOptions::default() }, &[(1, value)])
}

impl Client {
    async fn init(&mut self, timeout_ms: i32) -> Producer {
        let answered = self.call(4, &init_request(timeout_ms)).await;
        assert_eq!(answered.error_code, 0);
        Producer { producer_id: answered.producer_id.0, producer_epoch: answered.producer_epoch }
    }

    /// The codes of all partitions.
    async fn add(
        &mut self,
        version: i16,
        producer: Producer,
        topics: Vec<AddPartitionsToTxnTopic>,
    ) -> Vec<i16> {
        let answered = self.call(version, &add_request(producer, topics)).await;
        let topics = answered.results_by_topic_v3_and_below.into_iter();
        topics
            .flat_map(|topic| topic.results_by_partition)
            .map(|partition| partition.partition_error_code)
            .collect()
    }

    async fn end(&mut self, version: i16, producer: Producer, committed: bool) -> i16 {
        self.call(version, &end_request(producer, committed)).await.error_code
    }

    async fn produce_in(
        &mut self,
        transactional_id: Option<&str>,
        topic: &str,
        partition: i32,
        batch: Bytes,
    ) -> i16 {
        let request =
            produce_request(topic, partition, batch).with_transactional_id(transactional_id.map(name));
        single(self.call::<ProduceRequest>(8, &request).await).error_code
    }

    /// Begins a transaction with a record in partition 0 of a topic.
    async fn begin_in(&mut self, topic: &str, producer: Producer, base_sequence: i32) {
        assert_eq!(self.add(3, producer, vec![partitions(topic, &[0])]).await, [0]);
        let batch = transactional(producer, base_sequence, b"v");
        assert_eq!(self.produce_in(Some(NAME), topic, 0, batch).await, 0);
    }

    /// The last stable offset and the aborted transactions of partition 0.
    async fn committed(&mut self, topic: &str) -> (i64, Vec<AbortedTransaction>) {
        let request = fetch_request(topic, 0, Fetch::from(0)).with_isolation_level(1);
        let answered = fetched(self.call::<FetchRequest>(11, &request).await);
        (answered.last_stable_offset, answered.aborted_transactions.unwrap_or_default())
    }
}

fn state(log: &Log) -> TransactionState {
    log.snapshot().transactional_id(NAME).expect("the transactional id is known").state
}

/// Waits for a state of the transactional id that comes without a request.
async fn until(log: &Log, expected: TransactionState) {
    let reached = async {
        let mut pause = tokio::time::interval(std::time::Duration::from_millis(5));
        while state(log) != expected {
            pause.tick().await;
        }
    };
    within(reached).await;
}

/// Reported as redpanda#6630, and found by Tansu.
#[tokio::test]
async fn a_transaction_is_seen_whole_when_it_is_committed_and_never_when_it_is_aborted() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 2).await;
    let producer = client.init(60_000).await;
    for (number, committed) in [true, false].into_iter().enumerate() {
        assert_eq!(client.add(3, producer, vec![partitions("t", &[0, 1])]).await, [0, 0]);
        for partition in [0, 1] {
            let batch = transactional(producer, number as i32, b"v");
            assert_eq!(client.produce_in(Some(NAME), "t", partition, batch).await, 0);
        }
        let before = number as i64 * 2;
        assert_eq!(client.committed("t").await.0, before, "it is open");
        for version in [0, 4] {
            assert_eq!(client.end(version, producer, committed).await, 0, "also a second time");
        }
        assert_eq!(client.end(4, producer, !committed).await, INVALID_TXN_STATE);
        assert_eq!(client.committed("t").await.0, before + 2);
    }
    let aborted = client.committed("t").await.1;
    assert_eq!(aborted.len(), 1);
    assert_eq!((aborted[0].producer_id.0, aborted[0].first_offset), (producer.producer_id, 2));
    gateway.stop().await;
}

#[tokio::test]
async fn a_batch_outside_of_a_transaction_is_refused() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 2).await;
    let producer = client.init(60_000).await;
    let batch = |epoch_step: i16| {
        let producer_epoch = producer.producer_epoch + epoch_step;
        transactional(Producer { producer_epoch, ..producer }, 0, b"v")
    };
    assert_eq!(client.produce_in(Some(NAME), "t", 0, batch(0)).await, INVALID_TXN_STATE);
    assert_eq!(client.add(0, producer, vec![partitions("t", &[0])]).await, [0]);
    assert_eq!(client.produce_in(Some(NAME), "t", 1, batch(0)).await, INVALID_TXN_STATE);
    assert_eq!(client.produce_in(Some(NAME), "t", 0, batch(1)).await, INVALID_PRODUCER_EPOCH);
    assert_eq!(client.produce_in(Some("other"), "t", 0, batch(0)).await, INVALID_PRODUCER_ID_MAPPING);
    assert_eq!(client.produce_in(None, "t", 0, batch(0)).await, TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
    assert_eq!(client.produce_in(Some(NAME), "t", 0, batch(0)).await, 0);
    let Producer { producer_id, producer_epoch } = producer;
    let identity = ProducerIdentity { producer_id, producer_epoch, base_sequence: 1 };
    let plain =
        batch_with(BatchOptions { producer: Some(identity), ..BatchOptions::default() }, &[(1, b"v")]);
    assert_eq!(client.produce("t", 0, plain).await.error_code, INVALID_TXN_STATE);
    gateway.stop().await;
}

/// Reported as redpanda#3232, redpanda#3278 (KIP-360).
#[tokio::test]
async fn a_producer_that_was_replaced_is_fenced_everywhere() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let zombie = client.init(60_000).await;
    client.begin_in("t", zombie, 0).await;
    let producer = client.init(60_000).await;
    assert_eq!(producer.producer_id, zombie.producer_id);
    assert!(producer.producer_epoch > zombie.producer_epoch);
    assert_eq!(client.committed("t").await.1.len(), 1, "what it left open is aborted");
    assert_eq!(
        client.produce_in(Some(NAME), "t", 0, transactional(zombie, 1, b"v")).await,
        INVALID_PRODUCER_EPOCH
    );
    for (version, code) in [(1, INVALID_PRODUCER_EPOCH), (2, PRODUCER_FENCED)] {
        assert_eq!(client.add(version, zombie, vec![partitions("t", &[0])]).await, [code]);
        assert_eq!(client.end(version, zombie, true).await, code);
        let add = AddOffsetsToTxnRequest::default()
            .with_transactional_id(name(NAME))
            .with_producer_id(zombie.producer_id.into())
            .with_producer_epoch(zombie.producer_epoch)
            .with_group_id(group("g"));
        assert_eq!(client.call(version, &add).await.error_code, code);
    }
    for (version, code) in [(3, INVALID_PRODUCER_EPOCH), (4, PRODUCER_FENCED)] {
        let named = init_request(60_000)
            .with_producer_id(zombie.producer_id.into())
            .with_producer_epoch(zombie.producer_epoch);
        assert_eq!(client.call(version, &named).await.error_code, code);
    }
    client.begin_in("t", producer, 0).await;
    assert_eq!(client.end(3, producer, true).await, 0);
    gateway.stop().await;
}

#[tokio::test]
async fn a_transaction_that_takes_too_long_is_aborted_without_a_request() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let producer = client.init(50).await;
    client.begin_in("t", producer, 0).await;
    until(&gateway.log, TransactionState::CompleteAbort).await;
    assert_eq!(client.committed("t").await.0, 2);
    assert_eq!(client.end(3, producer, true).await, PRODUCER_FENCED);
    gateway.stop().await;
}

#[tokio::test]
async fn requests_out_of_bounds_are_refused() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    for timeout_ms in [0, 900_001] {
        let answered = client.call(4, &init_request(timeout_ms)).await;
        assert_eq!((answered.error_code, answered.producer_id.0), (INVALID_TRANSACTION_TIMEOUT, -1));
    }
    let unnamed = init_request(1000).with_transactional_id(Some(name("")));
    assert_eq!(client.call(4, &unnamed).await.error_code, INVALID_REQUEST);
    let half = init_request(1000).with_producer_id(7.into());
    assert_eq!(client.call(3, &half).await.error_code, INVALID_REQUEST);
    let producer = client.init(60_000).await;
    let topics = vec![partitions("t", &[0, 1]), partitions("nowhere", &[0])];
    let codes = client.add(3, producer, topics).await;
    assert_eq!(codes, [OPERATION_NOT_ATTEMPTED, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_OR_PARTITION]);
    let stranger = Producer { producer_id: producer.producer_id + 1, ..producer };
    assert_eq!(client.add(3, stranger, vec![partitions("t", &[0])]).await, [INVALID_PRODUCER_ID_MAPPING]);
    assert_eq!(client.end(3, producer, true).await, INVALID_TXN_STATE, "nothing was begun");
    gateway.stop().await;
}

#[tokio::test]
async fn partitions_are_added_and_looked_up_for_many_transactional_ids_at_once() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 2).await;
    let producer = client.init(60_000).await;
    let one = AddPartitionsToTxnTransaction::default()
        .with_transactional_id(name(NAME))
        .with_producer_id(producer.producer_id.into())
        .with_producer_epoch(producer.producer_epoch);
    let add = one.clone().with_topics(vec![partitions("t", &[0])]);
    let verify = one.with_verify_only(true).with_topics(vec![partitions("t", &[0, 1])]);
    for (version, not_added) in [(4, INVALID_TXN_STATE), (5, TRANSACTION_ABORTABLE)] {
        let transactions = vec![add.clone(), verify.clone()];
        let request = AddPartitionsToTxnRequest::default().with_transactions(transactions);
        let answered = client.call(version, &request).await;
        assert_eq!(answered.error_code, 0);
        let codes: Vec<Vec<i16>> = answered
            .results_by_transaction
            .iter()
            .map(|result| {
                let partitions = result.topic_results.iter().flat_map(|topic| &topic.results_by_partition);
                partitions.map(|partition| partition.partition_error_code).collect()
            })
            .collect();
        // What is added is durable when the next one is looked at, also in the snapshot.
        assert_eq!(codes, [vec![0], vec![0, not_added]]);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn offsets_are_committed_with_their_transaction() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let topic_id = gateway.log.snapshot().topic("t").unwrap().id;
    let partition = TopicPartition::new(topic_id, 0);
    let producer = client.init(60_000).await;
    let add = AddOffsetsToTxnRequest::default()
        .with_transactional_id(name(NAME))
        .with_producer_id(producer.producer_id.into())
        .with_producer_epoch(producer.producer_epoch)
        .with_group_id(group("g"));
    let commit = |offset: i64| {
        let partitions = [(0, offset), (7, offset)].map(|(index, offset)| {
            TxnOffsetCommitRequestPartition::default()
                .with_partition_index(index)
                .with_committed_offset(offset)
        });
        let topic = TxnOffsetCommitRequestTopic::default()
            .with_name(topic_name("t"))
            .with_partitions(partitions.to_vec());
        TxnOffsetCommitRequest::default()
            .with_transactional_id(name(NAME))
            .with_group_id(group("g"))
            .with_producer_id(producer.producer_id.into())
            .with_producer_epoch(producer.producer_epoch)
            .with_topics(vec![topic])
    };
    let codes = async |client: &mut Client, version: i16, offset: i64| {
        let answered = client.call(version, &commit(offset)).await;
        answered.topics[0].partitions.iter().map(|partition| partition.error_code).collect::<Vec<_>>()
    };
    let refused = codes(&mut client, 2, 1).await;
    assert_eq!(refused, [INVALID_TXN_STATE, UNKNOWN_TOPIC_OR_PARTITION], "the group was not added");
    for (offset, committed) in [(5, false), (8, true)] {
        assert_eq!(client.call(3, &add).await.error_code, 0);
        assert_eq!(codes(&mut client, 4, offset).await, [0, UNKNOWN_TOPIC_OR_PARTITION]);
        let nobody = commit(99).with_member_id(StrBytes::from_static_str("nobody")).with_generation_id(5);
        let refused = client.call(4, &nobody).await.topics.remove(0);
        let refused: Vec<_> = refused.partitions.iter().map(|partition| partition.error_code).collect();
        assert_eq!(refused, [UNKNOWN_MEMBER_ID, UNKNOWN_TOPIC_OR_PARTITION]);
        let snapshot = gateway.log.snapshot();
        assert!(snapshot.has_pending_offset("g", partition));
        assert_eq!(snapshot.committed_offset("g", partition), None);
        for version in [7, 8] {
            assert_eq!(fetch_offset(&mut client, version, true).await, (UNSTABLE_OFFSET_COMMIT, -1));
            assert_eq!(fetch_offset(&mut client, version, false).await, (0, -1));
        }
        assert_eq!(client.end(3, producer, committed).await, 0);
        let snapshot = gateway.log.snapshot();
        assert!(!snapshot.has_pending_offset("g", partition));
        let found = snapshot.committed_offset("g", partition).map(|found| found.offset);
        assert_eq!(found, committed.then_some(offset));
    }
    gateway.stop().await;
}

/// Error and offset of partition 0 for the group.
async fn fetch_offset(client: &mut Client, version: i16, require_stable: bool) -> (i16, i64) {
    let request = OffsetFetchRequest::default().with_require_stable(require_stable);
    if version >= 8 {
        let topic =
            OffsetFetchRequestTopics::default().with_name(topic_name("t")).with_partition_indexes(vec![0]);
        let asked =
            OffsetFetchRequestGroup::default().with_group_id(group("g")).with_topics(Some(vec![topic]));
        let answered = client.call(version, &request.with_groups(vec![asked])).await;
        let partition = &answered.groups[0].topics[0].partitions[0];
        return (partition.error_code, partition.committed_offset);
    }
    let topic = OffsetFetchRequestTopic::default().with_name(topic_name("t")).with_partition_indexes(vec![0]);
    let answered =
        client.call(version, &request.with_group_id(group("g")).with_topics(Some(vec![topic]))).await;
    let partition = &answered.topics[0].partitions[0];
    (partition.error_code, partition.committed_offset)
}

#[tokio::test]
async fn a_topic_that_is_deleted_meanwhile_does_not_keep_a_transaction_from_its_end() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    for topic in ["kept", "gone"] {
        client.create_topic(topic, 1).await;
    }
    let producer = client.init(60_000).await;
    client.begin_in("gone", producer, 0).await;
    client.begin_in("kept", producer, 0).await;
    let gone = gateway.log.snapshot().topic("gone").unwrap().id;
    gateway.log.delete_topic(gone).await.unwrap();
    assert_eq!(client.end(3, producer, true).await, 0);
    assert_eq!(state(&gateway.log), TransactionState::CompleteCommit);
    assert_eq!(client.committed("kept").await, (2, Vec::new()));
    gateway.stop().await;
}

#[tokio::test]
async fn a_transaction_over_several_shards_ends_in_all_of_them() {
    const PARTITIONS: i32 = 8;
    let gateway = TestGateway::start_over(4).await;
    let mut client = gateway.connect().await;
    client.create_topic("t", PARTITIONS).await;
    let topic_id = gateway.log.snapshot().topic("t").unwrap().id;
    let producer = client.init(60_000).await;
    let all: Vec<i32> = (0..PARTITIONS).collect();
    // Enough for some to be in other shards than the transactional id.
    let groups: Vec<String> = (0..8).map(|number| format!("group-{number}")).collect();
    for (round, is_committed) in [false, true, true].into_iter().enumerate() {
        assert_eq!(client.add(3, producer, vec![partitions("t", &all)]).await, vec![0; all.len()]);
        for partition in 0..PARTITIONS {
            let batch = transactional(producer, round as i32, b"v");
            assert_eq!(client.produce_in(Some(NAME), "t", partition, batch).await, 0);
        }
        let offset = round as i64 + 1;
        for name in &groups {
            commit_in(&mut client, producer, name, offset).await;
        }
        assert_eq!(client.end(3, producer, is_committed).await, 0);
        until(
            &gateway.log,
            match is_committed {
                true => TransactionState::CompleteCommit,
                false => TransactionState::CompleteAbort,
            },
        )
        .await;
        let snapshot = gateway.log.snapshot();
        for number in 0..PARTITIONS {
            let bounds = snapshot.partition(TopicPartition::new(topic_id, number)).unwrap().bounds();
            assert_eq!(bounds.last_stable_offset, 2 * (round as i64 + 1));
        }
        for name in &groups {
            let partition = TopicPartition::new(topic_id, 0);
            let found = snapshot.committed_offset(name, partition).map(|found| found.offset);
            assert_eq!(found, is_committed.then_some(offset), "{name}");
            assert!(!snapshot.has_pending_offset(name, partition));
        }
    }
    gateway.stop().await;
}

/// Adds a group, and its offset of partition 0, to the open transaction.
async fn commit_in(client: &mut Client, producer: Producer, group_id: &str, offset: i64) {
    let add = AddOffsetsToTxnRequest::default()
        .with_transactional_id(name(NAME))
        .with_producer_id(producer.producer_id.into())
        .with_producer_epoch(producer.producer_epoch)
        .with_group_id(group(group_id));
    assert_eq!(client.call(3, &add).await.error_code, 0);
    let partition =
        TxnOffsetCommitRequestPartition::default().with_partition_index(0).with_committed_offset(offset);
    let topic =
        TxnOffsetCommitRequestTopic::default().with_name(topic_name("t")).with_partitions(vec![partition]);
    let commit = TxnOffsetCommitRequest::default()
        .with_transactional_id(name(NAME))
        .with_group_id(group(group_id))
        .with_producer_id(producer.producer_id.into())
        .with_producer_epoch(producer.producer_epoch)
        .with_topics(vec![topic]);
    assert_eq!(client.call(2, &commit).await.topics[0].partitions[0].error_code, 0);
}

#[tokio::test]
async fn a_transaction_that_was_decided_before_a_restart_is_completed_without_a_client() {
    for (prepared, complete) in [
        (TransactionState::PrepareCommit, TransactionState::CompleteCommit),
        (TransactionState::PrepareAbort, TransactionState::CompleteAbort),
    ] {
        let store: Arc<dyn LogStore> = Arc::new(ObjectStoreBackend::memory());
        let gateway = TestGateway::start_on(store.clone(), settings()).await;
        let mut client = gateway.connect().await;
        client.create_topic("t", 1).await;
        let producer = client.init(60_000).await;
        client.begin_in("t", producer, 0).await;
        gateway.stop().await;
        // What is left by a coordinator that ended between the decision and the markers.
        let log = Log::open(store.clone(), LogSettings::default(), Seams::system()).await.unwrap();
        let decided = log.update_transactional_id(NAME, move |view| {
            let mut current = view.current.unwrap().clone();
            current.state = prepared;
            current.partitions.insert(TopicPartition::new(TopicId::from_bytes([9; 16]), 0));
            Ok::<_, WriteError>(Decision { answer: (), change: TransactionalIdChange::Put(current) })
        });
        decided.await.unwrap();
        log.close().await;
        let gateway = TestGateway::start_on(store, settings()).await;
        until(&gateway.log, complete).await;
        let mut client = gateway.connect().await;
        let (last_stable_offset, aborted) = client.committed("t").await;
        assert_eq!(last_stable_offset, 2);
        assert_eq!(aborted.len(), usize::from(complete == TransactionState::CompleteAbort));
        gateway.stop().await;
    }
}

#[tokio::test]
async fn transactions_are_listed_and_described() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 2).await;
    let producer = client.init(60_000).await;
    client.begin_in("t", producer, 0).await;
    let ids = vec![name(NAME), name("nobody")];
    let described = client.call(0, &DescribeTransactionsRequest::default().with_transactional_ids(ids)).await;
    let [found, missing] = &described.transaction_states[..] else { panic!("{described:?}") };
    assert_eq!((found.error_code, &*found.transaction_state), (0, "Ongoing"));
    assert_eq!((found.producer_id.0, found.producer_epoch), (producer.producer_id, producer.producer_epoch));
    assert_eq!((found.transaction_timeout_ms, &found.topics[0].partitions[..]), (60_000, &[0][..]));
    assert!(found.transaction_start_time_ms > 0);
    assert_eq!(missing.error_code, TRANSACTIONAL_ID_NOT_FOUND);
    let text = StrBytes::from_static_str;
    let texts = |texts: &[&'static str]| texts.iter().copied().map(text).collect();
    let wrong = ListTransactionsRequest::default().with_transactional_id_pattern(Some(text("(")));
    assert_eq!(client.call(2, &wrong).await.error_code, INVALID_REGULAR_EXPRESSION);
    let all = ListTransactionsRequest::default().with_duration_filter(-1);
    let cases = [
        (all.clone(), 1),
        (all.clone().with_state_filters(texts(&["Ongoing", "Empty"])), 1),
        (all.clone().with_state_filters(texts(&["Empty"])), 0),
        (all.clone().with_state_filters(texts(&["Nonsense"])), 0),
        (all.clone().with_producer_id_filters(vec![producer.producer_id.into()]), 1),
        (all.clone().with_producer_id_filters(vec![999.into()]), 0),
        (all.clone().with_duration_filter(3_600_000), 0),
        (all.clone().with_transactional_id_pattern(Some(text("cop.*"))), 1),
        (all.clone().with_transactional_id_pattern(Some(text("cop"))), 0),
        (all.clone().with_transactional_id_pattern(Some(text(""))), 1),
    ];
    for (request, count) in cases {
        let listed = client.call(2, &request).await;
        assert_eq!(listed.transaction_states.len(), count, "{request:?}");
        let unknown = request.state_filters.iter().filter(|state| &***state == "Nonsense");
        assert_eq!(listed.unknown_state_filters.len(), unknown.count());
    }
    gateway.stop().await;
}

#[tokio::test]
async fn an_operator_ends_a_transaction_that_hangs_in_a_partition() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let producer = client.init(60_000).await;
    client.begin_in("t", producer, 0).await;
    let mut abort = async |producer_epoch: i16, coordinator_epoch: i32, partition: i32| {
        let topic = WritableTxnMarkerTopic::default()
            .with_name(topic_name("t"))
            .with_partition_indexes(vec![partition]);
        let marker = WritableTxnMarker::default()
            .with_producer_id(producer.producer_id.into())
            .with_producer_epoch(producer_epoch)
            .with_coordinator_epoch(coordinator_epoch)
            .with_topics(vec![topic]);
        let request = WriteTxnMarkersRequest::default().with_markers(vec![marker]);
        let answered = client.call(1, &request).await;
        answered.markers[0].topics[0].partitions[0].error_code
    };
    assert_eq!(abort(producer.producer_epoch, 0, 5).await, UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(abort(producer.producer_epoch, 5, 0).await, 0);
    assert_eq!(abort(producer.producer_epoch, 4, 0).await, TRANSACTION_COORDINATOR_FENCED);
    assert_eq!(abort(producer.producer_epoch - 1, 5, 0).await, INVALID_PRODUCER_EPOCH);
    assert_eq!(client.committed("t").await.0, 2);
    gateway.stop().await;
}
