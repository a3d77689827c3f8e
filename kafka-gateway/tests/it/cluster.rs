//! What tools and UIs ask about a cluster: sizes, producers, pages of partitions, and what a cluster
//! of one broker has none of.

use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kafka_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use strandline_storage::format::{BatchOptions, ProducerIdentity};

use crate::support::*;

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const INVALID_TOPIC_EXCEPTION: i16 = 17;
const UNSUPPORTED_VERSION: i16 = 35;
const INVALID_REPLICA_ASSIGNMENT: i16 = 39;
const INVALID_REQUEST: i16 = 42;
const SECURITY_DISABLED: i16 = 54;
const ELECTION_NOT_NEEDED: i16 = 84;
const NO_REASSIGNMENT_IN_PROGRESS: i16 = 85;
const MISMATCHED_ENDPOINT_TYPE: i16 = 114;
const UNSUPPORTED_ENDPOINT_TYPE: i16 = 115;

const fn text(text: &'static str) -> StrBytes {
    StrBytes::from_static_str(text)
}

/// Reported as redpanda#903, kafka-ui#3261.
#[tokio::test]
async fn log_dirs_tell_the_size_of_every_partition() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 2).await;
    client.create_topic("u", 1).await;
    let sent = batch(&[(1, b"abc")]);
    client.produce("t", 1, sent.clone()).await;
    for version in 1..=4 {
        let all = client.call(version, &DescribeLogDirsRequest::default().with_topics(None)).await;
        let [dir] = &all.results[..] else { panic!("one directory: {all:?}") };
        assert_eq!((dir.error_code, dir.total_bytes, dir.topics.len()), (0, -1, 2));
        assert!(!dir.log_dir.is_empty());
        let sizes: Vec<_> = dir.topics[0].partitions.iter().map(|one| one.partition_size).collect();
        assert_eq!(sizes, [0, i64::try_from(sent.len()).unwrap()]);
        let named = ["t", "none"].map(|name| {
            DescribableLogDirTopic::default().with_topic(topic_name(name)).with_partitions(vec![1, 7])
        });
        let request = DescribeLogDirsRequest::default().with_topics(Some(named.to_vec()));
        let some = client.call(version, &request).await;
        let [topic] = &some.results[0].topics[..] else { panic!("one topic: {some:?}") };
        assert_eq!((topic.name.as_str(), topic.partitions.len()), ("t", 1));
    }
}

fn page(topics: &[&str], limit: i32, cursor: Option<(&str, i32)>) -> DescribeTopicPartitionsRequest {
    let topics = topics.iter().map(|name| TopicRequest::default().with_name(topic_name(name)));
    let cursor = cursor
        .map(|(name, index)| Cursor::default().with_topic_name(topic_name(name)).with_partition_index(index));
    DescribeTopicPartitionsRequest::default()
        .with_topics(topics.collect())
        .with_response_partition_limit(limit)
        .with_cursor(cursor)
}

/// Reported as kafka#15470, kafka#16612.
#[tokio::test]
async fn partitions_are_described_page_by_page() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("b", 3).await;
    client.create_topic("a", 2).await;
    for topics in [&[][..], &["b", "a"][..]] {
        let mut cursor: Option<(String, i32)> = None;
        let mut found = Vec::new();
        let mut pages = 0;
        loop {
            let from = cursor.as_ref().map(|(name, index)| (name.as_str(), *index));
            let response = client.call(0, &page(topics, 2, from)).await;
            pages += 1;
            for topic in &response.topics {
                assert_eq!((topic.error_code, topic.topic_id.is_nil()), (0, false));
                assert_eq!(topic.topic_authorized_operations, 3576);
                let name = topic.name.as_ref().unwrap().to_string();
                found.extend(topic.partitions.iter().map(|one| (name.clone(), one.partition_index)));
            }
            let Some(next) = response.next_cursor else { break };
            cursor = Some((next.topic_name.to_string(), next.partition_index));
        }
        let expected = [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2)];
        assert_eq!(found, expected.map(|(name, index)| (name.to_owned(), index)));
        assert_eq!(pages, 3);
    }
    let errors = client.call(0, &page(&["none", "bad name", "a"], 2000, None)).await;
    let codes: Vec<_> = errors.topics.iter().map(|topic| topic.error_code).collect();
    assert_eq!(codes, [0, INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION]);
    let foreign_cursor = client.call(0, &page(&["a"], 2, Some(("b", 0)))).await;
    assert_eq!(foreign_cursor.topics[0].error_code, INVALID_REQUEST);
    let past_the_end = client.call(0, &page(&["a"], 2, Some(("a", i32::MAX)))).await;
    assert!(past_the_end.topics[0].partitions.is_empty() && past_the_end.next_cursor.is_none());
}

