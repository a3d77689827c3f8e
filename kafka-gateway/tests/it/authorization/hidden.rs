//! What clients are not told: topics that they may not describe, and whether they are there.

use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::*;
use strandline_kafka_gateway::GatewaySettings;
use strandline_storage::access::{Authorizer, Operation, WithoutRules};
use uuid::Uuid;

use super::world::{World, consumer_request};
use super::{TOPIC_AUTHORIZATION_FAILED, cluster, group, text, topic, transactional_id};
use crate::support::*;

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const UNKNOWN_TOPIC_ID: i16 = 100;

async fn delete(client: &mut Client, topics: Vec<DeleteTopicState>) -> Vec<(Option<String>, Uuid, i16)> {
    let request = DeleteTopicsRequest::default().with_timeout_ms(20_000).with_topics(topics);
    let deleted = client.call(6, &request).await;
    let results = deleted
        .responses
        .iter()
        .map(|one| (one.name.as_ref().map(|name| name.to_string()), one.topic_id, one.error_code));
    results.collect()
}

fn by_name(name: &str) -> DeleteTopicState {
    DeleteTopicState::default().with_name(Some(topic_name(name)))
}

fn by_id(id: Uuid) -> DeleteTopicState {
    DeleteTopicState::default().with_name(None).with_topic_id(id)
}

#[tokio::test]
async fn a_name_and_an_id_of_one_topic_are_not_told_to_be_so() {
    let world = World::new().await;
    let mut client = world.gateway.connect().await;
    let named = || vec![by_name("t"), by_id(world.topic_id), by_name("none"), by_id(Uuid::from_u128(7))];
    let (name, none) = (Some("t".to_owned()), Some("none".to_owned()));
    let (nil, refused) = (Uuid::nil(), TOPIC_AUTHORIZATION_FAILED);
    let expected = [
        (name.clone(), nil, refused),
        (None, world.topic_id, refused),
        (none.clone(), nil, refused),
        (None, Uuid::from_u128(7), UNKNOWN_TOPIC_ID),
    ];
    assert_eq!(delete(&mut client, named()).await, expected);
    world.allow(&[topic("t", Operation::Describe), topic("none", Operation::Describe)]).await;
    let expected = [
        (name.clone(), nil, refused),
        (name, world.topic_id, refused),
        (none, nil, UNKNOWN_TOPIC_OR_PARTITION),
        (None, Uuid::from_u128(7), UNKNOWN_TOPIC_ID),
    ];
    assert_eq!(delete(&mut client, named()).await, expected);
}

#[tokio::test]
async fn an_expression_finds_only_topics_that_its_member_may_describe() {
    let world = World::new().await;
    world
        .allow(&[group("k", Operation::Read), cluster(Operation::Create), topic("open", Operation::Describe)])
        .await;
    let mut client = world.gateway.connect().await;
    client.create_topic("open", 1).await;
    let request =
        consumer_request("k").with_subscribed_topic_names(None).with_subscribed_topic_regex(Some(text(".*")));
    let joined = client.call(1, &request).await;
    let count = |answer: &ConsumerGroupHeartbeatResponse| {
        answer.assignment.as_ref().map(|assignment| assignment.topic_partitions.len())
    };
    assert_eq!((joined.error_code, count(&joined)), (0, Some(1)), "{joined:?}");

    world.allow(&[topic("t", Operation::Describe)]).await;
    let beat = ConsumerGroupHeartbeatRequest::default()
        .with_group_id(request.group_id.clone())
        .with_member_id(request.member_id.clone())
        .with_member_epoch(joined.member_epoch)
        .with_rebalance_timeout_ms(-1);
    let told = client.call(1, &beat).await;
    assert_eq!((told.error_code, count(&told)), (0, Some(2)), "{told:?}");
}

#[tokio::test]
async fn transactions_show_the_topics_that_may_be_described() {
    let world = World::new().await;
    world.allow(&[transactional_id("x", Operation::Describe), topic("t", Operation::Describe)]).await;
    let mut client = world.gateway.connect().await;
    let request =
        DescribeTransactionsRequest::default().with_transactional_ids(vec![TransactionalId(text("x"))]);
    let described = client.call(0, &request).await;
    assert_eq!(described.transaction_states[0].topics.len(), 1);
}

#[tokio::test]
async fn operations_are_those_that_are_allowed() {
    let world = World::new().await;
    world
        .allow(&[
            topic("t", Operation::Read),
            group("m", Operation::Delete),
            cluster(Operation::Describe),
            cluster(Operation::AlterConfigs),
        ])
        .await;
    let mut client = world.gateway.connect().await;
    let request = MetadataRequest::default()
        .with_topics(None)
        .with_include_cluster_authorized_operations(true)
        .with_include_topic_authorized_operations(true);
    let told = client.call(10, &request).await;
    // Bits by the number of the operation: Read allows Describe, AlterConfigs allows DescribeConfigs.
    assert_eq!(told.topics[0].topic_authorized_operations, 1 << 3 | 1 << 8);
    assert_eq!(told.cluster_authorized_operations, 1 << 8 | 1 << 10 | 1 << 11);
    let request = DescribeGroupsRequest::default()
        .with_groups(vec![GroupId(text("m"))])
        .with_include_authorized_operations(true);
    let told = client.call(5, &request).await;
    assert_eq!(told.groups[0].authorized_operations, 1 << 6 | 1 << 8);
}

#[tokio::test]
async fn where_no_rule_is_the_setting_decides() {
    let authorizer = Authorizer { super_users: Vec::new(), without_rules: WithoutRules::Allow };
    let settings = GatewaySettings { authorizer: Some(authorizer), ..settings() };
    let gateway = TestGateway::start_with(settings).await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let answered = client.call(4, &super::world::init_request(None)).await;
    assert_eq!(answered.error_code, 0, "any topic may be written to");
}
