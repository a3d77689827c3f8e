//! Consumer groups: rebalances, and committed offsets.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    GroupId, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, OffsetCommitRequest,
    OffsetFetchRequest, SyncGroupRequest,
};
use kafka_protocol::protocol::StrBytes;
use strandline_kafka_gateway::GatewaySettings;
use strandline_storage::object::{LogStore, ObjectStoreBackend};

use crate::support::*;

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const OFFSET_METADATA_TOO_LARGE: i16 = 12;
const ILLEGAL_GENERATION: i16 = 22;
const INVALID_GROUP_ID: i16 = 24;
const UNKNOWN_MEMBER_ID: i16 = 25;
const INVALID_SESSION_TIMEOUT: i16 = 26;
const REBALANCE_IN_PROGRESS: i16 = 27;
const MEMBER_ID_REQUIRED: i16 = 79;

fn group(name: &'static str) -> GroupId {
    GroupId(StrBytes::from_static_str(name))
}

fn join(member_id: &StrBytes) -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol::default()
        .with_name(StrBytes::from_static_str("range"))
        .with_metadata(Bytes::from_static(b"metadata"));
    JoinGroupRequest::default()
        .with_group_id(group("g"))
        .with_session_timeout_ms(10_000)
        .with_rebalance_timeout_ms(20_000)
        .with_member_id(member_id.clone())
        .with_protocol_type(StrBytes::from_static_str("consumer"))
        .with_protocols(vec![protocol])
}

fn sync(joined: &JoinGroupResponse, assignments: &[(&StrBytes, &'static [u8])]) -> SyncGroupRequest {
    let assignments = assignments.iter().map(|(member_id, assignment)| {
        SyncGroupRequestAssignment::default()
            .with_member_id((*member_id).clone())
            .with_assignment(Bytes::from_static(assignment))
    });
    SyncGroupRequest::default()
        .with_group_id(group("g"))
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone())
        .with_assignments(assignments.collect())
}

fn heartbeat(joined: &JoinGroupResponse) -> HeartbeatRequest {
    HeartbeatRequest::default()
        .with_group_id(group("g"))
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone())
}

/// Joins as a client of version 4 does: once for an id, once with it.
async fn join_new(client: &mut Client) -> JoinGroupResponse {
    let told = client.call(4, &join(&StrBytes::new())).await;
    assert_eq!(told.error_code, MEMBER_ID_REQUIRED);
    assert!(told.member_id.starts_with("test-"));
    client.call(4, &join(&told.member_id)).await
}

#[tokio::test]
async fn two_members_share_a_topic_and_one_takes_over_when_the_other_leaves() {
    let gateway = TestGateway::start().await;
    let (mut a, mut b) = (gateway.connect().await, gateway.connect().await);
    let alone = join_new(&mut a).await;
    assert_eq!((alone.error_code, alone.generation_id, alone.members.len()), (0, 1, 1));
    assert_eq!(alone.protocol_name.as_deref(), Some("range"));
    let assigned = a.call(2, &sync(&alone, &[(&alone.member_id, b"all")])).await;
    assert_eq!(&assigned.assignment[..], b"all");
    assert_eq!(a.call(2, &heartbeat(&alone)).await.error_code, 0);

    let told = b.call(4, &join(&StrBytes::new())).await;
    let joining = b.send(4, &join(&told.member_id)).await;
    while a.call(2, &heartbeat(&alone)).await.error_code != REBALANCE_IN_PROGRESS {}
    let leader = a.call(4, &join(&alone.member_id)).await;
    let follower = b.receive::<JoinGroupRequest>(4, joining).await;
    assert_eq!((leader.generation_id, follower.generation_id), (2, 2));
    assert_eq!((leader.members.len(), follower.members.len()), (2, 0));
    assert_eq!((&leader.leader, &follower.leader), (&leader.member_id, &leader.member_id));
    let waiting = b.send(2, &sync(&follower, &[])).await;
    let assignments = [(&leader.member_id, &b"one"[..]), (&follower.member_id, &b"two"[..])];
    assert_eq!(&a.call(2, &sync(&leader, &assignments)).await.assignment[..], b"one");
    assert_eq!(&b.receive::<SyncGroupRequest>(2, waiting).await.assignment[..], b"two");

    let leave =
        LeaveGroupRequest::default().with_group_id(group("g")).with_member_id(leader.member_id.clone());
    assert_eq!(a.call(2, &leave).await.error_code, 0);
    assert_eq!(a.call(2, &leave).await.error_code, UNKNOWN_MEMBER_ID);
    assert_eq!(b.call(2, &heartbeat(&follower)).await.error_code, REBALANCE_IN_PROGRESS);
    let last = b.call(4, &join(&follower.member_id)).await;
    assert_eq!((last.generation_id, &last.leader), (3, &last.member_id));
}

