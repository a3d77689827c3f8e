//! Prepared statements: parameters, and columns that stay.

use datafusion::scalar::ScalarValue;
use strandline_engine::{ErrorKind, PgType, Prepared, Session};

use crate::fixture::{Fixture, answer, lines, run_with};

async fn prepare(session: &Session, sql: &str) -> Prepared {
    let parsed = session.parse(sql).await.unwrap().remove(0);
    session.prepare(parsed, Vec::new()).await.unwrap()
}

async fn execute(session: &Session, prepared: &Prepared, values: Vec<ScalarValue>) -> Vec<String> {
    let execution = session.execute(prepared, values).await.unwrap();
    lines(&answer(execution).await.unwrap().rows)
}

async fn numbers() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.topic("t", (0..5).map(|number| format!(r#"{{"n":{number},"s":"v{number}"}}"#))).await;
    fixture
}

#[tokio::test]
async fn parameters_take_the_types_of_their_places() {
    let fixture = numbers().await;
    let session = fixture.session();
    let sql = "SELECT s FROM t WHERE n = $1 AND ts >= $2 AND s LIKE $3 LIMIT $4";
    let prepared = prepare(&session, sql).await;
    let types = [PgType::Int8, PgType::Timestamptz, PgType::Text, PgType::Int8];
    assert_eq!(prepared.parameter_types(), types);
    let values = vec![
        ScalarValue::from("3"),
        ScalarValue::from("2023-11-14T22:13:23Z"),
        ScalarValue::from("v%"),
        ScalarValue::from("10"),
    ];
    assert_eq!(execute(&session, &prepared, values).await, ["v3"]);
    let typed = vec![
        ScalarValue::from(3_i64),
        ScalarValue::TimestampMicrosecond(Some(1_700_000_003_000_000), Some("UTC".into())),
        ScalarValue::from("v3"),
        ScalarValue::from(1_i64),
    ];
    assert_eq!(execute(&session, &prepared, typed).await, ["v3"]);
}

#[tokio::test]
async fn a_time_parameter_is_read_in_the_zone_of_the_session() {
    let fixture = numbers().await;
    let session = fixture.session_with(&[("TimeZone", "Asia/Kolkata")]);
    let prepared = prepare(&session, "SELECT count(*) FROM t WHERE ts >= $1").await;
    for text in [
        "2023-11-14T22:13:23Z",
        "2023-11-14 22:13:23+00:00",
        "2023-11-15 03:43:23",
        "2023-11-14T17:13:23-05:00",
    ] {
        assert_eq!(execute(&session, &prepared, vec![ScalarValue::from(text)]).await, ["2"], "{text}");
    }
    let error = session.execute(&prepared, vec![ScalarValue::from("soon")]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidDatetime);
}

#[tokio::test]
async fn wrong_parameters_are_refused() {
    let fixture = numbers().await;
    let session = fixture.session();
    let prepared = prepare(&session, "SELECT $1::int, n FROM t WHERE n = $2").await;
    let error = session.execute(&prepared, vec![ScalarValue::from("1")]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::ProtocolViolation);
    let values = vec![ScalarValue::from("1"), ScalarValue::from("x")];
    let error = session.execute(&prepared, values).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidText);
    let nulls = vec![ScalarValue::Utf8(None), ScalarValue::Utf8(None)];
    assert_eq!(execute(&session, &prepared, nulls).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_declared_type_is_kept() {
    let fixture = numbers().await;
    let session = fixture.session();
    let parsed = session.parse("SELECT n + $1 FROM t WHERE n = 2").await.unwrap().remove(0);
    let prepared = session.prepare(parsed, vec![Some(PgType::Int4)]).await.unwrap();
    assert_eq!(prepared.parameter_types(), [PgType::Int4]);
    assert_eq!(execute(&session, &prepared, vec![ScalarValue::from(40_i32)]).await, ["42"]);
}

#[tokio::test]
async fn a_statement_sees_new_records_and_keeps_its_columns() {
    let fixture = numbers().await;
    let session = fixture.session();
    let prepared = prepare(&session, "SELECT * FROM t WHERE n >= 4").await;
    let before = prepared.columns().unwrap().len();
    assert_eq!(execute(&session, &prepared, vec![]).await.len(), 1);
    fixture.append("t", [r#"{"n":5,"s":"v5","late":true}"#]).await;
    let fresh = prepare(&session, "SELECT * FROM t").await;
    assert_eq!(fresh.columns().unwrap().len(), before + 1);
    assert_eq!(execute(&session, &prepared, vec![]).await.len(), 2);
}

#[tokio::test]
async fn other_columns_after_a_new_creation_are_refused() {
    let fixture = numbers().await;
    let session = fixture.session();
    let star = prepare(&session, "SELECT * FROM t").await;
    let named = prepare(&session, "SELECT n FROM t").await;
    let topic_id = fixture.log.snapshot().topic("t").unwrap().id;
    fixture.log.delete_topic(topic_id).await.unwrap();
    let error = session.execute(&star, vec![]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::UndefinedTable);
    fixture.topic("t", [r#"{"n":7}"#]).await;
    fixture.query("SELECT n FROM t").await;
    let error = session.execute(&star, vec![]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::PlanChanged);
    assert_eq!(execute(&session, &named, vec![]).await, ["7"]);
}

#[tokio::test]
async fn a_statement_without_a_topic_takes_parameters_too() {
    let fixture = Fixture::new().await;
    let session = fixture.session();
    let answer = run_with(&session, "SELECT $1", vec![ScalarValue::from("x")]).await.unwrap();
    assert_eq!(lines(&answer.rows), ["x"]);
    assert_eq!(answer.columns[0].pg_type, PgType::Text);
}

#[tokio::test]
async fn a_time_between_two_milliseconds_bounds_as_it_should() {
    let fixture = numbers().await;
    let session = fixture.session();
    let half_a_millisecond_after = 1_700_000_002_000_500;
    let value = ScalarValue::TimestampMicrosecond(Some(half_a_millisecond_after), Some("UTC".into()));
    let cases = [
        ("ts >= $1", "3,4"),
        ("ts > $1", "3,4"),
        ("ts < $1", "0,1,2"),
        ("ts <= $1", "0,1,2"),
        ("$1 <= ts", "3,4"),
        ("ts = $1", ""),
        ("ts <> $1", "0,1,2,3,4"),
        ("ts BETWEEN $1 AND '2030-01-01'", "3,4"),
        ("ts BETWEEN '2000-01-01' AND $1", "0,1,2"),
    ];
    for (condition, expected) in cases {
        let sql = format!("SELECT _offset FROM t WHERE {condition} ORDER BY _offset");
        let prepared = prepare(&session, &sql).await;
        let found = execute(&session, &prepared, vec![value.clone()]).await;
        assert_eq!(found.join(","), expected, "{condition}");
    }
}
