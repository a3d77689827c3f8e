//! Cases of the APIs about the cluster: what it is, rules, users and quotas.

use kafka_protocol::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::alter_user_scram_credentials_request::ScramCredentialDeletion;
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::*;
use strandline_storage::access::Operation;

use super::{CLUSTER_AUTHORIZATION_FAILED, Case, Codes, ask, cluster, text};
use crate::support::*;

const ELECTION_NOT_NEEDED: i16 = 84;
const CLUSTER: &[i16] = &[CLUSTER_AUTHORIZATION_FAILED];
/// In every enumeration of a filter.
const ANY: i8 = 1;

pub(super) const CASES: &[Case] = &[
    Case {
        key: ApiKey::ApiVersions,
        rights: &[],
        call: |client, _| ask(client, 0, ApiVersionsRequest::default(), |answer| vec![answer.error_code]),
        allowed: &[0],
        refused: &[0],
    },
    Case {
        key: ApiKey::DescribeCluster,
        rights: &[],
        call: |client, _| {
            let request = DescribeClusterRequest::default().with_include_cluster_authorized_operations(true);
            ask(client, 1, request, |answer| {
                assert_eq!(answer.cluster_authorized_operations, 0, "none without Describe");
                vec![answer.error_code]
            })
        },
        allowed: &[0],
        refused: &[0],
    },
    Case::one(ApiKey::DescribeAcls, &[cluster(Operation::Describe)], CLUSTER, |client, _| {
        let request = crate::rules::all();
        ask(client, 2, request, |answer| {
            assert_eq!(answer.error_code != 0, answer.resources.is_empty(), "{answer:?}");
            vec![answer.error_code]
        })
    }),
    Case::one(ApiKey::CreateAcls, &[cluster(Operation::Alter)], CLUSTER, |client, _| {
        let creation = AclCreation::default()
            .with_resource_type(2)
            .with_resource_name(text("t"))
            .with_resource_pattern_type(3)
            .with_principal(text("User:ANONYMOUS"))
            .with_host(text("*"))
            .with_operation(3)
            .with_permission_type(3);
        let request = CreateAclsRequest::default().with_creations(vec![creation]);
        ask(client, 2, request, |answer| vec![answer.results[0].error_code])
    }),
    Case::one(ApiKey::DeleteAcls, &[cluster(Operation::Alter)], CLUSTER, |client, _| {
        let filter = DeleteAclsFilter::default()
            .with_resource_type_filter(ANY)
            .with_resource_name_filter(None)
            .with_pattern_type_filter(ANY)
            .with_principal_filter(None)
            .with_host_filter(None)
            .with_operation(ANY)
            .with_permission_type(ANY);
        let request = DeleteAclsRequest::default().with_filters(vec![filter]);
        ask(client, 2, request, |answer| {
            let result = &answer.filter_results[0];
            assert_eq!(result.error_code != 0, result.matching_acls.is_empty(), "{result:?}");
            vec![result.error_code]
        })
    }),
    Case::one(ApiKey::DescribeLogDirs, &[cluster(Operation::Describe)], CLUSTER, |client, _| {
        ask(client, 4, DescribeLogDirsRequest::default().with_topics(None), |answer| {
            assert_eq!(answer.error_code != 0, answer.results.is_empty(), "{answer:?}");
            vec![answer.error_code]
        })
    }),
    Case {
        key: ApiKey::ElectLeaders,
        rights: &[cluster(Operation::Alter)],
        call: |client, _| elect(client, 2),
        allowed: &[0, ELECTION_NOT_NEEDED],
        refused: &[CLUSTER_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED],
    },
    Case {
        key: ApiKey::ElectLeaders,
        rights: &[cluster(Operation::Alter)],
        call: |client, _| elect(client, 0),
        allowed: &[0, ELECTION_NOT_NEEDED],
        refused: &[0, CLUSTER_AUTHORIZATION_FAILED],
    },
    Case::one(ApiKey::AlterPartitionReassignments, &[cluster(Operation::Alter)], CLUSTER, |client, _| {
        let partition = ReassignablePartition::default().with_replicas(Some(vec![0.into()]));
        let topic = ReassignableTopic::default().with_name(topic_name("t")).with_partitions(vec![partition]);
        let request =
            AlterPartitionReassignmentsRequest::default().with_timeout_ms(20_000).with_topics(vec![topic]);
        ask(client, 0, request, |answer| match answer.error_code {
            0 => vec![answer.responses[0].partitions[0].error_code],
            code => vec![code],
        })
    }),
    Case::one(ApiKey::ListPartitionReassignments, &[cluster(Operation::Describe)], CLUSTER, |client, _| {
        let request = ListPartitionReassignmentsRequest::default().with_timeout_ms(20_000).with_topics(None);
        ask(client, 0, request, |answer| vec![answer.error_code])
    }),
    Case::one(ApiKey::DescribeClientQuotas, &[cluster(Operation::DescribeConfigs)], CLUSTER, |client, _| {
        ask(client, 1, DescribeClientQuotasRequest::default(), |answer| {
            assert_eq!(answer.error_code == 0, answer.entries.is_some(), "{answer:?}");
            vec![answer.error_code]
        })
    }),
    Case::one(ApiKey::AlterClientQuotas, &[cluster(Operation::AlterConfigs)], CLUSTER, |client, _| {
        let user = EntityData::default().with_entity_type(text("user")).with_entity_name(Some(text("alice")));
        let op = OpData::default().with_key(text("producer_byte_rate")).with_value(1000.0);
        let entry = EntryData::default().with_entity(vec![user]).with_ops(vec![op]);
        let request = AlterClientQuotasRequest::default().with_entries(vec![entry]);
        ask(client, 1, request, |answer| vec![answer.entries[0].error_code])
    }),
    Case::one(ApiKey::DescribeUserScramCredentials, &[cluster(Operation::Describe)], CLUSTER, |client, _| {
        ask(client, 0, DescribeUserScramCredentialsRequest::default().with_users(None), |answer| {
            assert_eq!(answer.error_code != 0, answer.results.is_empty(), "{answer:?}");
            vec![answer.error_code]
        })
    }),
    Case::one(ApiKey::AlterUserScramCredentials, &[cluster(Operation::Alter)], CLUSTER, |client, _| {
        let deletion = ScramCredentialDeletion::default().with_name(text("alice")).with_mechanism(1);
        let request = AlterUserScramCredentialsRequest::default().with_deletions(vec![deletion]);
        ask(client, 0, request, |answer| vec![answer.results[0].error_code])
    }),
    Case::one(ApiKey::ListConfigResources, &[cluster(Operation::DescribeConfigs)], CLUSTER, |client, _| {
        ask(client, 1, ListConfigResourcesRequest::default(), |answer| {
            assert_eq!(answer.error_code != 0, answer.config_resources.is_empty(), "{answer:?}");
            vec![answer.error_code]
        })
    }),
];

/// The code of the whole answer, and that of the partition.
fn elect(client: &mut Client, version: i16) -> Codes<'_> {
    let topic = TopicPartitions::default().with_topic(topic_name("t")).with_partitions(vec![0]);
    let request =
        ElectLeadersRequest::default().with_timeout_ms(20_000).with_topic_partitions(Some(vec![topic]));
    ask(client, version, request, |answer| {
        let partition = &answer.replica_election_results[0].partition_result[0];
        vec![answer.error_code, partition.error_code]
    })
}
