//! DescribeAcls, CreateAcls and DeleteAcls with an authorizer.

use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use strandline_kafka_gateway::GatewaySettings;
use strandline_storage::access::{Authorizer, WithoutRules};

use crate::support::*;

const INVALID_REQUEST: i16 = 42;
const TOPIC_AUTHORIZATION_FAILED: i16 = 29;

const TOPIC: i8 = 2;
const GROUP: i8 = 3;
const CLUSTER: i8 = 4;
const USER: i8 = 7;
const ANY: i8 = 1;
const MATCH: i8 = 2;
const LITERAL: i8 = 3;
const PREFIXED: i8 = 4;
const READ: i8 = 3;
const WRITE: i8 = 4;
const DESCRIBE: i8 = 8;
const DENY: i8 = 2;
const ALLOW: i8 = 3;

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn creation(resource_type: i8, name: &str, operation: i8) -> AclCreation {
    AclCreation::default()
        .with_resource_type(resource_type)
        .with_resource_name(text(name))
        .with_resource_pattern_type(LITERAL)
        .with_principal(text("User:alice"))
        .with_host(text("*"))
        .with_operation(operation)
        .with_permission_type(ALLOW)
}

/// What describes every rule.
pub(crate) fn all() -> DescribeAclsRequest {
    DescribeAclsRequest::default()
        .with_resource_type_filter(ANY)
        .with_resource_name_filter(None)
        .with_pattern_type_filter(ANY)
        .with_principal_filter(None)
        .with_host_filter(None)
        .with_operation(ANY)
        .with_permission_type(ANY)
}

fn filter(pattern_type: i8, name: Option<&str>) -> DeleteAclsFilter {
    DeleteAclsFilter::default()
        .with_resource_type_filter(TOPIC)
        .with_resource_name_filter(name.map(text))
        .with_pattern_type_filter(pattern_type)
        .with_principal_filter(None)
        .with_host_filter(None)
        .with_operation(ANY)
        .with_permission_type(ANY)
}

/// All who come may do everything.
async fn gateway_of_super_users() -> TestGateway {
    let authorizer =
        Authorizer { super_users: vec!["ANONYMOUS".to_owned()], without_rules: WithoutRules::Refuse };
    TestGateway::start_with(GatewaySettings { authorizer: Some(authorizer), ..settings() }).await
}

async fn create(client: &mut Client, version: i16, creations: Vec<AclCreation>) -> Vec<i16> {
    let created = client.call(version, &CreateAclsRequest::default().with_creations(creations)).await;
    for one in &created.results {
        assert_eq!(one.error_code == 0, one.error_message.is_none(), "{one:?}");
    }
    created.results.iter().map(|one| one.error_code).collect()
}

#[tokio::test]
async fn rules_are_created_described_and_deleted() {
    let gateway = gateway_of_super_users().await;
    let mut client = gateway.connect().await;
    for version in 1..=3 {
        let rules = vec![
            creation(TOPIC, "orders", READ),
            creation(TOPIC, "orders", WRITE).with_permission_type(DENY).with_host(text("10.0.0.1")),
            creation(TOPIC, "ord", DESCRIBE).with_resource_pattern_type(PREFIXED),
            creation(GROUP, "*", READ),
            creation(CLUSTER, "kafka-cluster", DESCRIBE),
        ];
        assert_eq!(create(&mut client, version, rules.clone()).await, [0; 5]);
        assert_eq!(create(&mut client, version, rules).await, [0; 5], "what is there is no error");
        let described = client.call(version, &all()).await;
        assert_eq!(described.error_code, 0);
        let counts: Vec<_> = described
            .resources
            .iter()
            .map(|one| (one.resource_type, one.pattern_type, one.resource_name.as_str(), one.acls.len()))
            .collect();
        let expected = [
            (TOPIC, LITERAL, "orders", 2),
            (TOPIC, PREFIXED, "ord", 1),
            (GROUP, LITERAL, "*", 1),
            (CLUSTER, LITERAL, "kafka-cluster", 1),
        ];
        assert_eq!(counts, expected);
        let deny = described.resources[0].acls.iter().find(|one| one.permission_type == DENY).unwrap();
        assert_eq!(
            (deny.principal.as_str(), deny.host.as_str(), deny.operation),
            ("User:alice", "10.0.0.1", WRITE)
        );

        let request = DeleteAclsRequest::default()
            .with_filters(vec![filter(MATCH, Some("orders")), filter(LITERAL, Some("orders"))]);
        let deleted = client.call(version, &request).await;
        let matching: Vec<_> = deleted.filter_results.iter().map(|one| one.matching_acls.len()).collect();
        assert_eq!(matching, [3, 2], "a rule that two filters match is in both answers");
        assert!(deleted.filter_results.iter().all(|one| one.error_code == 0));
        assert_eq!(client.call(version, &all()).await.resources.len(), 2);
        let rest = vec![filter(ANY, None).with_resource_type_filter(ANY)];
        client.call(version, &DeleteAclsRequest::default().with_filters(rest)).await;
        assert!(client.call(version, &all()).await.resources.is_empty());
    }
}

