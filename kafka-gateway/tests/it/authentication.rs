//! Proving who one is, as clients do it on the wire: before the first request, and again later.

use std::error::Error;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, MetadataRequest, SaslAuthenticateRequest, SaslAuthenticateResponse,
    SaslHandshakeRequest, SaslHandshakeResponse,
};
use kafka_protocol::protocol::StrBytes;
use rcgen::DnType;
use strandline_kafka_gateway::{Authentication, GatewaySettings, ListenerSettings, SaslMechanism};
use strandline_storage::access::scram::ScramClient;
use strandline_storage::access::{Access, AccessChange, ScramCredential, ScramMechanism, User};
use strandline_storage::log::Log;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::certificates::{Authority, Clients};
use crate::support::*;

const UNSUPPORTED_SASL_MECHANISM: i16 = 33;
const ILLEGAL_SASL_STATE: i16 = 34;
const UNSUPPORTED_VERSION: i16 = 35;
const SASL_AUTHENTICATION_FAILED: i16 = 58;
const ALICE: (&str, &str) = ("alice", "pencil");

/// A port that offers these mechanisms.
fn sasl(mechanisms: &[SaslMechanism]) -> ListenerSettings {
    ListenerSettings {
        authentication: Authentication::Sasl(mechanisms.to_vec()),
        ..ListenerSettings::default()
    }
}

async fn change(log: &Log, change: AccessChange) {
    let edit = |_: &Access| Ok::<_, Box<dyn Error + Send + Sync>>((vec![change], ()));
    log.change_access(edit).await.unwrap();
}

async fn put_user(log: &Log, (name, password): (&str, &str)) {
    let derive = |mechanism| ScramCredential::derive(mechanism, password, b"some salt".to_vec(), 4096);
    let credentials = ScramMechanism::ALL.map(derive).to_vec();
    change(log, AccessChange::PutUser(User { name: name.to_owned(), credentials })).await;
}

/// A gateway with the user `alice`, whose port offers all mechanisms.
async fn start(settings: GatewaySettings) -> TestGateway {
    let gateway = TestGateway::start_listening(vec![sasl(&SaslMechanism::ALL)], settings).await;
    put_user(&gateway.log, ALICE).await;
    gateway
}

impl Client {
    async fn shake_hands(&mut self, version: i16, mechanism: &'static str) -> SaslHandshakeResponse {
        let request = SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str(mechanism));
        self.call(version, &request).await
    }

    async fn authenticate(&mut self, version: i16, token: impl Into<Vec<u8>>) -> SaslAuthenticateResponse {
        let request = SaslAuthenticateRequest::default().with_auth_bytes(token.into().into());
        self.call(version, &request).await
    }

    /// Logs in by PLAIN.
    async fn plain(&mut self, version: i16, user: &str, password: &str) -> SaslAuthenticateResponse {
        let shaken = self.shake_hands(1, "PLAIN").await;
        assert_eq!(shaken.error_code, 0);
        self.authenticate(version, format!("\0{user}\0{password}")).await
    }

    /// Logs in by SCRAM, and checks the server's proof.
    async fn scram(
        &mut self,
        mechanism: ScramMechanism,
        (user, password): (&str, &str),
    ) -> SaslAuthenticateResponse {
        assert_eq!(self.shake_hands(1, mechanism.name()).await.error_code, 0);
        let mut scram = ScramClient::new(mechanism, user, password, "client".to_owned());
        let challenge = self.authenticate(2, scram.first()).await;
        assert_eq!(challenge.error_code, 0);
        let proof = self.authenticate(2, scram.answer(&challenge.auth_bytes).unwrap()).await;
        if proof.error_code == 0 {
            scram.verify(&proof.auth_bytes).unwrap();
        }
        proof
    }

    /// Sends a token without a request around it.
    async fn send_raw(&mut self, token: &[u8]) {
        self.send_frame(token).await;
    }

    async fn is_served(&mut self) {
        let metadata = self.call(9, &MetadataRequest::default().with_topics(None)).await;
        assert_eq!(metadata.brokers.len(), 1);
    }
}

