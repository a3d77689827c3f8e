//! Sessions: settings, transaction words, what a client is told.

use strandline_engine::{ErrorKind, Execution, Session, TransactionStatus};

use crate::fixture::{Fixture, options, run};

async fn one(session: &Session, sql: &str) -> String {
    let answer = run(session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    answer.rows[0][0].clone().unwrap_or_default()
}

#[tokio::test]
async fn only_the_known_databases_open() {
    let fixture = Fixture::new().await;
    for database in ["strandline", "postgres"] {
        let mut options = options(&[]);
        options.database = database.to_owned();
        assert!(fixture.engine.session(options).is_ok());
    }
    let mut unknown = options(&[]);
    unknown.database = "sales".to_owned();
    assert_eq!(fixture.engine.session(unknown).unwrap_err().kind, ErrorKind::UndefinedDatabase);
}

#[tokio::test]
async fn settings_are_shown_as_they_were_set() {
    let fixture = Fixture::new().await;
    let session = fixture.session_with(&[("extra_float_digits", "3")]);
    assert_eq!(one(&session, "SHOW server_version").await, "16.6");
    assert_eq!(one(&session, "SHOW extra_float_digits").await, "3");
    one(&session, "SET TIME ZONE 'America/Denver'").await;
    assert_eq!(one(&session, "SHOW TIME ZONE").await, "America/Denver");
    let shown = run(&session, "SHOW timezone").await.unwrap();
    assert_eq!(shown.columns[0].name, "TimeZone");
    one(&session, "RESET ALL").await;
    assert_eq!(session.time_zone(), "UTC");
    assert_eq!(one(&session, "SHOW transaction_isolation").await, "read committed");
    assert_eq!(one(&session, "SELECT current_setting('default_table_access_method')").await, "heap");
    assert!(run(&session, "SHOW ALL").await.unwrap().rows.len() > 40);
}

#[tokio::test]
async fn a_change_of_a_reported_setting_is_told() {
    let fixture = Fixture::new().await;
    let session = fixture.session();
    let parsed = session.parse("SET application_name = 'grafana'").await.unwrap().remove(0);
    let prepared = session.prepare(parsed, Vec::new()).await.unwrap();
    match session.execute(&prepared, Vec::new()).await.unwrap() {
        Execution::Command { tag, parameter_status, .. } => {
            assert_eq!(tag, "SET");
            assert_eq!(parameter_status, [("application_name".to_owned(), "grafana".to_owned())]);
        }
        rows @ Execution::Rows { .. } => panic!("{rows:?}"),
    }
}

#[tokio::test]
async fn a_failed_block_ends_before_anything_else_runs() {
    let fixture = Fixture::new().await;
    let session = fixture.session();
    assert_eq!(one(&session, "BEGIN").await, "BEGIN");
    one(&session, "SET application_name = 'inside'").await;
    session.fail_transaction();
    assert_eq!(session.transaction_status(), TransactionStatus::Failed);
    let error = run(&session, "SELECT 1").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::FailedTransaction);
    assert_eq!(one(&session, "COMMIT").await, "ROLLBACK");
    assert_eq!(one(&session, "SHOW application_name").await, "tests");
    assert_eq!(session.transaction_status(), TransactionStatus::Idle);
}

#[tokio::test]
async fn the_zone_of_the_session_moves_days_and_no_instant() {
    let fixture = Fixture::new().await;
    fixture.topic("t", ["a", "b"]).await;
    let counts = "SELECT count(*) FROM t WHERE ts >= '2023-11-14T22:13:21Z'";
    let days = "SELECT date_trunc('day', ts)::text FROM t LIMIT 1";
    let mut shown = Vec::new();
    for zone in ["UTC", "Asia/Kolkata", "America/Denver"] {
        let session = fixture.session_with(&[("TimeZone", zone)]);
        assert_eq!(one(&session, counts).await, "1", "{zone}");
        shown.push(one(&session, days).await);
    }
    assert!(!shown[0].is_empty(), "{shown:?}");
}
