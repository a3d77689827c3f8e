//! Messages that lie: the connection ends, and nothing else is harmed.

use strandline_pgwire_server::PgSettings;

use crate::fixture::Server;
use crate::raw::{Raw, bind, execute, frame, parse, query, sync};

/// What a fresh session hears before the end of its connection.
async fn answer(server: &Server, bytes: &[u8]) -> Vec<String> {
    let mut raw = server.raw().await;
    raw.send(bytes).await;
    raw.until_closed().await.iter().map(|message| message.field(b'C')).collect()
}

#[tokio::test]
async fn lying_lengths_end_the_connection_with_a_protocol_violation() {
    let server = Server::start().await;
    let lies: [&[u8]; 12] = [
        b"Q\0\0\0\0",
        b"Q\0\0\0\x03",
        b"Q\xff\xff\xff\xff",
        b"Q\x7f\xff\xff\xff",
        b"S\0\0\0\x05\0",
        b"E\0\x10\0\0",
        b"Q\0\0\0\x05a",
        b"P\0\0\0\x0a\0a\0\xff\xff\0",
        b"B\0\0\0\x0c\0\0\0\0\xff\xff\0\0",
        b"B\0\0\0\x10\0\0\0\0\0\x01\x7f\xff\xff\xff\0\0",
        b"D\0\0\0\x06Z\0",
        b"z\0\0\0\x04",
    ];
    for lie in lies {
        assert_eq!(answer(&server, lie).await, ["08P01"], "{lie:x?}");
    }
}

#[tokio::test]
async fn lying_first_packets_end_the_connection() {
    let server = Server::start().await;
    let lies: [&[u8]; 6] = [
        b"\0\0\0\0",
        b"\0\0\0\x04",
        b"\x7f\xff\xff\xff\0\x03\0\0",
        b"\xff\xff\xff\xff",
        b"\0\0\0\x0c\0\x03\0\0user",
        b"GET / HTTP/1.1\r\n\r\n",
    ];
    for lie in lies {
        let mut raw = Raw::connect(server.address).await;
        raw.send(lie).await;
        let answer = raw.until_closed().await;
        assert_eq!(
            answer.iter().map(|message| message.field(b'C')).collect::<Vec<_>>(),
            ["08P01"],
            "{lie:x?}"
        );
    }
}

#[tokio::test]
async fn a_message_beyond_the_bound_is_refused_and_one_below_it_is_not() {
    let settings = PgSettings { message_bytes_max: 20_000, ..PgSettings::default() };
    let server = Server::start_with(settings).await;
    let mut raw = server.raw().await;
    let long = format!("SELECT '{}'", "x".repeat(15_000));
    raw.send(&query(&long)).await;
    assert_eq!(raw.tags_until(b'Z').await, "TDCZ");
    assert_eq!(answer(&server, &query(&"x".repeat(20_000))).await, ["08P01"]);
}

#[tokio::test]
async fn any_changed_byte_harms_no_other_connection() {
    let server = Server::start().await;
    let mut other = server.raw().await;
    let round = [parse("s", "SELECT $1"), bind("", "s", &[Some("x")]), execute("", 0), sync()].concat();
    for at in 0..round.len() {
        for value in [0x00, 0x7f, 0xff] {
            let mut changed = round.clone();
            changed[at] = value;
            let mut raw = server.raw().await;
            // Whatever the message became, Terminate or the end of the stream ends it.
            raw.send(&[changed, frame(b'X', b"")].concat()).await;
        }
    }
    other.send(&query("SELECT 1")).await;
    assert_eq!(other.tags_until(b'Z').await, "TDCZ");
}

#[tokio::test]
async fn text_that_is_not_utf8_is_an_error_of_its_statement_only() {
    let server = Server::start().await;
    let mut raw = server.raw().await;
    raw.send(&frame(b'Q', b"SELECT '\xff'\0")).await;
    let messages = raw.until(b'Z').await;
    assert_eq!(messages[0].field(b'C'), "22021");
    raw.send(&query("SELECT 1")).await;
    assert_eq!(raw.tags_until(b'Z').await, "TDCZ");
}

#[tokio::test]
async fn prepared_statements_and_portals_are_bounded() {
    let settings = PgSettings { prepared_statements_max: 2, portals_max: 1, ..PgSettings::default() };
    let server = Server::start_with(settings).await;
    let mut raw = server.raw().await;
    let statements = [parse("a", "SELECT 1"), parse("b", "SELECT 1"), parse("c", "SELECT 1"), sync()];
    raw.send(&statements.concat()).await;
    let messages = raw.until(b'Z').await;
    assert_eq!(messages[2].field(b'C'), "53400");
    raw.send(&[bind("p", "a", &[]), bind("q", "a", &[]), sync()].concat()).await;
    assert_eq!(raw.until(b'Z').await[1].field(b'C'), "53400");
}
