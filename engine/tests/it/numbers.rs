//! Doubles, numerics and integers where they meet: as PostgreSQL has it.

use datafusion::scalar::ScalarValue;
use strandline_engine::{ErrorKind, PgType};

use crate::fixture::{Fixture, lines, run, run_with};

/// `m` and `d` are doubles, `u` is a numeric with a digit after the point, `n` one without, `s` a text.
async fn numbers() -> Fixture {
    let fixture = Fixture::new().await;
    let rows = [
        r#"{"m":1e-16,"d":1e16,"u":0.0,"n":18446744073709551615,"s":"a"}"#,
        r#"{"m":0.30000000000000004,"d":2.5,"u":0.3,"n":1,"s":"5"}"#,
        r#"{"m":0.5,"d":1e300,"u":12345678901234567890,"n":7,"s":"b"}"#,
    ];
    fixture.topic("t", rows).await;
    fixture
}

async fn offsets(fixture: &Fixture, condition: &str) -> String {
    let sql = format!("SELECT _offset FROM t WHERE {condition} ORDER BY _offset");
    lines(&fixture.query(&sql).await).join(",")
}

#[tokio::test]
async fn the_columns_have_the_types_of_these_tests() {
    let fixture = numbers().await;
    let answer = run(&fixture.session(), "SELECT m, d, u, n, s FROM t").await.unwrap();
    let types: Vec<PgType> = answer.columns.iter().map(|column| column.pg_type).collect();
    let expected = [PgType::Float8, PgType::Float8, PgType::Numeric, PgType::Numeric, PgType::Text];
    assert_eq!(types, expected);
}

#[tokio::test]
async fn doubles_and_numerics_are_compared_as_doubles() {
    let fixture = numbers().await;
    for (condition, expected) in [
        ("m > 0e0", "0,1,2"),
        ("m > 0.0", "0,1,2"),
        ("m = u", ""),
        ("u = m", ""),
        ("m = 0.1 + 0.2", ""),
        ("m = 0.1::float8 + 0.2::float8", "1"),
        ("m = cast(0.3 AS numeric(10,2))", ""),
        ("m = 0.30000000000000004", "1"),
        ("m IN (0.3, 0.5)", "2"),
        ("m BETWEEN 0.30000000000000001 AND 0.4", "1"),
        ("m IS DISTINCT FROM 0.5", "0,1"),
        ("m < -0.5 OR m > 0.4", "2"),
        ("d > 1e10", "0,2"),
        ("1e300::float8 > 1e10", "0,1,2"),
        ("d = 1e16", "0"),
        ("m * 2.0 = 1.0", "2"),
        ("m - u > 1e-17", "0,1"),
        ("CASE m WHEN 0.5 THEN true ELSE false END", "2"),
        ("m IN (SELECT u FROM t)", ""),
        ("u IN (SELECT m FROM t)", ""),
    ] {
        assert_eq!(offsets(&fixture, condition).await, expected, "{condition}");
    }
    let joined = "SELECT count(*) FROM t AS a JOIN t AS b ON a.m = b.u";
    assert_eq!(fixture.value(joined).await.as_deref(), Some("0"));
    let own = "SELECT count(*) FROM t AS a JOIN t AS b ON a.u::float8 = b.u";
    assert_eq!(fixture.value(own).await.as_deref(), Some("3"));
}

