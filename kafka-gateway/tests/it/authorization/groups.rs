//! Cases of the APIs of groups.

use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::*;
use strandline_storage::access::Operation;

use super::world::{consumer_request, join_request};
use super::{
    Case, Codes, GROUP_AUTHORIZATION_FAILED, LEFT_OUT, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ask, cluster,
    group, text, topic, transactional_id,
};
use crate::support::*;

const GROUP: &[i16] = &[GROUP_AUTHORIZATION_FAILED];

fn id(name: &str) -> GroupId {
    GroupId(text(name))
}

pub(super) const CASES: &[Case] = &[
    Case::one(
        ApiKey::OffsetCommit,
        &[group("g", Operation::Read), topic("t", Operation::Read)],
        GROUP,
        |client, _| {
            let partition = OffsetCommitRequestPartition::default().with_committed_offset(2);
            let topic = OffsetCommitRequestTopic::default()
                .with_name(topic_name("t"))
                .with_partitions(vec![partition]);
            let request = OffsetCommitRequest::default()
                .with_group_id(id("g"))
                .with_generation_id_or_member_epoch(-1)
                .with_topics(vec![topic]);
            ask(client, 7, request, |answer| vec![answer.topics[0].partitions[0].error_code])
        },
    ),
    Case::one(
        ApiKey::OffsetFetch,
        &[group("g", Operation::Describe), topic("t", Operation::Describe)],
        GROUP,
        |client, _| {
            let topic = OffsetFetchRequestTopics::default()
                .with_name(topic_name("t"))
                .with_partition_indexes(vec![0]);
            fetch_offsets(client, Some(vec![topic]))
        },
    ),
    Case::one(
        ApiKey::OffsetFetch,
        &[group("g", Operation::Describe), topic("t", Operation::Describe)],
        GROUP,
        |client, _| fetch_offsets(client, None),
    ),
    Case::one(ApiKey::FindCoordinator, &[group("g", Operation::Describe)], GROUP, |client, _| {
        find_coordinator(client, 0, "g")
    }),
    Case::one(
        ApiKey::FindCoordinator,
        &[transactional_id("x", Operation::Describe)],
        &[TRANSACTIONAL_ID_AUTHORIZATION_FAILED],
        |client, _| find_coordinator(client, 1, "x"),
    ),
    Case::one(ApiKey::JoinGroup, &[group("j", Operation::Read)], GROUP, |client, _| {
        ask(client, 3, join_request("j"), |answer| vec![answer.error_code])
    }),
    Case::one(ApiKey::Heartbeat, &[group("m", Operation::Read)], GROUP, |client, world| {
        let request = HeartbeatRequest::default()
            .with_group_id(id("m"))
            .with_generation_id(world.generation)
            .with_member_id(world.member_id.clone());
        ask(client, 3, request, |answer| vec![answer.error_code])
    }),
    Case::one(ApiKey::SyncGroup, &[group("m", Operation::Read)], GROUP, |client, world| {
        let request = SyncGroupRequest::default()
            .with_group_id(id("m"))
            .with_generation_id(world.generation)
            .with_member_id(world.member_id.clone());
        ask(client, 3, request, |answer| vec![answer.error_code])
    }),
    Case::one(ApiKey::LeaveGroup, &[group("m", Operation::Read)], GROUP, |client, world| {
        let member = MemberIdentity::default().with_member_id(world.member_id.clone());
        let request = LeaveGroupRequest::default().with_group_id(id("m")).with_members(vec![member]);
        ask(client, 3, request, |answer| match &answer.members[..] {
            [member] => vec![member.error_code],
            _ => vec![answer.error_code],
        })
    }),
    Case::one(ApiKey::DescribeGroups, &[group("m", Operation::Describe)], GROUP, |client, _| {
        let request = DescribeGroupsRequest::default().with_groups(vec![id("m")]);
        ask(client, 5, request, |answer| {
            let group = &answer.groups[0];
            assert_eq!(group.error_code == 0, group.members.len() == 1, "{group:?}");
            vec![group.error_code]
        })
    }),
    Case::one(ApiKey::ListGroups, &[group("m", Operation::Describe)], &[LEFT_OUT], |client, _| {
        list(client, 1)
    }),
    Case::one(ApiKey::ListGroups, &[cluster(Operation::Describe)], &[LEFT_OUT], |client, _| list(client, 3)),
    Case::one(ApiKey::DeleteGroups, &[group("g", Operation::Delete)], GROUP, |client, _| {
        let request = DeleteGroupsRequest::default().with_groups_names(vec![id("g")]);
        ask(client, 2, request, |answer| vec![answer.results[0].error_code])
    }),
    Case::one(
        ApiKey::OffsetDelete,
        &[group("g", Operation::Delete), topic("t", Operation::Read)],
        GROUP,
        |client, _| {
            let partition = OffsetDeleteRequestPartition::default();
            let topic = OffsetDeleteRequestTopic::default()
                .with_name(topic_name("t"))
                .with_partitions(vec![partition]);
            let request = OffsetDeleteRequest::default().with_group_id(id("g")).with_topics(vec![topic]);
            ask(client, 0, request, |answer| match answer.error_code {
                0 => vec![answer.topics[0].partitions[0].error_code],
                code => vec![code],
            })
        },
    ),
    Case::one(
        ApiKey::ConsumerGroupHeartbeat,
        &[group("k", Operation::Read), topic("t", Operation::Describe)],
        GROUP,
        |client, _| ask(client, 1, consumer_request("k"), |answer| vec![answer.error_code]),
    ),
    Case::one(
        ApiKey::ConsumerGroupDescribe,
        &[group("c", Operation::Describe), topic("t", Operation::Describe)],
        GROUP,
        |client, _| {
            let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![id("c")]);
            ask(client, 1, request, |answer| {
                let group = &answer.groups[0];
                assert_eq!(group.error_code == 0, group.members.len() == 1, "{group:?}");
                vec![group.error_code]
            })
        },
    ),
];

fn fetch_offsets(client: &mut Client, topics: Option<Vec<OffsetFetchRequestTopics>>) -> Codes<'_> {
    let group = OffsetFetchRequestGroup::default().with_group_id(id("g")).with_topics(topics);
    let request = OffsetFetchRequest::default().with_groups(vec![group]);
    ask(client, 8, request, |answer| {
        let group = &answer.groups[0];
        match &group.topics[..] {
            [topic] => {
                let partition = &topic.partitions[0];
                let expected = if partition.error_code == 0 { 1 } else { -1 };
                assert_eq!(partition.committed_offset, expected, "{partition:?}");
                vec![partition.error_code]
            }
            _ if group.error_code == 0 => vec![LEFT_OUT],
            _ => vec![group.error_code],
        }
    })
}

fn find_coordinator<'a>(client: &'a mut Client, key_type: i8, key: &str) -> Codes<'a> {
    let request =
        FindCoordinatorRequest::default().with_key_type(key_type).with_coordinator_keys(vec![text(key)]);
    ask(client, 4, request, |answer| {
        let coordinator = &answer.coordinators[0];
        assert_eq!(coordinator.error_code == 0, coordinator.node_id.0 >= 0);
        vec![coordinator.error_code]
    })
}

/// Whether so many groups are listed.
fn list(client: &mut Client, expected: usize) -> Codes<'_> {
    ask(client, 4, ListGroupsRequest::default(), move |answer| match answer.groups.len() {
        0 => vec![LEFT_OUT],
        found => {
            assert_eq!(found, expected, "{answer:?}");
            vec![answer.error_code]
        }
    })
}
