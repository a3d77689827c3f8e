//! A gateway with something of everything in its log, and rules for all who come.

use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use strandline_kafka_gateway::GatewaySettings;
use strandline_storage::access::{
    AccessChange, AccessError, AclBinding, Authorizer, Operation, PatternKind, Permission, ResourceKind,
    ScramCredential, ScramMechanism, User,
};
use strandline_storage::format::Producer;
use strandline_storage::log::WriteError;
use uuid::Uuid;

use super::{Right, text};
use crate::support::*;

/// The topic `t` has two partitions and three records in the first; the group `g` has committed offsets, `m`
/// has a classic member, `c` one of the consumer protocol; the transactional id `x` has an open transaction
/// with the first partition and the group `g`; the user `alice` has a credential, and there is a rule.
pub(super) struct World {
    pub(super) gateway: TestGateway,
    pub(super) topic_id: Uuid,
    pub(super) producer: Producer,
    pub(super) member_id: StrBytes,
    pub(super) generation: i32,
}

#[derive(Debug)]
struct Refused(#[expect(dead_code, reason = "shown when a test fails")] String);

impl From<WriteError> for Refused {
    fn from(error: WriteError) -> Self {
        Self(error.to_string())
    }
}

impl From<AccessError> for Refused {
    fn from(error: AccessError) -> Self {
        Self(error.to_string())
    }
}

fn rule((resource_kind, resource_name, operation): Right, permission: Permission) -> AclBinding {
    AclBinding {
        resource_kind,
        pattern_kind: PatternKind::Literal,
        resource_name: resource_name.to_owned(),
        principal: "User:ANONYMOUS".to_owned(),
        host: "*".to_owned(),
        operation,
        permission,
    }
}

fn everything() -> Vec<Right> {
    use ResourceKind::*;
    [(Topic, "*"), (Group, "*"), (Cluster, "kafka-cluster"), (TransactionalId, "*")]
        .map(|(kind, name)| (kind, name, Operation::All))
        .to_vec()
}

impl World {
    pub(super) async fn new() -> Self {
        let settings = GatewaySettings { authorizer: Some(Authorizer::default()), ..settings() };
        let gateway = TestGateway::start_with(settings).await;
        let allowed: Vec<_> = everything().into_iter().map(|right| rule(right, Permission::Allow)).collect();
        change(&gateway, vec![AccessChange::AddAcls(allowed.clone())]).await;
        let mut client = gateway.connect().await;
        client.create_topic("t", 2).await;
        let topic_id = gateway.log.snapshot().topic("t").unwrap().id.as_uuid();
        let sent = client.produce("t", 0, batch(&[(1, b"a"), (2, b"b"), (3, b"c")])).await;
        assert_eq!(sent.error_code, 0);
        commit_offset(&mut client).await;
        let (member_id, generation) = join(&mut client).await;
        join_consumer(&mut client).await;
        let producer = begin_transaction(&mut client).await;
        let credential =
            ScramCredential::derive(ScramMechanism::Sha256, "secret", b"0123456789abcdef".to_vec(), 4096);
        let alice = User { name: "alice".to_owned(), credentials: vec![credential] };
        let bob = AclBinding { principal: "User:bob".to_owned(), ..allowed[0].clone() };
        let changes = vec![
            AccessChange::PutUser(alice),
            AccessChange::AddAcls(vec![bob]),
            AccessChange::RemoveAcls(allowed),
        ];
        change(&gateway, changes).await;
        Self { gateway, topic_id, producer, member_id, generation }
    }

    pub(super) async fn allow(&self, rights: &[Right]) {
        let rules = rights.iter().map(|right| rule(*right, Permission::Allow)).collect();
        change(&self.gateway, vec![AccessChange::AddAcls(rules)]).await;
    }

    pub(super) async fn deny_all(&self) {
        let rules = everything().into_iter().map(|right| rule(right, Permission::Deny)).collect();
        change(&self.gateway, vec![AccessChange::AddAcls(rules)]).await;
    }

    /// All that the log knows, as text.
    pub(super) fn fingerprint(&self) -> String {
        let log = &self.gateway.log;
        let snapshot = log.snapshot();
        let topics: Vec<_> = snapshot.topics().map(|topic| format!("{topic:?}")).collect();
        let partitions = snapshot.topics().flat_map(|topic| topic.partitions());
        let bounds: Vec<_> =
            partitions.map(|id| format!("{:?}", snapshot.partition(id).unwrap().bounds())).collect();
        let offsets = snapshot.groups().map(|name| {
            let offsets: Vec<_> = snapshot.group_offsets(name).collect();
            format!("{name} {offsets:?}")
        });
        let offsets: Vec<_> = offsets.collect();
        let groups: Vec<_> = snapshot.group_states().map(|state| format!("{state:?}")).collect();
        let transactions: Vec<_> = snapshot.transactional_ids().map(|one| format!("{one:?}")).collect();
        let access = log.access();
        let rules: Vec<_> = access.acls.iter().collect();
        let quotas: Vec<_> = access.quotas.iter().collect();
        let users: Vec<_> = access.users.iter().collect();
        format!(
            "{topics:?}\n{bounds:?}\n{offsets:?}\n{groups:?}\n{transactions:?}\n{rules:?}\n{quotas:?}\n{users:?}"
        )
    }
}

pub(super) async fn change(gateway: &TestGateway, changes: Vec<AccessChange>) {
    gateway.log.change_access::<_, Refused>(|_| Ok((changes, ()))).await.unwrap();
}

async fn commit_offset(client: &mut Client) {
    let partition = OffsetCommitRequestPartition::default().with_committed_offset(1);
    let topic =
        OffsetCommitRequestTopic::default().with_name(topic_name("t")).with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default()
        .with_group_id(GroupId(text("g")))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic]);
    let answered = client.call(7, &request).await;
    assert_eq!(answered.topics[0].partitions[0].error_code, 0);
}

