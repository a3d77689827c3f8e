//! Groups: list, describe, their committed offsets, delete.

use bytes::{Buf, Bytes};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::consumer_group_describe_response::Member;
use kafka_protocol::messages::describe_groups_response::DescribedGroupMember;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, DeleteGroupsRequest, DescribeGroupsRequest, GroupId, ListGroupsRequest,
    OffsetCommitRequest, OffsetFetchRequest,
};

use super::admin::{Admin, text, topic_name};
use super::error::{ClientError, ErrorCode};

const LIST_GROUPS_VERSION: i16 = 5;
const DESCRIBE_GROUPS_VERSION: i16 = 5;
const CONSUMER_GROUP_DESCRIBE_VERSION: i16 = 0;
const OFFSET_FETCH_VERSION: i16 = 7;
const OFFSET_COMMIT_VERSION: i16 = 8;
const DELETE_GROUPS_VERSION: i16 = 2;
/// Of a client that is no member.
const NO_GENERATION: i32 = -1;
const NO_LEADER_EPOCH: i32 = -1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSummary {
    pub name: String,
    /// "classic" or "consumer".
    pub group_type: String,
    /// Such as "consumer" or "connect"; empty for a group that only has offsets.
    pub protocol_type: String,
    pub state: String,
}

impl GroupSummary {
    pub fn is_empty(&self) -> bool {
        self.state == "Empty"
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    pub member_id: String,
    pub instance_id: Option<String>,
    pub client_id: String,
    pub host: String,
    /// Topics with partitions.
    pub partitions: Vec<(String, Vec<i32>)>,
}

/// Where a group is in a partition, or is to be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupOffset {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
}

impl Admin {
    /// All groups, by name.
    pub async fn groups(&mut self) -> Result<Vec<GroupSummary>, ClientError> {
        let response = self.connection.call(LIST_GROUPS_VERSION, &ListGroupsRequest::default()).await?;
        if let Some(code) = ErrorCode::of(response.error_code) {
            return Err(ClientError::refused("groups were not listed", code, None));
        }
        let groups = response.groups.iter().map(|group| GroupSummary {
            name: group.group_id.to_string(),
            group_type: group.group_type.to_string(),
            protocol_type: group.protocol_type.to_string(),
            state: group.group_state.to_string(),
        });
        let mut groups: Vec<_> = groups.collect();
        groups.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(groups)
    }

    /// One group, which has to exist.
    pub async fn group(&mut self, name: &str) -> Result<GroupSummary, ClientError> {
        let found = self.groups().await?.into_iter().find(|group| group.name == name);
        found.ok_or_else(|| ClientError::UnknownGroup(name.to_owned()))
    }

    pub async fn group_members(&mut self, group: &GroupSummary) -> Result<Vec<GroupMember>, ClientError> {
        if group.group_type == "consumer" {
            self.consumers(&group.name).await
        } else {
            self.members(&group.name).await
        }
    }

    async fn members(&mut self, name: &str) -> Result<Vec<GroupMember>, ClientError> {
        let request = DescribeGroupsRequest::default().with_groups(vec![GroupId(text(name))]);
        let response = self.connection.call(DESCRIBE_GROUPS_VERSION, &request).await?;
        let mut members = Vec::new();
        for group in &response.groups {
            check(group.error_code, || format!("group \"{name}\" was not described"))?;
            members.extend(group.members.iter().map(member));
        }
        Ok(members)
    }

