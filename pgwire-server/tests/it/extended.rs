//! The extended protocol.

use crate::fixture::{Server, bounded, code};
use crate::raw::{Raw, bind, close, describe, execute, flush, frame, parse, query, sync};

async fn tags(raw: &mut Raw, messages: &[Vec<u8>]) -> String {
    raw.send(&messages.concat()).await;
    raw.tags_until(b'Z').await
}

#[tokio::test]
async fn parameters_and_results_travel_in_binary() {
    let server = Server::with_events().await;
    let client = server.connect().await;
    let statement = "SELECT n, x, name, ok FROM events WHERE n >= $1 AND n < $2 ORDER BY n";
    let rows = bounded(client.query(statement, &[&1i64, &3i64])).await.unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].get::<_, i64>(0), 1);
    assert_eq!(rows[0].get::<_, f64>(1), 1.5);
    assert_eq!(rows[0].get::<_, &str>(2), "a");
    assert_eq!(rows[0].get::<_, Option<bool>>(3), Some(true));
    assert_eq!(rows[1].get::<_, Option<f64>>(1), None);
}

#[tokio::test]
async fn a_prepared_statement_runs_many_times() {
    let server = Server::with_events().await;
    let client = server.connect().await;
    let statement = bounded(client.prepare("SELECT name FROM events WHERE n = $1")).await.unwrap();
    assert_eq!(statement.params(), [tokio_postgres::types::Type::INT8]);
    assert_eq!(statement.columns()[0].name(), "name");
    for (n, expected) in [(1i64, Some("a")), (3, None), (1, Some("a"))] {
        let row = bounded(client.query_one(&statement, &[&n])).await.unwrap();
        assert_eq!(row.get::<_, Option<&str>>(0), expected);
    }
}

#[tokio::test]
async fn a_round_is_answered_without_an_early_ready() {
    let server = Server::with_events().await;
    let mut raw = server.raw().await;
    let sql = "SELECT n FROM events WHERE n > $1 ORDER BY n";
    let round = [
        parse("s", sql),
        describe(b'S', "s"),
        bind("p", "s", &[Some("1")]),
        describe(b'P', "p"),
        execute("p", 0),
        close(b'P', "p"),
        close(b'S', "s"),
        close(b'S', "never there"),
        sync(),
    ];
    assert_eq!(tags(&mut raw, &round).await, "1tT2TDDC333Z");
}

#[tokio::test]
async fn describe_and_flush_answer_before_the_sync() {
    let server = Server::with_events().await;
    let mut raw = server.raw().await;
    raw.send(&[parse("", "SELECT n FROM events WHERE name = $1"), describe(b'S', ""), flush()].concat())
        .await;
    let messages = raw.until(b'T').await;
    let tags: Vec<char> = messages.iter().map(|message| char::from(message.tag)).collect();
    assert_eq!(tags, ['1', 't', 'T']);
    assert_eq!(messages[1].body, [0, 1, 0, 0, 0, 25]);
}

#[tokio::test]
async fn portals_suspend_at_the_row_limit_and_go_on() {
    let server = Server::with_events().await;
    let mut raw = server.raw().await;
    let begin = [parse("", "SELECT n FROM events ORDER BY n"), bind("p", "", &[])];
    raw.send(&begin.concat()).await;
    let round = [execute("p", 2), execute("p", 1), execute("p", 1), execute("p", 0), sync()];
    raw.send(&round.concat()).await;
    let messages = raw.until(b'Z').await;
    let tags: String = messages.iter().map(|message| char::from(message.tag)).collect();
    // A limit that is just reached suspends: whether more rows come was not looked at.
    assert_eq!(tags, "12DDsDsCCZ");
    assert_eq!(messages[7].text(), "SELECT 0");
    assert_eq!(messages[8].text(), "SELECT 0");
}

#[tokio::test]
async fn portals_live_as_long_as_their_transaction() {
    let server = Server::with_events().await;
    let mut raw = server.raw().await;
    let opened =
        [parse("s", "SELECT n FROM events ORDER BY n"), bind("p", "s", &[]), execute("p", 1), sync()];
    assert_eq!(tags(&mut raw, &opened).await, "12DsZ");
    assert_eq!(tags(&mut raw, &[execute("p", 1), sync()]).await, "EZ");

    assert_eq!(tags(&mut raw, &[query("BEGIN")]).await, "CZ");
    let opened = [bind("p", "s", &[]), execute("p", 1), sync()];
    assert_eq!(tags(&mut raw, &opened).await, "2DsZ");
    assert_eq!(tags(&mut raw, &[execute("p", 0), sync()]).await, "DDCZ");
    assert_eq!(tags(&mut raw, &[query("COMMIT")]).await, "CZ");
    raw.send(&[execute("p", 0), sync()].concat()).await;
    assert_eq!(raw.until(b'Z').await[0].field(b'C'), "34000");
}