pub(super) fn join_request(group: &str) -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol::default().with_name(text("range"));
    JoinGroupRequest::default()
        .with_group_id(GroupId(text(group)))
        .with_session_timeout_ms(60_000)
        .with_rebalance_timeout_ms(60_000)
        .with_protocol_type(text("connect"))
        .with_protocols(vec![protocol])
}

async fn join(client: &mut Client) -> (StrBytes, i32) {
    let joined = client.call(3, &join_request("m")).await;
    assert_eq!(joined.error_code, 0);
    let request = SyncGroupRequest::default()
        .with_group_id(GroupId(text("m")))
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone());
    assert_eq!(client.call(3, &request).await.error_code, 0);
    (joined.member_id, joined.generation_id)
}

pub(super) fn consumer_request(group: &str) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest::default()
        .with_group_id(GroupId(text(group)))
        .with_member_id(text("member"))
        .with_member_epoch(0)
        .with_rebalance_timeout_ms(60_000)
        .with_subscribed_topic_names(Some(vec![topic_name("t")]))
        .with_topic_partitions(Some(Vec::new()))
}

async fn join_consumer(client: &mut Client) {
    assert_eq!(client.call(1, &consumer_request("c")).await.error_code, 0);
}

pub(super) fn init_request(name: Option<&str>) -> InitProducerIdRequest {
    InitProducerIdRequest::default()
        .with_transactional_id(name.map(|name| TransactionalId(text(name))))
        .with_transaction_timeout_ms(60_000)
        .with_producer_id((-1).into())
        .with_producer_epoch(-1)
}

pub(super) fn add_request(producer: Producer) -> AddPartitionsToTxnRequest {
    let topic = AddPartitionsToTxnTopic::default().with_name(topic_name("t")).with_partitions(vec![0]);
    AddPartitionsToTxnRequest::default()
        .with_v3_and_below_transactional_id(TransactionalId(text("x")))
        .with_v3_and_below_producer_id(producer.producer_id.into())
        .with_v3_and_below_producer_epoch(producer.producer_epoch)
        .with_v3_and_below_topics(vec![topic])
}

pub(super) fn add_offsets_request(producer: Producer) -> AddOffsetsToTxnRequest {
    AddOffsetsToTxnRequest::default()
        .with_transactional_id(TransactionalId(text("x")))
        .with_producer_id(producer.producer_id.into())
        .with_producer_epoch(producer.producer_epoch)
        .with_group_id(GroupId(text("g")))
}

async fn begin_transaction(client: &mut Client) -> Producer {
    let initialized = client.call(4, &init_request(Some("x"))).await;
    assert_eq!(initialized.error_code, 0);
    let producer =
        Producer { producer_id: initialized.producer_id.0, producer_epoch: initialized.producer_epoch };
    let added = client.call(3, &add_request(producer)).await;
    assert_eq!(added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code, 0);
    assert_eq!(client.call(3, &add_offsets_request(producer)).await.error_code, 0);
    producer
}
