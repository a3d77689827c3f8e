//! How connections begin.

use std::collections::BTreeMap;
use std::time::Duration;

use strandline_pgwire_server::{PgSettings, serve_stream};
use tokio_postgres::NoTls;

use crate::fixture::{Server, bounded, rows};
use crate::raw::{Message, Raw, query};

fn statuses(messages: &[Message]) -> BTreeMap<String, String> {
    let statuses = messages.iter().filter(|message| message.tag == b'S');
    statuses
        .filter_map(|message| {
            message.text().split_once('\0').map(|(name, value)| (name.to_owned(), value.to_owned()))
        })
        .collect()
}

#[tokio::test]
async fn encryption_is_refused_and_the_session_begins_in_the_clear() {
    let server = Server::start().await;
    let mut raw = Raw::connect(server.address).await;
    for request in [80_877_104u32, 80_877_103] {
        raw.packet(&request.to_be_bytes()).await;
        assert_eq!(raw.byte().await, b'N');
    }
    raw.startup(&[("user", "ada"), ("database", "strandline")]).await;
    let messages = raw.until(b'Z').await;
    assert_eq!((messages[0].tag, &messages[0].body[..]), (b'R', &[0u8, 0, 0, 0][..]));
    assert_eq!(messages.last().map(Message::text), Some("I".into()));
}

#[tokio::test]
async fn startup_settings_are_applied_and_echoed() {
    let server = Server::start().await;
    let mut raw = Raw::connect(server.address).await;
    let parameters = [
        ("user", "ada"),
        ("database", "postgres"),
        ("client_encoding", "'utf-8'"),
        ("DateStyle", "ISO"),
        ("TimeZone", "Asia/Kolkata"),
        ("extra_float_digits", "2"),
        ("application_name", "it"),
        ("options", "-c statement_timeout=5s"),
    ];
    raw.startup(&parameters).await;
    let statuses = statuses(&raw.until(b'Z').await);
    let expected = [
        ("TimeZone", "Asia/Kolkata"),
        ("DateStyle", "ISO, MDY"),
        ("client_encoding", "UTF8"),
        ("server_encoding", "UTF8"),
        ("application_name", "it"),
        ("integer_datetimes", "on"),
        ("standard_conforming_strings", "on"),
        ("IntervalStyle", "postgres"),
        ("session_authorization", "ada"),
        ("server_version", "16.6"),
    ];
    for (name, value) in expected {
        assert_eq!(statuses.get(name).map(String::as_str), Some(value), "{name}");
    }
    for name in ["is_superuser", "in_hot_standby", "default_transaction_read_only"] {
        assert!(statuses.contains_key(name), "{name}");
    }
    raw.send(&query("SHOW statement_timeout")).await;
    assert_eq!(raw.until(b'Z').await[1].text(), "\0\u{1}\0\0\0\u{2}5s");
}

#[tokio::test]
async fn what_cannot_be_served_is_refused_with_a_reason() {
    let server = Server::start().await;
    let cases: [(&[(&str, &str)], &str); 4] = [
        (&[("user", "ada"), ("database", "nowhere")], "3D000"),
        (&[("database", "strandline")], "28000"),
        (&[("user", "ada"), ("database", "strandline"), ("client_encoding", "LATIN1")], "22023"),
        (&[("user", "ada"), ("database", "strandline"), ("no_such_setting", "1")], "42704"),
    ];
    for (parameters, expected) in cases {
        let mut raw = Raw::connect(server.address).await;
        raw.startup(parameters).await;
        let error = raw.until_closed().await.remove(0);
        assert_eq!((error.tag, error.field(b'C').as_str()), (b'E', expected), "{}", error.text());
        assert_eq!(error.field(b'S'), "FATAL");
    }
}

#[tokio::test]
async fn newer_protocols_are_negotiated_and_older_ones_refused() {
    let server = Server::start().await;
    let mut raw = Raw::connect(server.address).await;
    raw.packet(b"\0\x03\0\x09user\0ada\0database\0strandline\0_pq_.novelty\x001\0\0").await;
    let messages = raw.until(b'Z').await;
    let negotiated = [&b"\0\x03\0\x02\0\0\0\x01"[..], b"_pq_.novelty\0"].concat();
    assert_eq!((messages[0].tag, messages[0].body.clone()), (b'v', negotiated));
    let key = messages.iter().find(|message| message.tag == b'K').unwrap();
    assert_eq!(key.body.len(), 4 + 32);

    let mut raw = Raw::connect(server.address).await;
    raw.packet(b"\0\x02\0\0user\0ada\0\0").await;
    assert_eq!(raw.until_closed().await[0].field(b'C'), "0A000");
}

#[tokio::test]
async fn a_client_too_many_is_told_so_and_cancels_are_still_heard() {
    let server = Server::start_with(PgSettings { connections_max: 1, ..PgSettings::default() }).await;
    let mut first = server.raw().await;
    let mut second = Raw::connect(server.address).await;
    second.startup(&[("user", "ada"), ("database", "strandline")]).await;
    assert_eq!(second.until_closed().await[0].field(b'C'), "53300");
    let mut cancel = Raw::connect(server.address).await;
    cancel.packet(&[&80_877_102u32.to_be_bytes()[..], &[0; 8]].concat()).await;
    assert_eq!(cancel.until_closed().await, []);
    first.send(&query("SELECT 1")).await;
    assert_eq!(first.tags_until(b'Z').await, "TDCZ");
}

/// Nothing of a peer that has gone without a word shows but its silence.
#[tokio::test]
async fn who_falls_silent_before_its_startup_is_done_is_closed() {
    let settings = PgSettings { startup_timeout: Duration::from_millis(300), ..PgSettings::default() };
    let server = Server::start_with(settings).await;
    let mut silent = Vec::new();
    for said in [&b""[..], b"\0\0", b"\0\0\0\x20", b"\0\0\0\x20\0\x03\0\0user"] {
        let mut raw = Raw::connect(server.address).await;
        raw.send(said).await;
        silent.push(raw);
    }
    for mut raw in silent {
        let heard = raw.until_closed().await;
        assert!(heard.iter().all(|message| message.tag == b'E'), "nothing but why it ends");
    }
}

#[tokio::test]
async fn the_only_place_is_free_again_when_its_client_leaves() {
    let server = Server::start_with(PgSettings { connections_max: 1, ..PgSettings::default() }).await;
    for _ in 0..3 {
        let mut raw = server.raw().await;
        raw.send(&crate::raw::frame(b'X', b"")).await;
        assert_eq!(raw.until_closed().await, []);
    }
}

#[tokio::test]
async fn a_pipe_in_memory_serves_as_a_connection() {
    let server = Server::start().await;
    let (near, far) = tokio::io::duplex(4_096);
    tokio::spawn(serve_stream(far, server.engine(), PgSettings::default()));
    let mut config = tokio_postgres::Config::new();
    let (client, connection) =
        bounded(config.user("ada").dbname("strandline").connect_raw(near, NoTls)).await.unwrap();
    tokio::spawn(connection);
    assert_eq!(rows(&client, "SELECT 1").await, [["1"]]);
}