/// Reported as kafka-go#1435, kafkajs#801: MEMBER_ID_REQUIRED is unknown to a client below version 4.
#[tokio::test]
async fn old_versions_of_the_group_apis_are_served() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    let mut generation = 0;
    for (join_version, version) in [(0, 0), (1, 0), (2, 1), (3, 2)] {
        let request = match join_version {
            0 => join(&StrBytes::new()).with_rebalance_timeout_ms(-1),
            _ => join(&StrBytes::new()),
        };
        let joined = client.call(join_version, &request).await;
        // A group that lost its last member goes on counting.
        assert_eq!((joined.error_code, joined.generation_id > generation), (0, true), "{joined:?}");
        generation = joined.generation_id;
        assert_eq!(client.call(version, &sync(&joined, &[])).await.error_code, 0);
        assert_eq!(client.call(version, &heartbeat(&joined)).await.error_code, 0);
        let leave =
            LeaveGroupRequest::default().with_group_id(group("g")).with_member_id(joined.member_id.clone());
        assert_eq!(client.call(version, &leave).await.error_code, 0);
    }
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    let unnamed = join(&StrBytes::new()).with_group_id(group(""));
    assert_eq!(client.call(4, &unnamed).await.error_code, INVALID_GROUP_ID);
    let hasty = join(&StrBytes::new()).with_session_timeout_ms(10);
    assert_eq!(client.call(4, &hasty).await.error_code, INVALID_SESSION_TIMEOUT);
    let ghost = join(&StrBytes::from_static_str("ghost"));
    assert_eq!(client.call(4, &ghost).await.error_code, UNKNOWN_MEMBER_ID);
    let nobody = JoinGroupResponse::default().with_generation_id(1);
    assert_eq!(client.call(2, &heartbeat(&nobody)).await.error_code, UNKNOWN_MEMBER_ID);
    assert_eq!(client.call(2, &sync(&nobody, &[])).await.error_code, UNKNOWN_MEMBER_ID);
}

#[tokio::test]
async fn a_member_that_is_silent_loses_its_place() {
    let settings = GatewaySettings { group_session_timeout_min: Duration::from_millis(50), ..settings() };
    let gateway = TestGateway::start_with(settings).await;
    let mut client = gateway.connect().await;
    let joined = client.call(3, &join(&StrBytes::new()).with_session_timeout_ms(100)).await;
    client.call(2, &sync(&joined, &[])).await;
    let mut other = gateway.connect().await;
    // Waits for the first member, who does not come: the rebalance ends with its session.
    let alone = other.call(3, &join(&StrBytes::new())).await;
    assert_eq!((alone.generation_id, alone.members.len()), (2, 1));
    assert_eq!(client.call(2, &heartbeat(&joined)).await.error_code, UNKNOWN_MEMBER_ID);
}

fn commit(partition: i32, offset: i64, metadata: Option<&'static str>) -> OffsetCommitRequest {
    let partition = OffsetCommitRequestPartition::default()
        .with_partition_index(partition)
        .with_committed_offset(offset)
        .with_committed_metadata(metadata.map(StrBytes::from_static_str));
    let topic =
        OffsetCommitRequestTopic::default().with_name(topic_name("t")).with_partitions(vec![partition]);
    OffsetCommitRequest::default()
        .with_group_id(group("g"))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic])
}

fn committed(response: kafka_protocol::messages::OffsetCommitResponse) -> i16 {
    response.topics[0].partitions[0].error_code
}

