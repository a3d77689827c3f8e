//! Statements that are stopped: by a cancel request, a timeout, the client's leaving, the server's end.

use std::time::Duration;

use crate::fixture::{ENDLESS, Server, bounded, code, rows};
use crate::raw::{Raw, query};
use tokio_postgres::NoTls;

/// Statements that are listed as running, seen by another session.
async fn running(server: &Server) -> usize {
    let client = server.connect().await;
    rows(&client, "SELECT * FROM strandline.queries").await.len()
}

/// Waits until the listed statements are as many as wanted; the one that looks is one of them.
async fn until_running(server: &Server, wanted: usize) {
    bounded(async {
        while running(server).await != wanted {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_request_stops_the_statement_and_the_session_goes_on() {
    let server = Server::with_big().await;
    let client = server.connect().await;
    for sql in [ENDLESS, "SELECT a._value FROM big a, big b"] {
        let token = client.cancel_token();
        let statement = client.simple_query(sql);
        let cancel = async {
            until_running(&server, 2).await;
            token.cancel_query(NoTls).await.unwrap();
        };
        let (outcome, ()) = bounded(async { tokio::join!(statement, cancel) }).await;
        let error = outcome.expect_err("the statement is stopped");
        assert_eq!(code(&error), "57014", "{error:?}");
        until_running(&server, 1).await;
        assert_eq!(rows(&client, "SELECT 1").await, [["1"]]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_timeout_stops_the_statement() {
    let server = Server::with_big().await;
    let client = server.connect_with("options='-c statement_timeout=200ms'").await;
    let error = bounded(client.simple_query(ENDLESS)).await.unwrap_err();
    assert_eq!(code(&error), "57014");
    assert_eq!(rows(&client, "SELECT 1").await, [["1"]]);
}

/// Pairs that are compared inside of one join, which comes back to the runtime after a whole batch.
const LONG_STEP: &str = "SELECT count(*) FROM big a, big b, big c \
                         WHERE length(a.text) + a.n + length(b.text) + b.n = -1 - c.n";

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_in_the_middle_of_a_step_is_stopped_at_once() {
    let server = Server::with_big().await;
    let client = server.connect_with("options='-c statement_timeout=200ms'").await;
    let answer = tokio::time::timeout(Duration::from_secs(5), client.simple_query(LONG_STEP));
    let error = answer.await.expect("a timeout is answered at once").unwrap_err();
    assert_eq!(code(&error), "57014");
    until_running(&server, 1).await;
    assert_eq!(rows(&client, "SELECT 1").await, [["1"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_with_a_wrong_secret_or_without_a_statement_does_nothing() {
    let server = Server::start().await;
    let mut raw = Raw::connect(server.address).await;
    raw.startup(&[("user", "ada"), ("database", "postgres")]).await;
    let key = raw.until(b'Z').await.into_iter().find(|message| message.tag == b'K').unwrap().body;
    for secret in [[1, 2, 3, 4], key[4..8].try_into().unwrap()] {
        let mut cancel = Raw::connect(server.address).await;
        cancel.packet(&[&80_877_102u32.to_be_bytes()[..], &key[..4], &secret].concat()).await;
        assert_eq!(cancel.until_closed().await, []);
    }
    raw.send(&query("SELECT 1")).await;
    assert_eq!(raw.tags_until(b'Z').await, "TDCZ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_stops_its_statement() {
    let server = Server::with_big().await;
    for sql in [ENDLESS, "SELECT a._value FROM big a, big b"] {
        let mut raw = server.raw().await;
        raw.send(&query(sql)).await;
        until_running(&server, 2).await;
        drop(raw);
        until_running(&server, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_server_ends_sessions_with_their_statements() {
    let server = Server::with_big().await;
    let mut idle = server.raw().await;
    let mut busy = server.raw().await;
    busy.send(&query(ENDLESS)).await;
    until_running(&server, 2).await;
    server.stop().await;
    for raw in [&mut idle, &mut busy] {
        let last = raw.until_closed().await.pop().unwrap();
        assert_eq!((last.field(b'S').as_str(), last.field(b'C').as_str()), ("FATAL", "57P01"));
    }
}
