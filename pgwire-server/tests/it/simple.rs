//! The simple protocol.

use crate::fixture::{Server, bounded, code, rows};
use crate::raw::{query, sync};

#[tokio::test]
async fn a_select_answers_with_names_and_values() {
    let server = Server::with_events().await;
    let client = server.connect().await;
    let sql = "SELECT _offset, n, x, name, ok, ts FROM events WHERE ts >= '2023-11-14 22:13:21' ORDER BY ts";
    let expected = [
        ["1", "2", "NULL", "b\u{fffd}c", "NULL", "2023-11-14 22:13:21+00"],
        ["2", "3", "-2.25", "NULL", "f", "2023-11-14 22:13:22+00"],
    ];
    assert_eq!(rows(&client, sql).await, expected);
}

#[tokio::test]
async fn results_before_a_failing_statement_are_sent() {
    let server = Server::with_events().await;
    let mut raw = server.raw().await;
    raw.send(&query("SELECT 1 AS one; SELECT n FROM events LIMIT 2; SELECT nonsense; SELECT 2")).await;
    let messages = raw.until(b'Z').await;
    let tags: String = messages.iter().map(|message| char::from(message.tag)).collect();
    assert_eq!(tags, "TDCTDDCEZ");
    assert_eq!(messages[2].text(), "SELECT 1");
    assert_eq!(messages[6].text(), "SELECT 2");
    assert_eq!(messages[7].field(b'C'), "42703");
    assert_eq!(messages[8].text(), "I");
}

#[tokio::test]
async fn empty_texts_are_empty_queries() {
    let server = Server::start().await;
    let mut raw = server.raw().await;
    for empty in ["", ";", ";;;", " -- only a comment", "/* and another */ ;"] {
        raw.send(&query(empty)).await;
        assert_eq!(raw.tags_until(b'Z').await, "IZ", "{empty}");
    }
}

#[tokio::test]
async fn errors_say_code_and_position() {
    let server = Server::start().await;
    let mut raw = server.raw().await;
    raw.send(&query("SELECT * FRM events")).await;
    let error = raw.until(b'Z').await.remove(0);
    assert_eq!((error.tag, error.field(b'S').as_str(), error.field(b'C').as_str()), (b'E', "ERROR", "42601"));
    assert!(error.field(b'P').parse::<usize>().is_ok(), "{}", error.text());
    let client = server.connect().await;
    let cases = [
        ("SELECT * FROM nowhere", "42P01"),
        ("SELECT 1/0", "22012"),
        ("INSERT INTO events VALUES (1)", "0A000"),
        ("SELECT $1", "42P02"),
        ("SET no_such_setting = 1", "42704"),
        ("DEALLOCATE nothing", "26000"),
    ];
    for (sql, expected) in cases {
        let error = bounded(client.simple_query(sql)).await.expect_err(sql);
        assert_eq!(code(&error), expected, "{sql}: {error:?}");
    }
}

#[tokio::test]
async fn a_failed_transaction_refuses_all_but_its_end() {
    let server = Server::start().await;
    let mut raw = server.raw().await;
    raw.send(&query("BEGIN")).await;
    assert_eq!(raw.until(b'Z').await.pop().map(|ready| ready.text()), Some("T".into()));
    raw.send(&query("SELECT nonsense")).await;
    assert_eq!(raw.until(b'Z').await.pop().map(|ready| ready.text()), Some("E".into()));
    raw.send(&query("SELECT 1")).await;
    let refused = raw.until(b'Z').await;
    assert_eq!(refused[0].field(b'C'), "25P02");
    raw.send(&query("COMMIT")).await;
    let ended = raw.until(b'Z').await;
    assert_eq!((ended[0].text().as_str(), ended[1].text().as_str()), ("ROLLBACK", "I"));
}

#[tokio::test]
async fn changed_settings_are_reported_before_the_session_is_ready() {
    let server = Server::with_events().await;
    let mut raw = server.raw().await;
    raw.send(&query("SET TIME ZONE 'Asia/Kolkata'")).await;
    let messages = raw.until(b'Z').await;
    let tags: String = messages.iter().map(|message| char::from(message.tag)).collect();
    assert_eq!(tags, "CSZ");
    assert_eq!(messages[1].text(), "TimeZone\0Asia/Kolkata");
    let client = server.connect_with("options='-c TimeZone=Asia/Kolkata'").await;
    let shown = rows(&client, "SELECT ts FROM events LIMIT 1").await;
    assert_eq!(shown, [["2023-11-15 03:43:20+05:30"]]);
}

#[tokio::test]
async fn the_reset_of_a_connection_pool_is_one_text() {
    let server = Server::start().await;
    let mut raw = server.raw().await;
    raw.send(&query("SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;")).await;
    assert_eq!(raw.tags_until(b'Z').await, "TDCCCCZ");
    raw.send(&query("DISCARD ALL")).await;
    assert_eq!(raw.tags_until(b'Z').await, "CZ");
}

#[tokio::test]
async fn pipelined_queries_are_answered_in_order() {
    let server = Server::start().await;
    let mut raw = server.raw().await;
    let together = [query("SELECT 1"), query("SELECT nonsense"), sync(), query("SELECT 2")].concat();
    raw.send(&together).await;
    let tags = [raw.tags_until(b'Z').await, raw.tags_until(b'Z').await, raw.tags_until(b'Z').await];
    assert_eq!(tags, ["TDCZ", "EZ", "Z"]);
    assert_eq!(raw.tags_until(b'Z').await, "TDCZ");
}