/// What partition 0 and 1 of the topic have committed, in a version with one group per request.
async fn fetch_committed(client: &mut Client, version: i16) -> Vec<(i64, i32, String, i16)> {
    let topic =
        OffsetFetchRequestTopic::default().with_name(topic_name("t")).with_partition_indexes(vec![0, 1]);
    let request = OffsetFetchRequest::default().with_group_id(group("g")).with_topics(Some(vec![topic]));
    let response = client.call(version, &request).await;
    assert_eq!(response.error_code, 0);
    let found = response.topics[0].partitions.iter().map(|one| {
        let metadata = one.metadata.as_deref().unwrap_or("null").to_owned();
        (one.committed_offset, one.committed_leader_epoch, metadata, one.error_code)
    });
    found.collect()
}

/// Reported as librdkafka#577, kafka#1064: no metadata is an empty text.
#[tokio::test]
async fn committed_offsets_come_back_in_every_version_also_after_a_restart() {
    let store: Arc<dyn LogStore> = Arc::new(ObjectStoreBackend::memory());
    let gateway = TestGateway::start_on(store.clone(), settings()).await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 2).await;
    for version in 2..=8 {
        let request = commit(0, i64::from(version), None);
        assert_eq!(committed(client.call(version, &request).await), 0, "version {version}");
    }
    let none = (-1, -1, String::new(), 0);
    for version in 1..=7 {
        let found = fetch_committed(&mut client, version).await;
        assert_eq!(found, [(8, -1, String::new(), 0), none.clone()], "version {version}");
    }
    assert_eq!(committed(client.call(8, &commit(1, 5, Some("note"))).await), 0);
    drop(client);
    gateway.log.close().await;
    gateway.stop().await;
    let gateway = TestGateway::start_on(store, settings()).await;
    let mut client = gateway.connect().await;
    let found = fetch_committed(&mut client, 7).await;
    assert_eq!(found, [(8, -1, String::new(), 0), (5, -1, "note".to_owned(), 0)]);
}

#[tokio::test]
async fn several_groups_are_asked_at_once_and_null_means_all() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 2).await;
    client.call(8, &commit(1, 5, None)).await;
    let topic =
        OffsetFetchRequestTopics::default().with_name(topic_name("t")).with_partition_indexes(vec![1]);
    let asked =
        |name, topics| OffsetFetchRequestGroup::default().with_group_id(group(name)).with_topics(topics);
    let groups = vec![asked("g", None), asked("other", None), asked("other", Some(vec![topic]))];
    let groups = client.call(8, &OffsetFetchRequest::default().with_groups(groups)).await.groups;
    let all = &groups[0].topics[0];
    assert_eq!((all.name.as_str(), all.partitions[0].committed_offset), ("t", 5));
    assert_eq!((groups[1].error_code, groups[1].topics.len()), (0, 0));
    assert_eq!(groups[2].topics[0].partitions[0].committed_offset, -1);
}

#[tokio::test]
async fn commits_are_refused_one_partition_at_a_time() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let mut request = commit(0, 3, None);
    let unknown = commit(9, 3, None).topics[0].partitions[0].clone();
    let mut long = request.topics[0].partitions[0].clone();
    long.committed_metadata = Some(StrBytes::from_string("x".repeat(4097)));
    request.topics[0].partitions.extend([unknown, long]);
    let response = client.call(8, &request).await;
    let codes: Vec<_> = response.topics[0].partitions.iter().map(|one| one.error_code).collect();
    assert_eq!(codes, [0, UNKNOWN_TOPIC_OR_PARTITION, OFFSET_METADATA_TOO_LARGE]);
}

#[tokio::test]
async fn only_members_of_the_generation_commit_while_there_are_any() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let joined = client.call(3, &join(&StrBytes::new())).await;
    client.call(2, &sync(&joined, &[])).await;
    assert_eq!(committed(client.call(8, &commit(0, 1, None)).await), UNKNOWN_MEMBER_ID);
    let member = commit(0, 1, None).with_member_id(joined.member_id.clone());
    let current = member.clone().with_generation_id_or_member_epoch(joined.generation_id);
    assert_eq!(committed(client.call(8, &current).await), 0);
    let with_instance_id = current.with_group_instance_id(Some(StrBytes::from_static_str("i")));
    assert_eq!(committed(client.call(8, &with_instance_id).await), UNKNOWN_MEMBER_ID);
    let older = member.with_generation_id_or_member_epoch(joined.generation_id - 1);
    assert_eq!(committed(client.call(8, &older).await), ILLEGAL_GENERATION);
}