#[tokio::test]
async fn rules_that_could_never_match_are_refused_one_by_one() {
    let gateway = gateway_of_super_users().await;
    let mut client = gateway.connect().await;
    let good = || creation(TOPIC, "t", READ);
    let refused = vec![
        creation(CLUSTER, "other", DESCRIBE),
        creation(TOPIC, "", READ),
        creation(GROUP, "g", WRITE),
        creation(USER, "alice", DESCRIBE),
        good().with_resource_type(ANY),
        good().with_resource_pattern_type(MATCH),
        good().with_operation(ANY),
        good().with_operation(13),
        good().with_permission_type(ANY),
        good().with_principal(text("alice")),
        good().with_principal(text("User:")),
        good().with_host(text("host.example")),
        good().with_resource_name(text(&"x".repeat(2000))),
    ];
    let count = refused.len();
    let creations = std::iter::once(good()).chain(refused).chain([good()]).collect();
    let mut expected = vec![INVALID_REQUEST; count + 2];
    (expected[0], expected[count + 1]) = (0, 0);
    assert_eq!(create(&mut client, 3, creations).await, expected);
    assert_eq!(client.call(3, &all()).await.resources.len(), 1);
}

#[tokio::test]
async fn an_address_is_the_same_however_it_is_written() {
    let gateway = gateway_of_super_users().await;
    let mut client = gateway.connect().await;
    let hosts = ["0:0:0:0:0:0:0:1", "::1", "::ffff:10.0.0.1", "10.0.0.1", "*"];
    let creations = hosts.map(|host| creation(TOPIC, "t", READ).with_host(text(host)));
    assert_eq!(create(&mut client, 2, creations.to_vec()).await, [0; 5]);
    let rules = gateway.log.access();
    let kept: Vec<_> = rules.acls.iter().map(|rule| rule.host).collect();
    assert_eq!(kept, ["*", "10.0.0.1", "::1"]);
    let described = client.call(2, &all().with_host_filter(Some(text("0:0:0:0:0:0:0:1")))).await;
    assert_eq!(described.resources[0].acls[0].host.as_str(), "::1");
}

#[tokio::test]
async fn unknown_numbers_in_filters_are_refused_one_by_one() {
    let gateway = gateway_of_super_users().await;
    let mut client = gateway.connect().await;
    create(&mut client, 2, vec![creation(TOPIC, "t", READ)]).await;
    let described = client.call(2, &all().with_operation(0)).await;
    assert_eq!((described.error_code, described.resources.len()), (INVALID_REQUEST, 0));
    let filters = vec![filter(0, None), filter(ANY, None)];
    let deleted = client.call(2, &DeleteAclsRequest::default().with_filters(filters)).await;
    let found: Vec<_> =
        deleted.filter_results.iter().map(|one| (one.error_code, one.matching_acls.len())).collect();
    assert_eq!(found, [(INVALID_REQUEST, 0), (0, 1)]);
}

#[tokio::test]
async fn a_rule_holds_for_the_next_request_of_a_connection_that_is_there() {
    let authorizer = Authorizer { super_users: Vec::new(), without_rules: WithoutRules::Allow };
    let settings = GatewaySettings { authorizer: Some(authorizer), ..settings() };
    let gateway = TestGateway::start_with(settings).await;
    let (mut admin, mut client) = (gateway.connect().await, gateway.connect().await);
    client.create_topic("t", 1).await;
    assert_eq!(client.produce("t", 0, batch(&[(1, b"v")])).await.error_code, 0);
    let anonymous = text("User:ANONYMOUS");
    let deny = creation(TOPIC, "t", WRITE).with_permission_type(DENY).with_principal(anonymous);
    assert_eq!(create(&mut admin, 2, vec![deny]).await, [0]);
    let refused = client.produce("t", 0, batch(&[(1, b"v")])).await;
    assert_eq!(refused.error_code, TOPIC_AUTHORIZATION_FAILED);
    let request = DeleteAclsRequest::default().with_filters(vec![filter(ANY, None)]);
    admin.call(2, &request).await;
    assert_eq!(client.produce("t", 0, batch(&[(1, b"v")])).await.error_code, 0);
}