#[tokio::test]
async fn producers_of_a_partition_are_described() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let producer = Some(ProducerIdentity { producer_id: 7, producer_epoch: 3, base_sequence: 0 });
    let sent =
        batch_with(BatchOptions { producer, ..BatchOptions::default() }, &[(1, &b"a"[..]), (2, &b"b"[..])]);
    assert_eq!(client.produce("t", 0, sent).await.error_code, 0);
    let topics = ["t", "none"].map(|name| {
        describe_producers_request::TopicRequest::default()
            .with_name(topic_name(name))
            .with_partition_indexes(vec![0, 5])
    });
    let response = client.call(0, &DescribeProducersRequest::default().with_topics(topics.to_vec())).await;
    let codes = response.topics.iter().flat_map(|topic| topic.partitions.iter().map(|one| one.error_code));
    assert!(codes.eq([
        0,
        UNKNOWN_TOPIC_OR_PARTITION,
        UNKNOWN_TOPIC_OR_PARTITION,
        UNKNOWN_TOPIC_OR_PARTITION
    ]));
    let [found] = &response.topics[0].partitions[0].active_producers[..] else { panic!("one producer") };
    assert_eq!((found.producer_id.0, found.producer_epoch, found.last_sequence), (7, 3, 1));
    assert_eq!((found.current_txn_start_offset, found.coordinator_epoch), (-1, -1));
    assert!(found.last_timestamp > 0);
}

#[tokio::test]
async fn partitions_stay_where_they_are() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let list = ListPartitionReassignmentsRequest::default().with_topics(None);
    let listed = client.call(0, &list).await;
    assert_eq!((listed.error_code, listed.topics.len()), (0, 0));
    let to = |index, brokers: Option<&[i32]>| {
        let brokers = brokers.map(|ids| ids.iter().map(|id| (*id).into()).collect());
        ReassignablePartition::default().with_partition_index(index).with_replicas(brokers)
    };
    let partitions = vec![to(0, Some(&[0])), to(0, Some(&[1])), to(0, None), to(5, Some(&[0]))];
    let topic = ReassignableTopic::default().with_name(topic_name("t")).with_partitions(partitions);
    for version in 0..=1 {
        let request = AlterPartitionReassignmentsRequest::default().with_topics(vec![topic.clone()]);
        let response = client.call(version, &request).await;
        let codes = response.responses[0].partitions.iter().map(|one| one.error_code);
        let expected =
            [0, INVALID_REPLICA_ASSIGNMENT, NO_REASSIGNMENT_IN_PROGRESS, UNKNOWN_TOPIC_OR_PARTITION];
        assert!(codes.eq(expected), "{response:?}");
    }
    for version in 0..=2 {
        let all = client.call(version, &ElectLeadersRequest::default().with_topic_partitions(None)).await;
        assert_eq!((all.error_code, all.replica_election_results.len()), (0, 0));
        let named = TopicPartitions::default().with_topic(topic_name("t")).with_partitions(vec![0, 5]);
        let request = ElectLeadersRequest::default().with_topic_partitions(Some(vec![named]));
        let response = client.call(version, &request).await;
        let codes = response.replica_election_results[0].partition_result.iter().map(|one| one.error_code);
        assert!(codes.eq([ELECTION_NOT_NEEDED, UNKNOWN_TOPIC_OR_PARTITION]));
    }
}