#[tokio::test]
async fn doubles_and_numerics_in_one_column_are_doubles() {
    let fixture = numbers().await;
    let session = fixture.session();
    for sql in [
        "SELECT CASE WHEN _offset = 0 THEN m ELSE u END FROM t",
        "SELECT CASE WHEN _offset = 0 THEN u ELSE m END FROM t",
        "SELECT greatest(m, u) FROM t",
        "SELECT coalesce(u, m) FROM t",
        "SELECT u + m FROM t",
        "SELECT u FROM t UNION ALL SELECT m FROM t",
        "SELECT m FROM t UNION SELECT 0.5",
        "SELECT u FROM t UNION ALL (SELECT m FROM t ORDER BY m LIMIT 1)",
        "VALUES (1.5), (0.5::float8)",
    ] {
        let answer = run(&session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert_eq!(answer.columns[0].pg_type, PgType::Float8, "{sql}");
    }
    let union = "SELECT x FROM (SELECT u AS x FROM t UNION SELECT m FROM t) AS y WHERE x < 0.4 ORDER BY x";
    assert_eq!(lines(&fixture.query(union).await), ["0.0", "1e-16", "0.3", "0.30000000000000004"]);
}

#[tokio::test]
async fn a_numeric_meets_numbers_with_other_digits() {
    let fixture = numbers().await;
    for (condition, expected) in [
        ("n > 1.5", "0,2"),
        ("n >= 1.0", "0,1,2"),
        ("n = 1.0", "1"),
        ("n = '7.0'", "2"),
        ("n <> 7.00", "0,1"),
        ("n IN (1.0, 2.0)", "1"),
        ("n NOT IN (1.0, 7.5)", "0,2"),
        ("n BETWEEN 0.5 AND 2.5", "1"),
        ("n + 0.5 = 1.5", "1"),
        ("n * 1.5 = 10.5", "2"),
        ("n - 0.25 < 1", "1"),
        ("n % 2.5 = 2", "2"),
        ("coalesce(n, 0.5) > 1.5", "0,2"),
        ("nullif(n, 1.0) IS NULL", "1"),
        ("CASE WHEN _offset = 1 THEN 1.5 ELSE n END = 1.5", "1"),
        ("n = u", ""),
        ("n < u", "2"),
        ("n > -0.5", "0,1,2"),
        ("n + '0.5' = 1.5", "1"),
        ("'2' * m = 1", "2"),
        ("n IS DISTINCT FROM 7.0", "0,1"),
        ("u > 0.25", "1,2"),
        ("u = 12345678901234567890.00", "2"),
        ("n IN (SELECT 7.0)", "2"),
    ] {
        assert_eq!(offsets(&fixture, condition).await, expected, "{condition}");
    }
    for (sql, expected) in [
        ("SELECT sum(n) * 1.5 FROM t WHERE _offset > 0", "12.0"),
        ("SELECT sum(n) FROM t HAVING sum(n) > 1.5", "18446744073709551623"),
        ("SELECT max(x) FROM (SELECT n AS x FROM t UNION ALL SELECT 1.5) AS y", "18446744073709551615.0"),
    ] {
        assert_eq!(fixture.value(sql).await.as_deref(), Some(expected), "{sql}");
    }
}

#[tokio::test]
async fn a_parameter_beside_a_numeric_keeps_its_digits() {
    let fixture = numbers().await;
    let session = fixture.session();
    let value = ScalarValue::Decimal128(Some(15), 38, 1);
    let answer =
        run_with(&session, "SELECT _offset FROM t WHERE n > $1 ORDER BY 1", vec![value.clone()]).await;
    assert_eq!(lines(&answer.unwrap().rows), ["0", "2"]);
    let answer = run_with(&session, "SELECT _offset FROM t WHERE d > $1 ORDER BY 1", vec![value]).await;
    assert_eq!(lines(&answer.unwrap().rows), ["0", "1", "2"]);
}

#[tokio::test]
async fn text_is_not_compared_with_numbers() {
    let fixture = numbers().await;
    for (condition, message) in [
        ("s = 5", "operator does not exist: text = bigint"),
        ("5 = s", "operator does not exist: bigint = text"),
        ("s IN (5, 6)", "operator does not exist: text = bigint"),
        ("s BETWEEN 1 AND 9", "operator does not exist: text >= bigint"),
        ("s = ANY(ARRAY[1, 2])", "operator does not exist: text = bigint"),
        ("nullif(s, 5) IS NULL", "operator does not exist: text = bigint"),
        ("s IS DISTINCT FROM 5", "operator does not exist: text = bigint"),
        ("CASE s WHEN 5 THEN true END", "operator does not exist: text = bigint"),
        ("s IN (SELECT n FROM t)", "operator does not exist: text = numeric"),
        ("ts = s", "operator does not exist: timestamp with time zone = text"),
    ] {
        let error = fixture.error(&format!("SELECT _offset FROM t WHERE {condition}")).await;
        assert_eq!(error.kind, ErrorKind::UndefinedFunction, "{condition}: {error}");
        assert_eq!(error.message, message, "{condition}");
    }
    assert_eq!(offsets(&fixture, "s = '5'").await, "1");
    assert_eq!(offsets(&fixture, "s::int = 5 AND _offset = 1").await, "1");
}

#[tokio::test]
async fn times_of_every_year_are_cut_to_units() {
    let fixture = Fixture::new().await;
    let rows = [r#"{"at":"9999-12-31T23:59:59Z"}"#, r#"{"at":"0001-01-01T00:00:00.5Z"}"#];
    fixture.topic("y", rows).await;
    for (unit, first, second) in [
        ("hour", "9999-12-31T23:00:00Z", "0001-01-01T00:00:00Z"),
        ("day", "9999-12-31T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("month", "9999-12-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("century", "9901-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
    ] {
        let sql = format!("SELECT date_trunc('{unit}', at) FROM y ORDER BY _offset");
        assert_eq!(lines(&fixture.query(&sql).await), [first, second], "{unit}");
    }
}