/// Reported as platformatic#350: a client may know no other version of SaslAuthenticate than 2.
#[tokio::test]
async fn every_mechanism_lets_a_user_in() {
    let gateway = start(settings()).await;
    for version in 0..=2 {
        let mut client = gateway.connect().await;
        client.call(3, &api_versions()).await;
        let answer = client.plain(version, ALICE.0, ALICE.1).await;
        assert_eq!((answer.error_code, answer.session_lifetime_ms), (0, 0));
        client.is_served().await;
    }
    for mechanism in ScramMechanism::ALL {
        let mut client = gateway.connect().await;
        assert_eq!(client.scram(mechanism, ALICE).await.error_code, 0);
        client.is_served().await;
    }
}

fn api_versions() -> ApiVersionsRequest {
    ApiVersionsRequest::default()
        .with_client_software_name(StrBytes::from_static_str("test"))
        .with_client_software_version(StrBytes::from_static_str("1"))
}

/// Reported as kop#667, shotover#1574.
#[tokio::test]
async fn tokens_go_without_requests_after_version_0_of_the_handshake() {
    let gateway = start(settings()).await;
    let mut client = gateway.connect().await;
    assert_eq!(client.shake_hands(0, "PLAIN").await.error_code, 0);
    client.send_raw(b"\0alice\0pencil").await;
    assert_eq!(client.receive_frame().await, Some(Bytes::new()));
    client.is_served().await;

    let mut client = gateway.connect().await;
    assert_eq!(client.shake_hands(0, "SCRAM-SHA-256").await.error_code, 0);
    let mut scram = ScramClient::new(ScramMechanism::Sha256, ALICE.0, ALICE.1, "client".to_owned());
    client.send_raw(&scram.first()).await;
    let challenge = client.receive_frame().await.unwrap();
    client.send_raw(&scram.answer(&challenge).unwrap()).await;
    scram.verify(&client.receive_frame().await.unwrap()).unwrap();
    client.is_served().await;

    let mut client = gateway.connect().await;
    client.shake_hands(0, "PLAIN").await;
    client.send_raw(b"\0alice\0wrong").await;
    client.assert_closed().await;
}

#[tokio::test]
async fn whatever_is_wrong_the_client_hears_the_same_later_and_is_closed() {
    let delay = Duration::from_millis(50);
    let settings = GatewaySettings { failed_authentication_delay: delay, ..settings() };
    let gateway = start(settings).await;
    let clock = gateway.log.seams().clock.clone();
    let mut messages = Vec::new();
    for token in ["\0alice\0wrong", "\0nobody\0pencil", "\0alice\0", "bob\0alice\0pencil", "noise", ""] {
        let mut client = gateway.connect().await;
        assert_eq!(client.shake_hands(1, "PLAIN").await.error_code, 0);
        let sent = clock.monotonic();
        let answer = client.authenticate(2, token).await;
        assert!(clock.monotonic() - sent >= delay, "it takes a while");
        assert_eq!(answer.error_code, SASL_AUTHENTICATION_FAILED, "{token}");
        messages.push(answer.error_message.unwrap());
        client.assert_closed().await;
    }
    for login in [("alice", "wrong"), ("nobody", "pencil")] {
        let mut client = gateway.connect().await;
        let answer = client.scram(ScramMechanism::Sha512, login).await;
        assert_eq!(answer.error_code, SASL_AUTHENTICATION_FAILED);
        messages.push(answer.error_message.unwrap());
        client.assert_closed().await;
    }
    messages.dedup();
    assert_eq!(messages.len(), 1, "{messages:?}");
}

#[tokio::test]
async fn a_mechanism_that_is_not_offered_is_refused_with_those_that_are() {
    let offered = [SaslMechanism::ScramSha256, SaslMechanism::ScramSha512];
    let gateway = TestGateway::start_listening(vec![sasl(&offered)], settings()).await;
    for version in 0..=1 {
        let mut client = gateway.connect().await;
        let answer = client.shake_hands(version, "PLAIN").await;
        assert_eq!(answer.error_code, UNSUPPORTED_SASL_MECHANISM);
        let names: Vec<&str> = answer.mechanisms.iter().map(|name| name.as_str()).collect();
        assert_eq!(names, ["SCRAM-SHA-256", "SCRAM-SHA-512"]);
        client.assert_closed().await;
    }
}

