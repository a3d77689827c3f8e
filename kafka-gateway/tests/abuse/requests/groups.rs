//! Requests of groups and their committed offsets.

use bytes::Bytes;
use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::*;

use super::{Asked, group_id, text, topic_name};

fn classic() -> GroupId {
    GroupId(text("classic"))
}

/// A group of the consumer protocol.
fn consumers() -> GroupId {
    GroupId(text("consumers"))
}

pub(super) fn frame(api: ApiKey, asked: Asked) -> Option<Bytes> {
    Some(match api {
        ApiKey::OffsetCommit => asked.frame(commit()),
        ApiKey::OffsetFetch => asked.frame(fetch(asked)),
        ApiKey::FindCoordinator => {
            let request = FindCoordinatorRequest::default();
            asked.frame(match asked.version >= 4 {
                true => request.with_coordinator_keys(vec![text("g"), text("h")]),
                false => request.with_key(text("g")),
            })
        }
        ApiKey::JoinGroup => asked.frame(join(asked)),
        ApiKey::SyncGroup => {
            let assignment = SyncGroupRequestAssignment::default()
                .with_member_id(text("m"))
                .with_assignment(Bytes::from_static(b"assignment"));
            asked.frame(
                SyncGroupRequest::default()
                    .with_group_id(classic())
                    .with_generation_id(1)
                    .with_member_id(text("m"))
                    .with_group_instance_id(asked.since(3, Some(text("i"))))
                    .with_protocol_type(asked.since(5, Some(text("consumer"))))
                    .with_protocol_name(asked.since(5, Some(text("range"))))
                    .with_assignments(vec![assignment]),
            )
        }
        ApiKey::Heartbeat => asked.frame(
            HeartbeatRequest::default()
                .with_group_id(classic())
                .with_generation_id(1)
                .with_member_id(text("m"))
                .with_group_instance_id(asked.since(3, Some(text("i")))),
        ),
        ApiKey::LeaveGroup => {
            let member = MemberIdentity::default()
                .with_group_instance_id(Some(text("i")))
                .with_reason(asked.since(5, Some(text("because"))));
            let request = LeaveGroupRequest::default().with_group_id(classic());
            asked.frame(match asked.version >= 3 {
                true => request.with_members(vec![member]),
                false => request.with_member_id(text("m")),
            })
        }
        ApiKey::DescribeGroups => asked.frame(
            DescribeGroupsRequest::default()
                .with_groups(vec![classic(), consumers(), group_id()])
                .with_include_authorized_operations(asked.since(3, true)),
        ),
        ApiKey::ListGroups => asked.frame(
            ListGroupsRequest::default()
                .with_states_filter(asked.since(4, vec![text("Stable"), text("Empty")]))
                .with_types_filter(asked.since(5, vec![text("classic"), text("consumer")])),
        ),
        ApiKey::DeleteGroups => {
            asked.frame(DeleteGroupsRequest::default().with_groups_names(vec![GroupId(text("gone"))]))
        }
        ApiKey::OffsetDelete => {
            let partition = OffsetDeleteRequestPartition::default().with_partition_index(1);
            let topic =
                OffsetDeleteRequestTopic::default().with_name(topic_name()).with_partitions(vec![partition]);
            asked.frame(OffsetDeleteRequest::default().with_group_id(group_id()).with_topics(vec![topic]))
        }
        ApiKey::ConsumerGroupHeartbeat => asked.frame(heartbeat(asked, 0)),
        ApiKey::ConsumerGroupDescribe => asked.frame(
            ConsumerGroupDescribeRequest::default()
                .with_group_ids(vec![consumers(), classic()])
                .with_include_authorized_operations(true),
        ),
        _ => return None,
    })
}

fn commit() -> OffsetCommitRequest {
    let partition = OffsetCommitRequestPartition::default()
        .with_committed_offset(2)
        .with_committed_metadata(Some(text("why")));
    let topic = OffsetCommitRequestTopic::default()
        .with_name(topic_name())
        .with_partitions(vec![partition.clone(), partition.with_partition_index(1)]);
    OffsetCommitRequest::default()
        .with_group_id(group_id())
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic])
}

fn fetch(asked: Asked) -> OffsetFetchRequest {
    let request = OffsetFetchRequest::default().with_require_stable(asked.since(7, true));
    if asked.version < 8 {
        let topic =
            OffsetFetchRequestTopic::default().with_name(topic_name()).with_partition_indexes(vec![0, 1]);
        return request.with_group_id(group_id()).with_topics(Some(vec![topic]));
    }
    let topic =
        OffsetFetchRequestTopics::default().with_name(topic_name()).with_partition_indexes(vec![0, 1]);
    let group = OffsetFetchRequestGroup::default().with_group_id(group_id()).with_member_id(None);
    let groups = vec![group.clone().with_topics(Some(vec![topic])), group.with_topics(None)];
    request.with_groups(groups).with_topics(Some(Vec::new()))
}

fn join(asked: Asked) -> JoinGroupRequest {
    let protocol = |name, metadata| {
        JoinGroupRequestProtocol::default().with_name(text(name)).with_metadata(Bytes::from_static(metadata))
    };
    // A subscription of the Java client: version, topics, user data.
    let metadata = b"\0\0\0\0\0\x01\0\x01t\0\0\0\0";
    JoinGroupRequest::default()
        .with_group_id(classic())
        .with_session_timeout_ms(6000)
        .with_rebalance_timeout_ms(asked.since(1, 1))
        .with_group_instance_id(asked.since(5, Some(text("i"))))
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol("range", metadata), protocol("roundrobin", metadata)])
        .with_reason(asked.since(8, Some(text("because"))))
}

/// A member of the consumer protocol, which gives itself its id.
pub(super) fn heartbeat(asked: Asked, epoch: i32) -> ConsumerGroupHeartbeatRequest {
    let request = ConsumerGroupHeartbeatRequest::default()
        .with_group_id(consumers())
        .with_member_id(text("member"))
        .with_member_epoch(epoch)
        .with_rebalance_timeout_ms(5000)
        .with_subscribed_topic_names(Some(vec![topic_name()]))
        .with_subscribed_topic_regex(asked.since(1, Some(text("^t.*"))))
        .with_server_assignor(Some(text("uniform")));
    let owned = TopicPartitions::default().with_topic_id(asked.topic_id).with_partitions(vec![0, 1]);
    let owned = if epoch > 0 { vec![owned] } else { Vec::new() };
    request.with_topic_partitions(Some(owned))
}
