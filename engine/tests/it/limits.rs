//! What stops a statement: cancel, timeout, memory, a client that goes away.

use std::time::Duration;

use futures::StreamExt;
use strandline_engine::{EngineSettings, ErrorKind, Execution, Session};

use crate::fixture::{Fixture, run};

/// Far more rows than any test waits for.
const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 1000000) a(n), generate_series(1, 1000000) b(n) \
                       WHERE (a.n * b.n) % 7 = 8";
const PATIENCE: Duration = Duration::from_secs(30);

async fn start(session: &Session, sql: &str) -> Execution {
    let parsed = session.parse(sql).await.unwrap().remove(0);
    let prepared = session.prepare(parsed, Vec::new()).await.unwrap();
    session.execute(&prepared, Vec::new()).await.unwrap()
}

async fn running(fixture: &Fixture) -> usize {
    let sql = "SELECT query FROM strandline.queries WHERE query LIKE 'SELECT count%'";
    fixture.query(sql).await.len()
}

/// Waits until this many of the endless queries run.
async fn until_running(fixture: &Fixture, wanted: usize) {
    let reached = async {
        while running(fixture).await != wanted {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, reached).await.expect("the count of running queries is reached");
}

#[tokio::test]
async fn a_cancel_stops_the_running_statement_and_no_later_one() {
    let fixture = Fixture::new().await;
    let session = fixture.session();
    let Execution::Rows { mut stream, .. } = start(&session, ENDLESS).await else { panic!("no rows") };
    until_running(&fixture, 1).await;
    session.cancel_handle().cancel();
    let item = tokio::time::timeout(PATIENCE, stream.next()).await.expect("a cancel is quick");
    assert_eq!(item.unwrap().unwrap_err().kind, ErrorKind::Canceled);
    until_running(&fixture, 0).await;
    session.cancel_handle().cancel();
    assert!(run(&session, "SELECT 1").await.is_ok());
}

#[tokio::test]
async fn a_dropped_stream_stops_its_query() {
    let fixture = Fixture::new().await;
    let session = fixture.session();
    let execution = start(&session, ENDLESS).await;
    until_running(&fixture, 1).await;
    drop(execution);
    until_running(&fixture, 0).await;
}

#[tokio::test]
async fn a_statement_ends_at_its_timeout() {
    let fixture = Fixture::new().await;
    let session = fixture.session_with(&[("statement_timeout", "50ms")]);
    let outcome = tokio::time::timeout(PATIENCE, run(&session, ENDLESS)).await.expect("a timeout is quick");
    let error = outcome.unwrap_err();
    assert_eq!(error.kind, ErrorKind::StatementTimeout);
    assert!(error.message.contains("statement timeout"), "{error}");
}

/// One step of this plan goes through the pairs of a whole batch and a million rows, on every thread of
/// the engine.
const LONG_STEP: &str = "SELECT count(*) FROM generate_series(1, 1000000) a(n) \
                         JOIN generate_series(1, 1000000) b(n) ON (a.n * b.n) % 7 = 8";

async fn until_nothing_else_runs(fixture: &Fixture) {
    let alone = async {
        while fixture.query("SELECT query FROM strandline.queries").await.len() > 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, alone).await.expect("the stopped statement ends");
}

#[tokio::test]
async fn a_timeout_is_answered_in_the_middle_of_a_step_and_ends_it() {
    let fixture = Fixture::new().await;
    let hashed = "SELECT count(*) FROM generate_series(1, 200000) a(n) \
                  JOIN generate_series(1, 200000) b(n) ON a.n % 2 = b.n % 2 AND (a.n * b.n) % 7 = 8";
    let sorted = "SELECT a.n FROM generate_series(1, 1000000) a(n), generate_series(1, 1000000) b(n) \
                  WHERE a.n + b.n < 0 ORDER BY 1";
    for sql in [LONG_STEP, hashed, sorted] {
        for sql in [sql.to_owned(), format!("EXPLAIN ANALYZE {sql}")] {
            let session = fixture.session_with(&[("statement_timeout", "300ms")]);
            let outcome = tokio::time::timeout(Duration::from_secs(3), run(&session, &sql)).await;
            let error = outcome.expect("a timeout is answered at once").unwrap_err();
            assert_eq!(error.kind, ErrorKind::StatementTimeout, "{sql}");
            until_nothing_else_runs(&fixture).await;
        }
    }
}

#[tokio::test]
async fn a_query_beyond_its_memory_fails_alone() {
    let settings =
        EngineSettings { query_memory_bytes: 1 << 20, spill_bytes_max: 1 << 20, ..EngineSettings::default() };
    let fixture = Fixture::with_settings(settings).await;
    let session = fixture.session();
    let big = "SELECT array_agg(a.n) FROM generate_series(1, 3000000) a(n)";
    let error = run(&session, big).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::OutOfMemory, "{error:?}");
    assert!(run(&session, "SELECT 1").await.is_ok());
}

#[tokio::test]
async fn a_client_that_does_not_read_stops_the_query_from_running_ahead() {
    let fixture = Fixture::new().await;
    let session = fixture.session();
    let sql = "SELECT a.n FROM generate_series(1, 100000000) a(n)";
    let Execution::Rows { mut stream, .. } = start(&session, sql).await else { panic!("no rows") };
    assert!(stream.next().await.unwrap().is_ok());
    let rows = "SELECT rows FROM strandline.queries WHERE query LIKE 'SELECT a.n%'";
    let rows: u64 = fixture.value(rows).await.unwrap().parse().unwrap();
    assert!(rows < 1_000_000, "{rows} rows were made for a client that took one batch");
}

#[tokio::test]
async fn a_client_that_does_not_read_keeps_no_other_from_running() {
    let settings = EngineSettings { concurrent_queries: 1, ..EngineSettings::default() };
    let fixture = Fixture::with_settings(settings).await;
    let session = fixture.session();
    let sql = "SELECT a.n FROM generate_series(1, 100000000) a(n)";
    let Execution::Rows { mut stream, .. } = start(&session, sql).await else { panic!("no rows") };
    assert!(stream.next().await.unwrap().is_ok());
    let other = fixture.session();
    let other =
        tokio::time::timeout(PATIENCE, run(&other, "SELECT 1")).await.expect("the other query gets its turn");
    assert_eq!(other.unwrap().rows.len(), 1);
}
