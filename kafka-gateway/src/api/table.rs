//! The table of the APIs that are served, in the order of their keys.
//!
//! Versions are those of Apache Kafka 4.1, capped where something is missing here: topic ids in
//! Produce and Fetch, static group members, the consumer group protocol of KIP-848.

use kafka_protocol::messages::ApiKey;

use super::{
    Api, Turn, add_offsets_to_txn, add_partitions_to_txn, answer_with, api_versions, create_topics,
    delete_records, delete_topics, describe_cluster, describe_configs, describe_transactions, end_txn, fetch,
    find_coordinator, heartbeat, init_producer_id, join_group, leave_group, list_offsets, list_transactions,
    metadata, offset_commit, offset_fetch, offset_for_leader_epoch, produce, sync_group, txn_offset_commit,
    write_txn_markers,
};
use crate::guard::shape;

/// All APIs, by key.
pub(crate) const TABLE: &[Api] = &[
    Api {
        key: ApiKey::Produce,
        name: "Produce",
        version_min: 3,
        version_max: 12,
        // librdkafka before 2.8 takes a higher minimum for a broker without compression (KAFKA-18659).
        advertised_min: 0,
        shape: shape::PRODUCE,
        turn: Turn::Any,
        begin: produce::begin,
    },
    Api {
        key: ApiKey::Fetch,
        name: "Fetch",
        version_min: 4,
        version_max: 12,
        advertised_min: 4,
        shape: shape::FETCH,
        turn: Turn::Fetch,
        begin: fetch::begin,
    },
    Api {
        key: ApiKey::ListOffsets,
        name: "ListOffsets",
        version_min: 1,
        version_max: 10,
        advertised_min: 1,
        shape: shape::LIST_OFFSETS,
        turn: Turn::Any,
        begin: |context, body| answer_with(context, body, list_offsets::answer),
    },
    Api {
        key: ApiKey::Metadata,
        name: "Metadata",
        version_min: 0,
        version_max: 12,
        advertised_min: 0,
        shape: shape::METADATA,
        turn: Turn::Any,
        begin: |context, body| answer_with(context, body, metadata::answer),
    },
    Api {
        key: ApiKey::OffsetCommit,
        name: "OffsetCommit",
        version_min: 2,
        version_max: 8,
        advertised_min: 2,
        shape: shape::OFFSET_COMMIT,
        turn: Turn::Group,
        begin: |context, body| answer_with(context, body, offset_commit::answer),
    },
    Api {
        key: ApiKey::OffsetFetch,
        name: "OffsetFetch",
        version_min: 1,
        version_max: 8,
        advertised_min: 1,
        shape: shape::OFFSET_FETCH,
        turn: Turn::Group,
        begin: |context, body| answer_with(context, body, offset_fetch::answer),
    },
    Api {
        key: ApiKey::FindCoordinator,
        name: "FindCoordinator",
        version_min: 0,
        version_max: 5,
        advertised_min: 0,
        shape: shape::FIND_COORDINATOR,
        turn: Turn::Any,
        begin: |context, body| answer_with(context, body, find_coordinator::answer),
    },
    Api {
        key: ApiKey::JoinGroup,
        name: "JoinGroup",
        version_min: 0,
        version_max: 4,
        advertised_min: 0,
        shape: shape::JOIN_GROUP,
        turn: Turn::Group,
        begin: |context, body| answer_with(context, body, join_group::answer),
    },
    Api {
        key: ApiKey::Heartbeat,
        name: "Heartbeat",
        version_min: 0,
        version_max: 2,
        advertised_min: 0,
        shape: shape::HEARTBEAT,
        turn: Turn::Group,
        begin: |context, body| answer_with(context, body, heartbeat::answer),
    },
    Api {
        key: ApiKey::LeaveGroup,
        name: "LeaveGroup",
        version_min: 0,
        version_max: 2,
        advertised_min: 0,
        shape: shape::LEAVE_GROUP,
        turn: Turn::Group,
        begin: |context, body| answer_with(context, body, leave_group::answer),
    },
    Api {
        key: ApiKey::SyncGroup,
        name: "SyncGroup",
        version_min: 0,
        version_max: 2,
        advertised_min: 0,
        shape: shape::SYNC_GROUP,
        turn: Turn::Group,
        begin: |context, body| answer_with(context, body, sync_group::answer),
    },
    Api {
        key: ApiKey::ApiVersions,
        name: "ApiVersions",
        version_min: 0,
        version_max: 4,
        advertised_min: 0,
        shape: shape::API_VERSIONS,
        turn: Turn::Any,
        begin: api_versions::begin,
    },
    Api {
        key: ApiKey::CreateTopics,
        name: "CreateTopics",
        version_min: 2,
        version_max: 7,
        advertised_min: 2,
        shape: shape::CREATE_TOPICS,
        turn: Turn::Any,
        begin: |context, body| answer_with(context, body, create_topics::answer),
    },
    Api {
        key: ApiKey::DeleteTopics,
        name: "DeleteTopics",
        version_min: 1,
        version_max: 6,
        advertised_min: 1,
        shape: shape::DELETE_TOPICS,
        turn: Turn::Any,
        begin: |context, body| answer_with(context, body, delete_topics::answer),
    },
    Api {
        key: ApiKey::DeleteRecords,
        name: "DeleteRecords",
        version_min: 0,
        version_max: 2,
        advertised_min: 0,
        shape: shape::DELETE_RECORDS,
        turn: Turn::Any,
        begin: |context, body| answer_with(context, body, delete_records::answer),
    },
    Api {
        key: ApiKey::InitProducerId,
        name: "InitProducerId",
        version_min: 0,
        version_max: 5,
        advertised_min: 0,
        shape: shape::INIT_PRODUCER_ID,
        turn: Turn::Any,
        begin: |context, body| answer_with(context, body, init_producer_id::answer),
    },
    Api {
        key: ApiKey::OffsetForLeaderEpoch,
        name: "OffsetForLeaderEpoch",
        version_min: 2,
        version_max: 4,
        advertised_min: 2,
        shape: shape::OFFSET_FOR_LEADER_EPOCH,
        turn: Turn::Any,
        begin: |context, body| answer_with(context, body, offset_for_leader_epoch::answer),
    },
    Api {
        key: ApiKey::AddPartitionsToTxn,
        name: "AddPartitionsToTxn",
        version_min: 0,
        version_max: 5,
        advertised_min: 0,
        shape: shape::ADD_PARTITIONS_TO_TXN,
        turn: Turn::Any,
        begin: |context, body| answer_with(context, body, add_partitions_to_txn::answer),
    },
    Api {
        key: ApiKey::AddOffsetsToTxn,
        name: "AddOffsetsToTxn",
        version_min: 0,
        version_max: 4,
        advertised_min: 0,
        shape: shape::ADD_OFFSETS_TO_TXN,
        turn: Turn::Any,
        begin: |context, body| answer_with(context, body, add_offsets_to_txn::answer),
    },
    Api {
        key: ApiKey::EndTxn,
        name: "EndTxn",
        version_min: 0,
        version_max: 4,
        advertised_min: 0,
        shape: shape::END_TXN,
        turn: Turn::Any,
        begin: |context, body| answer_with(context, body, end_txn::answer),
    },
    Api {
        key: ApiKey::WriteTxnMarkers,
        name: "WriteTxnMarkers",
        version_min: 1,
        version_max: 1,
        advertised_min: 1,
        shape: shape::WRITE_TXN_MARKERS,
        turn: Turn::Any,
        begin: |context, body| answer_with(context, body, write_txn_markers::answer),
    },
    Api {
        key: ApiKey::TxnOffsetCommit,
        name: "TxnOffsetCommit",
        version_min: 0,
        version_max: 4,
        advertised_min: 0,
        shape: shape::TXN_OFFSET_COMMIT,
        turn: Turn::Any,
        begin: |context, body| answer_with(context, body, txn_offset_commit::answer),
    },
    Api {
        key: ApiKey::DescribeConfigs,
        name: "DescribeConfigs",
        version_min: 1,
        version_max: 4,
        advertised_min: 1,
        shape: shape::DESCRIBE_CONFIGS,
        turn: Turn::Any,
        begin: |context, body| answer_with(context, body, describe_configs::answer),
    },
    Api {
        key: ApiKey::DescribeCluster,
        name: "DescribeCluster",
        version_min: 0,
        version_max: 2,
        advertised_min: 0,
        shape: shape::DESCRIBE_CLUSTER,
        turn: Turn::Any,
        begin: |context, body| answer_with(context, body, describe_cluster::answer),
    },
    Api {
        key: ApiKey::DescribeTransactions,
        name: "DescribeTransactions",
        version_min: 0,
        version_max: 0,
        advertised_min: 0,
        shape: shape::DESCRIBE_TRANSACTIONS,
        turn: Turn::Any,
        begin: |context, body| answer_with(context, body, describe_transactions::answer),
    },
    Api {
        key: ApiKey::ListTransactions,
        name: "ListTransactions",
        version_min: 0,
        version_max: 1,
        advertised_min: 0,
        shape: shape::LIST_TRANSACTIONS,
        turn: Turn::Any,
        begin: |context, body| answer_with(context, body, list_transactions::answer),
    },
];

/// The API of a key, if it is served.
pub(crate) fn find(key: i16) -> Option<&'static Api> {
    TABLE.iter().find(|api| api.key as i16 == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_served_is_what_the_codec_can_decode() {
        for api in TABLE {
            let codec = api.key.valid_versions();
            assert!(codec.min <= api.version_min && api.version_max <= codec.max, "{}", api.name);
            assert!(api.version_min <= api.version_max && api.advertised_min <= api.version_min);
        }
    }

    #[test]
    fn the_minimum_is_advertised_as_it_is_except_for_produce() {
        for api in TABLE.iter().filter(|api| api.key != ApiKey::Produce) {
            assert_eq!(api.advertised_min, api.version_min, "{}", api.name);
        }
        assert_eq!(find(0).map(|api| api.advertised_min), Some(0));
    }

    #[test]
    fn keys_are_sorted_and_unique() {
        assert!(TABLE.windows(2).all(|pair| (pair[0].key as i16) < pair[1].key as i16));
        assert!(find(-1).is_none() && find(i16::MAX).is_none());
    }
}