#[tokio::test]
async fn before_the_proof_versions_are_told_and_nothing_else() {
    let gateway = start(settings()).await;
    for version in 0..=4 {
        let mut client = gateway.connect().await;
        let answer = client.call(version, &api_versions()).await;
        assert_eq!(answer.error_code, 0);
        for api in [ApiKey::SaslHandshake, ApiKey::SaslAuthenticate, ApiKey::Metadata] {
            assert!(answer.api_keys.iter().any(|served| served.api_key == key(api)), "{api:?}");
        }
        assert_eq!(client.plain(2, ALICE.0, ALICE.1).await.error_code, 0);
    }
    let mut client = gateway.connect().await;
    client.send_frame(&bare_head(key(ApiKey::ApiVersions), 99)).await;
    let mut answer = client.receive_frame().await.unwrap();
    assert_eq!((answer.get_i32(), answer.get_i16()), (77, UNSUPPORTED_VERSION));
    client.call(0, &ApiVersionsRequest::default()).await;
    assert_eq!(client.plain(2, ALICE.0, ALICE.1).await.error_code, 0);
}

#[tokio::test]
async fn any_other_request_before_the_proof_closes_the_connection() {
    let gateway = start(settings()).await;
    let mut metadata = bare_head(key(ApiKey::Metadata), 1);
    metadata.put_i32(-1);
    let mut produce = bare_head(key(ApiKey::Produce), 8);
    produce.put_bytes(0, 20);
    let mut early = bare_head(key(ApiKey::SaslAuthenticate), 0);
    early.put_i32(0);
    let unknown = bare_head(999, 0);
    let newer = bare_head(key(ApiKey::SaslHandshake), 2);
    for frame in [&metadata, &produce, &early, &unknown, &newer, &BytesMut::from(&b"noise"[..])] {
        let mut client = gateway.connect().await;
        client.send_frame(frame).await;
        client.assert_closed().await;
        let mut client = gateway.connect().await;
        client.shake_hands(1, "PLAIN").await;
        if *frame != early {
            client.send_frame(frame).await;
            client.assert_closed().await;
        }
    }
}

#[tokio::test]
async fn frames_of_strangers_are_short_and_come_soon() {
    let settings = GatewaySettings { authentication_timeout: Duration::from_millis(300), ..settings() };
    let gateway = start(settings).await;
    let mut client = gateway.connect().await;
    client.socket.write_u32(512 * 1024 + 1).await.unwrap();
    client.assert_closed().await;
    let mut silent = gateway.connect().await;
    silent.assert_closed().await;
    let mut halting = gateway.connect().await;
    halting.shake_hands(1, "SCRAM-SHA-256").await;
    halting.assert_closed().await;
}

#[tokio::test]
async fn where_nothing_is_asked_or_all_was_proven_sasl_is_out_of_place() {
    let open = TestGateway::start().await;
    let asking = start(settings()).await;
    let mut proven = asking.connect().await;
    proven.plain(2, ALICE.0, ALICE.1).await;
    for mut client in [open.connect().await, proven] {
        assert_eq!(client.shake_hands(1, "PLAIN").await.error_code, ILLEGAL_SASL_STATE);
        let answer = client.authenticate(2, "\0alice\0pencil").await;
        assert_eq!(answer.error_code, ILLEGAL_SASL_STATE);
        client.is_served().await;
    }
}

