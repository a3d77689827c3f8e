//! Requests that write and read records.

use bytes::Bytes;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic, ReplicaState};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::*;
use uuid::Uuid;

use super::{Asked, text, topic_name};
use crate::target;

/// The version from which on Produce and Fetch name topics by their ids.
const TOPIC_IDS_SINCE: i16 = 13;

pub(super) fn frame(api: ApiKey, asked: Asked) -> Option<Bytes> {
    Some(match api {
        ApiKey::Produce => asked.frame(produce(asked, None, target::batch())),
        ApiKey::Fetch => asked.frame(fetch(asked)),
        ApiKey::ListOffsets => {
            let partition = |timestamp| ListOffsetsPartition::default().with_timestamp(timestamp);
            let partitions = [-1, -2, 2].map(partition).to_vec();
            let topic = ListOffsetsTopic::default().with_name(topic_name()).with_partitions(partitions);
            asked.frame(
                ListOffsetsRequest::default()
                    .with_replica_id((-1).into())
                    .with_isolation_level(asked.since(2, 1))
                    .with_topics(vec![topic]),
            )
        }
        ApiKey::DeleteRecords => {
            let partition = DeleteRecordsPartition::default().with_offset(1);
            let topic = DeleteRecordsTopic::default()
                .with_name(topic_name())
                .with_partitions(vec![partition.clone(), partition.with_partition_index(7)]);
            asked.frame(DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(5000))
        }
        ApiKey::OffsetForLeaderEpoch => {
            let partition = OffsetForLeaderPartition::default();
            let topic =
                OffsetForLeaderTopic::default().with_topic(topic_name()).with_partitions(vec![partition]);
            asked.frame(OffsetForLeaderEpochRequest::default().with_topics(vec![topic]))
        }
        _ => return None,
    })
}

pub(super) fn produce(asked: Asked, id: Option<TransactionalId>, batch: Bytes) -> ProduceRequest {
    let data = PartitionProduceData::default().with_records(Some(batch));
    let topic = TopicProduceData::default().with_partition_data(vec![data]);
    let topic = match asked.version >= TOPIC_IDS_SINCE {
        true => topic.with_topic_id(asked.topic_id),
        false => topic.with_name(topic_name()),
    };
    ProduceRequest::default()
        .with_transactional_id(id)
        .with_acks(-1)
        .with_timeout_ms(5000)
        .with_topic_data(vec![topic])
}

fn fetch(asked: Asked) -> FetchRequest {
    let names = asked.version < TOPIC_IDS_SINCE;
    let (topic, id) =
        if names { (topic_name(), Uuid::nil()) } else { (TopicName::default(), asked.topic_id) };
    let partition =
        |index| FetchPartition::default().with_partition(index).with_partition_max_bytes(1_000_000);
    let fetched = FetchTopic::default()
        .with_topic(topic.clone())
        .with_topic_id(id)
        .with_partitions(vec![partition(0), partition(1)]);
    let forgotten = ForgottenTopic::default().with_topic(topic).with_topic_id(id).with_partitions(vec![1]);
    let request = FetchRequest::default()
        .with_max_wait_ms(1)
        .with_max_bytes(1_000_000)
        .with_isolation_level(1)
        .with_session_epoch(if asked.version >= 7 { 0 } else { -1 })
        .with_topics(vec![fetched])
        .with_forgotten_topics_data(asked.since(7, vec![forgotten]))
        .with_rack_id(asked.since(11, text("r")));
    match asked.version >= 15 {
        true => request.with_replica_state(ReplicaState::default().with_replica_id((-1).into())),
        false => request.with_replica_id((-1).into()),
    }
}
