//! DescribeUserScramCredentials and AlterUserScramCredentials.

use bytes::Bytes;
use kafka_protocol::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use kafka_protocol::messages::describe_user_scram_credentials_request::UserName;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use strandline_storage::access::{ScramCredential, ScramMechanism};

use crate::support::*;

const UNSUPPORTED_SASL_MECHANISM: i16 = 33;
const RESOURCE_NOT_FOUND: i16 = 91;
const DUPLICATE_RESOURCE: i16 = 92;
const UNACCEPTABLE_CREDENTIAL: i16 = 93;

const SHA_256: i8 = 1;
const SHA_512: i8 = 2;

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn upsertion(name: &str, mechanism: i8, iterations: i32) -> ScramCredentialUpsertion {
    let length = if mechanism == SHA_512 { 64 } else { 32 };
    ScramCredentialUpsertion::default()
        .with_name(text(name))
        .with_mechanism(mechanism)
        .with_iterations(iterations)
        .with_salt(Bytes::from_static(b"0123456789abcdef"))
        .with_salted_password(Bytes::from(vec![7; length]))
}

fn deletion(name: &str, mechanism: i8) -> ScramCredentialDeletion {
    ScramCredentialDeletion::default().with_name(text(name)).with_mechanism(mechanism)
}

async fn alter(
    client: &mut Client,
    deletions: Vec<ScramCredentialDeletion>,
    upsertions: Vec<ScramCredentialUpsertion>,
) -> Vec<(String, i16)> {
    let request =
        AlterUserScramCredentialsRequest::default().with_deletions(deletions).with_upsertions(upsertions);
    let altered = client.call(0, &request).await;
    altered.results.iter().map(|one| (one.user.to_string(), one.error_code)).collect()
}

/// Name, code, and mechanisms with their iterations.
type Described = Vec<(String, i16, Vec<(i8, i32)>)>;

async fn describe(client: &mut Client, names: Option<&[&str]>) -> Described {
    let users =
        names.map(|names| names.iter().map(|name| UserName::default().with_name(text(name))).collect());
    let request = DescribeUserScramCredentialsRequest::default().with_users(users);
    let described = client.call(0, &request).await;
    assert_eq!(described.error_code, 0);
    let results = described.results.iter().map(|one| {
        let infos = one.credential_infos.iter().map(|info| (info.mechanism, info.iterations));
        (one.user.to_string(), one.error_code, infos.collect())
    });
    results.collect()
}

fn user(name: &str, code: i16) -> (String, i16) {
    (name.to_owned(), code)
}

#[tokio::test]
async fn credentials_are_created_described_and_deleted() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    assert!(describe(&mut client, None).await.is_empty());
    let altered = alter(&mut client, vec![], vec![upsertion("alice", SHA_256, 4096)]).await;
    assert_eq!(altered, [user("alice", 0)]);
    let altered =
        alter(&mut client, vec![], vec![upsertion("bob", SHA_512, 8192), upsertion("alice", SHA_512, 16384)]);
    assert_eq!(altered.await, [user("bob", 0), user("alice", 0)]);
    let alice = ("alice".to_owned(), 0, vec![(SHA_256, 4096), (SHA_512, 16384)]);
    let bob = ("bob".to_owned(), 0, vec![(SHA_512, 8192)]);
    assert_eq!(describe(&mut client, None).await, [alice.clone(), bob]);
    assert_eq!(describe(&mut client, Some(&[])).await.len(), 2);
    let named = describe(&mut client, Some(&["nobody", "alice", "bob", "bob"])).await;
    let nothing = |name: &str, code| (name.to_owned(), code, Vec::new());
    assert_eq!(named, [alice, nothing("bob", DUPLICATE_RESOURCE), nothing("nobody", RESOURCE_NOT_FOUND)]);

    let deleted =
        alter(&mut client, vec![deletion("alice", SHA_256), deletion("bob", SHA_512)], vec![]).await;
    assert_eq!(deleted, [user("alice", 0), user("bob", 0)]);
    let alice = ("alice".to_owned(), 0, vec![(SHA_512, 16384)]);
    assert_eq!(describe(&mut client, None).await, [alice]);
    assert!(gateway.log.access().users.get("bob").is_none(), "who has no credential is no user");
}

#[tokio::test]
async fn a_credential_is_the_one_of_the_password_that_was_salted() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    alter(&mut client, vec![], vec![upsertion("alice", SHA_256, 4096)]).await;
    let access = gateway.log.access();
    let found = access.users.get("alice").unwrap().credential(ScramMechanism::Sha256).unwrap();
    let salt = b"0123456789abcdef".to_vec();
    let expected = ScramCredential::from_salted_password(ScramMechanism::Sha256, &[7; 32], salt, 4096);
    assert_eq!(*found, expected.unwrap());
}

#[tokio::test]
async fn credentials_of_two_mechanisms_are_altered_together() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    let both = vec![upsertion("alice", SHA_256, 4096), upsertion("alice", SHA_512, 4096)];
    assert_eq!(alter(&mut client, vec![], both).await, [user("alice", 0)]);
    let swapped =
        alter(&mut client, vec![deletion("alice", SHA_256)], vec![upsertion("alice", SHA_512, 8192)]).await;
    assert_eq!(swapped, [user("alice", 0)]);
    let alice = [("alice".to_owned(), 0, vec![(SHA_512, 8192)])];
    assert_eq!(describe(&mut client, None).await, alice);
    let half = alter(&mut client, vec![deletion("alice", SHA_256)], vec![upsertion("alice", SHA_512, 4096)]);
    assert_eq!(half.await, [user("alice", RESOURCE_NOT_FOUND)]);
    assert_eq!(describe(&mut client, None).await, alice, "a user that is refused stays as it is");
}

#[tokio::test]
async fn each_user_is_refused_alone() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    let deletions = vec![deletion("nobody", SHA_256), deletion("odd", 9), deletion("twice", SHA_512)];
    let upsertions = vec![
        upsertion("", SHA_256, 4096),
        upsertion("few", SHA_256, 4095),
        upsertion("many", SHA_256, 16385),
        upsertion("negative", SHA_256, -1),
        upsertion("unknown", 0, 4096),
        upsertion("twice", SHA_512, 4096),
        upsertion("short", SHA_512, 4096).with_salted_password(Bytes::from_static(b"short")),
        upsertion("unsalted", SHA_256, 4096).with_salt(Bytes::new()),
        upsertion("good", SHA_256, 4096),
    ];
    let expected = [
        user("nobody", RESOURCE_NOT_FOUND),
        user("odd", UNSUPPORTED_SASL_MECHANISM),
        user("twice", DUPLICATE_RESOURCE),
        user("", UNACCEPTABLE_CREDENTIAL),
        user("few", UNACCEPTABLE_CREDENTIAL),
        user("many", UNACCEPTABLE_CREDENTIAL),
        user("negative", UNACCEPTABLE_CREDENTIAL),
        user("unknown", UNSUPPORTED_SASL_MECHANISM),
        user("short", UNACCEPTABLE_CREDENTIAL),
        user("unsalted", UNACCEPTABLE_CREDENTIAL),
        user("good", 0),
    ];
    assert_eq!(alter(&mut client, deletions, upsertions).await, expected);
    assert_eq!(describe(&mut client, None).await.len(), 1);
}