    async fn consumers(&mut self, name: &str) -> Result<Vec<GroupMember>, ClientError> {
        let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![GroupId(text(name))]);
        let response = self.connection.call(CONSUMER_GROUP_DESCRIBE_VERSION, &request).await?;
        let mut members = Vec::new();
        for group in &response.groups {
            check(group.error_code, || format!("group \"{name}\" was not described"))?;
            members.extend(group.members.iter().map(consumer));
        }
        Ok(members)
    }

    /// What a group has committed, by topic and partition.
    pub async fn committed(&mut self, name: &str) -> Result<Vec<GroupOffset>, ClientError> {
        let request = OffsetFetchRequest::default().with_group_id(GroupId(text(name))).with_topics(None);
        let response = self.connection.call(OFFSET_FETCH_VERSION, &request).await?;
        check(response.error_code, || format!("offsets of group \"{name}\""))?;
        let mut offsets = Vec::new();
        for topic in &response.topics {
            for partition in topic.partitions.iter().filter(|partition| partition.committed_offset >= 0) {
                let (topic, offset) = (topic.name.to_string(), partition.committed_offset);
                offsets.push(GroupOffset { topic, partition: partition.partition_index, offset });
            }
        }
        offsets.sort();
        Ok(offsets)
    }

    /// Commits offsets for a group that has no members.
    pub async fn commit(&mut self, name: &str, offsets: &[GroupOffset]) -> Result<(), ClientError> {
        let mut topics: Vec<OffsetCommitRequestTopic> = Vec::new();
        for GroupOffset { topic, partition, offset } in offsets {
            let partition = OffsetCommitRequestPartition::default()
                .with_partition_index(*partition)
                .with_committed_offset(*offset)
                .with_committed_leader_epoch(NO_LEADER_EPOCH);
            match topics.last_mut().filter(|last| last.name.as_str() == topic) {
                Some(last) => last.partitions.push(partition),
                None => topics.push(
                    OffsetCommitRequestTopic::default()
                        .with_name(topic_name(topic))
                        .with_partitions(vec![partition]),
                ),
            }
        }
        let request = OffsetCommitRequest::default()
            .with_group_id(GroupId(text(name)))
            .with_generation_id_or_member_epoch(NO_GENERATION)
            .with_topics(topics);
        let response = self.connection.call(OFFSET_COMMIT_VERSION, &request).await?;
        for topic in &response.topics {
            for partition in &topic.partitions {
                let what = || {
                    let (topic, index) = (topic.name.as_str(), partition.partition_index);
                    format!(
                        "offset of group \"{name}\" in topic \"{topic}\", partition {index}, was not committed"
                    )
                };
                check(partition.error_code, what)?;
            }
        }
        Ok(())
    }

    /// Deletes a group that has no members, with its offsets.
    pub async fn delete_group(&mut self, name: &str) -> Result<(), ClientError> {
        let request = DeleteGroupsRequest::default().with_groups_names(vec![GroupId(text(name))]);
        let response = self.connection.call(DELETE_GROUPS_VERSION, &request).await?;
        for result in &response.results {
            match ErrorCode::of(result.error_code) {
                Some(code) if code.is(ResponseError::GroupIdNotFound) => {
                    return Err(ClientError::UnknownGroup(name.to_owned()));
                }
                _ => check(result.error_code, || format!("group \"{name}\" was not deleted"))?,
            }
        }
        Ok(())
    }
}

fn check(code: i16, what: impl FnOnce() -> String) -> Result<(), ClientError> {
    match ErrorCode::of(code) {
        Some(code) => Err(ClientError::refused(what(), code, None)),
        None => Ok(()),
    }
}

fn member(member: &DescribedGroupMember) -> GroupMember {
    GroupMember {
        member_id: member.member_id.to_string(),
        instance_id: member.group_instance_id.as_ref().map(ToString::to_string),
        client_id: member.client_id.to_string(),
        host: member.client_host.to_string(),
        partitions: assignment(member.member_assignment.clone()).unwrap_or_default(),
    }
}

fn consumer(member: &Member) -> GroupMember {
    let topics = member.assignment.topic_partitions.iter();
    GroupMember {
        member_id: member.member_id.to_string(),
        instance_id: member.instance_id.as_ref().map(ToString::to_string),
        client_id: member.client_id.to_string(),
        host: member.client_host.to_string(),
        partitions: topics.map(|topic| (topic.topic_name.to_string(), topic.partitions.clone())).collect(),
    }
}

/// The partitions in an assignment of consumers: version i16, topics i32, and of each the name, its
/// length i16 first, the number of partitions i32, and these. Other kinds of groups have other
/// assignments.
fn assignment(mut bytes: Bytes) -> Option<Vec<(String, Vec<i32>)>> {
    bytes.try_get_i16().ok()?;
    let count = bytes.try_get_i32().ok()?;
    let mut topics = Vec::new();
    for _ in 0..count {
        let length = usize::try_from(bytes.try_get_i16().ok()?).ok()?;
        let name = (bytes.len() >= length).then(|| bytes.split_to(length))?;
        let count = bytes.try_get_i32().ok()?;
        let mut partitions = Vec::new();
        for _ in 0..count {
            partitions.push(bytes.try_get_i32().ok()?);
        }
        topics.push((String::from_utf8(name.to_vec()).ok()?, partitions));
    }
    Some(topics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_of_consumers_are_read_and_others_are_not() {
        let bytes =
            Bytes::from_static(b"\0\x01\0\0\0\x01\0\x02ab\0\0\0\x02\0\0\0\0\0\0\0\x05\xff\xff\xff\xff");
        assert_eq!(assignment(bytes.clone()), Some(vec![("ab".to_owned(), vec![0, 5])]));
        for length in 0..bytes.len() - 4 {
            assert_eq!(assignment(bytes.slice(..length)), None, "length {length}");
        }
        assert_eq!(assignment(Bytes::from_static(b"{\"connector\": 1}")), None);
    }
}
