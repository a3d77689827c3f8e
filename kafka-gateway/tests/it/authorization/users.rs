//! Rules and quotas for users that log in.

use kafka_protocol::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::*;
use strandline_kafka_gateway::{Authentication, GatewaySettings, ListenerSettings, SaslMechanism};
use strandline_storage::access::{
    AccessChange, Authorizer, ScramCredential, ScramMechanism, User, WithoutRules,
};

use super::world::change;
use super::{TOPIC_AUTHORIZATION_FAILED, text};
use crate::support::*;

const SASL_AUTHENTICATION_FAILED: i16 = 58;
/// In the numbers of the protocol.
const TOPIC: i8 = 2;
const LITERAL: i8 = 3;
const READ: i8 = 3;
const ALLOW: i8 = 3;

/// A gateway whose users log in, with the user `admin`, who may do everything.
async fn start() -> TestGateway {
    let authorizer =
        Authorizer { super_users: vec!["admin".to_owned()], without_rules: WithoutRules::Refuse };
    let settings = GatewaySettings { authorizer: Some(authorizer), ..settings() };
    let authentication = Authentication::Sasl(vec![SaslMechanism::Plain]);
    let port = ListenerSettings { authentication, ..ListenerSettings::default() };
    let gateway = TestGateway::start_listening(vec![port], settings).await;
    create_user(&gateway, "admin", "root").await;
    gateway
}

/// The code that the login is answered with.
async fn log_in(client: &mut Client, user: &str, password: &str) -> i16 {
    let handshake = SaslHandshakeRequest::default().with_mechanism(text("PLAIN"));
    assert_eq!(client.call(1, &handshake).await.error_code, 0);
    let token = format!("\0{user}\0{password}").into_bytes();
    client.call(2, &SaslAuthenticateRequest::default().with_auth_bytes(token.into())).await.error_code
}

async fn connect_as(gateway: &TestGateway, user: &str, password: &str) -> Client {
    let mut client = gateway.connect().await;
    assert_eq!(log_in(&mut client, user, password).await, 0, "{user}");
    client
}

async fn create_user(gateway: &TestGateway, name: &str, password: &str) {
    let credential = ScramCredential::derive(ScramMechanism::Sha256, password, b"some salt".to_vec(), 4096);
    let user = User { name: name.to_owned(), credentials: vec![credential] };
    change(gateway, vec![AccessChange::PutUser(user)]).await;
}

async fn may_read(admin: &mut Client, user: &str, topic: &str) {
    let creation = AclCreation::default()
        .with_resource_type(TOPIC)
        .with_resource_name(text(topic))
        .with_resource_pattern_type(LITERAL)
        .with_principal(text(&format!("User:{user}")))
        .with_host(text("127.0.0.1"))
        .with_operation(READ)
        .with_permission_type(ALLOW);
    let created = admin.call(2, &CreateAclsRequest::default().with_creations(vec![creation])).await;
    assert_eq!(created.results[0].error_code, 0);
}

#[tokio::test]
async fn a_user_may_do_what_the_rules_allow_it_and_a_super_user_everything() {
    let gateway = start().await;
    let mut admin = connect_as(&gateway, "admin", "root").await;
    admin.create_topic("t", 1).await;
    assert_eq!(admin.produce("t", 0, batch(&[(1, b"v")])).await.error_code, 0);
    create_user(&gateway, "alice", "pencil").await;
    create_user(&gateway, "bob", "crayon").await;
    may_read(&mut admin, "alice", "t").await;

    let mut alice = connect_as(&gateway, "alice", "pencil").await;
    let mut bob = connect_as(&gateway, "bob", "crayon").await;
    assert_eq!(alice.fetch("t", 0, Fetch::from(0)).await.error_code, 0);
    assert_eq!(bob.fetch("t", 0, Fetch::from(0)).await.error_code, TOPIC_AUTHORIZATION_FAILED);
    let refused = alice.produce("t", 0, batch(&[(1, b"v")])).await;
    assert_eq!(refused.error_code, TOPIC_AUTHORIZATION_FAILED);
    let mut wrong = gateway.connect().await;
    assert_eq!(log_in(&mut wrong, "alice", "crayon").await, SASL_AUTHENTICATION_FAILED);
}

#[tokio::test]
async fn a_quota_of_a_user_is_not_one_of_others() {
    let gateway = start().await;
    let mut admin = connect_as(&gateway, "admin", "root").await;
    admin.create_topic("t", 1).await;
    create_user(&gateway, "alice", "pencil").await;
    may_read(&mut admin, "alice", "t").await;
    admin.produce("t", 0, batch(&[(1, &[7; 1000])])).await;
    let user = EntityData::default().with_entity_type(text("user")).with_entity_name(Some(text("alice")));
    let op = OpData::default().with_key(text("consumer_byte_rate")).with_value(1.0);
    let entry = EntryData::default().with_entity(vec![user]).with_ops(vec![op]);
    let altered = admin.call(1, &AlterClientQuotasRequest::default().with_entries(vec![entry])).await;
    assert_eq!(altered.entries[0].error_code, 0);

    let mut alice = connect_as(&gateway, "alice", "pencil").await;
    let request = fetch_request("t", 0, Fetch::from(0));
    assert_eq!(admin.call::<FetchRequest>(11, &request).await.throttle_time_ms, 0);
    assert!(alice.call::<FetchRequest>(11, &request).await.throttle_time_ms > 900_000);
    assert_eq!(admin.call::<FetchRequest>(11, &request).await.throttle_time_ms, 0);
}
