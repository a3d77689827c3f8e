//! Numbers, intervals and series: where the planner alone would wrap, cut, or compare otherwise.

use strandline_sql::PgType;

use crate::fixture::Session;

async fn expect(session: &Session, expected: &[(&str, &str)]) {
    for (expression, expected) in expected {
        let sql = format!("SELECT {expression} FROM wikiticker WHERE _offset = 2");
        assert_eq!(session.run(&sql).await.value(), *expected, "{expression}");
    }
}

#[tokio::test]
async fn integers_that_do_not_fit_are_errors() {
    let session = Session::new();
    for expression in [
        "9223372036854775807 + 1",
        "9223372036854775807 + _offset",
        "_offset - 9223372036854775807 - 9223372036854775807",
        "_offset * 9223372036854775807",
    ] {
        let sql = format!("SELECT {expression} FROM wikiticker WHERE _offset = 2");
        let error = session.try_run(&sql, Vec::new()).await.unwrap_err();
        assert!(error.contains("verflow"), "{expression}: {error}");
    }
    expect(&session, &[("_offset + 3 * 4 - 5", "9"), ("(_offset - 4) * (_offset + 1)", "-6")]).await;
}

#[tokio::test]
async fn a_long_chain_of_operations_does_not_nest() {
    let sql = format!("SELECT _offset{} FROM wikiticker WHERE _offset = 2", " + 1".repeat(590));
    assert_eq!(Session::new().run(&sql).await.value(), "592");
}

#[tokio::test]
async fn sums_of_bigints_are_numerics_that_hold_them() {
    let session = Session::new();
    let answer =
        session.run("SELECT sum(x.n) FROM (SELECT 9223372036854775807 AS n FROM wikiticker) x").await;
    assert_eq!(answer.types, [PgType::Numeric]);
    assert_eq!(answer.value(), "46116860184273879035");
    let answer = session.run("SELECT sum(CASE WHEN added > 0 THEN 1 ELSE 0 END) FROM wikiticker").await;
    assert_eq!(answer.types, [PgType::Int8]);
    assert_eq!(answer.value(), "3");
}

#[tokio::test]
async fn quotients_of_numerics_keep_their_digits() {
    expect(
        &Session::new(),
        &[
            ("1 / 3.0", "0.33333333333333333333"),
            ("'0.305'::numeric(10,2)", "0.31"),
            ("10::numeric / 7", "1.42857142857142857142"),
            ("round(100.0 / 3, 2)", "33.33"),
            ("round(2.5)", "3"),
            ("7 / 2", "3"),
        ],
    )
    .await;
    let sql = "SELECT round(sum(added) / count(*), 1) FROM wikiticker";
    assert_eq!(Session::new().run(sql).await.value(), "6.4");
}

#[tokio::test]
async fn floats_round_to_even_and_read_their_digits_once() {
    expect(
        &Session::new(),
        &[
            ("round(0.5::float8)", "0.0"),
            ("round(1.5::float8)", "2.0"),
            ("2.5::float8::int", "2"),
            ("ratio::int", "2"),
            ("1e15::float8::text", "1e+15"),
            ("1e30::float8::text", "1e+30"),
            ("5e-324::float8::text", "5e-324"),
            ("0.8437447262671437::float8 = 0.8437447262671437", "true"),
            ("'x' || 1e20::float8", "x1e+20"),
        ],
    )
    .await;
}

#[tokio::test]
async fn integers_beyond_bigint_are_numerics() {
    let session = Session::new();
    for (literal, pg_type) in [
        ("18446744073709551615", PgType::Numeric),
        ("9223372036854775808", PgType::Numeric),
        ("-9223372036854775808", PgType::Int8),
        ("327267367867168100000", PgType::Numeric),
    ] {
        let answer = session.run(&format!("SELECT {literal}")).await;
        assert_eq!(answer.types, [pg_type], "{literal}");
        assert_eq!(answer.value(), literal);
    }
}