#[tokio::test]
async fn after_an_error_everything_up_to_the_sync_is_skipped() {
    let server = Server::with_events().await;
    let mut raw = server.raw().await;
    let round = [
        parse("", "SELECT nonsense"),
        bind("", "", &[]),
        execute("", 0),
        query("SELECT 1"),
        sync(),
        parse("", "SELECT 1"),
        bind("", "", &[]),
        execute("", 0),
        sync(),
    ];
    raw.send(&round.concat()).await;
    assert_eq!(raw.tags_until(b'Z').await, "EZ");
    assert_eq!(raw.tags_until(b'Z').await, "12DCZ");
}

#[tokio::test]
async fn an_empty_statement_can_be_prepared_and_run() {
    let server = Server::start().await;
    let mut raw = server.raw().await;
    let round =
        [parse("", ""), describe(b'S', ""), bind("", "", &[]), describe(b'P', ""), execute("", 0), sync()];
    assert_eq!(tags(&mut raw, &round).await, "1tn2nIZ");
}

#[tokio::test]
async fn commands_have_no_columns() {
    let server = Server::start().await;
    let mut raw = server.raw().await;
    let round = [
        parse("", "SET application_name = 'it'"),
        describe(b'S', ""),
        bind("", "", &[]),
        execute("", 1),
        sync(),
    ];
    assert_eq!(tags(&mut raw, &round).await, "1tn2CSZ");
}

#[tokio::test]
async fn misuse_has_the_codes_of_postgres() {
    let server = Server::with_events().await;
    let mut raw = server.raw().await;
    assert_eq!(tags(&mut raw, &[parse("s", "SELECT n FROM events WHERE n = $1"), sync()]).await, "1Z");
    let nul = frame(b'B', b"\0s\0\0\0\0\x01\0\0\0\x031\x002\0\0");
    let cases = [
        (parse("s", "SELECT 1"), "42P05"),
        (parse("", "SELECT 1; SELECT 2"), "42601"),
        (bind("", "nothing", &[]), "26000"),
        (bind("", "s", &[]), "08P01"),
        (bind("", "s", &[Some("x")]), "22P02"),
        (nul, "22021"),
        (describe(b'P', "nothing"), "34000"),
        (execute("nothing", 0), "34000"),
        (frame(b'P', b"\0SELECT $1\0\0\x01\0\x0f\x42\x3f"), "42704"),
    ];
    for (message, expected) in cases {
        raw.send(&[message, sync()].concat()).await;
        let error = raw.until(b'Z').await.remove(0);
        assert_eq!((error.tag, error.field(b'C').as_str()), (b'E', expected), "{}", error.text());
    }
}

#[tokio::test]
async fn deallocated_statements_are_gone() {
    let server = Server::start().await;
    let mut raw = server.raw().await;
    assert_eq!(tags(&mut raw, &[parse("s", "SELECT 1"), sync()]).await, "1Z");
    assert_eq!(tags(&mut raw, &[query("DEALLOCATE s")]).await, "CZ");
    assert_eq!(tags(&mut raw, &[bind("", "s", &[]), sync()]).await, "EZ");
    assert_eq!(tags(&mut raw, &[parse("s", "SELECT 1"), sync(), query("DISCARD ALL")]).await, "1Z");
    assert_eq!(raw.tags_until(b'Z').await.replace('S', ""), "CZ");
    assert_eq!(tags(&mut raw, &[bind("", "s", &[]), sync()]).await, "EZ");
}

#[tokio::test]
async fn a_failed_transaction_refuses_the_extended_protocol_too() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let transaction = bounded(client.transaction()).await.unwrap();
    let error = bounded(transaction.query("SELECT 1/0", &[])).await.unwrap_err();
    assert_eq!(code(&error), "22012");
    let error = bounded(transaction.query("SELECT 1", &[])).await.unwrap_err();
    assert_eq!(code(&error), "25P02");
    bounded(transaction.rollback()).await.unwrap();
    assert_eq!(bounded(client.query("SELECT 1", &[])).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_portal_of_the_driver_pages_through_rows() {
    let server = Server::with_big().await;
    let mut client = server.connect().await;
    let transaction = bounded(client.transaction()).await.unwrap();
    let portal = bounded(transaction.bind("SELECT n FROM big ORDER BY _offset", &[])).await.unwrap();
    let mut seen = 0i64;
    loop {
        let page = bounded(transaction.query_portal(&portal, 300)).await.unwrap();
        for row in &page {
            assert_eq!(row.get::<_, i64>(0), seen);
            seen += 1;
        }
        if page.is_empty() {
            break;
        }
    }
    assert_eq!(seen, 2_000);
}
