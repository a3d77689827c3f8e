//! Requests about the cluster: what it is, who may do what in it, users and quotas.

use bytes::Bytes;
use kafka_protocol::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::describe_client_quotas_request::ComponentData;
use kafka_protocol::messages::describe_user_scram_credentials_request::UserName;
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::list_partition_reassignments_request::ListPartitionReassignmentsTopics;
use kafka_protocol::messages::*;

use super::{Asked, text, topic_name};
use crate::target;

/// In every enumeration of a filter.
const ANY: i8 = 1;

pub(super) fn frame(api: ApiKey, asked: Asked) -> Option<Bytes> {
    Some(match api {
        ApiKey::ApiVersions => asked.frame(
            ApiVersionsRequest::default()
                .with_client_software_name(asked.since(3, text("abuse")))
                .with_client_software_version(asked.since(3, text("1"))),
        ),
        ApiKey::SaslHandshake => asked.frame(SaslHandshakeRequest::default().with_mechanism(text("PLAIN"))),
        ApiKey::SaslAuthenticate => asked.frame(SaslAuthenticateRequest::default().with_auth_bytes(token())),
        ApiKey::DescribeCluster => asked.frame(
            DescribeClusterRequest::default()
                .with_include_cluster_authorized_operations(true)
                .with_include_fenced_brokers(asked.since(2, true)),
        ),
        ApiKey::ElectLeaders => {
            let topic = TopicPartitions::default().with_topic(topic_name()).with_partitions(vec![0, 9]);
            asked.frame(ElectLeadersRequest::default().with_topic_partitions(Some(vec![topic])))
        }
        ApiKey::AlterPartitionReassignments => {
            let partition = ReassignablePartition::default().with_replicas(Some(vec![0.into()]));
            let topic = ReassignableTopic::default().with_name(topic_name()).with_partitions(vec![partition]);
            asked.frame(AlterPartitionReassignmentsRequest::default().with_topics(vec![topic]))
        }
        ApiKey::ListPartitionReassignments => {
            let topic = ListPartitionReassignmentsTopics::default()
                .with_name(topic_name())
                .with_partition_indexes(vec![0]);
            asked.frame(ListPartitionReassignmentsRequest::default().with_topics(Some(vec![topic])))
        }
        ApiKey::DescribeAcls | ApiKey::CreateAcls | ApiKey::DeleteAcls => rules(api, asked),
        ApiKey::DescribeClientQuotas | ApiKey::AlterClientQuotas => quotas(api, asked),
        ApiKey::DescribeUserScramCredentials | ApiKey::AlterUserScramCredentials => users(api, asked),
        _ => return None,
    })
}

/// Of PLAIN.
pub(super) fn token() -> Bytes {
    let (user, password) = target::USER;
    format!("\0{user}\0{password}").into()
}

fn rules(api: ApiKey, asked: Asked) -> Bytes {
    match api {
        ApiKey::CreateAcls => {
            let creation = AclCreation::default()
                .with_resource_type(2)
                .with_resource_name(text("ruled"))
                .with_resource_pattern_type(4)
                .with_principal(text("User:alice"))
                .with_host(text("127.0.0.1"))
                .with_operation(3)
                .with_permission_type(3);
            asked.frame(CreateAclsRequest::default().with_creations(vec![creation]))
        }
        ApiKey::DeleteAcls => {
            let filter = DeleteAclsFilter::default()
                .with_resource_type_filter(2)
                .with_resource_name_filter(Some(text("ruled-by-it")))
                .with_pattern_type_filter(2)
                .with_principal_filter(None)
                .with_host_filter(None)
                .with_operation(ANY)
                .with_permission_type(ANY);
            asked.frame(DeleteAclsRequest::default().with_filters(vec![filter]))
        }
        _ => asked.frame(
            DescribeAclsRequest::default()
                .with_resource_type_filter(ANY)
                .with_resource_name_filter(Some(text("ruled")))
                .with_pattern_type_filter(ANY)
                .with_principal_filter(Some(text("User:alice")))
                .with_host_filter(None)
                .with_operation(ANY)
                .with_permission_type(ANY),
        ),
    }
}

fn quotas(api: ApiKey, asked: Asked) -> Bytes {
    let user = EntityData::default().with_entity_type(text("user")).with_entity_name(Some(text("alice")));
    let client =
        EntityData::default().with_entity_type(text("client-id")).with_entity_name(Some(text("nobody")));
    match api {
        ApiKey::AlterClientQuotas => {
            // So much that nobody is held back.
            let rate = |key, value| OpData::default().with_key(text(key)).with_value(value);
            let ops = vec![
                rate("producer_byte_rate", 1e15),
                rate("consumer_byte_rate", 1e15),
                OpData::default().with_key(text("request_percentage")).with_remove(true),
            ];
            let entry = EntryData::default().with_entity(vec![user, client]).with_ops(ops);
            asked.frame(AlterClientQuotasRequest::default().with_entries(vec![entry]))
        }
        _ => {
            let component =
                ComponentData::default().with_entity_type(text("user")).with_match(Some(text("alice")));
            asked.frame(DescribeClientQuotasRequest::default().with_components(vec![component]))
        }
    }
}

fn users(api: ApiKey, asked: Asked) -> Bytes {
    match api {
        ApiKey::AlterUserScramCredentials => {
            let upsertion = ScramCredentialUpsertion::default()
                .with_name(text("alice"))
                .with_mechanism(1)
                .with_iterations(4096)
                .with_salt(Bytes::from_static(b"the salt of it"))
                .with_salted_password(Bytes::from_static(&[7; 32]));
            let deletion = ScramCredentialDeletion::default().with_name(text("bob")).with_mechanism(2);
            asked.frame(
                AlterUserScramCredentialsRequest::default()
                    .with_upsertions(vec![upsertion])
                    .with_deletions(vec![deletion]),
            )
        }
        _ => {
            let user = UserName::default().with_name(text("alice"));
            asked.frame(DescribeUserScramCredentialsRequest::default().with_users(Some(vec![user])))
        }
    }
}
