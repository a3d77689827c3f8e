//! Every API against Kafka's table of rights: without any right it answers the authorization error in the
//! right place and changes nothing; with exactly the rights of the table it succeeds; and without any one of
//! them it does not.
//!
//! Nobody logs in but in `users`: all clients are the principal ANONYMOUS, whose rules the tests change in the
//! log.

mod cluster;
mod groups;
mod hidden;
mod records;
mod topics;
mod transactions;
mod users;
mod world;

use futures::future::BoxFuture;
use kafka_protocol::messages::{ApiKey, ApiVersionsRequest};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use strandline_storage::access::{Operation, ResourceKind};

use self::world::World;
use crate::support::*;

const TOPIC_AUTHORIZATION_FAILED: i16 = 29;
const GROUP_AUTHORIZATION_FAILED: i16 = 30;
const CLUSTER_AUTHORIZATION_FAILED: i16 = 31;
const TRANSACTIONAL_ID_AUTHORIZATION_FAILED: i16 = 53;
/// No code of the protocol: the answer leaves something out.
const LEFT_OUT: i16 = -100;

/// What is allowed.
type Right = (ResourceKind, &'static str, Operation);

const fn topic(name: &'static str, operation: Operation) -> Right {
    (ResourceKind::Topic, name, operation)
}

const fn group(name: &'static str, operation: Operation) -> Right {
    (ResourceKind::Group, name, operation)
}

const fn cluster(operation: Operation) -> Right {
    (ResourceKind::Cluster, "kafka-cluster", operation)
}

const fn transactional_id(name: &'static str, operation: Operation) -> Right {
    (ResourceKind::TransactionalId, name, operation)
}

/// The codes of an answer, in the places where they have to be.
type Codes<'a> = BoxFuture<'a, Vec<i16>>;

/// One request, what it needs, and what its answer is with and without that.
struct Case {
    key: ApiKey,
    rights: &'static [Right],
    call: for<'a> fn(&'a mut Client, &'a World) -> Codes<'a>,
    allowed: &'static [i16],
    refused: &'static [i16],
}

impl Case {
    /// One code, which is 0 when it is allowed.
    const fn one(
        key: ApiKey,
        rights: &'static [Right],
        refused: &'static [i16],
        call: for<'a> fn(&'a mut Client, &'a World) -> Codes<'a>,
    ) -> Self {
        Self { key, rights, call, allowed: &[0], refused }
    }
}

/// Sends a request and finds the codes in its answer.
fn ask<'a, R>(
    client: &'a mut Client,
    version: i16,
    request: R,
    codes: impl FnOnce(R::Response) -> Vec<i16> + Send + 'a,
) -> Codes<'a>
where
    R: Request + Encodable + HeaderVersion + Send + Sync + 'a,
    R::Response: Decodable + HeaderVersion + Send,
{
    Box::pin(async move { codes(client.call(version, &request).await) })
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn cases() -> Vec<Case> {
    let parts = [records::CASES, topics::CASES, groups::CASES, transactions::CASES, cluster::CASES];
    parts.into_iter().flatten().map(|case| Case { ..*case }).collect()
}

/// Logging in is what comes before all rights.
const LOGIN: [ApiKey; 2] = [ApiKey::SaslHandshake, ApiKey::SaslAuthenticate];

#[tokio::test]
async fn every_api_has_a_case() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    let served = client.call(0, &ApiVersionsRequest::default()).await.api_keys;
    assert!(served.len() > 40);
    let cases = cases();
    for key in served.iter().map(|api| api.api_key) {
        let has_case = cases.iter().any(|case| case.key as i16 == key);
        assert!(has_case || LOGIN.iter().any(|login| *login as i16 == key), "api {key} has no case");
    }
}

#[tokio::test]
async fn without_any_right_an_api_is_refused_and_changes_nothing() {
    for case in cases() {
        let world = World::new().await;
        let before = world.fingerprint();
        let mut client = world.gateway.connect().await;
        let codes = (case.call)(&mut client, &world).await;
        assert_eq!(codes, case.refused, "{:?} {:?}", case.key, case.rights);
        if !case.rights.is_empty() {
            assert_eq!(world.fingerprint(), before, "{:?} {:?}", case.key, case.rights);
        }
    }
}

#[tokio::test]
async fn with_exactly_the_rights_of_the_table_an_api_succeeds() {
    for case in cases() {
        let world = World::new().await;
        world.allow(case.rights).await;
        let mut client = world.gateway.connect().await;
        let codes = (case.call)(&mut client, &world).await;
        assert_eq!(codes, case.allowed, "{:?} {:?}", case.key, case.rights);
    }
}

#[tokio::test]
async fn without_one_of_its_rights_an_api_does_not_succeed() {
    for case in cases().iter().filter(|case| case.rights.len() > 1) {
        for missing in 0..case.rights.len() {
            let world = World::new().await;
            let mut rights = case.rights.to_vec();
            let right = rights.remove(missing);
            world.allow(&rights).await;
            let mut client = world.gateway.connect().await;
            let codes = (case.call)(&mut client, &world).await;
            assert_ne!(codes, case.allowed, "{:?} without {right:?}", case.key);
        }
    }
}

#[tokio::test]
async fn a_deny_takes_back_what_is_allowed() {
    for case in cases().iter().filter(|case| !case.rights.is_empty()) {
        let world = World::new().await;
        world.allow(case.rights).await;
        world.deny_all().await;
        let mut client = world.gateway.connect().await;
        let codes = (case.call)(&mut client, &world).await;
        assert_eq!(codes, case.refused, "{:?} {:?}", case.key, case.rights);
    }
}

#[tokio::test]
async fn who_is_no_super_user_has_no_right_that_is_not_named() {
    let world = World::new().await;
    world.allow(&[topic("t", Operation::Read)]).await;
    let mut client = world.gateway.connect().await;
    assert_eq!(client.fetch("t", 0, Fetch::from(0)).await.error_code, 0);
    let refused = client.produce("t", 0, batch(&[(1, b"v")])).await;
    assert_eq!(refused.error_code, TOPIC_AUTHORIZATION_FAILED);
}