/// Reported as redpanda#764, akhq#1112: a UI asks for ACLs and shows nothing when the connection closes.
#[tokio::test]
async fn acls_need_an_authorizer() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    for version in 1..=3 {
        let described = client.call(version, &DescribeAclsRequest::default()).await;
        assert_eq!((described.error_code, described.resources.len()), (SECURITY_DISABLED, 0));
        let creation = AclCreation::default().with_resource_pattern_type(3);
        let create = CreateAclsRequest::default().with_creations(vec![creation.clone(), creation]);
        let created = client.call(version, &create).await;
        assert!(created.results.iter().map(|one| one.error_code).eq([SECURITY_DISABLED; 2]));
        let delete = DeleteAclsRequest::default().with_filters(vec![DeleteAclsFilter::default()]);
        let deleted = client.call(version, &delete).await;
        assert!(deleted.filter_results.iter().map(|one| one.error_code).eq([SECURITY_DISABLED]));
    }
}

#[tokio::test]
async fn resources_with_configs_are_listed() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let mut list = async |version, types: &[i8]| {
        let request = ListConfigResourcesRequest::default().with_resource_types(types.to_vec());
        let response = client.call(version, &request).await;
        let resources = response.config_resources.iter();
        let found: Vec<_> = resources.map(|one| (one.resource_type, one.resource_name.to_string())).collect();
        (response.error_code, found)
    };
    assert_eq!(list(0, &[]).await, (0, vec![]));
    assert_eq!(list(1, &[]).await, (0, vec![(2, "t".to_owned()), (4, "0".to_owned())]));
    assert_eq!(list(1, &[4, 16]).await, (0, vec![(4, "0".to_owned())]));
    assert_eq!(list(1, &[77]).await, (UNSUPPORTED_VERSION, vec![]));
}

#[tokio::test]
async fn authorized_operations_are_given_when_they_are_asked_for() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let all = MetadataRequest::default().with_topics(None);
    let silent = client.call(13, &all).await;
    assert_eq!(silent.topics[0].topic_authorized_operations, i32::MIN);
    assert_eq!(silent.error_code, 0);
    let asking = all.with_include_topic_authorized_operations(true);
    for version in 8..=13 {
        let mut asking = asking.clone();
        asking.include_cluster_authorized_operations = version <= 10;
        let told = client.call(version, &asking).await;
        assert_eq!(told.topics[0].topic_authorized_operations, 3576);
        if version <= 10 {
            assert_eq!(told.cluster_authorized_operations, 8096);
        }
    }
    let request = DescribeClusterRequest::default().with_include_cluster_authorized_operations(true);
    assert_eq!(client.call(1, &request).await.cluster_authorized_operations, 8096);
}

#[tokio::test]
async fn brokers_are_the_only_endpoints() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    for (endpoint_type, error) in [
        (1, 0),
        (2, MISMATCHED_ENDPOINT_TYPE),
        (0, UNSUPPORTED_ENDPOINT_TYPE),
        (3, UNSUPPORTED_ENDPOINT_TYPE),
    ] {
        let request = DescribeClusterRequest::default().with_endpoint_type(endpoint_type);
        let response = client.call(2, &request).await;
        assert_eq!((response.error_code, response.brokers.len() == 1), (error, error == 0));
    }
}

/// Reported as redpanda docs#1614.
#[tokio::test]
async fn features_are_told_without_the_second_transaction_protocol() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    let request = ApiVersionsRequest::default()
        .with_client_software_name(text("test"))
        .with_client_software_version(text("1.0"));
    for version in 3..=4 {
        let response = client.call(version, &request).await;
        let finalized: Vec<_> = response.finalized_features.iter().map(|one| one.name.as_str()).collect();
        assert!(finalized.contains(&"metadata.version") && !finalized.contains(&"transaction.version"));
        let supported: Vec<_> = response.supported_features.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(supported, finalized);
        let lowest = response.supported_features.iter().map(|one| one.min_version).min();
        assert!(version >= 4 || lowest >= Some(1), "{response:?}");
    }
}
