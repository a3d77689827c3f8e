//! Who is let in, and what each may do then.

use std::sync::Arc;
use std::time::Duration;

use strandline_pgwire_server::{Authentication, PgSettings};
use strandline_storage::access::{AccessChange, Authorizer, Operation};

use crate::fixture::{Server, allow, bounded, code, rows};
use crate::raw::{Raw, frame, query};

fn required() -> PgSettings {
    let authorizer = Authorizer { super_users: vec!["admin".to_owned()], ..Authorizer::default() };
    PgSettings { authentication: Authentication::Required(Arc::new(authorizer)), ..PgSettings::default() }
}

/// Two topics, and a user who may read one of them.
async fn guarded() -> Server {
    let server = Server::start_with(required()).await;
    server.topic("open", [r#"{"n":1}"#.to_owned()].into_iter()).await;
    server.topic("closed", [r#"{"n":2}"#.to_owned()].into_iter()).await;
    server.user("alice", "wonder").await;
    server.user("admin", "over all").await;
    server.change(AccessChange::AddAcls(vec![allow("alice", Operation::Read, "open")])).await;
    server
}

/// The code and the words of a refusal.
fn refusal(error: &tokio_postgres::Error) -> (&str, &str) {
    (code(error), error.as_db_error().map_or("none", tokio_postgres::error::DbError::message))
}

#[tokio::test]
async fn a_user_is_let_in_by_its_password_and_reads_what_the_rules_allow() {
    let server = guarded().await;
    let alice = server.try_connect("user=alice password=wonder").await.unwrap();
    assert_eq!(rows(&alice, "SELECT current_user, n FROM open").await, [["alice", "1"]]);
    let unknown = bounded(alice.simple_query("SELECT n FROM closed")).await.unwrap_err();
    assert_eq!(refusal(&unknown), ("42P01", "relation \"closed\" does not exist"));
    let describe = AccessChange::AddAcls(vec![allow("alice", Operation::Describe, "closed")]);
    server.change(describe).await;
    let denied = bounded(alice.simple_query("SELECT n FROM closed")).await.unwrap_err();
    assert_eq!(refusal(&denied), ("42501", "permission denied for table closed"));
    let admin = server.try_connect("user=admin password='over all'").await.unwrap();
    assert_eq!(rows(&admin, "SELECT n FROM closed").await, [["2"]]);
}

#[tokio::test]
async fn a_wrong_password_and_a_user_that_does_not_exist_are_refused_alike() {
    let server = guarded().await;
    let wrong = server.try_connect("user=alice password=wondeR").await.unwrap_err();
    assert_eq!(refusal(&wrong), ("28P01", "password authentication failed for user \"alice\""));
    let unknown = server.try_connect("user=nobody password=wonder").await.unwrap_err();
    assert_eq!(refusal(&unknown), ("28P01", "password authentication failed for user \"nobody\""));
    let challenges = [challenge(&server, "alice").await, challenge(&server, "nobody").await];
    let shapes = challenges.clone().map(|challenge| {
        let parts: Vec<_> = challenge.split(',').map(str::to_owned).collect();
        (parts.len(), parts[0].len(), parts[1][..2].to_owned(), parts[2].clone())
    });
    assert_eq!(shapes[0], shapes[1], "{challenges:?}");
    let salt = |challenge: &str| challenge.split(',').nth(1).unwrap().to_owned();
    let again = challenge(&server, "nobody").await;
    assert_eq!(salt(&challenges[1]), salt(&again), "the salt of a user stays");
}

#[tokio::test]
async fn who_did_not_prove_to_be_a_user_hears_so_later() {
    let delay = Duration::from_millis(300);
    let server = Server::start_with(PgSettings { failed_authentication_delay: delay, ..required() }).await;
    server.user("alice", "wonder").await;
    let clock = server.clock();
    for login in ["user=alice password=wrong", "user=nobody password=wonder"] {
        let began = clock.monotonic();
        let refused = server.try_connect(login).await.unwrap_err();
        assert!(clock.monotonic() - began >= delay, "{login}");
        assert_eq!(code(&refused), "28P01");
    }
    let mut raw = asked(&server, "alice").await;
    let began = clock.monotonic();
    raw.send(&initial_response("PLAIN", "\0alice\0wonder")).await;
    assert_eq!(raw.until_closed().await[0].field(b'C'), "08P01");
    assert!(clock.monotonic() - began >= delay, "whatever is wrong, it takes as long");
}

/// A connection that was asked for a proof.
async fn asked(server: &Server, user: &str) -> Raw {
    let mut raw = Raw::connect(server.address).await;
    raw.startup(&[("user", user), ("database", "strandline")]).await;
    let asked = raw.message().await;
    assert_eq!((asked.tag, &asked.body[..]), (b'R', &b"\0\0\0\x0aSCRAM-SHA-256\0\0"[..]));
    raw
}

fn initial_response(mechanism: &str, data: &str) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap().to_be_bytes();
    frame(b'p', &[mechanism.as_bytes(), b"\0", &length, data.as_bytes()].concat())
}

/// The server's first words to a user.
async fn challenge(server: &Server, user: &str) -> String {
    let mut raw = asked(server, user).await;
    raw.send(&initial_response("SCRAM-SHA-256", "n,,n=,r=abcdefgh")).await;
    let challenge = raw.message().await;
    assert_eq!((challenge.tag, &challenge.body[..4]), (b'R', &[0, 0, 0, 11][..]));
    String::from_utf8(challenge.body[4..].to_vec()).unwrap()
}

#[tokio::test]
async fn whoever_names_no_user_is_refused_before_a_proof_is_asked_for() {
    let server = guarded().await;
    let mut raw = Raw::connect(server.address).await;
    raw.startup(&[("database", "strandline")]).await;
    let refused = raw.until_closed().await;
    assert_eq!((refused.len(), refused[0].field(b'C').as_str()), (1, "28000"));
}

#[tokio::test]
async fn what_is_no_proof_ends_the_connection_and_nothing_is_answered() {
    let server = guarded().await;
    // The length of the third is far beyond what is sent: it is refused without being waited for.
    let messages = [
        query("SELECT 1"),
        frame(b'X', b""),
        vec![b'Q', 0x03, 0, 0, 0],
        frame(b'p', b"wonder\0"),
        initial_response("SCRAM-SHA-256", ""),
        initial_response("SCRAM-SHA-256", "p=tls-unique,,n=,r=abc"),
        initial_response("SCRAM-SHA-256-PLUS", "n,,n=,r=abc"),
        initial_response("PLAIN", "\0alice\0wonder"),
    ];
    for message in messages {
        let mut raw = asked(&server, "alice").await;
        raw.send(&message).await;
        let refused = raw.until_closed().await;
        assert_eq!(refused.len(), 1, "{message:x?}");
        assert_eq!((refused[0].tag, refused[0].field(b'C').as_str()), (b'E', "08P01"), "{message:x?}");
    }
}

#[tokio::test]
async fn a_proof_of_another_exchange_is_refused() {
    let server = guarded().await;
    let mut raw = asked(&server, "alice").await;
    raw.send(&initial_response("SCRAM-SHA-256", "n,,n=,r=abcdefgh")).await;
    raw.message().await;
    raw.send(&frame(b'p', b"c=biws,r=abcdefgh,p=AAAA")).await;
    assert_eq!(raw.until_closed().await[0].field(b'C'), "08P01");
}

#[tokio::test]
async fn a_changed_password_and_a_removed_user_count_at_once() {
    let server = guarded().await;
    server.user("alice", "changed").await;
    let old = server.try_connect("user=alice password=wonder").await.unwrap_err();
    assert_eq!(code(&old), "28P01");
    server.try_connect("user=alice password=changed").await.unwrap();
    server.change(AccessChange::RemoveUser("alice".to_owned())).await;
    let removed = server.try_connect("user=alice password=changed").await.unwrap_err();
    assert_eq!(code(&removed), "28P01");
}

#[tokio::test]
async fn clients_that_prove_nothing_take_no_place_of_a_session() {
    let server = Server::start_with(PgSettings { connections_max: 1, ..required() }).await;
    server.user("alice", "wonder").await;
    let _waiting = asked(&server, "alice").await;
    let alice = server.try_connect("user=alice password=wonder").await.unwrap();
    assert_eq!(rows(&alice, "SELECT 1").await, [["1"]]);
    let second = server.try_connect("user=alice password=wonder").await.unwrap_err();
    assert_eq!(code(&second), "53300");
}