#[tokio::test]
async fn intervals_compare_by_their_length() {
    expect(
        &Session::new(),
        &[
            ("interval '1 day' = interval '24 hours'", "true"),
            ("interval '25 hours' > interval '1 day'", "true"),
            ("interval '1 month' BETWEEN interval '29 days' AND interval '31 days'", "true"),
            ("interval '1 month' IN (interval '30 days')", "true"),
            ("ts - '2015-09-01'::timestamptz > interval '11 days 11 hours'", "true"),
            ("ts - '2015-09-01'::timestamptz < '12 days'", "true"),
            ("(ts - timestamptz '2015-09-01')::text", "11 days 12:00:00.001"),
            ("extract(epoch from ts - timestamptz '2015-09-12 12:00')", "0.001"),
            ("extract(epoch from interval '1 year 1 month 1 day')", "34236000.0"),
        ],
    )
    .await;
}

#[tokio::test]
async fn days_of_an_interval_are_those_of_the_session_zone() {
    let denver = Session::in_zone("America/Denver");
    for (expression, expected) in [
        ("(timestamptz '2024-11-02 12:00' + interval '1 day')::text", "2024-11-03 12:00:00-07"),
        ("(timestamptz '2024-11-02 12:00' + interval '24 hours')::text", "2024-11-03 11:00:00-07"),
        ("(interval '1 month' + timestamptz '2024-10-31 20:00')::text", "2024-11-30 20:00:00-07"),
        ("(timestamptz '2024-03-31 20:00' - interval '1 month')::text", "2024-02-29 20:00:00-07"),
        ("(timestamptz '2024-11-02 12:00')::time::text", "12:00:00"),
    ] {
        assert_eq!(denver.run(&format!("SELECT {expression}")).await.value(), expected, "{expression}");
    }
}

#[tokio::test]
async fn series_of_times_run_over_every_type_of_time() {
    let session = Session::new();
    for (series, expected) in [
        ("timestamptz '2015-09-01', timestamptz '2015-09-03', interval '1 day'", "3"),
        ("timestamptz '2015-09-01', '2015-09-03', '12 hours'", "5"),
        ("'2015-09-01'::timestamp, '2015-09-02'::timestamp, '6 hours'", "5"),
        ("date '2015-09-01', date '2015-09-03', interval '1 day'", "3"),
    ] {
        let sql = format!("SELECT count(*) FROM generate_series({series}) AS d");
        assert_eq!(session.run(&sql).await.value(), expected, "{series}");
    }
    let sql = "SELECT string_agg(n::text, ',' ORDER BY d) FROM (SELECT d, count(w._offset) AS n \
               FROM generate_series(timestamptz '2015-09-12', '2015-09-13', '1 day') AS d \
               LEFT JOIN wikiticker w ON w.ts >= d AND w.ts < d + interval '1 day' GROUP BY d) x";
    assert_eq!(session.run(sql).await.value(), "4,1");
}

#[tokio::test]
async fn a_sign_is_no_part_of_the_operator_before_it() {
    expect(
        &Session::new(),
        &[
            ("_offset>-1", "true"),
            ("_offset<=-1", "false"),
            ("_offset*-1", "-2"),
            ("_offset%-2", "0"),
            ("~_offset", "-3"),
            ("substr('abc', 2)", "bc"),
            ("date_trunc('decade', ts)", "2010-01-01T00:00:00Z"),
            ("date_trunc('milliseconds', ts)", "2015-09-12T12:00:00.001Z"),
            ("to_char(ts, 'TMMonth W')", "September 2"),
        ],
    )
    .await;
}

#[tokio::test]
async fn numbers_with_an_exponent_are_numerics_of_their_value() {
    let expected = [
        ("1e10", "10000000000"),
        ("1e10::bigint", "10000000000"),
        ("CAST(1.5E3 AS int)", "1500"),
        ("1e+2::int + _offset", "102"),
        ("12.5e1", "125"),
        ("15e-1", "1.5"),
    ];
    expect(&Session::new(), &expected).await;
}

#[tokio::test]
async fn the_length_of_a_bytea_is_its_bytes() {
    let expected = [
        ("length('\\x00c3a9ff'::bytea)", "4"),
        ("octet_length('\\x00c3a9ff'::bytea)", "4"),
        ("length('é')", "1"),
        ("octet_length('é')", "2"),
    ];
    expect(&Session::new(), &expected).await;
}