#[tokio::test]
async fn a_session_is_renewed_by_its_user_in_the_same_way() {
    let lifetime = Duration::from_secs(60);
    let settings = GatewaySettings { reauthentication: Some(lifetime), ..settings() };
    let gateway = start(settings).await;
    put_user(&gateway.log, ("bob", "pencil")).await;
    let mut client = gateway.connect().await;
    let first = client.plain(1, ALICE.0, ALICE.1).await;
    assert_eq!((first.error_code, first.session_lifetime_ms), (0, 60_000));
    let clock = gateway.log.seams().clock.clone();
    let began = clock.monotonic();
    let renewed = client.plain(2, ALICE.0, ALICE.1).await;
    assert_eq!((renewed.error_code, renewed.session_lifetime_ms), (0, 60_000));
    client.is_served().await;
    let again = client.shake_hands(1, "PLAIN").await.error_code;
    let took = clock.monotonic() - began;
    assert!(again == ILLEGAL_SASL_STATE || took >= Duration::from_secs(1), "once a second: {took:?}");

    let mut other_user = gateway.connect().await;
    other_user.plain(2, ALICE.0, ALICE.1).await;
    let refused = other_user.plain(2, "bob", "pencil").await;
    assert_eq!(refused.error_code, SASL_AUTHENTICATION_FAILED);
    other_user.assert_closed().await;

    let mut other_way = gateway.connect().await;
    other_way.plain(2, ALICE.0, ALICE.1).await;
    let refused = other_way.shake_hands(1, "SCRAM-SHA-256").await;
    assert_eq!(refused.error_code, UNSUPPORTED_SASL_MECHANISM);
    other_way.assert_closed().await;

    let mut distracted = gateway.connect().await;
    distracted.plain(2, ALICE.0, ALICE.1).await;
    distracted.shake_hands(1, "PLAIN").await;
    distracted.send(9, &MetadataRequest::default().with_topics(None)).await;
    distracted.assert_closed().await;
}

#[tokio::test]
async fn a_session_that_is_over_ends_at_the_next_request() {
    let lifetime = Duration::from_millis(100);
    let settings = GatewaySettings { reauthentication: Some(lifetime), ..settings() };
    let gateway = start(settings).await;
    let clock = gateway.log.seams().clock.clone();
    let mut late = gateway.connect().await;
    late.plain(2, ALICE.0, ALICE.1).await;
    let mut renewing = gateway.connect().await;
    renewing.plain(2, ALICE.0, ALICE.1).await;
    clock.sleep(lifetime).await;
    late.send(9, &MetadataRequest::default().with_topics(None)).await;
    late.assert_closed().await;
    assert_eq!(renewing.plain(2, ALICE.0, ALICE.1).await.error_code, 0, "it may still be renewed");
}

#[tokio::test]
async fn a_user_that_is_removed_is_not_served_any_more() {
    let gateway = start(settings()).await;
    put_user(&gateway.log, ("bob", "pencil")).await;
    let (mut alice, mut bob) = (gateway.connect().await, gateway.connect().await);
    alice.plain(2, ALICE.0, ALICE.1).await;
    bob.scram(ScramMechanism::Sha256, ("bob", "pencil")).await;
    change(&gateway.log, AccessChange::RemoveUser("bob".to_owned())).await;
    bob.send(9, &MetadataRequest::default().with_topics(None)).await;
    bob.assert_closed().await;
    alice.is_served().await;
    let mut bob = gateway.connect().await;
    let answer = bob.scram(ScramMechanism::Sha256, ("bob", "pencil")).await;
    assert_eq!(answer.error_code, SASL_AUTHENTICATION_FAILED);
}

#[tokio::test]
async fn a_certificate_is_a_proof_and_sasl_another() {
    let authority = Authority::new();
    let port =
        ListenerSettings { tls: Some(authority.server(Clients::Optional)), ..sasl(&SaslMechanism::ALL) };
    let gateway = TestGateway::start_listening(vec![port], settings()).await;
    put_user(&gateway.log, ALICE).await;
    let connect = async |certified: bool| {
        let identity = certified.then(|| authority.sign(&[(DnType::CommonName, "app")]));
        let socket = TcpStream::connect(gateway.address).await.unwrap();
        Client::over(authority.connect(socket, identity).await.unwrap())
    };
    let mut certified = connect(true).await;
    certified.call(3, &api_versions()).await;
    certified.is_served().await;
    let mut both = connect(true).await;
    assert_eq!(both.scram(ScramMechanism::Sha512, ALICE).await.error_code, 0);
    both.is_served().await;
    let mut by_password = connect(false).await;
    assert_eq!(by_password.plain(2, ALICE.0, ALICE.1).await.error_code, 0);
    by_password.is_served().await;
    let mut stranger = connect(false).await;
    stranger.send(9, &MetadataRequest::default().with_topics(None)).await;
    assert_eq!(stranger.socket.read(&mut [0]).await.unwrap_or(0), 0);
}
